//! The three pipes to a server on standard input and output.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::AsyncWriteExt;
use tokio::process::{ChildStderr, ChildStdin, ChildStdout};
use tokio::sync::watch;
use tokio::task::JoinHandle;

use crate::inbox::Inbox;
use crate::journal::Leg;
use crate::lines::Lines;
use crate::process::{Process, Streams};
use crate::system;

/// The host's ends of the pipes.
#[derive(Debug)]
pub struct Pipes {
    /// The server.
    pub process: Process,
    input: Option<ChildStdin>,
    reading: Reading,
    reader: Option<JoinHandle<()>>,
    drainer: Option<JoinHandle<()>>,
    /// Kept open, and full in the end.
    _unread: Option<ChildStderr>,
}

/// Whether the server's output is read.
#[derive(Clone, Debug)]
pub struct Reading(watch::Sender<bool>);

impl Reading {
    /// Reads on.
    pub fn read_on(&self) {
        self.0.send_replace(true);
    }
}

impl Pipes {
    /// Reads into the inbox from now on; standard error is drained into the journal if wanted.
    pub fn new(
        process: Process,
        streams: Streams,
        drain: bool,
        inbox: Arc<Inbox>,
        leg: &Leg,
    ) -> Pipes {
        let (reading, may_read) = watch::channel(true);
        let reader = tokio::spawn(read(streams.stdout, may_read, inbox, leg.clone()));
        let (drainer, unread) = match drain {
            true => (
                Some(tokio::spawn(drained(streams.stderr, leg.clone()))),
                None,
            ),
            false => {
                system::shrink(&streams.stderr);
                (None, Some(streams.stderr))
            }
        };
        Pipes {
            process,
            input: Some(streams.stdin),
            reading: Reading(reading),
            reader: Some(reader),
            drainer,
            _unread: unread,
        }
    }

    /// Writes all of it, unless the server does not take it in time.
    pub async fn write(&mut self, bytes: &[u8], timeout: Duration) -> io::Result<()> {
        let closed = || io::Error::new(io::ErrorKind::BrokenPipe, "the input is closed");
        let input = self.input.as_mut().ok_or_else(closed)?;
        let written = tokio::time::timeout(timeout, async {
            input.write_all(bytes).await?;
            input.flush().await
        });
        written
            .await
            .unwrap_or_else(|_| Err(io::Error::new(io::ErrorKind::TimedOut, "it is not read")))
    }

    /// The end of the server's input.
    pub fn close_input(&mut self) {
        self.input = None;
    }

    /// Nobody reads the server's output any more: its writes fail.
    pub async fn close_output(&mut self) {
        if let Some(reader) = self.reader.take() {
            reader.abort();
            let _ = reader.await;
        }
    }

    /// Leaves the server's output in the pipe, until [`Reading::read_on`].
    pub fn stop_reading(&self) {
        self.reading.0.send_replace(false);
    }

    /// What makes it be read again, also while something is written.
    pub fn reading(&self) -> Reading {
        self.reading.clone()
    }
}

impl Drop for Pipes {
    fn drop(&mut self) {
        for task in self.reader.iter().chain(&self.drainer) {
            task.abort();
        }
    }
}

async fn read(
    mut stdout: ChildStdout,
    mut may_read: watch::Receiver<bool>,
    inbox: Arc<Inbox>,
    leg: Leg,
) {
    let mut lines = Lines::default();
    loop {
        if may_read.wait_for(|may| *may).await.is_err() {
            return;
        }
        match lines.fill(&mut stdout).await {
            Ok(n) if n > 0 => {}
            _ => break,
        }
        while let Some(line) = lines.next() {
            leg.received(&line);
            inbox.take(&line);
        }
    }
    if let Some(rest) = lines.finish() {
        leg.received(&rest);
        inbox.take(&rest);
    }
    leg.note("its output ended");
    inbox.end();
}

pub(crate) async fn drained(mut stderr: ChildStderr, leg: Leg) {
    let mut lines = Lines::default();
    while let Ok(1..) = lines.fill(&mut stderr).await {
        while let Some(line) = lines.next() {
            leg.stderr(&line);
        }
    }
    if let Some(rest) = lines.finish() {
        leg.stderr(&rest);
    }
}
