//! What the world writes down about a gateway, by itself.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::rc::Rc;

use outlive_core::Time;
use outlive_core::gateway::{Lane, Opening, ServerId, TargetId, Urgency, Usage, Used};
use outlive_core::switch::{Client, Sharing};

/// An invariant that does not hold.
#[derive(Debug)]
pub struct Broken {
    pub invariant: u8,
    pub how: String,
}

pub fn broken<T>(invariant: u8, how: impl Into<String>) -> Result<T, Broken> {
    let how = how.into();
    Err(Broken { invariant, how })
}

/// The session with a server, of which the world says what it does.
#[derive(Clone, Debug, Default)]
pub struct Session(pub Rc<Cell<Usage>>);

impl Used for Session {
    fn usage(&self) -> Usage {
        self.0.get()
    }
}

impl Session {
    pub fn change(&self, change: impl FnOnce(&mut Usage)) {
        let mut usage = self.0.get();
        change(&mut usage);
        self.0.set(usage);
    }
}

/// A server that has not ended.
#[derive(Clone, Debug)]
pub struct ServerBook {
    pub target: TargetId,
    pub sharing: Sharing,
    /// The way of those it is for.
    pub lane: Option<Lane>,
    pub session: Session,
    pub stop: Option<Urgency>,
    /// Its session is over, without an order.
    pub closed: bool,
    pub opening: Option<Opening>,
    /// Since when it has waited for its client to come back.
    pub standby: Option<Time>,
    /// When it last finished a handshake.
    pub shaken: Time,
    pub trouble: bool,
    /// When somebody last had a use for it.
    pub used: Time,
}

impl ServerBook {
    pub fn is_serving(&self) -> bool {
        self.stop.is_none() && !self.closed && self.standby.is_none()
    }

    pub fn is_stopping(&self) -> bool {
        self.stop.is_some() || self.closed
    }

    pub fn in_flight(&self) -> usize {
        self.session.usage().in_flight
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    Waiting(Time),
    Admitted,
    Joined(ServerId),
}

/// A client that has not left.
#[derive(Clone, Debug)]
pub struct ClientBook {
    pub target: TargetId,
    pub opening: Opening,
    /// It has shown how it begins when it came.
    pub shown: bool,
    pub stage: Stage,
    /// It has sent its first message.
    pub spoken: bool,
    /// Requests it waits for.
    pub calls: usize,
}

macro_rules! seen {
    ($($name:ident),* $(,)?) => {
        /// What schedules came across.
        #[derive(Clone, Copy, Debug, Default)]
        pub struct Seen {
            $(pub $name: usize,)*
        }

        impl Seen {
            pub fn add(&mut self, other: &Seen) {
                $(self.$name += other.$name;)*
            }

            pub fn check(&self) {
                $(assert!(self.$name >= 10, "{}: {} in {self:?}", stringify!($name), self.$name);)*
            }
        }
    };
}

seen!(
    admitted,
    waited,
    admitted_after_waiting,
    refused_full,
    refused_by_shutdown,
    gave_way,
    standby,
    standby_taken_at_arrival,
    standby_taken_at_join,
    taken_over_by_waiting,
    taken_over_by_admitted,
    kept_after_handshake,
    standby_retired,
    standby_expired,
    shared_by_several,
    pool_grown,
    pool_busy,
    lanes,
    lanes_shared,
    lanes_stopped,
    idle_stops,
    legacy_stops,
    given_up,
    handshakes_failed,
    unstartable,
    in_trouble,
    ready,
    closed_by_itself,
    died,
    restarted,
    stopped_targets,
    targets_added,
    targets_removed,
    servers_removed,
    refused_removed,
    requests_removed,
    joins_removed,
    shutdowns,
    over,
);

/// All that has not ended.
#[derive(Debug, Default)]
pub struct Books {
    pub servers: BTreeMap<ServerId, ServerBook>,
    pub clients: BTreeMap<Client, ClientBook>,
    /// When the last server of each target was given up in trouble, if none has been in service since.
    pub given_up: BTreeMap<TargetId, Time>,
}

impl Books {
    pub fn of(
        &self,
        target: TargetId,
        sharing: Sharing,
    ) -> impl Iterator<Item = (&ServerId, &ServerBook)> {
        let servers = self.servers.iter();
        servers.filter(move |(_, it)| it.target == target && it.sharing == sharing)
    }

    pub fn dedicated(&self, target: TargetId) -> usize {
        self.of(target, Sharing::Dedicated).count()
    }

    pub fn stopping(&self, target: TargetId) -> usize {
        let dedicated = self.of(target, Sharing::Dedicated);
        dedicated.filter(|(_, it)| it.is_stopping()).count()
    }

    pub fn admitted(&self, target: TargetId) -> usize {
        let clients = self.clients.values();
        let admitted = clients.filter(|it| it.target == target && it.stage == Stage::Admitted);
        admitted.count()
    }

    /// How many came before this client and wait for the same target. Clients are numbered in the order of arrival.
    pub fn ahead(&self, client: Client) -> usize {
        let target = self.clients[&client].target;
        let earlier = self.clients.range(..client);
        let waits = |it: &ClientBook| it.target == target && matches!(it.stage, Stage::Waiting(_));
        earlier.filter(|(_, it)| waits(it)).count()
    }

    /// A server on standby for clients that begin like this.
    pub fn standby_for(&self, target: TargetId, opening: &Opening) -> Option<ServerId> {
        let mut standby = self
            .of(target, Sharing::Dedicated)
            .filter(|(_, it)| it.standby.is_some());
        let found =
            standby.find(|(_, it)| !it.is_stopping() && it.opening.as_ref() == Some(opening));
        found.map(|(id, _)| *id)
    }

    /// The first client that has no server yet and has shown that it begins like the one that this server was started
    /// for.
    pub fn heir(&self, server: ServerId) -> Option<Client> {
        let it = self.servers.get(&server)?;
        let mut clients = self.clients.iter();
        let heir = clients.find(|(_, client)| {
            client.target == it.target
                && client.shown
                && !matches!(client.stage, Stage::Joined(_))
                && it.opening.as_ref() == Some(&client.opening)
        });
        heir.map(|(client, _)| *client)
    }

    pub fn users(&self, server: ServerId) -> usize {
        let clients = self.clients.values();
        clients
            .filter(|it| it.stage == Stage::Joined(server))
            .count()
    }

    pub fn is_in_use(&self, server: ServerId) -> bool {
        self.servers[&server].in_flight() > 0 || self.users(server) > 0
    }
}
