//! A connection that is given up when its peer takes nothing.
//!
//! The system ends a connection whose peer acknowledges nothing. One that takes a byte now and then
//! would keep its answer in memory for as long as it likes; so what cannot be written for a while
//! is not written at all. The system reports room only when there is a good deal of it, so a peer
//! has to read to count as reading.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::Sleep;

/// A connection, and how long a write may find no room.
pub(super) struct WriteTimeout<S> {
    stream: S,
    deadline: Duration,
    /// Set while a write waits.
    alarm: Option<Pin<Box<Sleep>>>,
}

impl<S> WriteTimeout<S> {
    pub(super) fn new(stream: S, deadline: Duration) -> WriteTimeout<S> {
        WriteTimeout {
            stream,
            deadline,
            alarm: None,
        }
    }

    #[cfg(feature = "tls")]
    pub(super) fn inner(&self) -> &S {
        &self.stream
    }

    fn wait<T>(&mut self, cx: &mut Context<'_>, done: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        if done.is_ready() {
            self.alarm = None;
            return done;
        }
        let after = self.deadline;
        let alarm = self
            .alarm
            .get_or_insert_with(|| Box::pin(tokio::time::sleep(after)));
        let unread = || io::Error::new(io::ErrorKind::TimedOut, "the client does not read");
        alarm.as_mut().poll(cx).map(|()| Err(unread()))
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for WriteTimeout<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, buffer)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for WriteTimeout<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let done = Pin::new(&mut self.stream).poll_write(cx, bytes);
        self.wait(cx, done)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let done = Pin::new(&mut self.stream).poll_write_vectored(cx, slices);
        self.wait(cx, done)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let done = Pin::new(&mut self.stream).poll_flush(cx);
        self.wait(cx, done)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let done = Pin::new(&mut self.stream).poll_shutdown(cx);
        self.wait(cx, done)
    }
}
