//! One direction of a pipe or socket, never blocking.
//!
//! Readiness is edge-triggered: a short read or a refused write means there is nothing more to
//! do until the kernel says so, and no system call is spent on finding that out twice. Writes do
//! not ask first; they are simply tried.

use std::io::{self, IoSlice};
use std::os::fd::{AsFd, OwnedFd};
use std::task::{Context, Poll, ready};

use bytes::BytesMut;
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendAncillaryBuffer, SendFlags};
use tokio::io::unix::AsyncFd;
use tokio::io::{Interest, Ready};

use crate::outbox::Outbox;

/// What a pipe that carries large messages is made to hold: fewer turns per message. It is also
/// what the kernel allows everybody.
const LARGE_PIPE: usize = 1 << 20;

/// What a pipe holds unless somebody asks for more.
const DEFAULT_PIPE: usize = 64 << 10;

/// How a descriptor is kept from blocking.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A pipe with a description of our own, on which `O_NONBLOCK` is set.
    Pipe,
    /// A socket whose description others may share: each call says that it must not block.
    Socket,
}

fn register(fd: OwnedFd, interest: Interest) -> io::Result<AsyncFd<OwnedFd>> {
    // SAFETY: an `OwnedFd` always gives the same open descriptor until it is dropped.
    #[expect(unsafe_code)]
    let fd = unsafe { AsyncFd::register_with_interest(fd, interest) };
    Ok(fd?)
}

/// The reading end of a stream.
#[derive(Debug)]
pub(crate) struct Source {
    fd: AsyncFd<OwnedFd>,
    kind: Kind,
    /// A read of this many bytes shows that the pipe was full.
    capacity: usize,
}

impl Source {
    pub(crate) fn new(fd: OwnedFd, kind: Kind) -> io::Result<Source> {
        let fd = register(fd, Interest::READABLE)?;
        Ok(Source {
            fd,
            kind,
            capacity: DEFAULT_PIPE,
        })
    }

    /// Appends what is there to `buf`, as far as it has room; 0 is the end of the stream.
    pub(crate) fn poll_read(
        &mut self,
        cx: &mut Context<'_>,
        buf: &mut BytesMut,
    ) -> Poll<io::Result<usize>> {
        loop {
            let mut guard = ready!(self.fd.poll_read_ready(cx))?;
            match read(guard.get_inner(), self.kind, buf) {
                Ok(n) => {
                    if n > 0 && buf.len() < buf.capacity() {
                        guard.clear_ready_matching(Ready::READABLE);
                    }
                    if n >= self.capacity {
                        self.capacity = enlarge(guard.get_inner());
                    }
                    return Poll::Ready(Ok(n));
                }
                Err(Errno::INTR) => {}
                // Nothing to read although the writers are gone: a named pipe that somebody
                // opened again. For us it has ended; waiting would spin.
                Err(Errno::AGAIN) if guard.ready().is_read_closed() => return Poll::Ready(Ok(0)),
                Err(Errno::AGAIN) => guard.clear_ready(),
                Err(error) => return Poll::Ready(Err(error.into())),
            }
        }
    }

    /// Appends what is there now to `buf`; 0 when there is nothing or the stream has ended.
    pub(crate) fn read_now(&mut self, buf: &mut BytesMut) -> usize {
        loop {
            match read(self.fd.get_ref(), self.kind, buf) {
                Err(Errno::INTR) => {}
                result => return result.unwrap_or(0),
            }
        }
    }

    /// How many bytes can be read at this moment.
    pub(crate) fn available(&self) -> usize {
        rustix::io::ioctl_fionread(self.fd.get_ref()).map_or(0, |n| n as usize)
    }
}

/// Makes a pipe larger where that can be done; returns what it holds, or as good as endless if
/// that cannot be changed.
fn enlarge(fd: impl AsFd) -> usize {
    #[cfg(target_os = "linux")]
    let size = rustix::pipe::fcntl_setpipe_size(fd, LARGE_PIPE).unwrap_or(usize::MAX);
    #[cfg(not(target_os = "linux"))]
    let size = (fd, usize::MAX).1;
    size
}

fn read(fd: impl AsFd, kind: Kind, buf: &mut BytesMut) -> rustix::io::Result<usize> {
    let room = buf.spare_capacity_mut();
    let n = match kind {
        Kind::Pipe => rustix::io::read(fd, room)?.0.len(),
        Kind::Socket => rustix::net::recv(fd, room, RecvFlags::DONTWAIT)?.0.0.len(),
    };
    // SAFETY: the kernel has filled the first `n` bytes of the spare capacity.
    #[expect(unsafe_code)]
    unsafe {
        buf.set_len(buf.len() + n)
    };
    Ok(n)
}

/// The writing end of a stream.
#[derive(Debug)]
pub(crate) struct Sink {
    fd: AsyncFd<OwnedFd>,
    kind: Kind,
    /// The last write was refused; the next waits for the kernel's word.
    blocked: bool,
    /// The pipe has been made larger, or cannot be.
    enlarged: bool,
}

impl Sink {
    pub(crate) fn new(fd: OwnedFd, kind: Kind) -> io::Result<Sink> {
        let interest = match kind {
            Kind::Pipe => Interest::WRITABLE,
            // Nobody sends anything this way: a socket becomes readable only by its end.
            Kind::Socket => Interest::WRITABLE | Interest::READABLE,
        };
        let fd = register(fd, interest)?;
        Ok(Sink {
            fd,
            kind,
            blocked: false,
            enlarged: false,
        })
    }

    /// Ready when the reader is gone.
    pub(crate) fn poll_closed(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        while self.kind == Kind::Socket
            && let Poll::Ready(guard) = self.fd.poll_read_ready(cx)
        {
            match guard {
                Ok(mut guard) if !guard.ready().is_read_closed() => guard.clear_ready(),
                _ => return Poll::Ready(()),
            }
        }
        self.poll_room(cx)
    }

    /// Takes note when the reader makes room again. Ready when it never will.
    fn poll_room(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        loop {
            let Ok(mut guard) = ready!(self.fd.poll_write_ready(cx)) else {
                return Poll::Ready(());
            };
            self.blocked = false;
            if guard.ready().is_write_closed() {
                return Poll::Ready(());
            }
            // Writes do not ask, so readiness is only kept as an edge to be woken by.
            guard.clear_ready();
        }
    }

    /// Writes until the outbox is empty or the reader takes no more; then `cx` is woken when it
    /// does again.
    pub(crate) fn flush(&mut self, cx: &mut Context<'_>, outbox: &mut Outbox) -> io::Result<()> {
        loop {
            self.write(outbox)?;
            if self.blocked && !self.enlarged && outbox.len() > DEFAULT_PIPE {
                self.enlarged = true;
                self.blocked = enlarge(self.fd.get_ref()) < LARGE_PIPE;
            }
            if self.blocked {
                let _ = self.poll_room(cx);
            }
            // Room that was made in the meantime is an edge already spent: it is used now.
            if self.blocked || outbox.is_empty() {
                return Ok(());
            }
        }
    }

    /// Bytes written that have not been read. (Where the system does not tell: none.)
    pub(crate) fn unread(&self) -> usize {
        rustix::io::ioctl_fionread(self.fd.get_ref()).map_or(0, |n| n as usize)
    }

    fn write(&mut self, outbox: &mut Outbox) -> io::Result<()> {
        while !self.blocked && !outbox.is_empty() {
            let mut offered = 0;
            let result = outbox.write_with(|slices| {
                offered = slices.iter().map(|slice| slice.len()).sum();
                write(self.fd.get_ref(), self.kind, slices)
            });
            match result {
                // A part was taken: the pipe is full, and reading from it is an edge.
                Ok(n) => self.blocked = n < offered,
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => self.blocked = true,
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }
}

fn write(fd: impl AsFd, kind: Kind, slices: &[IoSlice<'_>]) -> rustix::io::Result<usize> {
    match (kind, slices) {
        (Kind::Pipe, [slice]) => rustix::io::write(fd, slice),
        (Kind::Pipe, slices) => rustix::io::writev(fd, slices),
        (Kind::Socket, slices) => rustix::net::sendmsg(
            fd,
            slices,
            &mut SendAncillaryBuffer::new(&mut []),
            SendFlags::DONTWAIT | SendFlags::NOSIGNAL,
        ),
    }
}
