//! A [replay buffer](outlive_core::replay_buffer) that several tasks share: its lock, and the wakers of its readers.
//!
//! All rules are the core's. A route sends from whichever task it is on; readers are the bodies of HTTP responses.

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Waker;

use outlive_core::Message;
#[cfg(feature = "gateway")]
use outlive_core::Time;
use outlive_core::replay_buffer::{self as core, Delivery, Lease, NotKept, ReaderId, ReplayLimits};
use outlive_core::server::Channel;
use rustc_hash::FxHashMap;
use tokio::sync::Notify;

use super::durable::Durable;

/// How a channel begins.
pub(crate) type Beginning = core::Beginning<Message>;

/// What a reader reads next.
pub(crate) type Next = core::Next<Message>;

/// All that is sent to one route's clients.
pub(crate) struct ReplayBuffer {
    inner: Mutex<Inner>,
    pub(crate) delivery: Delivery,
    /// The buffer is sealed. Asked several times by each request, so without the lock.
    sealed: AtomicBool,
    end: Notify,
    /// Rings when a reader is [lost](ReplayBuffer::take_lost).
    pub(crate) bell: Notify,
}

struct Inner {
    buffer: core::ReplayBuffer<Message>,
    /// Of readers that wait.
    wakers: FxHashMap<ReaderId, Waker>,
    /// Of senders that are held back. There are several if a client uses several servers.
    senders: Vec<Waker>,
    /// Who writes what a successor must know, if anybody does.
    durable: Option<Arc<Durable>>,
}

impl fmt::Debug for ReplayBuffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ReplayBuffer")
            .field("buffer", &self.lock().buffer)
            .finish_non_exhaustive()
    }
}

impl Inner {
    /// Has this reader woken when there is more for it.
    fn wait(&mut self, reader: ReaderId, waker: &Waker) {
        match self.wakers.get_mut(&reader) {
            Some(known) => known.clone_from(waker),
            None => drop(self.wakers.insert(reader, waker.clone())),
        }
    }

    /// Wakes senders that were held back and may go on, and whoever has something to write.
    fn release(&mut self) {
        if let Some(durable) = &self.durable
            && self.buffer.has_changes()
        {
            durable.kick();
        }
        if !self.senders.is_empty() && self.buffer.is_released() {
            self.senders.drain(..).for_each(Waker::wake);
        }
    }
}

impl ReplayBuffer {
    pub(crate) fn new(delivery: Delivery) -> ReplayBuffer {
        ReplayBuffer::over(core::ReplayBuffer::new(delivery, ReplayLimits::default()))
    }

    /// The buffer of a session that another process has begun.
    pub(crate) fn restored(kept: Vec<core::KeptChannel<Message>>) -> ReplayBuffer {
        ReplayBuffer::over(core::ReplayBuffer::restored(ReplayLimits::default(), kept))
    }

    fn over(buffer: core::ReplayBuffer<Message>) -> ReplayBuffer {
        let delivery = buffer.delivery();
        let inner = Inner {
            buffer,
            wakers: FxHashMap::default(),
            senders: Vec::new(),
            durable: None,
        };
        ReplayBuffer {
            inner: Mutex::new(inner),
            delivery,
            sealed: AtomicBool::new(false),
            end: Notify::new(),
            bell: Notify::new(),
        }
    }

    /// Has what a successor must know written by this one.
    pub(crate) fn record(&self, durable: Arc<Durable>) {
        let mut inner = self.lock();
        inner.durable = Some(durable);
        inner.buffer.record_all();
        inner.release();
    }

    /// The client of this channel is told that it may come back for what is sent on it.
    pub(crate) fn promise(&self, lease: Lease) {
        self.change(|buffer| buffer.promise(lease));
    }

    /// Whether there are changes that nobody has taken.
    pub(crate) fn has_changes(&self) -> bool {
        self.lock().buffer.has_changes()
    }

    /// What has changed since the last time, and a number for it.
    pub(crate) fn take_changes(&self) -> (Vec<core::Change<Message>>, u64) {
        self.lock().buffer.take_changes()
    }

    /// Up to this number it is written.
    pub(crate) fn written(&self, upto: u64) {
        self.change(|buffer| buffer.written(upto));
    }

    /// Ends the connections of all readers, but no channel.
    pub(crate) fn hang_up_all(&self) {
        self.change(|buffer| buffer.hang_up_all());
    }

    /// Whether a reader may come back.
    pub(crate) fn is_resumable(&self) -> bool {
        self.delivery == Delivery::Resumable
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Does something to the buffer; the readers for whom that changes something are woken.
    fn change<T>(&self, change: impl FnOnce(&mut core::ReplayBuffer<Message>) -> T) -> T {
        let mut inner = self.lock();
        let result = change(&mut inner.buffer);
        while let Some(reader) = inner.buffer.next_woken() {
            if let Some(waker) = inner.wakers.remove(&reader) {
                waker.wake();
            }
        }
        inner.release();
        result
    }

    /// Opens a channel for the reader of an exchange.
    pub(crate) fn open(&self, channel: Channel) -> Lease {
        self.change(|buffer| buffer.open(channel))
    }

    /// Reads the main channel from where its last reader ended.
    pub(crate) fn listen(&self) -> Lease {
        self.change(|buffer| buffer.listen())
    }

    /// Reads a channel from behind this event.
    pub(crate) fn resume(&self, channel: Channel, after: u64) -> Result<Lease, NotKept> {
        self.change(|buffer| buffer.resume(channel, after))
    }

    /// The client of this reader is told where to come back to before there is an event.
    pub(crate) fn prime(&self, lease: Lease) {
        self.change(|buffer| buffer.prime(lease));
    }

    /// The reader is gone. True if its channel is abandoned with that.
    pub(crate) fn detach(&self, lease: Lease) -> bool {
        let mut inner = self.lock();
        inner.wakers.remove(&lease.reader);
        let abandoned = inner.buffer.detach(lease);
        inner.release();
        abandoned
    }

    /// What comes next for this reader; its waker is called when there is more.
    pub(crate) fn next(&self, lease: Lease, waker: &Waker) -> Next {
        let mut inner = self.lock();
        let next = inner.buffer.read(lease);
        if matches!(next, Next::Pending) {
            inner.wait(lease.reader, waker);
        }
        inner.release();
        next
    }

    /// How a channel begins; if that cannot be told yet, the waker is called when it can.
    pub(crate) fn beginning(&self, lease: Lease, waker: &Waker) -> Option<Beginning> {
        let mut inner = self.lock();
        let beginning = inner.buffer.beginning(lease);
        if beginning.is_none() {
            inner.wait(lease.reader, waker);
        }
        inner.release();
        beginning
    }

    /// Sends a message. The reader is woken at the next flush, or when the channel is done.
    pub(crate) fn send(&self, channel: Channel, message: Message) {
        let has_lost = self.change(|buffer| {
            buffer.send(channel, message);
            buffer.has_lost()
        });
        if has_lost {
            self.bell.notify_one();
        }
    }

    /// Everything has been sent on this channel.
    pub(crate) fn done(&self, channel: Channel) {
        self.change(|buffer| buffer.done(channel));
    }

    /// Wakes whoever has something to read.
    pub(crate) fn flush(&self) {
        self.change(|buffer| buffer.flush());
    }

    /// Whether anybody is to be woken.
    pub(crate) fn is_dirty(&self) -> bool {
        self.lock().buffer.is_dirty()
    }

    /// Ends the connection of this channel's reader, but not the channel: the client is to come back for the rest.
    pub(crate) fn hang_up(&self, channel: Channel) {
        self.change(|buffer| buffer.hang_up(channel));
    }

    /// Forgets what was sent on this channel, or on all of them: the client may not read it any more.
    pub(crate) fn withdraw(&self, channel: Option<Channel>) {
        self.change(|buffer| buffer.withdraw(channel));
    }

    /// Nothing more will be sent on this channel, whether it is done or not.
    pub(crate) fn end_early(&self, channel: Channel) {
        self.change(|buffer| buffer.end_early(channel));
    }

    /// Ends every channel, and takes nothing more.
    pub(crate) fn seal(&self) {
        self.change(|buffer| {
            buffer.seal();
            // Before anybody is woken: they ask whether it is.
            self.sealed.store(true, Ordering::Release);
        });
        self.end.notify_waiters();
    }

    /// Waits until nothing will be sent any more.
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

    /// Whether everything has been sent on this channel.
    pub(crate) fn is_done(&self, channel: Channel) -> bool {
        self.lock().buffer.is_done(channel)
    }

    /// The channels whose readers have fallen too far behind since the last time.
    pub(crate) fn take_lost(&self) -> Vec<Channel> {
        self.lock().buffer.take_lost()
    }

    /// Lets slow readers hold the senders back instead of cutting them off.
    #[cfg(feature = "gateway")]
    pub(crate) fn pace(&self) {
        self.lock().buffer.pace();
    }

    /// Whether a sender is to pause, and until when at the latest; its waker is called when it may go on.
    #[cfg(feature = "gateway")]
    pub(crate) fn hold_back(&self, now: Time, waker: &Waker) -> Option<Time> {
        let mut inner = self.lock();
        let until = inner.buffer.hold_back(now);
        inner.senders.retain(|it| !it.will_wake(waker));
        inner.senders.extend(until.map(|_| waker.clone()));
        until
    }

    /// The streams that were cut off because their readers were slow, since the last time.
    #[cfg(feature = "gateway")]
    pub(crate) fn take_cuts(&self) -> Option<core::Cuts> {
        self.lock().buffer.take_cuts()
    }

    /// Whether nothing will be sent any more.
    pub(crate) fn is_sealed(&self) -> bool {
        self.sealed.load(Ordering::Acquire)
    }

    /// Whether the one reader of everything has fallen too far behind.
    pub(crate) fn is_overrun(&self) -> bool {
        self.delivery == Delivery::OneStream && self.lock().buffer.is_overrun()
    }

    /// Whether somebody reads this channel.
    #[cfg(feature = "gateway")]
    pub(crate) fn is_read(&self, channel: Channel) -> bool {
        self.lock().buffer.is_read(channel)
    }

    /// Whether the client has read the main channel, and does so no more.
    pub(crate) fn was_left(&self) -> bool {
        self.lock().buffer.was_left()
    }

    /// Whether somebody reads the answer to a request.
    pub(crate) fn has_request_readers(&self) -> bool {
        self.lock().buffer.has_request_readers()
    }

    /// Whether somebody reads.
    pub(crate) fn has_readers(&self) -> bool {
        self.lock().buffer.has_readers()
    }
}
