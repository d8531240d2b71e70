//! The replay buffer of a listener: what is sent to clients over HTTP, channel by channel, until it is read.
//!
//! # Theory
//!
//! A route sends messages on [channels](Channel); HTTP responses read them. A message on a channel is an *event*: it
//! has a number, counted from 1, and channel and number together are the event's id. One reader at a time reads a
//! channel, and holds a [`Lease`] on it. A newer reader takes the lease over, because the older connection is most
//! likely dead and nobody has noticed. How long events are kept depends on the [`Delivery`]:
//!
//! - [`Delivery::Resumable`]: a session of Streamable HTTP. A lost connection is not the end: events that were read are
//!   kept for a while, and another reader may [resume](ReplayBuffer::resume) behind any of them. The main channel,
//!   which no request opens, is always there.
//! - [`Delivery::Once`]: requests without a session. An event is read once; the reader that goes abandons the channel.
//! - [`Delivery::OneStream`]: a session of HTTP+SSE. All channels are sent on the main one, to one reader, once; while
//!   nobody reads it, nothing is kept.
//!
//! The rules:
//!
//! - **A reader reads every event behind the one it begins at, once, in order**, or it is told that it cannot
//!   ([`NotKept`], [`Next::Cut`]). What a reader is about to read is never dropped under it.
//! - **A slow reader is cut off**, and not waited for, when more than [`ReplayLimits::backlog`] events or
//!   [`ReplayLimits::backlog_bytes`] wait for it. Where it can come back, it may resume; else its channel is
//!   [lost](ReplayBuffer::take_lost), and the route is told that nobody reads it.
//! - **A [paced](ReplayBuffer::pace) buffer holds its sender back instead** ([`ReplayBuffer::hold_back`]). It is for a
//!   sender that has one client, so that nobody else waits for the slow one: requests without a session are of many
//!   clients, and are never paced. The sender pauses when half of what one reader may have unread waits for all readers
//!   together, and goes on when no more than a quarter is left.
//! - **A client cannot lock itself out of an answer.** The answer that one exchange waits for may come behind what
//!   another reader does not read. While an exchange waits, a reader that takes nothing for [`ReplayLimits::stall`]
//!   therefore holds nobody back, and is cut off like any slow reader, until it reads again.
//! - **A session is bounded as a whole**: with more than [`ReplayLimits::total_bytes`] in it, the reader that is
//!   furthest behind is cut off. Requests without a session are not one client's, and have no such bound.
//! - **Kept events are bounded by count and bytes** over all channels ([`ReplayLimits::kept`],
//!   [`ReplayLimits::kept_bytes`]). The oldest are forgotten first. The newest event of a channel that is not done
//!   stays, whatever its size, and so does the newest of all: it may be the answer that a client comes back for.
//! - **Nothing is kept for a channel that nobody can resume**: its client was told no id, or all of it is read and
//!   forgotten, or the buffer is sealed.
//! - **A done channel ends**, and takes nothing more. A sealed buffer ends every channel.
//! - **A withdrawn channel forgets everything**, also what was not yet read; what is sent from then on is read.
//! - **A [recorded](ReplayBuffer::record_all) buffer shows nothing that a successor could not show again.** What is
//!   sent on the main channel, and on a channel whose client was [promised](ReplayBuffer::promise) a stream, is a
//!   [change](Change) that a store is told, and is read only when that is [written](ReplayBuffer::written). What is
//!   forgotten is a change, too. A channel that is answered before it is promised is nobody else's business. A sealed
//!   buffer forgets nothing that is recorded: its successor has it.
//!
//! The buffer wakes nobody itself, and is told the time only by a sender that asks whether to pause. After every call
//! the driver wakes the readers that [`ReplayBuffer::next_woken`] names; each has been told [`Next::Pending`], or
//! `None` by [`ReplayBuffer::beginning`], and asks again. It also wakes a sender that is
//! [released](ReplayBuffer::is_released).

mod channel;
mod events;
mod journal;

use std::time::Duration;

use rustc_hash::FxHashMap;

use crate::message::Message;
use crate::server::Channel;
use crate::time::Time;

pub use journal::Change;

use channel::{ChannelBuffer, End};
use journal::Journal;

/// How the events of a buffer reach their readers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Delivery {
    /// A reader that has lost its connection may come back for the rest.
    Resumable,
    /// Each event is read once, and a reader that goes does not come back.
    Once,
    /// As [`Delivery::Once`], and one reader reads what is sent on all channels.
    OneStream,
}

/// What a buffer holds: something that can be written more than once and has a size.
pub trait Payload: Clone {
    /// Its bytes.
    fn size(&self) -> usize;
}

impl Payload for Message {
    fn size(&self) -> usize {
        self.bytes().len()
    }
}

/// The bounds of a buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReplayLimits {
    /// Events that may wait for a reader. One that is further behind is cut off.
    pub backlog: usize,
    /// Their bytes. One event always fits.
    pub backlog_bytes: usize,
    /// Events kept for readers that may come back, over all channels.
    pub kept: usize,
    /// Their bytes.
    pub kept_bytes: usize,
    /// Bytes of all events of a session. One event always fits.
    pub total_bytes: usize,
    /// How long a reader may take nothing and hold its sender back, while an exchange waits on another channel.
    pub stall: Duration,
}

impl ReplayLimits {
    /// The events and bytes above which a sender is held back, or with less than which it goes on.
    fn watermark(&self, held_back: bool) -> (usize, usize) {
        let part = if held_back { 4 } else { 2 };
        (self.backlog / part, self.backlog_bytes / part)
    }
}

impl Default for ReplayLimits {
    fn default() -> ReplayLimits {
        ReplayLimits {
            backlog: 65_536,
            backlog_bytes: 4 << 20,
            kept: 512,
            kept_bytes: 1 << 20,
            total_bytes: 64 << 20,
            stall: Duration::from_secs(10),
        }
    }
}

/// One reader of a channel. Numbers are never used twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ReaderId(u64);

/// The right to read a channel, until another reader takes it over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lease {
    /// The channel.
    pub channel: Channel,
    /// The number of the last event before those it reads.
    pub after: u64,
    /// Who holds it.
    pub reader: ReaderId,
}

/// What follows the event that a reader wants to resume behind is not kept, or there is no such event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NotKept;

/// What a reader reads next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Next<M> {
    /// The event of this number.
    Event(u64, M),
    /// Nothing yet. The reader is [woken](ReplayBuffer::next_woken) when that changes.
    Pending,
    /// Nothing more: the channel is done.
    Complete,
    /// Nothing more, although the channel is not done: whoever sent on it has ended.
    CutShort,
    /// Nothing more: the reader was too slow, or another has taken its lease over.
    Cut,
}

/// Streams that were cut off because their clients read too slowly.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cuts {
    /// How many.
    pub streams: usize,
    /// What had been sent on them and was not read, in bytes.
    pub unread_bytes: usize,
}

/// How a channel begins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Beginning<M> {
    /// It is done, and nothing was sent on it.
    Silence,
    /// It is done with this one message, which is taken out of the buffer.
    Answer(M),
    /// There is more, or may be.
    Stream,
}

/// What is sent to the clients of one route. See the [module](self).
#[derive(Clone, Debug)]
pub struct ReplayBuffer<M> {
    delivery: Delivery,
    limits: ReplayLimits,
    /// The driver chooses their numbers, so nobody else can choose their hashes.
    channels: FxHashMap<Channel, ChannelBuffer<M>>,
    /// Events in all channels, and their bytes.
    kept: usize,
    kept_bytes: usize,
    /// Channels whose readers are to be woken at the next flush.
    dirty: Vec<Channel>,
    woken: Vec<ReaderId>,
    lost: Vec<Channel>,
    /// Those that nobody was told of.
    cuts: Cuts,
    /// The sender waits for slow readers.
    paced: bool,
    /// The sender was told to pause.
    held_back: bool,
    /// Leases that were not given back.
    readers: usize,
    /// The last reader number.
    reader_ids: u64,
    /// The last event number.
    events: u64,
    /// The main channel has had a reader.
    was_listened_to: bool,
    sealed: bool,
    /// What a store is told, if there is one.
    journal: Option<Journal<M>>,
}

/// A channel as a store has kept it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeptChannel<M> {
    /// Which one.
    pub channel: Channel,
    /// The number of the first event that is kept.
    pub first: u64,
    /// The events that are kept, in their order.
    pub events: Vec<M>,
    /// Everything has been sent on it.
    pub ended: bool,
}

impl<M: Payload> ReplayBuffer<M> {
    /// An empty buffer.
    pub fn new(delivery: Delivery, limits: ReplayLimits) -> ReplayBuffer<M> {
        ReplayBuffer {
            delivery,
            limits,
            channels: FxHashMap::default(),
            kept: 0,
            kept_bytes: 0,
            dirty: Vec::new(),
            woken: Vec::new(),
            lost: Vec::new(),
            cuts: Cuts::default(),
            paced: false,
            held_back: false,
            readers: 0,
            reader_ids: 0,
            events: 0,
            was_listened_to: false,
            sealed: false,
            journal: None,
        }
    }

    /// The recorded buffer of a session that another process has begun, with what was kept of it. Clients come back to
    /// its channels with the ids they know; a reader of the main channel that names none reads what is sent from now
    /// on.
    pub fn restored(limits: ReplayLimits, kept: Vec<KeptChannel<M>>) -> ReplayBuffer<M> {
        let mut buffer = ReplayBuffer::new(Delivery::Resumable, limits);
        for kept in kept {
            let mut channel = ChannelBuffer::restored(kept.first);
            for message in kept.events {
                buffer.events += 1;
                buffer.kept += 1;
                buffer.kept_bytes += message.size();
                channel.push_read(buffer.events, message);
            }
            if kept.ended {
                channel.end(End::Complete);
            }
            buffer.channels.insert(kept.channel, channel);
        }
        buffer.journal = Some(Journal::default());
        buffer
    }

    /// Tells a store of all that is sent on the main channel from now on, and on channels that are
    /// [promised](ReplayBuffer::promise).
    pub fn record_all(&mut self) {
        self.journal.get_or_insert_default();
        if let Some(main) = self.channels.get(&Channel::MAIN) {
            let lease = Lease {
                channel: Channel::MAIN,
                after: 0,
                reader: main.reader().unwrap_or(ReaderId(0)),
            };
            self.promise(lease);
        }
    }

    /// The client of this channel is told that it may come back for what is sent on it: all of that is recorded.
    pub fn promise(&mut self, lease: Lease) {
        let (Some(journal), Some(channel)) =
            (&mut self.journal, self.channels.get_mut(&lease.channel))
        else {
            return;
        };
        if channel.begin_recording() {
            for (number, message) in channel.numbered() {
                journal.note(Change::Event(lease.channel, number, message.clone()));
            }
            if channel.ended() == Some(End::Complete) {
                journal.note(Change::Ended(lease.channel));
            }
        }
    }

    /// Whether there are changes that nobody has taken.
    pub fn has_changes(&self) -> bool {
        self.journal.as_ref().is_some_and(|it| !it.is_empty())
    }

    /// The changes since the last time, and a number to say when they are [written](ReplayBuffer::written).
    pub fn take_changes(&mut self) -> (Vec<Change<M>>, u64) {
        self.journal
            .as_mut()
            .map_or_else(|| (Vec::new(), 0), Journal::take)
    }

    /// All changes up to this number are written: what they are about may be read.
    pub fn written(&mut self, upto: u64) {
        let Some(journal) = &mut self.journal else {
            return;
        };
        while let Some((at, number)) = journal.next_written(upto) {
            if let Some(channel) = self.channels.get_mut(&at) {
                channel.show(number);
                self.woken.extend(channel.wake());
            }
        }
    }

    /// Takes the leases of all readers, but ends no channel: the clients are to come back, here or elsewhere.
    pub fn hang_up_all(&mut self) {
        let all: Vec<Channel> = self.channels.keys().copied().collect();
        for at in all {
            if let Some(channel) = self.channels.get_mut(&at) {
                self.woken.extend(channel.wake());
                channel.detach();
            }
        }
    }

    /// Opens a channel for the reader of an exchange. The driver chooses the channel and never uses it twice.
    pub fn open(&mut self, channel: Channel) -> Lease {
        let mut buffer = ChannelBuffer::default();
        if self.sealed {
            buffer.end(End::CutShort);
        }
        let reader = self.new_reader();
        buffer.attach(reader);
        if let Some(old) = self.channels.insert(channel, buffer) {
            self.discount(&old);
        }
        Lease {
            channel,
            after: 0,
            reader,
        }
    }

    /// Reads the main channel from where its last reader ended, and takes the lease over from that one.
    pub fn listen(&mut self) -> Lease {
        self.was_listened_to = true;
        let reader = self.new_reader();
        let main = self.main();
        let (after, fenced) = (main.position(), main.attach(reader));
        self.woken.extend(fenced);
        self.trim();
        Lease {
            channel: Channel::MAIN,
            after,
            reader,
        }
    }

    /// Reads a channel from behind this event, and takes the lease over from its reader.
    pub fn resume(&mut self, at: Channel, after: u64) -> Result<Lease, NotKept> {
        if self.delivery != Delivery::Resumable || self.sealed {
            return Err(NotKept);
        }
        if at == Channel::MAIN {
            self.main();
        }
        let channel = self.channels.get_mut(&at).ok_or(NotKept)?;
        if !channel.known || !channel.rewind(after) {
            return Err(NotKept);
        }
        self.was_listened_to |= at == Channel::MAIN;
        let reader = self.new_reader();
        if let Some(channel) = self.channels.get_mut(&at) {
            self.woken.extend(channel.attach(reader));
        }
        self.trim();
        Ok(Lease {
            channel: at,
            after,
            reader,
        })
    }

    /// The reader tells its client the id of the event before the first one, so that the client can come back before
    /// there is any.
    pub fn prime(&mut self, lease: Lease) {
        if let Some(channel) = self.leased(lease) {
            channel.known = true;
            if channel.hangs_up {
                self.cut(lease.channel);
            }
        }
    }

    /// The reader is gone. True if its channel is abandoned with that, and the route was not yet told so.
    pub fn detach(&mut self, lease: Lease) -> bool {
        self.readers -= 1;
        let delivery = self.delivery;
        let Some(channel) = self.leased(lease) else {
            return false;
        };
        channel.detach();
        let abandoned = delivery == Delivery::Once && channel.ended().is_none();
        let was_lost = channel.overrun;
        self.settle(lease.channel);
        self.trim();
        if abandoned && was_lost {
            let untold = self.lost.extract_if(.., |it| *it == lease.channel);
            return untold.count() > 0;
        }
        abandoned
    }

    /// What comes next for this reader.
    pub fn read(&mut self, lease: Lease) -> Next<M> {
        let resumable = self.delivery == Delivery::Resumable;
        let Some(channel) = self.leased(lease).filter(|it| !it.overrun) else {
            return Next::Cut;
        };
        if channel.is_held_back() {
            channel.waits = true;
            return Next::Pending;
        }
        let Some((number, message)) = channel.take() else {
            return match channel.ended() {
                None => {
                    channel.waits = true;
                    Next::Pending
                }
                Some(End::Complete) => Next::Complete,
                Some(End::CutShort) => Next::CutShort,
            };
        };
        match resumable {
            true => {
                channel.known = true;
                self.trim();
            }
            false => self.forget_first(lease.channel),
        }
        Next::Event(number, message)
    }

    /// How the channel of a new reader begins, as far as can be told now. If that is not yet, the reader is
    /// [woken](ReplayBuffer::next_woken) when it is.
    pub fn beginning(&mut self, lease: Lease) -> Option<Beginning<M>> {
        let Some(channel) = self.channels.get_mut(&lease.channel) else {
            return Some(Beginning::Silence);
        };
        if channel.reader() != Some(lease.reader) || channel.overrun {
            return Some(Beginning::Stream);
        }
        match (channel.ended(), channel.len()) {
            (Some(_), 0) => Some(Beginning::Silence),
            (Some(End::Complete), 1) => {
                let removed = self.remove(lease.channel);
                let answer = removed.and_then(|mut channel| channel.forget_first());
                answer.map(Beginning::Answer)
            }
            (None, 0) => {
                channel.waits = true;
                None
            }
            _ => Some(Beginning::Stream),
        }
    }

    /// Sends a message on a channel. Its reader is woken at the next [flush](ReplayBuffer::flush), or when the channel
    /// is done. Nothing is kept if nobody can read it.
    pub fn send(&mut self, at: Channel, message: M) {
        let at = match self.delivery {
            Delivery::OneStream => Channel::MAIN,
            Delivery::Resumable | Delivery::Once => at,
        };
        let (resumable, limits) = (self.delivery == Delivery::Resumable, self.limits);
        if at == Channel::MAIN && resumable && !self.sealed {
            self.main();
        }
        let Some(channel) = self.channels.get(&at).filter(|it| it.takes_more()) else {
            return;
        };
        let waited_for = self.paced && !channel.is_stalled();
        if channel.reader().is_some() && channel.is_behind(&limits) && !waited_for {
            self.cut_slow(at);
        }
        self.bound_total();
        if (self.channels.get(&at)).is_some_and(|it| it.overrun) {
            return;
        }
        // A reader that was cut off may have been the only one there will be.
        let Some(channel) = self.channels.get_mut(&at) else {
            return;
        };
        self.kept += 1;
        self.kept_bytes += message.size();
        self.events += 1;
        if let Some(journal) = self.journal.as_mut().filter(|_| channel.is_recorded()) {
            journal.note(Change::Event(at, channel.end_number(), message.clone()));
        }
        channel.push(self.events, message);
        if !std::mem::replace(&mut channel.dirty, true) {
            self.dirty.push(at);
        }
        self.trim();
    }

    /// Everything has been sent on this channel.
    pub fn done(&mut self, at: Channel) {
        if self.delivery == Delivery::OneStream {
            // Its last message is what the reader of everything waits for.
            return self.flush();
        }
        self.end(at, End::Complete);
    }

    /// Nothing more will be sent on this channel, whether it is done or not.
    pub fn end_early(&mut self, at: Channel) {
        self.end(at, End::CutShort);
    }

    /// Wakes whoever has something to read.
    pub fn flush(&mut self) {
        for at in self.dirty.drain(..) {
            if let Some(channel) = self.channels.get_mut(&at) {
                channel.dirty = false;
                self.woken.extend(channel.wake());
            }
        }
    }

    /// Lets slow readers hold the sender back instead of cutting them off. There is one sender, and it
    /// [asks](ReplayBuffer::hold_back) after what it has sent. Requests without a session are not one client's: nobody
    /// waits for the one that does not read.
    pub fn pace(&mut self) {
        self.paced = self.delivery != Delivery::Once;
    }

    /// Whether the sender is to pause, and until when at the latest: then, or when it is
    /// [released](ReplayBuffer::is_released), it asks again.
    pub fn hold_back(&mut self, now: Time) -> Option<Time> {
        if !self.paced || !self.held_back && !self.is_pressed() {
            return None;
        }
        let stall = self.limits.stall;
        let mut exchanges = self.channels.iter().filter(|(at, _)| **at != Channel::MAIN);
        let bound = (exchanges.any(|(_, it)| it.is_drained())).then_some(stall);
        let watched = self.channels.values_mut();
        let idle = watched.filter_map(|it| it.watch(now, bound).filter(|_| it.presses()));
        let earliest = idle.min();
        self.held_back = self.is_pressed();
        let due = earliest.map(|since| since + stall).filter(|at| *at > now);
        self.held_back.then(|| due.unwrap_or(now + stall))
    }

    /// Whether the sender was told to pause, and may go on.
    pub fn is_released(&self) -> bool {
        self.held_back && !self.is_pressed()
    }

    /// Ends the connection of a channel's reader, but not the channel: the client is to come back for the rest. One
    /// that was told no id could not, and keeps its connection until it is [primed](ReplayBuffer::prime).
    pub fn hang_up(&mut self, at: Channel) {
        let can_return = self.delivery == Delivery::Resumable && !self.sealed;
        let channel = self
            .channels
            .get_mut(&at)
            .filter(|it| can_return && it.reader().is_some());
        match channel {
            Some(channel) if channel.known => self.cut(at),
            Some(channel) => channel.hangs_up = true,
            None => {}
        }
    }

    /// Forgets what was sent on this channel, or on all of them: its client may not read it any more.
    pub fn withdraw(&mut self, at: Option<Channel>) {
        let all: Vec<Channel> = match at {
            Some(at) => vec![at],
            None => self.channels.keys().copied().collect(),
        };
        for at in all {
            if let Some(channel) = self.channels.get_mut(&at) {
                if let Some(journal) = self.journal.as_mut().filter(|_| channel.is_recorded()) {
                    for (number, _) in channel.numbered() {
                        journal.note(Change::Forgotten(at, number));
                    }
                }
                let (events, bytes) = channel.clear();
                self.kept -= events;
                self.kept_bytes -= bytes;
            }
            self.settle(at);
        }
    }

    /// Ends every channel, and takes nothing more.
    pub fn seal(&mut self) {
        self.sealed = true;
        for (at, channel) in &mut self.channels {
            // Nobody waits for an answer on the main channel.
            channel.end(match *at {
                Channel::MAIN => End::Complete,
                _ => End::CutShort,
            });
            self.woken.extend(channel.wake());
        }
        let all: Vec<Channel> = self.channels.keys().copied().collect();
        all.into_iter().for_each(|at| self.settle(at));
    }

    /// The next reader that is to ask again.
    pub fn next_woken(&mut self) -> Option<ReaderId> {
        self.woken.pop()
    }

    /// The channels whose readers have fallen too far behind, and cannot come back, since the last time.
    pub fn take_lost(&mut self) -> Vec<Channel> {
        std::mem::take(&mut self.lost)
    }

    /// Whether there are any.
    pub fn has_lost(&self) -> bool {
        !self.lost.is_empty()
    }

    /// The streams that were cut off because their readers were slow, since the last time.
    pub fn take_cuts(&mut self) -> Option<Cuts> {
        let cuts = std::mem::take(&mut self.cuts);
        (cuts.streams > 0).then_some(cuts)
    }

    /// Whether a [flush](ReplayBuffer::flush) may wake somebody.
    pub fn is_dirty(&self) -> bool {
        !self.dirty.is_empty()
    }

    /// Whether everything has been sent on this channel.
    pub fn is_done(&self, at: Channel) -> bool {
        self.channels
            .get(&at)
            .is_some_and(|it| it.ended().is_some())
    }

    /// Whether nothing will be sent any more.
    pub fn is_sealed(&self) -> bool {
        self.sealed
    }

    /// Whether the one reader of everything has fallen too far behind.
    pub fn is_overrun(&self) -> bool {
        self.delivery == Delivery::OneStream
            && self
                .channels
                .get(&Channel::MAIN)
                .is_some_and(|it| it.overrun)
    }

    /// Whether somebody reads this channel.
    pub fn is_read(&self, at: Channel) -> bool {
        self.channels
            .get(&at)
            .is_some_and(|it| it.reader().is_some())
    }

    /// Whether the client has read the main channel, and does so no more.
    pub fn was_left(&self) -> bool {
        self.was_listened_to && !self.is_read(Channel::MAIN)
    }

    /// Whether somebody reads, or has not noticed yet that its lease is gone.
    pub fn has_readers(&self) -> bool {
        self.readers > 0
    }

    /// Whether somebody reads the answer to a request.
    pub fn has_request_readers(&self) -> bool {
        let mut all = self.channels.iter();
        all.any(|(channel, it)| *channel != Channel::MAIN && it.reader().is_some())
    }

    /// How the events reach their readers.
    pub fn delivery(&self) -> Delivery {
        self.delivery
    }

    /// Its bounds.
    pub fn limits(&self) -> &ReplayLimits {
        &self.limits
    }

    /// The events that are held, and their bytes.
    pub fn held(&self) -> (usize, usize) {
        (self.kept, self.kept_bytes)
    }

    /// The channels that are held, with the number of events on each and of those that wait for a reader.
    pub fn channels(&self) -> impl Iterator<Item = (Channel, usize, usize)> {
        self.channels
            .iter()
            .map(|(at, it)| (*at, it.len(), it.unread()))
    }

    fn new_reader(&mut self) -> ReaderId {
        self.readers += 1;
        self.reader_ids += 1;
        ReaderId(self.reader_ids)
    }

    /// The main channel, which is there when it is needed.
    fn main(&mut self) -> &mut ChannelBuffer<M> {
        let (sealed, resumable) = (self.sealed, self.delivery == Delivery::Resumable);
        let recorded = self.journal.is_some();
        self.channels.entry(Channel::MAIN).or_insert_with(|| {
            let mut main = ChannelBuffer::default();
            // Every client knows where it begins.
            main.known = resumable;
            if recorded {
                main.begin_recording();
            }
            if sealed {
                main.end(End::Complete);
            }
            main
        })
    }

    /// The channel of this lease, unless another reader has taken it over.
    fn leased(&mut self, lease: Lease) -> Option<&mut ChannelBuffer<M>> {
        let channel = self.channels.get_mut(&lease.channel);
        channel.filter(|it| it.reader() == Some(lease.reader))
    }

    fn end(&mut self, at: Channel, end: End) {
        if let Some(channel) = self.channels.get_mut(&at) {
            let is_first = channel.ended().is_none();
            channel.end(end);
            if let Some(journal) = self.journal.as_mut().filter(|_| channel.is_recorded())
                && end == End::Complete
                && is_first
            {
                journal.note(Change::Ended(at));
            }
            self.woken.extend(channel.wake());
            self.settle(at);
            self.trim();
        }
    }

    /// Takes the lease from the reader of a channel.
    fn cut(&mut self, at: Channel) {
        if let Some(channel) = self.channels.get_mut(&at) {
            self.woken.extend(channel.wake());
            channel.detach();
            self.settle(at);
            self.trim();
        }
    }

    /// Cuts off the reader of a channel for being too far behind.
    fn cut_slow(&mut self, at: Channel) {
        let backlog = self.channels.get(&at).map_or(0, ChannelBuffer::backlog);
        self.cuts.streams += 1;
        self.cuts.unread_bytes += backlog;
        match self.delivery {
            Delivery::Resumable => self.cut(at),
            Delivery::Once | Delivery::OneStream => self.overrun(at),
        }
    }

    /// Cuts off the readers of a session that are furthest behind until the rest is within its bound.
    fn bound_total(&mut self) {
        while self.delivery != Delivery::Once && self.kept_bytes > self.limits.total_bytes {
            let readers = self.channels.iter().filter(|(_, it)| it.reader().is_some());
            let furthest = readers.max_by_key(|(_, it)| it.backlog());
            match furthest.filter(|(_, it)| it.backlog() > 0) {
                Some((at, _)) => self.cut_slow(*at),
                None => return,
            }
        }
    }

    /// Whether so much waits for readers that the sender should not go on.
    fn is_pressed(&self) -> bool {
        let (events, bytes) = self.limits.watermark(self.held_back);
        // What is not even held cannot be unread.
        if self.sealed || self.kept <= events && self.kept_bytes <= bytes {
            return false;
        }
        let pressing = self.channels.values().filter(|it| it.presses());
        let (mut unread, mut unread_bytes) = (0, 0);
        for channel in pressing {
            unread += channel.unread();
            unread_bytes += channel.backlog();
        }
        unread > events || unread_bytes > bytes
    }

    /// Sends nothing more to a reader that is too far behind and cannot come back.
    fn overrun(&mut self, at: Channel) {
        if let Some(channel) = self.channels.get_mut(&at) {
            let (events, bytes) = channel.clear();
            self.kept -= events;
            self.kept_bytes -= bytes;
            channel.overrun = true;
            self.woken.extend(channel.wake());
            self.lost.push(at);
        }
    }

    /// Forgets the events that were kept longest until the rest is within the bounds, but nothing that a reader is
    /// about to read.
    fn trim(&mut self) {
        if self.delivery != Delivery::Resumable {
            return;
        }
        while self.kept > self.limits.kept || self.kept_bytes > self.limits.kept_bytes {
            let newest = self.events;
            let spare =
                (self.channels.iter()).filter_map(|(at, it)| Some((it.spare(newest)?, *at)));
            let Some((_, at)) = spare.min() else {
                return;
            };
            self.forget_first(at);
            self.settle(at);
        }
    }

    fn forget_first(&mut self, at: Channel) {
        let Some(channel) = self.channels.get_mut(&at) else {
            return;
        };
        let first = channel.first_number();
        if let Some(message) = channel.forget_first() {
            self.kept -= 1;
            self.kept_bytes -= message.size();
            if let Some(journal) = self.journal.as_mut().filter(|_| channel.is_recorded()) {
                journal.note(Change::Forgotten(at, first));
            }
        }
    }

    /// Forgets a channel that nobody reads and nobody can come back to.
    fn settle(&mut self, at: Channel) {
        let Some(channel) = self.channels.get(&at) else {
            return;
        };
        let resumable = self.delivery == Delivery::Resumable && !self.sealed;
        let is_spent = channel.ended().is_some() && channel.len() == 0;
        let can_return = resumable && channel.known && !is_spent;
        if channel.reader().is_none() && !can_return {
            self.remove(at);
        }
    }

    fn remove(&mut self, at: Channel) -> Option<ChannelBuffer<M>> {
        let channel = self.channels.remove(&at)?;
        self.discount(&channel);
        if let Some(journal) = &mut self.journal
            && channel.is_recorded()
            && !self.sealed
        {
            let kept = channel.first_number()..channel.end_number();
            journal.note(Change::Dropped(at, kept));
        }
        Some(channel)
    }

    fn discount(&mut self, channel: &ChannelBuffer<M>) {
        self.kept -= channel.len();
        self.kept_bytes -= channel.bytes();
    }
}
