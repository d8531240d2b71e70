//! Small collections that cannot outgrow their bounds.

use std::collections::VecDeque;
use std::hash::Hash;

use rustc_hash::FxHashSet;

use crate::time::Time;

/// A set that remembers the newest `limit` members and forgets the oldest.
#[derive(Clone, Debug)]
pub(crate) struct RecentSet<T> {
    members: FxHashSet<T>,
    order: VecDeque<T>,
    limit: usize,
    forgetful: bool,
}

impl<T: Clone + Eq + Hash> Default for RecentSet<T> {
    fn default() -> RecentSet<T> {
        RecentSet::new(1024)
    }
}

impl<T: Clone + Eq + Hash> RecentSet<T> {
    pub(crate) fn new(limit: usize) -> RecentSet<T> {
        RecentSet {
            members: FxHashSet::default(),
            order: VecDeque::new(),
            limit,
            forgetful: false,
        }
    }

    pub(crate) fn insert(&mut self, member: T) {
        if self.members.insert(member.clone()) {
            self.order.push_back(member);
            if self.order.len() > self.limit
                && let Some(oldest) = self.order.pop_front()
            {
                self.members.remove(&oldest);
                self.forgetful = true;
            }
        }
    }

    pub(crate) fn contains(&self, member: &T) -> bool {
        // The common case on the hot path is an empty set: no hashing then.
        !self.members.is_empty() && self.members.contains(member)
    }

    /// The members, from the oldest to the newest.
    pub(crate) fn iter(&self) -> impl ExactSizeIterator<Item = &T> {
        self.order.iter()
    }

    /// Whether a member may have been forgotten.
    pub(crate) fn is_forgetful(&self) -> bool {
        self.forgetful
    }

    pub(crate) fn len(&self) -> usize {
        self.order.len()
    }
}

/// The last lines of a stream of text and when they came, bounded by lines and bytes, control characters escaped.
#[derive(Clone, Debug)]
pub(crate) struct Tail {
    lines: VecDeque<(Time, String)>,
    bytes: usize,
    max_lines: usize,
    max_bytes: usize,
}

impl Tail {
    pub(crate) fn new(max_lines: usize, max_bytes: usize) -> Tail {
        Tail {
            lines: VecDeque::new(),
            bytes: 0,
            max_lines,
            max_bytes,
        }
    }

    /// Adds a line. One without a letter or digit (blank, or the rule under a traceback) is not
    /// worth a place.
    pub(crate) fn push(&mut self, now: Time, line: &str) {
        let mut line = escape(line.trim_end());
        if !line.contains(char::is_alphanumeric) {
            return;
        }
        if line.len() > self.max_bytes {
            let end = line.floor_char_boundary(self.max_bytes);
            line.truncate(end);
        }
        self.bytes += line.len();
        self.lines.push_back((now, line));
        while self.lines.len() > self.max_lines || self.bytes > self.max_bytes {
            match self.lines.pop_front() {
                Some((_, oldest)) => self.bytes -= oldest.len(),
                None => break,
            }
        }
    }

    /// The lines that came at that moment or later.
    pub(crate) fn since(&self, since: Time) -> Vec<String> {
        let fresh = self.lines.iter().filter(|(at, _)| *at >= since);
        fresh.map(|(_, line)| line.clone()).collect()
    }

    #[cfg(test)]
    fn to_vec(&self) -> Vec<String> {
        self.since(Time::ZERO)
    }

    #[cfg(test)]
    pub(crate) fn sizes(&self) -> (usize, usize) {
        (self.lines.len(), self.bytes)
    }
}

/// The text with control characters written as `\x1b`, so that a server's last words cannot
/// move the cursor of whoever reads the error.
pub(crate) fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '\t' => out.push(' '),
            c if c.is_control() => out.extend(c.escape_default()),
            c => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn recent_set_forgets_the_oldest() {
        let mut set = RecentSet::new(2);
        for n in [1, 2, 2] {
            set.insert(n);
        }
        assert!(!set.is_forgetful());
        set.insert(3);
        assert!(set.is_forgetful());
        assert!(!set.contains(&1) && set.contains(&2) && set.contains(&3));
        assert_eq!(set.len(), 2);
        assert_eq!(set.members.len(), 2);
    }

    #[test]
    fn tail_is_bounded_by_lines_and_bytes() {
        let mut tail = Tail::new(3, 10);
        for line in ["one", "", "two", "three", "four"] {
            tail.push(Time::ZERO, line);
        }
        assert_eq!(
            tail.to_vec(),
            ["three", "four"],
            "11 bytes would be too many"
        );
        tail.push(Time::ZERO, "a line longer than ten bytes");
        assert_eq!(tail.to_vec(), ["a line lon"]);
        assert_eq!(tail.sizes(), (1, 10));
        for line in ["a", "b", "c", "d"] {
            tail.push(Time::ZERO, line);
        }
        assert_eq!(tail.to_vec(), ["b", "c", "d"]);
    }

    #[test]
    fn tail_knows_what_is_fresh() {
        let at = |ms| Time::after(std::time::Duration::from_millis(ms));
        let mut tail = Tail::new(3, 100);
        for (ms, line) in [(1, "a"), (2, "b"), (3, "c")] {
            tail.push(at(ms), line);
        }
        assert_eq!(tail.since(at(2)), ["b", "c"]);
        assert_eq!(tail.since(at(4)), [""; 0]);
    }

    #[test]
    fn tail_escapes_control_characters() {
        let mut tail = Tail::new(3, 100);
        tail.push(Time::ZERO, "\u{1b}[31mred\u{7}\tend\r");
        assert_eq!(tail.to_vec(), ["\\u{1b}[31mred\\u{7} end"]);
    }
}
