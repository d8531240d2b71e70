//! The standard streams of this process.
//!
//! A host gives us handles that block, whatever is behind them: an anonymous pipe, a file, a console. Nothing can be
//! done about that from outside, so a thread for each pumps bytes between it and a pipe of our own.

use std::fs::File;
use std::io::{self, IsTerminal};
use std::os::windows::io::AsHandle;
use std::thread::JoinHandle;

use crate::io::host::pump;
use crate::io::pipe::{self, Ours};
use crate::io::stream::{Sink, Source};

/// What the system calls an open stream.
pub(crate) use std::os::windows::io::{BorrowedHandle as Borrowed, OwnedHandle as Owned};

/// Does it with standard input and output.
pub(crate) fn with_both<T>(take: impl FnOnce(Borrowed<'_>, Borrowed<'_>) -> T) -> T {
    take(io::stdin().as_handle(), io::stdout().as_handle())
}

/// What is read from a stream of the host's.
pub(crate) fn input(stdin: Borrowed<'_>) -> io::Result<Source> {
    let (ours, theirs) = pipe::pair(Ours::Reads)?;
    match stdin.is_terminal() {
        // A console speaks UTF-16.
        true => pump("stdin", io::stdin(), theirs)?,
        false => pump("stdin", File::from(stdin.try_clone_to_owned()?), theirs)?,
    };
    Source::new(ours)
}

/// What is written to a stream of the host's, and the thread that does so if one is needed.
pub(crate) fn output(stdout: Borrowed<'_>) -> io::Result<(Sink, Option<JoinHandle<()>>)> {
    let (ours, theirs) = pipe::pair(Ours::Writes)?;
    let pump = match stdout.is_terminal() {
        true => pump("stdout", theirs, io::stdout())?,
        false => pump("stdout", theirs, File::from(stdout.try_clone_to_owned()?))?,
    };
    Ok((Sink::new(ours, None)?, Some(pump)))
}

/// Moves standard input and output to handles that no child inherits. In their place are `NUL`, where reading ends at
/// once, and standard error, where what is printed can be seen.
#[cfg(feature = "server")]
pub(crate) fn set_aside() -> io::Result<(Owned, Owned)> {
    use std::os::windows::io::{AsRawHandle, IntoRawHandle};
    use windows_sys::Win32::System::Console::{STD_INPUT_HANDLE, STD_OUTPUT_HANDLE, SetStdHandle};

    let both = with_both(|stdin, stdout| {
        Ok::<_, io::Error>((stdin.try_clone_to_owned()?, stdout.try_clone_to_owned()?))
    })?;
    crate::process::keep_streams_to_ourselves();
    let null = File::options().read(true).write(true).open("NUL")?;
    let stderr = io::stderr();
    let shown = match stderr.as_handle().as_raw_handle().is_null() {
        true => null.try_clone()?.into_raw_handle(),
        false => stderr.as_handle().try_clone_to_owned()?.into_raw_handle(),
    };
    // SAFETY: both handles are open, and stay so for as long as this process lives.
    #[expect(unsafe_code)]
    unsafe {
        SetStdHandle(STD_INPUT_HANDLE, null.into_raw_handle());
        SetStdHandle(STD_OUTPUT_HANDLE, shown);
    }
    Ok(both)
}

/// A stream, lent.
#[cfg(feature = "server")]
pub(crate) fn borrow(stream: &Owned) -> Borrowed<'_> {
    stream.as_handle()
}
