//! The link in service, as the session sees it.

use std::time::Duration;

use bytes::Bytes;
use rustc_hash::{FxHashMap, FxHashSet};

use crate::bounded::{RecentSet, Tail};
use crate::cause::Reason;
use crate::link::Generation;
use crate::message::Id;
use crate::policy::Limits;
use crate::protocol::List;
use crate::time::Time;

use super::login::{LoginAsk, LoginWanted};

/// What a server wrote in this time before it ended may tell why.
const SHORTLY_BEFORE: Duration = Duration::from_secs(5);
/// And if somebody else ended it, in this time.
const JUST_BEFORE: Duration = Duration::from_secs(2);

/// How far a link has come.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    /// Ordered, not yet made.
    Making,
    /// Our own handshake, on behalf of a host that has had its own, is under way.
    Handshaking,
    /// The new tool list is being read, because requests to be repeated depend on it.
    Restoring { until: Time },
    /// Messages pass.
    Open,
    /// To be replaced: what is in flight may finish until then, new requests wait for the next.
    Retiring { until: Time },
    /// The last one, told to leave: what it still answers reaches the host.
    Leaving,
    /// Known dead; waiting a moment for the exit status, which tells more.
    Dying { reason: Reason, until: Time },
}

/// A request of our own, and what its answer is for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Own {
    /// The handshake.
    Handshake,
    /// Something replayed; its answer does not matter.
    Replay,
    /// A page of a list to compare, asked for with this cursor.
    List { list: List, cursor: Option<String> },
    /// A sign of life is asked for.
    Probe,
    /// Asks whether the server still knows the session.
    SessionCheck,
}

/// The server is being asked whether it still knows the session.
#[derive(Clone, Debug)]
pub(super) struct SessionCheck {
    pub(super) id: Id,
    /// No answer by then: it does.
    pub(super) until: Time,
}

/// A request of the server that the host has not answered.
#[derive(Clone, Debug)]
pub(super) struct Ask {
    /// Its id as the server wrote it.
    pub(super) server_id: Id,
    pub(super) server_id_json: Bytes,
    /// The token the host reports progress with.
    pub(super) token: Option<Id>,
    /// It is answered by a person, who takes their time.
    pub(super) of_a_person: bool,
    /// It is not the server's, but ours: somebody has to log in.
    pub(super) login: bool,
}

impl Ask {
    /// One that is known by nothing but its id, and that nobody can answer any more.
    pub(super) fn void(id: Id) -> Ask {
        Ask {
            server_id: id,
            server_id_json: Bytes::new(),
            token: None,
            of_a_person: false,
            login: false,
        }
    }
}

/// How a sign of life is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ProbeMethod {
    /// `ping`, or `server/discover` where there is no ping.
    Cheap,
    /// Another one, before a server is condemned that merely does not know the first (FM-22).
    Other,
}

#[derive(Clone, Debug)]
pub(super) struct Probe {
    pub(super) id: Id,
    pub(super) sent: Time,
    /// When it is followed by another one, if the server is suspect.
    pub(super) again_at: Time,
    pub(super) method: ProbeMethod,
}

/// What is known about a link's life.
#[derive(Clone, Debug, Default)]
pub(super) struct Liveness {
    /// When something was last heard from it.
    pub(super) heard: Time,
    /// When something was last sent to it.
    pub(super) spoken: Time,
    /// The probe that is out.
    pub(super) probe: Option<Probe>,
    /// When the last probe was sent.
    pub(super) probed: Option<Time>,
    /// A sign of life is wanted now, whatever the interval.
    pub(super) urgent: bool,
    /// It was sent a cancellation and may die of it, at once or later, until then.
    pub(super) suspect_until: Option<Time>,
    /// Frames it had been sent when it was sent a cancellation, or last answered a probe. If it
    /// dies over a request that came later, it may be of that.
    pub(super) proven: u64,
    /// It has answered a cancelled request with an error.
    pub(super) answers_cancelled: bool,
    /// It has answered a probe.
    pub(super) ponged: bool,
    /// It left a probe unanswered that requests were waiting for. They wait no more for its answer.
    pub(super) probes_ignored: bool,
    /// When it was last sent a ping that requests follow after a moment, answered or not.
    pub(super) probe_first: Option<Time>,
    /// What waits goes out now, suspect or not.
    pub(super) gate_open: bool,
    pub(super) inspected: Option<Time>,
    /// Since when the operating system shows it as stopped.
    pub(super) stopped_since: Option<Time>,
}

#[derive(Clone, Debug)]
pub(super) struct Link {
    pub(super) generation: Generation,
    pub(super) stage: Stage,
    /// When it was ordered.
    pub(super) ordered: Time,
    /// Since when it has been in service: handshake done.
    pub(super) served: Option<Time>,
    /// Its process has ended.
    pub(super) exited: bool,
    /// Its process has ended, but somebody still holds its input, and may read.
    pub(super) orphaned: bool,
    /// Frames sent to it so far.
    pub(super) frames: u64,
    /// Frames it took, as far as its end tells.
    pub(super) taken: u64,
    pub(super) own: FxHashMap<Id, Own>,
    next_name: u64,
    /// Requests that had to be given another id on this link: that id → the host's.
    pub(super) aliases: FxHashMap<Id, Id>,
    /// Ids, on this link, of requests that were cancelled or have expired.
    pub(super) tombstones: RecentSet<Id>,
    /// The server's requests by the id the host knows them by.
    pub(super) asks: FxHashMap<Id, Ask>,
    /// The host was told that somebody has to log in.
    pub(super) login: Option<LoginAsk>,
    /// Somebody has to log in; which login it is.
    pub(super) login_wanted: Option<LoginWanted>,
    /// Listen requests that were sent again; their acknowledgement is not news to the host.
    pub(super) reissued: FxHashSet<Id>,
    /// Notifications of ours that the host has already been sent about this link.
    pub(super) told: FxHashSet<&'static str>,
    /// Requests of the host, by its ids, that were certainly not executed.
    pub(super) rejected: FxHashSet<Id>,
    /// Those of them that were refused as if the session were forgotten, while it is asked; with which status.
    pub(super) doubted: FxHashMap<Id, u16>,
    pub(super) check: Option<SessionCheck>,
    /// It ends because of a request that may ask for a new session.
    pub(super) disowned: bool,
    /// A request was refused for its credentials (401, 403), and none that was sent from this frame on has had a
    /// result.
    pub(super) forbidden: Option<u64>,
    /// The server wants to be left alone until then.
    pub(super) busy_until: Option<Time>,
    /// Pages of lists we have asked for.
    pub(super) pages: u32,
    pub(super) liveness: Liveness,
    pub(super) stderr: Tail,
    pub(super) slow_start_told: bool,
    /// It was asked something that may have changed its state.
    pub(super) worked: bool,
}

impl Link {
    pub(super) fn new(generation: Generation, now: Time, limits: &Limits) -> Link {
        Link {
            generation,
            stage: Stage::Making,
            ordered: now,
            served: None,
            exited: false,
            orphaned: false,
            frames: 0,
            taken: u64::MAX,
            own: FxHashMap::default(),
            next_name: 0,
            aliases: FxHashMap::default(),
            tombstones: RecentSet::new(limits.tombstones),
            asks: FxHashMap::default(),
            login: None,
            login_wanted: None,
            reissued: FxHashSet::default(),
            told: FxHashSet::default(),
            rejected: FxHashSet::default(),
            doubted: FxHashMap::default(),
            check: None,
            disowned: false,
            forbidden: None,
            busy_until: None,
            pages: 0,
            liveness: Liveness {
                heard: now,
                spoken: now,
                ..Liveness::default()
            },
            stderr: Tail::new(limits.stderr_lines, limits.stderr_bytes),
            slow_start_told: false,
            worked: false,
        }
    }

    /// A name no request on this link has: `outlive-<generation>-<n>`. The host may itself be an
    /// outlive, so a name is only ours if nobody uses it.
    pub(super) fn fresh_id(&mut self, taken: impl Fn(&Id) -> bool) -> Id {
        loop {
            self.next_name += 1;
            let id = Id::text(format!("outlive-{}-{}", self.generation, self.next_name));
            if !self.is_known(&id) && !taken(&id) {
                return id;
            }
        }
    }

    /// Whether the server could take a new request of this id for another one, or has answers to
    /// come for one. Once ids have been forgotten, that can be said of any.
    pub(super) fn is_busy(&self, id: &Id) -> bool {
        self.is_known(id) || self.tombstones.is_forgetful()
    }

    fn is_known(&self, id: &Id) -> bool {
        self.tombstones.contains(id)
            || (!self.own.is_empty() && self.own.contains_key(id))
            || (!self.aliases.is_empty() && self.aliases.contains_key(id))
    }

    /// Forgets that a request, by the host's id, was refused: it is over. Whether it was.
    pub(super) fn forget_rejected(&mut self, host_id: &Id) -> bool {
        if self.rejected.is_empty() {
            return false;
        }
        self.doubted.remove(host_id);
        self.rejected.remove(host_id)
    }

    /// What it wrote to its standard error shortly before its end, which is `now`. A banner of an hour ago says
    /// nothing about an end, and a server that somebody else ended has no part in it, unless it was just
    /// saying something.
    pub(super) fn last_words(&self, now: Time, reason: &Reason) -> Vec<String> {
        let served = self.served.unwrap_or_default();
        let since = match reason {
            // We ended it.
            Reason::Requested | Reason::Closing => return Vec::new(),
            // All it has written is about its start, and that is not why somebody else ended it.
            _ if self.served.is_none() && is_killed(reason) => return Vec::new(),
            Reason::Exited(_) if is_killed(reason) => now - JUST_BEFORE,
            Reason::Stopped => self.liveness.heard - JUST_BEFORE,
            // It has never been in service: all it wrote is about its start.
            _ if self.served.is_none() => Time::ZERO,
            Reason::Unresponsive(_) => self.liveness.heard - SHORTLY_BEFORE,
            _ => now - SHORTLY_BEFORE,
        };
        let words = self.stderr.since(since.max(served));
        match words.is_empty() && !is_killed(reason) {
            // It has not written a word since it was ready: perhaps the reason is older.
            true => self.stderr.since(since),
            false => words,
        }
    }

    /// The id the host knows this request of the server by.
    pub(super) fn ask_by_server_id(&self, server_id: &Id) -> Option<&Id> {
        self.asks
            .iter()
            .find(|(_, ask)| ask.server_id == *server_id)
            .map(|(id, _)| id)
    }

    /// Whether the handshake is over, or is the host's own.
    pub(super) fn handshake_done(&self) -> bool {
        matches!(self.stage, Stage::Open | Stage::Restoring { .. })
    }

    pub(super) fn is_open(&self) -> bool {
        self.stage == Stage::Open
    }

    /// Whether it is to be replaced, and still serves what is in flight on it.
    pub(super) fn is_retiring(&self) -> bool {
        matches!(self.stage, Stage::Retiring { .. })
    }

    /// What is kept of the last link while it is told to leave: all it takes to know which request an answer is for.
    pub(super) fn leaving(self, now: Time, limits: &Limits) -> Link {
        Link {
            stage: Stage::Leaving,
            aliases: self.aliases,
            tombstones: self.tombstones,
            ..Link::new(self.generation, now, limits)
        }
    }

    /// Whether it is the last one and is told to leave.
    pub(super) fn is_leaving(&self) -> bool {
        self.stage == Stage::Leaving
    }

    /// Whether it has been killed for being stopped: it has nothing to say any more.
    pub(super) fn is_being_killed(&self) -> bool {
        matches!(
            self.stage,
            Stage::Dying {
                reason: Reason::Stopped,
                ..
            }
        )
    }

    /// Whether it still takes messages that concern what is in flight on it.
    pub(super) fn is_alive(&self) -> bool {
        matches!(
            self.stage,
            Stage::Handshaking | Stage::Restoring { .. } | Stage::Open | Stage::Retiring { .. }
        )
    }
}

/// Whether somebody else ended it: what it wrote while it started has nothing to do with that.
fn is_killed(reason: &Reason) -> bool {
    match reason {
        Reason::Exited(exit) => exit.is_external(),
        reason => *reason == Reason::Stopped,
    }
}

/// What is left of a link: a process that has not ended yet.
#[derive(Clone, Debug)]
pub(super) struct StoppingProcess {
    pub(super) generation: Generation,
    pub(super) step: StopStep,
    pub(super) until: Time,
}

/// How far stopping a server has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum StopStep {
    /// Its input was closed.
    InputClosed,
    /// It was told to terminate.
    Terminated,
    /// It was killed.
    Killed,
}
