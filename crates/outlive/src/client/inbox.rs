//! What the handles of a client want of the task that owns the connection.
//!
//! Handles live on any task, thread or runtime. They put their wishes into the inbox and never wait:
//! a lock is held for as long as it takes to push or to take out.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::{Context, Waker};

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

    /// Moves all that is there to the end of `to`; wakes `cx` when there is more.
    pub(crate) fn take(&self, cx: &mut Context<'_>, to: &mut VecDeque<Command>) {
        let mut inside = self.lock();
        to.append(&mut inside.commands);
        (inside.calls, inside.bytes) = (0, 0);
        inside.waker = Some(cx.waker().clone());
    }

    /// Nobody reads it any more. What is in it is dropped, and with it whoever waits for it.
    pub(crate) fn close(&self) {
        let mut inside = self.lock();
        inside.closed = true;
        let left = std::mem::take(&mut inside.commands);
        drop(inside);
        drop(left);
    }
}
