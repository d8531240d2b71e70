//! Lines that are all alike: the first are written, the rest are counted.
//!
//! A server that prints in a loop has each line dropped, and a line about each would fill a disk faster
//! than the server itself could.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// So many lines …
const MOST: u32 = 100;
/// … in this time.
const WINDOW: Duration = Duration::from_secs(1);

/// Keeps lines from becoming a flood.
#[derive(Debug, Default)]
pub struct Flood {
    level: Mutex<Level>,
}

#[derive(Debug, Default)]
struct Level {
    /// When the time began that is counted in.
    begun: Option<Instant>,
    written: u32,
    untold: u64,
}

impl Flood {
    /// Whether one more line may be written.
    pub fn admits(&self, now: Instant) -> bool {
        let mut level = self.level.lock().unwrap_or_else(PoisonError::into_inner);
        if level.begun.is_none_or(|begun| now - begun >= WINDOW) {
            level.begun = Some(now);
            level.written = 0;
        }
        let admits = level.written < MOST;
        match admits {
            true => level.written += 1,
            false => level.untold += 1,
        }
        admits
    }

    /// How many were not, since this was last asked.
    pub fn untold(&self) -> u64 {
        let mut level = self.level.lock().unwrap_or_else(PoisonError::into_inner);
        std::mem::take(&mut level.untold)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_are_written_and_the_rest_are_counted() {
        let (flood, begun) = (Flood::default(), Instant::now());
        let admitted = |at: Duration| (0..1000).filter(|_| flood.admits(begun + at)).count();
        assert_eq!(admitted(Duration::ZERO), MOST as usize);
        assert_eq!(admitted(WINDOW / 2), 0);
        assert_eq!(flood.untold(), 2000 - u64::from(MOST));
        assert_eq!(flood.untold(), 0, "it is told once");
        assert_eq!(admitted(WINDOW), MOST as usize);
    }
}
