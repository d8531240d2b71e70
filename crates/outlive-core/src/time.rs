//! Time as an argument.
//!
//! The core owns no clock. A driver measures the time since it started and
//! passes it in; a simulation simply makes it up.

use std::ops::{Add, Sub};
use std::time::Duration;

/// A moment, as the time that has passed since the session began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Time(Duration);

impl Time {
    /// The moment the session began.
    pub const ZERO: Time = Time(Duration::ZERO);

    /// The moment `since_start` after the session began.
    pub const fn after(since_start: Duration) -> Time {
        Time(since_start)
    }

    /// How long after the session's start this moment is.
    pub const fn since_start(self) -> Duration {
        self.0
    }
}

impl Add<Duration> for Time {
    type Output = Time;
    fn add(self, later: Duration) -> Time {
        Time(self.0.saturating_add(later))
    }
}

impl Sub for Time {
    type Output = Duration;
    /// The time from `earlier` to `self`; zero if `earlier` is in fact later.
    fn sub(self, earlier: Time) -> Duration {
        self.0.saturating_sub(earlier.0)
    }
}
