//! A message from the client.

use serde::Deserialize;

use crate::error::{Error, Outcome};
use crate::event::DropReason;
use crate::frame::Frame;
use crate::framer::TooLong;
use crate::message::{Defect, DefectKind, Id, Kind, Message};
use crate::protocol::{Era, method};
use crate::session::LONGEST_ID;
use crate::time::Time;

use super::channel::Channel;
use super::close::Ending;
use super::refusal::ServerRefusal;
use super::request::{CancelReason, scope};
use super::{Output, Server};

/// Longer reasons are cut: they are for people.
const LONGEST_REASON: usize = 1 << 10;

impl Server {
    pub(super) fn on_frame(&mut self, now: Time, frame: Frame) {
        if !self.hearing {
            return self.dropped(DropReason::Closing, "a line after the end");
        }
        match frame {
            Frame::Message(message) => self.on_message(now, message),
            Frame::Batch(elements) => {
                for element in elements {
                    match element {
                        Ok(message) => self.on_message(now, message),
                        Err(defect) => self.on_defect(now, *defect),
                    }
                }
            }
            Frame::Defect(defect) => self.on_defect(now, *defect),
            Frame::TooLong(line) => self.on_too_long(now, &line),
        }
    }

    /// A request whose id can be read is always answered, whatever is wrong with it; and what was
    /// meant as the answer to a request of ours is one.
    fn on_defect(&mut self, now: Time, defect: Defect) {
        if let Some(id) = &defect.id {
            if defect.has_method {
                let refusal = ServerRefusal::defect(&defect);
                return self.refuse_id(self.current, &defect.id_json, "", &refusal);
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
                let refusal = ServerRefusal::too_large(limit);
                return self.refuse_id(self.current, &line.id_json, "", &refusal);
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
            return self.refuse(&message, &ServerRefusal::long_id());
        }
        let scope = scope(Era::of(&message), self.current);
        let taken =
            |id: &Id| self.table.live(scope, id).is_some() || self.subscriptions.is_open(scope, id);
        if message.id().is_some_and(taken) {
            return self.refuse(&message, &ServerRefusal::duplicate_id());
        }
        match Era::of(&message) {
            Era::Modern => self.modern_request(now, message),
            Era::Legacy => self.legacy_request(now, message),
        }
    }

    fn legacy_request(&mut self, now: Time, message: Message) {
        match message.method() {
            method if !self.policy.handshake => {
                let refusal = ServerRefusal::uninitialized(method);
                return self.refuse(&message, &refusal);
            }
            "ping" => return self.answer_plainly(&message, "{}"),
            "initialize" if !self.is_ending() => return self.initialize(&message),
            _ => {}
        }
        let Some(peer) = self.peer.clone() else {
            let refusal = ServerRefusal::uninitialized(message.method());
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
            method if method::is_modern_request(method) => {
                let refusal = ServerRefusal::uninitialized(method);
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
            method if method::is_legacy_request(method) => {
                let refusal = ServerRefusal::method_not_found(method);
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
            ServerRefusal::shutting_down(message.method(), false)
        } else if !self.policy.methods.contains(message.method()) {
            ServerRefusal::method_not_found(message.method())
        } else {
            return true;
        };
        self.refuse(message, &refusal);
        false
    }

    /// The client closed a channel.
    pub(super) fn on_left(&mut self, now: Time, channel: Channel) {
        if channel == Channel::MAIN {
            return;
        }
        let left = self.table.tickets(|entry| {
            entry.channel == channel && entry.era == Era::Modern && entry.is_live()
        });
        for ticket in left {
            self.cancel(now, ticket, CancelReason::Client(None));
        }
        self.leave_streams(channel);
        self.start_waiting(now);
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
        // A legacy client cancels from another channel.
        let live = self.table.live(self.current, &id);
        if let Some(ticket) = live.or_else(|| self.table.live(Channel::MAIN, &id)) {
            let params = message.params().unwrap_or_default();
            let params = serde_json::from_slice::<Params>(params).ok();
            let mut reason = params.and_then(|params| params.reason);
            if let Some(reason) = &mut reason {
                reason.truncate(reason.floor_char_boundary(LONGEST_REASON));
            }
            self.cancel(now, ticket, CancelReason::Client(reason));
        } else if !self.cancel_stream(self.current, &id) {
            self.dropped(DropReason::UselessCancel, format!("request {id}"));
        }
    }
}
