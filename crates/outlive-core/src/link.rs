//! What passes between a session and the links under it.
//!
//! A *link* is one live connection to the upstream. It dies; its successor has
//! the next [`Generation`]. Everything that concerns a link carries the
//! generation, so nothing can act on the wrong one.

use std::fmt;
use std::time::Duration;

use crate::cause::{Exit, StartFailure};
use crate::frame::Frame;
use crate::login::LoginStatus;
use crate::message::Id;

/// The ordinal of a link in its session, whoever owns that. The first link is generation 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Generation(u64);

impl Generation {
    /// The generation of a session's first link.
    pub const FIRST: Generation = Generation(1);

    /// The generation of this number; none if there is no such, or none could follow it.
    pub(crate) fn of(number: u64) -> Option<Generation> {
        (1..u64::MAX / 2)
            .contains(&number)
            .then_some(Generation(number))
    }

    /// The generation that follows this one.
    pub fn next(self) -> Generation {
        Generation(self.0 + 1)
    }

    /// The ordinal itself, for messages and metrics.
    pub fn number(self) -> u64 {
        self.0
    }
}

impl fmt::Display for Generation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// What became of one request, where the link itself lives on: over HTTP each request has an
/// exchange of its own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RequestFailure {
    /// The server refused it unexecuted, with this status. But 503 without a time to come back may also be said by a
    /// proxy of what the server behind it has executed, and counts as that.
    Rejected {
        /// The status.
        status: u16,
        /// When the server wants to be asked again, if it said so.
        retry_after: Option<Duration>,
    },
    /// The server refused it unexecuted, because it speaks another era of the protocol; what shows that.
    WrongEra(String),
    /// Nothing was there to refuse it: it never left us. The words of the system.
    Unsent(String),
    /// Its answer will not come, for this reason; it may have been executed.
    Lost(String),
    /// The server did not execute it, and named an address that we do not go to, or wants a login that is not done.
    Elsewhere {
        /// The status.
        status: u16,
        /// What it wants, and why we do not do that.
        why: String,
    },
}

/// How a server would take a request that it has not executed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Resend {
    /// At another address of the same origin.
    Redirected,
    /// With other credentials, which there are now.
    Credentials,
    /// With other headers, which are known now.
    Headers,
    /// By the older transport, if at all.
    OlderTransport,
}

/// What a driver reports about a link.
#[derive(Clone, Debug)]
pub enum LinkInput {
    /// The link is made: bytes can be written to it.
    Up,
    /// The link could not be made.
    Unmade(StartFailure),
    /// The link was made, and the server then refused it as a whole.
    Refused {
        /// Why.
        why: StartFailure,
        /// As in [`LinkInput::Eof`].
        sent: u64,
    },
    /// The server sent a frame.
    Frame(Frame),
    /// The server sent a frame on the stream of this request, by its id on the link. It may be any frame; if it is no
    /// answer, it is about that request.
    FrameOf(Id, Frame),
    /// The server was heard, and said nothing: a sign of life.
    Alive,
    /// The server has taken `notifications/initialized`. Told where servers acknowledge it, which is over HTTP.
    Initialized,
    /// The server wrote a line to its standard error (text without its line end;
    /// the driver has masked secrets, the core escapes control characters).
    Stderr(String),
    /// The answer to [`LinkOrder::Inspect`].
    Inspected {
        /// Whether the operating system shows the server as stopped (`SIGSTOP`).
        stopped: bool,
    },
    /// The server closed its output. Its process may still be alive and read: what is queued for it is written
    /// until [`LinkOrder::StopWriting`].
    Eof {
        /// How many of the frames sent to this link were written out in full, less those that nobody can read
        /// any more.
        sent: u64,
    },
    /// Writing to the server failed.
    WriteFailed {
        /// The operating system's words.
        error: String,
        /// As in [`LinkInput::Eof`].
        sent: u64,
    },
    /// The connection is over, and there is no process that could tell more.
    Disconnected {
        /// The operating system's words, if it was not simply closed.
        error: Option<String>,
        /// As in [`LinkInput::Eof`].
        sent: u64,
    },
    /// This request, by its id on the link, will not be answered; others may be.
    Unanswered {
        /// Which request.
        id: Id,
        /// What became of it.
        failure: RequestFailure,
    },
    /// The server has not executed this request and would take it in another way. It is sent again if the session says
    /// so ([`Output::Resend`](crate::Output::Resend)), and otherwise not answered.
    Unexecuted {
        /// Which request.
        id: Id,
        /// How it would be taken.
        why: Resend,
    },
    /// The server has refused this request unexecuted for its credentials, and it waits here for others. What comes of
    /// it is told by [`LinkInput::Unexecuted`] or [`LinkInput::Unanswered`].
    Challenged {
        /// Which request.
        id: Id,
    },
    /// The server refused a message unexecuted, and its status says that it has forgotten the session.
    Expired {
        /// Which request, if it was one.
        id: Option<Id>,
        /// The status.
        status: u16,
    },
    /// Whether somebody has to log in at the server has changed.
    Login(LoginStatus),
    /// An answer, which was passed on, sounded as if the server had forgotten the session.
    MaybeExpired,
    /// The process that was started has ended, and what it has started is being ended. [`LinkInput::Exited`]
    /// follows when that is done, or [`LinkInput::Orphaned`].
    Ended {
        /// How it ended.
        exit: Exit,
        /// How many of the frames sent to this link were written out in full, read or not.
        sent: u64,
    },
    /// The process that was started has ended, but somebody else holds the reading end of its input, and may
    /// read what is in it: a descendant that outlives a wrapper. [`LinkInput::Exited`] follows when nobody
    /// does, or after [`LinkOrder::Release`]. All it had written has been reported before.
    Orphaned {
        /// How it ended.
        exit: Exit,
        /// How many of the frames sent to this link were written out in full, read or not.
        sent: u64,
    },
    /// The server's process ended, and nobody is left who could read what was sent to it. All it had
    /// written has been reported before.
    Exited {
        /// How it ended.
        exit: Exit,
        /// As in [`LinkInput::Eof`].
        sent: u64,
    },
}

/// What a session orders a driver to do with a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LinkOrder {
    /// Write out what is queued, then close the server's input (the polite way to ask it to leave).
    CloseInput,
    /// Write nothing more, and drop what is queued: what has not been written by now never will be. The
    /// input stays open, so that what is left unread in it can be counted in the end.
    StopWriting,
    /// Ask the server and its descendants to end (`SIGTERM` to the group).
    Terminate,
    /// End the server and all its descendants now, and drop what is queued for it.
    /// The driver goes on to report [`LinkInput::Exited`] once, if it has not yet.
    Kill,
    /// Wait no longer for those who hold the input of an orphaned link ([`LinkInput::Orphaned`]).
    Release,
    /// Look whether the operating system shows the server as stopped, and report it.
    Inspect,
    /// Somebody does not want to log in: do not wait for it.
    DeclineLogin,
}
