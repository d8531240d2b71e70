//! What the handles of a client want of the task that owns the connection.
//!
//! Handles live on any task, thread or runtime. They put their wishes into the inbox and never wait:
//! a lock is held for as long as it takes to push or to take out.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use outlive_core::error::{Error, Outcome};
use outlive_core::policy::{Limits, Terms};

use super::desk::Pending;

/// One wish.
#[derive(Debug)]
pub(crate) enum Command {
    /// Send this request and settle it.
    Call {
        id: u64,
        frame: Bytes,
        terms: Terms,
        pending: Pending,
    },
    /// Nobody waits for this request any more.
    Cancel { id: u64, reason: Option<String> },
    /// Send this notification or answer.
    Send(Bytes),
    /// Put a new server under the session.
    Restart,
    /// End the session.
    Stop,
}

#[derive(Debug)]
pub(crate) struct Inbox {
    inside: Mutex<Inside>,
    most: usize,
    most_bytes: usize,
}

#[derive(Debug, Default)]
struct Inside {
    commands: VecDeque<Command>,
    calls: usize,
    bytes: usize,
    closed: bool,
    waker: Option<Waker>,
}

impl Inbox {
    /// Bounded like what a session holds for a server that is down.
    pub(crate) fn new(limits: &Limits) -> Inbox {
        Inbox {
            inside: Mutex::default(),
            most: limits.in_flight + limits.held,
            most_bytes: limits.held_bytes.max(limits.message),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Inside> {
        self.inside.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes a wish in, or says why it cannot be.
    pub(crate) fn push(&self, command: Command) -> Result<(), Error> {
        let mut inside = self.lock();
        if inside.closed {
            return Err(Error::ShuttingDown {
                outcome: Outcome::NotSent,
            });
        }
        if let Command::Call { frame, .. } = &command {
            // One call always fits.
            let full = inside.calls >= self.most || inside.bytes + frame.len() > self.most_bytes;
            if full && inside.calls > 0 {
                return Err(Error::Overloaded);
            }
            inside.calls += 1;
            inside.bytes += frame.len();
        }
        inside.commands.push_back(command);
        let waker = inside.waker.take();
        drop(inside);
        if let Some(waker) = waker {
            waker.wake();
        }
        Ok(())
    }

    /// Moves all that is there to the end of `to`. If that is nothing, wakes `cx` when there is
    /// something. What is in `to` counts as waiting until it is taken out of there, so that the
    /// bounds hold for both together.
    pub(crate) fn take(&self, cx: &mut Context<'_>, to: &mut VecDeque<Command>) -> Poll<()> {
        let mut inside = self.lock();
        let some = !inside.commands.is_empty();
        to.append(&mut inside.commands);
        (inside.calls, inside.bytes) = (0, 0);
        for command in &*to {
            if let Command::Call { frame, .. } = command {
                inside.calls += 1;
                inside.bytes += frame.len();
            }
        }
        if some {
            return Poll::Ready(());
        }
        inside.waker = Some(cx.waker().clone());
        Poll::Pending
    }

    /// Nobody reads it any more. Gives back what nobody has seen to.
    pub(crate) fn close(&self) -> VecDeque<Command> {
        let mut inside = self.lock();
        inside.closed = true;
        std::mem::take(&mut inside.commands)
    }
}
