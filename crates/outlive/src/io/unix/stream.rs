//! One direction of a pipe or socket, never blocking.
//!
//! Readiness is edge-triggered: a short read or a refused write means there is nothing more to
//! do until the kernel says so, and no system call is spent on finding that out twice. Writes do
//! not ask first; they are simply tried.

use std::io::{self, IoSlice};
use std::os::fd::{AsFd, OwnedFd};
use std::task::{Context, Poll, ready};

use bytes::BytesMut;
use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendAncillaryBuffer, SendFlags};
use tokio::io::unix::AsyncFd;
use tokio::io::{Interest, Ready};

use crate::io::outbox::Outbox;
use crate::io::spin::Look;
#[cfg(target_os = "linux")]
use crate::process::native;

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
        look: Look,
    ) -> Poll<io::Result<usize>> {
        // A true error will come up again.
        if look == Look::Closely
            && let Ok(n) = read(&self.fd, self.kind, buf)
        {
            self.note_size(n);
            return Poll::Ready(Ok(n));
        }
        loop {
            let mut guard = ready!(self.fd.poll_read_ready(cx))?;
            match read(guard.get_inner(), self.kind, buf) {
                Ok(n) => {
                    if n > 0 && buf.len() < buf.capacity() {
                        guard.clear_ready_matching(Ready::READABLE);
                    }
                    self.note_size(n);
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

    /// A pipe that was full is made larger.
    fn note_size(&mut self, n: usize) {
        if n >= self.capacity {
            self.capacity = enlarge(&self.fd);
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
    if native::is_linux() {
        return rustix::pipe::fcntl_setpipe_size(fd, LARGE_PIPE).unwrap_or(usize::MAX);
    }
    // macOS enlarges a pipe by itself, and takes no wish.
    let _ = fd;
    usize::MAX
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
        #[cfg(target_vendor = "apple")]
        if kind == Kind::Socket {
            // Others say with each call that they want no signal; here the socket is told once.
            rustix::net::sockopt::set_socket_nosigpipe(&fd, true)?;
        }
        let fd = register(fd, Interest::WRITABLE)?;
        Ok(Sink {
            fd,
            kind,
            blocked: false,
            enlarged: false,
        })
    }

    /// Takes note when the reader makes room again. Ready when it never will, because it is gone. (A
    /// socket whose peer has only ended its own writing still has a reader.)
    pub(crate) fn poll_gone(&mut self, cx: &mut Context<'_>) -> Poll<()> {
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
                let _ = self.poll_gone(cx);
            }
            // Room that was made in the meantime is an edge already spent: it is used now.
            if self.blocked || outbox.is_empty() {
                return Ok(());
            }
        }
    }

    /// Whether nothing is on its way that this process would have to wait for: what was taken is the kernel's.
    pub(crate) fn is_idle(&mut self) -> bool {
        true
    }

    /// Whether anybody holds the other end, and may read what was written. (Where the system does not tell: yes.)
    pub(crate) fn has_reader(&self) -> bool {
        let mut fds = [PollFd::new(self.fd.get_ref(), PollFlags::OUT)];
        let now = Timespec::default();
        let asked = rustix::event::poll(&mut fds, Some(&now));
        let gone = PollFlags::ERR | PollFlags::HUP;
        asked.is_err() || !fds[0].revents().intersects(gone)
    }

    /// Bytes written that nobody will ever read; none while somebody may. (Where the system does not tell: none.)
    pub(crate) fn unread(&self) -> usize {
        // In this order: what is unread when there is no reader stays so.
        match self.has_reader() {
            true => 0,
            false => rustix::io::ioctl_fionread(self.fd.get_ref()).map_or(0, |n| n as usize),
        }
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
            UNOBTRUSIVE,
        ),
    }
}

/// Neither waits nor raises a signal.
#[cfg(not(target_vendor = "apple"))]
const UNOBTRUSIVE: SendFlags = SendFlags::DONTWAIT.union(SendFlags::NOSIGNAL);
#[cfg(target_vendor = "apple")]
const UNOBTRUSIVE: SendFlags = SendFlags::DONTWAIT;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::io::standard::unblocked;
    use bytes::Bytes;
    use std::future::{Future, poll_fn};
    use std::io::Read;
    use std::os::unix::net::UnixStream;
    use std::time::Duration;

    /// Long enough that only a hang exceeds it.
    const PATIENCE: Duration = Duration::from_secs(30);

    fn run<T>(future: impl Future<Output = T>) -> T {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        runtime.block_on(async {
            tokio::time::timeout(PATIENCE, future)
                .await
                .expect("a hang")
        })
    }

    fn pipe_sink() -> (impl Read + Send + 'static, OwnedFd) {
        let (reader, writer) = io::pipe().unwrap();
        (reader, unblocked(writer.into()).unwrap())
    }

    fn socket_sink() -> (impl Read + Send + 'static, OwnedFd) {
        let (reader, writer) = UnixStream::pair().unwrap();
        (reader, writer.into())
    }

    /// Sends frames of all sizes to a reader that reads in small bites.
    fn all_arrives(mut reader: impl Read + Send + 'static, fd: OwnedFd, kind: Kind) {
        let frame = |i: usize| vec![b'a' + (i % 26) as u8; (i * 7919) % 300_000];
        let reading = std::thread::spawn(move || {
            let (mut all, mut bite) = (Vec::new(), [0; 3000]);
            while let Ok(n @ 1..) = reader.read(&mut bite) {
                all.extend_from_slice(&bite[..n]);
            }
            all
        });
        run(async {
            let mut sink = Sink::new(fd, kind).unwrap();
            let mut outbox = Outbox::default();
            for i in 0..60 {
                outbox.push(Bytes::from(frame(i)));
            }
            poll_fn(|cx| match sink.flush(cx, &mut outbox) {
                Ok(()) if !outbox.is_empty() => Poll::Pending,
                result => Poll::Ready(result),
            })
            .await
            .unwrap();
        });
        let expected: Vec<u8> = (0..60)
            .flat_map(|i| frame(i).into_iter().chain([b'\n']))
            .collect();
        assert!(reading.join().unwrap() == expected);
    }

    #[test]
    fn all_arrives_through_a_pipe() {
        let (reader, fd) = pipe_sink();
        all_arrives(reader, fd, Kind::Pipe);
    }

    #[test]
    fn all_arrives_through_a_socket() {
        let (reader, fd) = socket_sink();
        all_arrives(reader, fd, Kind::Socket);
    }

    /// A reader that leaves is noticed although nothing is written.
    fn departure_is_noticed(reader: impl Read + Send + 'static, fd: OwnedFd, kind: Kind) {
        run(async {
            let mut sink = Sink::new(fd, kind).unwrap();
            poll_fn(|cx| {
                assert!(sink.poll_gone(cx).is_pending());
                Poll::Ready(())
            })
            .await;
            std::thread::spawn(move || drop(reader));
            poll_fn(|cx| sink.poll_gone(cx)).await;
        });
    }

    #[test]
    fn departure_is_noticed_on_a_pipe() {
        let (reader, fd) = pipe_sink();
        departure_is_noticed(reader, fd, Kind::Pipe);
    }

    #[test]
    fn departure_is_noticed_on_a_socket() {
        let (reader, fd) = socket_sink();
        departure_is_noticed(reader, fd, Kind::Socket);
    }

    #[test]
    fn a_peer_that_only_ends_its_own_writing_still_reads() {
        let (ours, theirs) = std::os::unix::net::UnixStream::pair().unwrap();
        run(async {
            let mut sink = Sink::new(ours.into(), Kind::Socket).unwrap();
            theirs.shutdown(std::net::Shutdown::Write).unwrap();
            for _ in 0..3 {
                tokio::task::yield_now().await;
                poll_fn(|cx| {
                    assert!(sink.poll_gone(cx).is_pending());
                    Poll::Ready(())
                })
                .await;
            }
            drop(theirs);
            poll_fn(|cx| sink.poll_gone(cx)).await;
        });
    }

    #[test]
    fn what_is_unread_is_known_when_nobody_can_read_it() {
        let (mut reader, fd) = pipe_sink();
        run(async {
            let mut sink = Sink::new(fd, Kind::Pipe).unwrap();
            let mut outbox = Outbox::default();
            outbox.push(Bytes::from_static(b"0123456789"));
            poll_fn(|cx| Poll::Ready(sink.flush(cx, &mut outbox)))
                .await
                .unwrap();
            assert_eq!((sink.has_reader(), sink.unread()), (true, 0));
            reader.read_exact(&mut [0; 4]).unwrap();
            assert_eq!((sink.has_reader(), sink.unread()), (true, 0));
            drop(reader);
            assert_eq!((sink.has_reader(), sink.unread()), (false, 7));
        });
    }

    #[test]
    fn a_source_gives_all_bytes_and_then_its_end() {
        let (reader, writer) = io::pipe().unwrap();
        let text: Vec<u8> = (0..1_000_000u32).flat_map(u32::to_le_bytes).collect();
        let expected = text.clone();
        std::thread::spawn(move || {
            let mut writer = writer;
            io::Write::write_all(&mut writer, &text)
        });
        let all = run(async {
            let mut source = Source::new(unblocked(reader.into()).unwrap(), Kind::Pipe).unwrap();
            let mut buf = BytesMut::new();
            poll_fn(|cx| {
                loop {
                    buf.reserve(5000);
                    if ready!(source.poll_read(cx, &mut buf, Look::Usual)).unwrap() == 0 {
                        return Poll::Ready(());
                    }
                }
            })
            .await;
            buf
        });
        assert!(all == expected);
    }
}
