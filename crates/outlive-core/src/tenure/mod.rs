//! Who owns a session, until when, and with which fence.
//!
//! # Theory
//!
//! Several processes may answer the requests of a session, one at a time. What decides which one is a store that all of
//! them reach, sometimes slowly and sometimes not at all; and a process may stand still for as long as it likes without
//! noticing. Three rules make that safe:
//!
//! - **A lease is counted by its owner, from the moment it asked** ([`Lease`]). The store counts it from the moment it
//!   heard the question, which is later, and counts [longer](LeasePolicy::margin). So an owner knows that its lease is
//!   over before the store does, whatever became of the answer, as long as their clocks run at about the same rate.
//!   The clock must go on while the machine sleeps.
//! - **An owner whose lease is over is over.** It never acts again under that name: whoever it was may have a
//!   successor. The process begins anew as another [`Owner`].
//! - **Every claim has a fence** ([`Tenancy::claim`]), higher than all before. A write names its owner and fence
//!   ([`Tenancy::admit`]), so what an earlier owner had on its way changes nothing. It also has a number, so what its
//!   own owner had given up and made again changes nothing either.
//!
//! An owner has one lease for all of its sessions: renewing it costs the same however many there are. The claims and
//! the [table of leases](LeaseTable) are the store's side; a store that is one process's alone needs no leases.
//!
//! A request that reaches somebody else than the owner is [forwarded](Forward) to it, once, and what was forwarded is
//! [not heard twice](Nonces).
//!
//! What no rule can mend: a store that forgets what it had acknowledged, as one does that fails over to a copy that was
//! behind. Then two owners may act for a session until the one that was forgotten writes or renews, and is refused.

mod forward;
mod lease;
mod nonces;

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use crate::time::Time;

pub use forward::{Forward, ForwardOrder, ForwardPolicy, Found, NotForwarded, Sent};
pub use lease::{Lease, LeaseOrder, LeasePolicy, Renewal};
pub use nonces::{FRESH, Nonces, WINDOW};

/// One run of one process that answers for sessions. No two runs have the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Owner(pub u64);

impl fmt::Display for Owner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

/// How many owners a session has had. What names an earlier one is refused.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Fence(pub u64);

/// An owner's right to act for one session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tenure {
    /// Who has it.
    pub owner: Owner,
    /// Which of the session's owners that is.
    pub fence: Fence,
}

/// Whose a session is, as its store knows it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tenancy {
    /// Its owner, unless that has released it.
    pub owner: Option<Owner>,
    /// The highest fence there has been.
    pub fence: Fence,
    /// The number of the owner's last write.
    pub written: u64,
}

/// What becomes of a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Admission {
    /// It is to be carried out.
    New,
    /// It has been, or a later one has: there is nothing to do.
    Known,
    /// Its owner is not the newest.
    Fenced,
}

/// What becomes of a claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Claim {
    /// The session is the claimant's.
    Granted(Tenure),
    /// It is somebody else's, who lives.
    Held(Owner),
}

impl Tenancy {
    /// A session that begins with this owner.
    pub fn begun(by: Owner) -> (Tenancy, Tenure) {
        let tenure = Tenure {
            owner: by,
            fence: Fence(1),
        };
        let tenancy = Tenancy {
            owner: Some(by),
            fence: tenure.fence,
            written: 0,
        };
        (tenancy, tenure)
    }

    /// Somebody wants the session. It gets it if nobody has it, or if whoever has it does not live.
    ///
    /// The owner itself gets it too, with a higher fence: it may not have heard that it was granted.
    pub fn claim(&mut self, by: Owner, lives: impl FnOnce(Owner) -> bool) -> Claim {
        if let Some(owner) = self.owner
            && owner != by
            && lives(owner)
        {
            return Claim::Held(owner);
        }
        self.owner = Some(by);
        self.fence.0 += 1;
        self.written = 0;
        Claim::Granted(Tenure {
            owner: by,
            fence: self.fence,
        })
    }

    /// Whether this is the newest owner, so that its writes count.
    pub fn admits(&self, tenure: Tenure) -> bool {
        self.owner == Some(tenure.owner) && self.fence == tenure.fence
    }

    /// An owner wants to write. It numbers its writes from 1 and makes one at a time; one that it has not heard of it
    /// makes again under the same number. So one that was late, and was made again meanwhile, changes nothing.
    pub fn admit(&mut self, tenure: Tenure, number: u64) -> Admission {
        if !self.admits(tenure) {
            return Admission::Fenced;
        }
        if number <= self.written {
            return Admission::Known;
        }
        self.written = number;
        Admission::New
    }

    /// The owner gives the session back: the next one need not wait. False if it is not the owner any more.
    pub fn release(&mut self, tenure: Tenure) -> bool {
        let admitted = self.admits(tenure);
        if admitted {
            self.owner = None;
        }
        admitted
    }
}

/// The leases that a store has granted, by the clock of the store.
#[derive(Clone, Debug, Default)]
pub struct LeaseTable {
    until: BTreeMap<Owner, Time>,
}

impl LeaseTable {
    /// An owner begins, or wants its lease to go on. False if it does not have one any more: it has taken too long, or
    /// was forgotten, and may have a successor.
    pub fn renew(&mut self, owner: Owner, begins: bool, length: Duration, now: Time) -> bool {
        let granted = begins || self.lives(owner, now);
        match granted {
            true => drop(self.until.insert(owner, now + length)),
            false => drop(self.until.remove(&owner)),
        }
        granted
    }

    /// Whether an owner has a lease.
    pub fn lives(&self, owner: Owner, now: Time) -> bool {
        self.until.get(&owner).is_some_and(|until| now < *until)
    }

    /// An owner gives its lease back.
    pub fn release(&mut self, owner: Owner) {
        self.until.remove(&owner);
    }

    /// Forgets the leases that are over.
    pub fn expire(&mut self, now: Time) {
        self.until.retain(|_, until| now < *until);
    }

    /// How many leases there are.
    pub fn len(&self) -> usize {
        self.until.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.until.is_empty()
    }
}
