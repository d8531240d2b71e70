//! What is queued for one pipe.
//!
//! Frames go out in order, each with a line feed. Small ones are copied next to each other, so
//! that all that happened in one turn leaves in one `write`; large ones are queued as they are.
//! The outbox knows how many frames have left, and how many of those a reader can have read,
//! because whether a request was sent decides whether it may be sent again.

use std::collections::VecDeque;
use std::io::IoSlice;

use bytes::{Buf, Bytes, BytesMut};

/// Frames up to this size are copied; a copy is cheaper than one more slice per `write`.
const SMALL: usize = 4 << 10;

/// An idle outbox keeps no more memory than this.
const KEEP: usize = 128 << 10;

/// No pipe holds more than this (the default of `/proc/sys/fs/pipe-max-size`): what left longer
/// ago has been read.
const LARGEST_PIPE: u64 = 1 << 20;

/// Slices in one `write`.
const SLICES: usize = 32;

/// A queue of frames on their way into a pipe.
#[derive(Debug, Default)]
pub(crate) struct Outbox {
    /// What leaves first.
    parts: VecDeque<Bytes>,
    /// What leaves after `parts`.
    tail: BytesMut,
    /// Bytes in `parts` and `tail`.
    len: usize,
    /// Bytes that have left.
    written: u64,
    /// Where, counted in bytes since the beginning, each frame ends that is still here or may
    /// be in the pipe.
    ends: VecDeque<u64>,
    /// Frames before those.
    read: u64,
}

impl Outbox {
    /// Queues a frame, given without its line end.
    pub(crate) fn push(&mut self, frame: Bytes) {
        self.len += frame.len() + 1;
        // The line feed is left out: a peer can act on a frame whose line end is still missing.
        self.ends.push_back(self.written + self.len as u64 - 1);
        if frame.len() <= SMALL {
            self.tail.extend_from_slice(&frame);
        } else {
            if !self.tail.is_empty() {
                self.parts.push_back(self.tail.split().freeze());
            }
            self.parts.push_back(frame);
        }
        self.tail.extend_from_slice(b"\n");
    }

    /// Bytes that have not left.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Whether everything has left.
    pub(crate) fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Frames that have left in full, if the last `unread` bytes that left do not count.
    pub(crate) fn sent(&self, unread: usize) -> u64 {
        let taken = self.written.saturating_sub(unread as u64);
        self.read + self.ends.partition_point(|end| *end <= taken) as u64
    }

    /// Hands the next bytes to `write`, which says how many it took.
    pub(crate) fn write_with<E>(
        &mut self,
        write: impl FnOnce(&[IoSlice<'_>]) -> Result<usize, E>,
    ) -> Result<usize, E> {
        let n = if self.parts.is_empty() {
            write(&[IoSlice::new(&self.tail)])?
        } else {
            let mut slices = [IoSlice::new(&[]); SLICES];
            let queued = self.parts.iter().map(|part| &part[..]);
            let mut count = 0;
            for (slice, part) in slices.iter_mut().zip(queued.chain([&self.tail[..]])) {
                *slice = IoSlice::new(part);
                count += 1;
            }
            write(&slices[..count])?
        };
        self.advance(n);
        Ok(n)
    }

    /// Drops what has not left; `sent` stays what it is.
    pub(crate) fn clear(&mut self) {
        self.parts.clear();
        self.tail = BytesMut::new();
        let left = self.ends.partition_point(|end| *end <= self.written);
        self.ends.truncate(left);
        self.len = 0;
    }

    fn advance(&mut self, mut n: usize) {
        self.len -= n;
        self.written += n as u64;
        while self
            .ends
            .front()
            .is_some_and(|end| end + LARGEST_PIPE < self.written)
        {
            self.ends.pop_front();
            self.read += 1;
        }
        while let Some(part) = self.parts.front_mut() {
            let taken = n.min(part.len());
            part.advance(taken);
            n -= taken;
            if !part.is_empty() {
                return;
            }
            self.parts.pop_front();
        }
        if n < self.tail.len() {
            self.tail.advance(n);
        } else if self.tail.capacity() > KEEP {
            self.tail = BytesMut::new();
        } else {
            self.tail.clear();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Takes at most `limit` bytes per call until the outbox is empty; returns all of them.
    fn drain(outbox: &mut Outbox, limit: usize) -> Vec<u8> {
        let mut out = Vec::new();
        while !outbox.is_empty() {
            let taken = outbox.write_with(|slices| {
                let before = out.len();
                out.extend(slices.iter().flat_map(|slice| slice.iter()).take(limit));
                Ok::<_, ()>(out.len() - before)
            });
            assert_ne!(taken, Ok(0));
        }
        out
    }

    #[test]
    fn frames_leave_in_order_whatever_their_size_and_the_pipe_takes() {
        for limit in [1, 7, 4096, usize::MAX] {
            let mut outbox = Outbox::default();
            let mut expected = Vec::new();
            for (i, size) in [3, SMALL, SMALL + 1, 5, 3 * SMALL, 1]
                .into_iter()
                .enumerate()
            {
                let frame = vec![b'a' + i as u8; size];
                expected.extend_from_slice(&frame);
                expected.push(b'\n');
                outbox.push(frame.into());
            }
            assert_eq!(outbox.len(), expected.len());
            assert!(drain(&mut outbox, limit) == expected, "limit {limit}");
            assert_eq!(outbox.sent(0), 6);
            outbox.push(Bytes::from_static(b"again"));
            assert_eq!(drain(&mut outbox, limit), b"again\n");
            assert_eq!(outbox.sent(0), 7);
        }
    }

    #[test]
    fn a_frame_is_sent_when_only_its_line_feed_is_missing() {
        let mut outbox = Outbox::default();
        outbox.push(Bytes::from_static(b"one"));
        outbox.push(Bytes::from_static(b"two"));
        let mut take = |n| {
            let _ = outbox.write_with(|_| Ok::<_, ()>(n));
            outbox.sent(0)
        };
        assert_eq!(take(2), 0);
        assert_eq!(take(1), 1);
        assert_eq!(take(1), 1);
        assert_eq!(take(3), 2);
    }

    #[test]
    fn what_is_dropped_is_not_counted_as_sent() {
        let mut outbox = Outbox::default();
        outbox.push(Bytes::from_static(b"one"));
        outbox.push(vec![b'x'; SMALL * 2].into());
        let _ = outbox.write_with(|_| Ok::<_, ()>(4));
        outbox.clear();
        assert_eq!((outbox.len(), outbox.sent(0)), (0, 1));
    }

    #[test]
    fn what_was_left_unread_does_not_count_as_sent() {
        let mut outbox = Outbox::default();
        for frame in ["one", "two", "three"] {
            outbox.push(Bytes::from_static(frame.as_bytes()));
        }
        drain(&mut outbox, usize::MAX);
        for (unread, sent) in [
            (0, 3),
            (1, 3),
            (2, 2),
            (6, 2),
            (7, 2),
            (8, 1),
            (14, 0),
            (99, 0),
        ] {
            assert_eq!(outbox.sent(unread), sent, "{unread} unread");
        }
        outbox.clear();
        assert_eq!(outbox.sent(6), 2);
    }

    #[test]
    fn what_was_read_long_ago_takes_no_memory() {
        let mut outbox = Outbox::default();
        for _ in 0..100 {
            outbox.push(vec![b'x'; LARGEST_PIPE as usize / 4].into());
            drain(&mut outbox, usize::MAX);
        }
        assert!(outbox.ends.len() < 10);
        assert_eq!(outbox.sent(0), 100);
    }
}
