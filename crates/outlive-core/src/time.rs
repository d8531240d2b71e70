//! Time as an argument.
//!
//! The core owns no clock. A driver measures the time since it started and
//! passes it in; a simulation simply makes it up.

use std::ops::{Add, Sub};
use std::time::Duration;

/// A moment, as the time that has passed since the session began.
///
/// Moments are compared several times for each message, so this is one word: nanoseconds, which last
/// for five centuries. What is later than that is never.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Time(u64);

impl Time {
    /// The moment the session began.
    pub const ZERO: Time = Time(0);

    /// The moment `since_start` after the session began.
    pub const fn after(since_start: Duration) -> Time {
        Time(nanoseconds(since_start))
    }

    /// How long after the session's start this moment is.
    pub const fn since_start(self) -> Duration {
        Duration::from_nanos(self.0)
    }
}

impl Add<Duration> for Time {
    type Output = Time;
    fn add(self, later: Duration) -> Time {
        Time(self.0.saturating_add(nanoseconds(later)))
    }
}

impl Sub<Duration> for Time {
    type Output = Time;
    /// The moment that long before; the start of time if that is earlier.
    fn sub(self, by: Duration) -> Time {
        Time(self.0.saturating_sub(nanoseconds(by)))
    }
}

impl Sub for Time {
    type Output = Duration;
    /// The time from `earlier` to `self`; zero if `earlier` is in fact later.
    fn sub(self, earlier: Time) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }
}

const fn nanoseconds(time: Duration) -> u64 {
    time.as_secs()
        .saturating_mul(1_000_000_000)
        .saturating_add(time.subsec_nanos() as u64)
}

/// A clock that runs this late was not running at all: the machine slept, or we were stopped.
const JUMP: u64 = nanoseconds(Duration::from_secs(5));

/// Our own time: the driver's, without what passed while nobody looked (FM-55).
///
/// It is read for each message, so it counts in nanoseconds, too.
#[derive(Clone, Debug, Default)]
pub(crate) struct Clock {
    now: Time,
    /// Time that passed without us and is not counted.
    skipped: u64,
    /// Time that was counted before the driver's clock began, for another owner.
    before: u64,
}

impl Clock {
    /// A clock that goes on from a moment of its own when it is `now` on the driver's.
    pub(crate) fn going_on(from: Time, now: Time) -> Clock {
        Clock {
            now: from,
            skipped: now.0,
            before: from.0,
        }
    }

    /// What `now` is on our own clock, on which something is `due`.
    pub(crate) fn read(&mut self, now: Time, due: Option<Time>) -> Time {
        let passed = self.before.saturating_add(now.0);
        let mut own = Time(passed.saturating_sub(self.skipped));
        if let Some(due) = due
            && own.0.saturating_sub(due.0) > JUMP
        {
            self.skipped += own.0 - due.0;
            own = due;
        }
        self.now = self.now.max(own);
        self.now
    }

    /// Whether so much time has passed since the last moment read that a jump may hide in it.
    pub(crate) fn may_jump(&self, now: Time) -> bool {
        now.0.saturating_sub(self.outside(self.now).0) > JUMP
    }

    /// The last moment read.
    pub(crate) fn now(&self) -> Time {
        self.now
    }

    /// What a moment on our own clock is on the driver's.
    pub(crate) fn outside(&self, at: Time) -> Time {
        Time(
            at.0.saturating_add(self.skipped)
                .saturating_sub(self.before),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(ms: u64) -> Time {
        Time::after(Duration::from_millis(ms))
    }

    #[test]
    fn a_moment_too_late_to_tell_is_never() {
        let never = Time::after(Duration::MAX);
        assert_eq!(ms(1) + Duration::MAX, never);
        assert_eq!(never + Duration::from_nanos(1), never);
        assert_eq!(ms(5) - never, Duration::ZERO);
        let last = Duration::from_nanos(u64::MAX);
        assert_eq!(Time::after(last).since_start(), last);
        assert_eq!(
            Time::after(last - Duration::from_nanos(1)) + Duration::from_nanos(1),
            never
        );
    }

    #[test]
    fn a_clock_goes_on_where_it_stood_for_another_owner() {
        let mut clock = Clock::going_on(ms(60_000), ms(2000));
        assert_eq!(
            (clock.now(), clock.outside(ms(60_000))),
            (ms(60_000), ms(2000))
        );
        assert!(!clock.may_jump(ms(7000)) && clock.may_jump(ms(7001)));
        assert_eq!(clock.read(ms(2500), None), ms(60_500));
        assert_eq!(clock.outside(ms(61_000)), ms(3000));
        assert_eq!(
            clock.outside(ms(100)),
            Time::ZERO,
            "before there was an outside"
        );
        assert_eq!(clock.read(ms(20_000), Some(ms(61_000))), ms(61_000));
        assert_eq!(clock.outside(ms(61_500)), ms(20_500));
    }

    #[test]
    fn time_that_passed_without_us_is_not_counted() {
        let mut clock = Clock::default();
        assert_eq!(clock.read(ms(1000), None), ms(1000));
        assert_eq!(clock.read(ms(9000), None), ms(9000), "nothing was due");
        assert_eq!(clock.read(ms(15_000), Some(ms(10_000))), ms(15_000));
        assert_eq!(clock.outside(ms(20_000)), ms(20_000));
        assert!(!clock.may_jump(ms(20_000)) && clock.may_jump(ms(20_001)));
        assert_eq!(clock.read(ms(25_001), Some(ms(20_000))), ms(20_000));
        assert_eq!(clock.outside(ms(20_000)), ms(25_001));
        assert_eq!(clock.read(ms(25_101), None), ms(20_100));
        assert_eq!(clock.now(), ms(20_100));
        assert_eq!(clock.read(ms(3), None), ms(20_100), "it never goes back");
    }
}
