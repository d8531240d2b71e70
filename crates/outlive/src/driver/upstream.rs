//! The server's side of a driver.

use std::io;
use std::task::{Context, Poll};

use outlive_core::cause::{Exit, StartFailure};
use outlive_core::{Frame, Generation, Id, LinkInput, LinkOrder, Message};

use crate::io::spin::Look;

/// How links to a server are made and ended.
pub(crate) trait Upstream {
    /// What it makes.
    type Link: Link;

    /// Begins to make a link.
    fn connect(&mut self, generation: Generation) -> Result<Self::Link, StartFailure>;

    /// Ready once for each time that a link may have ended.
    fn poll_ended(&mut self, cx: &mut Context<'_>) -> Poll<()>;

    /// Puts away a link that has ended. Tells how, and what [`Link::sent`] is in the end.
    fn end(&mut self, link: Self::Link, others: &[Self::Link]) -> (Exit, u64);

    /// Puts away whatever else is left behind by links that have ended.
    fn tidy(&mut self, _links: &[Self::Link]) {}

    /// A text without the secrets of this server.
    fn mask(&self, text: &str) -> String;
}

/// What reading a link brought.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Read {
    /// Bytes: there may be frames or lines to take.
    Some,
    /// The other side closed it.
    End,
}

/// One connection to a server.
pub(crate) trait Link {
    /// Which one it is.
    fn generation(&self) -> Generation;

    /// Whether it was made at once.
    fn is_made(&self) -> bool {
        true
    }

    /// If it was not, ready once when it is made or cannot be.
    fn poll_made(&mut self, _cx: &mut Context<'_>) -> Poll<Result<(), StartFailure>> {
        Poll::Pending
    }

    /// Queues a message; dropped where the input is closed, so that it never counts as sent.
    fn send(&mut self, message: Message);

    /// Writes what the server takes.
    fn flush(&mut self, cx: &mut Context<'_>) -> io::Result<()>;

    /// Bytes the server has not taken.
    fn backlog(&self) -> usize;

    /// How many of the frames queued here the server can have read.
    fn sent(&self) -> u64;

    /// Whether it can be read without the runtime's help.
    fn is_visible(&self) -> bool {
        false
    }

    /// Reads what the server says.
    fn poll_read(&mut self, cx: &mut Context<'_>, look: Look) -> Poll<Read>;

    /// The next whole frame of what was read; after the end also the one that lacks its line end.
    fn next_frame(&mut self) -> Option<Frame>;

    /// The next thing that what was read tells.
    fn next_input(&mut self) -> Option<LinkInput> {
        self.next_frame().map(LinkInput::Frame)
    }

    /// What the end of what can be read means.
    fn ending(&self) -> LinkInput {
        LinkInput::Eof { sent: self.sent() }
    }

    /// Reads what the server complains about.
    fn poll_stderr(&mut self, _cx: &mut Context<'_>) -> Poll<Read> {
        Poll::Pending
    }

    /// The lines in what was read of that; after its end also the unfinished one.
    fn take_lines(&mut self) -> Vec<String> {
        Vec::new()
    }

    /// Does as told. Tells what was asked.
    fn order(&mut self, order: LinkOrder) -> Option<LinkInput>;

    /// Sends a request again, by its id here, or gives it up: where links ask.
    fn resend(&mut self, _id: Id, _granted: bool) {}

    /// How its process has ended, told once; what that has started may not have.
    fn exit(&mut self) -> Option<Exit> {
        None
    }

    /// Whether there is nothing left of it but what was read.
    fn has_ended(&mut self) -> bool;

    /// Of a link that has ended: whether somebody else may read what was written to it. If so, how it has ended and
    /// how many frames were written out in full; and it has not ended before nobody may, or it is released.
    fn orphan(&mut self) -> Option<(Exit, u64)> {
        None
    }

    /// Ready when nobody reads any more what was written to an orphaned link.
    fn poll_unread(&mut self, _cx: &mut Context<'_>) -> Poll<()> {
        Poll::Pending
    }

    /// Reads what is left of a link that has ended, without waiting for more.
    fn read_rest(&mut self) {}

    /// Drops a link that will not end in time, without waiting for it.
    fn let_go(self)
    where
        Self: Sized,
    {
    }
}
