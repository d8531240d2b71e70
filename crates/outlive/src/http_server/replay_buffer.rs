//! What is said to a client, channel by channel, until it is read.
//!
//! A channel is *open* from the request that begins it; one reader at a time takes its messages.
//! To a legacy client a lost connection is not the end: what it has read is kept for a while, and
//! another reader may go on behind any message. Its main channel, which no request begins, is
//! always open. A client of HTTP+SSE has nothing but that one: whatever is said on any channel is
//! said there, to one reader, once.
//!
//! Bounds: what waits for a reader that does not read ([`BACKLOG`]), and what is kept for one that
//! may come back ([`KEPT`], [`KEPT_BYTES`]).

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::Waker;

use outlive_core::Message;
use outlive_core::server::Channel;
use tokio::sync::Notify;

/// Bytes that may wait for a reader. One that is further behind is cut off.
const BACKLOG: usize = 4 << 20;

/// Messages kept for a legacy client that may come back for them …
const KEPT: usize = 512;

/// … and their bytes. The newest message of a channel is kept whatever its size.
const KEPT_BYTES: usize = 1 << 20;

/// All that is said to one route's clients.
#[derive(Debug)]
pub(crate) struct ReplayBuffer {
    inner: Mutex<Inner>,
    /// Whether a reader may come back.
    pub(crate) resumable: bool,
    /// Whether all is said on the main channel.
    pub(crate) single: bool,
    end: Notify,
    /// Rings when a reader is [lost](ReplayBuffer::take_lost).
    pub(crate) bell: Notify,
}

#[derive(Debug, Default)]
struct Inner {
    channels: BTreeMap<Channel, ChannelBuffer>,
    kept: usize,
    kept_bytes: usize,
    /// Readers to be woken at the next flush.
    dirty: Vec<Channel>,
    /// Channels whose readers are too far behind.
    lost: Vec<Channel>,
    /// Readers there are.
    readers: usize,
    /// The main channel has had a reader.
    heard: bool,
    sealed: bool,
}

/// What is said on one channel.
#[derive(Debug, Default)]
struct ChannelBuffer {
    messages: VecDeque<Message>,
    /// The number of the first of them; they are counted from 1.
    first: u64,
    /// The number the reader takes next.
    next: u64,
    /// Bytes from there on.
    backlog: usize,
    done: bool,
    /// It was done because nothing can be said any more, not because all has been said.
    cut_short: bool,
    /// Which reader is the present one.
    turn: u64,
    attached: bool,
    /// The reader is too far behind, and cannot come back.
    overrun: bool,
    waker: Option<Waker>,
}

/// What a reader gets.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Next {
    /// This message, and its number.
    Message(u64, Message),
    /// Nothing yet.
    Nothing,
    /// Nothing more: all has been said.
    All,
    /// Nothing more, although not all has been said: whoever spoke has ended.
    CutShort,
    /// Nothing more: the reader was too slow, or another has taken its place.
    Cut,
}

/// How a channel begins.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Beginning {
    /// Nothing is to be said on it.
    Silence,
    /// One message, and that was all.
    Answer(Message),
    /// More, or not yet anything.
    Stream,
}

/// The right to read a channel, until another reader takes it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Turn {
    pub(crate) channel: Channel,
    /// The number of the last message before.
    pub(crate) after: u64,
    turn: u64,
}

impl ReplayBuffer {
    pub(crate) fn new(resumable: bool) -> ReplayBuffer {
        ReplayBuffer {
            inner: Mutex::default(),
            resumable,
            single: false,
            end: Notify::new(),
            bell: Notify::new(),
        }
    }

    /// For a client that reads everything from one stream.
    pub(crate) fn single() -> ReplayBuffer {
        ReplayBuffer {
            single: true,
            ..ReplayBuffer::new(false)
        }
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Opens a channel for the reader of an exchange.
    pub(crate) fn open(&self, channel: Channel) -> Turn {
        let mut inner = self.lock();
        let done = inner.sealed;
        inner.readers += 1;
        let buffer = ChannelBuffer {
            first: 1,
            next: 1,
            done,
            cut_short: done,
            attached: true,
            ..ChannelBuffer::default()
        };
        inner.channels.insert(channel, buffer);
        Turn {
            channel,
            after: 0,
            turn: 0,
        }
    }

    /// Reads the main channel from where the last reader ended. That one, if it is still there,
    /// is done: most likely its connection is dead and nobody has noticed yet.
    pub(crate) fn listen(&self) -> Option<Turn> {
        self.lock().attach(Channel::MAIN, None)
    }

    /// Reads a channel again from behind this message; `None` if what follows is not kept.
    pub(crate) fn resume(&self, channel: Channel, after: u64) -> Option<Turn> {
        self.lock().attach(channel, Some(after))
    }

    /// The reader is gone. True if what it read has not been said to the end.
    pub(crate) fn detach(&self, turn: Turn) -> bool {
        let mut inner = self.lock();
        inner.readers -= 1;
        let Some(buffer) = inner.channels.get_mut(&turn.channel) else {
            return false;
        };
        if buffer.turn != turn.turn {
            return false;
        }
        buffer.attached = false;
        buffer.waker = None;
        let done = buffer.done;
        match self.resumable {
            true => inner.trim(),
            false => inner.remove(turn.channel),
        }
        !done
    }

    /// What comes next for this reader; its waker is called when there is more.
    pub(crate) fn next(&self, turn: Turn, waker: &Waker) -> Next {
        let mut inner = self.lock();
        let resumable = self.resumable;
        let Some(buffer) = inner.channels.get_mut(&turn.channel) else {
            return Next::Cut;
        };
        if buffer.turn != turn.turn || buffer.overrun {
            return Next::Cut;
        }
        let Some((number, message)) = buffer.take() else {
            if buffer.done {
                return match buffer.cut_short {
                    true => Next::CutShort,
                    false => Next::All,
                };
            }
            buffer.waker = Some(waker.clone());
            return Next::Nothing;
        };
        if !resumable {
            buffer.messages.pop_front();
            buffer.first += 1;
            inner.kept -= 1;
            inner.kept_bytes -= message.bytes().len();
        }
        Next::Message(number, message)
    }

    /// How a channel begins, as far as can be told now; `None` if nothing was said yet.
    pub(crate) fn beginning(&self, turn: Turn, waker: &Waker) -> Option<Beginning> {
        let mut inner = self.lock();
        let Some(buffer) = inner.channels.get_mut(&turn.channel) else {
            return Some(Beginning::Silence);
        };
        match (buffer.done, buffer.messages.len()) {
            (true, 0) => Some(Beginning::Silence),
            (true, 1) if !buffer.cut_short => {
                let message = buffer.messages[0].clone();
                inner.remove(turn.channel);
                Some(Beginning::Answer(message))
            }
            (false, 0) => {
                buffer.waker = Some(waker.clone());
                None
            }
            _ => Some(Beginning::Stream),
        }
    }

    /// Says something. The reader is woken at the next flush, or at the end.
    pub(crate) fn send(&self, channel: Channel, message: Message) {
        let mut inner = self.lock();
        let channel = match self.single {
            true => Channel::MAIN,
            false => channel,
        };
        if inner.sealed || (channel == Channel::MAIN && !self.resumable && !self.single) {
            return;
        }
        if channel == Channel::MAIN {
            inner.main();
        }
        let Some(buffer) = inner.channels.get_mut(&channel) else {
            // Nobody is there to read it, and nobody will come back.
            return;
        };
        if buffer.overrun {
            return;
        }
        if buffer.attached && buffer.backlog > BACKLOG {
            if !self.resumable {
                inner.overrun(channel);
                return self.bell.notify_one();
            }
            buffer.cut();
        }
        let len = message.bytes().len();
        buffer.backlog += len;
        buffer.messages.push_back(message);
        inner.kept += 1;
        inner.kept_bytes += len;
        inner.dirty.push(channel);
        if self.resumable {
            inner.trim();
        }
    }

    /// All has been said on this channel.
    pub(crate) fn done(&self, channel: Channel) {
        let mut inner = self.lock();
        if self.single {
            // Its answer is what the reader of everything waits for; nobody flushes after it.
            return inner.flush();
        }
        if let Some(buffer) = inner.channels.get_mut(&channel) {
            buffer.done = true;
            buffer.wake();
        }
    }

    /// Wakes whoever has something to read.
    pub(crate) fn flush(&self) {
        self.lock().flush();
    }

    /// Whether anybody is to be woken.
    pub(crate) fn is_dirty(&self) -> bool {
        !self.lock().dirty.is_empty()
    }

    /// Ends the connection of this channel's reader, but not the channel: the client is to come
    /// back for the rest.
    pub(crate) fn hang_up(&self, channel: Channel) {
        let mut inner = self.lock();
        if self.resumable
            && let Some(buffer) = inner.channels.get_mut(&channel).filter(|s| s.attached)
        {
            buffer.cut();
        }
    }

    /// What was said on this channel, or on all of them, and was not read will not be.
    pub(crate) fn hush(&self, channel: Option<Channel>) {
        let mut inner = self.lock();
        let hushed = |(at, _): &(&Channel, &mut ChannelBuffer)| channel.is_none_or(|it| it == **at);
        for (_, buffer) in inner.channels.iter_mut().filter(hushed) {
            let unread = buffer.messages.len() - (buffer.next - buffer.first) as usize;
            buffer.next += unread as u64;
            buffer.backlog = 0;
        }
    }

    /// Nothing more will be said on this channel, whether all has been said or not.
    pub(crate) fn break_off(&self, channel: Channel) {
        if let Some(buffer) = self.lock().channels.get_mut(&channel) {
            buffer.cut_short |= !buffer.done;
            buffer.done = true;
            buffer.wake();
        }
    }

    /// All has been said on every channel, and nothing more will be.
    pub(crate) fn seal(&self) {
        let mut inner = self.lock();
        inner.sealed = true;
        for (channel, buffer) in &mut inner.channels {
            // Nobody waits for a last word on the main channel.
            buffer.cut_short |= !buffer.done && *channel != Channel::MAIN;
            buffer.done = true;
            buffer.wake();
        }
        self.end.notify_waiters();
    }

    /// Waits until nothing will be said any more.
    pub(crate) async fn sealed(&self) {
        loop {
            // In this order: an end between the two is not missed.
            let end = self.end.notified();
            if self.is_sealed() {
                return;
            }
            end.await;
        }
    }

    /// Whether all has been said on this channel.
    pub(crate) fn is_done(&self, channel: Channel) -> bool {
        self.lock().channels.get(&channel).is_some_and(|it| it.done)
    }

    /// The channels whose readers have fallen too far behind since the last time.
    pub(crate) fn take_lost(&self) -> Vec<Channel> {
        std::mem::take(&mut self.lock().lost)
    }

    /// Whether nothing will be said any more.
    pub(crate) fn is_sealed(&self) -> bool {
        self.lock().sealed
    }

    /// Whether the one reader of everything has fallen too far behind.
    pub(crate) fn is_overrun(&self) -> bool {
        let inner = self.lock();
        let main = inner.channels.get(&Channel::MAIN);
        self.single && main.is_some_and(|buffer| buffer.overrun)
    }

    /// Whether somebody reads this channel.
    #[cfg(feature = "gateway")]
    pub(crate) fn is_read(&self, channel: Channel) -> bool {
        let inner = self.lock();
        inner.channels.get(&channel).is_some_and(|it| it.attached)
    }

    /// Whether the client has read the main channel, and does so no more.
    pub(crate) fn was_left(&self) -> bool {
        let inner = self.lock();
        let main = inner.channels.get(&Channel::MAIN);
        inner.heard && main.is_none_or(|buffer| !buffer.attached)
    }

    /// Whether somebody reads.
    pub(crate) fn has_readers(&self) -> bool {
        self.lock().readers > 0
    }
}

impl Inner {
    fn main(&mut self) -> &mut ChannelBuffer {
        let sealed = self.sealed;
        self.channels
            .entry(Channel::MAIN)
            .or_insert_with(|| ChannelBuffer {
                first: 1,
                next: 1,
                done: sealed,
                ..ChannelBuffer::default()
            })
    }

    fn flush(&mut self) {
        for channel in std::mem::take(&mut self.dirty) {
            if let Some(buffer) = self.channels.get_mut(&channel) {
                buffer.wake();
            }
        }
    }

    fn attach(&mut self, channel: Channel, after: Option<u64>) -> Option<Turn> {
        if channel == Channel::MAIN {
            self.main();
            self.heard = true;
        }
        let buffer = self.channels.get_mut(&channel)?;
        if let Some(after) = after {
            let end = buffer.first + buffer.messages.len() as u64;
            // In this order: a client may name any number.
            if after >= end || after + 1 < buffer.first {
                return None;
            }
            buffer.next = after + 1;
            let read = (buffer.next - buffer.first) as usize;
            buffer.backlog = size_of(buffer.messages.iter().skip(read));
        }
        buffer.cut();
        buffer.attached = true;
        let turn = Turn {
            channel,
            after: buffer.next - 1,
            turn: buffer.turn,
        };
        self.readers += 1;
        Some(turn)
    }

    fn remove(&mut self, channel: Channel) {
        if let Some(buffer) = self.channels.remove(&channel) {
            self.kept -= buffer.messages.len();
            self.kept_bytes -= size_of(&buffer.messages);
        }
    }

    /// Says nothing more to a reader that is too far behind.
    fn overrun(&mut self, channel: Channel) {
        if let Some(buffer) = self.channels.get_mut(&channel) {
            self.kept -= buffer.messages.len();
            self.kept_bytes -= size_of(&buffer.messages);
            buffer.messages.clear();
            buffer.backlog = 0;
            buffer.next = buffer.first;
            if !std::mem::replace(&mut buffer.overrun, true) {
                self.lost.push(channel);
            }
            buffer.wake();
        }
    }

    fn is_over(&self) -> bool {
        self.kept > KEPT || self.kept_bytes > KEPT_BYTES
    }

    /// Forgets what was kept longest, but nothing that a reader is about to take.
    fn trim(&mut self) {
        if !self.is_over() {
            return;
        }
        let channels: Vec<Channel> = self.channels.keys().copied().collect();
        for channel in channels {
            while self.is_over()
                && let Some(buffer) = self.channels.get_mut(&channel)
            {
                let spare = match buffer.attached {
                    true => buffer.next > buffer.first,
                    false => buffer.messages.len() > 1 || buffer.done,
                };
                let Some(message) = buffer.messages.front().filter(|_| spare) else {
                    break;
                };
                let len = message.bytes().len();
                if buffer.next <= buffer.first {
                    buffer.next = buffer.first + 1;
                    buffer.backlog -= len;
                }
                buffer.messages.pop_front();
                buffer.first += 1;
                self.kept -= 1;
                self.kept_bytes -= len;
                if buffer.messages.is_empty() && buffer.done && !buffer.attached {
                    self.channels.remove(&channel);
                }
            }
        }
    }
}

/// The bytes of these messages.
fn size_of<'a>(messages: impl IntoIterator<Item = &'a Message>) -> usize {
    messages.into_iter().map(|it| it.bytes().len()).sum()
}

impl ChannelBuffer {
    /// The next message and its number.
    fn take(&mut self) -> Option<(u64, Message)> {
        let index = usize::try_from(self.next - self.first).ok()?;
        let message = self.messages.get(index)?.clone();
        let number = self.next;
        self.next += 1;
        self.backlog -= message.bytes().len();
        Some((number, message))
    }

    /// The present reader gets nothing more.
    fn cut(&mut self) {
        self.turn += 1;
        self.attached = false;
        self.wake();
    }

    fn wake(&mut self) {
        if let Some(waker) = self.waker.take() {
            waker.wake();
        }
    }
}
