//! Whether to look for news a little longer, or to sleep until woken.
//!
//! Whoever sleeps has to be woken, which on a machine at rest takes tens of microseconds and costs
//! its peer as much again. Many servers answer sooner than that, so while messages come in quick
//! succession they are looked for, up to [`SPIN`]. On a busy machine it is the other way round:
//! who looks may hold the very processor its peer waits for. Which of the two it is cannot be
//! known, but it can be measured: waits are timed both ways, the way that is shorter is taken, and
//! the other is tried now and then. If both take long, there is nothing to be gained: a session at
//! rest sleeps, and so does one whose server takes its time.
//!
//! Nor does anybody look while others may wait for the thread: see [`Thread`].

use std::thread;
use std::time::{Duration, Instant};

/// How long news is looked for. Only a wait shorter than this is followed by a look.
const SPIN: Duration = Duration::from_micros(50);

/// Waits until the way that is not usual is tried, after it last proved better …
const FIRST_TRY: u32 = 32;

/// … and after many tries in vain.
const LAST_TRY: u32 = 1024;

/// Answers that are handed out in one turn on [the only thread](Thread::Only): while the next ones are, the
/// server is at work for whoever was given these.
const MOST_TOLD: usize = 8;

/// Who else may want a thread that looks for news.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Thread {
    /// Nobody.
    Own,
    /// Whoever was told something, before it looks for more: it may be one of several.
    Worker,
    /// All tasks there are: also between two looks.
    Only,
    /// A few tasks of one host, which look in turns.
    Shared,
}

/// How a source is asked for news.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Look {
    /// The runtime is asked whether there is any.
    Usual,
    /// The source itself is asked first: the runtime finds out only when nobody has anything to do.
    Closely,
}

/// What to do when all has been done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Next {
    /// Look for news once more.
    Look,
    /// Let others have this thread, then look.
    Yield,
    /// Wait until woken.
    Sleep,
}

#[derive(Debug)]
pub(crate) struct Spin {
    /// There is a processor for us and another one for our peers.
    parallel: bool,
    /// How often somebody was told something who may wait for this thread to go on.
    told: usize,
    /// When a peer was heard, if one was since all was done.
    heard: Option<Instant>,
    /// Since when all has been done that could be.
    idle_since: Instant,
    /// How the time since then is spent.
    way: Way,
    /// How long waits are on average when they are slept through, and when news is looked for.
    slept: Duration,
    looked: Duration,
    /// Looking is usual.
    looks: bool,
    /// Waits until the other way is tried, this time and the next.
    until_try: u32,
    pause: u32,
}

/// How a wait is spent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    Looking,
    /// Looking was in vain.
    Looked,
    Sleeping,
    /// Others have this thread.
    Away,
}

impl Spin {
    pub(crate) fn new(now: Instant) -> Spin {
        Spin {
            parallel: thread::available_parallelism().is_ok_and(|n| n.get() > 1),
            told: 0,
            heard: None,
            idle_since: now,
            way: Way::Away,
            slept: SPIN,
            looked: Duration::ZERO,
            looks: true,
            until_try: FIRST_TRY,
            pause: FIRST_TRY,
        }
    }

    /// Others have had this thread.
    pub(crate) fn resume(&mut self) {
        self.told = 0;
    }

    /// Somebody is told something.
    pub(crate) fn tell(&mut self) {
        self.told += 1;
    }

    /// Whether so many were told something that they should have this thread first.
    pub(crate) fn is_sated(&self, thread: Option<Thread>) -> bool {
        thread == Some(Thread::Only) && self.told >= MOST_TOLD
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

    /// All has been done: what next? `thread`: whose this is, if there is anything to be seen by looking.
    pub(crate) fn next(&mut self, thread: Option<Thread>) -> Next {
        let free = match thread {
            None => false,
            Some(Thread::Own) => true,
            Some(Thread::Worker | Thread::Only | Thread::Shared) => self.told == 0,
        };
        match self.goes_on(Instant::now(), free) {
            false => Next::Sleep,
            true if matches!(thread, Some(Thread::Only | Thread::Shared)) => Next::Yield,
            true => Next::Look,
        }
    }

    /// Whether to look for news once more. `free`: nobody else waits for this thread.
    fn goes_on(&mut self, now: Instant, free: bool) -> bool {
        if let Some(heard) = self.heard.take() {
            let wait = heard.saturating_duration_since(self.idle_since).min(SPIN);
            self.learn(wait);
            self.way = match free {
                false => Way::Away,
                true if self.parallel && wait < SPIN && self.chooses_to_look() => Way::Looking,
                true => Way::Sleeping,
            };
            self.idle_since = now;
        }
        if self.way == Way::Looking && now.duration_since(self.idle_since) >= SPIN {
            self.way = Way::Looked;
        }
        free && self.way == Way::Looking
    }

    fn learn(&mut self, wait: Duration) {
        let mean = match self.way {
            Way::Looking | Way::Looked => &mut self.looked,
            Way::Sleeping => &mut self.slept,
            Way::Away => return,
        };
        *mean = (*mean * 7 + wait) / 8;
        // It costs processor time, so it has to be worth it.
        let looks = self.looked * 4 < self.slept * 3;
        if looks != self.looks {
            self.looks = looks;
            (self.until_try, self.pause) = (FIRST_TRY, FIRST_TRY);
        }
    }

    fn chooses_to_look(&mut self) -> bool {
        if self.until_try > 0 {
            self.until_try -= 1;
            return self.looks;
        }
        self.pause = (self.pause * 2).min(LAST_TRY);
        self.until_try = self.pause;
        !self.looks
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A peer, and what it takes to hear it.
    #[derive(Clone, Copy)]
    struct Peer {
        /// Until it says something, if it is looked at.
        looked: Duration,
        /// Until it is heard by somebody who has to be woken.
        slept: Duration,
    }

    const QUIET: Peer = Peer {
        looked: Duration::from_micros(10),
        slept: Duration::from_micros(40),
    };
    /// Whoever looks keeps it from its processor.
    const BUSY: Peer = Peer {
        looked: Duration::from_micros(200),
        slept: Duration::from_micros(15),
    };
    const SLOW: Peer = Peer {
        looked: Duration::from_millis(10),
        slept: Duration::from_millis(10),
    };

    struct Rig {
        spin: Spin,
        now: Instant,
    }

    impl Rig {
        fn new() -> Rig {
            let now = Instant::now();
            let spin = Spin {
                parallel: true,
                ..Spin::new(now)
            };
            Rig { spin, now }
        }

        /// Waits for the peer: whether it was looked for, and how long.
        fn wait(&mut self, peer: Peer, free: bool) -> (bool, Duration) {
            let looks = self.spin.goes_on(self.now, free);
            let wait = if looks { peer.looked } else { peer.slept };
            let looked = wait.min(SPIN + Duration::from_nanos(1));
            assert!(!self.spin.goes_on(self.now + looked, free) || wait < SPIN);
            self.now += wait;
            self.spin.heard = Some(self.now);
            (looks, looked)
        }

        /// The share of waits that were looked for, and of the time that was spent on it.
        fn shares(&mut self, peer: Peer, waits: u32) -> (f64, f64) {
            let (begun, mut looks, mut spent) = (self.now, 0, Duration::ZERO);
            for _ in 0..waits {
                let (looked, time) = self.wait(peer, true);
                looks += u32::from(looked);
                spent += if looked { time } else { Duration::ZERO };
            }
            let share = spent.as_secs_f64() / (self.now - begun).as_secs_f64();
            (f64::from(looks) / f64::from(waits), share)
        }
    }

    #[test]
    fn quick_news_is_looked_for_from_the_second_wait_on() {
        let mut rig = Rig::new();
        let looked: Vec<bool> = (0..5).map(|_| rig.wait(QUIET, true).0).collect();
        assert_eq!(looked, [false, true, true, true, true]);
        assert!(rig.shares(QUIET, 10_000).0 > 0.95);
    }

    #[test]
    fn slow_news_is_slept_for() {
        let mut rig = Rig::new();
        assert_eq!(rig.shares(SLOW, 100).0, 0.0);
        rig.shares(QUIET, 100);
        // The one look that nobody could know to be in vain.
        assert!(rig.wait(SLOW, true).0);
        assert_eq!(rig.shares(SLOW, 100).0, 0.0);
    }

    #[test]
    fn looks_in_vain_become_rare() {
        let mut rig = Rig::new();
        let mut looks = 0;
        for _ in 0..10_000 {
            rig.wait(QUIET, false);
            looks += u32::from(rig.wait(SLOW, true).0);
        }
        assert!((5..100).contains(&looks), "{looks}");
    }

    #[test]
    fn a_peer_that_needs_our_processor_gets_it() {
        let mut rig = Rig::new();
        rig.shares(BUSY, 1000);
        let (_, time) = rig.shares(BUSY, 10_000);
        assert!((0.0001..0.02).contains(&time), "{time}");
    }

    #[test]
    fn it_is_noticed_when_looking_begins_or_ceases_to_pay() {
        let mut rig = Rig::new();
        for _ in 0..3 {
            rig.shares(BUSY, 20_000);
            rig.shares(QUIET, 20_000);
            assert!(rig.shares(QUIET, 1000).0 > 0.95);
            rig.shares(BUSY, 2000);
            assert!(rig.shares(BUSY, 1000).0 < 0.05);
        }
    }

    #[test]
    fn nobody_looks_while_others_wait_for_the_thread() {
        let mut rig = Rig::new();
        rig.shares(QUIET, 100);
        for _ in 0..100 {
            assert!(!rig.wait(QUIET, false).0);
        }
    }

    #[test]
    fn those_who_were_told_something_have_the_thread_first() {
        let mut rig = Rig::new();
        rig.shares(QUIET, 100);
        for (thread, told, next) in [
            (Thread::Own, 1, Next::Look),
            (Thread::Worker, 0, Next::Look),
            (Thread::Worker, 1, Next::Sleep),
            (Thread::Only, 0, Next::Yield),
            (Thread::Only, 1, Next::Sleep),
        ] {
            let mut spin = Spin {
                told,
                way: Way::Looking,
                heard: None,
                idle_since: Instant::now() + SPIN,
                ..Spin::new(rig.now)
            };
            assert_eq!(spin.next(Some(thread)), next, "{thread:?}, {told} told");
            assert_eq!(spin.next(None), Next::Sleep);
        }
    }

    #[test]
    fn only_tasks_without_another_thread_interrupt_a_turn() {
        let mut spin = Rig::new().spin;
        for _ in 0..MOST_TOLD {
            assert!(!spin.is_sated(Some(Thread::Only)));
            spin.tell();
        }
        assert!(spin.is_sated(Some(Thread::Only)));
        assert!(!spin.is_sated(Some(Thread::Worker)));
        spin.resume();
        assert!(!spin.is_sated(Some(Thread::Only)));
    }

    #[test]
    fn one_processor_is_left_to_the_peers() {
        let mut rig = Rig::new();
        rig.spin.parallel = false;
        assert_eq!(rig.shares(QUIET, 1000).0, 0.0);
    }
}
