//! Legacy clients: who they are, and when they are forgotten.
//!
//! The rules are those of the [session table](outlive_core::session_table). Here are the sessions, the clock, and
//! who is told to end.

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use super::Route;
use super::durable::Durable;
use super::pages::ServerUse;
use super::replay_buffer::ReplayBuffer;
use super::token::{Identity, Tokens};
use super::user::Person;
use outlive_core::Time;
use outlive_core::server::Channel;
use outlive_core::session_table::{Activity, Ends, Principal, SessionTable, TableLimits, Tracked};

/// One legacy client.
pub(crate) struct ClientSession {
    pub(crate) id: String,
    /// The endpoint it was opened at. To the others it does not exist.
    pub(crate) endpoint: usize,
    pub(crate) replay: Arc<ReplayBuffer>,
    pub(crate) route: Arc<dyn Route>,
    /// What is kept of it elsewhere, if anything is.
    durable: OnceLock<Arc<Durable>>,
    /// Whose it is, if an identity provider has vouched for them. They keep their number for as long as it lasts.
    person: OnceLock<Arc<Person>>,
    /// Exchanges that are going on.
    exchanges: AtomicUsize,
    /// It is being left to another process: nothing begins in it any more.
    leaving: AtomicBool,
    /// When the last one ended, in nanoseconds on the clock of all sessions.
    used: AtomicU64,
    /// The client has used its id.
    confirmed: AtomicBool,
    clock: Clock,
}

impl ClientSession {
    /// The client has sent something in this session.
    pub(super) fn confirm(&self) {
        self.confirmed.store(true, Ordering::Release);
        self.touch();
    }

    /// Whose it is.
    pub(super) fn belongs_to(&self, identity: &Identity) {
        if let Some(user) = identity.user() {
            let _ = self.person.set(user.person.clone());
        }
    }

    /// It is kept elsewhere from now on.
    pub(super) fn keep(&self, durable: Arc<Durable>) {
        let _ = self.durable.set(durable);
    }

    /// What is kept of it elsewhere, if anything is.
    pub(super) fn durable(&self) -> Option<&Arc<Durable>> {
        self.durable.get()
    }

    /// Whether another process answers for it.
    fn is_lost(&self) -> bool {
        self.durable().is_some_and(|durable| durable.is_lost())
    }

    fn is_usable(&self) -> bool {
        let replay = &self.replay;
        !replay.is_sealed() && !replay.is_overrun() && !self.is_lost()
    }

    /// It has ended. One that has ended by itself, as all do when the process stops, is kept: the next process goes on
    /// with it.
    fn end(&self) {
        let ours = |durable: &&Arc<Durable>| !self.replay.is_sealed() && !durable.is_lost();
        if let Some(durable) = self.durable().filter(ours) {
            durable.end();
        }
        self.route.end();
    }

    /// Lets nothing begin in it any more, if nobody waits for anything in it, or if that no longer counts.
    pub(super) fn leave(&self, whatever: bool) -> bool {
        if !whatever && self.has_calls() {
            return false;
        }
        // In this order: an exchange says that it is there before it looks.
        self.leaving.store(true, Ordering::SeqCst);
        if !whatever && self.has_calls() {
            self.leaving.store(false, Ordering::SeqCst);
            return false;
        }
        true
    }

    /// Whether it is being left to another process.
    pub(super) fn is_leaving(&self) -> bool {
        self.leaving.load(Ordering::SeqCst)
    }

    /// Whether its client waits for an answer, or reads one.
    pub(super) fn has_calls(&self) -> bool {
        let exchanges = self.exchanges.load(Ordering::SeqCst) > 0;
        exchanges || self.route.is_busy() || self.replay.has_request_readers()
    }

    fn touch(&self) {
        self.used.store(self.clock.nanos(), Ordering::Release);
    }
}

impl Tracked for ClientSession {
    /// Work in flight and open streams are a use of a session (FM-40).
    fn activity(&self) -> Activity {
        let replay = &self.replay;
        let used = Duration::from_nanos(self.used.load(Ordering::Acquire));
        Activity {
            in_use: self.exchanges.load(Ordering::Acquire) > 0
                || replay.has_readers()
                || self.route.is_busy(),
            last: Time::after(used),
            confirmed: self.confirmed.load(Ordering::Acquire),
            left: replay.was_left(),
            over: replay.is_sealed() || replay.is_overrun() || self.is_lost(),
        }
    }
}

/// An exchange that goes on.
pub(crate) struct ExchangeGuard<'a>(&'a ClientSession);

impl ExchangeGuard<'_> {
    pub(crate) fn of(session: &ClientSession) -> ExchangeGuard<'_> {
        session.exchanges.fetch_add(1, Ordering::SeqCst);
        ExchangeGuard(session)
    }
}

impl Drop for ExchangeGuard<'_> {
    fn drop(&mut self) {
        self.0.touch();
        self.0.exchanges.fetch_sub(1, Ordering::AcqRel);
    }
}

/// The time since there have been sessions.
#[derive(Clone, Copy)]
struct Clock(Instant);

impl Clock {
    fn now(self) -> Time {
        Time::after(self.0.elapsed())
    }

    fn nanos(self) -> u64 {
        u64::try_from(self.0.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }
}

/// All legacy clients.
pub(crate) struct Sessions {
    table: Mutex<SessionTable<Arc<ClientSession>>>,
    clock: Clock,
}

impl Sessions {
    pub(crate) fn new(limits: TableLimits) -> Sessions {
        Sessions {
            table: Mutex::new(SessionTable::new(limits)),
            clock: Clock(Instant::now()),
        }
    }

    fn lock(&self) -> MutexGuard<'_, SessionTable<Arc<ClientSession>>> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Does something to the table; the sessions that it has ended are told.
    fn change<T>(
        &self,
        change: impl FnOnce(&mut SessionTable<Arc<ClientSession>>, Time) -> T,
    ) -> T {
        let (done, ended) = {
            let mut table = self.lock();
            let done = change(&mut table, self.clock.now());
            (done, table.take_ended())
        };
        for session in ended {
            session.end();
        }
        done
    }

    /// The session of this id, if it is this principal's and can still be used.
    pub(crate) fn get(&self, id: &str, principal: Principal) -> Option<Arc<ClientSession>> {
        let session = self.lock().find(id, principal).cloned();
        session.filter(|session| session.is_usable())
    }

    /// Whether the session of this id is here and can be used, whoever's it is.
    pub(crate) fn has(&self, id: &str) -> bool {
        let session = self.lock().session(id).cloned();
        session.is_some_and(|session| session.is_usable())
    }

    /// Whether there is room for one more session.
    pub(crate) fn make_room(&self) -> bool {
        self.change(|table, now| table.make_room(now))
    }

    /// Ends a session of this endpoint that nobody has used for long. False if there is none.
    pub(crate) fn give_way(&self, endpoint: usize) -> bool {
        let of_use = |session: &Arc<ClientSession>| session.endpoint == endpoint;
        self.change(|table, now| table.give_way(now, of_use))
    }

    /// Opens a session for a client that its route has admitted.
    pub(crate) fn open(
        &self,
        endpoint: usize,
        principal: Principal,
        replay: Arc<ReplayBuffer>,
        route: Arc<dyn Route>,
    ) -> Result<Arc<ClientSession>, Unopened> {
        let id = fresh_id().ok_or(Unopened::NoRandomness)?;
        self.adopt(&id, endpoint, principal, replay, route)
    }

    /// The same for a session that has an id.
    pub(crate) fn adopt(
        &self,
        id: &str,
        endpoint: usize,
        principal: Principal,
        replay: Arc<ReplayBuffer>,
        route: Arc<dyn Route>,
    ) -> Result<Arc<ClientSession>, Unopened> {
        let id = id.to_owned();
        let session = Arc::new(ClientSession {
            id: id.clone(),
            endpoint,
            replay,
            route,
            durable: OnceLock::new(),
            person: OnceLock::new(),
            exchanges: AtomicUsize::new(0),
            leaving: AtomicBool::new(false),
            used: AtomicU64::new(self.clock.nanos()),
            confirmed: AtomicBool::new(false),
            clock: self.clock,
        });
        let opened = self.change(|table, now| table.open(id, principal, session.clone(), now));
        opened.map_err(|_| Unopened::Full)?;
        Ok(session)
    }

    /// Ends a session.
    pub(crate) fn end(&self, id: &str) {
        let session = self.lock().end(id);
        if let Some(session) = session {
            session.end();
        }
    }

    /// Ends the sessions at endpoints that are no more. What is in flight may finish; to its client a session has
    /// ended.
    pub(crate) fn retire(&self, is_there: impl Fn(usize) -> bool) {
        let gone: Vec<Arc<ClientSession>> = {
            let mut table = self.lock();
            let all = table.iter(self.clock.now());
            let gone = all.filter(|(_, session, ..)| !is_there(session.endpoint));
            gone.map(|(_, session, ..)| session.clone()).collect()
        };
        for session in gone {
            session.route.retire();
        }
    }

    /// Ends the sessions nobody uses, and those whose one stream nobody reads.
    pub(crate) fn sweep(&self) {
        self.change(|table, now| table.expire(now));
    }

    /// Ends the sessions that were opened with tokens that are no longer good.
    pub(crate) fn withdraw(&self, tokens: &Tokens) {
        let ended = {
            let mut table = self.lock();
            let is_token = |principal| matches!(principal, Principal::Token(_));
            table.withdraw(|principal| !is_token(principal) || tokens.knows(principal));
            table.take_ended()
        };
        for session in ended {
            if let Some(durable) = session.durable() {
                durable.end();
            }
            session.route.withdraw(Channel::MAIN);
        }
    }

    /// Ends the sessions that are kept elsewhere, here but not there: this process may not act for them any more.
    pub(crate) fn stand_down(&self) {
        for session in self.all() {
            if let Some(durable) = session.durable() {
                durable.lose();
                session.route.end();
            }
        }
        self.sweep();
    }

    /// How often to look for those that are to end.
    pub(crate) fn sweep_interval(&self) -> Duration {
        let table = self.lock();
        let shortest = table.limits().ttl.min(table.limits().confirm);
        (shortest / 8).clamp(Duration::from_millis(50), Duration::from_secs(30))
    }

    pub(crate) fn count(&self) -> usize {
        self.lock().len()
    }

    /// How many sessions each principal has that has any.
    pub(super) fn count_by_principal(&self) -> BTreeMap<Principal, usize> {
        let mut counts = BTreeMap::new();
        for (principal, ..) in self.lock().iter(self.clock.now()) {
            *counts.entry(principal).or_default() += 1;
        }
        counts
    }

    pub(crate) fn all(&self) -> Vec<Arc<ClientSession>> {
        let mut table = self.lock();
        let all = table.iter(self.clock.now());
        all.map(|(_, session, ..)| session.clone()).collect()
    }

    /// Whose the servers are that one session has to itself, by their numbers.
    pub(super) fn server_uses(&self, tokens: Option<&Tokens>) -> HashMap<u64, ServerUse> {
        let now = self.clock.now();
        let mut table = self.lock();
        let server_uses = table
            .iter(now)
            .flat_map(|(principal, session, used, ends)| {
                let server_use = ServerUse {
                    token: tokens.and_then(|tokens| tokens.place(principal)),
                    user: session.person.get().map(|person| person.name.to_string()),
                    unused: now - used,
                    ends: match ends {
                        Ends::InUse => None,
                        Ends::At(at) => Some(at - now),
                    },
                };
                let servers = session.route.servers().into_iter();
                servers.map(move |server| (server, server_use.clone()))
            });
        server_uses.collect()
    }
}

/// Why a session was not opened.
pub(crate) enum Unopened {
    /// There are as many as there may be, and all of them are used.
    Full,
    /// There is no id that nobody can guess.
    NoRandomness,
}

/// Whether a session can have this id: what cannot be one of ours is not asked for in a store.
pub(super) fn is_id(id: &str) -> bool {
    id.len() == 32 && id.bytes().all(|it| matches!(it, b'0'..=b'9' | b'a'..=b'f'))
}

/// An id nobody can guess: 128 bits from the operating system, in visible letters.
fn fresh_id() -> Option<String> {
    let mut random = [0; 16];
    getrandom::fill(&mut random).ok()?;
    Some(random.iter().map(|byte| format!("{byte:02x}")).collect())
}
