//! Whether to look for news a little longer, or to sleep until woken.
//!
//! A process that sleeps is woken within tens of microseconds, and waking it costs its peer as much
//! again. Many servers answer sooner than that. So while messages come in quick succession, they
//! are looked for. The length of one wait says a good deal about the next; virtual machines decide
//! by the same rule whether to halt. A look in vain costs [`LINGER`], and each makes the next one
//! rarer: a session at rest sleeps, so does one whose server takes its time, and on a busy machine
//! the processor is left to those who have work for it.

use std::thread;
use std::time::{Duration, Instant};

/// How long news is looked for. Waits shorter than this are followed by a look.
const LINGER: Duration = Duration::from_micros(50);

/// Waits without a look after many looks in vain.
const MOST_SKIPPED: u32 = 1024;

#[derive(Debug)]
pub(crate) struct Linger {
    /// There is a processor for us and another one for our peers.
    parallel: bool,
    /// When a peer was heard, if one was since all was done.
    heard: Option<Instant>,
    /// Since when all has been done that could be.
    idle_since: Instant,
    /// News is being looked for.
    looking: bool,
    /// Waits that are slept through after the next look in vain; doubled by it.
    penalty: u32,
    /// Waits still to be slept through.
    skip: u32,
}

impl Linger {
    pub(crate) fn new(now: Instant) -> Linger {
        Linger {
            parallel: thread::available_parallelism().is_ok_and(|n| n.get() > 1),
            heard: None,
            idle_since: now,
            looking: false,
            penalty: 1,
            skip: 0,
        }
    }

    /// A peer is heard. Tells the time if it is the first since all was done.
    pub(crate) fn hear(&mut self) -> Option<Instant> {
        if self.heard.is_some() {
            return None;
        }
        self.heard = Some(Instant::now());
        self.heard
    }

    /// Whether a peer was heard since all was done.
    pub(crate) fn has_heard(&self) -> bool {
        self.heard.is_some()
    }

    /// All has been done: whether to look for news once more.
    pub(crate) fn goes_on(&mut self) -> bool {
        self.goes_on_at(Instant::now())
    }

    fn goes_on_at(&mut self, now: Instant) -> bool {
        if let Some(heard) = self.heard.take() {
            if self.looking {
                self.penalty = (self.penalty / 2).max(1);
            }
            let brisk = heard.duration_since(self.idle_since) < LINGER;
            self.looking = self.parallel && brisk && self.skip == 0;
            self.skip = self.skip.saturating_sub(1);
            self.idle_since = now;
        }
        if self.looking && now.duration_since(self.idle_since) >= LINGER {
            self.looking = false;
            self.skip = self.penalty;
            self.penalty = (self.penalty * 2).min(MOST_SKIPPED);
        }
        self.looking
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Lets news come after each of `waits`; tells for each whether it was looked for.
    fn looks(linger: &mut Linger, now: &mut Instant, waits: &[Duration]) -> Vec<bool> {
        let mut looked = Vec::new();
        for wait in waits {
            looked.push(linger.goes_on_at(*now));
            *now += *wait;
            linger.goes_on_at(*now);
            linger.heard = Some(*now);
        }
        looked
    }

    fn linger(now: Instant) -> Linger {
        Linger {
            parallel: true,
            ..Linger::new(now)
        }
    }

    const SHORT: Duration = Duration::from_micros(10);
    const LONG: Duration = Duration::from_millis(10);

    #[test]
    fn quick_news_is_looked_for_from_the_second_wait_on() {
        let mut now = Instant::now();
        let mut linger = linger(now);
        let looked = looks(&mut linger, &mut now, &[SHORT; 5]);
        assert_eq!(looked, [false, true, true, true, true]);
    }

    #[test]
    fn slow_news_is_slept_for() {
        let mut now = Instant::now();
        let mut linger = linger(now);
        assert_eq!(looks(&mut linger, &mut now, &[LONG; 5]), [false; 5]);
        assert!(!linger.goes_on_at(now + LONG));
    }

    #[test]
    fn looks_in_vain_become_rare() {
        let mut now = Instant::now();
        let mut linger = linger(now);
        let waits = [SHORT, LONG].repeat(10_000);
        let looked = looks(&mut linger, &mut now, &waits);
        let count = looked.iter().filter(|looked| **looked).count();
        assert!((10..100).contains(&count), "{count}");
    }

    #[test]
    fn one_processor_is_left_to_the_peers() {
        let mut now = Instant::now();
        let mut linger = Linger {
            parallel: false,
            ..Linger::new(now)
        };
        assert_eq!(looks(&mut linger, &mut now, &[SHORT; 5]), [false; 5]);
    }
}
