//! One reader of a channel: a stream of server-sent events, and what its end means.

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::{BufMut, Bytes, BytesMut};
use outlive_core::error::Outcome;
use outlive_core::replay_buffer::Lease;
use outlive_core::sse::{self, EventId};
use outlive_core::{Error, Generation, Message};
use tokio::time::{Instant, Sleep};

use super::Route;
use super::deadline::DeadlineTimer;
use super::replay_buffer::{Beginning, Next, ReplayBuffer};
use super::token::Identity;

/// How long a client is told to wait before it comes back for the rest of a stream.
const RETRY: Duration = Duration::from_millis(500);

/// Longer rows of messages are handed on in several pieces.
const PIECE: usize = 64 << 10;

/// Whoever reads a channel. Dropping it says that the client is gone.
pub(crate) struct Reader {
    replay: Arc<ReplayBuffer>,
    route: Arc<dyn Route>,
    lease: Lease,
    /// What is still to be sent before the first message.
    priming: Option<Bytes>,
    keep_alive: Duration,
    alarm: Option<Pin<Box<Sleep>>>,
    /// Ready when the client may not read it any more.
    ends: Option<Pin<Box<dyn Future<Output = ()> + Send + Sync>>>,
    /// Ready when the token has expired that the stream was opened with.
    expires: Option<Pin<Box<dyn Future<Output = ()> + Send + Sync>>>,
    /// The client may not read it any more: its token was withdrawn.
    withdrawn: bool,
    /// The request that is answered if the channel is cut short.
    asked: Option<Message>,
    /// What ends with the stream.
    bound: Option<Box<dyn Send + Sync>>,
}

impl Reader {
    pub(crate) fn new(
        replay: Arc<ReplayBuffer>,
        route: Arc<dyn Route>,
        lease: Lease,
        keep_alive: Duration,
    ) -> Reader {
        Reader {
            replay,
            route,
            lease,
            priming: None,
            keep_alive,
            alarm: None,
            ends: None,
            expires: None,
            withdrawn: false,
            asked: None,
            bound: None,
        }
    }

    /// Reads for as long as the token is good that the client has shown.
    pub(crate) fn until(mut self, identity: &Identity) -> Reader {
        self.ends = identity.withdrawal().map(|ends| Box::pin(ends) as _);
        self
    }

    /// Ends the stream when the token expires that it was opened with. For streams that only listen: they would last
    /// for ever, and a client with a newer token opens another one and goes on where this one ended. What a call is
    /// answered on lasts until the answer.
    pub(crate) fn expiring(mut self, identity: &Identity) -> Reader {
        self.expires = identity.expiry().map(|expires| Box::pin(expires) as _);
        self
    }

    /// Ends with an error that answers this request if whoever speaks ends before all has been said.
    pub(crate) fn answering(mut self, asked: Option<&Message>) -> Reader {
        self.asked = asked.cloned();
        self
    }

    /// The answer to a request that its session, or its token, has ended over. It was handed on: whoever sends it again
    /// may have it done twice.
    pub(crate) fn unfinished(&self, asked: &Message) -> Message {
        let outcome = Outcome::Unknown;
        let error = match self.withdrawn {
            true => Error::TokenWithdrawn { outcome },
            false => Error::ShuttingDown { outcome },
        };
        error.to_response(asked.id_json(), asked.method(), Generation::FIRST)
    }

    /// Whether the token was withdrawn that the client has shown.
    pub(crate) fn is_withdrawn(&self) -> bool {
        self.withdrawn
    }

    /// What it reads.
    pub(crate) fn lease(&self) -> Lease {
        self.lease
    }

    /// The last message of the channel, when there is one.
    pub(crate) async fn last(&mut self) -> Option<Message> {
        let mut last = None;
        poll_fn(|cx| {
            loop {
                match self.replay.next(self.lease, cx.waker()) {
                    Next::Event(_, message) => last = Some(message),
                    Next::Pending => return Poll::Pending,
                    Next::Complete => return Poll::Ready(last.take()),
                    Next::CutShort | Next::Cut => return Poll::Ready(None),
                }
            }
        })
        .await
    }

    /// Once the token is withdrawn, nothing is read any more but what answers the requests on the channel.
    fn poll_withdrawal(&mut self, cx: &mut Context<'_>) {
        if let Some(ends) = &mut self.ends
            && ends.as_mut().poll(cx).is_ready()
        {
            self.ends = None;
            self.withdrawn = true;
            self.route.withdraw(self.lease.channel);
        }
    }

    /// Begins the stream with the address to send messages to (2024-11-05, transports).
    pub(crate) fn endpoint(mut self, address: &str) -> Reader {
        self.priming = Some(sse::endpoint(address).into());
        self
    }

    /// Drops this with the stream.
    pub(crate) fn binding(mut self, bound: impl Send + Sync + 'static) -> Reader {
        self.bound = Some(Box::new(bound));
        self
    }

    /// Begins the stream with an event that has an id and no message, so that the client knows
    /// where to go on before there is one (2025-11-25, transports).
    pub(crate) fn primed(mut self) -> Reader {
        self.replay.prime(self.lease);
        self.priming = Some(sse::primer(self.event(self.lease.after), RETRY).into());
        self
    }

    fn event(&self, number: u64) -> EventId {
        EventId {
            channel: self.lease.channel,
            number,
        }
    }

    /// Begins the stream with something that means nothing, so that it begins.
    pub(crate) fn greeting(mut self) -> Reader {
        self.priming = Some(Bytes::from_static(b": here\n\n"));
        self
    }

    /// How the channel begins; a stream, if there is a bound and nothing is said for so long.
    pub(crate) async fn beginning(
        &mut self,
        bound: Option<(&DeadlineTimer, Duration)>,
    ) -> Beginning {
        let mut waiting = bound.map(|(deadline, bound)| deadline.wait(bound));
        poll_fn(|cx| {
            self.poll_withdrawal(cx);
            if let Some(beginning) = self.replay.beginning(self.lease, cx.waker()) {
                return Poll::Ready(beginning);
            }
            match &mut waiting {
                Some(waiting) => waiting.poll(cx).map(|()| Beginning::Stream),
                None => Poll::Pending,
            }
        })
        .await
    }

    /// The next piece of the stream: `None` at its end, an error if it is cut.
    pub(crate) fn poll_piece(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Bytes, Cut>>> {
        self.poll_withdrawal(cx);
        if let Some(expires) = &mut self.expires
            && expires.as_mut().poll(cx).is_ready()
        {
            return Poll::Ready(None);
        }
        let mut piece = BytesMut::new();
        if let Some(priming) = self.priming.take() {
            piece.put(priming);
        }
        let cut = loop {
            match self.replay.next(self.lease, cx.waker()) {
                Next::Event(number, message) => {
                    let id = self.replay.is_resumable().then(|| self.event(number));
                    sse::message(&mut piece, id, message.bytes());
                    if piece.len() >= PIECE {
                        break false;
                    }
                }
                Next::Pending if piece.is_empty() => return self.poll_silence(cx),
                Next::CutShort => match self.asked.take() {
                    Some(asked) => {
                        let answer = self.unfinished(&asked);
                        sse::message(&mut piece, None, answer.bytes());
                        break false;
                    }
                    None if piece.is_empty() => return Poll::Ready(None),
                    None => break false,
                },
                Next::Complete if piece.is_empty() => return Poll::Ready(None),
                Next::Cut if piece.is_empty() => break true,
                Next::Pending | Next::Complete | Next::Cut => break false,
            }
        };
        self.alarm = None;
        match cut {
            true if self.replay.is_resumable() => Poll::Ready(None),
            true => Poll::Ready(Some(Err(Cut))),
            false => Poll::Ready(Some(Ok(piece.freeze()))),
        }
    }

    /// A comment now and then keeps everybody on the way from taking the connection for dead
    /// (FM-23).
    fn poll_silence(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Bytes, Cut>>> {
        let after = self.keep_alive;
        let alarm = self
            .alarm
            .get_or_insert_with(|| Box::pin(tokio::time::sleep(after)));
        if alarm.as_mut().poll(cx).is_pending() {
            return Poll::Pending;
        }
        alarm.as_mut().reset(Instant::now() + after);
        // To be woken when it rings.
        let _ = alarm.as_mut().poll(cx);
        Poll::Ready(Some(Ok(Bytes::from_static(sse::comment()))))
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        if self.replay.detach(self.lease) {
            self.route.left(self.lease.channel);
        }
    }
}

/// The stream ends although not all has been said.
#[derive(Debug)]
pub(crate) struct Cut;

impl std::fmt::Display for Cut {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("the client reads too slowly")
    }
}

impl std::error::Error for Cut {}
