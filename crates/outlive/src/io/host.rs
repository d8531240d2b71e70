//! The host's side: the standard input and output this process was given.
//!
//! What the driver sees is always a stream that does not block; how it comes to be one is
//! [`standard`]'s business.

use std::io::{self, Read, Write};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use crate::io::standard::{self, Borrowed};
use crate::io::stream::{Sink, Source};

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
        standard::with_both(Host::of)
    }

    /// Takes what is read from and written to these streams.
    pub(crate) fn of(stdin: Borrowed<'_>, stdout: Borrowed<'_>) -> io::Result<Host> {
        let input = standard::input(stdin)?;
        let (output, pump) = standard::output(stdout)?;
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
        let begun = Instant::now();
        let wait = |done: &mut dyn FnMut() -> bool| {
            while !done() && begun.elapsed() < timeout {
                thread::sleep(Duration::from_millis(1));
            }
        };
        if let Some(mut sink) = self.sink.take() {
            wait(&mut || sink.is_idle());
        }
        if let Some(pump) = self.pump.take() {
            wait(&mut || pump.is_finished());
        }
    }
}

/// Copies until either side ends; dropping both is how the other side learns of it.
pub(crate) fn pump(
    name: &str,
    mut from: impl Read + Send + 'static,
    mut to: impl Write + Send + 'static,
) -> io::Result<JoinHandle<()>> {
    let copy = move || {
        let mut chunk = vec![0; CHUNK];
        loop {
            match from.read(&mut chunk) {
                Ok(0) => break,
                Ok(n) if to.write_all(&chunk[..n]).and_then(|()| to.flush()).is_err() => break,
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
