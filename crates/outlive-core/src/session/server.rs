//! A message from the server.

use bytes::Bytes;

use crate::error::{Error, Limit, Outcome};
use crate::event::{Direction, DropReason, State};
use crate::frame::Frame;
use crate::framer::TooLong;
use crate::ledger::{Entry, Place};
use crate::link::Generation;
use crate::memory::promise_list_changed;
use crate::message::{Defect, DefectKind, Id, Kind, Message, salvage};
use crate::request::Settled;
use crate::time::Time;

use super::Session;
use super::handover::is_on;
use super::host::{LONGEST_ID, long_id};
use super::link::{Ask, Link};

/// Enough of a line for the log, where it is masked, escaped and cut.
fn excerpt(line: &[u8]) -> String {
    String::from_utf8_lossy(&line[..line.len().min(1024)]).into_owned()
}

impl Session {
    /// A frame from the link in service.
    pub(super) fn on_server(&mut self, now: Time, frame: Frame) {
        match frame {
            Frame::Message(message) => self.server_message(now, message),
            Frame::Batch(elements) => {
                for element in elements {
                    match element {
                        Ok(message) => self.server_message(now, message),
                        Err(defect) => self.server_defect(now, *defect),
                    }
                }
            }
            Frame::Defect(defect) => self.server_defect(now, *defect),
            Frame::TooLong(line) => self.server_too_long(now, line),
        }
    }

    fn server_message(&mut self, now: Time, message: Message) {
        let message = self.with_known_subscription(message);
        match message.kind() {
            Kind::Response => self.server_answer(now, message),
            Kind::Request => self.server_request(now, message),
            Kind::Notification => match message.method() {
                "notifications/progress" => self.server_progress(now, message),
                "notifications/cancelled" => self.server_cancel(message),
                "notifications/subscriptions/acknowledged" => self.server_acknowledges(message),
                _ => self.pass_on(message),
            },
        }
    }

    /// A subscription is named after the request that opened it (2026-07-28). If that request had
    /// to be given another id on this link, the host must not see that one.
    fn with_known_subscription(&self, message: Message) -> Message {
        let Some(link) = self.link.as_ref().filter(|link| !link.aliases.is_empty()) else {
            return message;
        };
        let host_id = message
            .subscription_id()
            .and_then(|id| link.aliases.get(&id))
            .and_then(|id| self.ledger.get(id));
        match host_id {
            Some(entry) => message.with_subscription_id(entry.message.id_json()),
            None => message,
        }
    }

    fn server_answer(&mut self, now: Time, message: Message) {
        let id = message.id().cloned().unwrap_or(Id::Null);
        let Some(link) = &mut self.link else { return };
        if !link.own.is_empty()
            && let Some(own) = link.own.remove(&id)
        {
            return self.own_answer(now, &id, own, message);
        }
        // The error of a server that leaves is most likely about our cancellation, which the host has not asked for.
        let unwanted = link.is_leaving() && message.is_error() && link.tombstones.contains(&id);
        if !unwanted && let Some(host_id) = self.find_request(&id, message.is_error()) {
            return self.answer(now, &host_id, message);
        }
        let late = self.note_late(&id);
        let Some(link) = &mut self.link else { return };
        let reason = match late {
            true => {
                // Answering what was cancelled is against the specification, and the mark of
                // servers that later die of it: keep a closer eye on this one.
                Self::note_late_answer(&mut link.liveness, now, message.is_error());
                DropReason::LateAnswer
            }
            false => DropReason::UnknownAnswer,
        };
        self.dropped(Direction::ToHost, reason, format!("id {id}"));
    }

    /// Something came that can only be the answer to a request of this id. If that was cancelled or has expired, the
    /// server is done with it now; tells whether it was.
    fn note_late(&mut self, id: &Id) -> bool {
        let Some(link) = &self.link else { return false };
        let late = link.tombstones.contains(id);
        if late {
            self.over(id);
        }
        late
    }

    /// The request in flight on the link in service that an answer with this id is for.
    fn find_request(&self, id: &Id, is_error: bool) -> Option<Id> {
        let link = self.link.as_ref()?;
        if let Some(found) = self.request_on_link(id) {
            return Some(found);
        }
        if link.tombstones.contains(id) {
            return None;
        }
        // FM-61: some servers answer 7 with "7".
        let other = id.other_type();
        if let Some(found) = other.and_then(|id| self.request_on_link(&id)) {
            return Some(found);
        }
        // An error that answers nothing in particular can only be about the one request there is.
        if *id == Id::Null && is_error && self.ledger.len() == 1 && link.own.is_empty() {
            let (id, entry) = self.ledger.iter().next()?;
            return is_on(entry, link.generation).then(|| id.clone());
        }
        None
    }

    /// The request of the host that has exactly this id on the link in service.
    pub(super) fn request_on_link(&self, id: &Id) -> Option<Id> {
        let link = self.link.as_ref()?;
        let known = link.aliases.get(id).or_else(|| {
            let entry = self.ledger.get(id)?;
            let direct = matches!(entry.place, Place::InFlight { alias: None, .. });
            (direct && is_on(entry, link.generation)).then(|| entry.message.id())?
        });
        known.cloned()
    }

    /// Takes a request out of the ledger because its link has answered it.
    #[inline]
    fn take_answered(&mut self, host_id: &Id) -> Option<Box<Entry>> {
        let entry = self.ledger.settle(host_id)?;
        if let Some(link) = &mut self.link {
            if let Place::InFlight {
                alias: Some(alias), ..
            } = &entry.place
            {
                link.aliases.remove(alias);
            }
            if !link.reissued.is_empty() {
                link.reissued.remove(host_id);
            }
            link.forget_rejected(host_id);
        }
        Some(entry)
    }

    /// Passes an answer on.
    fn answer(&mut self, now: Time, host_id: &Id, mut message: Message) {
        let Some(entry) = self.take_answered(host_id) else {
            return;
        };
        let is_error = message.is_error();
        self.observed_end(&entry, Settled::Answered { is_error });
        if message.id() != entry.message.id() {
            message = message.with_id(entry.message.id_json());
        }
        let mut torn = None;
        if let Some(result) = message.result() {
            self.note_accepted(&entry.place);
            if let (true, Some(link)) = (entry.message.is("initialize"), &self.link) {
                self.note_if_legacy(link.generation);
            }
            if !entry.superseded {
                let most = self.policy.limits.subscriptions;
                torn = self.memory.learn(entry.key, &entry.message, result, most);
                self.supersede(&entry);
            }
            self.note_service(now);
        }
        let promises = !message.is_error()
            && (entry.message.is("initialize") || entry.message.is("server/discover"));
        let result = message.result().filter(|_| promises);
        if let Some(promised) = result.and_then(promise_list_changed) {
            message = message.with_result(promised.as_bytes());
        }
        self.tell_host(message);
        self.ledger.reuse(entry);
        if let Some(list) = torn {
            self.compare_again(now, list);
        }
    }

    /// The server has done what a request says, so it has done what earlier ones said about the same thing: their
    /// answers may come later, and tell nothing about what the server has now. The next server is told what the host
    /// asked for last.
    fn supersede(&mut self, by: &Entry) {
        if !by.is_state() {
            return;
        }
        self.ledger.supersede(by);
        // One that waits to be sent again would undo the later one.
        for id in self.ledger.in_order(|e| e.superseded && e.is_held()) {
            self.answer_superseded(&id);
        }
    }

    /// Answers a request that a later one has overtaken, and that would be sent again.
    pub(super) fn answer_superseded(&mut self, id: &Id) {
        let Some(entry) = self.ledger.settle(id) else {
            return;
        };
        self.unqueue(&entry);
        self.observed_end(&entry, Settled::Answered { is_error: false });
        self.tell_host(Message::response(entry.message.id_json(), b"{}"));
    }

    /// The server has answered: it is in service, if the host's own handshake is not under way.
    fn note_service(&mut self, now: Time) {
        let waiting = || self.ledger.iter().any(|(_, e)| e.message.is("initialize"));
        let Some(link) = &self.link else { return };
        if link.is_open() && link.served.is_none() && !waiting() {
            self.in_service(now);
        }
    }

    /// Publishes that the link is in service.
    pub(super) fn in_service(&mut self, now: Time) {
        let Some(link) = &mut self.link else { return };
        link.served = Some(now);
        link.liveness.heard = now;
        let generation = link.generation;
        self.drain_from(now);
        self.set_state(State::Ready { generation });
        let server = self.memory.server.clone();
        self.emit(crate::event::Event::Connected { generation, server });
    }

    /// A line that is no message. It is never forwarded and never answered; but if it was meant
    /// as the answer to a request, that request must not wait for another one.
    fn server_defect(&mut self, now: Time, mut defect: Defect) {
        let cut_off = defect.what == DefectKind::CutOff;
        if cut_off || matches!(defect.what, DefectKind::NotAMessage | DefectKind::NotUtf8) {
            let found = salvage(&defect.line);
            if self.take_salvaged(now, found.messages, &defect) {
                return;
            }
            // The log shows the line as it was.
            let line = defect.line.clone();
            defect = found
                .broken
                .filter(|_| defect.id.is_none())
                .unwrap_or(defect);
            defect.line = line;
        }
        // What it was about is settled by the end of the link, which comes next and says why.
        let meant = defect
            .id
            .as_ref()
            .filter(|_| defect.looks_like_rpc && !cut_off);
        if let Some(id) = meant {
            let error = Error::Protocol {
                what: defect.detail.clone(),
                unreadable: defect.what != DefectKind::Ambiguous,
                outcome: Outcome::Done,
            };
            if defect.has_method {
                return self.answer_server(now, &defect.id_json, &error);
            }
            self.own_answer_is_lost(now, id, &defect.detail);
            if let Some(host_id) = self.find_request(id, false)
                && let Some(entry) = self.take_answered(&host_id)
            {
                return self.refuse(&entry, &error);
            }
            self.note_late(id);
        }
        let detail = format!("{}: {}", defect.detail, excerpt(&defect.line));
        self.dropped(Direction::ToHost, DropReason::NotAMessage, detail);
    }

    /// Takes the answers among other text on a line, if somebody waits for them. Nothing else is taken: servers
    /// write what they were asked, and what they have said, into their logs.
    fn take_salvaged(&mut self, now: Time, messages: Vec<Message>, line: &Defect) -> bool {
        let mut taken = false;
        for message in messages {
            let Some(id) = message.id().filter(|_| message.kind() == Kind::Response) else {
                continue;
            };
            let ours = |link: &Link| link.own.contains_key(id);
            if self.link.as_ref().is_some_and(ours) || self.request_on_link(id).is_some() {
                taken = true;
                self.server_message(now, message);
            }
        }
        if taken {
            let detail = format!("text beside an answer: {}", excerpt(&line.line));
            self.dropped(Direction::ToHost, DropReason::NotAMessage, detail);
        }
        taken
    }

    fn server_too_long(&mut self, now: Time, line: TooLong) {
        let error = Error::TooLarge {
            limit: self.policy.limits.message,
            answer: true,
        };
        if let Some(id) = &line.id {
            if line.has_method {
                return self.answer_server(now, &line.id_json, &error);
            }
            self.own_answer_is_lost(now, id, "its answer is too long");
            if let Some(host_id) = self.find_request(id, false)
                && let Some(entry) = self.take_answered(&host_id)
            {
                return self.refuse(&entry, &error);
            }
            self.note_late(id);
        }
        self.dropped(
            Direction::ToHost,
            DropReason::TooLarge,
            format!("{} bytes", line.len),
        );
    }

    /// Answers a request of the server that cannot be passed on.
    pub(super) fn answer_server(&mut self, now: Time, id_json: &[u8], error: &Error) {
        if self.link.as_ref().is_some_and(|link| link.is_alive()) {
            let answer = error.to_response(id_json, "the request", self.current_generation());
            self.tell_link(now, answer);
        }
    }

    /// A request of the server goes to the host under an id that no other link's request has.
    fn server_request(&mut self, now: Time, message: Message) {
        let Some(link) = self.link.as_mut().filter(|link| link.is_alive()) else {
            return;
        };
        let most = self.policy.limits.asks;
        if link.asks.len() >= most {
            let limit = Limit::asks(most);
            return self.answer_server(now, message.id_json(), &Error::Overloaded { limit });
        }
        if message.id_json().len() > LONGEST_ID {
            return self.answer_server(now, message.id_json(), &long_id());
        }
        if self.host_gone {
            return self.answer_server(
                now,
                message.id_json(),
                &Error::ShuttingDown {
                    outcome: Outcome::NotSent,
                },
            );
        }
        let server_id = message.id().cloned().unwrap_or(Id::Null);
        // The first link's ids are the host's first, so they can pass as they are; a later
        // link's may be those of an earlier one's requests, which the host may answer late.
        let as_is = link.generation == Generation::FIRST && !link.asks.contains_key(&server_id);
        let asks = &link.asks;
        let id = if as_is {
            server_id.clone()
        } else {
            let taken: Vec<Id> = asks.keys().cloned().collect();
            link.fresh_id(|id| taken.contains(id))
        };
        let ask = Ask {
            server_id,
            server_id_json: Bytes::copy_from_slice(message.id_json()),
            token: message.meta_progress_token(),
            of_a_person: message.is("elicitation/create"),
            login: false,
        };
        link.asks.insert(id.clone(), ask);
        self.pass_on(match as_is {
            true => message,
            false => message.with_id(id.to_json().as_bytes()),
        });
    }

    /// Progress belongs to a request the host is waiting for, or nobody wants it (FM-62).
    fn server_progress(&mut self, now: Time, message: Message) {
        let id = message
            .progress_token()
            .and_then(|token| self.ledger.by_token(&token).cloned());
        match id {
            Some(id) => {
                self.rearm(now, &id);
                match self.ledger.progresses(&id, message.progress()) {
                    true => self.tell_host(message),
                    false => self.dropped(
                        Direction::ToHost,
                        DropReason::LateProgress,
                        "the host was told of more before",
                    ),
                }
            }
            None => match message
                .progress_token()
                .is_some_and(|t| self.memory.task_tokens.contains(&t))
            {
                true => self.tell_host(message),
                false => self.dropped(
                    Direction::ToHost,
                    DropReason::LateProgress,
                    "no such request",
                ),
            },
        }
    }

    /// The server takes back a request of its own, or ends a subscription.
    fn server_cancel(&mut self, message: Message) {
        let Some(link) = &mut self.link else { return };
        let request = message.request_id();
        let asked = request
            .as_ref()
            .and_then(|id| link.ask_by_server_id(id).cloned());
        if let Some(id) = asked {
            let as_is = link.asks.remove(&id).is_some_and(|ask| ask.server_id == id);
            let message = if as_is {
                message
            } else {
                message.with_request_id(id.to_json().as_bytes())
            };
            return self.tell_host(message);
        }
        // It ends a subscription (2026-07-28): that request is over, and nobody answers it.
        let listen = request
            .map(|id| self.known_as(&id))
            .filter(|id| self.ledger.get(id).is_some_and(Entry::is_listen));
        match listen.and_then(|id| self.take_answered(&id)) {
            Some(entry) => {
                self.tell_host(message.with_request_id(entry.message.id_json()));
            }
            None => self.dropped(
                Direction::ToHost,
                DropReason::UselessCancel,
                "no such request",
            ),
        }
    }

    /// The id the host knows a request by that has this one on the link.
    fn known_as(&self, id: &Id) -> Id {
        let alias = self.link.as_ref().and_then(|link| link.aliases.get(id));
        alias.unwrap_or(id).clone()
    }

    /// A subscription stands (2026-07-28). The host hears of it once, not after every restart.
    fn server_acknowledges(&mut self, message: Message) {
        let id = message.subscription_id();
        let reissued = |link: &mut Link| id.as_ref().is_some_and(|id| link.reissued.remove(id));
        if self.link.as_mut().is_some_and(reissued) {
            let reason = DropReason::ReplayedAcknowledgement;
            return self.dropped(Direction::ToHost, reason, message.method());
        }
        if let Some(id) = &id {
            self.ledger.acknowledge(id);
        }
        self.tell_host(message);
    }
}
