//! What was in flight on a dead link is handed over to the next one, or fails.

use std::time::Duration;

use crate::cause::{Cause, Reason};
use crate::error::{Error, Outcome, own_output};
use crate::event::State;
use crate::ledger::{Entry, Place};
use crate::link::Generation;
use crate::message::Id;
use crate::policy::Retry;
use crate::protocol::method;
use crate::time::Time;

use super::death::is_own_doing;
use super::link::Link;
use super::{Session, Waiting};

/// A request in flight at this many deaths in a row is not sent again.
pub(crate) const POISON: u32 = 2;

impl Session {
    /// Decides on a request that was in flight on a dead link: back to the queue, or failed.
    pub(super) fn settle_lost(
        &mut self,
        now: Time,
        id: &Id,
        link: &Link,
        cause: &Cause,
    ) -> Option<Waiting> {
        let entry = self.ledger.get(id)?;
        let Place::InFlight { frame, .. } = entry.place else {
            return None;
        };
        if entry.superseded {
            self.answer_superseded(id);
            return None;
        }
        let sent = frame < link.taken && !link.rejected.contains(id);
        let listen = entry.is_listen();
        let greeting = self.is_greeting(entry);
        let deaths = match listen {
            true => entry.deaths + 1,
            false => entry.deaths + u32::from(sent || greeting && !is_absence(cause)),
        };
        let probe_killed = sent && is_own_doing(cause) && self.is_unproven_discover(entry);
        let poison = deaths >= POISON && !listen;
        let hopeless = greeting && is_hopeless(cause);
        // Not sent this time does not undo that an earlier link may have executed it.
        let unknown = sent || entry.deaths > 0;
        let safe = !unknown || listen || self.is_safe(entry);
        let once = !unknown && !greeting && !listen && self.retry_of(entry) == Retry::Never;
        if let Some(status) = entry.refused.filter(|_| once) {
            let entry = self.ledger.settle(id)?;
            let error = match cause.reason {
                Reason::SessionExpired if link.doubted.contains_key(id) => Error::SessionExpired,
                _ => Error::Rejected { status, why: None },
            };
            self.refuse(&entry, &error);
            return None;
        }
        if safe && !poison && !hopeless && !probe_killed {
            let key = entry.key;
            // An attempt that found nobody does not begin the wait anew.
            let since = match cause.reason {
                Reason::Unreachable(_) if !sent => entry.waited.unwrap_or(entry.placed),
                _ => now,
            };
            let due = self.held_due(entry, since);
            let verify = unknown && self.is_to_be_verified(entry);
            self.ledger.died(id, deaths, verify);
            if !sent && !link.rejected.contains(id) {
                self.ledger.unread(id);
            }
            let overdue = due.is_some_and(|due| due <= now);
            let due = due.filter(|_| !overdue);
            self.ledger.place(id, Place::Held { since }, due, now);
            if overdue {
                self.expire(now, id);
                return None;
            }
            return Some(Waiting::Request(id.clone(), key));
        }
        let entry = self.ledger.settle(id)?;
        if probe_killed {
            let why = format!(
                "{} {} when it was asked; use `initialize`.{}",
                cause.sentence_subject(),
                cause.predicate(),
                own_output(cause)
            );
            self.doubt_discover(now, Some(link.generation), &why);
            self.refuse(&entry, &Error::Unsupported { why });
            return None;
        }
        let outcome = match unknown {
            true => Outcome::Unknown,
            false => Outcome::NotSent,
        };
        let error = match greeting {
            // Nothing was lost: there has not been a session yet.
            true => Error::Unavailable {
                cause: Some(cause.clone()),
                held: Duration::ZERO,
                outcome: entry.outcome(),
                retry_after: self.next_try(now),
            },
            false => Error::ConnectionLost {
                cause: cause.clone(),
                outcome,
                poison,
            },
        };
        self.refuse(&entry, &error);
        None
    }

    /// When this request is repeated.
    pub(super) fn retry_of(&self, entry: &Entry) -> Retry {
        entry.terms.retry.unwrap_or(self.policy.retry)
    }

    /// Whether a request may be repeated although it may have been executed (invariant 4).
    pub(super) fn is_safe(&self, entry: &Entry) -> bool {
        match self.retry_of(entry) {
            Retry::Never => false,
            Retry::Always => true,
            Retry::Safe => match entry.message.method() {
                "tools/call" => entry
                    .message
                    .name()
                    .is_some_and(|tool| self.memory.catalog.is_safe(&tool)),
                method => method::is_read_only(method),
            },
        }
    }

    /// Whether a request begins a session: `initialize`, or the probe a modern host begins with.
    /// Whoever waits for it waits for the start of the server and wants to know why it fails.
    pub(super) fn is_greeting(&self, entry: &Entry) -> bool {
        entry.message.is("initialize") || self.is_unproven_discover(entry)
    }

    /// Whether the last attempt found nobody at the server's address, and the next is not under way.
    pub(super) fn is_nobody_there(&self) -> bool {
        let cause = self.last_cause.as_ref().filter(|_| self.link.is_none());
        cause.is_some_and(|cause| matches!(cause.reason, Reason::Unreachable(_)))
    }

    /// A host whose greeting waits for a server that cannot be started is told so.
    pub(super) fn fail_held_greeting(&mut self, now: Time, link: &Link, cause: &Cause) {
        if link.served.is_some() || !is_hopeless(cause) {
            return;
        }
        for id in self.ledger.in_order(|e| e.is_held() && self.is_greeting(e)) {
            self.fail_one_held(now, &id, cause, Duration::ZERO);
        }
    }

    /// A host whose greeting waits while nobody is found at the server's address is told so in time.
    pub(super) fn bound_held_greeting(&mut self, now: Time) {
        if !self.is_nobody_there() {
            return;
        }
        let waits = |e: &Entry| e.is_held() && self.is_greeting(e);
        for id in self.ledger.in_order(waits) {
            let Some(entry) = self.ledger.get(&id) else {
                continue;
            };
            let since = entry.waited.unwrap_or(entry.accepted);
            match self.held_due(entry, since) {
                Some(due) if due <= now => self.expire(now, &id),
                due => self.ledger.place(&id, Place::Held { since }, due, now),
            }
        }
    }

    /// The breaker is open: nobody waits for a server that may not come.
    pub(super) fn fail_held(&mut self, now: Time, cause: &Cause) {
        for id in self.ledger.in_order(|e| e.is_held() && !e.is_listen()) {
            let held = match self.ledger.get(&id).map(|e| &e.place) {
                Some(Place::Held { since }) => now - *since,
                _ => Duration::ZERO,
            };
            self.fail_one_held(now, &id, cause, held);
        }
    }

    fn fail_one_held(&mut self, now: Time, id: &Id, cause: &Cause, held: Duration) {
        let Some(entry) = self.ledger.settle(id) else {
            return;
        };
        self.unqueue(&entry);
        let error = match entry.deaths > 0 && !self.is_greeting(&entry) {
            true => Error::ConnectionLost {
                cause: cause.clone(),
                outcome: Outcome::Unknown,
                poison: false,
            },
            false => Error::Unavailable {
                cause: Some(cause.clone()),
                held,
                outcome: entry.outcome(),
                retry_after: self.next_try(now),
            },
        };
        self.refuse(&entry, &error);
    }

    /// After what time the server is tried again: by itself, or if somebody calls then.
    pub(super) fn next_try(&self, now: Time) -> Option<Duration> {
        let at = self.retry_at?;
        let at = match self.state {
            State::Failed { .. } => at.min(self.supervisor.called()),
            _ => at,
        };
        Some(at.max(now) - now)
    }
}

/// Whether nobody was there at all, who could have had trouble with a request.
fn is_absence(cause: &Cause) -> bool {
    matches!(
        cause.reason,
        Reason::Unreachable(_) | Reason::SessionExpired | Reason::Unauthorized(_)
    )
}

/// Whether another attempt would only find the same, and a host that waits for it should be told.
fn is_hopeless(cause: &Cause) -> bool {
    matches!(cause.reason, Reason::SlowHandshake(_) | Reason::Unmade(_))
}

pub(super) fn is_on(entry: &Entry, generation: Generation) -> bool {
    matches!(entry.place, Place::InFlight { generation: on, .. } if on == generation)
}
