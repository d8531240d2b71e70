//! The body of a request, which tells when it was written.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};

use super::report::{Mark, Marks};

/// Whom to tell that the body of a message was written to its connection: what follows then cannot overtake it but on
/// the server's side.
#[derive(Clone, Debug)]
pub(super) struct Written(Option<(u64, Marks)>);

impl Written {
    /// The message of this number.
    pub(super) fn new(number: u64, marks: &Marks) -> Written {
        Written(Some((number, marks.clone())))
    }

    /// Nobody.
    pub(super) fn unmarked() -> Written {
        Written(None)
    }

    pub(super) fn body(self, bytes: Bytes) -> reqwest::Body {
        match self.0 {
            Some(mark) => reqwest::Body::wrap(Marked {
                bytes: Some(bytes),
                mark,
            }),
            None => bytes.into(),
        }
    }
}

/// A body in one piece.
struct Marked {
    bytes: Option<Bytes>,
    mark: (u64, Marks),
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
        let (number, marks) = &self.mark;
        // Without a link there is nobody to tell.
        let _ = marks.send(Mark::Taken(*number));
        Poll::Ready(Some(Ok(Frame::data(bytes))))
    }

    fn is_end_stream(&self) -> bool {
        self.bytes.is_none()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.bytes.as_ref().map_or(0, Bytes::len) as u64)
    }
}
