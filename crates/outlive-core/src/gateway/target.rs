//! The targets of a gateway: where servers come from, and how many there may be.

use std::collections::VecDeque;
use std::time::Duration;

use crate::cause::Cause;
use crate::history::Window;
use crate::time::Time;

use super::{LOSS_SLOT, Lane, Loss, ServerId};

/// A server is not stopped sooner after its last use.
const SHORTEST_IDLE: Duration = Duration::from_millis(20);

/// A target, counted from 0 in the order in which they came. A target that comes again is another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TargetId(pub usize);

/// The bounds of a target, and how its servers are shared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TargetLimits {
    /// One server for all sessions, rather than one for each.
    pub share: bool,
    /// Dedicated servers at once, those that are being stopped included. `usize::MAX` for servers that are no
    /// processes of ours.
    pub servers: usize,
    /// How long a client waits for a server to end that is being stopped.
    pub wait: Duration,
    /// Servers for requests without a session, at least one.
    pub pool: usize,
    /// A shared server, or one of the pool, that nobody has used for this long is stopped.
    pub idle_stop: Option<Duration>,
}

impl Default for TargetLimits {
    fn default() -> TargetLimits {
        TargetLimits {
            share: false,
            servers: 64,
            wait: Duration::from_secs(10),
            pool: 1,
            idle_stop: None,
        }
    }
}

/// A target and the servers that are handed out by it.
#[derive(Debug)]
pub(super) struct Target {
    pub(super) limits: TargetLimits,
    /// The server for all sessions.
    pub(super) shared: Option<ServerId>,
    /// The servers for requests without a session, oldest first.
    pub(super) pool: Vec<ServerId>,
    /// Those for requests that come through other gateways.
    pub(super) lanes: Vec<(Lane, ServerId)>,
    /// The last server that was given up in trouble: why, and when that was.
    pub(super) given_up: Option<(Cause, Time)>,
    /// Its last losses, the latest first.
    pub(super) losses: VecDeque<Loss>,
    /// When its servers were lost, lately.
    pub(super) lost_lately: Window<u32>,
    /// How often one of its servers was lost.
    pub(super) lost: u64,
}

impl Target {
    pub(super) fn new(mut limits: TargetLimits) -> Target {
        limits.pool = limits.pool.max(1);
        // What is handed over counts as in flight at once, so this is no grace: it keeps a clock from running hot.
        limits.idle_stop = limits.idle_stop.map(|after| after.max(SHORTEST_IDLE));
        Target {
            limits,
            shared: None,
            pool: Vec::new(),
            lanes: Vec::new(),
            given_up: None,
            losses: VecDeque::new(),
            lost_lately: Window::new(LOSS_SLOT),
            lost: 0,
        }
    }

    /// Lowers the bound on its dedicated servers. What is bound by nothing is no process of ours.
    pub(super) fn bound_servers(&mut self, most: usize) {
        if self.limits.servers != usize::MAX {
            self.limits.servers = self.limits.servers.min(most);
        }
    }

    /// Nobody is handed to this server any more.
    pub(super) fn withdraw(&mut self, server: ServerId) {
        self.shared.take_if(|it| *it == server);
        self.pool.retain(|it| *it != server);
        self.lanes.retain(|(_, it)| *it != server);
    }

    pub(super) fn assigned(&self) -> usize {
        self.pool.len() + self.lanes.len() + usize::from(self.shared.is_some())
    }
}
