//! Whether to look for news a little longer, or to sleep until woken.
//!
//! A process that sleeps is woken within tens of microseconds, and waking it costs its peer as much
//! again. Many servers answer sooner than that. So while messages come in quick succession, they
//! are looked for. The length of one wait says a good deal about the next (virtual machines decide
//! by the same rule whether to halt), and a wrong guess costs [`LINGER`] once: a session at rest
//! sleeps, and so does one whose server takes its time.

use std::thread;
use std::time::{Duration, Instant};

/// How long news is looked for. Waits shorter than this are followed by a look.
const LINGER: Duration = Duration::from_micros(50);

#[derive(Debug)]
pub(crate) struct Linger {
    /// There is a processor for us and another one for our peers.
    parallel: bool,
    /// When a peer was heard, if one was since all was done.
    heard: Option<Instant>,
    /// Since when all has been done that could be.
    idle_since: Instant,
    /// The last wait was short.
    brisk: bool,
}

impl Linger {
    pub(crate) fn new(now: Instant) -> Linger {
        Linger {
            parallel: thread::available_parallelism().is_ok_and(|n| n.get() > 1),
            heard: None,
            idle_since: now,
            brisk: false,
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
        let now = Instant::now();
        if let Some(heard) = self.heard.take() {
            self.brisk = heard.duration_since(self.idle_since) < LINGER;
            self.idle_since = now;
        }
        self.parallel && self.brisk && now.duration_since(self.idle_since) < LINGER
    }
}
