//! The standard streams of this process, taken without changing what others share with it.
//!
//! A host may give us anything: a pipe (most), a socket (Node), a file (`< requests.jsonl`), a
//! terminal, `/dev/null`. Other processes may share the open description behind it, so its flags
//! are left alone: a pipe is opened once more for ourselves, a socket is told with each call not
//! to block, and for everything else a thread pumps bytes between it and a pipe of our own.

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsFd, AsRawFd};
use std::thread::JoinHandle;

use rustix::event::{PollFd, PollFlags};
use rustix::fs::{FileType, Mode, OFlags};

use crate::io::host::pump;
use crate::io::stream::{Kind, Sink, Source};
use crate::process::native;

/// What the system calls an open stream.
pub(crate) use std::os::fd::{BorrowedFd as Borrowed, OwnedFd as Owned};

/// The lowest number for a descriptor that is moved aside.
#[cfg(feature = "server")]
const ASIDE: i32 = 3;

/// Does it with standard input and output.
pub(crate) fn with_both<T>(take: impl FnOnce(Borrowed<'_>, Borrowed<'_>) -> T) -> T {
    take(io::stdin().as_fd(), io::stdout().as_fd())
}

/// What is read from a stream of the host's.
pub(crate) fn input(stdin: Borrowed<'_>) -> io::Result<Source> {
    match own(stdin, OFlags::RDONLY)? {
        Some((fd, kind)) => Source::new(fd, kind),
        None => {
            let (reader, writer) = io::pipe()?;
            let from = stdin.try_clone_to_owned()?;
            pump("stdin", File::from(from), writer)?;
            Source::new(unblocked(reader.into())?, Kind::Pipe)
        }
    }
}

/// What is written to a stream of the host's, and the thread that does so if one is needed.
pub(crate) fn output(stdout: Borrowed<'_>) -> io::Result<(Sink, Option<JoinHandle<()>>)> {
    match own(stdout, OFlags::WRONLY)? {
        Some((fd, kind)) => Ok((Sink::new(fd, kind)?, None)),
        None => {
            let (reader, writer) = io::pipe()?;
            let to = File::from(stdout.try_clone_to_owned()?);
            let pump = match is_pipe(stdout) {
                true => {
                    let reader = File::from(Owned::from(reader));
                    let to_reader = to.try_clone()?;
                    pump("stdout", Attended { reader, to_reader }, to)?
                }
                false => pump("stdout", reader, to)?,
            };
            let sink = Sink::new(unblocked(writer.into())?, Kind::Pipe)?;
            Ok((sink, Some(pump)))
        }
    }
}

fn is_pipe(fd: Borrowed<'_>) -> bool {
    let found = rustix::fs::fstat(fd);
    found.is_ok_and(|found| FileType::from_raw_mode(found.st_mode) == FileType::Fifo)
}

/// What is read from, as long as there is somebody who reads what becomes of it: a host that is gone is to be noticed
/// also while there is nothing to tell it.
struct Attended {
    reader: File,
    to_reader: File,
}

impl Read for Attended {
    fn read(&mut self, room: &mut [u8]) -> io::Result<usize> {
        let mut fds = [
            PollFd::new(&self.reader, PollFlags::IN),
            PollFd::new(&self.to_reader, PollFlags::empty()),
        ];
        rustix::event::poll(&mut fds, None)?;
        if !fds[1].revents().is_empty() {
            return Ok(0);
        }
        self.reader.read(room)
    }
}

/// The descriptor to use without a pump, if there is one.
fn own(fd: Borrowed<'_>, access: OFlags) -> io::Result<Option<(Owned, Kind)>> {
    match FileType::from_raw_mode(rustix::fs::fstat(fd)?.st_mode) {
        FileType::Socket => Ok(Some((fd.try_clone_to_owned()?, Kind::Socket))),
        FileType::Fifo => Ok(reopen(fd, access).map(|own| (own, Kind::Pipe))),
        _ => Ok(None),
    }
}

/// Opens the pipe behind `fd` once more, for a description of our own. Linux only, and refused
/// where the pipe belongs to another user. (On macOS `/dev/fd` gives the same description again.)
fn reopen(fd: Borrowed<'_>, access: OFlags) -> Option<Owned> {
    if !native::is_linux() {
        return None;
    }
    let path = format!("/proc/self/fd/{}", fd.as_raw_fd());
    rustix::fs::open(
        path,
        access | OFlags::NONBLOCK | OFlags::CLOEXEC,
        Mode::empty(),
    )
    .ok()
}

/// Sets `O_NONBLOCK` on a description that nobody shares.
pub(crate) fn unblocked(fd: Owned) -> io::Result<Owned> {
    let flags = rustix::fs::fcntl_getfl(&fd)?;
    rustix::fs::fcntl_setfl(&fd, flags | OFlags::NONBLOCK)?;
    Ok(fd)
}

/// Moves standard input and output to numbers that no child inherits. In their place are `/dev/null`, where reading
/// ends at once, and standard error, where what is printed can be seen.
#[cfg(feature = "server")]
pub(crate) fn set_aside() -> io::Result<(Owned, Owned)> {
    let (stdin, stdout, stderr) = (io::stdin(), io::stdout(), io::stderr());
    let aside = |fd: Borrowed<'_>| rustix::io::fcntl_dupfd_cloexec(fd, ASIDE);
    let both = (aside(stdin.as_fd())?, aside(stdout.as_fd())?);
    let null = rustix::fs::open("/dev/null", OFlags::RDWR | OFlags::CLOEXEC, Mode::empty())?;
    rustix::stdio::dup2_stdin(&null)?;
    if rustix::stdio::dup2_stdout(stderr.as_fd()).is_err() {
        // Standard error is closed. The next file to be opened must not become it.
        rustix::stdio::dup2_stderr(&null)?;
        rustix::stdio::dup2_stdout(&null)?;
    }
    Ok(both)
}

/// A stream, lent.
#[cfg(feature = "server")]
pub(crate) fn borrow(stream: &Owned) -> Borrowed<'_> {
    stream.as_fd()
}
