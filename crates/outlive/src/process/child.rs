//! A link to a child process: three pipes and a process id.
//!
//! Nothing here waits for a process. It is started on a [thread of its own](crate::process::starter), and ended, with
//! all that it has started, on another. The link has ended when that is done: so nobody is
//! left who could read what was written, and what is left in the pipe was not read by anybody.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::BytesMut;
use outlive_core::cause::{Exit, StartFailure};
use outlive_core::{Frame, Framer, Generation, LinkInput, LinkOrder, Message};
use tokio::sync::mpsc::UnboundedSender;
use tokio::sync::oneshot;

use crate::driver::upstream::{Link, Read};
use crate::io::lines::Lines;
use crate::io::outbox::Outbox;
use crate::io::spin::Look;
use crate::io::stream::{Sink, Source};
use crate::process::server::{Pipes, Server, Started, Sweep};

/// Room for each read of standard error.
const STDERR_READ: usize = 8 << 10;

/// One server process and its pipes.
#[derive(Debug)]
pub(crate) struct ChildLink {
    generation: Generation,
    process: Process,
    /// Orders that came before there was a process.
    early: Vec<LinkOrder>,
    /// Given once it is to end, or has ended by itself.
    sweep: Option<Sweep>,
    /// Told when there is something that the driver has to ask for.
    done: UnboundedSender<()>,
    /// It was told how the process has ended.
    exit_told: bool,
    /// It is not spoken to any more.
    killed: bool,
    /// Its end is not waited for.
    let_go: bool,
    /// Gone once closed or failed.
    stdin: Option<Sink>,
    outbox: Outbox,
    /// Bytes written that the server will certainly never read.
    unread: usize,
    /// Close the input as soon as the outbox is empty.
    closing: bool,
    /// Nothing more is written.
    stopped: bool,
    /// The process has ended, and somebody else holds its input, …
    orphaned: bool,
    /// … or has let go of it, or is not waited for any more.
    released: bool,
    /// Gone after its end.
    stdout: Option<Source>,
    framer: Framer,
    stderr: Option<Source>,
    stderr_bytes: BytesMut,
    lines: Lines,
}

/// How far it has come.
#[derive(Debug)]
enum Process {
    Starting(oneshot::Receiver<Started>),
    Started(Server),
    /// It could not be started.
    None,
}

impl ChildLink {
    /// The link to a process that is being started. `message_limit` bounds what it may write in one line.
    pub(crate) fn new(
        starting: oneshot::Receiver<Started>,
        done: UnboundedSender<()>,
        generation: Generation,
        message_limit: usize,
    ) -> ChildLink {
        ChildLink {
            generation,
            process: Process::Starting(starting),
            early: Vec::new(),
            sweep: None,
            done,
            exit_told: false,
            killed: false,
            let_go: false,
            stdin: None,
            outbox: Outbox::default(),
            unread: 0,
            closing: false,
            stopped: false,
            orphaned: false,
            released: false,
            stdout: None,
            framer: Framer::new(message_limit),
            stderr: None,
            stderr_bytes: BytesMut::new(),
            lines: Lines::default(),
        }
    }

    /// The process was started, or not.
    fn take(&mut self, started: Started) -> Result<(), StartFailure> {
        self.process = Process::None;
        let (mut server, pipes) = started?;
        self.take_pipes(pipes)
            .and_then(|()| server.watch(&self.done))
            .map_err(|error| StartFailure::Other(error.to_string()))?;
        self.process = Process::Started(server);
        for order in std::mem::take(&mut self.early) {
            self.order(order);
        }
        Ok(())
    }

    fn take_pipes(&mut self, pipes: Pipes) -> io::Result<()> {
        let (stdin, stdout, stderr) = pipes.open()?;
        self.stdin = Some(stdin);
        (self.stdout, self.stderr) = (Some(stdout), Some(stderr));
        Ok(())
    }

    /// Ends the server and its descendants; what is queued is dropped.
    fn kill(&mut self) {
        self.killed = true;
        self.stop_writing();
        self.framer = Framer::new(0);
        // The input is kept: what is left in it in the end was not read.
        (self.stdout, self.stderr) = (None, None);
        self.sweep();
    }

    fn stop_writing(&mut self) {
        self.stopped = true;
        self.outbox.clear();
    }

    /// Has all that belongs to the server ended, once.
    fn sweep(&mut self) {
        if let Process::Started(server) = &self.process
            && self.sweep.is_none()
        {
            self.sweep = Some(server.end(self.done.clone()));
        }
    }

    /// Collects the process, which has ended with all that belongs to it. Tells how it ended and what
    /// [`Link::sent`] is in the end.
    pub(crate) fn end(mut self) -> (Exit, u64) {
        if let Some(stdin) = &self.stdin {
            self.unread = stdin.unread();
        }
        let exit = match std::mem::replace(&mut self.process, Process::None) {
            Process::Started(server) => server.collect(),
            Process::Starting(_) | Process::None => Exit::Unknown,
        };
        (exit, self.sent())
    }
}

impl Link for ChildLink {
    fn generation(&self) -> Generation {
        self.generation
    }

    fn is_made(&self) -> bool {
        false
    }

    fn poll_made(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), StartFailure>> {
        let Process::Starting(starting) = &mut self.process else {
            return Poll::Pending;
        };
        let Poll::Ready(started) = Pin::new(starting).poll(cx) else {
            return Poll::Pending;
        };
        let lost = || StartFailure::Other("there is no thread to start it on".into());
        let made = self.take(started.unwrap_or_else(|_| Err(lost())));
        if made.is_err() {
            // There is nothing left of it.
            let _ = self.done.send(());
        }
        match self.killed {
            // It is told how it ended, not that it began.
            true => Poll::Pending,
            false => Poll::Ready(made),
        }
    }

    fn send(&mut self, message: Message) {
        if self.stdin.is_some() && !self.closing && !self.stopped {
            self.outbox.push(message.into_bytes());
        }
    }

    fn flush(&mut self, cx: &mut Context<'_>) -> io::Result<()> {
        let Some(stdin) = self.stdin.as_mut().filter(|_| !self.killed) else {
            return Ok(());
        };
        let result = stdin.flush(cx, &mut self.outbox);
        if result.is_err() {
            // As a rule because nobody can read this pipe any more.
            self.unread = stdin.unread();
        }
        if result.is_err() || self.closing && self.outbox.is_empty() && stdin.is_idle() {
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

    fn poll_read(&mut self, cx: &mut Context<'_>, look: Look) -> Poll<Read> {
        let Some(stdout) = &mut self.stdout else {
            return Poll::Pending;
        };
        match stdout.poll_read(cx, self.framer.spare(), look) {
            Poll::Pending => Poll::Pending,
            Poll::Ready(Ok(1..)) => Poll::Ready(Read::Some),
            Poll::Ready(_) => {
                self.stdout = None;
                Poll::Ready(Read::End)
            }
        }
    }

    fn next_frame(&mut self) -> Option<Frame> {
        match (&self.stdout, &self.process) {
            (Some(_), _) => self.framer.next_frame(),
            (None, Process::Starting(_)) => None,
            (None, _) => self.framer.finish(),
        }
    }

    fn poll_stderr(&mut self, cx: &mut Context<'_>) -> Poll<Read> {
        let Some(stderr) = &mut self.stderr else {
            return Poll::Pending;
        };
        self.stderr_bytes.reserve(STDERR_READ);
        match stderr.poll_read(cx, &mut self.stderr_bytes, Look::Usual) {
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
        let server = match &self.process {
            Process::Started(server) => server,
            Process::Starting(_) if order != LinkOrder::Inspect => {
                self.killed |= order == LinkOrder::Kill;
                self.early.push(order);
                return None;
            }
            Process::Starting(_) => return Some(LinkInput::Inspected { stopped: false }),
            Process::None => return None,
        };
        match order {
            // Once everything queued is written.
            LinkOrder::CloseInput => self.closing = true,
            LinkOrder::StopWriting => self.stop_writing(),
            LinkOrder::Release => self.released = self.orphaned,
            LinkOrder::Terminate => server.terminate(),
            LinkOrder::Kill => self.kill(),
            LinkOrder::DeclineLogin => {}
            LinkOrder::Inspect => {
                let stopped = server.is_stopped();
                return Some(LinkInput::Inspected { stopped });
            }
        }
        None
    }

    /// Told before the rest has ended, so that nobody has to wait for the reason. What others write from now on is not
    /// the server's.
    fn exit(&mut self) -> Option<Exit> {
        let Process::Started(server) = &self.process else {
            return None;
        };
        if self.exit_told || !server.has_ended() {
            return None;
        }
        self.exit_told = true;
        Some(server.exit())
    }

    fn has_ended(&mut self) -> bool {
        match &self.process {
            Process::Starting(_) => return false,
            Process::Started(_) if self.orphaned => return self.released,
            Process::Started(server) if !server.has_ended() => return false,
            Process::Started(_) => {}
            Process::None => return true,
        }
        // What it left behind goes first (FM-09): somebody may still read what was meant for it.
        self.sweep();
        self.sweep.as_ref().is_some_and(Sweep::is_done)
    }

    /// All that could be found of it is dead; but it may have given its input to somebody who was not.
    fn orphan(&mut self) -> Option<(Exit, u64)> {
        let Process::Started(server) = &self.process else {
            return None;
        };
        if self.orphaned || !self.stdin.as_ref()?.has_reader() {
            return None;
        }
        let exit = server.exit();
        self.orphaned = true;
        self.stop_writing();
        Some((exit, self.sent()))
    }

    fn poll_unread(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let stdin = self.stdin.as_mut();
        let Some(stdin) = stdin.filter(|_| self.orphaned && !self.released) else {
            return Poll::Pending;
        };
        let gone = stdin.poll_gone(cx);
        self.released = gone.is_ready();
        gone
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

    fn let_go(mut self) {
        self.let_go = true;
    }
}

/// A driver is dropped before its time only together with its runtime. What is left after that is nobody's: so this is
/// the one place where the end of a server is waited for.
impl Drop for ChildLink {
    fn drop(&mut self) {
        if let Process::Started(server) = &self.process
            && !self.let_go
        {
            server.end_now();
        }
    }
}
