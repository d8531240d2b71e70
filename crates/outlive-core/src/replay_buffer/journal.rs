//! What a store is told of a buffer, so that another process can go on with it.

use std::collections::VecDeque;

use crate::server::Channel;

/// Something a store has to know.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change<M> {
    /// The event of this number was sent on a channel.
    Event(Channel, u64, M),
    /// Everything has been sent on a channel.
    Ended(Channel),
    /// The event of this number is forgotten.
    Forgotten(Channel, u64),
    /// Nobody can come back to a channel: it is forgotten whole, with these events.
    Dropped(Channel, std::ops::Range<u64>),
}

impl<M> Change<M> {
    /// The channel it is about.
    pub fn channel(&self) -> Channel {
        match self {
            Change::Event(channel, ..)
            | Change::Ended(channel)
            | Change::Forgotten(channel, _)
            | Change::Dropped(channel, _) => *channel,
        }
    }
}

/// The changes of a buffer that is recorded, until they are taken, and the events that wait for them to be written.
#[derive(Clone, Debug)]
pub(super) struct Journal<M> {
    changes: Vec<Change<M>>,
    /// How many changes there have been.
    noted: u64,
    /// Events that may be read once so many changes are written: their channels and numbers.
    waiting: VecDeque<(u64, Channel, u64)>,
}

impl<M> Default for Journal<M> {
    fn default() -> Journal<M> {
        Journal {
            changes: Vec::new(),
            noted: 0,
            waiting: VecDeque::new(),
        }
    }
}

impl<M> Journal<M> {
    /// Takes note of a change. What is forgotten before it was taken is not told at all: a store that cannot be
    /// reached for long must not make this grow.
    pub(super) fn note(&mut self, change: Change<M>) {
        match &change {
            Change::Forgotten(channel, number) => {
                let (channel, number) = (*channel, *number);
                let is_it = |it: &Change<M>| matches!(it, Change::Event(c, n, _) if *c == channel && *n == number);
                if let Some(at) = self.changes.iter().position(is_it) {
                    self.changes.remove(at);
                    self.unwait(|c, n| c == channel && n == number);
                    return;
                }
            }
            Change::Dropped(channel, _) => {
                let channel = *channel;
                self.changes.retain(|it| it.channel() != channel);
                self.unwait(|c, _| c == channel);
            }
            Change::Event(..) | Change::Ended(_) => {}
        }
        self.noted += 1;
        if let Change::Event(channel, number, _) = &change {
            self.waiting.push_back((self.noted, *channel, *number));
        }
        self.changes.push(change);
    }

    fn unwait(&mut self, is_over: impl Fn(Channel, u64) -> bool) {
        self.waiting.retain(|(_, c, n)| !is_over(*c, *n));
    }

    pub(super) fn is_empty(&self) -> bool {
        self.changes.is_empty()
    }

    /// The changes since the last time, and how many there have been with them.
    pub(super) fn take(&mut self) -> (Vec<Change<M>>, u64) {
        (std::mem::take(&mut self.changes), self.noted)
    }

    /// The next event that may be read now that so many changes are written.
    pub(super) fn next_written(&mut self, upto: u64) -> Option<(Channel, u64)> {
        let (noted, channel, number) = *self.waiting.front()?;
        if noted > upto {
            return None;
        }
        self.waiting.pop_front();
        Some((channel, number))
    }
}
