//! What is known of a server, and outlives the links with it: the next one begins where this one ended.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::Transport;
use super::mirror::Mirror;

/// What is known of a server.
#[derive(Debug, Default)]
pub(super) struct Known {
    /// How messages travel.
    transport: Mutex<Option<Transport>>,
    /// It was seen to speak the modern era.
    modern: AtomicBool,
    /// It has left the GET for its stream unanswered.
    stream_unanswered: AtomicBool,
    /// What of its tools is mirrored into headers.
    mirror: Mutex<Mirror>,
}

impl Known {
    pub(super) fn transport(&self) -> Option<Transport> {
        *lock(&self.transport)
    }

    pub(super) fn set_transport(&self, transport: Option<Transport>) {
        *lock(&self.transport) = transport;
    }

    pub(super) fn is_modern(&self) -> bool {
        self.modern.load(Ordering::Relaxed)
    }

    pub(super) fn set_modern(&self, modern: bool) {
        self.modern.store(modern, Ordering::Relaxed);
    }

    pub(super) fn leaves_stream_unanswered(&self) -> bool {
        self.stream_unanswered.load(Ordering::Relaxed)
    }

    pub(super) fn note_stream_unanswered(&self) {
        self.stream_unanswered.store(true, Ordering::Relaxed);
    }

    pub(super) fn mirror(&self) -> MutexGuard<'_, Mirror> {
        lock(&self.mirror)
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // Nothing in it is ever left half done.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
