//! What a call and those who may cancel it share.
//!
//! A call can take several requests: a modern server may ask for something before it answers. So what is
//! cancelled is not a request but the call, whichever request is out, or none.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use outlive_core::error::Error;

use super::mailbox::{Command, Mailbox};

#[derive(Debug, Default)]
pub(super) struct CancelState(Mutex<Inside>);

#[derive(Debug, Default)]
struct Inside {
    /// The request that is out, or was last.
    id: u64,
    cancelled: bool,
    /// The call, while it waits for something else than an answer.
    waker: Option<Waker>,
}

impl CancelState {
    fn lock(&self) -> MutexGuard<'_, Inside> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sends the next request of the call, unless it is cancelled.
    pub(super) fn send(&self, mailbox: &Mailbox, id: u64, call: Command) -> Result<(), Error> {
        let mut inside = self.lock();
        if inside.cancelled {
            return Err(Error::CancelledByCaller);
        }
        mailbox.push(call)?;
        inside.id = id;
        Ok(())
    }

    /// Nobody wants the answer any more.
    pub(super) fn cancel(&self, mailbox: &Mailbox, reason: Option<String>) {
        let mut inside = self.lock();
        inside.cancelled = true;
        // If the client is closed, there is nobody to tell.
        let id = inside.id;
        let _ = mailbox.push(Command::Cancel { id, reason });
        let waker = inside.waker.take();
        drop(inside);
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    /// Ready when the call is cancelled.
    pub(super) fn poll_cancelled(&self, cx: &mut Context<'_>) -> Poll<()> {
        let mut inside = self.lock();
        if inside.cancelled {
            return Poll::Ready(());
        }
        inside.waker = Some(cx.waker().clone());
        Poll::Pending
    }
}
