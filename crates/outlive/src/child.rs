//! A link to a child process: three pipes and a process id.

use std::io;
use std::os::fd::OwnedFd;
use std::process::Child;
use std::task::{Context, Poll};

use bytes::{Bytes, BytesMut};
use outlive_core::cause::{Exit, StartFailure};
use outlive_core::{Frame, Framer, Generation, LinkInput, LinkOrder};
use rustix::process::Pid;

use crate::host::unblocked;
use crate::lines::Lines;
use crate::outbox::Outbox;
use crate::process;
use crate::stream::{Kind, Sink, Source};
use crate::upstream::{Link, Read};

/// Room for each read of standard error.
const STDERR_READ: usize = 8 << 10;

/// One server process and its pipes.
#[derive(Debug)]
pub(crate) struct ChildLink {
    generation: Generation,
    /// The process, which also leads its group. It is not collected before [`ChildLink::end`].
    pid: Pid,
    collected: bool,
    /// Gone once closed, failed or killed.
    stdin: Option<Sink>,
    outbox: Outbox,
    /// Bytes written that the server will certainly never read.
    unread: usize,
    /// Close the input as soon as the outbox is empty.
    closing: bool,
    /// Gone after its end.
    stdout: Option<Source>,
    framer: Framer,
    stderr: Option<Source>,
    stderr_bytes: BytesMut,
    lines: Lines,
}

impl ChildLink {
    /// The link to a process with three pipes. `message_limit` bounds what it may write in one line.
    pub(crate) fn new(
        mut child: Child,
        generation: Generation,
        message_limit: usize,
    ) -> Result<ChildLink, StartFailure> {
        let pid = process::id_of(&child);
        let mut link = ChildLink {
            generation,
            pid,
            collected: false,
            stdin: None,
            outbox: Outbox::default(),
            unread: 0,
            closing: false,
            stdout: None,
            framer: Framer::new(message_limit),
            stderr: None,
            stderr_bytes: BytesMut::new(),
            lines: Lines::default(),
        };
        let pipes = (child.stdin.take(), child.stdout.take(), child.stderr.take());
        let (Some(stdin), Some(stdout), Some(stderr)) = pipes else {
            return Err(StartFailure::Other("its pipes could not be made".into()));
        };
        link.take_pipes(stdin.into(), stdout.into(), stderr.into())
            .map_err(|error| StartFailure::Other(error.to_string()))?;
        Ok(link)
    }

    fn take_pipes(&mut self, stdin: OwnedFd, stdout: OwnedFd, stderr: OwnedFd) -> io::Result<()> {
        self.stdin = Some(Sink::new(unblocked(stdin)?, Kind::Pipe)?);
        self.stdout = Some(Source::new(unblocked(stdout)?, Kind::Pipe)?);
        self.stderr = Some(Source::new(unblocked(stderr)?, Kind::Pipe)?);
        Ok(())
    }

    pub(crate) fn pid(&self) -> Pid {
        self.pid
    }

    /// Ends the server and its descendants; what is queued or unread is dropped.
    fn kill(&mut self) {
        process::kill(self.pid);
        if let Some(stdin) = &self.stdin {
            self.unread = stdin.unread();
        }
        self.outbox.clear();
        self.framer = Framer::new(0);
        (self.stdin, self.stdout, self.stderr) = (None, None, None);
    }

    /// Ends what is left of the group, then collects the process. Tells how it ended and what
    /// [`Link::sent`] is in the end.
    pub(crate) fn end(mut self) -> (Exit, u64) {
        process::kill(self.pid);
        self.collected = true;
        if let Some(stdin) = &self.stdin {
            self.unread = stdin.unread();
        }
        (process::collect(self.pid), self.sent())
    }
}

impl Link for ChildLink {
    fn generation(&self) -> Generation {
        self.generation
    }

    fn send(&mut self, frame: Bytes) {
        if self.stdin.is_some() && !self.closing {
            self.outbox.push(frame);
        }
    }

    fn flush(&mut self, cx: &mut Context<'_>) -> io::Result<()> {
        let Some(stdin) = &mut self.stdin else {
            return Ok(());
        };
        let result = stdin.flush(cx, &mut self.outbox);
        if result.is_err() {
            // Nobody can read this pipe any more.
            self.unread = stdin.unread();
        }
        if result.is_err() || self.closing && self.outbox.is_empty() {
            self.stdin = None;
            self.outbox.clear();
        }
        result
    }

    fn backlog(&self) -> usize {
        self.outbox.len()
    }

    /// How many of the frames queued here were written out in full, less those that were left
    /// in the pipe unread when nobody was there to read them any more.
    fn sent(&self) -> u64 {
        self.outbox.sent(self.unread)
    }

    fn is_visible(&self) -> bool {
        self.stdout.is_some()
    }

    fn look_closely(&mut self) {
        if let Some(stdout) = &mut self.stdout {
            stdout.look_closely();
        }
    }

    fn poll_read(&mut self, cx: &mut Context<'_>) -> Poll<Read> {
        let Some(stdout) = &mut self.stdout else {
            return Poll::Pending;
        };
        match stdout.poll_read(cx, self.framer.spare()) {
            Poll::Pending => Poll::Pending,
            Poll::Ready(Ok(1..)) => Poll::Ready(Read::Some),
            Poll::Ready(_) => {
                self.stdout = None;
                Poll::Ready(Read::End)
            }
        }
    }

    fn next_frame(&mut self) -> Option<Frame> {
        match self.stdout {
            Some(_) => self.framer.next_frame(),
            None => self.framer.finish(),
        }
    }

    fn poll_stderr(&mut self, cx: &mut Context<'_>) -> Poll<Read> {
        let Some(stderr) = &mut self.stderr else {
            return Poll::Pending;
        };
        self.stderr_bytes.reserve(STDERR_READ);
        match stderr.poll_read(cx, &mut self.stderr_bytes) {
            Poll::Pending => Poll::Pending,
            Poll::Ready(Ok(1..)) => Poll::Ready(Read::Some),
            Poll::Ready(_) => {
                self.stderr = None;
                Poll::Ready(Read::End)
            }
        }
    }

    fn take_lines(&mut self) -> Vec<String> {
        let mut lines = Vec::new();
        self.lines.push(&self.stderr_bytes, |line| lines.push(line));
        self.stderr_bytes.clear();
        if self.stderr.is_none() {
            lines.extend(self.lines.finish());
        }
        lines
    }

    fn order(&mut self, order: LinkOrder) -> Option<LinkInput> {
        match order {
            // Once everything queued is written.
            LinkOrder::CloseInput => self.closing = true,
            LinkOrder::Terminate => process::terminate(self.pid),
            LinkOrder::Kill => self.kill(),
            LinkOrder::Inspect => {
                let stopped = process::is_stopped(self.pid);
                return Some(LinkInput::Inspected { stopped });
            }
        }
        None
    }

    fn has_ended(&self) -> bool {
        process::has_ended(self.pid)
    }

    /// A descendant may hold the pipes open for ever (FM-67). What is in them now is all of it.
    fn read_rest(&mut self) {
        if let Some(mut stderr) = self.stderr.take() {
            let mut left = stderr.available();
            self.stderr_bytes.reserve(left);
            while left > 0 {
                left = left.saturating_sub(stderr.read_now(&mut self.stderr_bytes).max(1));
            }
        }
        if let Some(mut stdout) = self.stdout.take() {
            let mut left = stdout.available();
            while left > 0 {
                left = left.saturating_sub(stdout.read_now(self.framer.spare()).max(1));
            }
        }
    }
}

/// A driver that goes down takes its servers with it.
impl Drop for ChildLink {
    fn drop(&mut self) {
        if !self.collected {
            process::kill(self.pid);
            process::collect_killed(self.pid);
        }
    }
}
