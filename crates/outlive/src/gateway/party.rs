//! The parties of a gateway: who answers a client.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use outlive_core::server::Channel;
use outlive_core::switch::Client;
use outlive_core::{Frame, Message};

use super::hub::Hub;
use super::shared::Shared;
use crate::serve::{Backend, Kind, Mirrored, Mouth, Pages, Party};

/// A gateway as what stands behind a front.
pub(super) struct Doors(pub(super) Arc<Shared>);

impl Backend for Doors {
    fn open(&self, mouth: Arc<Mouth>, kind: Kind) -> Arc<dyn Party> {
        match kind {
            Kind::Shared => {
                self.0.serve_modern(&mouth);
                Arc::new(Crowd {
                    shared: self.0.clone(),
                    mouth,
                })
            }
            Kind::Session => {
                if self.0.is_stopping() {
                    mouth.seal();
                }
                Arc::new(Visitor {
                    shared: self.0.clone(),
                    client: self.0.fresh_client(),
                    mouth,
                    hub: Mutex::default(),
                    stops: AtomicU32::new(0),
                })
            }
        }
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
    mouth: Arc<Mouth>,
    /// The server it uses, from its first message on.
    hub: Mutex<Option<Arc<Hub>>>,
    stops: AtomicU32,
}

impl Visitor {
    fn lock(&self) -> MutexGuard<'_, Option<Arc<Hub>>> {
        self.hub.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Party for Visitor {
    fn hear(&self, channel: Channel, frame: Frame) -> bool {
        if self.mouth.is_sealed() {
            return true;
        }
        let hub = self
            .lock()
            .get_or_insert_with(|| self.shared.receive(self.client, &self.mouth, &frame))
            .clone();
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

    fn end(&self) {
        if let Some(hub) = &*self.lock() {
            self.shared.dismiss(hub, self.client);
        }
        self.mouth.seal();
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

    fn is_busy(&self) -> bool {
        self.shared.in_flight() > 0
    }

    fn end(&self) {}

    fn shutdown(&self) {
        self.shared.shutdown();
    }
}
