//! Standard input and output as the host's side of a driver.

use std::io;
use std::sync::Arc;
use std::task::{Context, Poll};

use outlive_core::error::Refusal;
use outlive_core::request;
use outlive_core::{Event, Framer, Input, Message, Session, State, Time};

use crate::driver::downstream::Downstream;
use crate::driver::{LAST_WRITE_TIMEOUT, READS};
use crate::io::host::Host;
use crate::io::outbox::Outbox;
use crate::io::spin::{Look, Thread};
use crate::observer::{Numbered, Observer};
use crate::process::signals::{Signal, Signals};

/// Above this many bytes for the host, the server is not read …
const HIGH: usize = 1 << 20;
/// … until no more than this are left.
const LOW: usize = HIGH / 2;

/// A host behind the standard streams of this process, and a user who sends it signals.
pub(crate) struct Stdio {
    observer: Arc<dyn Observer>,
    exit_on_failed: bool,
    /// The breaker opened and the session was told to stop for it.
    pub(crate) failed: bool,
    host: Host,
    framer: Framer,
    outbox: Outbox,
    /// `None` in a process that is not all ours: others have tasks on this thread, and signals mean
    /// something to them.
    signals: Option<Signals>,
    /// How often it may still be read before the server has its turn.
    reads: usize,
    /// Its input has ended.
    ended: bool,
    /// It has, and the session is yet to be told, after the last frame.
    closing: bool,
    /// It takes nothing any more.
    gone: bool,
    /// The outbox was too long and has not been short since.
    blocked: bool,
    /// Requests that were answered with an error of ours.
    refused: u64,
}

impl Stdio {
    pub(crate) fn new(
        observer: Arc<dyn Observer>,
        exit_on_failed: bool,
        message_limit: usize,
    ) -> io::Result<Stdio> {
        let mut stdio = Stdio::of(Host::of_this_process()?, observer, message_limit);
        stdio.exit_on_failed = exit_on_failed;
        stdio.signals = Some(Signals::new()?);
        Ok(stdio)
    }

    /// A host behind any two streams.
    pub(crate) fn of(host: Host, observer: Arc<dyn Observer>, message_limit: usize) -> Stdio {
        Stdio {
            observer,
            exit_on_failed: false,
            failed: false,
            host,
            framer: Framer::new(message_limit),
            outbox: Outbox::default(),
            signals: None,
            reads: READS,
            ended: false,
            closing: false,
            gone: false,
            blocked: false,
            refused: 0,
        }
    }

    /// Waits a moment for what is on its way to the host.
    pub(crate) fn finish(self) {
        self.host.finish(LAST_WRITE_TIMEOUT);
    }

    /// The next frame of what was read; after the last one, the end.
    fn next_input(&mut self) -> Option<Input> {
        if !self.closing {
            return self.framer.next_frame().map(Input::Host);
        }
        let last = self.framer.finish().map(Input::Host);
        self.closing = last.is_some();
        last.or(Some(Input::HostClosed))
    }
}

impl Downstream for Stdio {
    fn observer(&self) -> Option<Arc<dyn request::Observer>> {
        let numbered = || Numbered {
            session: None,
            observer: self.observer.clone(),
        };
        let watches = self.observer.watches_requests();
        watches.then(|| Arc::new(numbered()) as Arc<dyn request::Observer>)
    }

    fn thread(&self) -> Option<Thread> {
        self.signals.as_ref().map(|_| Thread::Own)
    }

    fn poll_next(&mut self, cx: &mut Context<'_>, open: bool, look: Look) -> Poll<Option<Input>> {
        if let Some(input) = self.next_input() {
            return Poll::Ready(Some(input));
        }
        if let Some(signals) = &mut self.signals
            && let Poll::Ready(signal) = signals.poll_next(cx)
        {
            return Poll::Ready(Some(match signal {
                Signal::Stop => Input::Stop,
                Signal::Restart => Input::Restart,
            }));
        }
        loop {
            if self.ended || !open {
                return Poll::Pending;
            }
            if self.reads == 0 {
                self.reads = READS;
                return Poll::Ready(None);
            }
            self.reads -= 1;
            match self.host.input.poll_read(cx, self.framer.spare(), look) {
                Poll::Pending => {
                    self.reads = READS;
                    return Poll::Pending;
                }
                Poll::Ready(Ok(1..)) => {}
                Poll::Ready(_) => (self.ended, self.closing) = (true, true),
            }
            if let Some(input) = self.next_input() {
                return Poll::Ready(Some(input));
            }
        }
    }

    fn send(&mut self, message: Message) {
        if !self.gone {
            self.outbox.push(message.into_bytes());
        }
    }

    fn look_at(&mut self, session: &Session, _now: Time) {
        self.observer.load(session.load(), self.refused);
    }

    fn refuse(&mut self, refusal: Refusal) {
        self.refused += 1;
        self.send(refusal.to_response());
    }

    fn event(&mut self, now: Time, event: &Event) -> Option<Input> {
        self.observer.event(None, now, event);
        let failed = matches!(event, Event::State(State::Failed { .. }));
        if self.exit_on_failed && failed && !self.failed {
            self.failed = true;
            return Some(Input::Stop);
        }
        None
    }

    fn stderr(&mut self, line: &str) {
        self.observer.stderr(None, line);
    }

    fn flush(&mut self, cx: &mut Context<'_>) -> Option<Input> {
        if self.gone {
            return None;
        }
        let output = &mut self.host.output;
        if output.poll_gone(cx).is_ready() || output.flush(cx, &mut self.outbox).is_err() {
            // FM-10: nobody will ever read what we write, so nobody is there to be served.
            (self.gone, self.ended) = (true, true);
            self.outbox.clear();
            return Some(Input::HostGone);
        }
        let blocked = match self.outbox.len() {
            len if len > HIGH => true,
            len if len <= LOW => false,
            _ => self.blocked,
        };
        let changed = blocked != self.blocked;
        self.blocked = blocked;
        changed.then_some(Input::HostBlocked(blocked))
    }

    fn backlog(&self) -> usize {
        self.outbox.len()
    }

    fn is_blocked(&self) -> bool {
        self.blocked
    }

    fn is_told(&self) -> bool {
        self.gone || self.outbox.is_empty()
    }
}
