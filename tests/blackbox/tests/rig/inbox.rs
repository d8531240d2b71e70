//! Everything `outlive` has written to the host so far.

use std::io::{BufRead, BufReader, Read};
use std::sync::{Condvar, Mutex};
use std::time::Instant;

use serde_json::Value;

use super::{PATIENCE, lock};

/// A record of lines that only grows, and that can be waited on.
#[derive(Default)]
pub struct Inbox {
    lines: Mutex<Lines>,
    change: Condvar,
    paused: Mutex<bool>,
    resumed: Condvar,
}

#[derive(Default)]
struct Lines {
    all: Vec<Vec<u8>>,
    ended: bool,
}

impl Inbox {
    /// Reads to the end, but for pauses.
    pub fn fill(&self, stdout: impl Read) {
        let mut stdout = BufReader::new(stdout);
        loop {
            let mut paused = lock(&self.paused);
            while *paused {
                paused = self.resumed.wait(paused).unwrap_or_else(|e| e.into_inner());
            }
            drop(paused);
            let mut line = Vec::new();
            let ended = !matches!(stdout.read_until(b'\n', &mut line), Ok(1..));
            let mut lines = lock(&self.lines);
            lines.ended = ended;
            if !ended {
                lines.all.push(line);
            }
            self.change.notify_all();
            if ended {
                return;
            }
        }
    }

    /// Stops reading after the line in hand, or reads on.
    pub fn pause(&self, paused: bool) {
        *lock(&self.paused) = paused;
        self.resumed.notify_all();
    }

    /// The first message that fits, once it is there.
    #[track_caller]
    pub fn wait_for(&self, what: &str, fits: impl Fn(&Value) -> bool) -> Value {
        let start = Instant::now();
        let mut seen = 0;
        let mut lines = lock(&self.lines);
        loop {
            while seen < lines.all.len() {
                if let Ok(message) = serde_json::from_slice(&lines.all[seen])
                    && fits(&message)
                {
                    return message;
                }
                seen += 1;
            }
            assert!(!lines.ended, "outlive closed its output before {what} came");
            let left = PATIENCE.saturating_sub(start.elapsed());
            assert!(!left.is_zero(), "waited in vain for {what}");
            lines = match self.change.wait_timeout(lines, left) {
                Ok((lines, _)) => lines,
                Err(poisoned) => poisoned.into_inner().0,
            };
        }
    }

    /// All lines so far.
    pub fn lines(&self) -> Vec<Vec<u8>> {
        lock(&self.lines).all.clone()
    }

    /// Whether the output was closed.
    pub fn ended(&self) -> bool {
        lock(&self.lines).ended
    }
}
