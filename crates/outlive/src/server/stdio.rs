//! Standard input and output, kept for the protocol.
//!
//! A stray `print!`, or a child process that inherits the standard streams, would write into the
//! protocol and read from it (FM-11, FM-65). So both streams are moved aside, to where no child
//! inherits them; in their place are one where reading ends at once, and standard
//! error, where what is printed can be seen.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::io::host::Host;
use crate::io::standard::{self, Owned};

/// The standard streams can be moved aside once.
static TAKEN: AtomicBool = AtomicBool::new(false);

/// The real standard streams of this process.
pub(crate) struct Guarded {
    input: Owned,
    output: Owned,
}

impl Guarded {
    /// Moves the standard streams aside, for as long as the process lives.
    pub(crate) fn take() -> io::Result<Guarded> {
        if TAKEN.swap(true, Ordering::AcqRel) {
            let words = "the standard streams of this process are already being served";
            return Err(io::Error::new(io::ErrorKind::AlreadyExists, words));
        }
        let (input, output) = standard::set_aside()?;
        Ok(Guarded { input, output })
    }

    /// The client behind them. To be called inside the runtime that is to read them.
    pub(crate) fn host(self) -> io::Result<Host> {
        Host::of(
            standard::borrow(&self.input),
            standard::borrow(&self.output),
        )
    }
}
