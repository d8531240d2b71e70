//! What has happened to the servers of a gateway, as far as it still matters.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use outlive_core::cause::Reason;
use outlive_core::{Cause, Event, State};

/// Losses that are remembered.
const LOSSES: usize = 20;

/// How long a server that was given up tells about the next one. Not for ever: that one is started by a call,
/// and whoever asks whether we are ready may send none before we are.
const GIVEN_UP: Duration = Duration::from_secs(30);

/// Notes about servers.
pub(super) struct Status {
    pub(super) begun: SystemTime,
    since: Instant,
    notes: Mutex<Notes>,
}

#[derive(Default)]
struct Notes {
    servers: BTreeMap<u64, Standing>,
    losses: VecDeque<Loss>,
    /// The last server that was given up in trouble: why, and when that was.
    given_up: Option<(Cause, Instant)>,
}

/// Where a server stands.
#[derive(Clone)]
pub(super) struct Standing {
    /// Since when it has been in its state.
    pub(super) since: Instant,
    /// Why it is not in service, if it was or should be, and since when.
    pub(super) trouble: Option<(Cause, Instant)>,
    /// How often it was lost.
    pub(super) losses: u64,
}

/// A server was lost.
#[derive(Clone)]
pub(super) struct Loss {
    pub(super) server: u64,
    pub(super) at: Instant,
    pub(super) cause: Cause,
}

impl Status {
    pub(super) fn new() -> Status {
        Status {
            begun: SystemTime::now(),
            since: Instant::now(),
            notes: Mutex::default(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Notes> {
        self.notes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How long there has been a gateway.
    pub(super) fn uptime(&self) -> Duration {
        self.since.elapsed()
    }

    pub(super) fn note(&self, server: u64, event: &Event) {
        let now = Instant::now();
        let mut notes = self.lock();
        match event {
            Event::State(State::Closed) => notes.forget(server, now),
            Event::State(state) => {
                if matches!(state, State::Ready { .. }) {
                    notes.given_up = None;
                }
                let standing = notes.standing(server, now);
                standing.since = now;
                match state {
                    State::Ready { .. } => standing.trouble = None,
                    State::Down { cause, .. } | State::Failed { cause, .. } => {
                        let since = standing.trouble.as_ref().map_or(now, |(_, since)| *since);
                        standing.trouble = Some((cause.clone(), since));
                    }
                    State::Connecting { .. } | State::Closed => {}
                }
            }
            Event::Lost { cause, .. } if cause.reason != Reason::Closing => {
                notes.standing(server, now).losses += 1;
                notes.losses.push_front(Loss {
                    server,
                    at: now,
                    cause: cause.clone(),
                });
                notes.losses.truncate(LOSSES);
            }
            _ => {}
        }
    }

    /// The server has ended.
    pub(super) fn forget(&self, server: u64) {
        self.lock().forget(server, Instant::now());
    }

    /// Why the last server was given up, and since when, if that was not long ago and none has been in
    /// service since.
    pub(super) fn given_up(&self) -> Option<(Cause, Instant)> {
        let given_up = self.lock().given_up.clone();
        given_up.filter(|(_, since)| since.elapsed() < GIVEN_UP)
    }

    pub(super) fn standing(&self, server: u64) -> Option<Standing> {
        self.lock().servers.get(&server).cloned()
    }

    /// The last losses, the latest first.
    pub(super) fn losses(&self) -> Vec<Loss> {
        self.lock().losses.iter().cloned().collect()
    }
}

impl Notes {
    fn forget(&mut self, server: u64, now: Instant) {
        if let Some(standing) = self.servers.remove(&server)
            && let Some((cause, _)) = standing.trouble
        {
            self.given_up = Some((cause, now));
        }
    }

    fn standing(&mut self, server: u64, now: Instant) -> &mut Standing {
        self.servers.entry(server).or_insert(Standing {
            since: now,
            trouble: None,
            losses: 0,
        })
    }
}
