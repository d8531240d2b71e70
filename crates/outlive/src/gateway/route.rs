//! The routes of a gateway: who answers a client.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use outlive_core::server::Channel;
use outlive_core::session_table::Principal;
use outlive_core::switch::{Client, Sharing};
use outlive_core::{Frame, Message};

use super::pool::Pool;
use super::upstream_session::UpstreamSession;
use crate::http_server::{Backend, Kind, Mirrored, Pages, Place, ReplayBuffer, Route};

/// A gateway as what stands behind a front.
pub(super) struct Routes(pub(super) Arc<Pool>);

impl Backend for Routes {
    fn open(&self, replay: Arc<ReplayBuffer>, kind: Kind, place: Option<Place>) -> Arc<dyn Route> {
        match kind {
            Kind::Shared => {
                self.0.serve_modern(&replay);
                Arc::new(ModernClients {
                    pool: self.0.clone(),
                    replay,
                })
            }
            Kind::Session(principal) => {
                if self.0.is_stopping() {
                    replay.seal();
                }
                Arc::new(LegacyClient {
                    pool: self.0.clone(),
                    client: self.0.fresh_client(),
                    principal,
                    replay,
                    upstream: Mutex::default(),
                    place: Mutex::new(place),
                    stops: AtomicU32::new(0),
                    withdrawn: AtomicBool::new(false),
                })
            }
        }
    }

    fn places(&self) -> Option<(usize, Duration)> {
        self.0.places()
    }

    fn keeps(&self, opening: &Message, principal: Principal) -> bool {
        self.0.keeps(opening, principal)
    }

    fn make_room(&self) {
        self.0.make_room();
    }

    fn message_limit(&self) -> usize {
        self.0.policy.limits.message
    }

    fn mirrored(&self, call: &Message) -> Vec<Mirrored> {
        self.0.mirrored(call)
    }

    fn pages(&self) -> Option<&dyn Pages> {
        Some(&*self.0)
    }
}

/// One legacy client.
struct LegacyClient {
    pool: Arc<Pool>,
    client: Client,
    principal: Principal,
    replay: Arc<ReplayBuffer>,
    /// The server it uses, from its first message on.
    upstream: Mutex<Option<Arc<UpstreamSession>>>,
    /// The right to start one, until it is started.
    place: Mutex<Option<Place>>,
    stops: AtomicU32,
    /// Its token was withdrawn.
    withdrawn: AtomicBool,
}

impl LegacyClient {
    fn lock(&self) -> MutexGuard<'_, Option<Arc<UpstreamSession>>> {
        self.upstream.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn take_place(&self) -> Option<Place> {
        let mut place = self.place.lock().unwrap_or_else(PoisonError::into_inner);
        place.take()
    }

    /// The server it uses; with its first message it gets one, if there is one to be had.
    fn upstream(&self, frame: &Frame) -> Option<Arc<UpstreamSession>> {
        let (upstream, spare) = {
            let mut upstream = self.lock();
            if let Some(upstream) = &*upstream {
                return Some(upstream.clone());
            }
            let mut place = self.take_place();
            let who = (self.client, self.principal, &self.replay);
            *upstream = self.pool.receive(who, frame, &mut place);
            (upstream.clone(), place)
        };
        // Not before: whoever looks at the places may be looking at us.
        drop(spare);
        upstream
    }
}

impl Route for LegacyClient {
    fn hear(&self, channel: Channel, frame: Frame) -> bool {
        if self.replay.is_sealed() {
            return true;
        }
        let Some(upstream) = self.upstream(&frame) else {
            self.replay.done(channel);
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
        own.map(|upstream| upstream.number)
    }

    fn withdraw(&self, _channel: Channel) {
        if self.withdrawn.swap(true, Ordering::AcqRel) {
            return;
        }
        let upstream = self.lock().clone();
        self.replay.hush(None);
        if let Some(upstream) = upstream {
            upstream.withdraw(self.client, Channel::MAIN);
        }
        self.end();
    }

    fn end(&self) {
        let upstream = self.lock().clone();
        if let Some(upstream) = &upstream {
            self.pool.dismiss(upstream, self.client);
        }
        self.replay.seal();
        drop(self.take_place());
    }

    fn shutdown(&self) {
        let time = self.stops.fetch_add(1, Ordering::Relaxed) + 1;
        match &*self.lock() {
            Some(upstream) => upstream.stop(time),
            None => self.replay.seal(),
        }
    }
}

/// Everybody whose requests speak for themselves.
struct ModernClients {
    pool: Arc<Pool>,
    replay: Arc<ReplayBuffer>,
}

impl Route for ModernClients {
    fn hear(&self, channel: Channel, frame: Frame) -> bool {
        if self.pool.hear(&self.replay, channel, frame) {
            return self.replay.is_done(channel);
        }
        self.replay.done(channel);
        true
    }

    fn left(&self, channel: Channel) {
        self.pool.left(channel);
    }

    fn withdraw(&self, channel: Channel) {
        self.replay.hush(Some(channel));
        self.pool.withdraw(channel);
    }

    fn is_busy(&self) -> bool {
        self.pool.in_flight() > 0
    }

    fn end(&self) {}

    fn shutdown(&self) {
        self.pool.shutdown();
    }
}
