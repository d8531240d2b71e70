//! The routes of a gateway: who answers a client.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use outlive_core::gateway::{Opening, TargetId};
use outlive_core::server::Channel;
use outlive_core::session_table::Principal;
use outlive_core::switch::{self, Client, Sharing};
use outlive_core::{Frame, Message};
use tokio::sync::Notify;

use super::target::Target;
use super::upstream_session::{EVERYBODY, UpstreamSession};
use super::upstreams::Upstreams;
use crate::http_server::{Arrival, Backend, Kind, Mirrored, Pages, ReplayBuffer, Room, Route};

/// A gateway as what stands behind an HTTP listener. Its endpoints are its targets.
pub(super) struct Routes(pub(super) Arc<Upstreams>);

impl Backend for Routes {
    /// One target is at the path itself, several are each at a path of their own, which begins with their name.
    fn paths(&self, path: &str) -> Vec<String> {
        match &self.0.targets[..] {
            [_] => vec![path.to_owned()],
            targets => {
                let path_of = |target: &Target| format!("/{}{path}", target.name);
                targets.iter().map(path_of).collect()
            }
        }
    }

    fn open(&self, endpoint: usize, replay: Arc<ReplayBuffer>, kind: Kind<'_>) -> Arc<dyn Route> {
        let (upstreams, target) = (self.0.clone(), TargetId(endpoint));
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
                let client = upstreams.arrive(target, || opening_of(first?, principal));
                Arc::new(LegacyClient {
                    upstreams,
                    client,
                    principal,
                    replay,
                    upstream: Mutex::default(),
                    withdrawn: AtomicBool::new(false),
                })
            }
        }
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

/// One legacy client.
struct LegacyClient {
    upstreams: Arc<Upstreams>,
    client: Client,
    principal: Principal,
    replay: Arc<ReplayBuffer>,
    /// The server it uses, from its first message on.
    upstream: Mutex<Option<Arc<UpstreamSession>>>,
    /// Its token was withdrawn.
    withdrawn: AtomicBool,
}

impl LegacyClient {
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
            joined.join(self.client, &self.replay);
            if let Some(opening) = opening {
                joined.name_client(&opening.params);
            }
            *upstream = Some(joined);
        }
        upstream.clone()
    }
}

impl Route for LegacyClient {
    fn room(&self) -> Room {
        self.upstreams.room(self.client)
    }

    fn hear(&self, channel: Channel, frame: Frame, _: &Arc<Arrival>) -> bool {
        if self.replay.is_sealed() {
            return true;
        }
        let Some(upstream) = self.upstream(&frame) else {
            self.replay.seal();
            return true;
        };
        upstream.hear(self.client, channel, frame);
        self.replay.is_done(channel)
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

    fn server(&self) -> Option<u64> {
        let upstream = self.lock();
        let own = upstream
            .as_ref()
            .filter(|upstream| upstream.sharing == Sharing::Dedicated);
        own.map(|upstream| upstream.id.0)
    }

    fn withdraw(&self, _channel: Channel) {
        if self.withdrawn.swap(true, Ordering::AcqRel) {
            return;
        }
        let upstream = self.lock().clone();
        self.replay.withdraw(None);
        if let Some(upstream) = upstream {
            upstream.withdraw(self.client, Channel::MAIN);
        }
        self.end();
    }

    fn end(&self) {
        let upstream = self.lock().clone();
        if let Some(upstream) = &upstream {
            upstream.gone(self.client);
        }
        self.upstreams.leave(self.client);
        self.replay.seal();
    }

    /// The gateway has told its servers; whoever has none yet gets none.
    fn shutdown(&self) {
        if self.lock().is_none() {
            self.replay.seal();
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
