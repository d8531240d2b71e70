//! Lines of a program under test, however long it makes them.

use std::io;

use memchr::memchr;
use tokio::io::{AsyncRead, AsyncReadExt};

/// A line, or the body of a message over HTTP, that is longer than this is cut: the rest is read and not kept. No
/// message of a scenario is half as long, nor is an answer to one.
pub const LONGEST: usize = 32 << 20;

/// Read at a time.
const READ: usize = 64 << 10;

/// Bytes on their way to becoming lines.
#[derive(Debug, Default)]
pub struct Lines {
    bytes: Vec<u8>,
    /// Where the next line begins in them.
    begin: usize,
    /// Up to where its end has been looked for in vain.
    searched: usize,
    /// The line was cut: what follows up to its end is of no interest.
    cut: bool,
}

impl Lines {
    /// Reads some more; 0 is the end.
    pub async fn fill(&mut self, from: &mut (impl AsyncRead + Unpin)) -> io::Result<usize> {
        self.drop_taken();
        self.bytes.reserve(READ);
        from.read_buf(&mut self.bytes).await
    }

    /// Takes what was read by somebody else.
    pub fn push(&mut self, bytes: &[u8]) {
        self.drop_taken();
        self.bytes.extend_from_slice(bytes);
    }

    fn drop_taken(&mut self) {
        self.bytes.drain(..self.begin);
        self.searched -= self.begin;
        self.begin = 0;
    }

    /// The next whole line, or the beginning of one that is too long.
    pub fn next(&mut self) -> Option<Vec<u8>> {
        loop {
            let Some(at) = memchr(b'\n', &self.bytes[self.searched..]) else {
                self.searched = self.bytes.len();
                return self.cut_off();
            };
            let end = self.searched + at;
            let begin = std::mem::replace(&mut self.begin, end + 1);
            self.searched = self.begin;
            if !std::mem::take(&mut self.cut) {
                return Some(self.bytes[begin..end].to_vec());
            }
        }
    }

    /// There is no end of a line in what was read.
    fn cut_off(&mut self) -> Option<Vec<u8>> {
        if !self.cut && self.bytes.len() - self.begin <= LONGEST {
            return None;
        }
        let line = (!self.cut).then(|| self.bytes[self.begin..].to_vec());
        *self = Lines {
            cut: true,
            ..Lines::default()
        };
        line
    }

    /// What is left at the end: a line that lacks its line end.
    pub fn finish(&mut self) -> Option<Vec<u8>> {
        self.drop_taken();
        let rest = std::mem::take(self);
        (!rest.cut && !rest.bytes.is_empty()).then_some(rest.bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_without_end_is_cut_and_the_next_is_whole() {
        let mut lines = Lines::default();
        let piece = vec![0; 1 << 20];
        let mut got = Vec::new();
        for _ in 0..100 {
            lines.push(&piece);
            while let Some(line) = lines.next() {
                got.push(line.len());
            }
            assert!(lines.bytes.len() <= LONGEST);
        }
        lines.push(b"its end\nanother\nrest");
        assert_eq!(lines.next().as_deref(), Some(&b"another"[..]));
        assert_eq!(lines.next(), None);
        assert_eq!(lines.finish().as_deref(), Some(&b"rest"[..]));
        assert_eq!(got.len(), 1);
        assert!((LONGEST..=LONGEST + piece.len()).contains(&got[0]));
    }
}
