//! The lifecycle of the servers behind a gateway: when one is started, who uses it, and when it is stopped.
//!
//! # Theory
//!
//! A gateway has targets. Each target tells where servers come from, and has any number of them at
//! a time. Clients reach a target in two ways, and what a server is for is its [`Sharing`]:
//!
//! | who | server |
//! |---|---|
//! | a client with a session | one of its own ([`Sharing::Dedicated`]), or one for all sessions ([`Sharing::Shared`]) |
//! | a request without a session | one of a pool ([`Sharing::Pooled`]), or of its [way](Lane) through other gateways |
//!
//! ```text
//!  arrive ─► admit ─► join ─► leave        Start, Stop, Restart, Over
//!  request ──────────────────────► Gateway ─────────────────────────► driver
//!  observe, ended, tick ─────────►         ◄───────────────────────── Usage
//! ```
//!
//! - **Lazy start.** A server is started when somebody needs it, and not before.
//! - **Bounds.** A target has at most [`TargetLimits::servers`] dedicated servers, those that are being stopped
//!   included. A client that finds as many waits, in turn, for one that is being stopped; if there is none, somebody
//!   has to give way ([`Admission::GiveWay`]), or the client is refused.
//! - **Pool.** A request goes to an idle server; if there is none, to one that is started for it; if there are as many
//!   as there may be, to the one with the fewest requests in flight.
//! - **Standby.** A client that is less patient than its server is slow leaves during the handshake, and comes again.
//!   Its server is kept on standby, for a client that begins with the same words and the same credentials and for
//!   nobody else: if each attempt started another server, none would ever be ready (FM-12). If the next attempt has
//!   come before the last one was seen to leave, it gets the server at that moment, and waits no longer.
//! - **Idle stop.** A shared server, or one of a pool, that nobody has used for [`TargetLimits::idle_stop`] is stopped.
//! - **Legacy memory.** That a pooled server speaks legacy revisions only is known as long as the server is there. It
//!   is kept for a minute, so that not every request starts a server to learn the same, and no longer, because the
//!   next one may be a new version.
//! - **Readiness.** A target is [ready](Gateway::readiness) if a request would be answered, or a server started for it.
//! - **Removal.** Targets come and go while the gateway runs. What is left of one that was
//!   [removed](Gateway::remove_target) finishes what is in flight; nothing is started for it, and whoever asks for it
//!   is told. The others are not touched. A target that comes is a new one: no number is given twice.
//! - **Shutdown.** From its first moment on nothing is started and nobody is let in.
//!
//! The driver owns the sessions with servers and tells what they are doing ([`Used`]). After every call it calls
//! [`Gateway::poll`] until it returns `None` and carries out each [`Order`] in that order; it calls [`Gateway::tick`]
//! no later than [`Gateway::deadline`]. All of it happens under one lock: whoever is handed a server counts as
//! [in flight](Usage::in_flight) there before anybody else asks.
//!
//! | file | what happens there |
//! |---|---|
//! | `target` | the targets and their limits |
//! | `admission` | clients that want a dedicated server and wait for one |
//! | `member` | clients join and leave; requests are assigned |
//! | `lane` | requests that come through other gateways |
//! | `server` | one server, as far as the gateway has to know it |
//! | `idle` | what is stopped when its time has come |
//! | `health` | what has happened to servers, lately and ever; readiness |

mod admission;
mod health;
mod idle;
mod lane;
mod member;
mod server;
mod target;

use std::collections::{BTreeMap, VecDeque};

use crate::switch::{Client, Sharing};
use crate::time::Time;

pub use admission::Admission;
pub use health::{GIVEN_UP, LOSS_SLOT, LOSSES, Loss, Standing, Unready};
pub use idle::{LEGACY_MEMORY, STANDBY};
pub use lane::{Lane, MOST_LANES};
pub use member::{MOST_STANDBY, NoServer, Opening};
pub use server::{Server, Usage, Used};
pub use target::{TargetId, TargetLimits};

use admission::Queue;
use member::Member;
use server::Phase;
use target::Target;

/// A server, counted from 1 in the order of their starts. One that is replaced under its session keeps its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ServerId(pub u64);

/// How soon a server is to stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Urgency {
    /// What is in flight may finish, within the bounds of its session.
    Graceful,
    /// Nobody waits for anything.
    Immediate,
}

/// What the driver is to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// Start a server of this target, and [attach](Gateway::attach) the session with it.
    Start(ServerId, TargetId, Sharing),
    /// Stop this server. It is told again if it becomes more urgent.
    Stop(ServerId, Urgency),
    /// Put a new process or connection under the session with this server.
    Restart(ServerId),
    /// Everything has ended after a shutdown. Nothing follows.
    Over,
}

/// The servers behind a gateway. See the [module](self).
#[derive(Debug)]
pub struct Gateway<S> {
    targets: BTreeMap<TargetId, Target>,
    /// How many targets there have been.
    target_numbers: usize,
    /// The bound on the dedicated servers of each target.
    most_servers: usize,
    servers: BTreeMap<ServerId, Server<S>>,
    members: BTreeMap<Client, Member>,
    queue: Queue,
    /// The number of the last server.
    numbers: u64,
    /// When something may have to be stopped.
    next: Option<Time>,
    shutdown: Option<Urgency>,
    is_over: bool,
    orders: VecDeque<Order>,
}

impl<S: Used> Gateway<S> {
    /// A gateway without servers.
    pub fn new(targets: Vec<TargetLimits>) -> Gateway<S> {
        let mut gateway = Gateway {
            targets: BTreeMap::new(),
            target_numbers: 0,
            most_servers: usize::MAX,
            servers: BTreeMap::new(),
            members: BTreeMap::new(),
            queue: Queue::default(),
            numbers: 0,
            next: None,
            shutdown: None,
            is_over: false,
            orders: VecDeque::new(),
        };
        for limits in targets {
            gateway.add_target(limits);
        }
        gateway
    }

    /// Lowers the bound on the dedicated servers of each target, also of those that come later.
    pub fn bound_servers(&mut self, most: usize) {
        self.most_servers = self.most_servers.min(most);
        for target in self.targets.values_mut() {
            target.bound_servers(most);
        }
    }

    /// A target comes. Its number is one that no target had before.
    pub fn add_target(&mut self, limits: TargetLimits) -> TargetId {
        let id = TargetId(self.target_numbers);
        self.target_numbers += 1;
        let mut target = Target::new(limits);
        target.bound_servers(self.most_servers);
        self.targets.insert(id, target);
        id
    }

    /// A target goes. Its servers are stopped; what is in flight may finish. Whoever waits for one, or asks for one
    /// from now on, is told that it was [removed](NoServer::Removed). Tells how many servers were stopped.
    pub fn remove_target(&mut self, target: TargetId, now: Time) -> usize {
        let stopped = self.stop_target(target, now);
        self.targets.remove(&target);
        stopped
    }

    /// Whether there is a target of this number.
    pub fn has_target(&self, target: TargetId) -> bool {
        self.targets.contains_key(&target)
    }

    /// The next thing to do, if there is one.
    pub fn poll(&mut self) -> Option<Order> {
        self.orders.pop_front()
    }

    /// The session with a server that was ordered.
    pub fn attach(&mut self, server: ServerId, session: S) {
        if let Some(server) = self.servers.get_mut(&server) {
            server.session = Some(session);
        }
    }

    /// A server has ended, and its session with it.
    pub fn ended(&mut self, id: ServerId, now: Time) {
        self.give_up(id, now);
        self.withdraw(id);
        self.servers.remove(&id);
        self.end_if_over();
    }

    /// Puts new processes or connections under the sessions with all servers.
    pub fn restart(&mut self) {
        let serving = self.servers.iter().filter(|(_, it)| !it.is_stopping());
        self.orders
            .extend(serving.map(|(id, _)| Order::Restart(*id)));
    }

    /// Puts new processes or connections under the sessions with all servers of a target. Tells how many.
    pub fn restart_target(&mut self, target: TargetId) -> usize {
        let serving = self.serving(target);
        let restarts = serving.iter().copied().map(Order::Restart);
        self.orders.extend(restarts);
        serving.len()
    }

    /// Stops all servers of a target; what is in flight may finish. Tells how many. Whoever needs one next has one
    /// started: this is no shutdown.
    pub fn stop_target(&mut self, target: TargetId, now: Time) -> usize {
        let serving = self.serving(target);
        for id in &serving {
            self.stop(*id, Urgency::Graceful, now);
        }
        serving.len()
    }

    /// The servers of a target that were not told to stop.
    fn serving(&self, target: TargetId) -> Vec<ServerId> {
        let servers = self.servers.iter();
        let serving = servers.filter(|(_, it)| it.target == target && !it.is_stopping());
        serving.map(|(id, _)| *id).collect()
    }

    /// Ends everything: the first time gracefully, the second time at once.
    pub fn shutdown(&mut self, now: Time) {
        let urgency = match self.shutdown {
            None => Urgency::Graceful,
            Some(_) => Urgency::Immediate,
        };
        self.shutdown = Some(urgency);
        let all: Vec<ServerId> = self.servers.keys().copied().collect();
        for id in all {
            self.stop(id, urgency, now);
        }
        self.end_if_over();
    }

    /// Whether it was told to shut down.
    pub fn is_shutting_down(&self) -> bool {
        self.shutdown.is_some()
    }

    /// Whether it was told to shut down, and everything has ended.
    pub fn is_over(&self) -> bool {
        self.is_over
    }

    /// All servers there are, those that are being stopped included.
    pub fn servers(&self) -> impl Iterator<Item = (ServerId, &Server<S>)> {
        self.servers.iter().map(|(id, server)| (*id, server))
    }

    /// A server, until it has ended.
    pub fn server(&self, id: ServerId) -> Option<&Server<S>> {
        self.servers.get(&id)
    }

    /// The sizes of everything that could grow.
    #[doc(hidden)]
    pub fn sizes(&self) -> Sizes {
        Sizes {
            servers: self.servers.len(),
            members: self.members.len(),
            waiting: self.queue.len(),
            standby: self.servers.values().filter(|it| it.is_standby()).count(),
            assigned: self.targets.values().map(Target::assigned).sum(),
            losses: self.targets.values().map(|it| it.losses.len()).sum(),
            orders: self.orders.len(),
        }
    }

    fn start(
        &mut self,
        target: TargetId,
        sharing: Sharing,
        lane: Option<Lane>,
        now: Time,
    ) -> ServerId {
        self.numbers += 1;
        let id = ServerId(self.numbers);
        let server = Server::new(target, sharing, lane, now);
        self.servers.insert(id, server);
        if let Some(target) = self.targets.get_mut(&target) {
            match sharing {
                Sharing::Dedicated => {}
                Sharing::Shared => target.shared = Some(id),
                Sharing::Pooled if lane.is_some() => {}
                Sharing::Pooled => target.pool.push(id),
            }
        }
        self.orders.push_back(Order::Start(id, target, sharing));
        self.arm(id, now);
        id
    }

    /// Stops a server: nobody is handed to it any more.
    fn stop(&mut self, id: ServerId, urgency: Urgency, now: Time) {
        let Some(server) = self.servers.get_mut(&id) else {
            return;
        };
        if server.phase >= Phase::Stopping(urgency) {
            return;
        }
        server.phase = Phase::Stopping(urgency);
        self.orders.push_back(Order::Stop(id, urgency));
        self.give_up(id, now);
        self.withdraw(id);
    }

    /// Nobody is handed to this server any more.
    fn withdraw(&mut self, id: ServerId) {
        let server = self.servers.get(&id);
        if let Some(target) = server.and_then(|it| self.targets.get_mut(&it.target)) {
            target.withdraw(id);
        }
    }

    fn end_if_over(&mut self) {
        if self.is_shutting_down() && self.servers.is_empty() && !self.is_over {
            self.is_over = true;
            self.orders.push_back(Order::Over);
        }
    }
}

/// The sizes of everything that could grow, for tests of the bounds.
#[doc(hidden)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sizes {
    pub servers: usize,
    pub members: usize,
    pub waiting: usize,
    pub standby: usize,
    /// Servers that requests or sessions are assigned to by target.
    pub assigned: usize,
    pub losses: usize,
    pub orders: usize,
}
