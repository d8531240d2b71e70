//! One channel of a replay buffer: its events, its reader, and its end.

use std::time::Duration;

use super::events::Events;
use super::{Payload, ReaderId, ReplayLimits};
use crate::time::Time;

/// How a channel has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    /// Everything has been sent.
    Complete,
    /// Whoever sent on it has ended.
    CutShort,
}

/// What is sent on one channel.
#[derive(Clone, Debug)]
pub(super) struct ChannelBuffer<M> {
    /// What is kept, with the place of each event among all of the buffer.
    events: Events<M>,
    /// The number of the first of them.
    first: u64,
    /// The number the reader reads next.
    next: u64,
    /// Bytes from there on.
    backlog: usize,
    end: Option<End>,
    reader: Option<ReaderId>,
    /// The reader was told that there is nothing yet.
    pub(super) waits: bool,
    /// The reader is to be woken at the next flush.
    pub(super) dirty: bool,
    /// Its client was told the id of an event of it, and can come back.
    pub(super) known: bool,
    /// Its reader is to go as soon as its client can come back.
    pub(super) hangs_up: bool,
    /// The reader is too far behind, and cannot come back.
    pub(super) overrun: bool,
    /// Since when the reader is known to have taken nothing of what there is.
    idle_since: Option<Time>,
    /// The reader has taken nothing for so long that its sender does not wait for it.
    stalled: bool,
    /// A store is told of what is sent: up to which number that is written, and may be read.
    shown: Option<u64>,
}

impl<M> Default for ChannelBuffer<M> {
    fn default() -> ChannelBuffer<M> {
        ChannelBuffer {
            events: Events::default(),
            first: 1,
            next: 1,
            backlog: 0,
            end: None,
            reader: None,
            waits: false,
            dirty: false,
            known: false,
            hangs_up: false,
            overrun: false,
            idle_since: None,
            stalled: false,
            shown: None,
        }
    }
}

impl<M: Payload> ChannelBuffer<M> {
    /// Gives the channel to this reader. Returns the one that is to be woken because it has lost it.
    pub(super) fn attach(&mut self, reader: ReaderId) -> Option<ReaderId> {
        let fenced = self.wake();
        self.reader = Some(reader);
        self.hangs_up = false;
        self.moves();
        fenced
    }

    pub(super) fn detach(&mut self) {
        self.reader = None;
        self.waits = false;
    }

    pub(super) fn reader(&self) -> Option<ReaderId> {
        self.reader
    }

    /// The reader that is to be woken, if it waits. It is then woken once.
    pub(super) fn wake(&mut self) -> Option<ReaderId> {
        let waits = std::mem::take(&mut self.waits);
        self.reader.filter(|_| waits)
    }

    /// Ends the channel. The first end counts.
    pub(super) fn end(&mut self, end: End) {
        self.end.get_or_insert(end);
    }

    pub(super) fn ended(&self) -> Option<End> {
        self.end
    }

    pub(super) fn takes_more(&self) -> bool {
        self.end.is_none() && !self.overrun
    }

    /// Events that are kept.
    pub(super) fn len(&self) -> usize {
        self.events.len()
    }

    /// Their bytes.
    pub(super) fn bytes(&self) -> usize {
        self.events.iter().map(|(_, message)| message.size()).sum()
    }

    /// Events that wait for a reader.
    pub(super) fn unread(&self) -> usize {
        self.events.len() - self.read()
    }

    /// Events that are kept and were read.
    fn read(&self) -> usize {
        (self.next - self.first) as usize
    }

    /// The number of the last event before the one that is read next.
    pub(super) fn position(&self) -> u64 {
        self.next - 1
    }

    pub(super) fn is_behind(&self, limits: &ReplayLimits) -> bool {
        self.backlog > limits.backlog_bytes || self.unread() > limits.backlog
    }

    /// Bytes that wait for a reader.
    pub(super) fn backlog(&self) -> usize {
        self.backlog
    }

    /// Whether a reader waits for what has not been sent yet.
    pub(super) fn is_drained(&self) -> bool {
        self.reader.is_some() && self.end.is_none() && self.unread() == 0
    }

    /// Whether a reader has not read everything, and its sender waits for it.
    pub(super) fn presses(&self) -> bool {
        self.reader.is_some() && self.unread() > 0 && !self.stalled
    }

    pub(super) fn is_stalled(&self) -> bool {
        self.stalled
    }

    /// Notes whether the reader takes what there is. With a bound, one that takes nothing for so long is stalled.
    /// Returns since when it has taken nothing.
    pub(super) fn watch(&mut self, now: Time, bound: Option<Duration>) -> Option<Time> {
        if self.reader.is_none() || self.unread() == 0 {
            return None;
        }
        let since = *self.idle_since.get_or_insert(now);
        self.stalled |= bound.is_some_and(|bound| now - since >= bound);
        Some(since)
    }

    /// The reader takes something, or is a new one.
    fn moves(&mut self) {
        self.idle_since = None;
        self.stalled = false;
    }

    /// A channel of which a store has kept the events from this number on.
    pub(super) fn restored(first: u64) -> ChannelBuffer<M> {
        ChannelBuffer {
            first,
            next: first,
            known: true,
            shown: Some(first.saturating_sub(1)),
            ..ChannelBuffer::default()
        }
    }

    /// Adds an event that a store has kept. It counts as read: whoever wants it names the one before.
    pub(super) fn push_read(&mut self, place: u64, message: M) {
        self.events.push_back((place, message));
        self.next += 1;
        self.shown = Some(self.next - 1);
    }

    /// Has a store told of it from now on. False if it is already.
    pub(super) fn begin_recording(&mut self) -> bool {
        let begins = self.shown.is_none();
        self.shown.get_or_insert(0);
        begins
    }

    pub(super) fn is_recorded(&self) -> bool {
        self.shown.is_some()
    }

    /// Events up to this number are written.
    pub(super) fn show(&mut self, number: u64) {
        self.shown = self.shown.map(|shown| shown.max(number));
    }

    /// Whether the next event is not written yet.
    pub(super) fn is_held_back(&self) -> bool {
        self.unread() > 0 && self.shown.is_some_and(|shown| self.next > shown)
    }

    /// The number of the first event that is kept.
    pub(super) fn first_number(&self) -> u64 {
        self.first
    }

    /// The number of the event behind the last one.
    pub(super) fn end_number(&self) -> u64 {
        self.first + self.events.len() as u64
    }

    /// The events that are kept, with their numbers.
    pub(super) fn numbered(&self) -> impl Iterator<Item = (u64, &M)> {
        let events = self.events.iter().map(|(_, message)| message);
        (self.first..).zip(events)
    }

    /// Adds an event, which has this place among all of the buffer.
    pub(super) fn push(&mut self, place: u64, message: M) {
        self.backlog += message.size();
        self.events.push_back((place, message));
    }

    /// The next event and its number.
    pub(super) fn take(&mut self) -> Option<(u64, M)> {
        let (_, message) = self.events.get(self.read())?;
        let (number, message) = (self.next, message.clone());
        self.next += 1;
        self.backlog -= message.size();
        self.moves();
        Some((number, message))
    }

    /// Goes back, or forward, to behind this event. False if what follows it is not kept.
    pub(super) fn rewind(&mut self, after: u64) -> bool {
        let end = self.first + self.events.len() as u64;
        // In this order: a client may name any number.
        if after >= end || after + 1 < self.first {
            return false;
        }
        self.next = after + 1;
        let unread = self.events.iter().skip(self.read());
        self.backlog = unread.map(|(_, message)| message.size()).sum();
        true
    }

    /// The place of the first event, if it may be forgotten. The newest of all has this place.
    pub(super) fn spare(&self, newest: u64) -> Option<u64> {
        let place = self.events.front()?.0;
        let may_be = match self.reader {
            Some(_) => self.read() > 0,
            None => self.events.len() > 1 || self.end.is_some() && place != newest,
        };
        may_be.then_some(place)
    }

    /// Forgets the first event.
    pub(super) fn forget_first(&mut self) -> Option<M> {
        let (_, message) = self.events.pop_front()?;
        if self.next == self.first {
            self.next += 1;
            self.backlog -= message.size();
        }
        self.first += 1;
        Some(message)
    }

    /// Forgets all events, and returns how many there were and their bytes.
    pub(super) fn clear(&mut self) -> (usize, usize) {
        let forgotten = (self.len(), self.bytes());
        self.first += self.len() as u64;
        self.next = self.first;
        self.backlog = 0;
        self.events.clear();
        forgotten
    }
}
