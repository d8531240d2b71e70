//! The session table of a listener: whose a session is, when it ends, and who gives way when there is no room.
//!
//! # Theory
//!
//! A client over HTTP is a series of requests that name a session. It may leave without a word, and then nothing but
//! time tells that it has. Each session may have a server to itself, which is a process, so there are two bounds: on
//! sessions, and on *places* for such servers. A place is taken before a session is opened and given back when its
//! server has ended, which is later than the end of the session. So the second bound also holds while servers are
//! being stopped.
//!
//! - A session belongs to the [principal](Principal) that opened it. To anybody else it does not exist.
//! - It ends when it was unused for [`ttl`](TableLimits::ttl). A client that has said nothing since the handshake may
//!   never have learned its id, and then cannot come back: it ends after [`confirm`](TableLimits::confirm).
//! - A newcomer that finds no room takes the place of the session that was unused longest, if that is longer than
//!   [`stale`](TableLimits::stale) ([`left`](TableLimits::left) if its client has closed its stream). Else it is refused.
//! - A newcomer whose place is still taken by a server that is being stopped waits for it, in turn, no longer than
//!   [`wait`](TableLimits::wait).
//!
//! The driver owns the sessions and tells what they are doing ([`Tracked`]); it calls [`SessionTable::take_ended`]
//! after everything that may end one, and ends those.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use rustc_hash::FxHashMap;

use crate::time::Time;

/// Who a request comes from, as far as credentials tell. Two requests with the same token have the same principal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Principal(pub u64);

impl Principal {
    /// Whoever comes, where no credentials are asked for.
    pub const ANYONE: Principal = Principal(0);
}

/// The bounds of a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TableLimits {
    /// Sessions at once.
    pub sessions: usize,
    /// Servers at once that belong to one session each, those that are being stopped included. `usize::MAX` if
    /// sessions have no servers to themselves.
    pub servers: usize,
    /// A session that was unused for this long ends.
    pub ttl: Duration,
    /// So does one whose client has said nothing since the handshake, after this time.
    pub confirm: Duration,
    /// A session that was unused for this long gives way to a newcomer.
    pub stale: Duration,
    /// So does one whose client has closed its stream, after this time.
    pub left: Duration,
    /// How long a newcomer waits for a place.
    pub wait: Duration,
}

impl Default for TableLimits {
    fn default() -> TableLimits {
        TableLimits {
            sessions: 4096,
            servers: usize::MAX,
            ttl: Duration::from_secs(30 * 60),
            confirm: Duration::from_secs(60),
            stale: Duration::from_secs(60),
            left: Duration::from_secs(10),
            wait: Duration::from_secs(10),
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

/// A newcomer that wants a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SessionKey(u64);

/// Whether a newcomer may come in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Admission {
    /// Yes: it has a place, and is to [open](SessionTable::open) a session.
    Admitted,
    /// A server is being stopped to make room. Ask again when something has changed, at this moment at the latest.
    Wait(Time),
    /// No. It is not in the queue any more.
    Full(Full),
}

/// What there is too much of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Full {
    /// There are as many sessions as there may be.
    Sessions,
    /// There are as many servers as there may be.
    Servers,
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
    /// Newcomers that wait, and since when.
    queue: VecDeque<(SessionKey, Time)>,
    /// Newcomers that were admitted and have not opened a session.
    admitted: usize,
    /// Places that are taken, those of sessions that have ended included.
    taken: usize,
    tickets: u64,
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
            queue: VecDeque::new(),
            admitted: 0,
            taken: 0,
            tickets: 0,
            ended: Vec::new(),
        }
    }

    /// Its bounds.
    pub fn limits(&self) -> &TableLimits {
        &self.limits
    }

    /// Somebody wants a session. Next it [asks](SessionTable::admit) whether it may have one.
    pub fn arrive(&mut self, now: Time) -> SessionKey {
        self.tickets += 1;
        let ticket = SessionKey(self.tickets);
        self.queue.push_back((ticket, now));
        ticket
    }

    /// Whether a newcomer may come in. May end a session that gives way to it.
    pub fn admit(&mut self, ticket: SessionKey, now: Time) -> Admission {
        let Some(at) = self.queue.iter().position(|(known, _)| *known == ticket) else {
            return Admission::Full(Full::Sessions);
        };
        let until = self.queue[at].1 + self.limits.wait;
        loop {
            let room = self.free_sessions().min(self.free_places());
            if at < room {
                self.queue.remove(at);
                self.admitted += 1;
                self.taken += 1;
                return Admission::Admitted;
            }
            // Places that become free without anybody's giving way.
            let to_come = self.free_places().saturating_add(self.ending());
            let full = match at < self.free_sessions() {
                true => Full::Servers,
                false => Full::Sessions,
            };
            if full == Full::Servers && at < to_come && now < until {
                return Admission::Wait(until);
            }
            if now >= until || !self.give_way(now) {
                self.queue.remove(at);
                return Admission::Full(full);
            }
        }
    }

    /// A client goes where a server waits for it that has a place already: it needs room for a session, but no place.
    /// It counts as one that was [admitted](Admission::Admitted), and as one place too many until its own is
    /// [given back](SessionTable::release).
    pub fn admit_to_kept(&mut self, ticket: SessionKey, now: Time) -> Admission {
        let Some(at) = self.queue.iter().position(|(known, _)| *known == ticket) else {
            return Admission::Full(Full::Sessions);
        };
        self.queue.remove(at);
        if self.free_sessions() == 0 && !self.give_way(now) {
            return Admission::Full(Full::Sessions);
        }
        self.admitted += 1;
        self.taken += 1;
        Admission::Admitted
    }

    /// A newcomer is gone before it was admitted.
    pub fn depart(&mut self, ticket: SessionKey) {
        self.queue.retain(|(known, _)| *known != ticket);
    }

    /// A newcomer that was admitted opens its session.
    pub fn open(&mut self, id: String, principal: Principal, session: S, now: Time) {
        self.admitted = self.admitted.saturating_sub(1);
        let entry = Entry {
            principal,
            session,
            used: now,
        };
        if let Some(old) = self.sessions.insert(id, entry) {
            self.ended.push(old.session);
        }
    }

    /// A newcomer that was admitted opens none. Its place is given back separately.
    pub fn decline(&mut self) {
        self.admitted = self.admitted.saturating_sub(1);
    }

    /// A place is free again: the server that had it has ended, or was never started.
    pub fn release(&mut self) {
        self.taken = self.taken.saturating_sub(1);
    }

    /// The session of this id, if it is this principal's.
    pub fn find(&self, id: &str, principal: Principal) -> Option<&S> {
        let entry = self.sessions.get(id);
        let entry = entry.filter(|entry| entry.principal == principal);
        entry.map(|entry| &entry.session)
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

    /// Places that are taken.
    pub fn taken(&self) -> usize {
        self.taken
    }

    /// Newcomers that wait.
    pub fn waiting(&self) -> usize {
        self.queue.len()
    }

    fn free_sessions(&self) -> usize {
        let sessions = self.sessions.len() + self.admitted;
        self.limits.sessions.saturating_sub(sessions)
    }

    fn free_places(&self) -> usize {
        self.limits.servers.saturating_sub(self.taken)
    }

    /// Places of sessions that have ended, which become free when their servers have.
    fn ending(&self) -> usize {
        let theirs = self.sessions.len() + self.admitted;
        self.taken.saturating_sub(theirs)
    }

    /// Ends the session that was unused longest, if that is long enough.
    fn give_way(&mut self, now: Time) -> bool {
        let limits = self.limits;
        let unused = self.sessions.iter_mut().filter_map(|(id, entry)| {
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
