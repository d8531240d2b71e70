//! What the handles of a client want of the task that owns the connection.
//!
//! Handles live on any task, thread or runtime. They put their commands into the mailbox and never wait:
//! a lock is held for as long as it takes to push or to take out.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use outlive_core::error::{Error, Limit, Outcome};
use outlive_core::policy::{Limits, Terms};
use outlive_core::snapshot::{Snapshot, SnapshotError};
use tokio::sync::oneshot;

use super::downstream::Pending;

/// One command.
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
    /// Send this notification.
    Notify(Bytes),
    /// Send this answer to a request of the server's, of which there are only so many.
    Answer(Bytes),
    /// Put a new server under the session.
    Restart,
    /// Tell what another process has to know to go on with the session.
    Snapshot(oneshot::Sender<Result<Snapshot, SnapshotError>>),
    /// End the session.
    Stop,
}

/// What can be put into a mailbox.
pub(crate) trait Ranked {
    /// Its size, if it is a call or the like: these are bounded, and wait while the session takes no
    /// more.
    fn call(&self) -> Option<usize>;

    /// What it is to those before and after it.
    fn rank(&self) -> Rank;
}

/// What a command is to those before and after it, while the session takes no more calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rank {
    /// It waits.
    Call,
    /// It waits, but whoever sent it may have seen it acknowledged: no answer overtakes it.
    Notice,
    /// It does not wait, and comes after the notices before it.
    Answer,
    /// It waits for nothing.
    Urgent,
}

impl Ranked for Command {
    fn call(&self) -> Option<usize> {
        match self {
            Command::Call { frame, .. } | Command::Notify(frame) => Some(frame.len()),
            _ => None,
        }
    }

    fn rank(&self) -> Rank {
        match self {
            Command::Call { .. } => Rank::Call,
            Command::Notify(_) => Rank::Notice,
            Command::Answer(_) => Rank::Answer,
            Command::Cancel { .. } | Command::Restart | Command::Snapshot(_) | Command::Stop => {
                Rank::Urgent
            }
        }
    }
}

/// The next command that can be seen to now. While the session takes no more calls, the others go
/// first: a cancellation or an answer may be what it is waiting for.
pub(crate) fn next<W: Ranked>(commands: &mut VecDeque<W>, open: bool) -> Option<W> {
    let at = match open {
        true => 0,
        false => {
            let at = commands
                .iter()
                .position(|command| command.call().is_none())?;
            let mut before = commands.iter().take(at);
            match commands[at].rank() {
                Rank::Answer => before
                    .position(|it| it.rank() == Rank::Notice)
                    .unwrap_or(at),
                _ => at,
            }
        }
    };
    commands.remove(at)
}

#[derive(Debug)]
pub(crate) struct Mailbox<W = Command> {
    inside: Mutex<Inside<W>>,
    most: usize,
    most_bytes: usize,
}

#[derive(Debug)]
struct Inside<W> {
    commands: VecDeque<W>,
    calls: usize,
    bytes: usize,
    closed: bool,
    waker: Option<Waker>,
}

impl<W: Ranked> Mailbox<W> {
    /// Bounded like what a session holds for a server that is down.
    pub(crate) fn new(limits: &Limits) -> Mailbox<W> {
        let inside = Inside {
            commands: VecDeque::new(),
            calls: 0,
            bytes: 0,
            closed: false,
            waker: None,
        };
        Mailbox {
            inside: Mutex::new(inside),
            most: limits.in_flight + limits.held,
            most_bytes: limits.held_bytes.max(limits.message),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Inside<W>> {
        self.inside.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes a command in, or says why it cannot be.
    pub(crate) fn push(&self, command: W) -> Result<(), Error> {
        let mut inside = self.lock();
        if inside.closed {
            return Err(Error::ShuttingDown {
                outcome: Outcome::NotSent,
            });
        }
        if let Some(size) = command.call() {
            // One call always fits.
            let limit = match inside.calls >= self.most {
                true => Some(Limit::calls(self.most)),
                false if inside.bytes + size > self.most_bytes => {
                    Some(Limit::held_bytes(self.most_bytes))
                }
                false => None,
            };
            if let Some(limit) = limit.filter(|_| inside.calls > 0) {
                return Err(Error::Overloaded { limit });
            }
            inside.calls += 1;
            inside.bytes += size;
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
    pub(crate) fn take(&self, cx: &mut Context<'_>, to: &mut VecDeque<W>) -> Poll<()> {
        let mut inside = self.lock();
        let some = !inside.commands.is_empty();
        to.append(&mut inside.commands);
        (inside.calls, inside.bytes) = (0, 0);
        for size in to.iter().filter_map(Ranked::call) {
            inside.calls += 1;
            inside.bytes += size;
        }
        if some {
            return Poll::Ready(());
        }
        inside.waker = Some(cx.waker().clone());
        Poll::Pending
    }

    /// Nobody reads it any more. Gives back what nobody has seen to.
    pub(crate) fn close(&self) -> VecDeque<W> {
        let mut inside = self.lock();
        inside.closed = true;
        std::mem::take(&mut inside.commands)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, PartialEq, Eq)]
    struct Plain(&'static str);

    impl Ranked for Plain {
        fn call(&self) -> Option<usize> {
            matches!(self.rank(), Rank::Call | Rank::Notice).then_some(1)
        }

        fn rank(&self) -> Rank {
            match self.0.as_bytes()[0] {
                b'c' => Rank::Call,
                b'n' => Rank::Notice,
                b'a' => Rank::Answer,
                _ => Rank::Urgent,
            }
        }
    }

    fn order(commands: &[&'static str], open: bool) -> Vec<&'static str> {
        let mut commands: VecDeque<Plain> = commands.iter().copied().map(Plain).collect();
        std::iter::from_fn(|| next(&mut commands, open))
            .map(|it| it.0)
            .collect()
    }

    #[test]
    fn an_answer_waits_for_no_call_and_overtakes_no_notification() {
        let all = ["c1", "n1", "c2", "n2", "a1", "x1", "c3", "n3", "x2", "a2"];
        assert_eq!(order(&all, true), all);
        let closed = ["n1", "n2", "a1", "x1", "x2", "n3", "a2"];
        assert_eq!(order(&all, false), closed);
        assert_eq!(
            order(&["c1", "n1"], false),
            [""; 0],
            "nothing needs to be told now"
        );
    }
}
