//! One router, its client or its modern clients, and its legs to servers.
//!
//! # Theory
//!
//! The rules are those of the [router](outlive_core::router). Here its outputs are carried out: legs are opened, used
//! and closed, and the client is told things through its replay buffer.
//!
//! ```text
//!  client's connections ─┐                        ┌─► LegacyClient ─► UpstreamSession ─┐
//!                        ├─► Strand ─► Router ────┤                                    │
//!  servers' drivers ─────┘                        └─► ReplayBuffer ─► client           │
//!                  ▲                                                                   │
//!                  └──────────────────────────── LegPort ◄─────────────────────────────┘
//! ```
//!
//! - **The order of locks has no router in it.** Connections go from the router to a session, drivers from a session to
//!   the router. So neither is locked while the other is called: whatever happens is put into a
//!   [strand](super::strand), and the work is done by whoever came first, with no lock held but that of the rules, and
//!   that one not while their outputs are carried out.
//! - **A leg has a number.** What an earlier leg of the same target still says is not heard.
//! - **A leg for which there is no room yet waits**, with what it is to say, and nobody waits for it. The leg of
//!   another router that nobody uses gives way to it.
//! - **There is a timer only while the rules want to be told the time.**

use std::collections::BTreeMap;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use std::time::Duration;

use outlive_core::error::{Error, Limit, Outcome};
use outlive_core::gateway::{NoServer, TargetId};
use outlive_core::policy::Retry;
use outlive_core::router::modern::ModernRouter;
use outlive_core::router::{self, Router};
use outlive_core::server::{Channel, RpcError};
use outlive_core::session_table::Principal;
use outlive_core::switch::{self, Client};
use outlive_core::{Frame, Message, Time};
use tokio::runtime::Handle;
use tokio::task::AbortHandle;
use tokio::time::{sleep_until, timeout};

use super::catalogue::{Catalogue, Edition};
use super::leg::{Heard, LegId, LegKind, LegPort};
use super::outlet::Outlet;
use super::route::LegacyClient;
use super::router_rules::{Happened, Order, Rules};
use super::strand::{Left, Strand};
use super::upstreams::Upstreams;
use super::way::Way;
use crate::http_server::{Arrival, Mirrored, ReplayBuffer, Room, Route, is_marked, of_schema};

/// A leg that waits for one that nobody uses looks for it this often.
const LOOK_AGAIN: Duration = Duration::from_millis(250);

/// Something for a router to deal with.
pub(super) enum Work {
    /// The client has sent this.
    Client(Channel, Frame),
    /// The client of a modern request has closed its channel.
    Left(Channel),
    /// The client is gone.
    Gone,
    /// The token was withdrawn that this channel was opened with; in a session, any of them.
    Withdrawn(Channel),
    /// A leg has heard something.
    Leg(LegId, Heard),
    /// A server for modern requests said this.
    Pooled(TargetId, Channel, Message),
    /// There is room for a leg that waited, or there is none.
    Admission(LegId, Result<(), RpcError>),
    /// Another client has no server of this target.
    GiveWay(TargetId),
    /// Servers offer something else.
    Edition(Edition),
    /// It is time.
    Tick,
    /// The gateway ends.
    Shutdown,
    /// All servers have ended, and none will be started.
    Over,
}

impl Work {
    fn size(&self) -> usize {
        match self {
            Work::Client(_, frame) => frame.message().map_or(0, |it| it.bytes().len()),
            _ => 0,
        }
    }
}

/// A leg, as the router's side has it.
struct Leg {
    id: LegId,
    port: Arc<LegPort>,
    client: Arc<LegacyClient>,
    /// What it is to say when there is room for it, if there is none yet.
    waiting: Option<Vec<(Channel, Message)>>,
}

impl Leg {
    /// Ends it: nothing is heard of it any more.
    fn end(&self, withdrawn: bool) {
        self.port.close();
        match withdrawn {
            true => self.client.withdraw(Channel::MAIN),
            false => self.client.end(),
        }
    }
}

#[derive(Default)]
struct Legs {
    by_target: BTreeMap<TargetId, Leg>,
    /// The number of the last one.
    numbers: u64,
}

/// Whom a router is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Whose {
    /// One legacy client.
    Session(Principal),
    /// Everybody whose requests speak for themselves.
    Requests,
}

/// One router and its client, or its clients.
pub(super) struct RouterSession {
    this: Weak<RouterSession>,
    upstreams: Arc<Upstreams>,
    catalogue: Arc<Catalogue>,
    view: usize,
    whose: Whose,
    /// Who it is to servers for modern requests.
    pooled: Client,
    /// The ways from these, once there are any.
    ports: Mutex<BTreeMap<TargetId, Outlet>>,
    /// What is sent to the client.
    replay: Arc<ReplayBuffer>,
    strand: Arc<Strand<Work>>,
    rules: Mutex<Rules>,
    legs: Mutex<Legs>,
    /// When the rules are told the time next, and who does it.
    timer: Mutex<Option<(Time, AbortHandle)>>,
    in_flight: AtomicUsize,
    withdrawn: AtomicBool,
    /// What the client has begun with, and so its legs do.
    opening: OnceLock<Message>,
    /// The gateways that the client has come through, as its first message says.
    way: OnceLock<Option<Way>>,
    /// Those that modern requests have come through, by their channels.
    ways: Mutex<BTreeMap<Channel, Way>>,
    /// Whoever has a gateway may end it from any thread.
    runtime: Handle,
}

impl RouterSession {
    /// A router for a client that is told things through this buffer. To be called inside the runtime.
    pub(super) fn new(
        upstreams: &Arc<Upstreams>,
        catalogue: &Arc<Catalogue>,
        view: usize,
        whose: Whose,
        replay: Arc<ReplayBuffer>,
    ) -> Arc<RouterSession> {
        let Edition { number, roster } = catalogue.edition(view);
        let policy = upstreams.router_policy.clone();
        let rules = match whose {
            Whose::Session(_) => Rules::of_session(Router::new(policy, roster), number),
            Whose::Requests => Rules::of_requests(ModernRouter::new(policy, roster), number),
        };
        let session = Arc::new_cyclic(|this| RouterSession {
            this: this.clone(),
            upstreams: upstreams.clone(),
            catalogue: catalogue.clone(),
            view,
            whose,
            pooled: upstreams.fresh_client(),
            ports: Mutex::default(),
            replay,
            strand: Arc::default(),
            rules: Mutex::new(rules),
            legs: Mutex::default(),
            timer: Mutex::default(),
            in_flight: AtomicUsize::new(0),
            withdrawn: AtomicBool::new(false),
            opening: OnceLock::new(),
            way: OnceLock::new(),
            ways: Mutex::default(),
            runtime: Handle::current(),
        });
        catalogue.register(session.this.clone());
        // It may have missed one meanwhile.
        session.take(catalogue.edition(view));
        if upstreams.is_over() {
            session.put(Work::Over);
        }
        session
    }

    pub(super) fn view(&self) -> usize {
        self.view
    }

    /// Requests that the client waits for.
    pub(super) fn in_flight(&self) -> usize {
        self.in_flight.load(Ordering::Acquire)
    }

    /// Servers offer this from now on.
    pub(super) fn take(&self, edition: Edition) {
        self.put(Work::Edition(edition));
    }

    /// Puts in something to be dealt with, and sees to it. No lock of a server or a client may be held.
    pub(super) fn put(&self, work: Work) {
        let size = work.size();
        self.strand.push(work, size);
        self.run();
    }

    /// Deals with whatever was put in, unless somebody else does. No lock of a server or a client may be held.
    pub(super) fn run(&self) {
        let outside = Handle::try_current().is_err();
        let _inside = outside.then(|| self.runtime.enter());
        let left = self.strand.run(|work| self.turn(work));
        self.go_on(left);
    }

    /// Wakes whoever has something to read. If there is more to do, another task does it: this thread has its own work.
    fn go_on(&self, left: Left) {
        if left == Left::Others {
            return;
        }
        self.replay.flush();
        if left == Left::More
            && let Some(this) = self.this.upgrade()
        {
            tokio::spawn(async move {
                let left = this.strand.resume(|work| this.turn(work));
                this.go_on(left);
            });
        }
    }

    fn rules(&self) -> MutexGuard<'_, Rules> {
        self.rules.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn legs(&self) -> MutexGuard<'_, Legs> {
        self.legs.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Deals with one thing. There is one at a time.
    fn turn(&self, work: Work) {
        let mut next = self.input(work);
        while let Some(input) = next.take() {
            let mut rules = self.rules();
            rules.handle(self.upstreams.now(), input);
            // Before anybody can have read an answer.
            let in_flight = rules.in_flight();
            self.in_flight.store(in_flight, Ordering::Release);
            drop(rules);
            loop {
                let order = self.rules().poll();
                let Some(order) = order else {
                    break;
                };
                next = self.carry_out(order).or(next);
            }
        }
        let deadline = self.rules().deadline();
        self.set_timer(deadline);
        if self.whose == Whose::Requests {
            // One that does not read is one that has left.
            for channel in self.replay.take_lost() {
                self.strand.push(Work::Left(channel), 0);
            }
        }
    }

    /// What something means to the rules, if anything.
    fn input(&self, work: Work) -> Option<Happened> {
        match work {
            Work::Client(channel, frame) => {
                if let Some(message) = frame.message().filter(|it| it.is("initialize")) {
                    let _ = self.opening.set(message.clone());
                }
                Some(Happened::Client(channel, frame))
            }
            Work::Left(channel) => {
                self.forget_way(channel);
                Some(Happened::Left(channel))
            }
            Work::Gone => Some(Happened::Gone),
            Work::Withdrawn(channel) => {
                self.forget_way(channel);
                Some(Happened::Withdrawn(channel))
            }
            Work::Leg(leg, Heard::Said(channel, message)) => self
                .is_current(leg)
                .then(|| Happened::Server(leg.target, channel, message)),
            Work::Leg(leg, Heard::Ended) => {
                self.remove(leg)?.end(false);
                Some(Happened::LegEnded(leg.target))
            }
            Work::Pooled(target, channel, message) => {
                Some(Happened::Pooled(target, channel, message))
            }
            Work::Admission(leg, Ok(())) => {
                self.admitted(leg);
                None
            }
            Work::Admission(leg, Err(why)) => {
                self.remove(leg)?.end(false);
                Some(Happened::Refused(leg.target, why))
            }
            Work::GiveWay(target) => Some(Happened::GiveWay(target)),
            Work::Edition(edition) => self.newer(edition),
            Work::Tick => Some(Happened::Tick),
            Work::Shutdown => Some(Happened::Shutdown),
            Work::Over => {
                self.replay.flush();
                self.replay.seal();
                None
            }
        }
    }

    /// Does what the rules say. Tells what follows for them.
    fn carry_out(&self, order: Order) -> Option<Happened> {
        match order {
            Order::Open(target) => return self.open(target),
            Order::Close(target) => {
                let leg = self.legs().by_target.remove(&target);
                if let Some(leg) = leg {
                    leg.end(self.withdrawn.load(Ordering::Acquire));
                }
            }
            Order::Hear(target, channel, message) => self.hear_leg(target, channel, message),
            Order::Request(target, channel, message) => self.request(target, channel, message),
            Order::Leave(target, channel) => {
                for upstream in self.upstreams.pooled(target) {
                    upstream.left(self.pooled, channel);
                }
            }
            Order::Send(channel, message) => self.replay.send(channel, message),
            Order::Offer(channel, message) => {
                let heard = self.replay.is_read(Channel::MAIN);
                let channel = if heard { Channel::MAIN } else { channel };
                self.replay.send(channel, message);
            }
            Order::Done(channel) => {
                self.forget_way(channel);
                self.replay.done(channel);
            }
            Order::Learned(target, offer) => {
                self.catalogue.learn(target, *offer);
                // At once: whatever waits for it is next.
                return self.newer(self.catalogue.edition(self.view));
            }
        }
        None
    }

    fn newer(&self, edition: Edition) -> Option<Happened> {
        let mut rules = self.rules();
        if edition.number <= rules.edition {
            return None;
        }
        rules.edition = edition.number;
        Some(Happened::Roster(edition.roster))
    }

    fn is_current(&self, leg: LegId) -> bool {
        let legs = self.legs();
        legs.by_target
            .get(&leg.target)
            .is_some_and(|it| it.id == leg)
    }

    /// Takes a leg out, if it is still the one of its target.
    fn remove(&self, leg: LegId) -> Option<Leg> {
        let mut legs = self.legs();
        legs.by_target.get(&leg.target).filter(|it| it.id == leg)?;
        legs.by_target.remove(&leg.target)
    }

    /// Opens a leg. Tells why that cannot be done.
    fn open(&self, target: TargetId) -> Option<Happened> {
        let mut legs = self.legs();
        legs.numbers += 1;
        let number = legs.numbers;
        drop(legs);
        let id = LegId { target, number };
        let port = self.port(LegKind::Session(id));
        let principal = match self.whose {
            Whose::Session(principal) => principal,
            Whose::Requests => Principal::Anyone,
        };
        let client = LegacyClient::new(
            self.upstreams.clone(),
            target,
            principal,
            self.opening.get(),
            Outlet::Leg(port.clone()),
            self.way.get().cloned().flatten(),
        );
        let client = Arc::new(client);
        let waiting = match client.room() {
            Room::Free => None,
            Room::Soon(_) | Room::GiveWay => Some(Vec::new()),
            Room::Full => return Some(Happened::Refused(target, self.full(target))),
            Room::Removed => return Some(Happened::Refused(target, removed())),
            Room::ShuttingDown => return Some(Happened::Refused(target, shutting_down())),
        };
        if waiting.is_some() {
            let (this, client) = (self.this.clone(), Arc::downgrade(&client));
            tokio::spawn(wait_for_room(this, self.upstreams.clone(), id, client));
        }
        let leg = Leg {
            id,
            port,
            client,
            waiting,
        };
        self.legs().by_target.insert(target, leg);
        None
    }

    fn port(&self, kind: LegKind) -> Arc<LegPort> {
        let (strand, router) = (self.strand.clone(), self.this.clone());
        Arc::new(LegPort::new(kind, strand, router, self.replay.clone()))
    }

    /// Hands a modern request to a server for such.
    fn request(&self, target: TargetId, channel: Channel, message: Message) {
        let way = self.way_of(channel);
        let upstream = match self.upstreams.request(target, way.as_ref()) {
            Ok(upstream) => upstream,
            Err(why) => {
                let error = match why {
                    NoServer::Removed => router::removed(&message, &self.name_of(target)),
                    NoServer::Full => switch::overloaded(&message),
                    _ => switch::shutting_down(&message),
                };
                if let Some(error) = error {
                    self.strand.push(Work::Pooled(target, channel, error), 0);
                }
                return;
            }
        };
        let ports = self.ports.lock();
        let mut ports = ports.unwrap_or_else(PoisonError::into_inner);
        let outlet = ports
            .entry(target)
            .or_insert_with(|| Outlet::Leg(self.port(LegKind::Pooled(target))))
            .clone();
        drop(ports);
        upstream.join_pool(self.pooled, &outlet);
        upstream.hear_expected(self.pooled, channel, Frame::Message(message));
    }

    fn ways(&self) -> MutexGuard<'_, BTreeMap<Channel, Way>> {
        self.ways.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The gateways that whoever asks on this channel has come through. What the rules ask for themselves has come
    /// through none.
    fn way_of(&self, channel: Channel) -> Option<Way> {
        match self.whose {
            Whose::Session(_) => self.way.get().cloned().flatten(),
            Whose::Requests => self.ways().get(&channel).cloned(),
        }
    }

    fn forget_way(&self, channel: Channel) {
        if self.whose == Whose::Requests {
            self.ways().remove(&channel);
        }
    }

    /// There is room for a leg that waited.
    fn admitted(&self, leg: LegId) {
        let mut legs = self.legs();
        let found = legs.by_target.get_mut(&leg.target);
        let Some(found) = found.filter(|it| it.id == leg) else {
            return;
        };
        let (client, waiting) = (found.client.clone(), found.waiting.take());
        drop(legs);
        for (channel, message) in waiting.into_iter().flatten() {
            client.say(channel, Frame::Message(message));
        }
    }

    /// Has the leg of another router give way, if there is one that nobody uses.
    fn make_room(&self, target: TargetId) {
        let others = self.catalogue.routers();
        let others = others.iter().filter(|it| !std::ptr::eq(&***it, self));
        let legs = others.map(|it| (it, it.rules().spare(target)));
        if let Some(router) = router::gives_way(self.upstreams.now(), legs) {
            router.put(Work::GiveWay(target));
        }
    }

    fn hear_leg(&self, target: TargetId, channel: Channel, message: Message) {
        let mut legs = self.legs();
        let Some(leg) = legs.by_target.get_mut(&target) else {
            return;
        };
        if let Some(waiting) = &mut leg.waiting {
            return waiting.push((channel, message));
        }
        let client = leg.client.clone();
        drop(legs);
        client.say(channel, Frame::Message(message));
    }

    /// The name of a server, for sentences.
    fn name_of(&self, target: TargetId) -> String {
        let target = self.upstreams.target(target);
        target.map_or("?".into(), |target| target.name.clone())
    }

    /// Why there is no room for a leg.
    fn full(&self, target: TargetId) -> RpcError {
        let target = self.upstreams.target(target);
        let most = target.map_or(0, |target| target.limits.servers);
        let sentence = format!(
            "There are {most} servers of it, as many as there may be, and none of them is free. Nothing was executed. Try \
             again later. Whoever runs this gateway can raise `max_servers`, or let sessions `share` one."
        );
        let limit = Limit::calls(most);
        refusal(&Error::Overloaded { limit }, sentence)
    }

    /// Has the rules told the time when they want to be.
    fn set_timer(&self, deadline: Option<Time>) {
        let timer = self.timer.lock();
        let mut timer = timer.unwrap_or_else(PoisonError::into_inner);
        let stands = match (&*timer, deadline) {
            (None, None) => true,
            // One that rings too early is set again then.
            (Some((set, _)), Some(at)) => *set <= at,
            _ => false,
        };
        if stands {
            return;
        }
        if let Some((_, old)) = timer.take() {
            old.abort();
        }
        if let Some(at) = deadline {
            let (this, due) = (self.this.clone(), self.upstreams.clock + at.since_start());
            let ringing = tokio::spawn(async move {
                sleep_until(due.into()).await;
                if let Some(this) = this.upgrade() {
                    this.ring();
                }
            });
            *timer = Some((at, ringing.abort_handle()));
        }
    }

    fn ring(&self) {
        let timer = self.timer.lock();
        drop(timer.unwrap_or_else(PoisonError::into_inner).take());
        self.put(Work::Tick);
    }
}

impl Route for RouterSession {
    fn room(&self) -> Room {
        match self.upstreams.is_shutting_down() {
            true => Room::ShuttingDown,
            false => Room::Free,
        }
    }

    fn hear(&self, channel: Channel, frame: Frame, arrival: &Arc<Arrival>) -> bool {
        if self.replay.is_sealed() {
            return true;
        }
        match self.whose {
            Whose::Session(_) => drop(self.way.get_or_init(|| Way::of(&arrival.parts.headers))),
            Whose::Requests => {
                if let Some(way) = Way::of(&arrival.parts.headers) {
                    self.ways().insert(channel, way);
                }
            }
        }
        self.put(Work::Client(channel, frame));
        self.replay.is_done(channel)
    }

    /// A lost connection means nothing: the client may come back.
    fn left(&self, channel: Channel) {
        if self.whose == Whose::Requests {
            self.put(Work::Left(channel));
        }
    }

    fn withdraw(&self, channel: Channel) {
        match self.whose {
            Whose::Requests => {
                self.replay.withdraw(Some(channel));
                self.put(Work::Withdrawn(channel));
            }
            Whose::Session(_) if !self.withdrawn.swap(true, Ordering::AcqRel) => {
                self.replay.withdraw(None);
                self.put(Work::Withdrawn(channel));
                self.put(Work::Over);
            }
            Whose::Session(_) => {}
        }
    }

    fn mirrored(&self, call: &Message) -> Vec<Mirrored> {
        let roster = self.catalogue.edition(self.view).roster;
        let found = call.name().and_then(|name| roster.tool(&name));
        let Some(tool) = found.filter(|it| is_marked(it.item.json())) else {
            return Vec::new();
        };
        let tool: serde_json::Value = serde_json::from_slice(tool.item.json()).unwrap_or_default();
        of_schema(&tool["inputSchema"])
    }

    /// That of the most careful target.
    fn retry(&self) -> Retry {
        let layout = self.upstreams.layout();
        let targets = layout.targets.iter();
        let care = |retry: &Retry| match retry {
            Retry::Never => 0,
            Retry::Safe => 1,
            Retry::Always => 2,
        };
        let retries = targets.map(|(_, target)| target.policy.retry);
        retries.min_by_key(care).unwrap_or(Retry::Safe)
    }

    fn is_busy(&self) -> bool {
        self.in_flight() > 0
    }

    fn servers(&self) -> Vec<u64> {
        let legs = self.legs();
        let clients: Vec<_> = legs
            .by_target
            .values()
            .map(|it| it.client.clone())
            .collect();
        drop(legs);
        clients.iter().flat_map(|client| client.servers()).collect()
    }

    fn end(&self) {
        if let Whose::Session(_) = self.whose {
            self.put(Work::Gone);
            self.replay.seal();
        }
    }

    /// It has been told that there is nothing to see any more, and has answered what was in flight.
    fn retire(&self) {
        self.put(Work::Shutdown);
        self.put(Work::Gone);
        self.put(Work::Over);
    }

    /// The gateway tells servers, and routers when all of those have ended.
    fn shutdown(&self) {
        if self.whose == Whose::Requests {
            self.upstreams.shutdown();
        }
    }
}

/// However it came to its end: no leg is left behind.
impl Drop for RouterSession {
    fn drop(&mut self) {
        let legs = std::mem::take(&mut self.legs().by_target);
        for leg in legs.into_values() {
            leg.end(false);
        }
        let ports = self.ports.get_mut();
        let ports = std::mem::take(ports.unwrap_or_else(PoisonError::into_inner));
        for target in ports.into_keys() {
            for upstream in self.upstreams.pooled(target) {
                upstream.gone(self.pooled);
            }
        }
        let timer = self.timer.lock();
        if let Some((_, timer)) = timer.unwrap_or_else(PoisonError::into_inner).take() {
            timer.abort();
        }
    }
}

/// Waits until there is room for a leg, or until it is sure that there is none.
async fn wait_for_room(
    router: Weak<RouterSession>,
    upstreams: Arc<Upstreams>,
    id: LegId,
    client: Weak<LegacyClient>,
) {
    let bell = upstreams.room_bell();
    let target = upstreams.target(id.target);
    let most = target.map_or(Duration::ZERO, |target| target.limits.wait);
    let admitted = loop {
        let mut bell = pin!(bell.notified());
        // In this order: a change between the two is not missed.
        bell.as_mut().enable();
        let Some(room) = client.upgrade().map(|client| client.room()) else {
            return;
        };
        match room {
            Room::Free => break Ok(()),
            Room::Soon(most) => drop(timeout(most, bell).await),
            Room::GiveWay => {
                let Some(router) = router.upgrade() else {
                    return;
                };
                router.make_room(id.target);
                drop(router);
                drop(timeout(most.min(LOOK_AGAIN), bell).await);
            }
            Room::Full => break Err(None),
            Room::Removed => break Err(Some(removed())),
            Room::ShuttingDown => break Err(Some(shutting_down())),
        }
    };
    if let Some(router) = router.upgrade() {
        let admitted = admitted.map_err(|why| why.unwrap_or_else(|| router.full(id.target)));
        router.put(Work::Admission(id, admitted));
    }
}

fn removed() -> RpcError {
    let error = Error::ShuttingDown {
        outcome: Outcome::NotSent,
    };
    let sentence = "It was removed from the file of servers, or changed there. Nothing was executed. List again to see \
                    what there is.";
    refusal(&error, sentence.into())
}

fn shutting_down() -> RpcError {
    let outcome = Outcome::NotSent;
    let sentence =
        "The gateway is shutting down. Nothing was executed. Connect again when it is back.";
    refusal(&Error::ShuttingDown { outcome }, sentence.into())
}

/// An error of ours, for a request that was not sent.
fn refusal(error: &Error, sentence: String) -> RpcError {
    let about = serde_json::json!({ "outlive": {
        "kind": error.kind(),
        "outcome": error.outcome().as_str(),
        "retryable": error.is_retryable(),
    }});
    RpcError {
        code: error.code(),
        message: sentence.into(),
        data: Some(about.to_string().into()),
    }
}
