//! Links come and go.

use std::time::Duration;

use crate::cause::{Cause, Exit, Phase, Reason};
use crate::error::{Error, Outcome, own_output};
use crate::event::{Direction, DropReason, Event, State};
use crate::ledger::{Entry, Place, sooner};
use crate::link::{Generation, LinkInput, LinkOrder};
use crate::message::Id;
use crate::policy::{Cancel, Retry};
use crate::protocol::method;
use crate::supervisor::Verdict;
use crate::time::Time;

use super::link::{Link, Remains, Stage, StopStep};
use super::{Ending, Output, Session, Waiting};

/// How long the end of a link's output waits for the exit status that explains it.
const EXIT_PATIENCE: Duration = Duration::from_millis(100);
/// How long a server that is already lost to us may take to leave after `SIGTERM`.
const LOST_GRACE: Duration = Duration::from_millis(500);
/// How long a killed process is waited for before the next one is started all the same.
pub(super) const KILL_PATIENCE: Duration = Duration::from_secs(1);
/// A request in flight at this many deaths in a row is not sent again.
pub(super) const POISON: u32 = 2;

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
                if link.is_condemned() || link.orphaned =>
            {
                let detail = format!("generation {generation}");
                self.dropped(Direction::ToHost, DropReason::StaleGeneration, detail);
            }
            LinkInput::Frame(frame) => {
                link.pulse.heard = now;
                self.on_server(now, frame);
            }
            LinkInput::FrameOf(id, frame) => {
                link.pulse.heard = now;
                self.about = Some(id);
                self.on_server(now, frame);
                self.about = None;
            }
            LinkInput::Alive => link.pulse.heard = now,
            LinkInput::Initialized => {
                link.pulse.heard = now;
                self.confirm_initialized();
            }
            LinkInput::Stderr(line) => {
                link.pulse.heard = now;
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
            LinkInput::Unanswered { id, fate } => self.unanswered(now, &id, fate),
            LinkInput::Expired { id, status } => self.expired(now, id, status),
            LinkInput::MaybeExpired => self.check_session(now),
            LinkInput::Exited { exit, sent } => {
                link.taken = sent;
                link.exited = true;
                link.orphaned = false;
                let reason = match link.is_condemned() {
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
        let reason = match link.is_condemned() {
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
                self.remains.take_if(|left| left.generation == generation);
            }
            LinkInput::Exited { .. } | LinkInput::Disconnected { .. }
                if self.is_remains(generation) =>
            {
                // What it left behind goes too (FM-09).
                self.out
                    .push_back(Output::Link(generation, LinkOrder::Kill));
                self.remains = None;
            }
            LinkInput::Frame(_) | LinkInput::FrameOf(..) => {
                let detail = format!("generation {generation}");
                self.dropped(Direction::ToHost, DropReason::StaleGeneration, detail);
            }
            _ => {}
        }
    }

    fn is_remains(&self, generation: Generation) -> bool {
        self.remains
            .as_ref()
            .is_some_and(|remains| remains.generation == generation)
    }

    /// Whether another link is wanted.
    pub(super) fn may_connect(&self) -> bool {
        match self.ending {
            Ending::No => true,
            Ending::Draining { .. } => self.ledger.awaited() > 0,
            Ending::Stopping | Ending::Closed => false,
        }
    }

    pub(super) fn connect(&mut self, now: Time) {
        let generation = self.generation.map_or(Generation::FIRST, Generation::next);
        self.generation = Some(generation);
        self.retry_at = None;
        let attempt = self.supervisor.attempt(now);
        self.set_state(State::Connecting { attempt });
        self.link = Some(Link::new(generation, now, &self.policy.limits));
        self.out.push_back(Output::Connect(generation));
    }

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
            label: self.policy.label.clone(),
            stderr_tail: last_words.unwrap_or_default().into(),
        }
    }

    /// The link is dead. Everything in it is settled now; its process, if there still is one, is
    /// seen to afterwards.
    pub(super) fn lose(&mut self, now: Time, reason: Reason) {
        let cause = self.cause(now, reason);
        let Some(link) = self.link.take() else { return };
        self.resume(now);
        let generation = link.generation;
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
        self.bury(now, &link, &cause);
        self.blame_cancellation(&link, &cause, &in_flight);

        let verdict = match cause.reason {
            Reason::Requested => {
                self.supervisor.reset();
                Verdict::RetryAt(now)
            }
            Reason::VersionChanged { .. } | Reason::Unauthorized(_) => self.supervisor.open(now),
            Reason::Unreachable(_) => self.supervisor.absent(now),
            Reason::SessionExpired if link.disowned => self.supervisor.forgotten(now),
            _ => self.supervisor.ended(now, link.served),
        };
        let failed = matches!(verdict, Verdict::OpenUntil(_));
        let (Verdict::RetryAt(at) | Verdict::OpenUntil(at)) = verdict;
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
    pub(super) fn bury(&mut self, now: Time, link: &Link, cause: &Cause) {
        let generation = link.generation;
        let grace = &self.policy;
        let (order, step, patience) = match cause.reason {
            Reason::Unmade(_) if link.stage == Stage::Making => return,
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
        self.remains = Some(Remains {
            generation,
            step,
            until: now + patience,
        });
    }

    /// A process that does not leave is asked ever more firmly.
    pub(super) fn remains_on_time(&mut self, now: Time) {
        let Some(remains) = &mut self.remains else {
            return;
        };
        if remains.until > now {
            return;
        }
        let (step, order, patience) = match remains.step {
            StopStep::InputClosed => (
                StopStep::Terminated,
                LinkOrder::Terminate,
                self.policy.term_grace,
            ),
            StopStep::Terminated => (StopStep::Killed, LinkOrder::Kill, KILL_PATIENCE),
            StopStep::Killed => {
                // Not even SIGKILL has ended it; waiting longer helps nobody.
                self.remains = None;
                return;
            }
        };
        remains.step = step;
        remains.until = now + patience;
        self.out.push_back(Output::Link(remains.generation, order));
    }

    /// Decides on a request that was in flight on a dead link: back to the queue, or failed.
    fn settle_lost(&mut self, now: Time, id: &Id, link: &Link, cause: &Cause) -> Option<Waiting> {
        let entry = self.ledger.get(id)?;
        let Place::InFlight { frame, .. } = entry.place else {
            return None;
        };
        if entry.superseded {
            self.answer_superseded(now, id);
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
        let refused = link.doubted.get(id).copied();
        if let Some(status) = refused
            .filter(|_| !unknown && !greeting && !listen && self.retry_of(entry) == Retry::Never)
        {
            let entry = self.ledger.settle(id)?;
            let error = match cause.reason {
                Reason::SessionExpired => Error::SessionExpired,
                _ => Error::Rejected { status },
            };
            self.refuse(&entry, &error);
            return None;
        }
        if safe && !poison && !hopeless && !probe_killed {
            let ticket = entry.ticket;
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
            return Some(Waiting::Request(id.clone(), ticket));
        }
        let entry = self.ledger.settle(id)?;
        if probe_killed {
            let why = format!(
                "The server {} when it was asked; use `initialize`.{}",
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
    fn fail_held_greeting(&mut self, now: Time, link: &Link, cause: &Cause) {
        if link.served.is_some() || !is_hopeless(cause) {
            return;
        }
        for id in self.ledger.in_order(|e| e.is_held() && self.is_greeting(e)) {
            self.fail_one_held(now, &id, cause, Duration::ZERO);
        }
    }

    /// A host whose greeting waits while nobody is found at the server's address is told so in time.
    fn bound_held_greeting(&mut self, now: Time) {
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
    fn fail_held(&mut self, now: Time, cause: &Cause) {
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

    /// A server that ends by itself soon after a cancellation has died of it, unless it was at work
    /// on a request that came later. If it answers what was cancelled, as those do that die of it, or if
    /// that happens for the second time, it has died of it all the same.
    fn blame_cancellation(&mut self, link: &Link, cause: &Cause, in_flight: &[Id]) {
        let later = |id: &Id| {
            let place = self.ledger.get(id).map(|entry| &entry.place);
            // What it has not read it cannot have died of.
            let read = link.pulse.proven..link.taken;
            matches!(place, Some(Place::InFlight { frame, .. }) if read.contains(frame))
        };
        if self.policy.cancel == Cancel::Auto
            && !self.absorbing
            && is_own_doing(cause)
            && link.pulse.suspect_until.is_some()
        {
            let again = std::mem::replace(&mut self.died_as_suspect, true);
            if in_flight.iter().any(later) && !again && !link.pulse.answers_cancelled {
                return;
            }
            self.absorbing = true;
            self.emit(Event::AbsorbingCancels {
                generation: link.generation,
            });
        }
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
            sooner(self.start_deadline(), self.pulse_deadline()),
        )
    }

    /// When the start of the link in service is too slow: to be told, or to be borne.
    fn start_deadline(&self) -> Option<Time> {
        let told = self.link.as_ref()?.slow_start_told;
        let since = self.starting_since()?;
        let soft = (!told).then(|| since + self.policy.start_soft);
        sooner(soft, Some(since + self.start_bound()))
    }

    fn start_bound(&self) -> Duration {
        match self.memory.initialize {
            Some(_) => self.policy.handshake,
            None => self.policy.start_hard,
        }
    }

    /// Since when somebody waits for the link to come into service, if anybody does: since it was
    /// ordered, or since the host has asked it for its handshake.
    fn starting_since(&self) -> Option<Time> {
        let link = self.link.as_ref()?;
        match link.stage {
            Stage::Making | Stage::Handshaking => Some(link.ordered),
            Stage::Open if link.served.is_none() => {
                let asked = self.ledger.iter().map(|(_, e)| e);
                let asked = asked.filter(|e| e.message.is("initialize"));
                asked.map(|e| e.accepted.max(link.ordered)).min()
            }
            _ => None,
        }
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
            Stage::Restoring { until } if until <= now => return self.restored(now),
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
        self.pulse_on_time(now);
    }

    /// The user wants a new server under the same session. While one is about to be replaced, saying so again changes nothing.
    pub(super) fn restart(&mut self, now: Time) {
        if self.ending != Ending::No {
            return;
        }
        match &mut self.link {
            Some(link) if link.is_open() => {
                link.stage = Stage::Retiring {
                    until: now + self.policy.drain,
                };
            }
            Some(link) if link.is_retiring() => {}
            // It is replaced in any case, and at once.
            Some(link) if matches!(link.stage, Stage::Dying { .. }) => self.supervisor.reset(),
            Some(_) => self.lose(now, Reason::Requested),
            None => {
                self.supervisor.reset();
                self.retry_at = Some(now);
            }
        }
    }
}

/// Whether a server ended by itself, rather than because somebody ended it.
fn is_own_doing(cause: &Cause) -> bool {
    match &cause.reason {
        Reason::Exited(exit) => !exit.is_external(),
        Reason::Eof | Reason::WriteFailed(_) | Reason::Disconnected(None) => true,
        _ => false,
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

/// Tells the host that nobody waits for its answer to a request of the server any more.
pub(super) fn cancelled_by_us(id: &Id, cause: &Cause) -> bytes::Bytes {
    let reason = serde_json::json!(format!("The server {}.", cause.predicate()));
    format!(
        r#"{{"jsonrpc":"2.0","method":"notifications/cancelled","params":{{"requestId":{},"reason":{reason}}}}}"#,
        id.to_json()
    )
    .into()
}
