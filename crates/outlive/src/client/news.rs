//! What is told of a connection: where it stands, and what happens to it.

use std::sync::Mutex;
use std::time::{Duration, Instant};

use outlive_core::error::{Error, Outcome};
use outlive_core::event::List;
use outlive_core::{Event as CoreEvent, Time};

use super::event::{Event, State, list_changed};
use super::feed::{Feed, Listen};
use super::{lock, wire};

/// How many events a listener may fall behind.
const EVENTS: usize = 1024;

/// Where those who watch a connection hear of it.
#[derive(Debug)]
pub(crate) struct News {
    state: Mutex<State>,
    states: Feed<State>,
    events: Feed<Event>,
}

impl News {
    pub(crate) fn new() -> News {
        News {
            state: Mutex::new(State::Connecting { attempt: 1 }),
            states: Feed::new(EVENTS),
            events: Feed::new(EVENTS),
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

/// Makes news of what a session tells.
#[derive(Debug)]
pub(crate) struct Reporter {
    /// Connections that were lost, or could not be made, in a row.
    losses: u32,
    /// The last loss has been told, but not yet when the next attempt is.
    lost: bool,
    /// A list whose change has been told with its names; the notification that follows says no more.
    told: Option<List>,
}

impl Reporter {
    pub(crate) fn new() -> Reporter {
        Reporter {
            losses: 0,
            lost: false,
            told: None,
        }
    }

    /// The server says that a list has changed. Tells whether that is news.
    pub(super) fn hears_of(&mut self, list: List) -> bool {
        self.told.take() != Some(list)
    }

    /// The session did or noticed something.
    pub(crate) fn report(&mut self, news: &News, now: Time, event: &CoreEvent) {
        let event = match event {
            CoreEvent::State(state) => {
                let state = State::of(state, now);
                news.set_state(state.clone());
                match state {
                    State::Down { retry_at, .. } => self.retrying(retry_at),
                    // At once, and nothing else changed between the two.
                    State::Connecting { .. } => self.retrying(Instant::now()),
                    State::Failed { cause, .. } => {
                        self.lost = false;
                        Some(Event::Failed { cause })
                    }
                    State::Ready { .. } => {
                        self.losses = 0;
                        None
                    }
                    State::Closed => None,
                }
            }
            CoreEvent::Connected { generation, server } => Some(Event::Connected {
                generation: *generation,
                server_info: server.as_deref().map(wire::implementation),
            }),
            CoreEvent::Lost {
                generation,
                cause,
                in_flight,
            } => {
                self.losses += 1;
                self.lost = true;
                Some(Event::Lost {
                    generation: *generation,
                    cause: cause.clone(),
                    in_flight: *in_flight,
                })
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
            CoreEvent::Refused { .. } | CoreEvent::LegacyOnly | CoreEvent::Draining { .. } => None,
        };
        if let Some(event) = event {
            news.tell(event);
        }
    }

    /// Tells when the next attempt is, once after each loss.
    fn retrying(&mut self, at: Instant) -> Option<Event> {
        std::mem::take(&mut self.lost).then_some(Event::Retrying {
            attempt: self.losses,
            at,
        })
    }
}
