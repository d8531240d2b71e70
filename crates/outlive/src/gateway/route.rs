//! The routes of a gateway: who answers a client.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use hyper::HeaderMap;
use outlive_core::gateway::{Opening, TargetId};
use outlive_core::server::Channel;
use outlive_core::session_table::Principal;
use outlive_core::switch::{self, Client, Sharing};
use outlive_core::{Frame, Message};
use tokio::sync::Notify;

use super::catalogue::Catalogue;
use super::outlet::{Outlet, Woken};
use super::router_session::{RouterSession, Whose};
use super::target::Target;
use super::upstream_session::{EVERYBODY, UpstreamSession};
use super::upstreams::{Upstreams, VIA};
use crate::http_server::{Arrival, Backend, Kind, Mirrored, Pages, ReplayBuffer, Room, Route};

/// A gateway as what stands behind an HTTP listener. Its endpoints are its targets; with a catalogue a router before
/// all of them comes first, and one for each view last.
pub(super) struct Routes(pub(super) Arc<Upstreams>);

/// Who is at an endpoint.
enum Place<'a> {
    Target(TargetId),
    Router(&'a Arc<Catalogue>, usize),
}

impl Routes {
    fn place(&self, endpoint: usize) -> Place<'_> {
        let targets = self.0.targets.len();
        match &self.0.catalogue {
            None => Place::Target(TargetId(endpoint)),
            Some(catalogue) => match endpoint {
                0 => Place::Router(catalogue, 0),
                n if n <= targets => match catalogue.view_of(TargetId(n - 1)) {
                    // What is hidden behind the router is hidden here, too.
                    Some(view) => Place::Router(catalogue, view),
                    None => Place::Target(TargetId(n - 1)),
                },
                n => Place::Router(catalogue, n - targets),
            },
        }
    }
}

impl Backend for Routes {
    /// A target without a name of its own is at the path itself; others are each at a path that begins with theirs.
    fn paths(&self, path: &str) -> Vec<String> {
        let Some(catalogue) = &self.0.catalogue else {
            return vec![path.to_owned()];
        };
        let path_of = |target: &Target| format!("/{}{path}", target.name);
        let view = |name: &str| format!("/view/{name}{path}");
        std::iter::once(path.to_owned())
            .chain(self.0.targets.iter().map(path_of))
            .chain(catalogue.views().map(view))
            .collect()
    }

    fn open(&self, endpoint: usize, replay: Arc<ReplayBuffer>, kind: Kind<'_>) -> Arc<dyn Route> {
        let upstreams = self.0.clone();
        upstreams.keep_time();
        let target = match self.place(endpoint) {
            Place::Target(target) => target,
            Place::Router(catalogue, view) => {
                let whose = match kind {
                    Kind::Session(principal, _) => Whose::Session(principal),
                    Kind::Shared => Whose::Requests,
                };
                return RouterSession::new(&upstreams, catalogue, view, whose, replay);
            }
        };
        match kind {
            Kind::Shared => {
                upstreams.serve_modern(target, &replay);
                Arc::new(ModernClients {
                    upstreams,
                    target,
                    replay,
                })
            }
            Kind::Session(principal, first) => {
                let outlet = Outlet::Buffer(replay);
                Arc::new(LegacyClient::new(
                    upstreams, target, principal, first, outlet,
                ))
            }
        }
    }

    fn is_own(&self, headers: &HeaderMap) -> bool {
        let mut given = headers.get_all(VIA).iter();
        given.any(|via| via.as_bytes() == self.0.via.as_bytes())
    }

    fn room_bell(&self) -> Arc<Notify> {
        self.0.room_bell()
    }

    fn message_limit(&self) -> usize {
        let limits = self.0.targets.iter().map(|it| it.policy.limits.message);
        limits.max().unwrap_or_default()
    }

    fn pages(&self) -> Option<&dyn Pages> {
        Some(&self.0)
    }
}

/// One legacy client, or one leg of a router.
pub(super) struct LegacyClient {
    upstreams: Arc<Upstreams>,
    client: Client,
    principal: Principal,
    outlet: Outlet,
    /// The server it uses, from its first message on.
    upstream: Mutex<Option<Arc<UpstreamSession>>>,
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
    ) -> LegacyClient {
        let opening = first.and_then(|first| opening_of(first, principal));
        let client = upstreams.arrive(target, opening);
        LegacyClient {
            upstreams,
            client,
            principal,
            outlet,
            upstream: Mutex::default(),
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

    fn lock(&self) -> MutexGuard<'_, Option<Arc<UpstreamSession>>> {
        self.upstream.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The server it uses; with its first message it gets one, if there is one to be had.
    fn upstream(&self, frame: &Frame) -> Option<Arc<UpstreamSession>> {
        let mut upstream = self.lock();
        if upstream.is_none() {
            let opening = frame.message();
            let opening = opening.and_then(|first| opening_of(first, self.principal));
            let joined = self.upstreams.join(self.client, opening.clone()).ok()?;
            joined.join(self.client, &self.outlet);
            if let Some(opening) = opening {
                joined.name_client(&opening.params);
            }
            *upstream = Some(joined);
        }
        upstream.clone()
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

    fn hear(&self, channel: Channel, frame: Frame, _: &Arc<Arrival>) -> bool {
        self.say(channel, frame);
        self.outlet.is_sealed() || self.outlet.is_done(channel)
    }

    fn left(&self, channel: Channel) {
        if let Some(upstream) = &*self.lock() {
            upstream.left(self.client, channel);
        }
    }

    fn is_busy(&self) -> bool {
        let upstream = self.lock();
        upstream
            .as_ref()
            .is_some_and(|upstream| upstream.in_flight_of(self.client) > 0)
    }

    fn servers(&self) -> Vec<u64> {
        let upstream = self.lock();
        let own = upstream
            .as_ref()
            .filter(|upstream| upstream.sharing == Sharing::Dedicated);
        own.map(|upstream| upstream.id.0).into_iter().collect()
    }

    fn withdraw(&self, _channel: Channel) {
        if self.withdrawn.swap(true, Ordering::AcqRel) {
            return;
        }
        let upstream = self.lock().clone();
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
        let upstream = self.lock().clone();
        if let Some(upstream) = &upstream {
            upstream.gone(self.client);
        }
        let unanswered = self.unanswered.load(Ordering::Acquire);
        self.upstreams.leave(self.client, unanswered);
        self.seal();
    }

    /// The gateway has told its servers; whoever has none yet gets none.
    fn shutdown(&self) {
        if self.lock().is_none() {
            self.seal();
        }
    }
}

/// Everybody whose requests speak for themselves.
struct ModernClients {
    upstreams: Arc<Upstreams>,
    target: TargetId,
    replay: Arc<ReplayBuffer>,
}

impl Route for ModernClients {
    fn hear(&self, channel: Channel, frame: Frame, _: &Arc<Arrival>) -> bool {
        match self.upstreams.request(self.target) {
            Ok(upstream) => upstream.hear_expected(EVERYBODY, channel, frame),
            Err(_) => {
                if let Some(error) = frame.message().and_then(switch::shutting_down) {
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
        self.upstreams.targets[self.target.0].mirrored(call)
    }

    fn is_busy(&self) -> bool {
        let upstreams = self.upstreams.pooled(self.target);
        upstreams.iter().any(|upstream| upstream.in_flight() > 0)
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
