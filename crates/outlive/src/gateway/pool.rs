//! What all clients of a gateway share: its servers, and when they are started and stopped.

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use bytes::Bytes;
use outlive_core::cause::StartFailure;
use outlive_core::policy::Policy;
use outlive_core::server::Channel;
use outlive_core::session_table::Principal;
use outlive_core::switch::{Client, Sharing};
use outlive_core::{Frame, Message, Meter};
use serde_json::Value;
use tokio::time::sleep;

use super::status::Status;
use super::upstream_session::{EVERYBODY, GatewayDownstream, Opening, UpstreamSession};
use super::{Target, Upstream, Watcher};
use crate::driver;
use crate::http_server::{Mirrored, Place, ReplayBuffer, is_marked, of_schema};
use crate::process::children::Children;
use crate::process::orphan_reaper::OrphanReaper;
use crate::process::os;

/// How often servers are looked at that may be of no use any more.
const GLANCE: Duration = Duration::from_secs(1);

/// A server that cannot serve modern requests is kept for as long as it is remembered that it cannot.
const LEGACY_FOR: Duration = Duration::from_secs(60);

/// A server whose client left before the handshake was over waits this long for it to come back.
const PATIENCE: Duration = Duration::from_secs(120);

/// How many of these there are at most.
const MOST_WAITING: usize = 64;

/// What is added to the time a server may take to end, for those who wait for its place.
const LEEWAY: Duration = Duration::from_secs(2);

/// Nobody waits longer for a place.
const LONGEST_WAIT: Duration = Duration::from_secs(30);

/// Tools with such arguments that are remembered.
const MOST_MIRRORED: usize = 4096;

/// What all clients share.
pub(crate) struct Pool {
    pub(super) target: Target,
    pub(super) policy: Policy,
    pub(super) share: bool,
    /// How many servers there may be that belong to one session each.
    pub(super) max_servers: usize,
    pub(super) idle_stop: Option<Duration>,
    pub(super) orphan_reaper: Option<OrphanReaper>,
    pub(super) watcher: Box<dyn Watcher>,
    /// What all sessions count.
    pub(super) meter: Arc<Meter>,
    pub(super) status: Status,
    /// Every server there is.
    pub(super) upstreams: Mutex<BTreeMap<u64, Arc<UpstreamSession>>>,
    /// The servers for modern requests; each is started when it is needed.
    pub(super) pool: Vec<Mutex<Option<Arc<UpstreamSession>>>>,
    /// The server for all legacy clients.
    pub(super) common: Mutex<Option<Arc<UpstreamSession>>>,
    /// Servers whose clients left before the handshake was over: with what it was begun, and when.
    pub(super) waiting: Mutex<Vec<(Opening, Arc<UpstreamSession>, Instant)>>,
    pub(super) modern: OnceLock<Arc<ReplayBuffer>>,
    /// Tools that have arguments which are repeated in headers, as far as lists of them went by.
    pub(super) mirrored: Mutex<HashMap<String, Vec<Mirrored>>>,
    pub(super) clients: AtomicU64,
    pub(super) numbers: AtomicU64,
    /// How often it was told to stop.
    pub(super) stops: AtomicU32,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Pool {
    pub(super) fn fresh_client(&self) -> Client {
        Client(self.clients.fetch_add(1, Ordering::Relaxed) + 1)
    }

    pub(super) fn is_stopping(&self) -> bool {
        self.stops.load(Ordering::Acquire) > 0
    }

    /// Modern requests are answered through this replay buffer. To be called inside the runtime.
    pub(super) fn serve_modern(self: &Arc<Pool>, replay: &Arc<ReplayBuffer>) {
        if self.modern.set(replay.clone()).is_err() {
            // A gateway is served once.
            replay.seal();
        }
        if self.is_stopping() {
            self.end_if_over();
        }
        tokio::spawn(keep_house(Arc::downgrade(self)));
    }

    /// Starts a server. It ends with its session.
    fn start(self: &Arc<Pool>, sharing: Sharing, place: Option<Place>) -> Arc<UpstreamSession> {
        let number = self.numbers.fetch_add(1, Ordering::Relaxed) + 1;
        let confirms = matches!(self.target, Target::Remote(_));
        let limits = &self.policy.limits;
        let upstream = Arc::new(UpstreamSession::new(
            number, sharing, limits, place, confirms,
        ));
        lock(&self.upstreams).insert(number, upstream.clone());
        // In this order: a stop between the two reaches it either way.
        upstream.stop(self.stops.load(Ordering::Acquire));
        let downstream = GatewayDownstream::new(upstream.clone(), self);
        self.target
            .drive(downstream, self.policy.clone(), self.orphan_reaper.clone());
        upstream
    }

    /// A legacy client has sent its first message: the server it is to use. Its place is taken if one is started.
    /// `None` if its place was for a server that was kept, and somebody else has that one.
    pub(super) fn receive(
        self: &Arc<Pool>,
        (client, principal, replay): (Client, Principal, &Arc<ReplayBuffer>),
        frame: &Frame,
        place: &mut Option<Place>,
    ) -> Option<Arc<UpstreamSession>> {
        if self.share {
            let mut common = lock(&self.common);
            let upstream = common.get_or_insert_with(|| self.start(Sharing::Shared, None));
            // While it is locked: it may be stopped when nobody is there.
            upstream.join(client, replay);
            return Some(upstream.clone());
        }
        let opening = frame.message().and_then(|it| opening(it, principal));
        let kept = opening.as_ref().and_then(|it| self.take_waiting(it));
        let upstream = match kept {
            Some(upstream) => upstream,
            None if place.as_ref().is_some_and(|place| place.for_kept) => return None,
            None => self.start(Sharing::Dedicated, place.take()),
        };
        if let Some(opening) = opening {
            upstream.begin_with(opening);
        }
        upstream.join(client, replay);
        Some(upstream)
    }

    /// How many servers there may be that belong to one session each, and how long one may take to end.
    pub(super) fn places(&self) -> Option<(usize, Duration)> {
        // What is elsewhere is no process of ours.
        let own = !self.share && matches!(self.target, Target::Command(..));
        let end = self.policy.stop_grace + self.policy.term_grace + LEEWAY;
        own.then_some((self.max_servers, end.min(LONGEST_WAIT)))
    }

    /// Whether a server is being started for a client like this one.
    pub(super) fn keeps(&self, first: &Message, principal: Principal) -> bool {
        let waiting = lock(&self.waiting);
        !waiting.is_empty()
            && opening(first, principal)
                .is_some_and(|opening| waiting.iter().any(|(known, ..)| *known == opening))
    }

    /// Stops the server that has waited longest for its client to come back.
    pub(super) fn make_room(&self) {
        let mut waiting = lock(&self.waiting);
        let longest = waiting.iter().enumerate().min_by_key(|(_, it)| it.2);
        let Some((at, _)) = longest else { return };
        let (_, upstream, _) = waiting.swap_remove(at);
        drop(waiting);
        upstream.stop(2);
    }

    /// A server that is being started for a client like this one.
    fn take_waiting(&self, opening: &Opening) -> Option<Arc<UpstreamSession>> {
        let mut waiting = lock(&self.waiting);
        let at = waiting.iter().position(|(known, ..)| known == opening)?;
        Some(waiting.swap_remove(at).1)
    }

    /// A legacy client is gone.
    pub(super) fn dismiss(&self, upstream: &Arc<UpstreamSession>, client: Client) {
        upstream.gone(client);
        if upstream.sharing != Sharing::Dedicated {
            return;
        }
        // A client with less patience than its server needs to start comes again, and again; if each
        // time the server were started anew, it would never be ready (FM-12).
        if let Some(opening) = upstream.opening().filter(|_| !self.is_stopping()) {
            let mut waiting = lock(&self.waiting);
            if waiting.len() < MOST_WAITING {
                waiting.push((opening, upstream.clone(), Instant::now()));
                return;
            }
        }
        // Nobody waits for the answer to a handshake, so there is nothing to finish.
        upstream.stop(if upstream.is_shaking_hands() { 2 } else { 1 });
    }

    /// A modern request: the server with the least to do gets it. False if there is none any more.
    pub(super) fn hear(
        self: &Arc<Pool>,
        replay: &Arc<ReplayBuffer>,
        channel: Channel,
        frame: Frame,
    ) -> bool {
        let load = |slot: &Mutex<Option<Arc<UpstreamSession>>>| {
            lock(slot).as_ref().map(|upstream| upstream.in_flight())
        };
        let slots = self.pool.iter();
        // One that is idle is better than one that is not started, and that is better than a busy one.
        let rank = |slot: &&Mutex<Option<Arc<UpstreamSession>>>| match load(slot) {
            Some(0) => 0,
            None => 1,
            Some(busy) => busy + 1,
        };
        let Some(slot) = slots.min_by_key(rank) else {
            return false;
        };
        let mut slot = lock(slot);
        let upstream = slot.get_or_insert_with(|| {
            let upstream = self.start(Sharing::Pooled, None);
            upstream.join(EVERYBODY, replay);
            upstream
        });
        // While it is locked: it may be stopped when it is not used.
        upstream.hear(EVERYBODY, channel, frame);
        true
    }

    /// A modern client closed its channel, or does not read it.
    pub(super) fn left(&self, channel: Channel) {
        for upstream in self.pool.iter().filter_map(|slot| lock(slot).clone()) {
            upstream.left(EVERYBODY, channel);
        }
    }

    /// The token was withdrawn that a modern client opened this channel with.
    pub(super) fn withdraw(&self, channel: Channel) {
        for upstream in self.pool.iter().filter_map(|slot| lock(slot).clone()) {
            upstream.withdraw(EVERYBODY, channel);
        }
    }

    /// Modern requests that are waited for.
    pub(super) fn in_flight(&self) -> usize {
        let upstreams = self.pool.iter().filter_map(|slot| lock(slot).clone());
        upstreams.map(|upstream| upstream.in_flight()).sum()
    }

    /// Ends everything: the first time gracefully, the second time at once.
    pub(super) fn shutdown(&self) {
        let time = self.stops.fetch_add(1, Ordering::AcqRel) + 1;
        let upstreams: Vec<Arc<UpstreamSession>> =
            lock(&self.upstreams).values().cloned().collect();
        for upstream in upstreams {
            upstream.stop(time);
        }
        self.end_if_over();
    }

    /// Puts new servers under all sessions.
    pub(super) fn restart(&self) {
        lock(&self.upstreams)
            .values()
            .for_each(|upstream| upstream.restart());
    }

    /// A server has ended.
    pub(super) fn ended(&self, upstream: &Arc<UpstreamSession>) {
        self.status.forget(upstream.number);
        lock(&self.upstreams).remove(&upstream.number);
        let is_it = |known: &mut Arc<UpstreamSession>| Arc::ptr_eq(known, upstream);
        for slot in self.pool.iter().chain([&self.common]) {
            lock(slot).take_if(is_it);
        }
        lock(&self.waiting).retain(|(_, known, _)| !Arc::ptr_eq(known, upstream));
        self.end_if_over();
    }

    /// Once it is told to stop and the last server has ended, nobody is answered any more.
    fn end_if_over(&self) {
        if self.is_stopping()
            && lock(&self.upstreams).is_empty()
            && let Some(modern) = self.modern.get()
        {
            modern.seal();
        }
    }

    /// The arguments of this call that are to be repeated in headers.
    pub(super) fn mirrored(&self, call: &Message) -> Vec<Mirrored> {
        let known = lock(&self.mirrored);
        if known.is_empty() {
            return Vec::new();
        }
        let name = call.name().unwrap_or_default();
        known.get(&*name).cloned().unwrap_or_default()
    }

    /// Learns from an answer that may be a list of tools.
    pub(super) fn learn(&self, answer: &Message) {
        let Some(result) = answer.result().filter(|result| is_marked(result)) else {
            return;
        };
        let result: Value = serde_json::from_slice(result).unwrap_or_default();
        let tools = result["tools"].as_array();
        let mut known = lock(&self.mirrored);
        for tool in tools.into_iter().flatten() {
            let found = of_schema(&tool["inputSchema"]);
            let name = tool["name"].as_str().unwrap_or_default();
            if found.is_empty() {
                known.remove(name);
            } else if known.len() < MOST_MIRRORED || known.contains_key(name) {
                known.insert(name.to_owned(), found);
            }
        }
    }

    /// Why no server could be started, as far as that can be told without starting one.
    pub(super) fn obstacle(&self) -> Option<StartFailure> {
        match &self.target {
            Target::Command(command, _) => os::obstacle(command),
            Target::Remote(_) => None,
        }
    }

    pub(super) fn upstreams(&self) -> Vec<Upstream> {
        let upstreams: Vec<Arc<UpstreamSession>> =
            lock(&self.upstreams).values().cloned().collect();
        let seen = |upstream: Arc<UpstreamSession>| Upstream {
            number: upstream.number,
            sharing: upstream.sharing,
            state: upstream.state(),
            in_flight: upstream.in_flight(),
            clients: upstream.clients(),
            client: upstream.client_name(),
            unused: upstream.unused(),
        };
        upstreams.into_iter().map(seen).collect()
    }

    /// Stops the servers nobody has a use for.
    fn tidy(&self) {
        let mut useless = Vec::new();
        for slot in self.pool.iter().chain([&self.common]) {
            let spent = |upstream: &mut Arc<UpstreamSession>| {
                let idle = upstream.idle();
                self.idle_stop.is_some_and(|after| idle >= after)
                    || upstream.is_legacy_only() && idle >= LEGACY_FOR
            };
            useless.extend(lock(slot).take_if(spent));
        }
        let over = |(_, upstream, since): &mut (Opening, Arc<UpstreamSession>, Instant)| {
            since.elapsed() >= PATIENCE && !upstream.is_shaking_hands() || self.is_stopping()
        };
        let waiting: Vec<_> = lock(&self.waiting).extract_if(.., over).collect();
        useless.extend(waiting.into_iter().map(|(_, upstream, _)| upstream));
        for upstream in useless {
            upstream.stop(1);
        }
    }

    fn glance(&self) -> Duration {
        let idle = self.idle_stop.unwrap_or(GLANCE);
        (idle / 4).clamp(Duration::from_millis(20), GLANCE)
    }
}

/// What a handshake is begun with, if this is one.
fn opening(message: &Message, principal: Principal) -> Option<Opening> {
    let params = message.params().unwrap_or_default();
    message.is("initialize").then(|| Opening {
        principal,
        params: Bytes::copy_from_slice(params),
    })
}

/// Stops what nobody has a use for, now and then, as long as the gateway lives.
async fn keep_house(pool: std::sync::Weak<Pool>) {
    while let Some(pool) = pool.upgrade() {
        pool.tidy();
        let glance = pool.glance();
        drop(pool);
        sleep(glance).await;
    }
}

impl Target {
    /// Runs a session until it ends.
    fn drive(
        &self,
        downstream: GatewayDownstream,
        policy: Policy,
        orphan_reaper: Option<OrphanReaper>,
    ) {
        let limit = policy.limits.message;
        let seed = crate::run::seed();
        match self {
            Target::Command(command, secrets) => {
                let made = Children::beside_others(command.clone(), secrets.clone(), limit);
                match made {
                    Ok(children) => {
                        let children = children.guarded(orphan_reaper);
                        tokio::spawn(driver::drive(downstream, children, policy, seed));
                    }
                    // Without a way to hear of their ends there are no children; the downstream says so when
                    // it is dropped, which is not done here: whoever starts a server holds locks.
                    Err(_) => drop(tokio::spawn(async move { drop(downstream) })),
                }
            }
            Target::Remote(remote) => {
                let sessions = crate::http_client::Sessions::new(remote.clone(), limit);
                tokio::spawn(driver::drive(downstream, sessions, policy, seed));
            }
        }
    }
}
