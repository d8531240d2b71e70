//! Lines out of a byte stream (FM-57 to FM-60).
//!
//! The framer owns the read buffer, so nothing half-read can be lost with a dropped future. It
//! splits at LF over raw bytes and looks at each byte once. What comes out does not depend on how
//! the bytes were cut into reads.
//!
//! A line over the limit is not kept: it is skimmed for its id as it streams past, so that even a
//! message nobody can hold is answered.

mod skim;
#[cfg(test)]
mod tests;

use bytes::{Buf, Bytes, BytesMut};
use memchr::memchr;

use self::skim::Skim;
use crate::frame::Frame;
use crate::message::{DefectKind, Id};

/// Room offered to each read: what a Linux pipe holds.
pub const READ_SIZE: usize = 64 * 1024;

/// Shorter lines are copied out: a message in a queue must not keep a whole read buffer, and the
/// buffer can be used again. They are copied next to each other, into pieces of this size: a line
/// costs no allocation, and one that stays keeps no more than its piece.
const COPY_BELOW: usize = 4 * 1024;

/// Longer lines take the whole buffer with them and a fresh one is begun, so that the memory of a
/// large message is gone when the message is.
const KEEP_BELOW: usize = 4 * READ_SIZE;

/// How many times its length a long line is given in new room when it fills the buffer: each time
/// may copy all there is.
const GROWTH: usize = 3;

/// The byte order mark. It may stand at the start of a text, and belongs to nothing.
pub const BOM: &[u8] = b"\xef\xbb\xbf";

/// One line of a stream, not yet read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Line {
    /// A whole line without its line end; never empty.
    Whole(Bytes),
    /// A line longer than the limit, thrown away; what could be told about it in passing.
    TooLong(TooLong),
}

/// What is known of a line that was too long to keep.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TooLong {
    /// The value of its top-level `id`, if it had one that is a string or a number.
    pub id: Option<Id>,
    /// That id as it was written; empty if there is none.
    pub id_json: Bytes,
    /// Whether it had a top-level `method`.
    pub has_method: bool,
    /// How many bytes it had, not counting the LF.
    pub len: u64,
}

/// Splits a stream into lines.
///
/// Read into [`spare`](Framer::spare), then call [`next_frame`](Framer::next_frame) until it
/// returns `None`; at the end of the stream do the same with [`finish`](Framer::finish).
#[derive(Debug)]
pub struct Framer {
    limit: usize,
    buffer: BytesMut,
    /// Room for short lines.
    piece: BytesMut,
    /// Bytes of the buffer known to hold no LF.
    scanned: usize,
    /// How long the next long line may be: as long as the last one was.
    expected: usize,
    /// The line being thrown away.
    skim: Option<Skim>,
}

impl Framer {
    /// A framer for lines of up to `limit` bytes, not counting the LF.
    pub fn new(limit: usize) -> Framer {
        Framer {
            limit,
            buffer: BytesMut::new(),
            piece: BytesMut::new(),
            scanned: 0,
            expected: 0,
            skim: None,
        }
    }

    /// The buffer to append to, with room for [`READ_SIZE`] bytes at least.
    pub fn spare(&mut self) -> &mut BytesMut {
        if self.buffer.capacity() - self.buffer.len() < READ_SIZE {
            let held = self.buffer.len();
            let step = match self.expected.checked_sub(held) {
                // With room for the last read, which may bring the beginning of the next line.
                Some(missing) if held >= READ_SIZE => missing + READ_SIZE,
                _ => held.saturating_mul(GROWTH).min(self.limit),
            };
            self.buffer.reserve(step.max(READ_SIZE));
        }
        &mut self.buffer
    }

    /// Appends bytes.
    pub fn extend(&mut self, bytes: &[u8]) {
        self.buffer.extend_from_slice(bytes);
    }

    /// Bytes held that are not yet part of a frame.
    pub fn buffered(&self) -> usize {
        self.buffer.len()
    }

    /// The next whole line. Blank ones are left out; CR before LF goes with it, and so does a byte order mark at the
    /// start.
    pub fn next_line(&mut self) -> Option<Line> {
        loop {
            let Some(found) = memchr(b'\n', &self.buffer[self.scanned..]) else {
                self.scanned = self.buffer.len();
                if self.skim.is_some() || self.scanned > self.limit {
                    self.discard();
                }
                return None;
            };
            let len = self.scanned + found;
            self.scanned = 0;
            if let Some(line) = self.cut(len, 1) {
                return Some(line);
            }
        }
    }

    /// What is left when the stream has ended: whole lines first, then the last one, which may
    /// lack its LF.
    pub fn last_line(&mut self) -> Option<Line> {
        let line = self.next_line();
        if line.is_some() {
            return line;
        }
        self.scanned = 0;
        self.cut(self.buffer.len(), 0)
    }

    /// The [next line](Framer::next_line), read.
    pub fn next_frame(&mut self) -> Option<Frame> {
        self.next_line().map(Frame::from)
    }

    /// The [next line](Framer::last_line) of a stream that has ended, read.
    pub fn finish(&mut self) -> Option<Frame> {
        let whole = self.next_frame();
        if whole.is_some() {
            return whole;
        }
        let mut frame = self.last_line().map(Frame::from);
        if let Some(Frame::Defect(defect)) = &mut frame
            && matches!(defect.what, DefectKind::NotAMessage | DefectKind::NotUtf8)
        {
            defect.what = DefectKind::CutOff;
        }
        frame
    }

    /// Takes a line of `len` bytes and its line end out of the buffer; `None` if it is blank.
    fn cut(&mut self, len: usize, line_end: usize) -> Option<Line> {
        if self.skim.is_some() || len > self.limit {
            let mut skim = self.skim.take().unwrap_or_default();
            skim.feed(&self.buffer[..len]);
            self.buffer.advance(len + line_end);
            return Some(Line::TooLong(skim.finish()));
        }
        let line = &self.buffer[..len];
        // Some peers write one before every line.
        let start = match line.starts_with(BOM) {
            true => BOM.len(),
            false => 0,
        };
        let end = if line.ends_with(b"\r") { len - 1 } else { len };
        let line = &line[start..end.max(start)];
        if line.trim_ascii().is_empty() {
            self.buffer.advance(len + line_end);
            return None;
        }
        if len < COPY_BELOW {
            if self.piece.capacity() < line.len() {
                // The same piece again if all lines in it are gone, else a new one.
                self.piece.reserve(COPY_BELOW);
            }
            self.piece.extend_from_slice(line);
            self.buffer.advance(len + line_end);
            return Some(Line::Whole(self.piece.split().freeze()));
        }
        let line = if len < KEEP_BELOW {
            self.buffer.split_to(len + line_end)
        } else {
            // A single one is soon forgotten.
            self.expected = len.max(self.expected / 2);
            let rest = BytesMut::from(&self.buffer[len + line_end..]);
            std::mem::replace(&mut self.buffer, rest)
        };
        Some(Line::Whole(line.freeze().slice(start..end)))
    }

    /// Skims what is there of a line too long to keep, and gives its memory back.
    fn discard(&mut self) {
        let skim = self.skim.get_or_insert_default();
        skim.feed(&self.buffer);
        self.scanned = 0;
        if self.buffer.capacity() > READ_SIZE {
            self.buffer = BytesMut::new();
        } else {
            self.buffer.clear();
        }
    }
}
