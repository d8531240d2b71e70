//! What is told of a connection: where it stands, and what happens to it.

use std::sync::Mutex;
use std::time::{Duration, Instant};

use outlive_core::error::{Error, Outcome};
use outlive_core::event::Software;
use outlive_core::protocol::List;
use outlive_core::{Event as CoreEvent, Time};

use super::broadcast::{Broadcast, Listen};
use super::event::{Event, State, list_changed};
use super::lock;
use crate::model::Implementation;

/// How many events a listener may fall behind.
const EVENTS: usize = 1024;

/// Where those who watch a connection hear of it.
#[derive(Debug)]
pub(crate) struct Watch {
    state: Mutex<State>,
    states: Broadcast<State>,
    events: Broadcast<Event>,
}

impl Watch {
    pub(crate) fn new() -> Watch {
        Watch {
            state: Mutex::new(State::Connecting { attempt: 1 }),
            states: Broadcast::new(EVENTS),
            events: Broadcast::new(EVENTS),
        }
    }

    /// Where it stands now.
    pub(crate) fn state(&self) -> State {
        lock(&self.state).clone()
    }

    /// Where it stands, now and whenever that changes.
    pub(crate) fn watch(&self) -> Listen<State> {
        // Locked, so that no change is lost between the two.
        let state = lock(&self.state);
        Listen::new(self.states.listen([state.clone()]), |_| None)
    }

    /// What happens from now on.
    pub(crate) fn events(&self) -> Listen<Event> {
        Listen::new(self.events.listen([]), |missed| Some(Event::Missed(missed)))
    }

    /// Waits until calls go through. Fails if that will not be for a while, or never.
    pub(crate) async fn ready(&self) -> Result<(), Error> {
        let mut states = self.watch();
        while let Some(state) = states.next().await {
            match state {
                State::Ready { .. } => return Ok(()),
                State::Failed { cause, retry_at } => {
                    return Err(Error::Unavailable {
                        cause: Some(cause),
                        held: Duration::ZERO,
                        outcome: Outcome::NotSent,
                        retry_after: Some(retry_at.saturating_duration_since(Instant::now())),
                    });
                }
                State::Connecting { .. } | State::Down { .. } => {}
                State::Closed => break,
            }
        }
        Err(Error::ShuttingDown {
            outcome: Outcome::NotSent,
        })
    }

    /// Waits for the end.
    pub(crate) async fn closed(&self) {
        let mut states = self.watch();
        while states.next().await.is_some() {}
    }

    fn set_state(&self, state: State) {
        let mut current = lock(&self.state);
        if *current != state {
            *current = state.clone();
            // While the lock is held, so that nobody is told in another order.
            self.states.tell(&state);
        }
    }

    pub(crate) fn tell(&self, event: Event) {
        self.events.tell(&event);
    }

    /// There will be no more.
    pub(crate) fn close(&self) {
        self.set_state(State::Closed);
        self.events.tell(&Event::Closed);
        self.events.close();
        self.states.close();
    }
}

/// Makes events of what a session tells.
#[derive(Debug)]
pub(crate) struct Reporter {
    /// Connections that were lost, or could not be made, in a row.
    losses: u32,
    /// The last loss, until the state says so too: nobody shall hear of it and then be told that
    /// the connection is ready.
    lost: Option<Event>,
    /// A list whose change has been told with its names; the notification that follows says no more.
    told: Option<List>,
}

impl Reporter {
    pub(crate) fn new() -> Reporter {
        Reporter {
            losses: 0,
            lost: None,
            told: None,
        }
    }

    /// A message or a failure is about to be passed on. Tells which list's change was told just
    /// before.
    pub(super) fn catch_up(&mut self, watch: &Watch) -> Option<List> {
        self.tell_lost(watch);
        self.told.take()
    }

    /// The session did or noticed something.
    pub(crate) fn report(&mut self, watch: &Watch, now: Time, event: &CoreEvent) {
        if !matches!(event, CoreEvent::State(_)) {
            self.tell_lost(watch);
        }
        let event = match event {
            CoreEvent::State(state) => {
                let state = State::of(state, now);
                if state.is_ready() {
                    self.losses = 0;
                }
                if matches!(state, State::Connecting { .. }) {
                    // At once, and nothing else has changed since the loss.
                    self.tell_lost(watch);
                }
                watch.set_state(state);
                self.tell_lost(watch);
                None
            }
            CoreEvent::Connected { generation, server } => Some(Event::Connected {
                generation: *generation,
                server_info: server.as_ref().map(implementation),
            }),
            CoreEvent::Lost {
                generation,
                cause,
                in_flight,
            } => {
                self.losses += 1;
                self.lost = Some(Event::Lost {
                    generation: *generation,
                    cause: cause.clone(),
                    in_flight: *in_flight,
                });
                None
            }
            CoreEvent::SlowStart { after_ms } => Some(Event::SlowStart {
                after: Duration::from_millis(*after_ms),
            }),
            CoreEvent::Retried {
                method, generation, ..
            } => Some(Event::Retried {
                method: method.clone(),
                generation: *generation,
            }),
            CoreEvent::Resent {
                method, generation, ..
            } => Some(Event::Resent {
                method: method.clone(),
                generation: *generation,
            }),
            CoreEvent::ListChanged {
                list,
                added,
                removed,
                changed,
            } => {
                self.told = Some(match list {
                    List::Templates => List::Resources,
                    list => *list,
                });
                Some(list_changed(*list, [added, removed, changed]))
            }
            CoreEvent::AbsorbingCancels { .. } => Some(Event::AbsorbingCancels),
            CoreEvent::Dropped { reason, detail, .. } => Some(Event::Dropped {
                reason: *reason,
                detail: detail.clone(),
            }),
            // Refusals are the errors of their calls; the rest is between the session and its server.
            _ => None,
        };
        if let Some(event) = event {
            watch.tell(event);
        }
    }

    /// Tells of the last loss and what follows from it, once.
    fn tell_lost(&mut self, watch: &Watch) {
        let Some(lost) = self.lost.take() else {
            return;
        };
        watch.tell(lost);
        match watch.state() {
            State::Down { retry_at: at, .. } => {
                let attempt = self.losses;
                watch.tell(Event::Retrying { attempt, at });
            }
            State::Failed { cause, .. } => watch.tell(Event::Failed { cause }),
            State::Connecting { .. } | State::Ready { .. } | State::Closed => {}
        }
    }
}

fn implementation(software: &Software) -> Implementation {
    let version = software.version.as_deref().unwrap_or_default();
    Implementation::new(&software.name, version)
}
