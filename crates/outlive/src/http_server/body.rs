//! The body of a request: read within bounds, or thrown away.
//!
//! - A body has a longest length and a longest time, and all bodies that have not come whole have a bound together
//!   ([`Bodies`]).
//! - A body that is not wanted is read all the same, and thrown away, within [`DISCARDED`] and the time a body
//!   has: if a connection is closed while something on it is unread, the system resets it, and most clients then
//!   lose the answer that says why.

use std::collections::BTreeMap;
use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use bytes::{Bytes, BytesMut};
use hyper::StatusCode;
use hyper::body::{Body, Frame, Incoming, SizeHint};
use outlive_core::byte_budget::{ByteBudget, Share};
use outlive_core::framer::BOM;
use outlive_core::{Error, Time};
use tokio::runtime::Handle;
use tokio::sync::Notify;
use tokio::time::timeout;

use super::deadline::DeadlineTimer;
use super::listener::unless;
use super::refusal::Refused;
use super::reply::{self, Reply};

/// A body this short is not counted: its connection has a buffer of that size anyway.
const SHORT: usize = 16 << 10;

/// A body this short is copied out of the buffer that it came in, which is then given back while its call is in flight:
/// else each call would keep one of [`ROOM`] bytes, and the next one would be cold.
const COPIED: usize = 2 << 10;

/// Copies stand side by side in pieces of this size: what a single call in flight can keep.
const ROOM: usize = 8 << 10;

/// Longer bodies are kept in pieces of this size until they have come whole.
const PIECE: usize = 256 << 10;

/// So much of a body that is not wanted is thrown away. Who sends more is cut off.
const DISCARDED: u64 = 256 << 20;

/// Where a body comes from.
pub(crate) enum Source {
    /// A connection of ours.
    Connection(Incoming),
    /// Whoever has read the connection. Such a body need not be `Sync`, and a request here is.
    #[cfg(feature = "tower")]
    Elsewhere(Mutex<Box<dyn Body<Data = Bytes, Error = Broken> + Send + Unpin>>),
}

/// A body broke off.
#[derive(Debug)]
pub(crate) struct Broken;

impl Source {
    /// A body of any kind.
    #[cfg(feature = "tower")]
    pub(crate) fn any<B>(body: B) -> Source
    where
        B: Body + Send + 'static,
    {
        Source::Elsewhere(Mutex::new(Box::new(Elsewhere(Box::pin(body)))))
    }
}

impl Body for Source {
    type Data = Bytes;
    type Error = Broken;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Broken>>> {
        match &mut *self {
            Source::Connection(body) => {
                let frame = Pin::new(body).poll_frame(cx);
                frame.map(|frame| frame.map(|it| it.map_err(|_| Broken)))
            }
            #[cfg(feature = "tower")]
            Source::Elsewhere(body) => {
                let body = body.get_mut().unwrap_or_else(PoisonError::into_inner);
                Pin::new(body).poll_frame(cx)
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Source::Connection(body) => body.is_end_stream(),
            #[cfg(feature = "tower")]
            Source::Elsewhere(body) => locked(body).is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Source::Connection(body) => body.size_hint(),
            #[cfg(feature = "tower")]
            Source::Elsewhere(body) => locked(body).size_hint(),
        }
    }
}

#[cfg(feature = "tower")]
fn locked<T>(body: &Mutex<T>) -> MutexGuard<'_, T> {
    body.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A body of any kind, in pieces of ours.
#[cfg(feature = "tower")]
struct Elsewhere<B>(Pin<Box<B>>);

#[cfg(feature = "tower")]
impl<B: Body> Body for Elsewhere<B> {
    type Data = Bytes;
    type Error = Broken;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Broken>>> {
        use hyper::body::Buf;
        let frame = self.0.as_mut().poll_frame(cx);
        frame.map(|frame| {
            // What is one piece already is not copied.
            let ours =
                |it: Frame<B::Data>| it.map_data(|mut data| data.copy_to_bytes(data.remaining()));
            frame.map(|it| it.map(ours).map_err(|_| Broken))
        })
    }

    fn is_end_stream(&self) -> bool {
        self.0.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.0.size_hint()
    }
}

/// A body that nobody has read. Dropped, it is thrown away.
pub(super) struct Unread {
    body: Option<Source>,
    /// The time it has.
    time: Duration,
    /// Its client waits to be told whether to send it.
    waits: bool,
}

impl Unread {
    /// `waits`: its client waits to be told whether to send it.
    pub(super) fn new(body: Source, waits: bool, time: Duration) -> Unread {
        Unread {
            body: Some(body),
            time,
            waits,
        }
    }

    /// Reads all of it, within its bounds.
    pub(super) async fn read(
        mut self,
        limit: usize,
        bodies: &Arc<Bodies>,
        deadline: &DeadlineTimer,
    ) -> Refused<Bytes> {
        let Some(body) = &mut self.body else {
            return Ok(Bytes::new());
        };
        let mut waiting = deadline.wait(self.time);
        let all = {
            let mut reading = pin!(whole(body, limit, bodies));
            poll_fn(|cx| match reading.as_mut().poll(cx) {
                Poll::Ready(all) => Poll::Ready(Some(all)),
                Poll::Pending => waiting.poll(cx).map(|()| None),
            })
            .await
        };
        let all = match all {
            Some(all) => all?,
            None => {
                // Its time is over; nothing more of it is read.
                self.body = None;
                let sentence = "The body took too long.";
                return Err(reply::refusal(StatusCode::REQUEST_TIMEOUT, sentence).into());
            }
        };
        self.body = None;
        let start = if all.starts_with(BOM) { BOM.len() } else { 0 };
        Ok(all.slice(start..))
    }
}

impl Drop for Unread {
    fn drop(&mut self) {
        let unread = self.body.take().filter(|body| !body.is_end_stream());
        // One that waits has sent nothing that could be lost.
        if let Some(body) = unread.filter(|_| !self.waits)
            && let Ok(runtime) = Handle::try_current()
        {
            runtime.spawn(timeout(self.time, discard(body)));
        }
    }
}

async fn frame(body: &mut Source) -> Option<Result<Bytes, Broken>> {
    loop {
        match poll_fn(|cx| Pin::new(&mut *body).poll_frame(cx)).await? {
            Err(error) => return Some(Err(error)),
            // Trailers are none of our business.
            Ok(frame) => match frame.into_data() {
                Ok(data) => return Some(Ok(data)),
                Err(_) => continue,
            },
        }
    }
}

async fn discard(mut body: Source) {
    let mut left = DISCARDED;
    while let Some(Ok(data)) = frame(&mut body).await {
        left = match left.checked_sub(data.len() as u64) {
            Some(left) => left,
            None => return,
        };
    }
}

async fn whole(body: &mut Source, limit: usize, bodies: &Arc<Bodies>) -> Refused<Bytes> {
    let hint = body.size_hint();
    if hint.lower() > limit as u64 {
        return Err(too_large(limit));
    }
    let announced = hint.exact().and_then(|length| usize::try_from(length).ok());
    let mut pieces = Pieces::new(announced);
    let mut counted: Option<Counted> = None;
    loop {
        let next = match &counted {
            Some(counted) => unless(counted.given_way(), frame(body)).await,
            None => Some(frame(body).await),
        };
        let data = match next {
            None => return Err(given_way()),
            Some(None) => return Ok(pieces.join()),
            Some(Some(Err(_))) => {
                let sentence = "The body broke off.";
                return Err(reply::refusal(StatusCode::BAD_REQUEST, sentence).into());
            }
            Some(Some(Ok(data))) => data,
        };
        if pieces.length + data.len() > limit {
            return Err(too_large(limit));
        }
        if pieces.length == 0 && body.is_end_stream() {
            return Ok(match data.len() <= COPIED {
                true => bodies.copy(&data),
                false => data,
            });
        }
        let room = pieces.room_with(data.len());
        if room > SHORT {
            let counted = counted.get_or_insert_with(|| Counted::new(bodies));
            counted.hold(room).map_err(|()| no_room())?;
        }
        pieces.push(&data);
    }
}

/// What has come of a body, in pieces of one size: if it were moved to a longer place each time it grows, bodies that
/// grow beside each other would leave gaps that add up to more than they are.
struct Pieces {
    all: Vec<Vec<u8>>,
    length: usize,
    /// The size of a piece.
    size: usize,
}

impl Pieces {
    fn new(announced: Option<usize>) -> Pieces {
        Pieces {
            all: Vec::new(),
            length: 0,
            size: announced.unwrap_or(SHORT).clamp(1, PIECE),
        }
    }

    /// The room that is taken when so much more has come.
    fn room_with(&self, more: usize) -> usize {
        match self.length + more {
            length if length <= self.size => self.size,
            length => length.next_multiple_of(PIECE),
        }
    }

    fn push(&mut self, mut data: &[u8]) {
        self.length += data.len();
        while !data.is_empty() {
            let is_first = self.all.is_empty();
            let size = if is_first { self.size } else { PIECE };
            if self
                .all
                .last()
                .is_none_or(|piece| piece.len() == piece.capacity())
            {
                self.all.push(Vec::with_capacity(size));
            }
            if let Some(piece) = self.all.last_mut() {
                let (now, later) = data.split_at(data.len().min(piece.capacity() - piece.len()));
                piece.extend_from_slice(now);
                data = later;
            }
        }
    }

    fn join(mut self) -> Bytes {
        if self.all.len() <= 1 {
            return self.all.pop().unwrap_or_default().into();
        }
        let mut whole = Vec::with_capacity(self.length);
        for piece in self.all {
            whole.extend_from_slice(&piece);
        }
        whole.into()
    }
}

fn too_large(limit: usize) -> Box<Reply> {
    let sentence =
        format!("The message is longer than the limit of {limit} bytes and was not read.");
    let status = StatusCode::PAYLOAD_TOO_LARGE;
    let answer = false;
    let code = Error::TooLarge { limit, answer }.code();
    Box::new(reply::error(status, b"", code, sentence))
}

fn no_room() -> Box<Reply> {
    let sentence = "The server is receiving as many long messages as it can hold. This one was not read; \
                    try again later.";
    Box::new(reply::busy(sentence))
}

fn given_way() -> Box<Reply> {
    let sentence = "Nothing more of the body came for some seconds, and others needed the room.";
    Box::new(reply::refusal(StatusCode::REQUEST_TIMEOUT, sentence))
}

/// What is kept of all bodies that have not come whole.
pub(super) struct Bodies {
    inner: Mutex<Inner>,
    begun: Instant,
    /// Room for copies of short ones.
    room: Mutex<BytesMut>,
}

struct Inner {
    budget: ByteBudget,
    /// Who is told that it has given way.
    bells: BTreeMap<Share, Arc<Notify>>,
}

impl Bodies {
    pub(super) fn new(total: usize) -> Arc<Bodies> {
        Arc::new(Bodies {
            inner: Mutex::new(Inner {
                budget: ByteBudget::new(total),
                bells: BTreeMap::new(),
            }),
            begun: Instant::now(),
            room: Mutex::default(),
        })
    }

    /// A copy of a short body.
    fn copy(&self, body: &[u8]) -> Bytes {
        let mut room = self.room.lock().unwrap_or_else(PoisonError::into_inner);
        if room.capacity() < body.len() {
            *room = BytesMut::with_capacity(ROOM);
        }
        room.extend_from_slice(body);
        room.split().freeze()
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn now(&self) -> Time {
        Time::after(self.begun.elapsed())
    }
}

/// The share of one body.
struct Counted {
    bodies: Arc<Bodies>,
    share: Share,
    held: usize,
    bell: Arc<Notify>,
}

impl Counted {
    fn new(bodies: &Arc<Bodies>) -> Counted {
        let now = bodies.now();
        let mut inner = bodies.lock();
        let share = inner.budget.begin(now);
        let bell = Arc::new(Notify::new());
        inner.bells.insert(share, bell.clone());
        drop(inner);
        Counted {
            bodies: bodies.clone(),
            share,
            held: 0,
            bell,
        }
    }

    /// Holds so many bytes in all.
    fn hold(&mut self, bytes: usize) -> Result<(), ()> {
        let now = self.bodies.now();
        let mut inner = self.bodies.lock();
        let by = bytes.saturating_sub(self.held);
        if by == 0 {
            inner.budget.progress(self.share, now);
            return Ok(());
        }
        let given_way = inner.budget.grow(self.share, by, now).map_err(drop)?;
        for share in given_way {
            if let Some(bell) = inner.bells.remove(&share) {
                // It is kept for one that does not wait yet.
                bell.notify_one();
            }
        }
        self.held += by;
        Ok(())
    }

    async fn given_way(&self) {
        self.bell.notified().await;
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        let mut inner = self.bodies.lock();
        inner.budget.end(self.share);
        inner.bells.remove(&self.share);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_bodies_are_copied_side_by_side() {
        let bodies = Bodies::new(0);
        let texts: Vec<String> = (0..100).map(|n| format!("{n}").repeat(n)).collect();
        let copies: Vec<Bytes> = texts
            .iter()
            .map(|text| bodies.copy(text.as_bytes()))
            .collect();
        assert!(copies.iter().zip(&texts).all(|(copy, text)| copy == text));
        let next = |pair: &&[Bytes]| pair[0].as_ptr_range().end == pair[1].as_ptr();
        assert!(copies.windows(2).filter(next).count() > 90);
    }

    #[test]
    fn a_body_is_put_together_again() {
        for (length, announced) in [
            (0, None),
            (1, None),
            (SHORT, None),
            (SHORT + 1, None),
            (PIECE, Some(PIECE)),
            (2 * PIECE + 17, Some(2 * PIECE + 17)),
            (3 * PIECE, None),
        ] {
            let body: Vec<u8> = (0..length).map(|n| (n % 251) as u8).collect();
            let mut pieces = Pieces::new(announced);
            for data in body.chunks(10_007) {
                let room = pieces.room_with(data.len());
                pieces.push(data);
                let taken: usize = pieces.all.iter().map(Vec::capacity).sum();
                assert!(taken <= room + SHORT, "{taken} of {room}");
            }
            assert_eq!(pieces.join(), body, "{length}");
        }
    }
}
