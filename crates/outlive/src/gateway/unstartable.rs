//! A server that is known not to start, and why.
//!
//! It is tried like any other, so that whoever calls it is told the reason in the same way, and the others beside it go
//! on.

use std::task::{Context, Poll};

use outlive_core::Generation;
use outlive_core::cause::{Exit, StartFailure};

use crate::driver::connector::StreamLink;
use crate::driver::upstream::{Link, Upstream};

/// Starts nothing.
pub(super) struct Unstartable(pub(super) StartFailure);

impl Upstream for Unstartable {
    type Link = StreamLink<tokio::io::DuplexStream>;

    fn connect(&mut self, _generation: Generation) -> Result<Self::Link, StartFailure> {
        Err(self.0.clone())
    }

    fn poll_ended(&mut self, _cx: &mut Context<'_>) -> Poll<()> {
        Poll::Pending
    }

    fn end(&mut self, link: Self::Link, _others: &[Self::Link]) -> (Exit, u64) {
        (Exit::Unknown, link.sent())
    }

    fn mask(&self, text: &str) -> String {
        text.to_owned()
    }
}
