//! Standard input and output, kept for the protocol.
//!
//! A stray `print!`, or a child process that inherits the standard streams, would write into the
//! protocol and read from it (FM-11, FM-65). So both descriptors are moved aside, to numbers that
//! no child inherits; in their place are `/dev/null`, where reading ends at once, and standard
//! error, where what is printed can be seen.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::fs::{Mode, OFlags};

use crate::io::host::Host;

/// The lowest number for a descriptor that is moved aside.
const ASIDE: i32 = 3;

/// The standard streams can be moved aside once.
static TAKEN: AtomicBool = AtomicBool::new(false);

/// The real standard streams of this process.
pub(crate) struct Guarded {
    input: OwnedFd,
    output: OwnedFd,
}

impl Guarded {
    /// Moves the standard streams aside, for as long as the process lives.
    pub(crate) fn take() -> io::Result<Guarded> {
        if TAKEN.swap(true, Ordering::AcqRel) {
            let words = "the standard streams of this process are already being served";
            return Err(io::Error::new(io::ErrorKind::AlreadyExists, words));
        }
        let (stdin, stdout, stderr) = (io::stdin(), io::stdout(), io::stderr());
        let guarded = Guarded {
            input: aside(stdin.as_fd())?,
            output: aside(stdout.as_fd())?,
        };
        let null = rustix::fs::open("/dev/null", OFlags::RDWR | OFlags::CLOEXEC, Mode::empty())?;
        rustix::stdio::dup2_stdin(&null)?;
        if rustix::stdio::dup2_stdout(stderr.as_fd()).is_err() {
            // Standard error is closed. The next file to be opened must not become it.
            rustix::stdio::dup2_stderr(&null)?;
            rustix::stdio::dup2_stdout(&null)?;
        }
        Ok(guarded)
    }

    /// The client behind them. To be called inside the runtime that is to read them.
    pub(crate) fn host(self) -> io::Result<Host> {
        Host::of(self.input.as_fd(), self.output.as_fd())
    }
}

fn aside(fd: BorrowedFd<'_>) -> io::Result<OwnedFd> {
    Ok(rustix::io::fcntl_dupfd_cloexec(fd, ASIDE)?)
}
