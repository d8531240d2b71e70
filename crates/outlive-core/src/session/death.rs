//! A link dies: why, who is told, and what becomes of its process.

use std::time::Duration;

use crate::cause::{Cause, Phase, Reason};
use crate::event::{Event, State};
use crate::ledger::Place;
use crate::link::LinkOrder;
use crate::message::{Id, Message};
use crate::policy::Cancel;
use crate::supervisor::Decision;
use crate::time::Time;

use super::handover::is_on;
use super::link::{Link, Stage, StopStep, StoppingProcess};
use super::{Output, Session};

/// How long the end of a link's output waits for the exit status that explains it.
pub(super) const EXIT_PATIENCE: Duration = Duration::from_millis(100);
/// How long a server that is already lost to us may take to leave after `SIGTERM`.
const LOST_GRACE: Duration = Duration::from_millis(500);
/// How long a killed process is waited for before the next one is started all the same.
pub(super) const KILL_PATIENCE: Duration = Duration::from_secs(1);

impl Session {
    /// Known dead, but what that means may become clearer in a moment.
    pub(super) fn begin_dying(&mut self, now: Time, reason: Reason, patience: Duration) {
        let Some(link) = &mut self.link else { return };
        if matches!(link.stage, Stage::Dying { .. }) {
            return;
        }
        link.stage = Stage::Dying {
            reason: reason.clone(),
            until: now + patience,
        };
        let cause = self.cause(now, reason);
        // Nobody may take a dead link for a live one, not even for this moment (invariant 5).
        self.set_state(State::Down {
            cause,
            retry_at: self.clock.outside(now),
        });
    }

    /// The server is stopped and nobody will wake it: it is killed. What it had not taken by then
    /// it has not executed, so that is waited for.
    pub(super) fn kill_stopped(&mut self, now: Time) {
        if let Some(link) = &self.link {
            self.out
                .push_back(Output::Link(link.generation, LinkOrder::Kill));
        }
        self.begin_dying(now, Reason::Stopped, EXIT_PATIENCE);
    }

    pub(super) fn cause(&self, now: Time, reason: Reason) -> Cause {
        let link = self.link.as_ref();
        let phase = match (&reason, link.and_then(|link| link.served)) {
            (Reason::Unmade(_), _) => Phase::Spawn,
            (_, None) => Phase::Handshake,
            (_, Some(_)) => Phase::Service,
        };
        let last_words = link.map(|link| link.last_words(now, &reason));
        Cause {
            reason,
            phase,
            label: self.policy.server_label(),
            stderr_tail: last_words.unwrap_or_default().into(),
        }
    }

    /// The link is dead. Everything in it is settled now; its process, if there still is one, is
    /// seen to afterwards.
    pub(super) fn lose(&mut self, now: Time, reason: Reason) {
        let cause = self.cause(now, reason);
        let Some(link) = self.link.take() else { return };
        self.end_pause(now);
        let generation = link.generation;
        self.state_lost |= link.worked;
        self.last_cause = Some(cause.clone());
        self.memory.catalog.link_lost();
        let in_flight = self.ledger.in_order(|e| is_on(e, generation));
        self.emit(Event::Lost {
            generation,
            cause: cause.clone(),
            in_flight: in_flight.len(),
        });
        // The next server is told before anything else reaches it.
        self.confirm_initialized();
        self.stop_process(now, &link, &cause);
        self.blame_cancellation(&link, &cause, &in_flight);

        let verdict = match cause.reason {
            Reason::Requested => {
                self.supervisor.reset();
                Decision::RetryAt(now)
            }
            Reason::VersionChanged { .. } | Reason::Unauthorized(_) => self.supervisor.open(now),
            Reason::Unreachable(_) => self.supervisor.absent(now),
            Reason::SessionExpired if link.disowned => self.supervisor.forgotten(now),
            // That says nothing about the server.
            Reason::OwnerEnded => Decision::RetryAt(now),
            _ => self.supervisor.ended(now, link.served),
        };
        let failed = matches!(verdict, Decision::OpenUntil(_));
        let (Decision::RetryAt(at) | Decision::OpenUntil(at)) = verdict;
        self.retry_at = Some(at);
        let retry_at = self.clock.outside(at);
        self.set_state(match failed {
            false => State::Down {
                cause: cause.clone(),
                retry_at,
            },
            true => State::Failed {
                cause: cause.clone(),
                retry_at,
            },
        });

        for id in link.asks.keys() {
            self.tell_host(cancelled_by_us(id, &cause));
        }
        let mut again = Vec::new();
        for id in in_flight {
            if let Some(place) = self.settle_lost(now, &id, &link, &cause) {
                again.push(place);
            }
        }
        for waiting in again.into_iter().rev() {
            self.queue.push_front(waiting);
        }
        self.fail_held_greeting(now, &link, &cause);
        self.bound_held_greeting(now);
        if failed {
            self.fail_held(now, &cause);
        }
    }

    /// Sees to the process of a link that is no longer in service.
    pub(super) fn stop_process(&mut self, now: Time, link: &Link, cause: &Cause) {
        let generation = link.generation;
        let grace = &self.policy;
        let (order, step, patience) = match cause.reason {
            Reason::Unmade(_) if link.stage == Stage::Making => return,
            // Its process is nobody's to see to.
            Reason::OwnerEnded => return,
            // What it left behind goes too (FM-09).
            _ if link.exited => {
                self.out
                    .push_back(Output::Link(generation, LinkOrder::Kill));
                if link.orphaned {
                    self.out
                        .push_back(Output::Link(generation, LinkOrder::Release));
                }
                return;
            }
            Reason::Requested
            | Reason::Closing
            | Reason::HandshakeRefused(_)
            | Reason::VersionChanged { .. } => (
                LinkOrder::CloseInput,
                StopStep::InputClosed,
                grace.stop_grace,
            ),
            Reason::Unmade(_)
            | Reason::Exited(_)
            | Reason::Eof
            | Reason::WriteFailed(_)
            | Reason::Disconnected(_)
            | Reason::Unreachable(_)
            | Reason::Unauthorized(_)
            | Reason::SessionExpired
            | Reason::Unanswered(_)
            | Reason::SlowHandshake(_)
            | Reason::Unresponsive(_) => (LinkOrder::Terminate, StopStep::Terminated, LOST_GRACE),
            Reason::Stopped => (LinkOrder::Kill, StopStep::Killed, KILL_PATIENCE),
        };
        self.out.push_back(Output::Link(generation, order));
        self.stopping = Some(StoppingProcess {
            generation,
            step,
            until: now + patience,
        });
    }

    /// A process that does not leave is asked ever more firmly.
    pub(super) fn stopping_on_time(&mut self, now: Time) {
        let Some(stopping) = &mut self.stopping else {
            return;
        };
        if stopping.until > now {
            return;
        }
        let (step, order, patience) = match stopping.step {
            StopStep::InputClosed => (
                StopStep::Terminated,
                LinkOrder::Terminate,
                self.policy.term_grace,
            ),
            StopStep::Terminated => (StopStep::Killed, LinkOrder::Kill, KILL_PATIENCE),
            StopStep::Killed => {
                // Not even SIGKILL has ended it; waiting longer helps nobody.
                self.stopping = None;
                return;
            }
        };
        stopping.step = step;
        stopping.until = now + patience;
        self.out.push_back(Output::Link(stopping.generation, order));
    }

    /// A server that ends by itself soon after a cancellation has died of it, unless it was at work
    /// on a request that came later. If it answers what was cancelled, as those do that die of it, or if
    /// that happens for the second time, it has died of it all the same.
    fn blame_cancellation(&mut self, link: &Link, cause: &Cause, in_flight: &[Id]) {
        let later = |id: &Id| {
            let place = self.ledger.get(id).map(|entry| &entry.place);
            // What it has not read it cannot have died of.
            let read = link.liveness.proven..link.taken;
            matches!(place, Some(Place::InFlight { frame, .. }) if read.contains(frame))
        };
        if self.policy.cancel == Cancel::Auto
            && !self.absorbing
            && is_own_doing(cause)
            && link.liveness.suspect_until.is_some()
        {
            let again = std::mem::replace(&mut self.died_as_suspect, true);
            if in_flight.iter().any(later) && !again && !link.liveness.answers_cancelled {
                return;
            }
            self.absorbing = true;
            self.emit(Event::AbsorbingCancels {
                generation: link.generation,
            });
        }
    }
}

/// Whether a server ended by itself, rather than because somebody ended it.
pub(super) fn is_own_doing(cause: &Cause) -> bool {
    match &cause.reason {
        Reason::Exited(exit) => !exit.is_external(),
        Reason::Eof | Reason::WriteFailed(_) | Reason::Disconnected(None) => true,
        _ => false,
    }
}

/// Tells the host that nobody waits for its answer to a request of the server any more.
pub(super) fn cancelled_by_us(id: &Id, cause: &Cause) -> Message {
    let reason = serde_json::json!(format!(
        "{} {}.",
        cause.sentence_subject(),
        cause.predicate()
    ));
    let params = format!(r#"{{"requestId":{},"reason":{reason}}}"#, id.to_json());
    Message::notification("notifications/cancelled", params.as_bytes())
}
