//! Is the server alive?
//!
//! Liveness is evidence: any byte is life, and so is an error in answer to a probe. A server that
//! is busy with something the host waits for is not suspected for being silent; one that the
//! operating system shows as stopped is given up. Three occasions ask for a sign of life:
//!
//! - silence while nothing is in flight, now and then;
//! - a request that expired: at once;
//! - a cancellation forwarded to a legacy server. Such a server may die of it when the cancelled
//!   work ends, and look alive until the next line arrives, which it swallows (seed 2). So for a
//!   while every line that matters is preceded by a `ping` of ours: if it is swallowed, nothing is
//!   lost but the ping, and the request goes to the next server.

use std::time::Duration;

use crate::cause::Reason;
use crate::ledger::sooner;
use crate::link::LinkOrder;
use crate::memory::Era;
use crate::message::Id;
use crate::time::Time;

use super::link::{Own, Probe, ProbeMethod, Pulse, Stage};
use super::{Ending, Output, Session};

/// How often a suspect is asked for a sign of life: it is found out within a second.
const SUSPECT_INTERVAL: Duration = Duration::from_millis(500);
/// How long requests wait for a suspect's sign of life before they are sent all the same: …
const GATE_PATIENCE: Duration = Duration::from_secs(1);
/// … longer if it has shown that it answers pings; one that does not is either dead, or so busy
/// that it would not take the request any sooner than the ping.
const PONGED_GATE_PATIENCE: Duration = Duration::from_secs(10);
/// How long a server that answers what was cancelled stays suspect.
const LONG_WATCH: Duration = Duration::from_secs(600);
/// A server that leaves a request unanswered is looked at after this time, …
const FIRST_LOOK: Duration = Duration::from_secs(1);
/// … then again every so often, …
const NEXT_LOOK: Duration = Duration::from_secs(5);
/// … and closely while it is stopped.
const CLOSE_LOOK: Duration = Duration::from_millis(500);

impl Session {
    /// Whether a message may be sent to the server now.
    pub(super) fn can_send(&self, now: Time) -> bool {
        let Some(link) = self.link.as_ref().filter(|link| link.is_open()) else {
            return false;
        };
        let busy = link.busy_until.is_some_and(|until| now < until);
        (!self.is_suspect(now) || link.pulse.deaf) && !busy && !self.is_full()
    }

    fn is_suspect(&self, now: Time) -> bool {
        let until = self.link.as_ref().and_then(|link| link.pulse.suspect_until);
        until.is_some_and(|until| now < until)
    }

    /// A cancellation was forwarded.
    pub(super) fn watch_after_cancel(&mut self, now: Time) {
        if self.memory.era != Era::Legacy || self.no_ping || self.ending == Ending::Stopping {
            return;
        }
        let watch = self.policy.liveness.cancel_watch;
        let Some(link) = &mut self.link else { return };
        let until = link
            .pulse
            .suspect_until
            .map_or(now + watch, |at| at.max(now + watch));
        link.pulse.suspect_until = Some(until);
        link.pulse.proven = link.frames;
        if link.pulse.probe.is_none() {
            self.probe(now, ProbeMethod::Cheap);
        }
    }

    /// The server answered a request after it was cancelled.
    pub(super) fn answered_the_dead(pulse: &mut Pulse, now: Time) {
        if let Some(until) = &mut pulse.suspect_until {
            *until = (*until).max(now + LONG_WATCH);
        }
    }

    /// Something waits behind a suspect: ask it for a sign of life first.
    pub(super) fn ask_before_sending(&mut self, now: Time) {
        let asked = self
            .link
            .as_ref()
            .is_some_and(|link| link.pulse.probe.is_some());
        let open = self.link.as_ref().is_some_and(|link| link.is_open());
        if !self.queue.is_empty() && open && self.is_suspect(now) && !asked {
            self.probe(now, ProbeMethod::Cheap);
        }
    }

    fn probe(&mut self, now: Time, method: ProbeMethod) {
        let name = match (method, self.memory.era) {
            (ProbeMethod::Other, _) => "tools/list",
            (ProbeMethod::Cheap, Era::Modern) => "server/discover",
            (ProbeMethod::Cheap, _) => "ping",
        };
        let id = self.send_own(now, Own::Probe, |session, id| {
            session.memory.request(id, name, None)
        });
        if let (Some(id), Some(link)) = (id, &mut self.link) {
            link.pulse.probe = Some(Probe {
                id,
                sent: now,
                method,
            });
            link.pulse.probed = Some(now);
            link.pulse.urgent = false;
        }
    }

    pub(super) fn probe_answered(&mut self, now: Time, id: &Id) {
        let Some(link) = &mut self.link else { return };
        if link
            .pulse
            .probe
            .as_ref()
            .is_none_or(|probe| probe.id != *id)
        {
            return;
        }
        let probe = link.pulse.probe.take();
        link.pulse.ponged = true;
        link.pulse.proven = link.frames;
        link.pulse.deaf = false;
        link.pulse.urgent = false;
        if probe.is_some_and(|probe| probe.method == ProbeMethod::Other) {
            // It lives and leaves pings unanswered: no use asking again.
            self.no_ping = true;
            link.pulse.suspect_until = None;
        }
        self.open_gate(now);
    }

    /// What waits behind a suspect goes out, once.
    fn open_gate(&mut self, now: Time) {
        let Some(link) = &mut self.link else { return };
        let deaf = std::mem::replace(&mut link.pulse.deaf, true);
        self.flush(now);
        if let Some(link) = &mut self.link {
            link.pulse.deaf = deaf;
        }
    }

    /// Whether silence can mean anything: in service, in an era we know how to probe, and read.
    fn can_probe(&self) -> bool {
        let served = self
            .link
            .as_ref()
            .is_some_and(|l| l.served.is_some() && l.is_open());
        served && !self.host_blocked && self.memory.era != Era::Unknown
    }

    pub(super) fn pulse_deadline(&self) -> Option<Time> {
        let link = self.link.as_ref()?;
        let mut next = self.inspect_due();
        if !self.can_probe() {
            return next;
        }
        let pulse = &link.pulse;
        next = sooner(next, self.verdict_due());
        next = sooner(next, self.gate_due());
        if pulse.probe.is_none() {
            next = sooner(next, self.probe_due());
        }
        sooner(next, pulse.suspect_until)
    }

    /// When the next probe is to be sent, if none is out.
    fn probe_due(&self) -> Option<Time> {
        let pulse = &self.link.as_ref()?.pulse;
        if pulse.suspect_until.is_some() {
            return Some(pulse.probed.map_or(pulse.heard, |at| at + SUSPECT_INTERVAL));
        }
        if self.no_ping || self.ledger.is_awaiting() {
            return None;
        }
        if pulse.urgent {
            return Some(pulse.spoken);
        }
        let interval = self.policy.liveness.interval?;
        Some(pulse.heard.max(pulse.probed.unwrap_or_default()) + interval)
    }

    /// When a probe has been unanswered for too long, with nothing else heard.
    fn verdict_due(&self) -> Option<Time> {
        let pulse = &self.link.as_ref()?.pulse;
        let probe = pulse
            .probe
            .as_ref()
            .filter(|_| !self.ledger.is_awaiting())?;
        Some(probe.sent.max(pulse.heard) + self.policy.liveness.patience)
    }

    /// When requests have waited long enough for a suspect's sign of life.
    fn gate_due(&self) -> Option<Time> {
        let pulse = &self.link.as_ref()?.pulse;
        let probe = pulse.probe.as_ref()?;
        let patience = match pulse.ponged {
            true => PONGED_GATE_PATIENCE,
            false => GATE_PATIENCE,
        };
        (!self.queue.is_empty() && !pulse.deaf).then(|| probe.sent + patience)
    }

    pub(super) fn pulse_on_time(&mut self, now: Time) {
        let Some(link) = &mut self.link else { return };
        if link.pulse.suspect_until.is_some_and(|until| until <= now) {
            link.pulse.suspect_until = None;
            self.open_gate(now);
        }
        if self.inspect_due().is_some_and(|at| at <= now)
            && let Some(link) = &mut self.link
        {
            link.pulse.inspected = Some(now);
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
                .and_then(|link| link.pulse.probe.as_ref())
                .is_some_and(cheap)
            {
                true => self.probe(now, ProbeMethod::Other),
                false => {
                    let silent = link.map_or(now, |link| link.pulse.heard);
                    self.lose(now, Reason::Unresponsive(now - silent))
                }
            };
        }
        if self.gate_due().is_some_and(|at| at <= now) {
            if let Some(link) = &mut self.link {
                link.pulse.deaf = true;
            }
            self.flush(now);
        }
        let idle = self
            .link
            .as_ref()
            .is_some_and(|link| link.pulse.probe.is_none());
        if idle && self.probe_due().is_some_and(|at| at <= now) {
            self.probe(now, ProbeMethod::Cheap);
        }
    }

    /// When the operating system is asked whether the server is stopped.
    fn inspect_due(&self) -> Option<Time> {
        let link = self.link.as_ref()?;
        let pulse = &link.pulse;
        let waiting =
            self.ledger.is_awaiting() || pulse.probe.is_some() || link.stage == Stage::Handshaking;
        if !waiting || !link.is_alive() || self.host_blocked {
            return None;
        }
        let quiet_since = pulse.heard.max(pulse.spoken);
        Some(match pulse.inspected.filter(|at| *at >= quiet_since) {
            None => quiet_since + FIRST_LOOK,
            Some(at) if pulse.stopped_since.is_some() => at + CLOSE_LOOK,
            Some(at) => at + NEXT_LOOK,
        })
    }

    pub(super) fn inspected(&mut self, now: Time, stopped: bool) {
        let patience = self.policy.liveness.stopped_patience;
        let Some(link) = self.link.as_mut().filter(|link| link.is_alive()) else {
            return;
        };
        if !stopped {
            link.pulse.stopped_since = None;
            return;
        }
        let since = *link.pulse.stopped_since.get_or_insert(now);
        if now - since >= patience {
            self.kill_stopped(now);
        }
    }
}
