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
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, ReadHalf, WriteHalf};

use crate::host::{Host, HostOutput};
use crate::outbox::Outbox;
use crate::stream::Source;

/// Where the client is read from.
pub(crate) trait Reading: Send {
    /// Appends what is there to `buf`, which has room; 0 is the end.
    fn poll_read(&mut self, cx: &mut Context<'_>, buf: &mut BytesMut) -> Poll<io::Result<usize>>;
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
        Source::poll_read(self, cx, buf)
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
