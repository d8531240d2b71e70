//! When to make the next link: backoff, breaker, and the ways out of both.
//!
//! The first restart is immediate, later ones wait longer and longer, with full jitter. Only a
//! link that was in service for a while resets that: a server that dies 0.2 s after a good
//! handshake, for ever, must not look healthy (FM-17). Too many failures within a window open the
//! breaker; it is never final: the server is tried again at a slow pace, and at once when
//! somebody calls (FM-70).

use std::collections::VecDeque;
use std::time::Duration;

use crate::policy::{Backoff, Breaker};
use crate::rng::Rng;
use crate::time::Time;

/// A caller may bring an attempt forward, but not sooner after the last one than this.
const CALL_INTERVAL: Duration = Duration::from_secs(1);

/// A server that is merely not there costs nobody anything by being looked for: no pause between two looks
/// is longer.
const LOOK_INTERVAL: Duration = Duration::from_secs(2);

/// What to do after a link has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Decision {
    /// Make the next one at this moment.
    RetryAt(Time),
    /// The breaker is open; try again at this moment.
    OpenUntil(Time),
}

#[derive(Clone, Debug)]
pub(crate) struct Supervisor {
    backoff: Backoff,
    breaker: Breaker,
    rng: Rng,
    /// Failed generations since the last healthy one.
    failures: u32,
    /// When the failed generations within the window ended.
    recent: VecDeque<Time>,
    open: bool,
    /// Since when nobody has been there, and how often that was found.
    absent: Option<(Time, u32)>,
    /// When the last attempt began.
    attempted: Option<Time>,
    /// Attempts brought forward by callers, in a row, in vain.
    called_in_vain: u32,
}

impl Supervisor {
    pub(crate) fn new(backoff: Backoff, breaker: Breaker, seed: u64) -> Supervisor {
        Supervisor {
            backoff,
            breaker,
            rng: Rng::new(seed),
            failures: 0,
            recent: VecDeque::new(),
            open: false,
            absent: None,
            attempted: None,
            called_in_vain: 0,
        }
    }

    /// An attempt begins. Returns its ordinal in the current row, from 1.
    pub(crate) fn attempt(&mut self, now: Time) -> u32 {
        self.attempted = Some(now);
        self.failures + 1
    }

    /// A link ended that had been in service since `served` (`None`: never).
    pub(crate) fn ended(&mut self, now: Time, served: Option<Time>) -> Decision {
        self.absent = None;
        if served.is_some_and(|since| now - since >= self.breaker.healthy_after) {
            self.reset();
            return Decision::RetryAt(now);
        }
        self.failures += 1;
        self.recent.push_back(now);
        while self
            .recent
            .front()
            .is_some_and(|t| now - *t > self.breaker.window)
        {
            self.recent.pop_front();
        }
        if self.open || self.recent.len() >= self.breaker.failures as usize {
            return self.open(now);
        }
        let delay = match self.failures {
            1 => Duration::ZERO,
            n => {
                let doublings = (n - 2).min(20);
                let most = self
                    .backoff
                    .base
                    .saturating_mul(1 << doublings)
                    .min(self.backoff.cap);
                self.rng.up_to(most)
            }
        };
        Decision::RetryAt(now + delay)
    }

    /// Nobody was there. A server elsewhere that is being deployed is no server that fails: it is looked for
    /// again and again, for as long as the window, before the breaker opens.
    pub(crate) fn absent(&mut self, now: Time) -> Decision {
        let (since, looks) = self.absent.unwrap_or((now, 0));
        self.absent = Some((since, looks + 1));
        if self.open || now - since >= self.breaker.window {
            return self.open(now);
        }
        let most = self.backoff.base.saturating_mul(1 << looks.min(10));
        let most = most.min(self.backoff.cap).min(LOOK_INTERVAL);
        Decision::RetryAt(now + most / 2 + self.rng.up_to(most / 2))
    }

    /// A session was forgotten, as the refusal of one request says. That request may ask for one new session and for no
    /// more, so it counts neither for the breaker nor for the delays.
    pub(crate) fn forgotten(&mut self, now: Time) -> Decision {
        self.absent = None;
        Decision::RetryAt(now)
    }

    /// Opens the breaker whatever the count: going on as before cannot help.
    pub(crate) fn open(&mut self, now: Time) -> Decision {
        self.open = true;
        self.recent.clear();
        Decision::OpenUntil(now + self.breaker.retry)
    }

    /// The user asked for a restart: nothing that went before counts.
    pub(crate) fn reset(&mut self) {
        self.failures = 0;
        self.open = false;
        self.absent = None;
        self.called_in_vain = 0;
        self.recent.clear();
    }

    /// A link has been in service long enough to trust it again.
    pub(crate) fn healthy_at(&self, served: Time) -> Option<Time> {
        (self.open || self.failures > 0).then(|| served + self.breaker.healthy_after)
    }

    /// Somebody calls while no attempt is under way: the earliest moment for one on their behalf.
    pub(crate) fn called(&self) -> Time {
        let pace = if self.open {
            // Each vain attempt makes callers wait twice as long for the next.
            (CALL_INTERVAL * (1 << self.called_in_vain.min(10))).min(self.breaker.retry)
        } else {
            CALL_INTERVAL
        };
        self.attempted.map_or(Time::ZERO, |at| at + pace)
    }

    /// An attempt is made because somebody called.
    pub(crate) fn attempt_for_caller(&mut self) {
        self.called_in_vain += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::Policy;

    fn supervisor() -> Supervisor {
        let policy = Policy::default();
        Supervisor::new(policy.backoff, policy.breaker, 1)
    }

    fn at(ms: u64) -> Time {
        Time::after(Duration::from_millis(ms))
    }

    fn delay(verdict: Decision, now: Time) -> Duration {
        match verdict {
            Decision::RetryAt(t) => t - now,
            Decision::OpenUntil(t) => panic!("open until {t:?}"),
        }
    }

    #[test]
    fn the_first_restart_is_immediate_and_later_ones_back_off_to_the_cap() {
        let policy = Policy::default();
        let mut longest = [Duration::ZERO; 12];
        for seed in 0..500 {
            let breaker = Breaker {
                failures: 100,
                ..policy.breaker
            };
            let mut s = Supervisor::new(policy.backoff, breaker, seed);
            for (n, longest) in longest.iter_mut().enumerate() {
                assert_eq!(s.attempt(at(0)), n as u32 + 1);
                *longest = (*longest).max(delay(s.ended(at(0), None), at(0)));
            }
        }
        assert_eq!(longest[0], Duration::ZERO);
        for (n, longest) in longest.iter().enumerate().skip(1) {
            let most = (policy.backoff.base * (1 << (n - 1))).min(policy.backoff.cap);
            assert!(
                *longest <= most,
                "restart {n} waited {longest:?}, over {most:?}"
            );
            assert!(
                *longest >= most.mul_f64(0.9),
                "restart {n} never came near {most:?}"
            );
        }
    }

    #[test]
    fn eight_failures_in_a_minute_open_the_breaker_and_a_healthy_link_closes_it() {
        let mut s = supervisor();
        for n in 0..7 {
            assert!(
                matches!(s.ended(at(n * 1000), None), Decision::RetryAt(_)),
                "failure {n}"
            );
        }
        assert_eq!(s.ended(at(7000), None), Decision::OpenUntil(at(37_000)));
        assert_eq!(
            s.ended(at(37_500), Some(at(37_200))),
            Decision::OpenUntil(at(67_500))
        );
        assert_eq!(
            s.ended(at(90_000), Some(at(79_999))),
            Decision::RetryAt(at(90_000))
        );
        assert_eq!(
            s.attempt(at(90_000)),
            1,
            "a healthy link starts the count anew"
        );
        assert_eq!(s.ended(at(90_100), None), Decision::RetryAt(at(90_100)));
    }

    #[test]
    fn failures_outside_the_window_do_not_count() {
        let mut s = supervisor();
        for n in 0..40 {
            assert!(
                matches!(s.ended(at(n * 8600), None), Decision::RetryAt(_)),
                "failure {n}"
            );
        }
        assert!(s.recent.len() <= 8);
    }

    #[test]
    fn a_link_is_healthy_exactly_after_the_time() {
        let mut s = supervisor();
        s.ended(at(0), None);
        s.ended(at(0), None);
        assert_eq!(s.healthy_at(at(5)), Some(at(10_005)));
        s.ended(at(10_004), Some(at(5)));
        assert_eq!(s.failures, 3);
        assert_eq!(
            delay(s.ended(at(10_005), Some(at(5))), at(10_005)),
            Duration::ZERO
        );
        assert_eq!(s.failures, 0);
        assert_eq!(s.healthy_at(at(5)), None);
    }

    #[test]
    fn callers_bring_an_attempt_forward_ever_more_slowly_while_open() {
        let mut s = supervisor();
        assert_eq!(s.called(), Time::ZERO, "nothing was tried yet");
        s.attempt(at(500));
        assert_eq!(s.called(), at(1500));
        s.attempt_for_caller();
        assert_eq!(s.called(), at(1500), "not open: one a second");
        s.open(at(600));
        assert_eq!(s.called(), at(2500));
        for _ in 0..12 {
            s.attempt_for_caller();
        }
        assert_eq!(
            s.called(),
            at(30_500),
            "no slower than the breaker's own pace"
        );
        s.reset();
        assert_eq!(s.called(), at(1500));
    }
}
