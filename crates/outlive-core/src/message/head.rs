//! What is kept of a message's envelope once its kind is known.
//!
//! A message is moved from machine to machine some twenty times, so it is kept small: a request has no result and a
//! response no `params`, whatever else was written.

use super::Kind;
use super::envelope::Envelope;
use super::part::Part;
use super::scan::Span;

#[derive(Clone, Debug, Default)]
pub(super) struct Head {
    pub kind: Kind,
    pub id: Span,
    pub method: Span,
    /// `params` of a request or notification, `result` or `error` of a response.
    pub part: Part,
    /// Whether that is `error`.
    pub is_error: bool,
    /// The method, if it was written with escapes. Nobody writes it so, and a thin pointer is half as long.
    #[expect(clippy::box_collection)]
    pub unescaped_method: Option<Box<String>>,
}

impl Head {
    pub fn new(envelope: Envelope, kind: Kind, unescaped_method: Option<String>) -> Head {
        let is_error = kind == Kind::Response && envelope.error.is_some();
        let part = match (kind, is_error) {
            (Kind::Response, true) => Part::unseen(envelope.error),
            (Kind::Response, false) => envelope.result,
            _ => envelope.params,
        };
        Head {
            kind,
            id: envelope.id,
            method: envelope.method,
            part,
            is_error,
            unescaped_method: unescaped_method.map(Box::new),
        }
    }

    /// Moves every span for `old` having become `grown` bytes longer (or shorter).
    pub fn shift(&mut self, old: Span, grown: i64) {
        let moved = |at: u32| (i64::from(at) + grown) as u32;
        let Head {
            id, method, part, ..
        } = self;
        for span in [id, method].into_iter().chain(part.spans()) {
            if span.start >= old.end {
                span.start = moved(span.start);
            }
            if span.end >= old.end {
                span.end = moved(span.end);
            }
        }
    }
}
