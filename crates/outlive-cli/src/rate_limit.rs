//! Lines that are all alike: the first are written, the rest are counted.
//!
//! A server that prints in a loop has each line dropped, one that cannot be started fails again and again, and a
//! line about each would fill a disk and hide everything else. So of each kind of line a few are written, and then a
//! sum now and then, at intervals that grow while it goes on. A kind that was quiet for a whole interval begins anew.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// No interval is longer.
const LONGEST: Duration = Duration::from_secs(15 * 60);

/// So many kinds are known at a time; lines of further ones are written.
const KINDS: usize = 64;

/// What lines have in common, and how many of them are written.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Kind {
    /// The name of the event.
    pub event: &'static str,
    /// What else they have in common.
    pub about: String,
    /// What happened, after "7 more times: ".
    pub sentence: String,
    /// How many are written in each interval.
    pub most: u32,
    /// The time after which the rest is summed up.
    pub interval: Duration,
}

/// Lines that were not written.
#[derive(Debug, PartialEq, Eq)]
pub struct Untold {
    /// What they have in common.
    pub kind: Kind,
    /// How many there were.
    pub count: u64,
}

impl Untold {
    /// For a person.
    pub fn sentence(&self) -> String {
        let Untold { kind, count } = self;
        let times = if *count == 1 { "time" } else { "times" };
        format!("{count} more {times}: {}", kind.sentence)
    }
}

/// Limits how many lines of one kind are written.
#[derive(Debug, Default)]
pub struct RateLimit {
    levels: Mutex<BTreeMap<Kind, Level>>,
}

#[derive(Debug)]
struct Level {
    begun: Instant,
    interval: Duration,
    written: u32,
    untold: u64,
}

impl Level {
    fn is_over(&self, now: Instant) -> bool {
        now.saturating_duration_since(self.begun) >= self.interval
    }

    /// Whether it is over and left nothing to tell.
    fn is_past(&self, now: Instant) -> bool {
        self.is_over(now) && self.untold == 0
    }
}

impl RateLimit {
    /// Whether one more line may be written. Where it may not, it is counted.
    pub fn admits(&self, kind: &Kind, now: Instant) -> bool {
        let mut levels = self.lock();
        if levels.get(kind).is_some_and(|level| level.is_past(now)) {
            levels.remove(kind);
        }
        if levels.len() >= KINDS && !levels.contains_key(kind) {
            levels.retain(|_, level| !level.is_past(now));
        }
        if levels.len() >= KINDS && !levels.contains_key(kind) {
            return true;
        }
        let level = levels.entry(kind.clone()).or_insert(Level {
            begun: now,
            interval: kind.interval,
            written: 0,
            untold: 0,
        });
        let admits = level.written < kind.most;
        match admits {
            true => level.written += 1,
            false => level.untold += 1,
        }
        admits
    }

    /// The sums that are to be told by now.
    pub fn due(&self, now: Instant) -> Vec<Untold> {
        let mut due = Vec::new();
        self.lock().retain(|kind, level| {
            if level.is_past(now) {
                return false;
            }
            if !level.is_over(now) {
                return true;
            }
            let count = std::mem::take(&mut level.untold);
            let kind = kind.clone();
            due.push(Untold { kind, count });
            level.begun = now;
            level.interval = (2 * level.interval).min(LONGEST);
            true
        });
        due
    }

    /// All that was not told of an event, due or not; the next line of it is written.
    pub fn settle(&self, event: &str) -> Vec<Untold> {
        let mut levels = self.lock();
        let kinds: Vec<Kind> = levels
            .keys()
            .filter(|k| k.event == event)
            .cloned()
            .collect();
        let each = kinds.into_iter().filter_map(|kind| {
            let count = levels.remove(&kind)?.untold;
            (count > 0).then_some(Untold { kind, count })
        });
        each.collect()
    }

    /// All that was not told.
    pub fn all(&self) -> Vec<Untold> {
        let levels = std::mem::take(&mut *self.lock()).into_iter();
        let untold = levels.filter(|(_, level)| level.untold > 0);
        untold
            .map(|(kind, level)| Untold {
                kind,
                count: level.untold,
            })
            .collect()
    }

    /// When there will be something to tell, at the earliest.
    pub fn next(&self) -> Option<Instant> {
        let levels = self.lock();
        let waiting = levels.values().filter(|level| level.untold > 0);
        waiting.map(|level| level.begun + level.interval).min()
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<Kind, Level>> {
        self.levels.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn kind(about: &str) -> Kind {
        Kind {
            event: "dropped",
            about: about.into(),
            sentence: "dropped a line".into(),
            most: 5,
            interval: 10 * SECOND,
        }
    }

    #[test]
    fn the_first_are_written_and_the_rest_are_summed_up_at_growing_intervals() {
        let (rate_limit, begun) = (RateLimit::default(), Instant::now());
        let (mut written, mut sums) = (0, Vec::new());
        // A hundred lines a second for ten minutes.
        for tick in 0..60_000_u32 {
            let now = begun + tick * SECOND / 100;
            sums.extend(rate_limit.due(now).into_iter().map(|untold| untold.count));
            written += u64::from(rate_limit.admits(&kind("junk"), now));
        }
        assert_eq!(written, 5);
        assert_eq!(sums, [995, 2000, 4000, 8000, 16_000]);
        let rest: u64 = rate_limit.all().iter().map(|untold| untold.count).sum();
        assert_eq!(written + sums.iter().sum::<u64>() + rest, 60_000);
        assert_eq!(rate_limit.all(), [], "it is told once");
    }

    #[test]
    fn kinds_do_not_hide_each_other_and_quiet_ones_begin_anew() {
        let (rate_limit, begun) = (RateLimit::default(), Instant::now());
        let admitted = |about: &str, at: Instant| {
            let lines = (0..20).filter(|_| rate_limit.admits(&kind(about), at));
            lines.count()
        };
        assert_eq!((admitted("one", begun), admitted("other", begun)), (5, 5));
        assert_eq!(rate_limit.next(), Some(begun + 10 * SECOND));
        assert_eq!(rate_limit.due(begun + 10 * SECOND).len(), 2);
        assert_eq!(rate_limit.next(), None, "all is told");
        assert_eq!(admitted("one", begun + 30 * SECOND), 5);
        let sums = rate_limit.settle("dropped");
        assert_eq!(sums[0].sentence(), "15 more times: dropped a line");
        assert_eq!(sums.len(), 1);
        assert_eq!(admitted("one", begun + 30 * SECOND), 5);
    }

    #[test]
    fn the_memory_of_kinds_is_bounded() {
        let (rate_limit, now) = (RateLimit::default(), Instant::now());
        for n in 0..10 * KINDS {
            assert!(rate_limit.admits(&kind(&n.to_string()), now));
        }
        assert_eq!(rate_limit.lock().len(), KINDS);
    }
}
