//! The end: what was accepted may finish, then everything is settled and the server is stopped.

use crate::cause::{Cause, Phase, Reason};
use crate::error::Error;
use crate::event::{Event, State};
use crate::link::LinkOrder;
use crate::time::Time;

use super::life::cancelled_by_us;
use super::link::{Stage, StopStep};
use super::{Ending, Output, Session};

impl Session {
    /// The host has left, or the session is to end: nothing new is accepted.
    pub(super) fn drain(&mut self, now: Time) {
        if self.ending != Ending::No {
            return;
        }
        self.ending = Ending::Draining {
            until: now + self.policy.drain,
        };
        self.emit(Event::Draining {
            in_flight: self.ledger.awaited(),
        });
    }

    /// The user wants the end: gracefully the first time, at once the second.
    pub(super) fn stop(&mut self, now: Time) {
        match self.ending {
            Ending::No => self.drain(now),
            Ending::Draining { .. } => {
                self.finish(now);
                self.kill_remains(now);
            }
            Ending::Stopping => self.kill_remains(now),
            Ending::Closed => {}
        }
    }

    pub(super) fn ending_on_time(&mut self, now: Time) {
        if let Ending::Draining { until } = self.ending
            && (until <= now || self.ledger.awaited() == 0)
        {
            self.finish(now);
        }
        if self.ending == Ending::Stopping && self.remains.is_none() {
            self.ending = Ending::Closed;
            self.set_state(State::Closed);
            self.out.push_back(Output::Closed);
        }
    }

    /// Settles everything and begins to stop the server.
    fn finish(&mut self, now: Time) {
        self.ending = Ending::Stopping;
        self.queue.clear();
        self.note_bytes = 0;
        for id in self.ledger.in_order(|_| true) {
            let Some(entry) = self.ledger.settle(&id) else {
                continue;
            };
            self.refuse(&entry, &Error::ShuttingDown);
            self.abandon(now, &id, &entry, None);
        }
        let Some(link) = self.link.take() else { return };
        let cause = Cause {
            reason: Reason::Closing,
            phase: Phase::Service,
            label: self.policy.label.clone(),
            stderr_tail: Default::default(),
        };
        for id in link.asks.keys() {
            self.tell_host(cancelled_by_us(id, &cause));
        }
        self.set_state(State::Down {
            cause: cause.clone(),
            retry_at: now + self.skipped,
        });
        self.bury(now, link.generation, &cause);
        if link.stage == Stage::Making {
            self.kill_remains(now);
        }
    }

    fn kill_remains(&mut self, now: Time) {
        if let Some(remains) = &mut self.remains
            && remains.step != StopStep::Killed
        {
            remains.step = StopStep::Killed;
            remains.until = now + std::time::Duration::from_secs(1);
            self.out
                .push_back(Output::Link(remains.generation, LinkOrder::Kill));
        }
    }
}
