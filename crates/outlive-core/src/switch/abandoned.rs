//! What the server may still be at work on although nobody waits for it.
//!
//! A cancelled request is not a stopped one: the server may go on with it, ask about it and log about it,
//! and with `--cancel absorb` it was not even told. So the request stays a candidate for whatever does not name its
//! owner, until its answer comes or its server dies (see [`Switch::candidate`](super::Switch::candidate)).

use std::collections::{BTreeMap, BTreeSet};

use rustc_hash::{FxHashMap, FxHashSet};

use crate::message::Id;

use super::Client;

/// A request that was abandoned.
#[derive(Debug)]
pub(super) struct Remnant {
    pub(super) client: Client,
    /// It asked for log messages (2026-07-28).
    pub(super) logs: bool,
    /// What names no owner may be about it. Not so where its client is still there and has the server to itself: such a
    /// client is told everything.
    pub(super) candidate: bool,
    /// Its progress token on the session's side.
    pub(super) token: Option<Id>,
}

/// Requests that were abandoned, and clients whose tasks go on.
#[derive(Debug)]
pub(super) struct Abandoned {
    /// By the id the session knows them by.
    calls: FxHashMap<Id, Remnant>,
    /// How many candidates each client has left behind.
    clients: BTreeMap<Client, usize>,
    /// Their progress tokens: the server may still tell how far it is. Each is one request's.
    tokens: FxHashSet<Id>,
    /// How many of them asked for log messages (2026-07-28).
    logging: usize,
    /// Clients that have begun a task: its request is answered, and the work goes on.
    tasks: BTreeSet<Client>,
    /// How many are kept.
    most: usize,
    /// There were more candidates than are kept: from then on anybody may be one.
    overflowed: bool,
    /// There were more than are kept, and they were no candidates: any id and any token may be one of theirs.
    forgotten: bool,
}

impl Abandoned {
    pub(super) fn new(most: usize) -> Abandoned {
        Abandoned {
            calls: FxHashMap::default(),
            clients: BTreeMap::new(),
            tokens: FxHashSet::default(),
            logging: 0,
            tasks: BTreeSet::new(),
            most,
            overflowed: false,
            forgotten: false,
        }
    }

    /// Nobody waits for this request any more.
    pub(super) fn add(&mut self, id: Id, remnant: Remnant) {
        if self.calls.len() >= self.most {
            self.overflowed |= remnant.candidate;
            self.forgotten = true;
            return;
        }
        self.over(&id);
        if remnant.candidate {
            *self.clients.entry(remnant.client).or_default() += 1;
        }
        self.logging += usize::from(remnant.logs);
        self.tokens.extend(remnant.token.clone());
        self.calls.insert(id, remnant);
    }

    /// Whether one of them may have this id.
    pub(super) fn may_have(&self, id: &Id) -> bool {
        self.forgotten || self.calls.contains_key(id)
    }

    /// Whether one of them may have this progress token.
    pub(super) fn may_use(&self, token: &Id) -> bool {
        self.forgotten || self.tokens.contains(token)
    }

    /// This client has begun a task.
    pub(super) fn add_task(&mut self, client: Client) {
        match self.tasks.len() >= self.most {
            true => self.overflowed = true,
            false => drop(self.tasks.insert(client)),
        }
    }

    /// The server is done with this request, or never got it.
    pub(super) fn over(&mut self, id: &Id) {
        let Some(remnant) = self.calls.remove(id) else {
            return;
        };
        self.logging -= usize::from(remnant.logs);
        if let Some(token) = &remnant.token {
            self.tokens.remove(token);
        }
        if let Some(count) = self
            .clients
            .get_mut(&remnant.client)
            .filter(|_| remnant.candidate)
        {
            *count -= 1;
            if *count == 0 {
                self.clients.remove(&remnant.client);
            }
        }
    }

    /// The server is gone, and with it all it was at work on.
    pub(super) fn clear(&mut self) {
        *self = Abandoned::new(self.most);
    }

    /// Whether there were too many to be kept.
    pub(super) fn has_overflowed(&self) -> bool {
        self.overflowed
    }

    pub(super) fn is_empty(&self) -> bool {
        self.calls.is_empty() && !self.overflowed
    }

    /// Whether one of them may log.
    pub(super) fn may_log(&self) -> bool {
        self.logging > 0 || self.overflowed
    }

    /// Whether this client has begun a task.
    pub(super) fn has_task(&self, client: Client) -> bool {
        self.tasks.contains(&client)
    }

    /// Whose they are.
    pub(super) fn owners(&self) -> impl Iterator<Item = Client> {
        self.clients.keys().chain(&self.tasks).copied()
    }

    pub(super) fn len(&self) -> usize {
        self.calls.len() + self.tasks.len()
    }
}
