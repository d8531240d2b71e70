//! The signals a user sends to this process.

use std::io;
use std::task::{Context, Poll};

use tokio::signal::unix::{self, SignalKind};

use super::os;

/// What a signal means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Signal {
    /// `SIGTERM` or `SIGINT`: end the session.
    Stop,
    /// `SIGHUP`: put a new server under the session.
    Restart,
}

/// The signals that have arrived.
#[derive(Debug)]
pub(crate) struct Signals {
    each: [(unix::Signal, Signal); 3],
}

impl Signals {
    pub(crate) fn new() -> io::Result<Signals> {
        os::unblock_signals();
        Ok(Signals {
            each: [
                (unix::signal(SignalKind::terminate())?, Signal::Stop),
                (unix::signal(SignalKind::interrupt())?, Signal::Stop),
                (unix::signal(SignalKind::hangup())?, Signal::Restart),
            ],
        })
    }

    pub(crate) fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Signal> {
        for (signal, meaning) in &mut self.each {
            if let Poll::Ready(Some(())) = signal.poll_recv(cx) {
                return Poll::Ready(*meaning);
            }
        }
        Poll::Pending
    }
}
