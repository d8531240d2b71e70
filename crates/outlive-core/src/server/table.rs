//! The table of tickets.
//!
//! A ticket enters when its request is accepted. While the client waits for it, it is *live*: its
//! id is known here, and only through that can it be answered. It stops being live exactly once
//! for each id it had. Its handler may outlive that for a grace.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use rustc_hash::FxHashMap;

use crate::ledger::in_words;
use crate::message::{Id, Message};
use crate::principal::Principal;
use crate::protocol::Era;
use crate::time::Time;

use super::Level;
use super::channel::{Channel, Channels};
use super::request::{Peer, Ticket, scope};

/// Where a request is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// Waiting for a handler. Live.
    Queued,
    /// Its handler is running. Live.
    Running,
    /// Its handler waits for the client to come back with this state. Not live.
    Parked { state: Box<str> },
    /// Nobody waits for its handler, which has been told so. Not live.
    Leaving,
}

#[derive(Clone, Debug)]
pub(super) struct Entry {
    pub(super) message: Message,
    /// Who has sent it, as far as somebody has said so.
    pub(super) caller: Option<Principal>,
    /// Where it came from, and its answer goes.
    pub(super) channel: Channel,
    pub(super) era: Era,
    pub(super) peer: Arc<Peer>,
    pub(super) log_level: Option<Level>,
    pub(super) place: Place,
    /// When it is given up (running, parked) or dropped (leaving).
    pub(super) due: Option<Time>,
    /// What is left of its time while the clock stands still.
    pub(super) left: Option<Duration>,
    /// Requests of its handler that the client has not answered.
    pub(super) asks: usize,
    /// Whether the handler has been told that nobody waits.
    pub(super) told: bool,
    /// The progress last told to the client.
    pub(super) progress: Option<f64>,
}

impl Entry {
    pub(super) fn is_live(&self) -> bool {
        matches!(self.place, Place::Queued | Place::Running)
    }

    /// Whether its handler may ask the client something.
    pub(super) fn may_ask(&self) -> bool {
        matches!(self.place, Place::Running | Place::Parked { .. })
    }

    /// The request in words, for error messages.
    pub(super) fn what(&self) -> String {
        in_words(&self.message)
    }
}

#[derive(Clone, Debug, Default)]
pub(super) struct Table {
    /// Who sends the next requests.
    pub(super) caller: Option<Principal>,
    entries: BTreeMap<Ticket, Entry>,
    /// The ids the client waits for. The one who chooses them can slow down nobody but themselves.
    live: FxHashMap<(Channel, Id), Ticket>,
    /// In the order they were accepted.
    queue: BTreeSet<Ticket>,
    queue_bytes: usize,
    /// The states clients carry for parked handlers.
    states: FxHashMap<Box<str>, Ticket>,
    /// Requests that have or had a handler, parked or not: their bytes.
    bytes: usize,
    next: u64,
    /// Live requests hold theirs.
    pub(super) channels: Channels,
}

impl Table {
    pub(super) fn get(&self, ticket: Ticket) -> Option<&Entry> {
        self.entries.get(&ticket)
    }

    pub(super) fn get_mut(&mut self, ticket: Ticket) -> Option<&mut Entry> {
        self.entries.get_mut(&ticket)
    }

    /// The request the client waits for under this id.
    pub(super) fn live(&self, scope: Channel, id: &Id) -> Option<Ticket> {
        self.live.get(&(scope, id.clone())).copied()
    }

    pub(super) fn in_flight(&self) -> usize {
        self.live.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Handlers that take a place: running, or leaving.
    pub(super) fn busy(&self) -> usize {
        self.entries.len() - self.queue.len() - self.states.len()
    }

    pub(super) fn parked(&self) -> usize {
        self.states.len()
    }

    /// Requests waiting for a handler: their number and bytes.
    pub(super) fn queued(&self) -> (usize, usize) {
        (self.queue.len(), self.queue_bytes)
    }

    /// Bytes of requests that have a handler.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// The tickets in that place, in order.
    pub(super) fn tickets(&self, which: impl Fn(&Entry) -> bool) -> Vec<Ticket> {
        let found = self.entries.iter().filter(|(_, entry)| which(entry));
        found.map(|(ticket, _)| *ticket).collect()
    }

    /// Accepts a request. Its id must not be live.
    pub(super) fn accept(
        &mut self,
        message: Message,
        channel: Channel,
        era: Era,
        peer: Arc<Peer>,
        log_level: Option<Level>,
    ) -> Ticket {
        let ticket = Ticket(self.next);
        self.next += 1;
        self.enliven(ticket, &message, era, channel);
        self.queue.insert(ticket);
        self.queue_bytes += message.bytes().len();
        let entry = Entry {
            message,
            caller: self.caller,
            channel,
            era,
            peer,
            log_level,
            place: Place::Queued,
            due: None,
            left: None,
            asks: 0,
            told: false,
            progress: None,
        };
        self.entries.insert(ticket, entry);
        ticket
    }

    /// The next request to be given a handler, and its size.
    pub(super) fn first_queued(&self) -> Option<(Ticket, usize)> {
        let ticket = *self.queue.first()?;
        let entry = self.entries.get(&ticket)?;
        Some((ticket, entry.message.bytes().len()))
    }

    /// A request gets its handler.
    pub(super) fn start(&mut self, ticket: Ticket) -> Option<&mut Entry> {
        let entry = self.entries.get_mut(&ticket)?;
        if self.queue.remove(&ticket) {
            let size = entry.message.bytes().len();
            self.queue_bytes -= size;
            self.bytes += size;
        }
        entry.place = Place::Running;
        Some(entry)
    }

    /// The client waits for this request.
    fn enliven(&mut self, ticket: Ticket, message: &Message, era: Era, channel: Channel) {
        if let Some(id) = message.id() {
            self.live.insert((scope(era, channel), id.clone()), ticket);
            self.channels.hold(channel);
        }
    }

    /// The client no longer waits for this request: the one way in which that comes about.
    fn unlive(&mut self, ticket: Ticket) {
        if let Some(entry) = self.entries.get(&ticket).filter(|entry| entry.is_live())
            && let Some(id) = entry.message.id()
        {
            self.live
                .remove(&(scope(entry.era, entry.channel), id.clone()));
            self.channels.release(entry.channel);
        }
    }

    /// Nobody waits for a handler any more; it goes on for a while.
    pub(super) fn leave(&mut self, ticket: Ticket) {
        self.unlive(ticket);
        if let Some(entry) = self.entries.get_mut(&ticket) {
            if let Place::Parked { state } = &entry.place {
                self.states.remove(state);
            }
            entry.place = Place::Leaving;
        }
    }

    /// A live request has been answered with a state to come back with.
    pub(super) fn park(&mut self, ticket: Ticket, state: &str) {
        self.unlive(ticket);
        if let Some(entry) = self.entries.get_mut(&ticket) {
            self.states.insert(state.into(), ticket);
            entry.place = Place::Parked {
                state: state.into(),
            };
        }
    }

    /// The handler that waits for this state.
    pub(super) fn waiting_for(&self, state: &str) -> Option<Ticket> {
        self.states.get(state).copied()
    }

    /// The client has come back: the handler goes on under another id.
    pub(super) fn resume(
        &mut self,
        ticket: Ticket,
        message: Message,
        channel: Channel,
    ) -> Option<&mut Entry> {
        self.entries.get(&ticket)?;
        self.enliven(ticket, &message, Era::Modern, channel);
        let entry = self.entries.get_mut(&ticket)?;
        if let Place::Parked { state } = &entry.place {
            self.states.remove(state);
        }
        self.bytes -= entry.message.bytes().len();
        self.bytes += message.bytes().len();
        entry.message = message;
        entry.channel = channel;
        entry.place = Place::Running;
        entry.progress = None;
        Some(entry)
    }

    /// Takes a ticket out for good.
    pub(super) fn remove(&mut self, ticket: Ticket) -> Option<Entry> {
        self.unlive(ticket);
        let entry = self.entries.remove(&ticket)?;
        let size = entry.message.bytes().len();
        if self.queue.remove(&ticket) {
            self.queue_bytes -= size;
        } else {
            self.bytes -= size;
        }
        if let Place::Parked { state } = &entry.place {
            self.states.remove(state);
        }
        Some(entry)
    }
}
