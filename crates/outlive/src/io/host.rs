//! The host's side: the standard input and output this process was given.
//!
//! A host may give us anything: a pipe (most), a socket (Node), a file (`< requests.jsonl`), a
//! terminal, `/dev/null`. Other processes may share the open description behind it, so its flags
//! are left alone: a pipe is opened once more for ourselves, a socket is told with each call not
//! to block, and for everything else a thread pumps bytes between it and a pipe of our own.
//! What the driver sees is always a pipe or a socket.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use rustix::fs::{FileType, Mode, OFlags};

use crate::io::stream::{Kind, Sink, Source};

/// A pump's buffer, and what fits into a pipe by default.
const CHUNK: usize = 64 << 10;

/// The two streams of the host.
#[derive(Debug)]
pub(crate) struct Host {
    pub(crate) input: Source,
    pub(crate) output: Sink,
    /// The thread that writes the output to where it belongs, if one is needed.
    pump: Option<JoinHandle<()>>,
}

impl Host {
    /// Takes the standard streams of this process.
    pub(crate) fn of_this_process() -> io::Result<Host> {
        Host::of(io::stdin().as_fd(), io::stdout().as_fd())
    }

    /// Takes what is read from and written to these descriptors.
    pub(crate) fn of(stdin: BorrowedFd<'_>, stdout: BorrowedFd<'_>) -> io::Result<Host> {
        let input = match own(stdin, OFlags::RDONLY)? {
            Some((fd, kind)) => Source::new(fd, kind)?,
            None => pump_in(stdin.try_clone_to_owned()?)?,
        };
        let (output, pump) = match own(stdout, OFlags::WRONLY)? {
            Some((fd, kind)) => (Sink::new(fd, kind)?, None),
            None => {
                let (sink, pump) = pump_out(stdout.try_clone_to_owned()?)?;
                (sink, Some(pump))
            }
        };
        Ok(Host {
            input,
            output,
            pump,
        })
    }

    /// The two streams, for two owners.
    pub(crate) fn split(self) -> (Source, HostOutput) {
        let output = HostOutput {
            sink: Some(self.output),
            pump: self.pump,
        };
        (self.input, output)
    }

    /// Ends the output and waits for what is on its way, but no longer than `timeout`.
    pub(crate) fn finish(self, timeout: Duration) {
        self.split().1.finish(timeout);
    }
}

/// The stream to the host.
#[derive(Debug)]
pub(crate) struct HostOutput {
    /// `None` once it has ended.
    pub(crate) sink: Option<Sink>,
    /// The thread that writes the output to where it belongs, if one is needed.
    pump: Option<JoinHandle<()>>,
}

impl HostOutput {
    /// Ends the output and waits for what is on its way, but no longer than `timeout`.
    pub(crate) fn finish(&mut self, timeout: Duration) {
        self.sink = None;
        let begun = Instant::now();
        if let Some(pump) = self.pump.take() {
            while !pump.is_finished() && begun.elapsed() < timeout {
                thread::sleep(Duration::from_millis(1));
            }
        }
    }
}

/// The descriptor to use without a pump, if there is one.
fn own(fd: BorrowedFd<'_>, access: OFlags) -> io::Result<Option<(OwnedFd, Kind)>> {
    match FileType::from_raw_mode(rustix::fs::fstat(fd)?.st_mode) {
        FileType::Socket => Ok(Some((fd.try_clone_to_owned()?, Kind::Socket))),
        FileType::Fifo => Ok(reopen(fd, access).map(|own| (own, Kind::Pipe))),
        _ => Ok(None),
    }
}

/// Opens the pipe behind `fd` once more, for a description of our own. Linux only, and refused
/// where the pipe belongs to another user.
fn reopen(fd: BorrowedFd<'_>, access: OFlags) -> Option<OwnedFd> {
    let path = format!("/proc/self/fd/{}", fd.as_raw_fd());
    rustix::fs::open(
        path,
        access | OFlags::NONBLOCK | OFlags::CLOEXEC,
        Mode::empty(),
    )
    .ok()
}

fn pump_in(from: OwnedFd) -> io::Result<Source> {
    let (reader, writer) = io::pipe()?;
    pump("stdin", from.into(), OwnedFd::from(writer).into())?;
    Source::new(unblocked(reader.into())?, Kind::Pipe)
}

fn pump_out(to: OwnedFd) -> io::Result<(Sink, JoinHandle<()>)> {
    let (reader, writer) = io::pipe()?;
    let pump = pump("stdout", OwnedFd::from(reader).into(), to.into())?;
    Ok((Sink::new(unblocked(writer.into())?, Kind::Pipe)?, pump))
}

/// Sets `O_NONBLOCK` on a description that nobody shares.
pub(crate) fn unblocked(fd: OwnedFd) -> io::Result<OwnedFd> {
    let flags = rustix::fs::fcntl_getfl(&fd)?;
    rustix::fs::fcntl_setfl(&fd, flags | OFlags::NONBLOCK)?;
    Ok(fd)
}

/// Copies until either side ends; dropping both is how the other side learns of it.
fn pump(name: &str, mut from: File, mut to: File) -> io::Result<JoinHandle<()>> {
    let copy = move || {
        let mut chunk = vec![0; CHUNK];
        loop {
            match from.read(&mut chunk) {
                Ok(0) => break,
                Ok(n) if to.write_all(&chunk[..n]).is_err() => break,
                Err(error) if error.kind() != io::ErrorKind::Interrupted => break,
                _ => {}
            }
        }
    };
    thread::Builder::new()
        .name(name.into())
        .stack_size(CHUNK)
        .spawn(copy)
}
