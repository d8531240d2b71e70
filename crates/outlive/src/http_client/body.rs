//! The body of a request, which tells when it was written.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use outlive_core::http_upstream::Attempt;

use super::request::{Signal, Signals};

/// A body that tells when it was written to its connection: what follows then cannot overtake it but on the server's
/// side.
pub(super) fn marked(bytes: Bytes, attempt: Attempt, signals: &Signals) -> reqwest::Body {
    reqwest::Body::wrap(Marked {
        bytes: Some(bytes),
        attempt,
        signals: signals.clone(),
    })
}

/// A body in one piece.
struct Marked {
    bytes: Option<Bytes>,
    attempt: Attempt,
    signals: Signals,
}

impl Body for Marked {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let Some(bytes) = self.bytes.take() else {
            return Poll::Ready(None);
        };
        // Without a link there is nobody to tell.
        let _ = self.signals.send(Signal::Written(self.attempt));
        Poll::Ready(Some(Ok(Frame::data(bytes))))
    }

    fn is_end_stream(&self) -> bool {
        self.bytes.is_none()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.bytes.as_ref().map_or(0, Bytes::len) as u64)
    }
}
