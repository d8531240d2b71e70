//! What is stopped when its time has come.

use std::time::Duration;

use crate::switch::Sharing;
use crate::time::Time;

use super::server::Phase;
use super::{Gateway, ServerId, Urgency, Used};

/// A pooled server that speaks legacy revisions only, or serves one [way](super::Lane), is kept for this long after its
/// last use.
pub const LEGACY_MEMORY: Duration = Duration::from_secs(60);

/// A server on standby waits this long for its client to come back.
pub const STANDBY: Duration = Duration::from_secs(120);

/// A server on standby whose time has come is not stopped during the handshake. It is looked at again after this time.
const RECHECK: Duration = Duration::from_secs(1);

/// What is to become of a server.
enum Retention {
    Stop,
    /// Not to be looked at before this moment.
    Keep(Option<Time>),
}

impl<S: Used> Gateway<S> {
    /// When [`Gateway::tick`] is to be called at the latest.
    pub fn deadline(&self) -> Option<Time> {
        self.next
    }

    /// Stops the servers nobody has had a use for.
    pub fn tick(&mut self, now: Time) {
        self.next = None;
        let all: Vec<ServerId> = self.servers.keys().copied().collect();
        for id in all {
            match self.retention(id, now) {
                Retention::Stop => self.stop(id, Urgency::Graceful, now),
                Retention::Keep(until) => self.wake_by(until),
            }
        }
    }

    /// A server was started, or put on standby: it has to be looked at in time.
    pub(super) fn arm(&mut self, id: ServerId, now: Time) {
        if let Retention::Keep(until) = self.retention(id, now) {
            self.wake_by(until);
        }
    }

    fn wake_by(&mut self, at: Option<Time>) {
        let known = self.next.into_iter().chain(at);
        self.next = known.min();
    }

    fn retention(&mut self, id: ServerId, now: Time) -> Retention {
        let Some(server) = self.servers.get_mut(&id) else {
            return Retention::Keep(None);
        };
        let usage = server.usage();
        match (server.phase, server.sharing) {
            (Phase::Stopping(_), _) | (Phase::Serving, Sharing::Dedicated) => Retention::Keep(None),
            (Phase::Standby(since), _) if now < since + STANDBY => {
                Retention::Keep(Some(since + STANDBY))
            }
            (Phase::Standby(_), _) if usage.handshaking => Retention::Keep(Some(now + RECHECK)),
            (Phase::Standby(_), _) => Retention::Stop,
            (Phase::Serving, sharing) => {
                server.used = server.last_use(&usage, now);
                let idle = now - server.used;
                let target = self.targets.get(&server.target);
                let idle_stop = target.and_then(|it| it.limits.idle_stop);
                if idle_stop.is_some_and(|after| idle >= after)
                    || (usage.legacy_only || server.lane.is_some()) && idle >= LEGACY_MEMORY
                {
                    return Retention::Stop;
                }
                let idle_stop = idle_stop.map(|after| server.used + after);
                // It may turn out to speak legacy revisions only with its next use, and not sooner.
                let legacy = (sharing == Sharing::Pooled).then(|| match idle < LEGACY_MEMORY {
                    true => server.used + LEGACY_MEMORY,
                    false => now + LEGACY_MEMORY,
                });
                Retention::Keep(idle_stop.into_iter().chain(legacy).min())
            }
        }
    }
}
