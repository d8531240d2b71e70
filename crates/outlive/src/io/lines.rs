//! Lines of standard error, cut out of whatever bytes a server writes there.

use memchr::memchr;

/// A longer line is cut; what is cut off is not kept.
const LONGEST: usize = 4 << 10;

/// Cuts bytes into lines, keeping no more than one line.
#[derive(Debug, Default)]
pub(crate) struct Lines {
    /// The beginning of a line that has not ended.
    begun: Vec<u8>,
}

impl Lines {
    /// Takes bytes and passes each line that ended to `line`.
    pub(crate) fn push(&mut self, mut bytes: &[u8], mut line: impl FnMut(String)) {
        while let Some(end) = memchr(b'\n', bytes) {
            self.keep(&bytes[..end]);
            bytes = &bytes[end + 1..];
            line(self.take());
        }
        self.keep(bytes);
    }

    /// The line that never ended, if there is one.
    pub(crate) fn finish(&mut self) -> Option<String> {
        (!self.begun.is_empty()).then(|| self.take())
    }

    fn keep(&mut self, bytes: &[u8]) {
        let room = LONGEST.saturating_sub(self.begun.len());
        self.begun
            .extend_from_slice(&bytes[..bytes.len().min(room)]);
    }

    fn take(&mut self) -> String {
        let text = self.begun.strip_suffix(b"\r").unwrap_or(&self.begun);
        let line = String::from_utf8_lossy(text).into_owned();
        self.begun.clear();
        line
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(chunks: &[&[u8]]) -> Vec<String> {
        let (mut lines, mut out) = (Lines::default(), Vec::new());
        for chunk in chunks {
            lines.push(chunk, |line| out.push(line));
        }
        out.extend(lines.finish());
        out
    }

    #[test]
    fn lines_are_whole_however_the_bytes_arrive() {
        assert_eq!(
            lines(&[b"on", b"e\r\ntwo\n\nth", b"ree"]),
            ["one", "two", "", "three"]
        );
    }

    #[test]
    fn bytes_that_are_not_text_are_replaced() {
        assert_eq!(lines(&[b"a\xffb\n"]), ["a\u{fffd}b"]);
    }

    #[test]
    fn a_line_without_end_takes_no_more_memory_than_the_longest() {
        let mut all = Lines::default();
        for _ in 0..1000 {
            all.push(&[b'x'; 1000], |_| panic!("no line has ended"));
        }
        assert!(all.begun.capacity() <= 2 * LONGEST);
        let mut out = Vec::new();
        all.push(b"\nnext\n", |line| out.push(line));
        assert_eq!(out, ["x".repeat(LONGEST), "next".into()]);
    }
}
