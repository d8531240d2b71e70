//! The end: what was accepted may finish, then everything is settled and the server is stopped.

use std::time::Duration;

use crate::cause::{Cause, Phase, Reason};
use crate::error::{Error, Outcome};
use crate::event::{Event, State};
use crate::ledger::Entry;
use crate::link::{Generation, LinkInput, LinkOrder};
use crate::message::Id;
use crate::request::Settled;
use crate::time::Time;

use super::death::{KILL_PATIENCE, cancelled_by_us};
use super::handover::is_on;
use super::link::{Stage, StopStep};
use super::{Ending, Output, Session};

impl Session {
    /// The host has left. What it asked for may still finish, within a short time that begins when
    /// there is a server to do it; what it was asked will not be answered.
    pub(super) fn host_left(&mut self, now: Time) {
        self.host_gone = true;
        let served = self.link.as_ref().is_some_and(|link| link.served.is_some());
        self.drain(
            now,
            match served {
                true => self.policy.drain,
                false => self.policy.drain.max(self.policy.hold),
            },
        );
        let asks = self
            .link
            .as_mut()
            .map(|link| std::mem::take(&mut link.asks));
        let asks = asks.unwrap_or_default().into_values();
        for ask in asks.filter(|ask| !ask.login) {
            self.answer_server(
                now,
                &ask.server_id_json,
                &Error::ShuttingDown {
                    outcome: Outcome::Unknown,
                },
            );
        }
    }

    /// Nobody hears what the host would be told. What it asked for may be done, but is not waited for
    /// if it has not even begun.
    pub(super) fn host_vanished(&mut self, now: Time) {
        self.host_left(now);
        self.drain_from(now);
    }

    /// Nothing new is accepted; what was accepted may finish.
    fn drain(&mut self, now: Time, patience: Duration) {
        if self.ending == Ending::No {
            self.ending = Ending::Draining {
                until: now + patience,
            };
            self.emit(Event::Draining {
                in_flight: self.ledger.awaited(),
            });
        }
    }

    /// There is no reason to wait any longer than usual: the server has come into service while the session
    /// is draining, or will not be needed.
    pub(super) fn drain_from(&mut self, now: Time) {
        if let Ending::Draining { until } = &mut self.ending {
            *until = (*until).min(now + self.policy.drain);
        }
    }

    /// The user wants the end: gracefully the first time, at once the second.
    pub(super) fn stop(&mut self, now: Time) {
        let again = std::mem::replace(&mut self.stop_asked, true);
        match self.ending {
            Ending::No => self.drain(now, self.policy.drain),
            Ending::Draining { .. } => self.finish(now),
            Ending::Stopping | Ending::Closed => {}
        }
        if again {
            self.kill_stopping(now);
        }
    }

    pub(super) fn ending_on_time(&mut self, now: Time) {
        if let Ending::Draining { until } = self.ending
            && (until <= now || self.ledger.awaited() == 0)
        {
            self.finish(now);
        }
        if self.ending == Ending::Stopping && self.stopping.is_none() {
            self.forget_rest();
            self.ending = Ending::Closed;
            self.set_state(State::Closed);
            self.out.push_back(Output::Closed);
        }
    }

    /// Settles everything and begins to stop the server. A host that has left may still read: what it asked for is
    /// cancelled, but if the server answers it before it is gone, the host is told.
    fn finish(&mut self, now: Time) {
        self.ending = Ending::Stopping;
        self.queue.clear();
        self.note_bytes = 0;
        for id in self.ledger.in_order(|_| true) {
            if self.host_gone && self.may_be_answered(&id) {
                self.cancel_last(now, &id);
                continue;
            }
            let Some(entry) = self.ledger.settle(&id) else {
                continue;
            };
            // A host that has left waits for nothing, and some break on being told (mcp 1.x).
            if self.host_gone {
                self.observed_end(&entry, Settled::Abandoned);
            } else {
                let outcome = match entry.is_held() && entry.deaths == 0 {
                    true => entry.outcome(),
                    false => Outcome::Unknown,
                };
                self.refuse(&entry, &Error::ShuttingDown { outcome });
            }
            self.abandon(now, &id, &entry, None);
        }
        let Some(link) = self.link.take() else { return };
        self.end_pause(now);
        let cause = Cause {
            reason: Reason::Closing,
            phase: Phase::Service,
            label: self.policy.server_label(),
            stderr_tail: Default::default(),
        };
        for id in link.asks.keys().filter(|_| !self.host_gone) {
            let told = cancelled_by_us(id, &cause);
            self.out.push_back(Output::ToHost(told));
        }
        self.set_state(State::Down {
            cause: cause.clone(),
            retry_at: self.clock.outside(now),
        });
        self.stop_process(now, &link, &cause);
        if link.stage == Stage::Making {
            self.kill_stopping(now);
        }
        if self.ledger.len() > 0 {
            self.link = Some(link.leaving(now, &self.policy.limits));
        }
    }

    /// Whether the server in service is at work on a request and could still answer it while it leaves.
    fn may_be_answered(&self, id: &Id) -> bool {
        let Some(link) = &self.link else { return false };
        let running = |entry: &Entry| is_on(entry, link.generation) && !entry.is_listen();
        let speaks = !link.exited && !link.is_being_killed() && !link.rejected.contains(id);
        self.ledger.get(id).is_some_and(running) && speaks
    }

    /// The server leaves. What it answers reaches the host until it is gone.
    pub(super) fn on_leaving_link(&mut self, now: Time, generation: Generation, input: LinkInput) {
        match input {
            LinkInput::Frame(frame) => self.on_server(now, frame),
            LinkInput::FrameOf(id, frame) => {
                self.about = Some(id);
                self.on_server(now, frame);
                self.about = None;
            }
            LinkInput::Exited { .. }
            | LinkInput::Orphaned { .. }
            | LinkInput::Disconnected { .. } => {
                self.forget_rest();
                self.on_old_link(generation, input);
            }
            LinkInput::Unexecuted { id, .. } => self.decide_resend(generation, id, false),
            _ => {}
        }
    }

    /// The last server is gone: what it has not answered nobody will, and nobody waits for it.
    fn forget_rest(&mut self) {
        self.link = None;
        for id in self.ledger.in_order(|_| true) {
            if let Some(entry) = self.ledger.settle(&id) {
                self.observed_end(&entry, Settled::Abandoned);
                self.over(&id);
            }
        }
    }

    fn kill_stopping(&mut self, now: Time) {
        if let Some(stopping) = &mut self.stopping
            && stopping.step != StopStep::Killed
        {
            stopping.step = StopStep::Killed;
            stopping.until = now + KILL_PATIENCE;
            self.out
                .push_back(Output::Link(stopping.generation, LinkOrder::Kill));
        }
    }
}
