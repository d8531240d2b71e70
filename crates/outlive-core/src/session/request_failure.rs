//! Requests that fail by themselves, while their link lives on.
//!
//! Over a pipe a request is lost only with its link. Over HTTP each has an exchange of its own, which
//! may be refused, never begin, or break off, while the link (the session on the server) lives on. The
//! outcome decides as always: what was not executed is sent again, what may have been is repeated only if
//! that is safe.

use std::time::Duration;

use crate::cause::{Cause, Phase, Reason, StartFailure};
use crate::error::{Error, Outcome};
use crate::event::Event;
use crate::ledger::{Entry, Place, RequestKey};
use crate::link::RequestFailure;
use crate::message::Id;
use crate::policy::Retry;
use crate::time::Time;

use super::handover::{POISON, is_on};
use super::link::Own;
use super::{Session, Waiting};

/// How long a server that is too busy and does not say for how long is left alone.
const BUSY: Duration = Duration::from_secs(1);
/// What is put off for longer than this is put off alone: the others need not wait for it.
const BUSY_FOR_ALL: Duration = Duration::from_secs(5);
/// No server is left alone for longer, whatever it says.
const MOST_BUSY: Duration = Duration::from_secs(300);
/// A request refused this often in a row is given up.
const MOST_REFUSALS: u32 = 8;
/// How long the failures of the other requests are waited for when one was refused with its link.
const REFUSAL_PATIENCE: Duration = Duration::from_secs(1);

impl Session {
    /// A request on the link in service will not be answered.
    pub(super) fn unanswered(&mut self, now: Time, id: &Id, failure: RequestFailure) {
        if !matches!(failure, RequestFailure::Lost(_))
            && self
                .link
                .as_ref()
                .is_some_and(|link| link.tombstones.contains(id))
        {
            self.over(id);
        }
        match failure {
            RequestFailure::Unsent(error) => {
                self.note_unexecuted(id);
                self.end_by_refusal(now, Reason::Unreachable(error));
            }
            RequestFailure::Rejected {
                status: status @ (401 | 403),
                ..
            } => self.unauthorized(now, id, status),
            RequestFailure::Rejected {
                status,
                retry_after,
            } => self.rejected(now, id, status, retry_after),
            RequestFailure::WrongEra(why) => {
                self.own_answer_is_lost(now, id, &why);
                if let Some(host_id) = self.request_on_link(id) {
                    self.refuse_unexecuted(&host_id, Error::Unsupported { why });
                }
            }
            RequestFailure::Lost(why) => self.broken_off(now, id, why),
            RequestFailure::Elsewhere { status, why } => self.elsewhere(now, id, status, why),
        }
    }

    /// The server is at an address we do not go to, as it says to this request. If that is how a session begins, there
    /// will be none; otherwise it is the request's own affair (a login page, say), and what else is in flight goes on.
    fn elsewhere(&mut self, now: Time, id: &Id, status: u16, why: String) {
        self.note_rejected(id, status);
        let host_id = self.request_on_link(id);
        let entry = host_id.as_ref().and_then(|id| self.ledger.get(id));
        let served = self.link.as_ref().is_some_and(|link| link.served.is_some());
        let begins = entry.is_some_and(|entry| self.is_greeting(entry)) && !served;
        if self.is_own_handshake(id) || begins && !self.is_at_stake() {
            return self.lose(now, Reason::Unmade(StartFailure::Other(why)));
        }
        self.own_answer_is_lost(now, id, &format!("status {status}"));
        let Some(host_id) = host_id else { return };
        match begins {
            true => self.refuse_unexecuted(
                &host_id,
                Error::Unavailable {
                    cause: Some(self.cause(now, Reason::Unmade(StartFailure::Other(why)))),
                    held: Duration::ZERO,
                    outcome: Outcome::Rejected,
                    retry_after: None,
                },
            ),
            false => self.refuse_unexecuted(
                &host_id,
                Error::Rejected {
                    status,
                    why: Some(why),
                },
            ),
        }
    }

    /// Whether something is in flight on the link that may be executed, and would be lost with the link.
    pub(super) fn is_at_stake(&self) -> bool {
        let Some(link) = &self.link else { return false };
        self.ledger.iter().any(|(id, entry)| {
            is_on(entry, link.generation) && !entry.is_listen() && !link.rejected.contains(id)
        })
    }

    /// Answers a request that a server refused unexecuted. If an earlier one may have executed it, that is said.
    pub(super) fn refuse_unexecuted(&mut self, host_id: &Id, error: Error) {
        let Some(entry) = self.take_unanswered(host_id) else {
            return;
        };
        let method = entry.message.method();
        let asks = entry.is_listen() || matches!(method, "initialize" | "server/discover");
        let error = match entry.deaths > 0 && !asks {
            false => error,
            true => Error::ConnectionLost {
                cause: self.unanswered_cause(match error {
                    Error::Rejected { status, .. } => format!("status {status}"),
                    error => error.kind().into(),
                }),
                outcome: Outcome::Unknown,
                poison: false,
            },
        };
        self.refuse(&entry, &error);
    }

    pub(super) fn unanswered_cause(&self, why: String) -> Cause {
        Cause {
            reason: Reason::Unanswered(why),
            phase: Phase::Service,
            label: self.policy.server_label(),
            stderr_tail: Default::default(),
        }
    }

    /// One request was refused in a way that ends the link. The others in flight are being refused in
    /// the same way, each in its own exchange: they are waited for, so that none counts as perhaps
    /// executed that was not.
    pub(super) fn end_by_refusal(&mut self, now: Time, reason: Reason) {
        self.begin_dying(now, reason, REFUSAL_PATIENCE);
    }

    /// Whether it is known, of everything in flight on a link that ends by refusals, how it ends.
    pub(super) fn is_decided(&self, reason: &Reason) -> bool {
        let refusal = matches!(
            reason,
            Reason::Unreachable(_) | Reason::Unauthorized(_) | Reason::SessionExpired
        );
        let Some(link) = self.link.as_ref().filter(|_| refusal) else {
            return false;
        };
        self.ledger.iter().all(|(id, entry)| {
            // A stream of notifications is opened again in any case.
            !is_on(entry, link.generation) || entry.is_listen() || link.rejected.contains(id)
        })
    }

    /// This request, by its id on the link, was refused unexecuted with this status.
    pub(super) fn note_rejected(&mut self, id: &Id, status: u16) {
        if let Some(host_id) = self.request_on_link(id) {
            self.ledger.refused(&host_id, status);
        }
        self.note_unexecuted(id);
    }

    /// This request, by its id on the link, was certainly not executed.
    fn note_unexecuted(&mut self, id: &Id) {
        let host_id = self.request_on_link(id);
        if let (Some(link), Some(host_id)) = (&mut self.link, host_id) {
            link.rejected.insert(host_id);
        }
    }

    /// The server does not take a request, now or at all. If it is too busy, the request waits, and for a moment so do
    /// the others; a long wait is the request's own. With [`Retry::Never`] nothing is sent a second time that a server
    /// had.
    fn rejected(&mut self, now: Time, id: &Id, status: u16, retry_after: Option<Duration>) {
        let busy = matches!(status, 429 | 503);
        let pause = retry_after.unwrap_or(BUSY).min(MOST_BUSY);
        let alone = pause > BUSY_FOR_ALL;
        if let Some(link) = &mut self.link
            && busy
        {
            let until = now + if alone { BUSY } else { pause };
            link.busy_until = link.busy_until.max(Some(until));
        }
        let why = format!("status {status}");
        if busy && self.is_own_handshake(id) {
            return self.end_by_refusal(now, Reason::Unreachable(why));
        }
        self.own_answer_is_lost(now, id, &why);
        let Some(host_id) = self.request_on_link(id) else {
            return;
        };
        let Some(entry) = self.ledger.get(&host_id) else {
            return;
        };
        let asks = entry.is_listen() || self.is_greeting(entry);
        // A proxy says 503 also of what a server behind it has executed. One that names a time for it has not.
        if status == 503 && retry_after.is_none() && !asks {
            if entry.superseded || !self.is_safe_here(entry) {
                return self.broken_off(now, id, why);
            }
            let verify = self.is_to_be_verified(entry);
            self.ledger.died(&host_id, entry.deaths.max(1), verify);
        }
        let Some(entry) = self.ledger.get(&host_id) else {
            return;
        };
        let again = busy && (asks || self.retry_of(entry) != Retry::Never);
        let tries = entry.refusals + 1;
        // Nobody waits for long for what could be said now. Only a stream of notifications may wait.
        let due = self.held_due(entry, now).unwrap_or(now + self.policy.hold);
        let too_late = due <= now + pause && !entry.is_listen();
        if !again || tries >= MOST_REFUSALS || alone && too_late {
            if busy || status >= 500 {
                self.note_failed_handshake(&host_id, &why);
            }
            return self.refuse_unexecuted(&host_id, Error::Rejected { status, why: None });
        }
        self.ledger.put_off(&host_id, status, tries);
        match alone {
            true => self.send_at(now, now + pause, &host_id),
            false => self.send_later(now, &host_id),
        }
    }

    /// The exchange of a request broke off: it may have been executed.
    fn broken_off(&mut self, now: Time, id: &Id, why: String) {
        if self.is_own_handshake(id) {
            return self.end_by_refusal(now, Reason::Unreachable(why));
        }
        self.own_answer_is_lost(now, id, &why);
        let Some(host_id) = self.request_on_link(id) else {
            return;
        };
        let Some(entry) = self.ledger.get(&host_id) else {
            return;
        };
        if entry.superseded {
            let entry = entry.clone();
            self.forget_on_link(&host_id, &entry);
            return self.answer_superseded(&host_id);
        }
        let cause = self.unanswered_cause(why.clone());
        let deaths = entry.deaths + 1;
        if entry.is_listen() {
            return self.listen_again(now, &host_id);
        }
        let poison = deaths >= POISON;
        if poison && self.is_unproven_discover(entry) {
            // Not even an error: no modern server would (FM-42).
            let (server, predicate) = (cause.sentence_subject(), cause.predicate());
            let why = format!("{server} {predicate} twice; use `initialize`.");
            return self.refuse_unexecuted(&host_id, Error::Unsupported { why });
        }
        if self.is_safe_here(entry) && !poison {
            // If this link ends before it is sent, the next server has to say so too.
            let verify = self.is_to_be_verified(entry);
            self.ledger.died(&host_id, deaths, verify);
            self.send_later(now, &host_id);
            return;
        }
        self.note_failed_handshake(&host_id, &why);
        if let Some(entry) = self.take_unanswered(&host_id) {
            let error = Error::ConnectionLost {
                cause,
                outcome: Outcome::Unknown,
                poison,
            };
            self.refuse(&entry, &error);
        }
    }

    /// A request is given up for what its server's address says about all of them. If that is how a session begins,
    /// there is no server in service, although its link lives, and whoever watches is told.
    fn note_failed_handshake(&mut self, host_id: &Id, why: &str) {
        let served = self.link.as_ref().is_some_and(|link| link.served.is_some());
        let entry = self.ledger.get(host_id);
        if !served && entry.is_some_and(|entry| self.is_greeting(entry)) {
            let cause = Cause {
                phase: Phase::Handshake,
                ..self.unanswered_cause(why.into())
            };
            self.emit(Event::HandshakeFailed { cause });
        }
    }

    /// Whether the list of a new server has to say that repeating this is safe.
    pub(super) fn is_to_be_verified(&self, entry: &Entry) -> bool {
        entry.message.is("tools/call") && self.retry_of(entry) == Retry::Safe
    }

    /// Whether this is the handshake by which we find out if a server is back. That it breaks off, or is put
    /// off, says that it is not, yet.
    fn is_own_handshake(&self, id: &Id) -> bool {
        let link = self.link.as_ref();
        link.and_then(|link| link.own.get(id)) == Some(&Own::Handshake)
    }

    /// Whether a request may be repeated on the link in service: what a tool's annotations say counts
    /// only if this server has said it.
    fn is_safe_here(&self, entry: &Entry) -> bool {
        let told = !entry.message.is("tools/call")
            || self.retry_of(entry) == Retry::Always
            || self.memory.catalog.is_fresh();
        told && self.is_safe(entry)
    }

    /// A stream of notifications ended: it is opened again, at once if it was open for long, otherwise
    /// after ever longer pauses. A server that closes every stream at once is not stormed.
    fn listen_again(&mut self, now: Time, host_id: &Id) {
        let Some(entry) = self.ledger.get(host_id).cloned() else {
            return;
        };
        let lasted = now - entry.placed >= self.policy.breaker.healthy_after;
        let deaths = if lasted { 0 } else { entry.deaths + 1 };
        let backoff = &self.policy.backoff;
        let pause = match deaths {
            0 => Duration::ZERO,
            n => (backoff.base * 2u32.saturating_pow(n - 1)).min(backoff.cap),
        };
        self.ledger.died(host_id, deaths, false);
        self.send_at(now, now + pause, host_id);
        self.wake_later(now);
    }

    /// Puts a request aside until a moment of its own.
    fn send_at(&mut self, now: Time, at: Time, host_id: &Id) {
        let Some(entry) = self.ledger.get(host_id).cloned() else {
            return;
        };
        self.forget_on_link(host_id, &entry);
        let due = self.held_due(&entry, now);
        self.ledger
            .place(host_id, Place::Held { since: now }, due, now);
        let ledger = &self.ledger;
        // Those that were settled meanwhile need no moment any more.
        self.later
            .retain(|(_, id, key)| ledger.get(id).is_some_and(|e| e.key == *key));
        self.later.push((at, host_id.clone(), entry.key));
    }

    /// What was put aside, and whose moment has come, is sent: a stream of notifications is opened again.
    pub(super) fn wake_later(&mut self, now: Time) {
        let (due, later) = std::mem::take(&mut self.later)
            .into_iter()
            .partition::<Vec<_>, _>(|(at, ..)| *at <= now);
        self.later = later;
        for (_, id, key) in due {
            let waits = |e: &Entry| e.key == key && e.is_held();
            if self.ledger.get(&id).is_some_and(waits) {
                self.enqueue(&id, key);
            }
        }
    }

    /// Takes a request that will not be answered out of the ledger.
    pub(super) fn take_unanswered(&mut self, host_id: &Id) -> Option<Box<Entry>> {
        let entry = self.ledger.settle(host_id)?;
        self.forget_on_link(host_id, &entry);
        Some(entry)
    }

    /// What the link knew of a request it no longer has.
    pub(super) fn forget_on_link(&mut self, host_id: &Id, entry: &Entry) {
        let (Some(link), Place::InFlight { alias, .. }) = (&mut self.link, &entry.place) else {
            return;
        };
        if let Some(alias) = alias {
            link.aliases.remove(alias);
        }
        link.reissued.remove(host_id);
        link.forget_rejected(host_id);
    }

    /// Puts a request back in its place among those that wait: before all that came later.
    fn send_later(&mut self, now: Time, host_id: &Id) {
        let Some(entry) = self.ledger.get(host_id).cloned() else {
            return;
        };
        self.forget_on_link(host_id, &entry);
        let due = self.held_due(&entry, now);
        self.ledger
            .place(host_id, Place::Held { since: now }, due, now);
        self.enqueue(host_id, entry.key);
    }

    fn enqueue(&mut self, host_id: &Id, key: RequestKey) {
        let later = |waiting: &Waiting| match waiting {
            Waiting::Request(_, other) => *other > key,
            Waiting::Notification(..) => true,
        };
        let at = self
            .queue
            .iter()
            .position(later)
            .unwrap_or(self.queue.len());
        self.queue
            .insert(at, Waiting::Request(host_id.clone(), key));
    }
}
