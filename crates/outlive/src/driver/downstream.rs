//! The host's side of a driver.

use std::sync::Arc;
use std::task::{Context, Poll};

use outlive_core::error::Refusal;
use outlive_core::request::Observer;
use outlive_core::{Event, Id, Input, Message, Meter, Session, Time};

use crate::io::spin::{Look, Thread};

/// Who uses a session: another process behind two pipes, or a part of this one.
pub trait Downstream {
    /// Where the session counts what it does, if anywhere.
    fn meter(&self) -> Option<Arc<Meter>> {
        None
    }

    /// Who is told of the steps of requests, if anybody.
    fn observer(&self) -> Option<Arc<dyn Observer>> {
        None
    }

    /// Whose thread this is, if it may be kept busy to look for news.
    fn thread(&self) -> Option<Thread> {
        None
    }

    /// The session to go on with, if it is not to be a new one.
    fn session(&mut self) -> Option<Session> {
        None
    }

    /// All that the host has said was handed to the session, and what came of it was carried out; or all is done, and
    /// the driver is about to sleep.
    fn look_at(&mut self, _session: &Session, _now: Time) {}

    /// What the host says or wants next; nothing, if the server should have its turn first. No
    /// more of its messages are taken in unless `open`.
    fn poll_next(&mut self, cx: &mut Context<'_>, open: bool, look: Look) -> Poll<Option<Input>>;

    /// The host is sent a message.
    fn send(&mut self, message: Message);

    /// The host is sent a message that the server said on the stream of this request, or of one that nobody waits for.
    fn send_of(&mut self, _owner: Option<Id>, message: Message) {
        self.send(message);
    }

    /// The server is done with a request that the host no longer waits for, or never got it.
    fn over(&mut self, _id: &Id) {}

    /// A request of the host's is answered with an error of ours.
    fn refuse(&mut self, refusal: Refusal);

    /// The server has taken the host's `notifications/initialized`, or the session sees to it.
    fn initialized(&mut self) {}

    /// The session did or noticed something. Tells what should happen because of it.
    fn event(&mut self, now: Time, event: &Event) -> Option<Input>;

    /// The server wrote a line to its standard error.
    fn stderr(&mut self, _line: &str) {}

    /// Passes on what the host takes. Tells what that shows, until it shows nothing more.
    fn flush(&mut self, cx: &mut Context<'_>) -> Option<Input>;

    /// Bytes the host has not taken.
    fn backlog(&self) -> usize;

    /// Whether the host takes so little that its server should not be read.
    fn is_blocked(&self) -> bool;

    /// Whether the host has taken everything, or never will.
    fn is_told(&self) -> bool;
}
