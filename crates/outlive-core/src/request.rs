//! The life of a request, step by step, for whoever watches sessions: a meter, a log, traces.
//!
//! A session tells each step once and in order: a request is accepted, sent (and perhaps sent again), and settled.
//! Nothing is told of it after that. A request that cannot be accepted is settled at once. Telling costs nothing if
//! nobody watches.

use std::fmt;
use std::time::Duration;

use crate::error::{Error, ErrorKind};
use crate::event::Unexecuted;
use crate::link::Generation;
use crate::message::Message;
use crate::time::Time;

/// A request of the host, as its observers see it.
#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    /// Its number in the session, by which its steps belong together: two requests may have the same id, one after
    /// the other. None if it was not accepted.
    pub number: Option<u64>,
    /// Its id, as JSON.
    pub id: &'a [u8],
    /// Its method; empty if it could not be read.
    pub method: &'a str,
    /// All of it; none if it could not be read.
    pub message: Option<&'a Message>,
}

impl<'a> Request<'a> {
    pub(crate) fn new(number: Option<u64>, message: &'a Message) -> Request<'a> {
        Request {
            number,
            id: message.id_json(),
            method: message.method(),
            message: Some(message),
        }
    }

    pub(crate) fn unread(id: &'a [u8]) -> Request<'a> {
        Request {
            number: None,
            id,
            method: "",
            message: None,
        }
    }
}

/// What happened to a request.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum Step<'a> {
    /// The session has taken it, and will settle it.
    Accepted,
    /// It was sent to a server.
    Sent {
        /// The link it was sent on.
        generation: Generation,
        /// Why it was sent again, if it was.
        again: Option<Again>,
    },
    /// It has ended.
    Settled {
        /// How.
        how: Settled<'a>,
        /// The time since it was accepted.
        took: Duration,
    },
}

/// Why a request was sent once more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Again {
    /// It may have been executed, and executing it twice is safe.
    Safe,
    /// It was certainly not executed.
    Unexecuted(Unexecuted),
}

/// How a request ended.
#[derive(Clone, Copy, Debug)]
pub enum Settled<'a> {
    /// With the server's answer.
    Answered {
        /// Whether that is an error.
        is_error: bool,
    },
    /// With an error of ours.
    Failed(&'a Error),
    /// The host cancelled it.
    Cancelled,
    /// The host left.
    Abandoned,
}

/// How a request ended, without the particulars.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RequestEnd {
    /// The server answered with a result.
    Ok,
    /// The server answered with an error.
    Error,
    /// The client left before it was answered.
    Abandoned,
    /// The client cancelled it, or it was answered with an error of ours.
    Failed(ErrorKind),
}

impl RequestEnd {
    /// How many there are.
    pub const COUNT: usize = 3 + ErrorKind::ALL.len();

    /// All of them.
    pub fn all() -> impl Iterator<Item = RequestEnd> {
        let failed = ErrorKind::ALL.into_iter().map(RequestEnd::Failed);
        [RequestEnd::Ok, RequestEnd::Error, RequestEnd::Abandoned]
            .into_iter()
            .chain(failed)
    }

    /// Its place among all of them.
    pub const fn index(self) -> usize {
        match self {
            RequestEnd::Ok => 0,
            RequestEnd::Error => 1,
            RequestEnd::Abandoned => 2,
            RequestEnd::Failed(kind) => 3 + kind as usize,
        }
    }

    /// The word for it in logs and metrics.
    pub const fn as_str(self) -> &'static str {
        match self {
            RequestEnd::Ok => "ok",
            RequestEnd::Error => "error",
            RequestEnd::Abandoned => "abandoned",
            RequestEnd::Failed(kind) => kind.as_str(),
        }
    }
}

impl fmt::Display for RequestEnd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl Settled<'_> {
    /// The same without the particulars.
    pub fn ending(self) -> RequestEnd {
        match self {
            Settled::Answered { is_error: false } => RequestEnd::Ok,
            Settled::Answered { is_error: true } => RequestEnd::Error,
            Settled::Abandoned => RequestEnd::Abandoned,
            Settled::Cancelled => RequestEnd::Failed(ErrorKind::CancelledByCaller),
            Settled::Failed(error) => RequestEnd::Failed(error.error_kind()),
        }
    }
}

/// Whoever is told of each step of each request. Called in the middle of a session's work, so it may not block.
pub trait Observer: fmt::Debug + Send + Sync {
    /// A request has come one step further.
    fn request(&self, now: Time, request: Request<'_>, step: Step<'_>);
}
