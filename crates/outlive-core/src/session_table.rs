//! The session table of a listener: whose a session is, when it ends, and who gives way when there is no room.
//!
//! # Theory
//!
//! A client over HTTP is a series of requests that name a session. It may leave without a word, and then nothing but
//! time tells that it has. So the table is bounded, and what nobody uses leaves it. A session may have a server to
//! itself; how many of those there may be is a matter of the [gateway](crate::gateway), which asks the table who
//! [gives way](SessionTable::give_way).
//!
//! - A session belongs to the [principal](Principal) that opened it. To anybody else it does not exist.
//! - It ends when it was unused for [`ttl`](TableLimits::ttl). A client that has said nothing since the handshake may
//!   never have learned its id, and then cannot come back: it ends after [`confirm`](TableLimits::confirm).
//! - A newcomer that finds no room takes the place of the session that was unused longest, if that is longer than
//!   [`stale`](TableLimits::stale) ([`left`](TableLimits::left) if its client has closed its stream). Else it is
//!   refused.
//!
//! The driver owns the sessions and tells what they are doing ([`Tracked`]); it calls [`SessionTable::take_ended`]
//! after everything that may end one, and ends those.

use std::sync::Arc;
use std::time::Duration;

use rustc_hash::FxHashMap;

use crate::time::Time;

pub use crate::principal::Principal;

/// The bounds of a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TableLimits {
    /// Sessions at once.
    pub sessions: usize,
    /// A session that was unused for this long ends.
    pub ttl: Duration,
    /// A session ends if its client has said nothing for this long after the handshake.
    pub confirm: Duration,
    /// A session that was unused for this long gives way to a newcomer.
    pub stale: Duration,
    /// A session whose client has closed its stream gives way to a newcomer after this time.
    pub left: Duration,
}

impl Default for TableLimits {
    fn default() -> TableLimits {
        TableLimits {
            sessions: 4096,
            ttl: Duration::from_secs(30 * 60),
            confirm: Duration::from_secs(60),
            stale: Duration::from_secs(60),
            left: Duration::from_secs(10),
        }
    }
}

/// What a session is doing, as its driver sees it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Activity {
    /// Something is in flight, or a stream is open.
    pub in_use: bool,
    /// When it was last used, if it is not.
    pub last: Time,
    /// The client has sent something since the handshake, so it knows the session's id.
    pub confirmed: bool,
    /// The client has had a stream for notifications, and has closed it.
    pub left: bool,
    /// Nobody can use it any more.
    pub over: bool,
}

/// A session, as far as the table has to know it.
pub trait Tracked {
    /// What it is doing now.
    fn activity(&self) -> Activity;
}

impl<S: Tracked + ?Sized> Tracked for Arc<S> {
    fn activity(&self) -> Activity {
        (**self).activity()
    }
}

/// When a session ends if nothing happens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ends {
    /// Not while it is used.
    InUse,
    /// At this moment.
    At(Time),
}

/// All sessions of a listener. See the [module](self).
#[derive(Debug)]
pub struct SessionTable<S> {
    limits: TableLimits,
    sessions: FxHashMap<String, Entry<S>>,
    ended: Vec<S>,
}

#[derive(Debug)]
struct Entry<S> {
    principal: Principal,
    session: S,
    /// When it was last seen to be used.
    used: Time,
}

impl<S: Tracked> SessionTable<S> {
    /// An empty table.
    pub fn new(limits: TableLimits) -> SessionTable<S> {
        SessionTable {
            limits,
            sessions: FxHashMap::default(),
            ended: Vec::new(),
        }
    }

    /// Its bounds.
    pub fn limits(&self) -> &TableLimits {
        &self.limits
    }

    /// Ends the session that was unused longest, if that is long enough, among those that are of use to the newcomer
    /// it gives way to. False if there is none.
    pub fn give_way(&mut self, now: Time, is_of_use: impl Fn(&S) -> bool) -> bool {
        let limits = self.limits;
        let unused = self.sessions.iter_mut().filter_map(|(id, entry)| {
            if !is_of_use(&entry.session) {
                return None;
            }
            let activity = entry.session.activity();
            let unused = entry.unused(&activity, now);
            let enough = match activity.left || !activity.confirmed {
                true => limits.left.min(limits.stale),
                false => limits.stale,
            };
            (activity.over || unused >= enough).then(|| (unused, id.clone()))
        });
        let Some((_, id)) = unused.max() else {
            return false;
        };
        let session = self.end(&id);
        self.ended.extend(session);
        true
    }

    /// Whether there is room for one more. May end a session that gives way to it.
    pub fn make_room(&mut self, now: Time) -> bool {
        self.sessions.len() < self.limits.sessions || self.give_way(now, |_| true)
    }

    /// Opens a session. May end one that gives way to it; if there is no room, it is given back.
    pub fn open(
        &mut self,
        id: String,
        principal: Principal,
        session: S,
        now: Time,
    ) -> Result<(), S> {
        if !self.make_room(now) {
            return Err(session);
        }
        let entry = Entry {
            principal,
            session,
            used: now,
        };
        if let Some(old) = self.sessions.insert(id, entry) {
            self.ended.push(old.session);
        }
        Ok(())
    }

    /// The session of this id, if it is this principal's.
    pub fn find(&self, id: &str, principal: Principal) -> Option<&S> {
        let entry = self.sessions.get(id);
        let entry = entry.filter(|entry| entry.principal == principal);
        entry.map(|entry| &entry.session)
    }

    /// The session of this id, whoever's it is.
    pub fn session(&self, id: &str) -> Option<&S> {
        self.sessions.get(id).map(|entry| &entry.session)
    }

    /// Ends the session of this id; `None` if there is none.
    pub fn end(&mut self, id: &str) -> Option<S> {
        self.sessions.remove(id).map(|entry| entry.session)
    }

    /// Ends the sessions whose time has come. They are then [taken](SessionTable::take_ended).
    pub fn expire(&mut self, now: Time) {
        let limits = self.limits;
        self.end_if(|entry| {
            let activity = entry.session.activity();
            activity.over || entry.unused(&activity, now) > limits.lease(&activity)
        });
    }

    /// Ends the sessions of principals that are not good any more.
    pub fn withdraw(&mut self, is_good: impl Fn(Principal) -> bool) {
        self.end_if(|entry| !is_good(entry.principal));
    }

    /// The sessions that have ended since the last time, other than by [`SessionTable::end`].
    pub fn take_ended(&mut self) -> Vec<S> {
        std::mem::take(&mut self.ended)
    }

    /// All sessions, whose they are, when each was last used and when it ends.
    pub fn iter(&mut self, now: Time) -> impl Iterator<Item = (Principal, &S, Time, Ends)> {
        let limits = self.limits;
        self.sessions.values_mut().map(move |entry| {
            let activity = entry.session.activity();
            // Takes note of the last use.
            entry.unused(&activity, now);
            let ends = match activity.in_use {
                true => Ends::InUse,
                false => Ends::At(entry.used + limits.lease(&activity)),
            };
            (entry.principal, &entry.session, entry.used, ends)
        })
    }

    /// How many sessions there are.
    pub fn len(&self) -> usize {
        self.sessions.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.sessions.is_empty()
    }

    fn end_if(&mut self, mut is_over: impl FnMut(&mut Entry<S>) -> bool) {
        let over = self.sessions.extract_if(|_, entry| is_over(entry));
        self.ended.extend(over.map(|(_, entry)| entry.session));
    }
}

impl<S> Entry<S> {
    /// How long nobody has had a use for it.
    fn unused(&mut self, activity: &Activity, now: Time) -> Duration {
        self.used = match activity.in_use {
            true => now,
            false => self.used.max(activity.last).min(now),
        };
        now - self.used
    }
}

impl TableLimits {
    /// How long a session that does this may be unused.
    fn lease(&self, activity: &Activity) -> Duration {
        match activity.confirmed {
            true => self.ttl,
            false => self.ttl.min(self.confirm),
        }
    }
}
