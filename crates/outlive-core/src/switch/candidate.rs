//! Who can have caused what names no owner.

use crate::message::Id;
use crate::server::Channel;

use super::abandoned::Remnant;
use super::table::{Call, What};
use super::{Client, Sharing, Switch};

/// Who can have caused what the server says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Candidate {
    /// This client, and no other.
    Only(Client),
    /// One of several, or somebody who no longer wants to hear of it.
    Unclear,
    /// Nobody: the server is at work on nothing.
    Nobody,
}

/// Who has used the server there is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Spoken {
    Nobody,
    Only(Client),
    Several,
}

impl Spoken {
    pub(super) fn note(&mut self, client: Client) {
        *self = match *self {
            Spoken::Nobody => Spoken::Only(client),
            Spoken::Only(known) if known == client => return,
            _ => Spoken::Several,
        };
    }
}

impl Switch {
    /// Who can have caused what a legacy server says. A client that waits for something, one whose request the server
    /// may still be at work on, and one that has begun a task are candidates.
    pub(super) fn candidate(&self) -> Candidate {
        if self.abandoned.has_overflowed() {
            return Candidate::Unclear;
        }
        let busy = self
            .legacy_clients
            .iter()
            .filter(|(_, legacy)| legacy.calls > 0);
        let mut all = busy
            .map(|(client, _)| *client)
            .chain(self.abandoned.owners());
        let Some(first) = all.next() else {
            return Candidate::Nobody;
        };
        if all.any(|other| other != first) {
            return Candidate::Unclear;
        }
        let waits =
            |legacy: &super::LegacyClient| legacy.calls > 0 || self.abandoned.has_task(first);
        match self.legacy_clients.get(&first).is_some_and(waits) {
            true => Candidate::Only(first),
            // It can only be about what nobody waits for.
            false => Candidate::Unclear,
        }
    }

    /// Whom something can be for that the server says by itself: the only client there is, if the server has
    /// not been used by another, whose work it could be about.
    pub(super) fn only_user(&self) -> Option<Client> {
        let only = self.only_legacy_client()?;
        match self.spoken {
            Spoken::Nobody => Some(only),
            Spoken::Only(client) if client == only => Some(only),
            _ => None,
        }
    }

    /// The only client there is.
    pub(super) fn only_legacy_client(&self) -> Option<Client> {
        let mut clients = self.legacy_clients.keys();
        clients.next().copied().filter(|_| clients.next().is_none())
    }

    /// The channels of this client's requests, newest last.
    pub(super) fn channels_of(&self, client: Client) -> Vec<Channel> {
        let mut found: Vec<(u64, Channel)> = self
            .table
            .iter()
            .map(|(_, call)| call)
            .filter(|call| call.client == client && call.channel != Channel::MAIN)
            .map(|call| (call.order, call.channel))
            .collect();
        found.sort_unstable();
        found.into_iter().map(|(_, channel)| channel).collect()
    }

    /// The only modern request, of those that fit, that the server can be at work on.
    pub(super) fn only_request(&self, fits: impl Fn(&Call) -> bool) -> Option<&Call> {
        let works = |call: &&Call| !call.orphan && call.what != What::Listen && fits(call);
        let mut calls = self.table.iter().map(|(_, call)| call).filter(works);
        calls.next().filter(|_| calls.next().is_none())
    }

    /// The server may still be at work on a request that nobody waits for any more.
    pub(super) fn leave_running(&mut self, id: &Id, call: &Call) {
        let here = self.legacy_clients.contains_key(&call.client);
        let remnant = Remnant {
            client: call.client,
            logs: call.log.is_some(),
            // A client that has a server to itself is told everything, and nobody else is there.
            candidate: self.sharing != Sharing::Dedicated || !here,
            token: call.token.as_ref().map(|token| token.known.clone()),
        };
        self.abandoned.add(id.clone(), remnant);
    }
}
