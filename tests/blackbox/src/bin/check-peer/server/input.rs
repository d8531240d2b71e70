//! What the host sends, line by line.

use std::io::{BufRead, BufReader, Read, Stdin};

use serde_json::Value;

use crate::defects::Defects;

/// The longest line that is read; of a longer one nothing is kept.
const LONGEST: u64 = 32 << 20;

/// Standard input.
pub struct Input {
    stdin: BufReader<Stdin>,
    longest: u64,
    defects: Defects,
}

/// What a line turned out to be.
pub enum Line {
    /// JSON.
    Message(Value),
    /// Anything else.
    Nothing,
}

impl Input {
    /// With the defects that concern bytes.
    pub fn new(defects: &Defects) -> Input {
        let longest = match defects.has("keeps-endless-lines") {
            true => u64::MAX,
            false => LONGEST,
        };
        Input {
            stdin: BufReader::new(std::io::stdin()),
            longest,
            defects: defects.clone(),
        }
    }

    /// The next line; `None` at the end.
    pub fn next(&mut self) -> Option<Line> {
        let line = match self.defects.has("one-message-per-read") {
            true => self.read()?,
            false => self.line()?,
        };
        suspicious(&self.defects, &line);
        let chokes = self.defects.has("chokes-on-cr") && line.ends_with(b"\r");
        let text = line.trim_ascii();
        let text = match self.defects.has("chokes-on-byte-order-mark") {
            true => text,
            false => text.strip_prefix(b"\xef\xbb\xbf").unwrap_or(text),
        };
        Some(match serde_json::from_slice(text) {
            Ok(message) if !chokes => Line::Message(message),
            _ => Line::Nothing,
        })
    }

    /// One read is taken for one message.
    fn read(&mut self) -> Option<Vec<u8>> {
        let mut piece = vec![0; 1 << 20];
        let read = self
            .stdin
            .get_mut()
            .read(&mut piece)
            .ok()
            .filter(|n| *n > 0)?;
        piece.truncate(read);
        Some(piece)
    }

    /// The next line without its end; an empty one in place of one that is too long.
    fn line(&mut self) -> Option<Vec<u8>> {
        let mut line = Vec::new();
        let mut input = self.stdin.by_ref().take(self.longest);
        if input.read_until(b'\n', &mut line).ok()? == 0 {
            return None;
        }
        let ended = line.last() == Some(&b'\n');
        if ended {
            line.pop();
        } else if line.len() as u64 == self.longest {
            line = Vec::new();
            self.skip_line()?;
        } else if self.defects.has("drops-last-line") {
            return None;
        }
        Some(line)
    }

    fn skip_line(&mut self) -> Option<()> {
        loop {
            let piece = self
                .stdin
                .fill_buf()
                .ok()
                .filter(|piece| !piece.is_empty())?;
            let end = piece.iter().position(|byte| *byte == b'\n');
            let skipped = end.map_or(piece.len(), |at| at + 1);
            self.stdin.consume(skipped);
            if end.is_some() {
                return Some(());
            }
        }
    }
}

/// Lines that end a server that is not prepared for them.
fn suspicious(defects: &Defects, line: &[u8]) {
    let text = line.trim_ascii();
    let broken = serde_json::from_slice::<Value>(text).is_err();
    let utf8 = std::str::from_utf8(line).is_ok();
    let nested = text
        .windows(500)
        .any(|piece| piece.iter().all(|byte| *byte == b'['));
    defects.dies("dies-on-blank-line", text.is_empty());
    defects.dies("dies-on-invalid-utf8", !utf8);
    defects.dies("dies-on-garbage", broken && utf8 && !text.is_empty());
    defects.dies("dies-on-nesting", nested);
    defects.dies("dies-of-long-lines", line.len() > 1 << 20);
}
