//! The parties of a gateway: who answers a client.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use outlive_core::server::Channel;
use outlive_core::session_table::Principal;
use outlive_core::switch::{Client, Sharing};
use outlive_core::{Frame, Message};

use super::hub::Hub;
use super::shared::Shared;
use crate::serve::{Backend, Kind, Mirrored, Mouth, Pages, Party, Place};

/// A gateway as what stands behind a front.
pub(super) struct Doors(pub(super) Arc<Shared>);

impl Backend for Doors {
    fn open(&self, mouth: Arc<Mouth>, kind: Kind, place: Option<Place>) -> Arc<dyn Party> {
        match kind {
            Kind::Shared => {
                self.0.serve_modern(&mouth);
                Arc::new(Crowd {
                    shared: self.0.clone(),
                    mouth,
                })
            }
            Kind::Session(principal) => {
                if self.0.is_stopping() {
                    mouth.seal();
                }
                Arc::new(Visitor {
                    shared: self.0.clone(),
                    client: self.0.fresh_client(),
                    principal,
                    mouth,
                    hub: Mutex::default(),
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

    fn keeps(&self, opening: &Bytes, principal: Principal) -> bool {
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
struct Visitor {
    shared: Arc<Shared>,
    client: Client,
    principal: Principal,
    mouth: Arc<Mouth>,
    /// The server it uses, from its first message on.
    hub: Mutex<Option<Arc<Hub>>>,
    /// The right to start one, until it is started.
    place: Mutex<Option<Place>>,
    stops: AtomicU32,
    /// Its token was withdrawn.
    withdrawn: AtomicBool,
}

impl Visitor {
    fn lock(&self) -> MutexGuard<'_, Option<Arc<Hub>>> {
        self.hub.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn take_place(&self) -> Option<Place> {
        let mut place = self.place.lock().unwrap_or_else(PoisonError::into_inner);
        place.take()
    }

    /// The server it uses; with its first message it gets one, if there is one to be had.
    fn hub(&self, frame: &Frame) -> Option<Arc<Hub>> {
        let (hub, spare) = {
            let mut hub = self.lock();
            if let Some(hub) = &*hub {
                return Some(hub.clone());
            }
            let mut place = self.take_place();
            let who = (self.client, self.principal, &self.mouth);
            *hub = self.shared.receive(who, frame, &mut place);
            (hub.clone(), place)
        };
        // Not before: whoever looks at the places may be looking at us.
        drop(spare);
        hub
    }
}

impl Party for Visitor {
    fn hear(&self, channel: Channel, frame: Frame) -> bool {
        if self.mouth.is_sealed() {
            return true;
        }
        let Some(hub) = self.hub(&frame) else {
            self.mouth.done(channel);
            return true;
        };
        hub.hear(self.client, channel, frame);
        self.mouth.is_done(channel)
    }

    fn left(&self, channel: Channel) {
        if let Some(hub) = &*self.lock() {
            hub.left(self.client, channel);
        }
    }

    fn is_busy(&self) -> bool {
        let hub = self.lock();
        hub.as_ref()
            .is_some_and(|hub| hub.in_flight_of(self.client) > 0)
    }

    fn server(&self) -> Option<u64> {
        let hub = self.lock();
        let own = hub.as_ref().filter(|hub| hub.sharing == Sharing::Alone);
        own.map(|hub| hub.number)
    }

    fn withdraw(&self, _channel: Channel) {
        if self.withdrawn.swap(true, Ordering::AcqRel) {
            return;
        }
        let hub = self.lock().clone();
        self.mouth.hush(None);
        if let Some(hub) = hub {
            hub.withdraw(self.client, Channel::MAIN);
        }
        self.end();
    }

    fn end(&self) {
        let hub = self.lock().clone();
        if let Some(hub) = &hub {
            self.shared.dismiss(hub, self.client);
        }
        self.mouth.seal();
        drop(self.take_place());
    }

    fn shutdown(&self) {
        let time = self.stops.fetch_add(1, Ordering::Relaxed) + 1;
        match &*self.lock() {
            Some(hub) => hub.stop(time),
            None => self.mouth.seal(),
        }
    }
}

/// Everybody whose requests speak for themselves.
struct Crowd {
    shared: Arc<Shared>,
    mouth: Arc<Mouth>,
}

impl Party for Crowd {
    fn hear(&self, channel: Channel, frame: Frame) -> bool {
        if self.shared.hear(&self.mouth, channel, frame) {
            return self.mouth.is_done(channel);
        }
        self.mouth.done(channel);
        true
    }

    fn left(&self, channel: Channel) {
        self.shared.left(channel);
    }

    fn withdraw(&self, channel: Channel) {
        self.mouth.hush(Some(channel));
        self.shared.withdraw(channel);
    }

    fn is_busy(&self) -> bool {
        self.shared.in_flight() > 0
    }

    fn end(&self) {}

    fn shutdown(&self) {
        self.shared.shutdown();
    }
}
