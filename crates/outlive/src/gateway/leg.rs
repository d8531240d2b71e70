//! The legs of a router: what stands for its client before one server.
//!
//! To a server's session a leg is a client like any other. What the session says to it is put into the router's
//! [strand](super::strand) while the session is locked, and dealt with when it no longer is: a router calls sessions,
//! and sessions must not call routers.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::task::Waker;
use std::time::Duration;

use outlive_core::gateway::TargetId;
use outlive_core::replay_buffer::Cuts;
use outlive_core::server::Channel;
use outlive_core::{Message, Time};

use super::router_session::{RouterSession, Work};
use super::strand::Strand;
use crate::http_server::ReplayBuffer;

/// A server that was told to wait for its router asks again after this time at the latest.
const ASK_AGAIN: Duration = Duration::from_secs(1);

/// Which leg of its router a leg is. A target may have several in the course of time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct LegId {
    pub(super) target: TargetId,
    pub(super) number: u64,
}

/// What is heard of a server.
#[derive(Debug)]
pub(super) enum Heard {
    /// It said this on this channel.
    Said(Channel, Message),
    /// Its session has ended.
    Ended,
}

/// What a leg is to its server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LegKind {
    /// A client with a session.
    Session(LegId),
    /// Clients without one, before all servers that there are for those.
    Pooled(TargetId),
}

/// The end of a leg that its server's session speaks to.
pub(super) struct LegPort {
    kind: LegKind,
    strand: Arc<Strand<Work>>,
    router: Weak<RouterSession>,
    /// Where what the server says goes in the end.
    replay: Arc<ReplayBuffer>,
    /// Nothing is heard of it any more.
    sealed: AtomicBool,
}

impl LegPort {
    pub(super) fn new(
        kind: LegKind,
        strand: Arc<Strand<Work>>,
        router: Weak<RouterSession>,
        replay: Arc<ReplayBuffer>,
    ) -> LegPort {
        LegPort {
            kind,
            strand,
            router,
            replay,
            sealed: AtomicBool::new(false),
        }
    }

    /// Nothing is to be heard of it any more: the router has closed it.
    pub(super) fn close(&self) {
        self.sealed.store(true, Ordering::Release);
    }

    pub(super) fn is_sealed(&self) -> bool {
        self.sealed.load(Ordering::Acquire)
    }

    pub(super) fn send(&self, channel: Channel, message: Message) {
        let bytes = message.bytes().len();
        let work = match self.kind {
            LegKind::Session(_) if self.is_sealed() => return,
            LegKind::Session(leg) => Work::Leg(leg, Heard::Said(channel, message)),
            LegKind::Pooled(target) => Work::Pooled(target, channel, message),
        };
        self.strand.push(work, bytes);
    }

    /// The session with the server has ended.
    pub(super) fn seal(&self) {
        if let LegKind::Session(leg) = self.kind
            && !self.sealed.swap(true, Ordering::AcqRel)
        {
            self.strand.push(Work::Leg(leg, Heard::Ended), 0);
        }
    }

    /// Has the router deal with what was said. No lock of a server may be held.
    pub(super) fn run(&self) {
        if let Some(router) = self.router.upgrade() {
            router.run();
        }
    }

    pub(super) fn pace(&self) {
        self.replay.pace();
    }

    /// A slow client slows its servers down; so does a router that has much to do.
    pub(super) fn hold_back(&self, now: Time, waker: &Waker) -> Option<Time> {
        match self.strand.is_crowded(waker) {
            true => Some(now + ASK_AGAIN),
            false => self.replay.hold_back(now, waker),
        }
    }

    pub(super) fn take_cuts(&self) -> Option<Cuts> {
        self.replay.take_cuts()
    }
}
