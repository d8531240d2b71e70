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

use super::board::Board;
use super::hub::{Desk, EVERYBODY, Hub, Opening};
use super::{Target, Upstream, Use, Watcher};
use crate::children::Children;
use crate::driver;
use crate::process;
use crate::serve::{Mirrored, Mouth, Place, is_marked, of_schema};
use crate::warden::Warden;

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
pub(crate) struct Shared {
    pub(super) target: Target,
    pub(super) policy: Policy,
    pub(super) share: bool,
    /// How many servers there may be that belong to one session each.
    pub(super) max_servers: usize,
    pub(super) idle_stop: Option<Duration>,
    pub(super) warden: Option<Warden>,
    pub(super) watcher: Box<dyn Watcher>,
    /// What all sessions count.
    pub(super) meter: Arc<Meter>,
    pub(super) board: Board,
    /// Every server there is.
    pub(super) hubs: Mutex<BTreeMap<u64, Arc<Hub>>>,
    /// The servers for modern requests; each is started when it is needed.
    pub(super) pool: Vec<Mutex<Option<Arc<Hub>>>>,
    /// The server for all legacy clients.
    pub(super) common: Mutex<Option<Arc<Hub>>>,
    /// Servers whose clients left before the handshake was over: with what it was begun, and when.
    pub(super) waiting: Mutex<Vec<(Opening, Arc<Hub>, Instant)>>,
    pub(super) modern: OnceLock<Arc<Mouth>>,
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

impl Shared {
    pub(super) fn fresh_client(&self) -> Client {
        Client(self.clients.fetch_add(1, Ordering::Relaxed) + 1)
    }

    pub(super) fn is_stopping(&self) -> bool {
        self.stops.load(Ordering::Acquire) > 0
    }

    /// Modern requests are answered through this mouth. To be called inside the runtime.
    pub(super) fn serve_modern(self: &Arc<Shared>, mouth: &Arc<Mouth>) {
        if self.modern.set(mouth.clone()).is_err() {
            // A gateway is served once.
            mouth.seal();
        }
        if self.is_stopping() {
            self.end_if_over();
        }
        tokio::spawn(keep_house(Arc::downgrade(self)));
    }

    /// Starts a server. It ends with its session.
    fn start(self: &Arc<Shared>, sharing: Sharing, place: Option<Place>) -> Arc<Hub> {
        let number = self.numbers.fetch_add(1, Ordering::Relaxed) + 1;
        let confirms = matches!(self.target, Target::Remote(_));
        let limits = &self.policy.limits;
        let hub = Arc::new(Hub::new(number, sharing, limits, place, confirms));
        lock(&self.hubs).insert(number, hub.clone());
        // In this order: a stop between the two reaches it either way.
        hub.stop(self.stops.load(Ordering::Acquire));
        let desk = Desk::new(hub.clone(), self);
        self.target
            .drive(desk, self.policy.clone(), self.warden.clone());
        hub
    }

    /// A legacy client has sent its first message: the server it is to use. Its place is taken if one is started.
    /// `None` if its place was for a server that was kept, and somebody else has that one.
    pub(super) fn receive(
        self: &Arc<Shared>,
        (client, principal, mouth): (Client, Principal, &Arc<Mouth>),
        frame: &Frame,
        place: &mut Option<Place>,
    ) -> Option<Arc<Hub>> {
        if self.share {
            let mut common = lock(&self.common);
            let hub = common.get_or_insert_with(|| self.start(Sharing::Legacy, None));
            // While it is locked: it may be stopped when nobody is there.
            hub.join(client, mouth);
            return Some(hub.clone());
        }
        let line = match frame {
            Frame::Line(line) => Some(line),
            _ => None,
        };
        let opening = line.and_then(|line| opening(line, principal));
        let kept = opening.as_ref().and_then(|it| self.take_waiting(it));
        let hub = match kept {
            Some(hub) => hub,
            None if place.as_ref().is_some_and(|place| place.for_kept) => return None,
            None => self.start(Sharing::Alone, place.take()),
        };
        if let Some(opening) = opening {
            hub.begin_with(opening);
        }
        hub.join(client, mouth);
        Some(hub)
    }

    /// How many servers there may be that belong to one session each, and how long one may take to end.
    pub(super) fn places(&self) -> Option<(usize, Duration)> {
        // What is elsewhere is no process of ours.
        let own = !self.share && matches!(self.target, Target::Command(..));
        let end = self.policy.stop_grace + self.policy.term_grace + LEEWAY;
        own.then_some((self.max_servers, end.min(LONGEST_WAIT)))
    }

    /// Whether a server is being started for a client like this one.
    pub(super) fn keeps(&self, body: &Bytes, principal: Principal) -> bool {
        let waiting = lock(&self.waiting);
        !waiting.is_empty()
            && opening(body, principal)
                .is_some_and(|opening| waiting.iter().any(|(known, ..)| *known == opening))
    }

    /// Stops the server that has waited longest for its client to come back.
    pub(super) fn make_room(&self) {
        let mut waiting = lock(&self.waiting);
        let longest = waiting.iter().enumerate().min_by_key(|(_, it)| it.2);
        let Some((at, _)) = longest else { return };
        let (_, hub, _) = waiting.swap_remove(at);
        drop(waiting);
        hub.stop(2);
    }

    /// A server that is being started for a client like this one.
    fn take_waiting(&self, opening: &Opening) -> Option<Arc<Hub>> {
        let mut waiting = lock(&self.waiting);
        let at = waiting.iter().position(|(known, ..)| known == opening)?;
        Some(waiting.swap_remove(at).1)
    }

    /// A legacy client is gone.
    pub(super) fn dismiss(&self, hub: &Arc<Hub>, client: Client) {
        hub.gone(client);
        if hub.sharing != Sharing::Alone {
            return;
        }
        // A client with less patience than its server needs to start comes again, and again; if each
        // time the server were started anew, it would never be ready (FM-12).
        if let Some(opening) = hub.opening().filter(|_| !self.is_stopping()) {
            let mut waiting = lock(&self.waiting);
            if waiting.len() < MOST_WAITING {
                waiting.push((opening, hub.clone(), Instant::now()));
                return;
            }
        }
        // Nobody waits for the answer to a handshake, so there is nothing to finish.
        hub.stop(if hub.is_shaking_hands() { 2 } else { 1 });
    }

    /// A modern request: the server with the least to do gets it. False if there is none any more.
    pub(super) fn hear(
        self: &Arc<Shared>,
        mouth: &Arc<Mouth>,
        channel: Channel,
        frame: Frame,
    ) -> bool {
        let load = |slot: &Mutex<Option<Arc<Hub>>>| lock(slot).as_ref().map(|hub| hub.in_flight());
        let slots = self.pool.iter();
        // One that is idle is better than one that is not started, and that is better than a busy one.
        let rank = |slot: &&Mutex<Option<Arc<Hub>>>| match load(slot) {
            Some(0) => 0,
            None => 1,
            Some(busy) => busy + 1,
        };
        let Some(slot) = slots.min_by_key(rank) else {
            return false;
        };
        let mut slot = lock(slot);
        let hub = slot.get_or_insert_with(|| {
            let hub = self.start(Sharing::Modern, None);
            hub.join(EVERYBODY, mouth);
            hub
        });
        // While it is locked: it may be stopped when it is not used.
        hub.hear(EVERYBODY, channel, frame);
        true
    }

    /// A modern client closed its channel, or does not read it.
    pub(super) fn left(&self, channel: Channel) {
        for hub in self.pool.iter().filter_map(|slot| lock(slot).clone()) {
            hub.left(EVERYBODY, channel);
        }
    }

    /// The token was withdrawn that a modern client opened this channel with.
    pub(super) fn withdraw(&self, channel: Channel) {
        for hub in self.pool.iter().filter_map(|slot| lock(slot).clone()) {
            hub.withdraw(EVERYBODY, channel);
        }
    }

    /// Modern requests that are waited for.
    pub(super) fn in_flight(&self) -> usize {
        let hubs = self.pool.iter().filter_map(|slot| lock(slot).clone());
        hubs.map(|hub| hub.in_flight()).sum()
    }

    /// Ends everything: the first time gracefully, the second time at once.
    pub(super) fn shutdown(&self) {
        let time = self.stops.fetch_add(1, Ordering::AcqRel) + 1;
        let hubs: Vec<Arc<Hub>> = lock(&self.hubs).values().cloned().collect();
        for hub in hubs {
            hub.stop(time);
        }
        self.end_if_over();
    }

    /// Puts new servers under all sessions.
    pub(super) fn restart(&self) {
        lock(&self.hubs).values().for_each(|hub| hub.restart());
    }

    /// A server has ended.
    pub(super) fn ended(&self, hub: &Arc<Hub>) {
        self.board.forget(hub.number);
        lock(&self.hubs).remove(&hub.number);
        let is_it = |known: &mut Arc<Hub>| Arc::ptr_eq(known, hub);
        for slot in self.pool.iter().chain([&self.common]) {
            lock(slot).take_if(is_it);
        }
        lock(&self.waiting).retain(|(_, known, _)| !Arc::ptr_eq(known, hub));
        self.end_if_over();
    }

    /// Once it is told to stop and the last server has ended, nobody is answered any more.
    fn end_if_over(&self) {
        if self.is_stopping()
            && lock(&self.hubs).is_empty()
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
    pub(super) fn learn(&self, answer: &[u8]) {
        if !is_marked(answer) {
            return;
        }
        let answer: Value = serde_json::from_slice(answer).unwrap_or_default();
        let tools = answer["result"]["tools"].as_array();
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
            Target::Command(command, _) => process::obstacle(command),
            Target::Remote(_) => None,
        }
    }

    pub(super) fn upstreams(&self) -> Vec<Upstream> {
        let hubs: Vec<Arc<Hub>> = lock(&self.hubs).values().cloned().collect();
        let seen = |hub: Arc<Hub>| Upstream {
            number: hub.number,
            used_by: match hub.sharing {
                Sharing::Alone => Use::OneSession,
                Sharing::Legacy => Use::AllSessions,
                Sharing::Modern => Use::ModernRequests,
            },
            state: hub.state(),
            in_flight: hub.in_flight(),
            clients: hub.clients(),
            client: hub.client_name(),
            unused: hub.unused(),
        };
        hubs.into_iter().map(seen).collect()
    }

    /// Stops the servers nobody has a use for.
    fn tidy(&self) {
        let mut useless = Vec::new();
        for slot in self.pool.iter().chain([&self.common]) {
            let spent = |hub: &mut Arc<Hub>| {
                let idle = hub.idle();
                self.idle_stop.is_some_and(|after| idle >= after)
                    || hub.is_legacy_only() && idle >= LEGACY_FOR
            };
            useless.extend(lock(slot).take_if(spent));
        }
        let over = |(_, hub, since): &mut (Opening, Arc<Hub>, Instant)| {
            since.elapsed() >= PATIENCE && !hub.is_shaking_hands() || self.is_stopping()
        };
        let waiting: Vec<_> = lock(&self.waiting).extract_if(.., over).collect();
        useless.extend(waiting.into_iter().map(|(_, hub, _)| hub));
        for hub in useless {
            hub.stop(1);
        }
    }

    fn glance(&self) -> Duration {
        let idle = self.idle_stop.unwrap_or(GLANCE);
        (idle / 4).clamp(Duration::from_millis(20), GLANCE)
    }
}

/// What a handshake is begun with, if this is one.
fn opening(line: &Bytes, principal: Principal) -> Option<Opening> {
    let message = Message::read(line.clone()).ok()?;
    let params = message.params().unwrap_or_default();
    message.is("initialize").then(|| Opening {
        principal,
        params: Bytes::copy_from_slice(params),
    })
}

/// Stops what nobody has a use for, now and then, as long as the gateway lives.
async fn keep_house(shared: std::sync::Weak<Shared>) {
    while let Some(shared) = shared.upgrade() {
        shared.tidy();
        let glance = shared.glance();
        drop(shared);
        sleep(glance).await;
    }
}

impl Target {
    /// Runs a session until it ends.
    fn drive(&self, desk: Desk, policy: Policy, warden: Option<Warden>) {
        let limit = policy.limits.message;
        let seed = crate::run::seed();
        match self {
            Target::Command(command, secrets) => {
                let made = Children::beside_others(command.clone(), secrets.clone(), limit);
                match made {
                    Ok(children) => {
                        let children = children.guarded(warden);
                        tokio::spawn(driver::drive(desk, children, policy, seed));
                    }
                    // Without a way to hear of their ends there are no children; the desk says so when
                    // it is dropped, which is not done here: whoever starts a server holds locks.
                    Err(_) => drop(tokio::spawn(async move { drop(desk) })),
                }
            }
            Target::Remote(remote) => {
                let sessions = crate::http::Sessions::new(remote.clone(), limit);
                tokio::spawn(driver::drive(desk, sessions, policy, seed));
            }
        }
    }
}
