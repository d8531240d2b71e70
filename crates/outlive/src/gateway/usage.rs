//! What a server is doing, as it can be read without holding up its messages.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use outlive_core::Time;
use outlive_core::gateway::Usage;
use outlive_core::switch::Switch;

/// A copy of what the switch of a server knows, as of the last message.
pub(super) struct LiveUsage {
    /// When there began to be a gateway.
    clock: Instant,
    /// Requests that were assigned to the server and have not reached its switch.
    expected: AtomicUsize,
    in_flight: AtomicUsize,
    /// When somebody last had a use for it, in nanoseconds.
    last: AtomicU64,
    handshaking: AtomicBool,
    legacy_only: AtomicBool,
}

impl LiveUsage {
    pub(super) fn new(clock: Instant) -> LiveUsage {
        let live_usage = LiveUsage {
            clock,
            expected: AtomicUsize::new(0),
            in_flight: AtomicUsize::new(0),
            last: AtomicU64::new(0),
            handshaking: AtomicBool::new(false),
            legacy_only: AtomicBool::new(false),
        };
        live_usage.touch();
        live_usage
    }

    /// Somebody has a use for the server.
    pub(super) fn touch(&self) {
        let now = u64::try_from(self.clock.elapsed().as_nanos()).unwrap_or(u64::MAX);
        self.last.store(now, Ordering::Relaxed);
    }

    /// A request is on its way to the switch.
    pub(super) fn expect(&self) {
        self.expected.fetch_add(1, Ordering::Relaxed);
    }

    /// It has reached the switch, which has been [read](LiveUsage::read) since.
    pub(super) fn arrived(&self) {
        self.expected.fetch_sub(1, Ordering::Release);
    }

    pub(super) fn read(&self, switch: &Switch) {
        let in_flight = switch.in_flight();
        let before = self.in_flight.swap(in_flight, Ordering::Relaxed);
        if before > 0 && in_flight == 0 {
            self.touch();
        }
        let (handshaking, legacy_only) = (switch.is_shaking_hands(), switch.is_legacy_only());
        self.handshaking.store(handshaking, Ordering::Relaxed);
        self.legacy_only.store(legacy_only, Ordering::Relaxed);
    }

    pub(super) fn in_flight(&self) -> usize {
        self.in_flight.load(Ordering::Relaxed)
    }

    pub(super) fn last_use(&self) -> Time {
        Time::after(Duration::from_nanos(self.last.load(Ordering::Relaxed)))
    }

    pub(super) fn usage(&self) -> Usage {
        // In this order: a request that is not expected any more is in flight, or was.
        let expected = self.expected.load(Ordering::Acquire);
        Usage {
            in_flight: expected + self.in_flight(),
            last: self.last_use(),
            handshaking: self.handshaking.load(Ordering::Relaxed),
            legacy_only: self.legacy_only.load(Ordering::Relaxed),
        }
    }
}
