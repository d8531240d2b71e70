//! What the world writes down about a router, by itself.

use std::collections::{BTreeMap, BTreeSet};

use outlive_core::Time;
use outlive_core::gateway::TargetId;
use outlive_core::protocol::List;
use outlive_core::server::Channel;
use serde_json::Value;

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

/// A request that the client waits for.
#[derive(Clone, Debug)]
pub struct Owed {
    pub channel: Channel,
    pub id: Value,
    pub method: &'static str,
    pub params: Value,
    pub secret: String,
    pub token: Option<Value>,
    /// Its place among all requests.
    pub order: u64,
    pub since: Time,
    /// What it may be about, by the rosters there were since it came: the server, and the key it has there.
    pub may: BTreeSet<(TargetId, String)>,
    /// Nobody had what it names when it came.
    pub waits: bool,
    pub sent: Option<TargetId>,
}

impl Owed {
    pub fn list(&self) -> Option<List> {
        List::of_method(self.method)
    }
}

/// How far the leg of a server has come, as the server sees it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Leg {
    #[default]
    None,
    /// It is open, and nothing was said; or the handshake has failed.
    Open,
    Shaking,
    Ready,
}

/// A request that a server was sent.
#[derive(Clone, Debug)]
pub struct Got {
    pub channel: Channel,
    pub id: Value,
    pub method: String,
    pub params: Value,
}

impl Got {
    /// The secret of the client's request, if it is one. The handshake is ours, in the words of the client.
    pub fn secret(&self) -> Option<&str> {
        self.params["secret"]
            .as_str()
            .filter(|_| self.method != "initialize")
    }
}

/// A question of a server.
#[derive(Clone, Debug)]
pub struct Question {
    pub id: Value,
    pub method: &'static str,
    pub token: Value,
    pub secret: String,
    /// The id under which the client was asked, as long as it has not answered.
    pub asked: Option<Value>,
    /// The token under which the client was asked.
    pub asked_token: Value,
    /// What the client has said and the server has not heard.
    pub replied: bool,
}

/// A server.
#[derive(Clone, Debug, Default)]
pub struct Server {
    pub leg: Leg,
    /// It was told that the handshake is over.
    pub told: bool,
    /// What it was sent and has not answered.
    pub pending: Vec<Got>,
    /// Some of what it was ever sent.
    pub past: Vec<Got>,
    pub questions: Vec<Question>,
    /// Pings that are not answered, by id.
    pub pings: Vec<Value>,
    /// What it offers, as places in [`super::names`].
    pub lists: [Vec<usize>; 4],
    /// How often its definitions have changed.
    pub version: usize,
    /// Bits: what it does not declare.
    pub lacks: u8,
    pub paged: bool,
    pub level: Option<String>,
    pub follows: BTreeSet<String>,
    /// The place of the last request it was sent.
    pub last: u64,
    /// When the handshake was first begun since the server was last in service, unless that failed.
    pub reached: Option<Time>,
    /// It was found out that it cannot be reached, since it was last in service.
    pub failed: bool,
    /// Since when it has said that a list is empty.
    pub empty: [Option<Time>; 4],
    /// It has said so, was known to have entries, and has not had time to think about it.
    pub doubtful: [bool; 4],
}

impl Server {
    pub fn lose(&mut self) {
        self.leg = Leg::None;
        self.told = false;
        let pending = std::mem::take(&mut self.pending);
        self.past.extend(pending);
        self.trim();
        self.questions.clear();
        self.pings.clear();
        self.level = None;
        self.follows.clear();
        self.last = 0;
        self.reached = None;
        self.failed = true;
        self.empty = [None; 4];
        self.doubtful = [false; 4];
    }

    pub fn trim(&mut self) {
        let more = self.past.len().saturating_sub(8);
        self.past.drain(..more);
    }
}

/// What the client was given of a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Given {
    Nothing,
    /// Pages of this list, or was told that there is this one.
    Whole(u64),
    /// Pages of several.
    Mixed,
}

/// What the client believes about a resource that it follows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Follow {
    Yes,
    /// Somebody may or may not have heard of what it wants.
    Unclear,
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
    passed,
    answered,
    failed,
    refused,
    duplicates,
    lists,
    pages,
    waited,
    told,
    mixed,
    asked,
    replied,
    undeclared,
    withdrawn,
    progress,
    lies,
    late,
    ended,
    unopened,
    unshaken,
    idle_stops,
    gave_way,
    removed,
    changed,
    added,
    handed_over,
    removed_in_flight,
    emptied,
    doubted,
    levels,
    followed,
    updated,
    tasks,
    cancelled,
    cancelled_unsent,
    gone,
    token_withdrawn,
    settled,
    accepted,
    withheld,
);

/// Who follows what: the server, and the URI it has there.
pub type Follows = BTreeMap<(TargetId, String), Follow>;
