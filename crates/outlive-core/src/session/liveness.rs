//! Is the server alive?
//!
//! Liveness is evidence: any byte is life, and so is an error in answer to a probe. A server that
//! is busy with something the host waits for is not suspected for being silent; one that the
//! operating system shows as stopped is given up. Three occasions ask for a sign of life:
//!
//! - silence while nothing is in flight, now and then;
//! - a request that expired: at once;
//! - a cancellation forwarded to a legacy server. Such a server may die of it when the cancelled
//!   work ends, and look alive until the next line arrives, which it swallows (FM-19). So for a
//!   while every line that matters is preceded by a `ping` of ours: if it is swallowed, nothing is
//!   lost but the ping, and the request goes to the next server. It may also have died with a ping
//!   it had read and not answered; so a ping that stays unanswered is followed by another one, after
//!   ever longer pauses, and that is the line which lets its process end. What it was running when
//!   it died is lost all the same.

use std::time::Duration;

use crate::cause::Reason;
use crate::ledger::sooner;
use crate::link::LinkOrder;
use crate::message::Id;
use crate::protocol::Era;
use crate::time::Time;

use super::link::{Link, Liveness, Own, Probe, ProbeMethod, Stage};
use super::{Ending, Output, Session, Waiting};

/// How often a suspect is asked for a sign of life: it is found out within a second.
const SUSPECT_INTERVAL: Duration = Duration::from_millis(500);
/// How long requests wait for a suspect's sign of life before they are sent all the same.
const GATE_PATIENCE: Duration = Duration::from_secs(1);
/// How long they wait if it has shown that it answers pings: one that does not is either dead, or so
/// busy that it would not take the request any sooner than the ping.
const PONGED_GATE_PATIENCE: Duration = Duration::from_secs(10);
/// How long a ping is given to find out a dead server before what follows it is sent.
const PROBE_FIRST_PATIENCE: Duration = Duration::from_millis(100);
/// No more pings than this are remembered that a link has left unanswered.
const MOST_PINGS: usize = 8;
/// How long a server that answers what was cancelled stays suspect.
const LONG_WATCH: Duration = Duration::from_secs(600);
/// The process of a server that leaves a request unanswered is first inspected after this time.
const FIRST_LOOK: Duration = Duration::from_secs(1);
/// How often it is inspected again.
const NEXT_LOOK: Duration = Duration::from_secs(5);
/// How often it is inspected while it is stopped.
const CLOSE_LOOK: Duration = Duration::from_millis(500);

impl Session {
    /// Whether a message may be sent to the server now.
    pub(super) fn can_send(&self, now: Time) -> bool {
        let Some(link) = self.link.as_ref().filter(|link| link.is_open()) else {
            return false;
        };
        (!self.is_suspect(now) || link.liveness.gate_open) && self.has_room(now)
    }

    /// Whether the server would take a request now, suspect or not.
    fn has_room(&self, now: Time) -> bool {
        let busy = |link: &Link| link.busy_until.is_some_and(|until| now < until);
        let open = |link: &Link| link.is_open() && !busy(link);
        self.link.as_ref().is_some_and(open) && !self.is_full()
    }

    fn is_suspect(&self, now: Time) -> bool {
        let until = self
            .link
            .as_ref()
            .and_then(|link| link.liveness.suspect_until);
        until.is_some_and(|until| now < until)
    }

    /// A cancellation was forwarded.
    pub(super) fn watch_after_cancel(&mut self, now: Time) {
        if self.memory.era != Some(Era::Legacy) || self.no_ping || self.ending == Ending::Stopping {
            return;
        }
        let watch = self.policy.liveness.cancel_watch;
        let Some(link) = &mut self.link else { return };
        let until = link
            .liveness
            .suspect_until
            .map_or(now + watch, |at| at.max(now + watch));
        link.liveness.suspect_until = Some(until);
        link.liveness.proven = link.frames;
        if link.liveness.probe.is_none() {
            self.probe(now, ProbeMethod::Cheap);
        }
    }

    /// The server answered a request after it was cancelled. A result may have been on its way; an
    /// error is what mcp 1.x answers to the cancellation itself.
    pub(super) fn note_late_answer(liveness: &mut Liveness, now: Time, is_error: bool) {
        if let Some(until) = &mut liveness.suspect_until {
            *until = (*until).max(now + LONG_WATCH);
            liveness.answers_cancelled |= is_error;
        }
    }

    /// Something waits behind a suspect: ask it for a sign of life first.
    pub(super) fn ask_before_sending(&mut self, now: Time) {
        let open = self.link.as_ref().filter(|link| link.is_open());
        let Some(liveness) = open.map(|link| &link.liveness) else {
            return;
        };
        if self.queue.is_empty() || !self.is_suspect(now) || liveness.gate_open {
            return;
        }
        if liveness.probe.is_none() {
            self.probe(now, ProbeMethod::Cheap);
            return;
        }
        // A ping that was sent for another request, which did not wait for it, is of no use.
        let stale = |at: Time| match self.queue.front() {
            Some(Waiting::Request(id, _)) => self.ledger.get(id).is_some_and(|e| e.placed > at),
            _ => false,
        };
        if liveness.probes_ignored && liveness.probe_first.is_none_or(stale) && self.has_room(now) {
            self.probe_first(now);
        }
    }

    /// A suspect leaves pings unanswered, and requests go out all the same. If it has died, the next line lets its
    /// process end and is lost: that shall be a ping, which is given a moment to do so.
    fn probe_first(&mut self, now: Time) {
        let pings = self.link.as_ref().map_or(0, unanswered_pings);
        if pings >= MOST_PINGS {
            return self.open_gate(now);
        }
        self.probe_again(now);
        if let Some(link) = &mut self.link {
            link.liveness.probe_first = Some(now);
        }
    }

    fn probe(&mut self, now: Time, method: ProbeMethod) {
        let name = match (method, self.memory.era) {
            (ProbeMethod::Other, _) => "tools/list",
            (ProbeMethod::Cheap, Some(Era::Modern)) => "server/discover",
            (ProbeMethod::Cheap, _) => "ping",
        };
        let id = self.send_own(now, Own::Probe, |session, id| {
            session.memory.request(id, name, None)
        });
        if let (Some(id), Some(link)) = (id, &mut self.link) {
            link.liveness.probe = Some(Probe {
                id,
                sent: now,
                again_at: now + SUSPECT_INTERVAL,
                method,
            });
            link.liveness.probed = Some(now);
            link.liveness.urgent = false;
        }
    }

    /// When a suspect that has left a ping unanswered is sent another one.
    fn again_due(&self) -> Option<Time> {
        let link = self.link.as_ref()?;
        let probe = link.liveness.probe.as_ref()?;
        let again = link.liveness.suspect_until.is_some() && probe.method == ProbeMethod::Cheap;
        again.then_some(probe.again_at)
    }

    /// Sends a suspect another ping. The first one counts for how long it has been silent.
    fn probe_again(&mut self, now: Time) {
        let first = self
            .link
            .as_mut()
            .and_then(|link| link.liveness.probe.take());
        let Some(first) = first else { return };
        // It may die after any of them, so there is always another one; the last is forgotten if there are too many.
        if let Some(link) = &mut self.link
            && unanswered_pings(link) >= MOST_PINGS
        {
            link.own.remove(&first.id);
        }
        self.probe(now, first.method);
        let probe = self.link.as_mut().and_then(|l| l.liveness.probe.as_mut());
        if let Some(probe) = probe {
            probe.sent = first.sent;
            // Twice as long each time: a server that is busy is not stormed.
            probe.again_at = now + (now - first.sent).max(SUSPECT_INTERVAL);
        }
    }

    pub(super) fn probe_answered(&mut self, now: Time, id: &Id) {
        let Some(link) = &mut self.link else { return };
        // Whichever of several pings this answers, it is a sign of life.
        let answers = |probe: &mut Probe| probe.id == *id || probe.method == ProbeMethod::Cheap;
        let Some(probe) = link.liveness.probe.take_if(answers) else {
            return;
        };
        link.liveness.ponged = true;
        link.liveness.proven = link.frames;
        link.liveness.probes_ignored = false;
        link.liveness.probe_first = None;
        link.liveness.urgent = false;
        if probe.method == ProbeMethod::Other {
            // It lives and leaves pings unanswered: no use asking again.
            self.no_ping = true;
            link.liveness.suspect_until = None;
        }
        self.open_gate(now);
    }

    /// What waits behind a suspect goes out, once.
    fn open_gate(&mut self, now: Time) {
        let Some(link) = &mut self.link else { return };
        link.liveness.gate_open = true;
        link.liveness.probe_first = None;
        self.flush(now);
        if let Some(link) = &mut self.link {
            link.liveness.gate_open = false;
        }
    }

    /// Whether silence can mean anything: in service, in an era we know how to probe, and read.
    fn can_probe(&self) -> bool {
        let served = self
            .link
            .as_ref()
            .is_some_and(|l| l.served.is_some() && l.is_open());
        served && !self.host_blocked && self.memory.era.is_some()
    }

    pub(super) fn liveness_deadline(&self) -> Option<Time> {
        let link = self.link.as_ref()?;
        let mut next = self.inspect_due();
        if !self.can_probe() {
            return next;
        }
        let liveness = &link.liveness;
        next = sooner(next, self.verdict_due());
        next = sooner(next, self.gate_due());
        next = match liveness.probe {
            None => sooner(next, self.probe_due()),
            Some(_) => sooner(next, self.again_due()),
        };
        sooner(next, liveness.suspect_until)
    }

    /// When the next probe is to be sent, if none is out.
    fn probe_due(&self) -> Option<Time> {
        let liveness = &self.link.as_ref()?.liveness;
        if liveness.suspect_until.is_some() {
            return Some(
                liveness
                    .probed
                    .map_or(liveness.heard, |at| at + SUSPECT_INTERVAL),
            );
        }
        if self.no_ping || self.ledger.is_awaiting() {
            return None;
        }
        if liveness.urgent {
            return Some(liveness.spoken);
        }
        let interval = self.policy.liveness.interval?;
        Some(liveness.heard.max(liveness.probed.unwrap_or_default()) + interval)
    }

    /// When a probe has been unanswered for too long, with nothing else heard.
    fn verdict_due(&self) -> Option<Time> {
        let liveness = &self.link.as_ref()?.liveness;
        let probe = liveness
            .probe
            .as_ref()
            .filter(|_| !self.ledger.is_awaiting())?;
        Some(probe.sent.max(liveness.heard) + self.policy.liveness.patience)
    }

    /// When requests have waited long enough for a suspect's sign of life.
    fn gate_due(&self) -> Option<Time> {
        let liveness = &self.link.as_ref()?.liveness;
        if self.queue.is_empty() {
            return None;
        }
        if let Some(probe_first) = liveness.probe_first {
            return Some(probe_first + PROBE_FIRST_PATIENCE);
        }
        let probe = liveness.probe.as_ref()?;
        let patience = match liveness.ponged {
            true => PONGED_GATE_PATIENCE,
            false => GATE_PATIENCE,
        };
        (!liveness.probes_ignored).then(|| probe.sent + patience)
    }

    pub(super) fn liveness_on_time(&mut self, now: Time) {
        let Some(link) = &mut self.link else { return };
        if link
            .liveness
            .suspect_until
            .is_some_and(|until| until <= now)
        {
            link.liveness.suspect_until = None;
            self.open_gate(now);
        }
        if self.inspect_due().is_some_and(|at| at <= now)
            && let Some(link) = &mut self.link
        {
            link.liveness.inspected = Some(now);
            self.out
                .push_back(Output::Link(link.generation, LinkOrder::Inspect));
        }
        if !self.can_probe() {
            return;
        }
        if self.verdict_due().is_some_and(|at| at <= now) {
            let cheap = |probe: &Probe| probe.method == ProbeMethod::Cheap;
            let link = self.link.as_ref();
            return match link
                .and_then(|link| link.liveness.probe.as_ref())
                .is_some_and(cheap)
            {
                true => self.probe(now, ProbeMethod::Other),
                false => {
                    let silent = link.map_or(now, |link| link.liveness.heard);
                    self.lose(now, Reason::Unresponsive(now - silent))
                }
            };
        }
        if self.gate_due().is_some_and(|at| at <= now) {
            let probed_first = self.link.as_mut().is_some_and(|link| {
                link.liveness.probes_ignored = true;
                link.liveness.probe_first.is_some()
            });
            match probed_first {
                true => self.open_gate(now),
                false => self.ask_before_sending(now),
            }
        }
        let idle = self
            .link
            .as_ref()
            .is_some_and(|link| link.liveness.probe.is_none());
        if idle && self.probe_due().is_some_and(|at| at <= now) {
            self.probe(now, ProbeMethod::Cheap);
        } else if self.again_due().is_some_and(|at| at <= now) {
            self.probe_again(now);
        }
    }

    /// When the operating system is asked whether the server is stopped.
    fn inspect_due(&self) -> Option<Time> {
        let link = self.link.as_ref()?;
        let liveness = &link.liveness;
        let waiting = self.ledger.is_awaiting()
            || liveness.probe.is_some()
            || link.stage == Stage::Handshaking;
        if !waiting || !link.is_alive() || self.host_blocked {
            return None;
        }
        let quiet_since = liveness.heard.max(liveness.spoken);
        Some(match liveness.inspected.filter(|at| *at >= quiet_since) {
            None => quiet_since + FIRST_LOOK,
            Some(at) if liveness.stopped_since.is_some() => at + CLOSE_LOOK,
            Some(at) => at + NEXT_LOOK,
        })
    }

    pub(super) fn inspected(&mut self, now: Time, stopped: bool) {
        let patience = self.policy.liveness.stopped_patience;
        let Some(link) = self.link.as_mut().filter(|link| link.is_alive()) else {
            return;
        };
        if !stopped {
            link.liveness.stopped_since = None;
            return;
        }
        let since = *link.liveness.stopped_since.get_or_insert(now);
        if now - since >= patience {
            self.kill_stopped(now);
        }
    }
}

fn unanswered_pings(link: &Link) -> usize {
    link.own.values().filter(|own| **own == Own::Probe).count()
}
