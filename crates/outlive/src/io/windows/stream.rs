//! One direction of a pipe, never blocking.
//!
//! A read is begun before there is anything to be read, and its result is looked at when the system says that there is
//! one. A write of more than the pipe has room for is complete when all of it was read: so there is one at a time, and
//! none is long.

use std::fs::File;
use std::io::{self, Read as _};
use std::os::windows::io::{AsRawHandle, OwnedHandle};
use std::task::{Context, Poll, ready};

use bytes::BytesMut;
use windows_sys::Win32::System::Pipes::PeekNamedPipe;

use super::overlapped::{Overlapped, is_closed};
use super::pipe::CAPACITY;
use crate::io::outbox::Outbox;
use crate::io::spin::Look;

/// The reading end of a stream.
#[derive(Debug)]
pub(crate) struct Source {
    pipe: Overlapped,
    /// What was read and not handed out yet: from where, to where.
    start: usize,
    end: usize,
    ended: bool,
}

impl Source {
    /// Reads our end of a [pair](super::pipe::pair).
    pub(crate) fn new(handle: OwnedHandle) -> io::Result<Source> {
        Ok(Source {
            pipe: Overlapped::new(handle, CAPACITY)?,
            start: 0,
            end: 0,
            ended: false,
        })
    }

    /// Appends what is there to `buf`, as far as it has room; 0 is the end of the stream.
    pub(crate) fn poll_read(
        &mut self,
        cx: &mut Context<'_>,
        buf: &mut BytesMut,
        _look: Look,
    ) -> Poll<io::Result<usize>> {
        while self.start == self.end {
            if self.ended {
                return Poll::Ready(Ok(0));
            }
            ready!(self.poll_more(Some(cx)))?;
        }
        Poll::Ready(Ok(self.hand_out(buf)))
    }

    /// Reads more. (A writer may write nothing at all, and that is read as well; it is not the end.)
    fn poll_more(&mut self, cx: Option<&mut Context<'_>>) -> Poll<io::Result<()>> {
        let read = match self.pipe.is_pending() {
            true => Ok(()),
            false => self.pipe.read(),
        };
        let read = match read {
            Ok(()) => ready!(self.pipe.poll(cx)),
            Err(error) => Err(error),
        };
        match read {
            Ok(n) => (self.start, self.end) = (0, n),
            Err(error) if is_closed(&error) => self.ended = true,
            Err(error) => return Poll::Ready(Err(error)),
        }
        Poll::Ready(Ok(()))
    }

    fn hand_out(&mut self, buf: &mut BytesMut) -> usize {
        let room = buf.capacity() - buf.len();
        let n = room.min(self.end - self.start);
        buf.extend_from_slice(&self.pipe.bytes()[self.start..self.start + n]);
        self.start += n;
        n
    }

    /// Appends what is there now to `buf`; 0 when there is nothing or the stream has ended.
    pub(crate) fn read_now(&mut self, buf: &mut BytesMut) -> usize {
        if self.available() == 0 {
            return 0;
        }
        self.hand_out(buf)
    }

    /// How many bytes can be read at this moment.
    pub(crate) fn available(&mut self) -> usize {
        while self.start == self.end && !self.ended {
            if !matches!(self.poll_more(None), Poll::Ready(Ok(()))) {
                break;
            }
        }
        let more = match self.ended || self.pipe.is_pending() {
            true => 0,
            false => waiting(self.pipe.handle()),
        };
        self.end - self.start + more
    }
}

/// How many bytes there are in a pipe, seen from its reading end.
fn waiting(handle: &impl AsRawHandle) -> usize {
    let mut waiting = 0;
    let none = std::ptr::null_mut();
    // SAFETY: the handle is open, and the number lives for as long as the call takes.
    #[expect(unsafe_code)]
    let done = unsafe {
        PeekNamedPipe(
            handle.as_raw_handle(),
            none,
            0,
            none.cast(),
            &raw mut waiting,
            none.cast(),
        )
    };
    match done {
        0 => 0,
        _ => waiting as usize,
    }
}

/// The writing end of a stream.
#[derive(Debug)]
pub(crate) struct Sink {
    pipe: Overlapped,
    /// The reading end, too, of a pipe to a server: so what it has not read can be counted when it is dead.
    reader: Option<File>,
}

impl Sink {
    /// Writes to our end of a [pair](super::pipe::pair).
    pub(crate) fn new(handle: OwnedHandle, reader: Option<File>) -> io::Result<Sink> {
        Ok(Sink {
            pipe: Overlapped::new(handle, CAPACITY)?,
            reader,
        })
    }

    /// Takes note when the reader has made room again. Ready when it never will, because it is gone; the system tells
    /// that only of a write.
    pub(crate) fn poll_gone(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        if self.pipe.is_pending() && ready!(self.pipe.poll(Some(cx))).is_err() {
            return Poll::Ready(());
        }
        Poll::Pending
    }

    /// Writes until the outbox is empty or the reader takes no more; then `cx` is woken when it
    /// does again.
    pub(crate) fn flush(&mut self, cx: &mut Context<'_>, outbox: &mut Outbox) -> io::Result<()> {
        loop {
            if self.pipe.is_pending() {
                match self.pipe.poll(Some(cx)) {
                    Poll::Pending => return Ok(()),
                    Poll::Ready(written) => written?,
                };
            }
            if outbox.is_empty() {
                return Ok(());
            }
            // All that is taken is in the pipe from then on, whether or not it has room for it.
            outbox.write_with(|slices| {
                self.pipe.write(|buffer| {
                    let mut filled = 0;
                    for mut slice in slices.iter().map(|slice| &slice[..]) {
                        // Copying from memory does not fail.
                        filled += slice.read(&mut buffer[filled..]).unwrap_or(0);
                    }
                    filled
                })
            })?;
        }
    }

    /// Whether nothing is on its way that would be lost if this were dropped now.
    pub(crate) fn is_idle(&mut self) -> bool {
        !self.pipe.is_pending() || self.pipe.poll(None).is_ready()
    }

    /// Whether anybody may read what was written. Asked about a server that has ended with all that was in its job:
    /// nobody can.
    pub(crate) fn has_reader(&self) -> bool {
        false
    }

    /// Bytes written that nobody will ever read. Asked when everybody is dead who could.
    pub(crate) fn unread(&self) -> usize {
        self.reader.as_ref().map_or(0, waiting)
    }
}
