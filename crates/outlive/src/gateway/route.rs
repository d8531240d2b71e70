//! The routes of a gateway: who answers a client.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use bytes::Bytes;
use hyper::HeaderMap;
use outlive_core::gateway::{NoServer, Opening, TargetId};
use outlive_core::policy::Retry;
use outlive_core::router;
use outlive_core::server::Channel;
use outlive_core::session_table::Principal;
use outlive_core::switch::{self, Client, Sharing};
use outlive_core::{Frame, Message};
use tokio::sync::Notify;

use super::layout::Place;
use super::outlet::{Outlet, Woken};
use super::router_session::{RouterSession, Whose};
use super::upstream_session::{EVERYBODY, UpstreamSession};
use super::upstreams::Upstreams;
use super::way::Way;
use crate::http_server::{Arrival, Backend, Kind, Mirrored, Pages, ReplayBuffer, Room, Route};

/// A gateway as what stands behind an HTTP listener. Its endpoints are its targets; with a catalogue a router before
/// all of them comes first, and one for each view last.
pub(super) struct Routes(pub(super) Arc<Upstreams>);

impl Backend for Routes {
    /// A target without a name of its own is at the path itself; others are each at a path that begins with theirs.
    fn endpoints(&self, path: &str) -> Vec<(usize, String)> {
        let layout = self.0.layout();
        let endpoints = layout.endpoints.iter();
        endpoints
            .map(|it| (it.number, format!("{}{path}", it.before)))
            .collect()
    }

    fn edition(&self) -> u64 {
        self.0.edition.load(Ordering::Acquire)
    }

    fn endpoints_bell(&self) -> Arc<Notify> {
        self.0.layout_bell.clone()
    }

    fn open(&self, endpoint: usize, replay: Arc<ReplayBuffer>, kind: Kind<'_>) -> Arc<dyn Route> {
        let upstreams = self.0.clone();
        upstreams.keep_time();
        let target = match (upstreams.layout().place(endpoint), &upstreams.catalogue) {
            (Place::Target(target), _) => target,
            // There is a router only where there is a catalogue.
            (Place::Router, None) => TargetId(endpoint),
            (Place::Router, Some(catalogue)) => {
                let whose = match kind {
                    Kind::Session(principal, _) => Whose::Session(principal),
                    Kind::Shared => Whose::Requests,
                };
                return RouterSession::new(&upstreams, catalogue, endpoint, whose, replay);
            }
        };
        match kind {
            Kind::Shared => {
                upstreams.serve_modern(target, &replay);
                let known = upstreams.target(target);
                Arc::new(ModernClients {
                    name: known.map_or(String::new(), |it| it.name.clone()),
                    upstreams,
                    target,
                    replay,
                })
            }
            Kind::Session(principal, first) => {
                let outlet = Outlet::Buffer(replay);
                Arc::new(LegacyClient::new(
                    upstreams, target, principal, first, outlet, None,
                ))
            }
        }
    }

    fn is_own(&self, headers: &HeaderMap) -> bool {
        Way::is_circle(headers, &self.0.via)
    }

    fn room_bell(&self) -> Arc<Notify> {
        self.0.room_bell()
    }

    fn message_limit(&self) -> usize {
        let layout = self.0.layout();
        let targets = layout.targets.iter();
        let limits = targets.map(|(_, it)| it.policy.limits.message);
        limits.max().unwrap_or_default()
    }

    fn pages(&self) -> Option<&dyn Pages> {
        Some(&self.0)
    }
}

/// One legacy client, or one leg of a router.
pub(super) struct LegacyClient {
    upstreams: Arc<Upstreams>,
    target: TargetId,
    client: Client,
    principal: Principal,
    outlet: Outlet,
    /// The gateways it has come through, as its first message says.
    way: OnceLock<Option<Way>>,
    /// The server it uses, from its first message on.
    upstream: OnceLock<Arc<UpstreamSession>>,
    /// Held while it gets one.
    joining: Mutex<()>,
    /// Its token was withdrawn.
    withdrawn: AtomicBool,
    /// It has left before it was told how its handshake ended.
    unanswered: AtomicBool,
}

impl LegacyClient {
    /// A client that begins with this message, if that is known, and has not sent anything yet.
    pub(super) fn new(
        upstreams: Arc<Upstreams>,
        target: TargetId,
        principal: Principal,
        first: Option<&Message>,
        outlet: Outlet,
        way: Option<Way>,
    ) -> LegacyClient {
        let opening = first.and_then(|first| opening_of(first, principal));
        let client = upstreams.arrive(target, opening);
        LegacyClient {
            upstreams,
            target,
            client,
            principal,
            outlet,
            way: way.map(Some).map(OnceLock::from).unwrap_or_default(),
            upstream: OnceLock::new(),
            joining: Mutex::default(),
            withdrawn: AtomicBool::new(false),
            unanswered: AtomicBool::new(false),
        }
    }

    /// It says something.
    pub(super) fn say(&self, channel: Channel, frame: Frame) {
        if self.outlet.is_sealed() {
            return;
        }
        match self.upstream(&frame) {
            Some(upstream) => upstream.hear(self.client, channel, frame),
            None => self.seal(),
        }
    }

    /// The server it uses, if it has one; if it is about to get one, then that.
    fn joined(&self) -> Option<&Arc<UpstreamSession>> {
        let _joining = self.joining.lock().unwrap_or_else(PoisonError::into_inner);
        self.upstream.get()
    }

    /// The server it uses; with its first message it gets one, if there is one to be had.
    fn upstream(&self, frame: &Frame) -> Option<&Arc<UpstreamSession>> {
        if let Some(upstream) = self.upstream.get() {
            return Some(upstream);
        }
        let _joining = self.joining.lock().unwrap_or_else(PoisonError::into_inner);
        if self.upstream.get().is_none() {
            let opening = frame.message();
            let opening = opening.and_then(|first| opening_of(first, self.principal));
            let way = self.way.get().and_then(Option::as_ref);
            let joined = self.upstreams.join(self.client, opening.clone(), way);
            let joined = joined.ok()?;
            joined.join(self.client, &self.outlet);
            if let Some(opening) = opening {
                joined.name_client(&opening.params);
            }
            let _ = self.upstream.set(joined);
        }
        self.upstream.get()
    }

    /// Nothing more is said to it.
    fn seal(&self) {
        let mut woken = Woken::default();
        self.outlet.seal(&mut woken);
        woken.run();
    }
}

impl Route for LegacyClient {
    fn room(&self) -> Room {
        self.upstreams.room(self.client)
    }

    fn hear(&self, channel: Channel, frame: Frame, arrival: &Arc<Arrival>) -> bool {
        self.way.get_or_init(|| Way::of(&arrival.parts.headers));
        self.say(channel, frame);
        false
    }

    fn left(&self, channel: Channel) {
        if let Some(upstream) = self.joined() {
            upstream.left(self.client, channel);
        }
    }

    fn is_busy(&self) -> bool {
        let upstream = self.joined();
        upstream.is_some_and(|upstream| upstream.in_flight_of(self.client) > 0)
    }

    fn servers(&self) -> Vec<u64> {
        let upstream = self.joined();
        let own = upstream.filter(|upstream| upstream.sharing == Sharing::Dedicated);
        own.map(|upstream| upstream.id.0).into_iter().collect()
    }

    fn retry(&self) -> Retry {
        let target = self.upstreams.target(self.target);
        target.map_or(Retry::Never, |it| it.policy.retry)
    }

    fn label(&self) -> String {
        let target = self.upstreams.target(self.target);
        target.map_or_else(String::new, |it| it.policy.label.to_string())
    }

    fn withdraw(&self, _channel: Channel) {
        if self.withdrawn.swap(true, Ordering::AcqRel) {
            return;
        }
        let upstream = self.joined();
        self.outlet.withdraw();
        if let Some(upstream) = upstream {
            upstream.withdraw(self.client, Channel::MAIN);
        }
        self.end();
    }

    fn unanswered(&self) {
        self.unanswered.store(true, Ordering::Release);
    }

    fn end(&self) {
        if let Some(upstream) = self.joined() {
            upstream.gone(self.client);
        }
        // A server that knows of the way of this client is kept for nobody else.
        let has_way = self.way.get().is_some_and(Option::is_some);
        let unanswered = self.unanswered.load(Ordering::Acquire) && !has_way;
        self.upstreams.leave(self.client, unanswered);
        self.seal();
    }

    /// If the target is gone, the gateway stops the server, and what is in flight there may finish.
    fn retire(&self) {
        let is_left_to_server =
            self.joined().is_some() && self.upstreams.target(self.target).is_none();
        if !is_left_to_server {
            self.end();
        }
    }

    /// The gateway has told its servers; whoever has none yet gets none.
    fn shutdown(&self) {
        if self.joined().is_none() {
            self.seal();
        }
    }
}

/// Everybody whose requests speak for themselves.
struct ModernClients {
    upstreams: Arc<Upstreams>,
    target: TargetId,
    /// Its name.
    name: String,
    replay: Arc<ReplayBuffer>,
}

impl Route for ModernClients {
    fn hear(&self, channel: Channel, frame: Frame, arrival: &Arc<Arrival>) -> bool {
        let way = Way::of(&arrival.parts.headers);
        match self.upstreams.request(self.target, way.as_ref()) {
            Ok(upstream) => upstream.hear_expected(EVERYBODY, channel, frame),
            Err(why) => {
                let error = frame.message().and_then(|message| match why {
                    NoServer::Removed => router::removed(message, &self.name),
                    NoServer::Full => switch::overloaded(message),
                    _ => switch::shutting_down(message),
                });
                if let Some(error) = error {
                    self.replay.send(channel, error);
                }
                self.replay.done(channel);
                self.replay.flush();
            }
        }
        self.replay.is_done(channel)
    }

    fn left(&self, channel: Channel) {
        for upstream in self.upstreams.pooled(self.target) {
            upstream.left(EVERYBODY, channel);
        }
    }

    fn withdraw(&self, channel: Channel) {
        self.replay.withdraw(Some(channel));
        for upstream in self.upstreams.pooled(self.target) {
            upstream.withdraw(EVERYBODY, channel);
        }
    }

    fn mirrored(&self, call: &Message) -> Vec<Mirrored> {
        let target = self.upstreams.target(self.target);
        target.map_or(Vec::new(), |target| target.mirrored(call))
    }

    fn is_busy(&self) -> bool {
        let upstreams = self.upstreams.pooled(self.target);
        upstreams.iter().any(|upstream| upstream.in_flight() > 0)
    }

    fn retire(&self) {
        if let Some(target) = self.upstreams.target(self.target) {
            target.retire_modern(&self.replay);
        }
    }

    fn end(&self) {}

    fn shutdown(&self) {
        self.upstreams.shutdown();
    }
}

/// What a handshake is begun with, if this is one.
fn opening_of(message: &Message, principal: Principal) -> Option<Opening> {
    let params = message.params().unwrap_or_default();
    message.is("initialize").then(|| Opening {
        principal,
        params: Bytes::copy_from_slice(params),
    })
}
