//! A message from the host.

use std::collections::VecDeque;
use std::time::Duration;

use crate::cause::seconds;
use crate::error::{Bound, Error, Limit, Outcome};
use crate::event::{Direction, DropReason, State};
use crate::frame::Frame;
use crate::ledger::{Entry, Place, sooner};
use crate::link::Generation;
use crate::message::{Defect, DefectKind, Id, Kind, Message};
use crate::policy::{Cancel, Terms};
use crate::request::{Again, Request, Settled, Step};
use crate::time::Time;

use crate::event::Event;
use crate::protocol::{Era, method};

use super::link::{Link, Own};
use super::{AbandonReason, Doubt, Ending, Output, Session, Waiting};

/// How long a server that ended over `server/discover`, or did not answer it, is not asked again.
const DOUBT: Duration = Duration::from_secs(30);

/// Longer ids are refused: they would have to be remembered in many places.
pub(crate) const LONGEST_ID: usize = 4 << 10;

/// How long the host's first request waits for a server at whose address nobody was found.
const GREETING_HOLD: Duration = Duration::from_secs(3);

pub(super) fn long_id() -> Error {
    Error::Protocol {
        what: format!("its id is longer than {LONGEST_ID} bytes"),
        unreadable: false,
        outcome: Outcome::NotSent,
    }
}

impl Session {
    pub(super) fn on_host(&mut self, now: Time, frame: Frame, terms: Terms) {
        match frame {
            Frame::Message(message) => self.host_message(now, message, terms),
            Frame::Batch(elements) => {
                for element in elements {
                    match element {
                        Ok(message) => self.host_message(now, message, terms),
                        Err(defect) => self.host_defect(*defect),
                    }
                }
            }
            Frame::Defect(defect) => self.host_defect(*defect),
            Frame::TooLong(line) => {
                if line.id.is_some() && line.has_method {
                    let error = Error::TooLarge {
                        limit: self.policy.limits.message,
                        answer: false,
                    };
                    self.refuse_at_once(
                        Request::unread(&line.id_json),
                        "the request".into(),
                        error,
                    );
                } else {
                    let detail = format!("{} bytes", line.len);
                    self.dropped(Direction::ToServer, DropReason::TooLarge, detail);
                }
            }
        }
    }

    /// The host no longer waits for a request.
    pub(super) fn on_abandon(&mut self, now: Time, message: Message, reason: AbandonReason) {
        if message.is("notifications/cancelled") {
            self.host_cancel(now, message, reason);
        }
    }

    /// A request whose id can be read is always answered, whatever is wrong with it.
    fn host_defect(&mut self, defect: Defect) {
        if defect.id.is_none() || !defect.has_method {
            self.dropped(Direction::ToServer, DropReason::NotAMessage, defect.detail);
            return;
        }
        let error = Error::Protocol {
            what: defect.detail,
            unreadable: defect.what != DefectKind::Ambiguous,
            outcome: Outcome::NotSent,
        };
        self.refuse_at_once(
            Request::unread(&defect.id_json),
            "the request".into(),
            error,
        );
    }

    fn host_message(&mut self, now: Time, message: Message, terms: Terms) {
        match message.kind() {
            Kind::Request => self.host_request(now, message, terms),
            Kind::Response => self.host_answer(now, message),
            Kind::Notification => match message.method() {
                "notifications/cancelled" => {
                    self.host_cancel(now, message, AbandonReason::Cancelled);
                }
                "notifications/progress" => self.host_progress(now, message),
                "notifications/initialized" => self.host_initialized(now, message),
                _ => self.host_notification(now, message),
            },
        }
    }

    fn host_request(&mut self, now: Time, message: Message, terms: Terms) {
        let refusal = self.refusal(now, &message);
        if let Some(error) = refusal {
            let what = message.method().to_string();
            self.refuse_at_once(Request::new(None, &message), what, error);
            return;
        }
        let message = match self.login_told {
            Some(_) => self.login_round(message),
            None => message,
        };
        self.memory.note_meta(&message);
        let id = self.ledger.accept(message, terms, now);
        if self.tally.watches_requests()
            && let Some(entry) = self.ledger.get(&id)
        {
            self.observed(entry.observed(), Step::Accepted);
        }
        if self.queue.is_empty() && self.can_send(now) {
            self.send(now, &id);
            return;
        }
        self.hold(now, &id);
        if self.link.is_none() {
            self.call_for_server(now);
        } else {
            self.flush(now);
        }
    }

    /// Why a request cannot be accepted, if it cannot.
    fn refusal(&self, now: Time, message: &Message) -> Option<Error> {
        if self.ending != Ending::No {
            return Some(Error::ShuttingDown {
                outcome: Outcome::NotSent,
            });
        }
        if message.id().is_some_and(|id| self.ledger.contains(id)) {
            return Some(Error::Protocol {
                what: "a request with the same id is still in flight".into(),
                unreadable: false,
                outcome: Outcome::NotSent,
            });
        }
        if self.policy.refuse_discover
            && self.memory.era != Some(Era::Modern)
            && message.is("server/discover")
        {
            return Some(Error::Unsupported {
                why: "This server is known not to take it; use `initialize`.".into(),
            });
        }
        if let Some(doubt) = self
            .discover_doubt
            .as_ref()
            .filter(|doubt| now < doubt.until)
            && self.memory.era.is_none()
            && message.is("server/discover")
        {
            let why = doubt.why.clone();
            return Some(Error::Unsupported { why });
        }
        if let State::Failed { cause, retry_at } = &self.state {
            // An attempt is under way or due: wait for it. Otherwise only now and then.
            let due = self.link.is_some() || self.retry_at.is_some_and(|at| at <= now);
            let next = self.supervisor.called();
            if !due && next > now {
                return Some(Error::Unavailable {
                    cause: Some(cause.clone()),
                    held: Duration::ZERO,
                    outcome: Outcome::NotSent,
                    retry_after: Some((next - now).min(*retry_at - self.clock.outside(now))),
                });
            }
        }
        if message.id_json().len() > LONGEST_ID {
            return Some(long_id());
        }
        let limits = &self.policy.limits;
        let (held, bytes) = self.ledger.held();
        // With a server at work the host is merely slowed down; what it had on its way comes in.
        let room = match self.link.as_ref().is_some_and(|link| link.is_open()) {
            true => 2,
            false => 1,
        };
        let most = limits.held_bytes.max(limits.message);
        let limit = match held >= room * limits.held {
            true => Limit::held(limits.held),
            false if bytes + self.note_bytes + message.bytes().len() > room * most => {
                Limit::held_bytes(most)
            }
            false => return None,
        };
        (!self.can_send(now)).then_some(Error::Overloaded { limit })
    }

    /// Somebody waits for a server and none is on its way: bring the next attempt forward.
    fn call_for_server(&mut self, now: Time) {
        let at = self.supervisor.called().max(now);
        if self.retry_at.is_none_or(|retry| retry > at) {
            if matches!(self.state, State::Failed { .. }) {
                self.supervisor.attempt_for_caller();
            }
            self.retry_at = Some(at);
        }
    }

    /// Puts a request that has just been accepted at the end of the queue.
    fn hold(&mut self, now: Time, id: &Id) {
        let Some(entry) = self.ledger.get(id) else {
            return;
        };
        let key = entry.key;
        let due = self.held_due(entry, now);
        self.ledger.place(id, Place::Held { since: now }, due, now);
        self.queue.push_back(Waiting::Request(id.clone(), key));
    }

    /// Takes a request that has been settled out of the queue.
    pub(super) fn unqueue(&mut self, entry: &Entry) {
        let is_it = |w: &Waiting| matches!(w, Waiting::Request(_, key) if *key == entry.key);
        self.queue.retain(|waiting| !is_it(waiting));
    }

    /// When a request that is held from `since` on is given up.
    pub(super) fn held_due(&self, entry: &Entry, since: Time) -> Option<Time> {
        if self.is_greeting(entry) && self.is_nobody_there() {
            // A person waits for this one, who may have mistyped the address; a server that is being
            // started a moment later is still found.
            let hold = self.policy.hold.min(GREETING_HOLD);
            return sooner(Some(since + hold), self.ceiling(entry));
        }
        if entry.is_listen() || entry.message.is("initialize") {
            // The one waits by nature, the other for the start of its server.
            return None;
        }
        sooner(Some(since + self.policy.hold), self.ceiling(entry))
    }

    /// The bounds of a request: the time it may be silent, and the time it may take in all.
    fn bounds(&self, entry: &Entry) -> (Option<Duration>, Option<Duration>) {
        (
            entry.terms.idle.or(self.policy.request_timeout),
            entry.terms.total.or(self.policy.request_ceiling),
        )
    }

    fn ceiling(&self, entry: &Entry) -> Option<Time> {
        let (_, total) = self.bounds(entry);
        total.map(|total| entry.accepted + total + entry.stood)
    }

    /// When a request that is sent at `now`, or made progress at `now`, is given up.
    fn flight_due(&self, entry: &Entry, now: Time) -> Option<Time> {
        if entry.is_listen() {
            return None;
        }
        let (idle, _) = self.bounds(entry);
        if entry.message.is("initialize") {
            // The start of a server has a bound of its own. A session that has begun does not begin again.
            let served = self.link.as_ref().is_some_and(|link| link.served.is_some());
            return idle.filter(|_| served).map(|idle| now + idle);
        }
        let mut due = self.ceiling(entry);
        due = sooner(due, idle.map(|idle| now + idle));
        if self.is_unproven_discover(entry) {
            due = sooner(due, Some(now + self.policy.discover));
        }
        due
    }

    /// A probe for the modern era that no server has answered yet: a legacy server may leave it
    /// unanswered (FM-43) or even die of it (FM-42).
    pub(super) fn is_unproven_discover(&self, entry: &Entry) -> bool {
        self.memory.era.is_none() && entry.message.is("server/discover")
    }

    /// Sends a request of the ledger on the open link.
    pub(super) fn send(&mut self, now: Time, id: &Id) {
        let (Some(entry), Some(link)) = (self.ledger.get(id), self.link.as_mut()) else {
            return;
        };
        let generation = link.generation;
        let frame = link.frames;
        link.worked = link.worked || !method::is_read_only(entry.message.method());
        // The host's id serves on the link too, unless the server may still answer an earlier
        // request of that id.
        let (alias, message) = if link.is_busy(id) {
            let ledger = &self.ledger;
            let alias = link.fresh_id(|id| ledger.contains(id));
            link.aliases.insert(alias.clone(), id.clone());
            let renamed = entry.message.clone().with_id(alias.to_json().as_bytes());
            (Some(alias), renamed)
        } else {
            (None, entry.message.clone())
        };
        if entry.acknowledged {
            link.reissued.insert(id.clone());
        }
        let again = match entry.unexecuted {
            _ if entry.deaths > 0 => Some(Again::Safe),
            why => why.map(Again::Unexecuted),
        };
        let request = || (id.to_string(), entry.message.method().to_string());
        let event = again.map(|again| {
            let (id, method) = request();
            match again {
                Again::Safe => Event::Retried {
                    id,
                    method,
                    generation,
                },
                Again::Unexecuted(why) => Event::Resent {
                    id,
                    method,
                    generation,
                    why,
                },
            }
        });
        let step = Step::Sent { generation, again };
        let opens = entry.message.is("initialize") && self.memory.initialize.is_none();
        let due = self.flight_due(entry, now);
        self.observed_step(entry, step);
        self.ledger.place(
            id,
            Place::InFlight {
                generation,
                frame,
                alias,
            },
            due,
            now,
        );
        if self.pause.is_some() {
            self.ledger.freeze(id, now);
        }
        if let Some(event) = event {
            self.emit(event);
        }
        self.tell_link(now, message);
        if opens && let Some(initialized) = self.memory.initialized.clone() {
            // The host did not wait for the answer before it went on; neither do we.
            self.tell_link(now, initialized);
        }
    }

    /// Sends all that waits, in order, as far as the link takes it.
    pub(super) fn flush(&mut self, now: Time) {
        while !self.queue.is_empty() && self.can_send(now) {
            match self.queue.pop_front() {
                Some(Waiting::Request(id, key)) => {
                    let waits = |e: &Entry| e.key == key && e.is_held();
                    if self.ledger.get(&id).is_some_and(waits) {
                        self.send(now, &id);
                    }
                }
                Some(Waiting::Notification(message, _)) => {
                    self.note_bytes -= message.bytes().len();
                    self.tell_link(now, *message);
                }
                None => break,
            }
        }
        self.ask_before_sending(now);
    }

    /// The host answers a request of the server: it goes to the generation that asked, or nowhere.
    fn host_answer(&mut self, now: Time, message: Message) {
        let id = message.id().cloned().unwrap_or(Id::Null);
        let ask = self
            .link
            .as_mut()
            .filter(|link| link.is_alive())
            .and_then(|link| {
                link.asks
                    .remove(&id)
                    .or_else(|| link.asks.remove(&id.other_type()?))
            });
        if ask.is_some() {
            self.flush_notifications(now);
        }
        match ask {
            Some(ask) if ask.login => self.login_answered(&message),
            Some(ask) if ask.server_id_json == message.id_json() => {
                self.tell_link(now, message);
            }
            Some(ask) => self.tell_link(now, message.with_id(&ask.server_id_json)),
            None => {
                self.dropped(
                    Direction::ToServer,
                    DropReason::UnknownAnswer,
                    format!("id {id}"),
                );
            }
        }
    }

    fn host_cancel(&mut self, now: Time, message: Message, reason: AbandonReason) {
        let Some(id) = message.request_id() else {
            return self.dropped(
                Direction::ToServer,
                DropReason::UselessCancel,
                "no requestId",
            );
        };
        let cancellable = |entry: &Entry| !entry.message.is("initialize");
        if !self.ledger.get(&id).is_some_and(cancellable) {
            let detail = format!("request {id}");
            return self.dropped(Direction::ToServer, DropReason::UselessCancel, detail);
        }
        let Some(entry) = self.ledger.settle(&id) else {
            return;
        };
        match reason {
            AbandonReason::Cancelled => self.observed_end(&entry, Settled::Cancelled),
            AbandonReason::ClientLeft => self.observed_end(&entry, Settled::Abandoned),
            AbandonReason::TokenWithdrawn => {
                // It is answered by whoever has withdrawn the token.
                let outcome = match entry.is_held() {
                    true => entry.outcome(),
                    false => Outcome::Unknown,
                };
                let error = Error::TokenWithdrawn { outcome };
                self.observed_end(&entry, Settled::Failed(&error));
                self.emit(Event::Refused {
                    id: String::from_utf8_lossy(entry.message.id_json()).into_owned(),
                    method: entry.message.method().to_string(),
                    kind: error.kind(),
                });
            }
        }
        self.unqueue(&entry);
        self.abandon(now, &id, &entry, Some(message));
    }

    /// The host no longer waits for a request. If it was sent, the server is told, with the
    /// host's own words or ours, and its answer will be dropped.
    pub(super) fn abandon(&mut self, now: Time, id: &Id, entry: &Entry, words: Option<Message>) {
        let Place::InFlight {
            generation, alias, ..
        } = &entry.place
        else {
            return self.over(id);
        };
        let Some(link) = self
            .link
            .as_mut()
            .filter(|link| link.generation == *generation)
        else {
            return self.over(id);
        };
        if let Some(alias) = alias {
            link.aliases.remove(alias);
        }
        link.reissued.remove(id);
        if link.forget_rejected(id) {
            // The server has nothing of it.
            return;
        }
        link.tombstones.insert(alias.as_ref().unwrap_or(id).clone());
        self.cancel_on_link(now, id, entry, words);
    }

    /// The server is to give up a request, but its result is still welcome.
    pub(super) fn cancel_last(&mut self, now: Time, id: &Id) {
        let told = |session: &Session| session.link.as_ref().map_or(0, |link| link.frames);
        let before = told(self);
        let Some(entry) = self.ledger.get(id).cloned() else {
            return;
        };
        self.cancel_on_link(now, id, &entry, None);
        if told(self) > before
            && let (Some(link), Place::InFlight { alias, .. }) = (&mut self.link, &entry.place)
        {
            link.tombstones.insert(alias.as_ref().unwrap_or(id).clone());
        }
    }

    /// Tells the link in service, which has this request, that it is no longer waited for.
    fn cancel_on_link(&mut self, now: Time, id: &Id, entry: &Entry, words: Option<Message>) {
        let (Some(link), Place::InFlight { alias, .. }) = (&self.link, &entry.place) else {
            return;
        };
        // `initialize` must not be cancelled (2025-11-25, cancellation).
        if !link.is_alive() || entry.message.is("initialize") {
            return;
        }
        let absorb = match self.policy.cancel {
            Cancel::Forward => false,
            Cancel::Absorb => !entry.is_listen(),
            Cancel::Auto => self.absorbing && !entry.is_listen(),
        };
        if absorb {
            let detail = format!("request {id}");
            return self.dropped(Direction::ToServer, DropReason::AbsorbedCancel, detail);
        }
        let wire_id = match alias {
            Some(alias) => alias.to_json().into(),
            None => String::from_utf8_lossy(entry.message.id_json()),
        };
        let message = match words {
            Some(message) if alias.is_some() => message.with_request_id(wire_id.as_bytes()),
            Some(message) => message,
            None => {
                let params =
                    format!(r#"{{"requestId":{wire_id},"reason":"no longer waited for"}}"#);
                Message::notification("notifications/cancelled", params.as_bytes())
            }
        };
        self.tell_link(now, message);
        self.watch_after_cancel(now);
    }

    /// Tells that no server is at work any more on a request that the host no longer waits for.
    pub(super) fn over(&mut self, id: &Id) {
        self.out.push_back(Output::Over(id.clone()));
    }

    fn host_progress(&mut self, now: Time, message: Message) {
        let token = message.progress_token();
        let known = self
            .link
            .as_ref()
            .filter(|link| link.is_alive())
            .is_some_and(|link| {
                token.is_some() && link.asks.values().any(|ask| ask.token == token)
            });
        if known {
            self.flush_notifications(now);
            self.tell_link(now, message);
        } else {
            self.dropped(
                Direction::ToServer,
                DropReason::LateProgress,
                "the host's progress",
            );
        }
    }

    fn host_initialized(&mut self, now: Time, message: Message) {
        self.memory.initialized = Some(message.clone());
        self.unconfirmed = true;
        let waits = |e: &Entry| e.is_held() && e.message.is("initialize");
        let queued = self.ledger.iter().any(|(_, e)| waits(e));
        let told_later = self.memory.initialize.is_some()
            || self.ledger.iter().any(|(_, e)| e.message.is("initialize"));
        match &self.link {
            Some(link) if link.handshake_done() && !queued => self.tell_link(now, message),
            // It follows the `initialize` it belongs to, the host's (see `send`) or ours.
            _ if told_later => {}
            _ => self.host_notification(now, message),
        }
    }

    /// Any other notification: passed on, or kept in its place while there is no link to take it.
    fn host_notification(&mut self, now: Time, message: Message) {
        if self.ending != Ending::No {
            return self.dropped(Direction::ToServer, DropReason::Closing, message.method());
        }
        if self.queue.is_empty() && self.link.as_ref().is_some_and(|link| link.is_open()) {
            return self.tell_link(now, message);
        }
        let limits = &self.policy.limits;
        let (held, bytes) = self.ledger.held();
        let size = message.bytes().len();
        if self.queue.len().max(held) >= limits.held
            || bytes + self.note_bytes + size > limits.held_bytes
        {
            return self.dropped(Direction::ToServer, DropReason::NoServer, message.method());
        }
        self.note_bytes += size;
        self.queue.push_back(Waiting::Notification(
            message.into(),
            now + self.policy.hold,
        ));
    }

    /// Sends the notifications that wait behind requests: the host may have seen them acknowledged, and what it says
    /// next does not wait for those requests, since one of them may be waiting for just that.
    fn flush_notifications(&mut self, now: Time) {
        let takes = |link: &Link| link.is_open() || link.is_retiring();
        if self.note_bytes == 0 || !self.link.as_ref().is_some_and(takes) {
            return;
        }
        let (notes, requests): (VecDeque<_>, _) = std::mem::take(&mut self.queue)
            .into_iter()
            .partition(|waiting| matches!(waiting, Waiting::Notification(..)));
        self.queue = requests;
        self.note_bytes = 0;
        for waiting in notes {
            if let Waiting::Notification(message, _) = waiting {
                self.tell_link(now, *message);
            }
        }
    }

    pub(super) fn expire_notifications(&mut self, now: Time) {
        let mut expired = Vec::new();
        self.queue.retain(|waiting| match waiting {
            Waiting::Notification(message, due) if *due <= now => {
                expired.push((message.method().to_string(), message.bytes().len()));
                false
            }
            _ => true,
        });
        for (method, size) in expired {
            self.note_bytes -= size;
            self.dropped(Direction::ToServer, DropReason::NoServer, method);
        }
    }

    /// A request's time is up.
    pub(super) fn expire(&mut self, now: Time, id: &Id) {
        let Some(entry) = self.ledger.settle(id) else {
            return;
        };
        if let Place::Held { since } = entry.place {
            self.unqueue(&entry);
            let cause = self.last_cause.clone();
            let error = match entry.deaths > 0 {
                // No link need have died: its exchange may have broken off.
                true => Error::ConnectionLost {
                    cause: cause.unwrap_or_else(|| {
                        self.unanswered_cause("its time was up before it could be repeated".into())
                    }),
                    outcome: Outcome::Unknown,
                    poison: false,
                },
                false => Error::Unavailable {
                    cause,
                    held: now - since,
                    outcome: entry.outcome(),
                    retry_after: self.next_try(now),
                },
            };
            return self.refuse(&entry, &error);
        }
        let total = self.ceiling(&entry).is_some_and(|at| at <= now);
        let after = match total {
            true => self.bounds(&entry).1,
            false => self.bounds(&entry).0.or(Some(self.policy.discover)),
        };
        let after = after.unwrap_or_default();
        let error = if self.is_unproven_discover(&entry) {
            let why = format!(
                "The server did not answer it within {}; use `initialize`.",
                seconds(after)
            );
            self.doubt_discover(now, None, &why);
            Error::Unsupported { why }
        } else {
            Error::Timeout {
                after,
                bound: if total { Bound::Total } else { Bound::Idle },
            }
        };
        self.refuse(&entry, &error);
        self.abandon(now, id, &entry, None);
        if let Some(link) = &mut self.link {
            link.liveness.urgent = true;
        }
    }

    /// The server has ended over `server/discover`, or not answered it. That proves nothing: it may lack a key that
    /// somebody is about to give it. But it is not asked again for a moment.
    pub(super) fn doubt_discover(&mut self, now: Time, ended: Option<Generation>, why: &str) {
        self.discover_doubt = Some(Doubt {
            until: now + DOUBT,
            ended,
            why: why.into(),
        });
    }

    /// The host's `initialize` was answered with a result. If the server before this one has ended over
    /// `server/discover`, that was why: it starts, and it takes the one and not the other.
    pub(super) fn note_if_legacy(&mut self, generation: Generation) {
        let doubt = self.discover_doubt.take();
        let ended = doubt.and_then(|doubt| doubt.ended);
        if ended.is_some_and(|ended| ended.next() == generation) {
            self.policy.refuse_discover = true;
            self.emit(Event::LegacyOnly);
        }
    }

    /// Progress was made with this request: its idle clock starts anew.
    pub(super) fn rearm(&mut self, now: Time, id: &Id) {
        let Some(entry) = self.ledger.get(id) else {
            return;
        };
        // Whatever a server says about a request it has not been sent: that waits for its hold.
        if self.bounds(entry).0.is_none() || entry.is_held() {
            return;
        }
        self.ledger.thaw(id, now);
        if let Some(entry) = self.ledger.get(id) {
            let due = self.flight_due(entry, now);
            self.ledger.rearm(id, due);
        }
        if self.pause.is_some() {
            self.ledger.freeze(id, now);
        }
    }

    /// Sends a request of our own on the link in service.
    pub(super) fn send_own(
        &mut self,
        now: Time,
        own: Own,
        make: impl FnOnce(&Session, &Id) -> Message,
    ) -> Option<Id> {
        let ledger = &self.ledger;
        // A link that is known dead is sent nothing, whatever its last words ask for.
        let link = self.link.as_mut().filter(|link| link.is_alive())?;
        let id = link.fresh_id(|id| ledger.contains(id));
        link.own.insert(id.clone(), own);
        let message = make(self, &id);
        self.tell_link(now, message);
        Some(id)
    }
}
