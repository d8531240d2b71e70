//! Links come and go: what a driver reports about them, and what is due on the one in service.

use crate::cause::{Exit, Reason};
use crate::event::{Direction, DropReason, Event, State};
use crate::ledger::sooner;
use crate::link::{Generation, LinkInput, LinkOrder};
use crate::time::Time;

use super::death::{EXIT_PATIENCE, KILL_PATIENCE};
use super::link::Stage;
use super::{Output, Session};

impl Session {
    pub(super) fn on_link(&mut self, now: Time, generation: Generation, input: LinkInput) {
        if self
            .link
            .as_ref()
            .is_none_or(|link| link.generation != generation)
        {
            return self.on_old_link(generation, input);
        }
        let Some(link) = &mut self.link else { return };
        if link.is_leaving() {
            return self.on_leaving_link(now, generation, input);
        }
        match input {
            LinkInput::Up => self.link_up(now),
            LinkInput::Unmade(why) => {
                match link.stage {
                    Stage::Making => link.taken = 0,
                    _ => self.stop_writing(),
                }
                self.lose(now, Reason::Unmade(why));
            }
            LinkInput::Refused { why, sent } => {
                link.taken = sent;
                self.stop_writing();
                self.lose(now, Reason::Unmade(why));
            }
            // An orphan's words are its own: whoever was started has said all it had to say.
            LinkInput::Frame(_) | LinkInput::FrameOf(..)
                if link.is_being_killed() || link.orphaned =>
            {
                let detail = format!("generation {generation}");
                self.dropped(Direction::ToHost, DropReason::StaleGeneration, detail);
            }
            LinkInput::Frame(frame) => {
                link.liveness.heard = now;
                self.on_server(now, frame);
            }
            LinkInput::FrameOf(id, frame) => {
                link.liveness.heard = now;
                self.about = Some(id);
                self.on_server(now, frame);
                self.about = None;
            }
            LinkInput::Alive => link.liveness.heard = now,
            LinkInput::Initialized => {
                link.liveness.heard = now;
                self.confirm_initialized();
            }
            LinkInput::Stderr(line) => {
                link.liveness.heard = now;
                link.stderr.push(now, &line);
            }
            LinkInput::Inspected { stopped } => self.inspected(now, stopped),
            LinkInput::Eof { sent } => {
                link.taken = sent;
                self.begin_dying(now, Reason::Eof, EXIT_PATIENCE);
                self.stop_writing();
            }
            LinkInput::WriteFailed { error, sent } => {
                link.taken = sent;
                self.begin_dying(now, Reason::WriteFailed(error), EXIT_PATIENCE);
                self.stop_writing();
            }
            LinkInput::Ended { exit, sent } => {
                link.taken = sent;
                self.ended(now, exit);
                self.stop_writing();
            }
            LinkInput::Orphaned { exit, sent } => {
                link.taken = sent;
                self.orphaned(now, exit);
            }
            LinkInput::Disconnected { error, sent } => {
                link.taken = sent;
                link.exited = true;
                self.lose(now, Reason::Disconnected(error));
            }
            LinkInput::Unanswered { id, failure } => self.unanswered(now, &id, failure),
            LinkInput::Unexecuted { id, why } => self.unexecuted(id, why),
            LinkInput::Challenged { id } => self.challenged(now, &id),
            LinkInput::Expired { id, status } => self.expired(now, id, status),
            LinkInput::MaybeExpired => self.check_session(now),
            LinkInput::Login(status) => self.login_status(now, status),
            LinkInput::Exited { exit, sent } => {
                link.taken = sent;
                link.exited = true;
                link.orphaned = false;
                let reason = match link.is_being_killed() {
                    // It ended because we ended it.
                    true => Reason::Stopped,
                    false => Reason::Exited(exit),
                };
                self.lose(now, reason);
            }
        }
    }

    /// A server that is dead to us may still read. What it has not been sent by now it must never
    /// be: that goes to the next one.
    fn stop_writing(&mut self) {
        if let Some(link) = &self.link {
            let order = Output::Link(link.generation, LinkOrder::StopWriting);
            self.out.push_back(order);
        }
    }

    /// The process that was started has ended, and something that it has started reads on. What that has
    /// read is known only when it is dead too, so its end is waited for; without it, all that was
    /// written counts as read.
    fn orphaned(&mut self, now: Time, exit: Exit) {
        let Some(link) = &mut self.link else { return };
        link.exited = true;
        link.orphaned = true;
        let kill = Output::Link(link.generation, LinkOrder::Kill);
        self.ended(now, exit);
        self.out.push_back(kill);
    }

    /// The process that was started has ended. That explains what the end of its output did not; the rest of it is
    /// being ended, which is waited for.
    fn ended(&mut self, now: Time, exit: Exit) {
        let Some(link) = &mut self.link else { return };
        let reason = match link.is_being_killed() {
            // It ended because we ended it.
            true => Reason::Stopped,
            false => Reason::Exited(exit),
        };
        link.stage = Stage::Dying {
            reason: reason.clone(),
            until: now + KILL_PATIENCE,
        };
        let cause = self.cause(now, reason);
        self.set_state(State::Down {
            cause,
            retry_at: self.clock.outside(now),
        });
    }

    /// Whatever a replaced link still says is ignored, but for the end of its process.
    pub(super) fn on_old_link(&mut self, generation: Generation, input: LinkInput) {
        match input {
            LinkInput::Orphaned { .. } => {
                // Nobody asks any more what was read. What it left behind goes too (FM-09).
                for order in [LinkOrder::Kill, LinkOrder::Release] {
                    self.out.push_back(Output::Link(generation, order));
                }
                self.stopping.take_if(|left| left.generation == generation);
            }
            LinkInput::Exited { .. } | LinkInput::Disconnected { .. }
                if self.is_stopping(generation) =>
            {
                // What it left behind goes too (FM-09).
                self.out
                    .push_back(Output::Link(generation, LinkOrder::Kill));
                self.stopping = None;
            }
            LinkInput::Frame(_) | LinkInput::FrameOf(..) => {
                let detail = format!("generation {generation}");
                self.dropped(Direction::ToHost, DropReason::StaleGeneration, detail);
            }
            LinkInput::Unexecuted { id, .. } => self.decide_resend(generation, id, false),
            _ => {}
        }
    }

    fn is_stopping(&self, generation: Generation) -> bool {
        self.stopping
            .as_ref()
            .is_some_and(|stopping| stopping.generation == generation)
    }

    /// The moments at which something is due on the link in service.
    pub(super) fn link_deadline(&self) -> Option<Time> {
        let link = self.link.as_ref()?;
        let stage = match &link.stage {
            Stage::Restoring { until } | Stage::Retiring { until } | Stage::Dying { until, .. } => {
                Some(*until)
            }
            Stage::Making | Stage::Handshaking | Stage::Open | Stage::Leaving => None,
        };
        let healthy = link
            .served
            .and_then(|served| self.supervisor.healthy_at(served));
        let busy = link.busy_until.filter(|_| !self.queue.is_empty());
        let check = link.check.as_ref().map(|check| check.until);
        let check = check.filter(|_| link.is_alive());
        sooner(
            sooner(sooner(stage, check), sooner(busy, healthy)),
            sooner(self.start_deadline(), self.liveness_deadline()),
        )
    }

    pub(super) fn link_on_time(&mut self, now: Time) {
        let Some(link) = &mut self.link else { return };
        if let Some(served) = link.served
            && self
                .supervisor
                .healthy_at(served)
                .is_some_and(|at| at <= now)
        {
            self.supervisor.reset();
        }
        match link.stage.clone() {
            Stage::Dying { reason, until } if until <= now || self.is_decided(&reason) => {
                return self.lose(now, reason);
            }
            // What else is due at this moment, too, is seen to below.
            Stage::Restoring { until } if until <= now => self.restored(now),
            Stage::Retiring { until } if until <= now || !self.ledger.is_awaiting() => {
                return self.lose(now, Reason::Requested);
            }
            _ => {}
        }
        if let Some(since) = self.starting_since()
            && let Some(link) = &mut self.link
        {
            let after = now - since;
            if after >= self.policy.start_soft && !link.slow_start_told {
                link.slow_start_told = true;
                self.emit(Event::SlowStart {
                    after_ms: after.as_millis() as u64,
                });
            }
            if after >= self.start_bound() {
                return self.lose(now, Reason::SlowHandshake(self.start_bound()));
            }
        }
        self.check_on_time(now);
        self.liveness_on_time(now);
    }
}
