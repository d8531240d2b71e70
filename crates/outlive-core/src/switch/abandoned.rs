//! What the server may still be at work on although nobody waits for it.
//!
//! A cancelled request is not a stopped one: the server may go on with it, ask about it and log about it,
//! and with `--cancel absorb` it was not even told. So the request stays a candidate for whatever does not name its
//! owner, until its answer comes or its server dies (see [`Switch::candidate`](super::Switch::candidate)).

use std::collections::{BTreeMap, BTreeSet};

use rustc_hash::FxHashMap;

use crate::message::Id;

use super::Client;

/// Requests that were abandoned, and clients whose tasks go on.
#[derive(Debug)]
pub(super) struct Abandoned {
    /// By the id the session knows them by: whose they were, and whether log messages were asked for.
    calls: FxHashMap<Id, (Client, bool)>,
    /// How many of them each client has left behind.
    clients: BTreeMap<Client, usize>,
    /// How many of them asked for log messages (2026-07-28).
    logging: usize,
    /// Clients that have begun a task: its request is answered, and the work goes on.
    tasks: BTreeSet<Client>,
    /// So many are kept …
    most: usize,
    /// … and there were more: from then on anybody may be a candidate.
    overflowed: bool,
}

impl Abandoned {
    pub(super) fn new(most: usize) -> Abandoned {
        Abandoned {
            calls: FxHashMap::default(),
            clients: BTreeMap::new(),
            logging: 0,
            tasks: BTreeSet::new(),
            most,
            overflowed: false,
        }
    }

    /// Nobody waits for this request any more.
    pub(super) fn add(&mut self, id: Id, client: Client, logs: bool) {
        if self.calls.len() >= self.most {
            self.overflowed = true;
            return;
        }
        if self.calls.insert(id, (client, logs)).is_none() {
            *self.clients.entry(client).or_default() += 1;
            self.logging += usize::from(logs);
        }
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
        let Some((client, logs)) = self.calls.remove(id) else {
            return;
        };
        self.logging -= usize::from(logs);
        if let Some(count) = self.clients.get_mut(&client) {
            *count -= 1;
            if *count == 0 {
                self.clients.remove(&client);
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
