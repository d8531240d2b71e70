//! What is known of a server, and outlives the links to it: the next one begins where this one ended.

use std::sync::{Mutex, MutexGuard, PoisonError};

use outlive_core::http_upstream::Known;

use super::mirror::Mirror;

/// What is known of a server, shared by all links to it.
#[derive(Debug, Default)]
pub(super) struct SharedKnown {
    known: Mutex<Known>,
    /// What of its tools is mirrored into headers.
    mirror: Mutex<Mirror>,
}

impl SharedKnown {
    pub(super) fn get(&self) -> Known {
        *lock(&self.known)
    }

    pub(super) fn set(&self, known: Known) {
        *lock(&self.known) = known;
    }

    pub(super) fn mirror(&self) -> MutexGuard<'_, Mirror> {
        lock(&self.mirror)
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // Nothing in it is ever left half done.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
