//! The two directions of a connection, whatever carries them.
//!
//! Reading belongs to the connection's own thread. Writing belongs to whoever holds the
//! connection's lock; what cannot be written at once is left to that thread, which knows how to
//! wait.

use std::io;
use std::pin::{Pin, pin};
use std::task::{Context, Poll, Waker, ready};
use std::time::Duration;

use bytes::BytesMut;
use outlive_core::Message;
use outlive_core::server::Channel;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, ReadHalf, WriteHalf};

use crate::io::host::{Host, HostOutput};
use crate::io::outbox::Outbox;
use crate::io::spin::Look;
use crate::io::stream::Source;

/// Where the client is read from.
pub(crate) trait Reading: Send {
    /// Appends what is there to `buf`, which has room; 0 is the end.
    fn poll_read(&mut self, cx: &mut Context<'_>, buf: &mut BytesMut) -> Poll<io::Result<usize>>;

    /// Whether it can be read without the runtime's help.
    fn is_visible(&self) -> bool {
        false
    }

    /// Appends what is there to `buf`, if it can be read without the runtime's help; 0 may be the
    /// end.
    fn read_now(&mut self, _buf: &mut BytesMut) -> usize {
        0
    }
}

/// Where the client is written to.
pub(crate) trait Writing: Send {
    /// Writes without waiting. False if something is left; then `cx` is woken when it is worth
    /// trying again.
    fn flush(&mut self, cx: &mut Context<'_>, outbox: &mut Outbox) -> io::Result<bool>;

    /// Ready when the client will never read again, as far as that can be told without writing.
    fn poll_gone(&mut self, cx: &mut Context<'_>) -> Poll<()>;

    /// Waits for what is on its way, but not for long.
    fn finish(&mut self, patience: Duration);
}

/// Where messages for the client go.
pub(crate) trait Sink: Send {
    /// Queues a message.
    fn send(&mut self, channel: Channel, message: Message);

    /// Nothing more will come on this channel.
    fn done(&mut self, channel: Channel);

    /// Passes on what is queued without waiting. False if something is left; then `cx` is woken
    /// when it is worth trying again.
    fn flush(&mut self, cx: &mut Context<'_>) -> io::Result<bool>;

    /// Bytes that are queued.
    fn backlog(&self) -> usize;

    /// Forgets what is queued: nobody will read it.
    fn clear(&mut self);

    /// Ready when the client will never read again, as far as that can be told without writing.
    fn poll_gone(&mut self, _cx: &mut Context<'_>) -> Poll<()> {
        Poll::Pending
    }

    /// Waits for what is on its way, but not for long.
    fn finish(&mut self, _patience: Duration) {}

    /// Lets the client come back for what is still to come on this channel, if it can.
    fn hang_up(&mut self, _channel: Channel) {}
}

/// A pipe for messages: all channels are one.
pub(crate) struct Pipe {
    outbox: Outbox,
    writer: Box<dyn Writing>,
}

impl Pipe {
    pub(crate) fn new(writer: Box<dyn Writing>) -> Pipe {
        Pipe {
            outbox: Outbox::default(),
            writer,
        }
    }
}

impl Sink for Pipe {
    fn send(&mut self, _: Channel, message: Message) {
        self.outbox.push(message.into_bytes());
    }

    fn done(&mut self, _: Channel) {}

    fn flush(&mut self, cx: &mut Context<'_>) -> io::Result<bool> {
        self.writer.flush(cx, &mut self.outbox)
    }

    fn backlog(&self) -> usize {
        self.outbox.len()
    }

    fn clear(&mut self) {
        self.outbox.clear();
    }

    fn poll_gone(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        self.writer.poll_gone(cx)
    }

    fn finish(&mut self, patience: Duration) {
        self.writer.finish(patience);
    }
}

/// Both directions.
pub(crate) type Ends = (Box<dyn Reading>, Box<dyn Writing>);

/// The directions of a stream of bytes.
pub(crate) fn of_stream<S>(stream: S) -> Ends
where
    S: AsyncRead + AsyncWrite + Send + 'static,
{
    let (reader, writer) = tokio::io::split(stream);
    let writer = StreamWriter {
        half: writer,
        unflushed: false,
    };
    (Box::new(reader), Box::new(writer))
}

/// The directions of a host.
pub(crate) fn of_host(host: Host) -> Ends {
    let (input, output) = host.split();
    (Box::new(input), Box::new(output))
}

impl<S: AsyncRead + Send> Reading for ReadHalf<S> {
    fn poll_read(&mut self, cx: &mut Context<'_>, buf: &mut BytesMut) -> Poll<io::Result<usize>> {
        // A future that is dropped here has read nothing.
        pin!(self.read_buf(buf)).poll(cx)
    }
}

impl Reading for Source {
    fn poll_read(&mut self, cx: &mut Context<'_>, buf: &mut BytesMut) -> Poll<io::Result<usize>> {
        Source::poll_read(self, cx, buf, Look::Usual)
    }

    fn is_visible(&self) -> bool {
        true
    }

    fn read_now(&mut self, buf: &mut BytesMut) -> usize {
        Source::read_now(self, buf)
    }
}

struct StreamWriter<S> {
    half: WriteHalf<S>,
    /// Something was written that the stream may still hold back.
    unflushed: bool,
}

impl<S: AsyncWrite + Send> StreamWriter<S> {
    fn poll_flush(&mut self, cx: &mut Context<'_>, outbox: &mut Outbox) -> Poll<io::Result<()>> {
        while !outbox.is_empty() {
            let mut half = Pin::new(&mut self.half);
            let written =
                outbox.write_with(
                    |slices| match half.as_mut().poll_write_vectored(cx, slices) {
                        Poll::Ready(Ok(0)) => Err(io::ErrorKind::WriteZero.into()),
                        Poll::Ready(result) => result,
                        Poll::Pending => Err(io::ErrorKind::WouldBlock.into()),
                    },
                );
            match written {
                Ok(_) => self.unflushed = true,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Poll::Pending,
                Err(error) => return Poll::Ready(Err(error)),
            }
        }
        if self.unflushed {
            ready!(Pin::new(&mut self.half).poll_flush(cx))?;
            self.unflushed = false;
        }
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncWrite + Send> Writing for StreamWriter<S> {
    fn flush(&mut self, cx: &mut Context<'_>, outbox: &mut Outbox) -> io::Result<bool> {
        match self.poll_flush(cx, outbox) {
            Poll::Ready(result) => result.map(|()| true),
            Poll::Pending => Ok(false),
        }
    }

    fn poll_gone(&mut self, _: &mut Context<'_>) -> Poll<()> {
        Poll::Pending
    }

    fn finish(&mut self, _: Duration) {
        // A handler that is never done may keep the connection, but not the client waiting.
        let mut nobody = Context::from_waker(Waker::noop());
        let _ = Pin::new(&mut self.half).poll_shutdown(&mut nobody);
    }
}

impl Writing for HostOutput {
    fn flush(&mut self, cx: &mut Context<'_>, outbox: &mut Outbox) -> io::Result<bool> {
        if let Some(sink) = &mut self.sink {
            sink.flush(cx, outbox)?;
        }
        Ok(outbox.is_empty())
    }

    fn poll_gone(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        match &mut self.sink {
            Some(sink) => sink.poll_gone(cx),
            None => Poll::Ready(()),
        }
    }

    fn finish(&mut self, patience: Duration) {
        HostOutput::finish(self, patience);
    }
}
