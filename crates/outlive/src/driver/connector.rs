//! Byte streams as the server's side of a driver.
//!
//! A [`Connector`] makes connections: to a socket, through a tunnel, or within this process. The
//! messages on them are lines, as on the pipes of a child process.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::BytesMut;
use outlive_core::cause::{Exit, StartFailure};
use outlive_core::{Frame, Framer, Generation, LinkInput, LinkOrder, Message};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::driver::upstream::{Link, Read, Upstream};
use crate::io::outbox::Outbox;
use crate::io::spin::Look;

/// Makes a connection to a server, again and again.
///
/// A closure that returns a future of a stream is one:
///
/// ```no_run
/// # async fn example() -> Result<(), outlive::Error> {
/// let client = outlive::Client::builder()
///     .connector(|| tokio::net::TcpStream::connect("127.0.0.1:7777"))
///     .connect()
///     .await?;
/// # Ok(())
/// # }
/// ```
pub trait Connector: Send + 'static {
    /// What a connection is.
    type Stream: AsyncRead + AsyncWrite + Send + Unpin + 'static;

    /// Makes one.
    fn connect(&mut self) -> impl Future<Output = io::Result<Self::Stream>> + Send + 'static;
}

impl<F, Made, S> Connector for F
where
    F: FnMut() -> Made + Send + 'static,
    Made: Future<Output = io::Result<S>> + Send + 'static,
    S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
{
    type Stream = S;

    fn connect(&mut self) -> impl Future<Output = io::Result<S>> + Send + 'static {
        self()
    }
}

/// Makes links with a [`Connector`].
pub(crate) struct Connections<C> {
    connector: C,
    message_limit: usize,
}

impl<C> Connections<C> {
    pub(crate) fn new(connector: C, message_limit: usize) -> Connections<C> {
        Connections {
            connector,
            message_limit,
        }
    }
}

impl<C: Connector> Upstream for Connections<C> {
    type Link = StreamLink<C::Stream>;

    fn connect(&mut self, generation: Generation) -> Result<Self::Link, StartFailure> {
        Ok(StreamLink {
            generation,
            stream: Stream::Making(Box::pin(self.connector.connect())),
            outbox: Outbox::default(),
            framer: Framer::new(self.message_limit),
            closing: false,
            ended: false,
            error: None,
        })
    }

    /// A connection has no end but that of its stream, which is read.
    fn poll_ended(&mut self, _cx: &mut Context<'_>) -> Poll<()> {
        Poll::Pending
    }

    fn end(&mut self, link: Self::Link, _others: &[Self::Link]) -> (Exit, u64) {
        (Exit::Unknown, link.sent())
    }

    fn mask(&self, text: &str) -> String {
        text.to_string()
    }
}

/// How far a connection has come.
enum Stream<S> {
    Making(Pin<Box<dyn Future<Output = io::Result<S>> + Send>>),
    Made(S),
    Gone,
}

/// A link over a stream.
pub(crate) struct StreamLink<S> {
    generation: Generation,
    stream: Stream<S>,
    outbox: Outbox,
    framer: Framer,
    /// End our side as soon as the outbox is empty.
    closing: bool,
    /// The server's side has ended, …
    ended: bool,
    /// … and not because it was closed.
    error: Option<String>,
}

impl<S> StreamLink<S> {
    /// Drops the stream and what was to be written to it.
    fn leave(&mut self) {
        self.stream = Stream::Gone;
        self.outbox.clear();
        self.framer = Framer::new(0);
        self.ended = true;
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> Link for StreamLink<S> {
    fn generation(&self) -> Generation {
        self.generation
    }

    fn is_made(&self) -> bool {
        false
    }

    fn poll_made(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), StartFailure>> {
        let Stream::Making(making) = &mut self.stream else {
            return Poll::Pending;
        };
        match making.as_mut().poll(cx) {
            Poll::Pending => Poll::Pending,
            Poll::Ready(Ok(stream)) => {
                self.stream = Stream::Made(stream);
                Poll::Ready(Ok(()))
            }
            Poll::Ready(Err(error)) => {
                self.leave();
                let words = format!("could not be reached: {error}");
                Poll::Ready(Err(StartFailure::Other(words)))
            }
        }
    }

    fn send(&mut self, message: Message) {
        if !matches!(self.stream, Stream::Gone) && !self.closing {
            self.outbox.push(message.into_bytes());
        }
    }

    fn flush(&mut self, cx: &mut Context<'_>) -> io::Result<()> {
        let Stream::Made(stream) = &mut self.stream else {
            return Ok(());
        };
        while !self.outbox.is_empty() {
            let mut waits = false;
            let written = self.outbox.write_with(|slices: &[IoSlice<'_>]| {
                match Pin::new(&mut *stream).poll_write_vectored(cx, slices) {
                    Poll::Ready(Ok(0)) if !slices.iter().all(|slice| slice.is_empty()) => {
                        Err(io::ErrorKind::WriteZero.into())
                    }
                    Poll::Ready(written) => written,
                    Poll::Pending => {
                        waits = true;
                        Ok(0)
                    }
                }
            });
            if let Err(error) = written {
                self.outbox.clear();
                self.closing = true;
                return Err(error);
            }
            if waits {
                return Ok(());
            }
        }
        let stream = Pin::new(stream);
        // What it does not say now it will say when it is read.
        let _ = match self.closing {
            true => stream.poll_shutdown(cx),
            false => stream.poll_flush(cx),
        };
        Ok(())
    }

    fn backlog(&self) -> usize {
        self.outbox.len()
    }

    fn sent(&self) -> u64 {
        self.outbox.sent(0)
    }

    fn poll_read(&mut self, cx: &mut Context<'_>, _look: Look) -> Poll<Read> {
        let Stream::Made(stream) = &mut self.stream else {
            return Poll::Pending;
        };
        if self.ended {
            return Poll::Pending;
        }
        match poll_read(stream, cx, self.framer.spare()) {
            Poll::Pending => Poll::Pending,
            Poll::Ready(Ok(1..)) => Poll::Ready(Read::Some),
            Poll::Ready(end) => {
                self.ended = true;
                self.error = end.err().map(|error| error.to_string());
                Poll::Ready(Read::End)
            }
        }
    }

    fn next_frame(&mut self) -> Option<Frame> {
        match self.ended {
            false => self.framer.next_frame(),
            true => self.framer.finish(),
        }
    }

    fn ending(&self) -> LinkInput {
        LinkInput::Disconnected {
            error: self.error.clone(),
            sent: self.sent(),
        }
    }

    fn order(&mut self, order: LinkOrder) -> Option<LinkInput> {
        match order {
            LinkOrder::CloseInput => self.closing = true,
            LinkOrder::StopWriting => self.outbox.clear(),
            // There is nobody who could be asked to hurry.
            LinkOrder::Terminate | LinkOrder::Kill => self.leave(),
            LinkOrder::Release | LinkOrder::DeclineLogin => {}
            LinkOrder::Inspect => return Some(LinkInput::Inspected { stopped: false }),
        }
        None
    }

    fn has_ended(&mut self) -> bool {
        self.ended
    }
}

/// Appends what is there to `buf`, as far as it has room; 0 is the end of the stream.
fn poll_read<S: AsyncRead + Unpin>(
    stream: &mut S,
    cx: &mut Context<'_>,
    buf: &mut BytesMut,
) -> Poll<io::Result<usize>> {
    let mut room = ReadBuf::uninit(buf.spare_capacity_mut());
    let begin = room.filled().as_ptr();
    std::task::ready!(Pin::new(stream).poll_read(cx, &mut room))?;
    assert_eq!(
        begin,
        room.filled().as_ptr(),
        "the reader must not exchange the buffer"
    );
    let n = room.filled().len();
    // SAFETY: the buffer is still ours, and its first `n` bytes have been filled, hence initialised.
    #[expect(unsafe_code)]
    unsafe {
        buf.set_len(buf.len() + n)
    };
    Poll::Ready(Ok(n))
}
