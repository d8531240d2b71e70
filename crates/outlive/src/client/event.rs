//! What a client tells those who watch it.

use std::time::{Duration, Instant};

use bytes::Bytes;
use outlive_core::cause::Cause;
use outlive_core::protocol::List;
use outlive_core::{Generation, Time, event};
use serde::de::DeserializeOwned;

use crate::model::{Implementation, LogMessage};

/// Where a client stands. It is derived from one state machine; there is no second flag that could
/// disagree with it, and it changes before any call can notice the change.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum State {
    /// A connection is being made or is shaking hands.
    Connecting {
        /// Which attempt in a row this is, from 1.
        attempt: u32,
    },
    /// The handshake is done, and the connection is not known to be dead.
    Ready {
        /// Which connection, counted from 1.
        generation: Generation,
    },
    /// The connection died; another one will be made.
    Down {
        /// Why it died.
        cause: Cause,
        /// When the next one will be made.
        retry_at: Instant,
    },
    /// Too many died in a row. The server is still tried now and then, and whenever it is called.
    Failed {
        /// Why the last one died.
        cause: Cause,
        /// When it is tried next without being asked.
        retry_at: Instant,
    },
    /// The client is closed.
    Closed,
}

impl State {
    pub(super) fn of(state: &event::State, now: Time) -> State {
        let at = |at: Time| Instant::now() + (at - now);
        match state {
            event::State::Connecting { attempt } => State::Connecting { attempt: *attempt },
            event::State::Ready { generation } => State::Ready {
                generation: *generation,
            },
            event::State::Down { cause, retry_at } => State::Down {
                cause: cause.clone(),
                retry_at: at(*retry_at),
            },
            event::State::Failed { cause, retry_at } => State::Failed {
                cause: cause.clone(),
                retry_at: at(*retry_at),
            },
            event::State::Closed => State::Closed,
            // One that is not known here is not one in which calls go through.
            _ => State::Connecting { attempt: 0 },
        }
    }

    /// Whether calls go through.
    pub fn is_ready(&self) -> bool {
        matches!(self, State::Ready { .. })
    }
}

/// Something that happened to a client.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Event {
    /// A connection is in service.
    Connected {
        /// Which one, counted from 1.
        generation: Generation,
        /// What the server says it is.
        server_info: Option<Implementation>,
    },
    /// A connection is dead.
    Lost {
        /// Which one.
        generation: Generation,
        /// Why.
        cause: Cause,
        /// Calls that were in flight on it.
        in_flight: usize,
    },
    /// The next connection will be made.
    Retrying {
        /// How many have been lost, or could not be made, in a row.
        attempt: u32,
        /// When it is made.
        at: Instant,
    },
    /// The server has not finished starting; it is still waited for.
    SlowStart {
        /// How long it has taken so far.
        after: Duration,
    },
    /// Too many connections died in a row: calls fail at once, and the server is tried now and then.
    Failed {
        /// Why the last one died.
        cause: Cause,
    },
    /// A call was sent again on another connection, because that is safe or was asked for.
    Retried {
        /// Its method.
        method: String,
        /// The connection it was sent on.
        generation: Generation,
    },
    /// A call was sent again that the server before had not executed: it ended without reading it, or refused it.
    Resent {
        /// Its method.
        method: String,
        /// The connection it was sent on.
        generation: Generation,
    },
    /// The tools are not those that were last listed. After a reconnection the names that differ are
    /// told; when the server only says that they changed, there are none.
    ToolsChanged {
        /// Tools that are new.
        added: Vec<String>,
        /// Tools that are gone.
        removed: Vec<String>,
        /// Tools that are defined otherwise.
        changed: Vec<String>,
    },
    /// The prompts are not those that were last listed.
    PromptsChanged,
    /// The resources are not those that were last listed.
    ResourcesChanged,
    /// A resource that was subscribed to has changed, or may have while nobody could tell.
    ResourceUpdated {
        /// Which one.
        uri: String,
    },
    /// The server logs something.
    Log(LogMessage),
    /// Any other notification of the server's.
    Unsolicited(Notification),
    /// This server dies of cancellations: from now on they are kept from it.
    AbsorbingCancels,
    /// A message was not passed on.
    Dropped {
        /// Why.
        reason: event::DropReason,
        /// The beginning of it, or its method.
        detail: String,
    },
    /// The one who listens was too slow: so many events were lost.
    Missed(u64),
    /// The client is closed. Nothing follows.
    Closed,
}

/// A notification as the server sent it.
#[derive(Clone, Debug)]
pub struct Notification {
    /// Its method.
    pub method: String,
    /// Its parameters as JSON; empty if it has none.
    pub params: Bytes,
}

impl Notification {
    /// Its parameters as a type.
    pub fn params<T: DeserializeOwned>(&self) -> serde_json::Result<T> {
        serde_json::from_slice(&self.params)
    }
}

/// What to tell when a list changed.
pub(super) fn list_changed(list: List, names: [&[String]; 3]) -> Event {
    let [added, removed, changed] = names.map(<[String]>::to_vec);
    match list {
        List::Tools => Event::ToolsChanged {
            added,
            removed,
            changed,
        },
        List::Prompts => Event::PromptsChanged,
        List::Resources | List::Templates => Event::ResourcesChanged,
    }
}
