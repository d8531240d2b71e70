//! What has happened to servers, as far as it still matters; and whether a target is ready.

use std::time::Duration;

use crate::cause::{Cause, Reason};
use crate::event::{Event, State};
use crate::history::Window;
use crate::switch::Sharing;
use crate::time::Time;

use super::server::Phase;
use super::{Gateway, ServerId, TargetId, Urgency, Used};

/// Losses of a target that are remembered.
pub const LOSSES: usize = 5;

/// Losses are counted in slots this long.
pub const LOSS_SLOT: Duration = Duration::from_secs(60);

/// How long a server that was given up tells about the next one. Not for ever: that one is started by a call, and
/// whoever asks whether we are ready may send none before we are.
pub const GIVEN_UP: Duration = Duration::from_secs(30);

/// Where a server stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Standing {
    /// Since when it has been in its state.
    pub since: Time,
    /// Why it is not in service, if it was or should be, and since when.
    pub trouble: Option<(Cause, Time)>,
    /// How often it was lost.
    pub losses: u64,
}

impl Standing {
    pub(super) fn new(now: Time) -> Standing {
        Standing {
            since: now,
            trouble: None,
            losses: 0,
        }
    }

    /// It cannot be used, for this cause; since now, if it could be used until now.
    fn fail(&mut self, cause: &Cause, now: Time) {
        let since = self.trouble.as_ref().map_or(now, |(_, since)| *since);
        self.trouble = Some((cause.clone(), since));
    }
}

/// A server was lost, once or several times in a row for the same reason: a server that cannot start must not push out
/// what it died of before.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Loss {
    /// Which one, the last time.
    pub server: ServerId,
    /// When, the last time.
    pub at: Time,
    /// Why, with the last words of the last time.
    pub cause: Cause,
    /// How often in a row.
    pub times: u64,
}

/// Why a target is not ready.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Unready {
    /// The gateway is shutting down.
    ShuttingDown,
    /// All servers that are shared like this were lost, or did not start, and are not back.
    InTrouble(Sharing),
    /// There is no server, and the last one was given up for this cause, at this moment.
    GivenUp(Cause, Time),
    /// There is no server, and none could be started.
    Unstartable,
}

impl Unready {
    /// The word for it in what machines read.
    pub fn name(&self) -> &'static str {
        match self {
            Unready::ShuttingDown => "shutting_down",
            Unready::InTrouble(_) => "in_trouble",
            Unready::GivenUp(..) => "given_up",
            Unready::Unstartable => "unstartable",
        }
    }
}

impl<S: Used> Gateway<S> {
    /// The session with a server did or noticed something.
    pub fn observe(&mut self, id: ServerId, event: &Event, now: Time) {
        let Some(server) = self.servers.get_mut(&id) else {
            return;
        };
        match event {
            Event::State(State::Closed) => {
                // Without an order it is over by itself: nobody is handed to it any more.
                server.phase = server.phase.max(Phase::Stopping(Urgency::Graceful));
                self.give_up(id, now);
                self.withdraw(id);
            }
            Event::State(state) => {
                server.standing.since = now;
                match state {
                    State::Ready { .. } => {
                        server.standing.trouble = None;
                        if let Some(target) = self.targets.get_mut(&server.target) {
                            target.given_up = None;
                        }
                    }
                    // One that was told to end is no trouble.
                    State::Down { cause, .. } | State::Failed { cause, .. }
                        if cause.reason != Reason::Closing =>
                    {
                        server.standing.fail(cause, now);
                    }
                    _ => {}
                }
            }
            // Its link lives, and nobody could use it: an address that answers every handshake with status 500.
            Event::HandshakeFailed { cause } => server.standing.fail(cause, now),
            Event::Lost { cause, .. } if cause.reason != Reason::Closing => {
                server.standing.losses += 1;
                let Some(target) = self.targets.get_mut(&server.target) else {
                    return;
                };
                target.lost += 1;
                *target.lost_lately.at(now) += 1;
                let mut times = 1;
                if let Some(last) = target.losses.front()
                    && (&last.cause.reason, last.cause.phase) == (&cause.reason, cause.phase)
                {
                    times += last.times;
                    target.losses.pop_front();
                }
                target.losses.push_front(Loss {
                    server: id,
                    at: now,
                    cause: cause.clone(),
                    times,
                });
                target.losses.truncate(LOSSES);
            }
            _ => {}
        }
    }

    /// Why a call would not be answered, if it would not. `startable`: nothing is known that keeps a server from being
    /// started.
    ///
    /// Servers of one kind stand in for each other, so a kind is not ready when all of its servers are in trouble. None
    /// at all is fine, since one would be started; but one that was given up tells about the next, for a while.
    pub fn readiness(&self, target: TargetId, startable: bool, now: Time) -> Result<(), Unready> {
        if self.is_shutting_down() {
            return Err(Unready::ShuttingDown);
        }
        let mut is_there = false;
        for sharing in [Sharing::Dedicated, Sharing::Shared, Sharing::Pooled] {
            let servers = self.servers.values().filter(|it| !it.is_stopping());
            // One of a pool that speaks legacy revisions only answers nobody, and tells nothing about those who do.
            let answers =
                |it: &&super::Server<S>| sharing != Sharing::Pooled || !it.usage().legacy_only;
            // What is refused to those who come through other gateways is not refused to everybody.
            let servers = servers.filter(|it| it.lane.is_none());
            let mut those = servers
                .filter(|it| it.target == target && it.sharing == sharing)
                .filter(answers);
            let Some(first) = those.next() else {
                continue;
            };
            is_there = true;
            let in_trouble = |it: &super::Server<S>| it.standing.trouble.is_some();
            if in_trouble(first) && those.all(in_trouble) {
                return Err(Unready::InTrouble(sharing));
            }
        }
        match self.given_up(target, now) {
            _ if is_there => Ok(()),
            Some((cause, since)) => Err(Unready::GivenUp(cause.clone(), since)),
            None if !startable => Err(Unready::Unstartable),
            None => Ok(()),
        }
    }

    /// Why the last server of a target was given up, and when, if that was not long ago and none has been in service
    /// since.
    pub fn given_up(&self, target: TargetId, now: Time) -> Option<(&Cause, Time)> {
        let given_up = self.last_failure(target);
        given_up.filter(|(_, since)| now - *since < GIVEN_UP)
    }

    /// The same, however long ago that was. For people: nobody has seen the target in service since.
    pub fn last_failure(&self, target: TargetId) -> Option<(&Cause, Time)> {
        let given_up = self.targets.get(&target)?.given_up.as_ref();
        given_up.map(|(cause, since)| (cause, *since))
    }

    /// The last losses of a target, the latest first.
    pub fn losses(&self, target: TargetId) -> impl Iterator<Item = &Loss> {
        let target = self.targets.get(&target);
        target.into_iter().flat_map(|target| &target.losses)
    }

    /// How often servers of a target were lost: ever, and in the last slots of time.
    pub fn lost(&self, target: TargetId) -> Option<(u64, &Window<u32>)> {
        let target = self.targets.get(&target)?;
        Some((target.lost, &target.lost_lately))
    }

    /// A server is not waited for any more: if it is in trouble, that tells about the next.
    pub(super) fn give_up(&mut self, id: ServerId, now: Time) {
        if let Some(server) = self.servers.get(&id).filter(|it| it.lane.is_none())
            && let Some((cause, _)) = &server.standing.trouble
            && let Some(target) = self.targets.get_mut(&server.target)
        {
            target.given_up = Some((cause.clone(), now));
        }
    }
}
