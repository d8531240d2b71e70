//! One server, as far as the gateway has to know it.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::switch::{Client, Sharing};
use crate::time::Time;

use super::{Lane, Opening, Standing, TargetId, Urgency};

/// What a server is doing, as its driver sees it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Requests that are waited for, those included that are about to be handed over.
    pub in_flight: usize,
    /// When somebody last had a use for it.
    pub last: Time,
    /// A handshake with it is under way.
    pub handshaking: bool,
    /// It has refused requests without a session, because it speaks legacy revisions only.
    pub legacy_only: bool,
}

/// The session with a server, as far as the gateway has to know it.
pub trait Used {
    /// What it is doing now.
    fn usage(&self) -> Usage;
}

impl<S: Used + ?Sized> Used for Arc<S> {
    fn usage(&self) -> Usage {
        (**self).usage()
    }
}

/// What is to become of a server, from what may be handed out to what may not.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Phase {
    /// It has clients, or may be given some.
    Serving,
    /// Its client has left during the handshake, at this moment, and may come back.
    Standby(Time),
    Stopping(Urgency),
}

/// One server of a gateway.
#[derive(Debug)]
pub struct Server<S> {
    pub(super) target: TargetId,
    pub(super) sharing: Sharing,
    /// The way of those it is for, if they have come through other gateways.
    pub(super) lane: Option<Lane>,
    pub(super) phase: Phase,
    pub(super) session: Option<S>,
    /// The clients with sessions that use it.
    pub(super) clients: BTreeSet<Client>,
    /// When it was last handed to somebody, left by somebody, or seen to be used.
    pub(super) used: Time,
    /// What the handshake with it was begun with, if it is dedicated.
    pub(super) opening: Option<Opening>,
    pub(super) standing: Standing,
}

impl<S> Server<S> {
    pub(super) fn new(
        target: TargetId,
        sharing: Sharing,
        lane: Option<Lane>,
        now: Time,
    ) -> Server<S> {
        Server {
            target,
            sharing,
            lane,
            phase: Phase::Serving,
            session: None,
            clients: BTreeSet::new(),
            used: now,
            opening: None,
            standing: Standing::new(now),
        }
    }

    /// Where it comes from.
    pub fn target(&self) -> TargetId {
        self.target
    }

    /// Whom it is for.
    pub fn sharing(&self) -> Sharing {
        self.sharing
    }

    /// The session with it.
    pub fn session(&self) -> Option<&S> {
        self.session.as_ref()
    }

    /// How many clients with sessions use it.
    pub fn clients(&self) -> usize {
        self.clients.len()
    }

    /// What has happened to it.
    pub fn standing(&self) -> &Standing {
        &self.standing
    }

    /// Whether it was told to stop, or its session is over.
    pub fn is_stopping(&self) -> bool {
        matches!(self.phase, Phase::Stopping(_))
    }

    /// Whether it waits for a client that left during the handshake.
    pub fn is_standby(&self) -> bool {
        matches!(self.phase, Phase::Standby(_))
    }
}

impl<S: Used> Server<S> {
    pub(super) fn usage(&self) -> Usage {
        self.session.as_ref().map(Used::usage).unwrap_or_default()
    }

    /// When somebody last had a use for it: now, if it is in use.
    pub(super) fn last_use(&self, usage: &Usage, now: Time) -> Time {
        match usage.in_flight > 0 || !self.clients.is_empty() {
            true => now,
            false => self.used.max(usage.last).min(now),
        }
    }
}
