//! A message from the client.

use serde::Deserialize;

use crate::error::{Error, Outcome};
use crate::event::DropReason;
use crate::framer::{Frame, TooLong};
use crate::message::{Defect, DefectKind, Id, Kind, Message, read_batch};
use crate::session::LONGEST_ID;
use crate::time::Time;

use super::close::Ending;
use super::refusal::Refusal;
use super::request::{CancelReason, Era};
use super::{Output, Server};

/// Longer reasons are cut: they are for people.
const LONGEST_REASON: usize = 1 << 10;

impl Server {
    pub(super) fn on_frame(&mut self, now: Time, frame: Frame) {
        if !self.hearing {
            return self.dropped(DropReason::Closing, "a line after the end");
        }
        match frame {
            Frame::Line(line) => match Message::read(line) {
                Ok(message) => self.on_message(now, message),
                Err(defect) if defect.what == DefectKind::Batch => {
                    for element in read_batch(&defect.line).unwrap_or_default() {
                        match element {
                            Ok(message) => self.on_message(now, message),
                            Err(defect) => self.on_defect(now, defect),
                        }
                    }
                }
                Err(defect) => self.on_defect(now, defect),
            },
            Frame::TooLong(line) => self.on_too_long(now, &line),
        }
    }

    /// A request whose id can be read is always answered, whatever is wrong with it; and what was
    /// meant as the answer to a request of ours is one.
    fn on_defect(&mut self, now: Time, defect: Defect) {
        if let Some(id) = &defect.id {
            if defect.has_method {
                return self.refuse_id(&defect.id_json, "", &Refusal::defect(&defect));
            }
            let error = Error::Protocol {
                what: defect.detail.clone(),
                unreadable: defect.what != DefectKind::Ambiguous,
                outcome: Outcome::Done,
            };
            if self.answered(now, id, Err(error)) {
                return;
            }
        }
        self.dropped(DropReason::NotAMessage, defect.detail);
    }

    fn on_too_long(&mut self, now: Time, line: &TooLong) {
        let limit = self.policy.message;
        if let Some(id) = &line.id {
            if line.has_method {
                return self.refuse_id(&line.id_json, "", &Refusal::too_large(limit));
            }
            let answer = true;
            if self.answered(now, id, Err(Error::TooLarge { limit, answer })) {
                return;
            }
        }
        self.dropped(DropReason::TooLarge, format!("{} bytes", line.len));
    }

    fn on_message(&mut self, now: Time, message: Message) {
        match message.kind() {
            Kind::Request => self.on_request(now, message),
            Kind::Response => self.client_answer(now, &message),
            Kind::Notification if message.is("notifications/cancelled") => {
                self.client_cancels(now, &message);
            }
            Kind::Notification => self.out.push_back(Output::Notified(message)),
        }
    }

    fn on_request(&mut self, now: Time, message: Message) {
        if message.id_json().len() > LONGEST_ID {
            return self.refuse(&message, &Refusal::long_id());
        }
        let taken = |id: &Id| self.table.live(id).is_some() || self.subscriptions.is_open(id);
        if message.id().is_some_and(taken) {
            return self.refuse(&message, &Refusal::duplicate_id());
        }
        match message.is_modern() {
            true => self.modern_request(now, message),
            false => self.legacy_request(now, message),
        }
    }

    fn legacy_request(&mut self, now: Time, message: Message) {
        match message.method() {
            "ping" => return self.answer_plainly(&message, "{}"),
            "initialize" if !self.is_ending() => return self.initialize(&message),
            _ => {}
        }
        let Some(peer) = self.peer.clone() else {
            let refusal = Refusal::uninitialized(message.method());
            return self.refuse(&message, &refusal);
        };
        match message.method() {
            "logging/setLevel" if self.features.logging => self.set_level(&message),
            "resources/subscribe" | "resources/unsubscribe"
                if self.features.subscribe && !self.is_ending() =>
            {
                self.subscribe(&message);
            }
            // These are modern, and say so in their metadata.
            method @ ("server/discover" | "subscriptions/listen") => {
                let refusal = Refusal::uninitialized(method);
                self.refuse(&message, &refusal);
            }
            _ if !self.may_handle(&message) => {}
            _ => {
                self.accept(now, message, Era::Legacy, peer, self.level);
            }
        }
    }

    fn modern_request(&mut self, now: Time, message: Message) {
        let introduction = match self.introduction(&message) {
            Ok(introduction) => introduction,
            Err(refusal) => return self.refuse(&message, &refusal),
        };
        match message.method() {
            "server/discover" => self.discover(&message),
            "subscriptions/listen" if !self.is_ending() => self.listen(&message),
            // The revision has done away with these.
            method @ ("initialize"
            | "ping"
            | "logging/setLevel"
            | "resources/subscribe"
            | "resources/unsubscribe") => {
                let refusal = Refusal::method_not_found(method);
                self.refuse(&message, &refusal);
            }
            _ if !self.may_handle(&message) => {}
            _ if self.client_returns(now, &message, &introduction) => {}
            _ => {
                let level = introduction.log_level;
                self.accept(now, message, Era::Modern, introduction.peer, level);
            }
        }
    }

    fn is_ending(&self) -> bool {
        self.ending != Ending::No
    }

    /// Whether a handler may be given this request; if not, it has been refused.
    fn may_handle(&mut self, message: &Message) -> bool {
        let refusal = if self.is_ending() {
            Refusal::shutting_down(message.method(), false)
        } else if !self.policy.methods.contains(message.method()) {
            Refusal::method_not_found(message.method())
        } else {
            return true;
        };
        self.refuse(message, &refusal);
        false
    }

    /// The client no longer waits. What it names may be unknown, finished or cancelled before;
    /// all that is harmless (both eras, cancellation).
    fn client_cancels(&mut self, now: Time, message: &Message) {
        #[derive(Deserialize)]
        struct Params {
            reason: Option<String>,
        }
        let Some(id) = message.request_id() else {
            return self.dropped(DropReason::UselessCancel, "no requestId");
        };
        if let Some(ticket) = self.table.live(&id) {
            let params = message.params().unwrap_or_default();
            let params = serde_json::from_slice::<Params>(params).ok();
            let mut reason = params.and_then(|params| params.reason);
            if let Some(reason) = &mut reason {
                reason.truncate(reason.floor_char_boundary(LONGEST_REASON));
            }
            self.cancel(now, ticket, CancelReason::Client(reason));
        } else if !self.subscriptions.cancel(&id) {
            self.dropped(DropReason::UselessCancel, format!("request {id}"));
        }
    }
}
