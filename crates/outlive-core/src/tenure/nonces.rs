//! What was sent before is not heard again.
//!
//! Whoever forwards requests numbers them from 1, under a name that no other has. Whoever gets them remembers, of each
//! sender, the highest number and which of those before it have come, in a window of [`WINDOW`] numbers: what is behind
//! the window is refused whether or not it has come. A sender that was silent for longer than a request is
//! [fresh](FRESH) may be forgotten: all that it has sent is stale by then.
//!
//! Unless a wall clock is set back. So what the forgotten have signed last is remembered, and whoever is not known must
//! have signed later. How long a sender was silent is counted by a clock that nobody sets.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::time::Time;

/// How old, or how far ahead by another clock, a request may be that is heard.
pub const FRESH: Duration = Duration::from_secs(30);

/// How many numbers of a sender are told apart.
pub const WINDOW: u64 = 1 << 14;

/// How many senders are known at once.
const SENDERS: usize = 256;

const WORD: u64 = u64::BITS as u64;

/// What one receiver has heard.
#[derive(Clone, Debug, Default)]
pub struct Nonces {
    senders: BTreeMap<u64, Heard>,
    /// When the last request was made of a sender that was forgotten.
    forgotten: Duration,
}

#[derive(Clone, Debug)]
struct Heard {
    highest: u64,
    /// One bit for each number of the window, at its remainder.
    bits: Box<[u64]>,
    /// When its last request was made, by its own wall clock, and when it came.
    made: Duration,
    last: Time,
}

impl Nonces {
    /// Whether this number of a sender is new. It is not new again. It was `made` at this time since 1970; `now` is the
    /// time here, by a clock that only goes on.
    pub fn admit(&mut self, sender: u64, number: u64, made: Duration, now: Time) -> bool {
        if !self.senders.contains_key(&sender) {
            if self.senders.len() >= SENDERS {
                self.forget(now);
            }
            if self.senders.len() >= SENDERS || made <= self.forgotten {
                return false;
            }
        }
        let heard = self.senders.entry(sender).or_insert_with(|| Heard {
            highest: 0,
            bits: vec![0; (WINDOW / WORD) as usize].into(),
            made,
            last: now,
        });
        heard.made = heard.made.max(made);
        heard.last = heard.last.max(now);
        heard.admit(number)
    }

    /// Forgets the senders that were silent for so long that nothing they have sent is fresh.
    fn forget(&mut self, now: Time) {
        // Twice: once for a clock that is behind, once for one that is ahead.
        let is_silent = |heard: &Heard| heard.last + FRESH * 2 <= now;
        let silent = self.senders.values().filter(|it| is_silent(it));
        let made = silent.map(|it| it.made).max().unwrap_or_default();
        self.forgotten = self.forgotten.max(made);
        self.senders.retain(|_, heard| !is_silent(heard));
    }

    /// How many senders are known.
    pub fn len(&self) -> usize {
        self.senders.len()
    }

    /// Whether none is.
    pub fn is_empty(&self) -> bool {
        self.senders.is_empty()
    }
}

impl Heard {
    fn admit(&mut self, number: u64) -> bool {
        if number == 0 || number.saturating_add(WINDOW) <= self.highest {
            return false;
        }
        if self.highest < number {
            // What the window leaves behind makes room.
            match number - self.highest < WINDOW {
                true => (self.highest + 1..=number).for_each(|number| self.clear(number)),
                false => self.bits.fill(0),
            }
            self.highest = number;
        }
        let (word, bit) = place(number);
        let is_new = self.bits[word] & bit == 0;
        self.bits[word] |= bit;
        is_new
    }

    fn clear(&mut self, number: u64) {
        let (word, bit) = place(number);
        self.bits[word] &= !bit;
    }
}

fn place(number: u64) -> (usize, u64) {
    let at = number % WINDOW;
    ((at / WORD) as usize, 1 << (at % WORD))
}
