//! What happened on the wire, and when.

use std::borrow::Cow;
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Instant;

use serde::Serialize;

/// A message longer than this is cut in the middle.
const LONGEST: usize = 1_000;
/// So many entries are kept from the beginning.
const FIRST: usize = 60;
/// So many entries are kept from the end.
const LAST: usize = 240;
/// So many ends of processes are kept.
const EXITS: usize = 100;
/// So many lines of standard error are kept.
const STDERR_TAIL: usize = 40;

/// The record of one scenario. Clones write into the same one.
#[derive(Clone, Debug)]
pub struct Journal(Arc<Mutex<Pages>>);

#[derive(Debug)]
struct Pages {
    begun: Instant,
    first: Vec<Entry>,
    last: VecDeque<Entry>,
    omitted: usize,
    exits: Vec<String>,
    stderr: VecDeque<String>,
    waiting: String,
}

/// One thing that happened.
#[derive(Clone, Debug, Serialize)]
pub struct Entry {
    /// Milliseconds since the scenario began.
    pub at_ms: f64,
    /// Between whom: `host`, or `host 2` where there are several.
    pub leg: String,
    /// Which way it went, seen from the check.
    pub direction: Direction,
    /// The line, shortened; bytes that are not text are replaced.
    pub text: String,
    /// How many bytes it was.
    pub bytes: usize,
}

/// Which way something went, seen from the check.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Direction {
    /// To the program under test.
    Sent,
    /// From it.
    Received,
    /// Neither: something was done or noticed.
    Note,
}

/// What a verdict rests on.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Evidence {
    /// The wire, in order.
    pub transcript: Vec<Entry>,
    /// How many entries were left out, after the first [`Evidence::omitted_after`].
    pub omitted: usize,
    /// Where entries were left out.
    pub omitted_after: usize,
    /// How processes ended.
    pub exits: Vec<String>,
    /// The last lines of standard error.
    pub stderr_tail: Vec<String>,
}

impl Default for Journal {
    fn default() -> Journal {
        Journal(Arc::new(Mutex::new(Pages {
            begun: Instant::now(),
            first: Vec::new(),
            last: VecDeque::new(),
            omitted: 0,
            exits: Vec::new(),
            stderr: VecDeque::new(),
            waiting: String::new(),
        })))
    }
}

/// One connection of a scenario, and the journal it is written into.
#[derive(Clone, Debug)]
pub struct Leg {
    journal: Journal,
    name: Cow<'static, str>,
}

impl Leg {
    /// Something was sent to the program under test.
    pub fn sent(&self, bytes: &[u8]) {
        self.write(Direction::Sent, shortened(bytes), bytes.len());
    }

    /// Something came from it.
    pub fn received(&self, bytes: &[u8]) {
        self.write(Direction::Received, shortened(bytes), bytes.len());
    }

    /// Something was done or noticed.
    pub fn note(&self, text: impl Into<String>) {
        self.write(Direction::Note, text.into(), 0);
    }

    /// A process ended.
    pub fn exited(&self, how: String) {
        self.note(how.clone());
        let mut pages = self.journal.pages();
        if pages.exits.len() < EXITS {
            pages.exits.push(how);
        }
    }

    /// A line came on standard error.
    pub fn stderr(&self, line: &[u8]) {
        let mut pages = self.journal.pages();
        if pages.stderr.len() == STDERR_TAIL {
            pages.stderr.pop_front();
        }
        pages.stderr.push_back(shortened(line));
    }

    /// What is waited for now, for the case that it never comes.
    pub fn waits_for(&self, what: &str) {
        self.journal.pages().waiting = what.to_owned();
    }

    fn write(&self, direction: Direction, text: String, bytes: usize) {
        self.journal.write(&self.name, direction, text, bytes);
    }
}

impl Journal {
    /// A connection that is written into this journal under a name.
    pub fn leg(&self, name: impl Into<Cow<'static, str>>) -> Leg {
        Leg {
            journal: self.clone(),
            name: name.into(),
        }
    }

    /// What was last waited for.
    pub fn waiting(&self) -> String {
        self.pages().waiting.clone()
    }

    /// All of it.
    pub fn evidence(&self) -> Evidence {
        let pages = self.pages();
        Evidence {
            transcript: pages.first.iter().chain(&pages.last).cloned().collect(),
            omitted: pages.omitted,
            omitted_after: pages.first.len(),
            exits: pages.exits.clone(),
            stderr_tail: pages.stderr.iter().cloned().collect(),
        }
    }

    fn write(&self, leg: &str, direction: Direction, text: String, bytes: usize) {
        let mut pages = self.pages();
        let entry = Entry {
            at_ms: (pages.begun.elapsed().as_secs_f64() * 1e5).round() / 1e2,
            leg: leg.to_owned(),
            direction,
            text,
            bytes,
        };
        if pages.first.len() < FIRST {
            return pages.first.push(entry);
        }
        if pages.last.len() == LAST {
            pages.last.pop_front();
            pages.omitted += 1;
        }
        pages.last.push_back(entry);
    }

    fn pages(&self) -> MutexGuard<'_, Pages> {
        self.0.lock().unwrap_or_else(|broken| broken.into_inner())
    }
}

/// One line a person can read: control characters are escaped, the middle of a long one is left out.
fn shortened(bytes: &[u8]) -> String {
    let bytes = bytes.strip_suffix(b"\n").unwrap_or(bytes);
    if bytes.len() <= LONGEST {
        return readable(bytes);
    }
    let (head, tail) = (
        &bytes[..LONGEST * 3 / 4],
        &bytes[bytes.len() - LONGEST / 4..],
    );
    let left_out = bytes.len() - head.len() - tail.len();
    format!("{} … {left_out} bytes … {}", readable(head), readable(tail))
}

fn readable(bytes: &[u8]) -> String {
    let mut text = String::new();
    for c in String::from_utf8_lossy(bytes).chars() {
        match c {
            '\n' => text.push_str("\\n"),
            '\r' => text.push_str("\\r"),
            '\u{feff}' => text.push_str("\\u{feff}"),
            c if c.is_control() => text.extend(c.escape_default()),
            c => text.push(c),
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_beginning_and_the_end_are_kept() {
        let journal = Journal::default();
        let leg = journal.leg("host");
        for n in 0..1_000 {
            leg.sent(format!("{n}\n").as_bytes());
        }
        let evidence = journal.evidence();
        assert_eq!(evidence.transcript.len(), FIRST + LAST);
        assert_eq!(evidence.omitted, 1_000 - FIRST - LAST);
        assert_eq!(evidence.transcript[0].text, "0");
        assert_eq!(
            evidence.transcript.last().map(|e| e.text.as_str()),
            Some("999")
        );
    }

    #[test]
    fn bytes_become_one_readable_line() {
        assert_eq!(shortened(b"a\r\nb\n"), "a\\r\\nb");
        assert_eq!(shortened(b"\xff\x1b[1m"), "\u{fffd}\\u{1b}[1m");
        let long = vec![b'x'; 5_000];
        assert!(shortened(&long).contains(" … 4000 bytes … "));
    }
}
