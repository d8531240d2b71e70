//! A connection inside one process.
//!
//! [`pair`] gives two ends; what is written to one is read from the other, in order and bounded:
//! a writer waits while its reader has not made room. Give one end to a
//! [`Server`](crate::Server) and the other to a client, to test one against the other, or to have
//! both in one program without a child process.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, DuplexStream, ReadBuf};

/// What one direction holds unless said otherwise: as much as a pipe on Linux.
const CAPACITY: usize = 64 << 10;

/// Two ends of a new connection.
pub fn pair() -> (Endpoint, Endpoint) {
    pair_with(CAPACITY)
}

/// Two ends of a new connection, each direction of which holds `capacity` bytes.
pub fn pair_with(capacity: usize) -> (Endpoint, Endpoint) {
    let (one, other) = tokio::io::duplex(capacity.max(1));
    (Endpoint(one), Endpoint(other))
}

/// One end of a connection inside this process.
///
/// When it is dropped, or shut down, the other end reads what is left and then the end of the
/// stream; what that end writes is refused as a broken pipe once this one is dropped.
#[derive(Debug)]
pub struct Endpoint(DuplexStream);

impl AsyncRead for Endpoint {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_read(cx, buf)
    }
}

impl AsyncWrite for Endpoint {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(cx, buf)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write_vectored(cx, bufs)
    }

    fn is_write_vectored(&self) -> bool {
        self.0.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    #[tokio::test]
    async fn what_is_written_to_one_end_is_read_from_the_other() {
        let (mut one, mut other) = pair_with(4);
        let writing = tokio::spawn(async move {
            one.write_all(b"more than it holds").await.unwrap();
            one
        });
        let mut read = vec![0; 18];
        other.read_exact(&mut read).await.unwrap();
        assert_eq!(read, b"more than it holds");
        drop(writing.await.unwrap());
        assert_eq!(other.read(&mut read).await.unwrap(), 0);
        let refused = other.write_all(b"x").await.unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::BrokenPipe);
    }
}
