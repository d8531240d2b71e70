//! How often lines were read, for the test that a message is read once. There is none of this in a release build.

use std::sync::atomic::{AtomicU64, Ordering};

static COUNT: AtomicU64 = AtomicU64::new(0);

pub(super) fn note() {
    COUNT.fetch_add(1, Ordering::Relaxed);
}

/// How often a line was read in this process.
pub fn count() -> u64 {
    COUNT.load(Ordering::Relaxed)
}
