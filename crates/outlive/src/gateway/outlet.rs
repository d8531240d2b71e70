//! Where what a server says to one of its clients goes: to a client over HTTP, or to a router that is its client.

use std::sync::Arc;
use std::task::Waker;

use outlive_core::replay_buffer::Cuts;
use outlive_core::server::Channel;
use outlive_core::{Message, Time};

use super::leg::LegPort;
use crate::http_server::ReplayBuffer;

/// The way from a server to one client.
#[derive(Clone)]
pub(super) enum Outlet {
    /// What is sent to a client over HTTP.
    Buffer(Arc<ReplayBuffer>),
    /// One leg of a router.
    Leg(Arc<LegPort>),
}

/// Routers that have something to do. They are run when the lock is released under which they got it.
#[derive(Default)]
#[must_use = "a router that is not run does nothing"]
pub(super) struct Woken {
    /// Most often there is one.
    first: Option<Arc<LegPort>>,
    others: Vec<Arc<LegPort>>,
}

impl Woken {
    /// Has them do it. No lock of a server may be held.
    pub(super) fn run(self) {
        for port in self.first.into_iter().chain(self.others) {
            port.run();
        }
    }

    fn add(&mut self, port: &Arc<LegPort>) {
        match &self.first {
            None => self.first = Some(port.clone()),
            // Once is enough.
            Some(first) if Arc::ptr_eq(first, port) => {}
            Some(_) => self.others.push(port.clone()),
        }
    }
}

impl Outlet {
    /// There is one sender, and it waits for slow readers.
    pub(super) fn pace(&self) {
        match self {
            Outlet::Buffer(replay) => replay.pace(),
            Outlet::Leg(port) => port.pace(),
        }
    }

    pub(super) fn send(&self, channel: Channel, message: Message) {
        match self {
            Outlet::Buffer(replay) => replay.send(channel, message),
            Outlet::Leg(port) => port.send(channel, message),
        }
    }

    /// Everything has been sent on this channel. A router knows that from the answers.
    pub(super) fn done(&self, channel: Channel) {
        match self {
            Outlet::Buffer(replay) => replay.done(channel),
            Outlet::Leg(_) => {}
        }
    }

    /// Whether this channel is to be preferred to that of a request, because somebody reads it. A router decides that
    /// itself, and is told the request.
    pub(super) fn is_read(&self, channel: Channel) -> bool {
        match self {
            Outlet::Buffer(replay) => replay.is_read(channel),
            Outlet::Leg(_) => false,
        }
    }

    /// Wakes whoever has something to read.
    pub(super) fn flush(&self, woken: &mut Woken) {
        match self {
            Outlet::Buffer(replay) => replay.flush(),
            Outlet::Leg(port) => woken.add(port),
        }
    }

    /// Nothing more will be sent.
    pub(super) fn seal(&self, woken: &mut Woken) {
        match self {
            Outlet::Buffer(replay) => replay.seal(),
            Outlet::Leg(port) => {
                port.seal();
                woken.add(port);
            }
        }
    }

    pub(super) fn is_sealed(&self) -> bool {
        match self {
            Outlet::Buffer(replay) => replay.is_sealed(),
            Outlet::Leg(port) => port.is_sealed(),
        }
    }

    /// Forgets what was sent and not read: the client may not read it any more.
    pub(super) fn withdraw(&self) {
        match self {
            Outlet::Buffer(replay) => replay.withdraw(None),
            Outlet::Leg(_) => {}
        }
    }

    /// Whether the one sender is to pause, and until when at the latest; its waker is called when it may go on.
    pub(super) fn hold_back(&self, now: Time, waker: &Waker) -> Option<Time> {
        match self {
            Outlet::Buffer(replay) => replay.hold_back(now, waker),
            Outlet::Leg(port) => port.hold_back(now, waker),
        }
    }

    /// The channels whose readers have fallen too far behind since the last time.
    pub(super) fn take_lost(&self) -> Vec<Channel> {
        match self {
            Outlet::Buffer(replay) => replay.take_lost(),
            Outlet::Leg(_) => Vec::new(),
        }
    }

    /// The streams that were cut off because their readers were slow, since the last time.
    pub(super) fn take_cuts(&self) -> Option<Cuts> {
        match self {
            Outlet::Buffer(replay) => replay.take_cuts(),
            Outlet::Leg(port) => port.take_cuts(),
        }
    }
}
