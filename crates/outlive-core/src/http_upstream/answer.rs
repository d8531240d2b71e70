//! What a server says in an exchange, and whether that is the answer.

use serde::Deserialize;

use super::exchange::Exchange;
use super::refusal::{has_error, is_own, sounds_lost};
use super::{HttpUpstream, Output, Slot, era};
use crate::frame::Frame;
use crate::link::LinkInput;
use crate::message::{Id, Kind, Message};
use crate::time::Time;

/// What an answer to `initialize` or `server/discover` says.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct InitializeResult {
    protocol_version: Option<String>,
    #[serde(default)]
    supported_versions: Vec<String>,
}

/// Whether a message answers the request of this id.
fn answers(message: &Message, id: &Id) -> bool {
    message.kind() == Kind::Response && (is_own(message, id) || message.id() == Some(&Id::Null))
}

/// Whether what a server says is the answer to the request of this id.
pub(super) fn is_answer(frame: &Frame, id: &Id) -> bool {
    frame.message().is_some_and(|message| answers(message, id))
}

impl HttpUpstream {
    /// Whether a body that is a response answers another request, or is no response of JSON-RPC.
    pub(super) fn answers_another(&self, it: &Exchange, frame: &Frame) -> bool {
        let Some(message) = frame.message() else {
            return false;
        };
        let proper = message.error().is_none() || has_error(message);
        message.kind() == Kind::Response && !(answers(message, &it.id) && proper)
    }

    /// Passes on what the server says; tells whether that answers the request. `alone`: it is all the server says, so
    /// if it cannot be read, it is the answer all the same.
    pub(super) fn deliver(
        &mut self,
        now: Time,
        slot: Slot,
        it: &Exchange,
        frame: Frame,
        alone: bool,
    ) -> bool {
        if slot == Slot::Listing {
            return self.deliver_page(now, it, frame);
        }
        let id = &it.id;
        let answered = match &frame {
            Frame::Message(message) => answers(message, id),
            Frame::Batch(all) => all.iter().flatten().any(|message| answers(message, id)),
            // One that is broken is an answer all the same, if it is for this request.
            Frame::Defect(defect) => defect.id.as_ref().is_some_and(|it| alone || it == id),
            Frame::TooLong(too_long) => too_long.id.as_ref() == Some(id),
        };
        match frame {
            Frame::Message(message) if answered => self.answer(now, it, message),
            // The stream of a request names whom the server means.
            frame => self.pass(now, LinkInput::FrameOf(id.clone(), frame)),
        }
        answered
    }

    fn answer(&mut self, now: Time, it: &Exchange, message: Message) {
        let sounds_lost = self.named && sounds_lost(&message);
        if sounds_lost && it.message.is("ping") {
            // No tool is behind it, so it can only be about the session.
            let (id, status) = (Some(it.id.clone()), 200);
            return self.pass(now, LinkInput::Expired { id, status });
        }
        self.learn(it, &message);
        let answer = match it.message.method() {
            "initialize" => era::explain(message),
            _ => message,
        };
        let answer = match answer.id_json() == it.message.id_json() {
            true => answer,
            false => answer.with_id(it.message.id_json()),
        };
        if it.message.is_modern() && it.message.is("tools/list") {
            self.denied = false;
            self.out.push_back(Output::PassList(answer));
        } else {
            self.pass(now, LinkInput::Frame(Frame::Message(answer)));
        }
        if sounds_lost {
            self.pass(now, LinkInput::MaybeExpired);
        }
    }

    /// A page of the list of tools that is read for the sake of a call.
    fn deliver_page(&mut self, now: Time, it: &Exchange, frame: Frame) -> bool {
        if let Frame::Message(message) = frame
            && message.kind() == Kind::Response
        {
            self.put_away(Slot::Listing, it);
            self.page_read(now, Some(&message));
            return true;
        }
        false
    }

    /// What an answer says about the rest of the session.
    fn learn(&mut self, it: &Exchange, answer: &Message) {
        let greets = it.message.is("initialize") || it.message.is("server/discover");
        let Some(result) = answer.result().filter(|_| greets) else {
            return;
        };
        let welcome: InitializeResult = serde_json::from_slice(result).unwrap_or_default();
        if let Some(version) = welcome.protocol_version {
            self.agreed = true;
            self.out.push_back(Output::Version(version));
        }
        if !welcome.supported_versions.is_empty() {
            self.know(|known| known.modern = true);
        }
    }
}
