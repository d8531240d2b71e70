//! The requests that are waited for.

use std::collections::BTreeMap;

use bytes::Bytes;
use rustc_hash::FxHashMap;

use crate::message::Id;
use crate::server::{Channel, Level};

use super::Client;

/// What a request is for, as far as its answer is treated in its own way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum What {
    Plain,
    /// It becomes a task: progress goes on after the answer.
    Task,
    Initialize,
    /// `logging/setLevel`.
    Level(Choice),
    Subscribe(Box<str>),
    Unsubscribe,
    /// `subscriptions/listen`.
    Listen,
    /// Of our own: whether the server is a modern one.
    Probe,
}

impl What {
    /// Whether it changes what the server has for all of its clients. The session has to see its answer, to know what
    /// to tell the next server.
    pub(super) fn is_state(&self) -> bool {
        matches!(
            self,
            What::Level(_) | What::Subscribe(_) | What::Unsubscribe
        )
    }
}

/// A client's choice of a level.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Choice {
    /// When it was made, in the order of requests.
    pub(super) at: u64,
    /// The level its client had chosen before, and when.
    pub(super) before: (Option<Level>, u64),
}

/// A request that is waited for.
#[derive(Clone, Debug)]
pub(super) struct Call {
    pub(super) client: Client,
    pub(super) channel: Channel,
    /// Where its id is unique, and the id.
    pub(super) name: (Scope, Id),
    /// The id as its client wrote it.
    pub(super) id_json: Bytes,
    pub(super) token: Option<Token>,
    pub(super) what: What,
    /// The log messages it asks for (2026-07-28).
    pub(super) log: Option<Level>,
    /// Nobody waits for it, but it must not be cancelled.
    pub(super) orphan: bool,
    pub(super) bytes: usize,
    /// The order in which requests came.
    pub(super) order: u64,
}

/// The progress token of a request.
#[derive(Clone, Debug)]
pub(super) struct Token {
    /// The one the session knows.
    pub(super) known: Id,
    /// As its client wrote it, if that is another.
    pub(super) json: Option<Bytes>,
}

/// Where a client's id must be unique: a legacy client counts its requests over all channels; modern
/// requests know nothing of each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Scope {
    Client(Client),
    Channel(Client, Channel),
    /// Our own requests.
    Own,
}

#[derive(Debug)]
pub(super) struct Table {
    /// By the id the session knows them by. Either we chose that, or the only client there is.
    calls: FxHashMap<Id, Call>,
    /// By the id their client knows them by, where that is another. Clients choose these, and one that chooses them for
    /// their hashes would slow down the others: so there are no hashes.
    names: BTreeMap<(Scope, Id), Id>,
    /// By the progress token the session knows.
    tokens: FxHashMap<Id, Id>,
    bytes: usize,
    next: u64,
}

impl Table {
    pub(super) fn new() -> Table {
        Table {
            calls: FxHashMap::default(),
            names: BTreeMap::new(),
            tokens: FxHashMap::default(),
            bytes: 0,
            next: 0,
        }
    }

    /// The next number; requests that are given a new id have it for that.
    pub(super) fn next(&mut self) -> u64 {
        self.next += 1;
        self.next
    }

    pub(super) fn len(&self) -> usize {
        self.calls.len()
    }

    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    pub(super) fn get(&self, id: &Id) -> Option<&Call> {
        self.calls.get(id)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (&Id, &Call)> {
        self.calls.iter()
    }

    /// The choices of a level that a client waits for.
    pub(super) fn choices(&mut self, client: Client) -> impl Iterator<Item = &mut Choice> {
        let its = self
            .calls
            .values_mut()
            .filter(move |call| call.client == client);
        its.filter_map(|call| match &mut call.what {
            What::Level(choice) => Some(choice),
            _ => None,
        })
    }

    /// The ids of all requests, oldest first.
    pub(super) fn ids(&self) -> Vec<Id> {
        self.ids_of(|_| true)
    }

    /// The ids of such requests, oldest first.
    pub(super) fn ids_of(&self, fits: impl Fn(&Call) -> bool) -> Vec<Id> {
        let mut found: Vec<(u64, &Id)> = self
            .calls
            .iter()
            .filter(|(_, call)| fits(call))
            .map(|(id, call)| (call.order, id))
            .collect();
        found.sort_unstable();
        found.into_iter().map(|(_, id)| id.clone()).collect()
    }

    /// The request its client knows by this name.
    pub(super) fn named(&self, scope: Scope, id: &Id) -> Option<&Id> {
        match self.calls.get_key_value(id) {
            Some((known, call)) if call.name.0 == scope && call.name.1 == *id => Some(known),
            _ => self.names.get(&(scope, id.clone())),
        }
    }

    /// The request that has this progress token on the session's side.
    pub(super) fn by_token(&self, token: &Id) -> Option<&Call> {
        self.calls.get(self.tokens.get(token)?)
    }

    pub(super) fn insert(&mut self, id: Id, call: Call) {
        self.bytes += call.bytes;
        if call.name.1 != id {
            self.names.insert(call.name.clone(), id.clone());
        }
        if let Some(token) = &call.token {
            self.tokens.insert(token.known.clone(), id.clone());
        }
        self.calls.insert(id, call);
    }

    pub(super) fn remove(&mut self, id: &Id) -> Option<Call> {
        let call = self.calls.remove(id)?;
        self.bytes -= call.bytes;
        if call.name.1 != *id && self.names.get(&call.name) == Some(id) {
            self.names.remove(&call.name);
        }
        if let Some(token) = &call.token {
            self.tokens.remove(&token.known);
        }
        Some(call)
    }
}
