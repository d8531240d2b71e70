//! One taxonomy of failures, spelt the same in Rust, on the wire, in logs and in metrics.
//!
//! | kind | code | meaning |
//! |---|---|---|
//! | `connection_lost` | −31001 | the link died while the request was in flight |
//! | `unavailable` | −31002 | there is no server, and there was none for as long as we may hold a request; or too many wait |
//! | `timeout` | −31003 | the request took longer than its bound |
//! | `cancelled_by_caller` | −31004 | the caller gave it up |
//! | `cancelled_by_peer` | −31004 | the server gave it up |
//! | `shutting_down` | −31005 | the session is ending |
//! | `session_expired` | −31006 | the remote server has forgotten the session |
//! | `rejected` | −31007 | the remote server refused the request unexecuted |
//! | `too_large` | −31008 | the message is longer than the limit |
//! | `token_withdrawn` | −31009 | the token is no longer good that the request was sent with |
//! | `removed` | −31010 | the server was removed from the file of servers, or changed there, while the request waited |
//! | `cyclic` | −31011 | a gateway got its own request back; said by that gateway |
//! | `unsupported` | −32601 | the server does not take `server/discover`; `initialize` will do |
//! | `protocol` | −32600, −32700 | the message breaks JSON-RPC |
//! | `misconfigured` | −32603 | the client cannot be set up |
//! | `handler_failed` | −32603 | the server asked this client something, and its handler failed |
//! | `remote` | as the server says | the server answered with an error of its own |
//!
//! The codes lie outside −32768…−32000 because revision 2026-07-28 asks for that: −32000…−32019 take no
//! new codes, −32020…−32099 belong to the specification, and some SDKs give −32000 and −32001 meanings
//! of their own ("connection closed", "timeout") that make a host drop a session which is alive.

mod limit;
mod sentence;

use std::fmt;
use std::time::Duration;

use bytes::Bytes;
use serde_json::{Value, json};

use crate::cause::Cause;
use crate::link::Generation;
use crate::message::Message;
use crate::protocol::code;
use crate::words::words;

pub use limit::Limit;
pub(crate) use limit::Names;
pub(crate) use sentence::own_output;

words! {
    /// What kind of failure an [`Error`] is.
    #[non_exhaustive]
    pub enum ErrorKind {
        /// [`Error::ConnectionLost`].
        ConnectionLost => "connection_lost",
        /// [`Error::Unavailable`] and [`Error::Overloaded`].
        Unavailable => "unavailable",
        /// [`Error::Timeout`].
        Timeout => "timeout",
        /// [`Error::CancelledByCaller`].
        CancelledByCaller => "cancelled_by_caller",
        /// [`Error::CancelledByPeer`].
        CancelledByPeer => "cancelled_by_peer",
        /// [`Error::ShuttingDown`].
        ShuttingDown => "shutting_down",
        /// [`Error::TokenWithdrawn`].
        TokenWithdrawn => "token_withdrawn",
        /// [`Error::SessionExpired`].
        SessionExpired => "session_expired",
        /// [`Error::Rejected`].
        Rejected => "rejected",
        /// [`Error::TooLarge`].
        TooLarge => "too_large",
        /// [`Error::Protocol`].
        Protocol => "protocol",
        /// [`Error::Unsupported`].
        Unsupported => "unsupported",
        /// [`Error::Misconfigured`].
        Misconfigured => "misconfigured",
        /// [`Error::HandlerFailed`].
        HandlerFailed => "handler_failed",
        /// [`Error::Remote`].
        Remote => "remote",
    }
}

/// What is known about the execution of a request. Retry is decided on this, never on a guess.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It never left us.
    NotSent,
    /// The server refused it unexecuted.
    Rejected,
    /// It was sent and never answered.
    Unknown,
    /// It was answered.
    Done,
}

impl Outcome {
    /// The word for it on the wire and in logs.
    pub fn as_str(self) -> &'static str {
        match self {
            Outcome::NotSent => "not_sent",
            Outcome::Rejected => "rejected",
            Outcome::Unknown => "unknown",
            Outcome::Done => "done",
        }
    }
}

/// Which bound a request has exceeded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bound {
    /// Time without an answer or progress.
    Idle,
    /// Time in all.
    Total,
}

/// Why a request failed.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Error {
    /// The link died while the request was in flight.
    ConnectionLost {
        /// Why it died.
        cause: Cause,
        /// Whether the request may have been executed.
        outcome: Outcome,
        /// It was in flight at two deaths in a row, so it was not sent a third time.
        poison: bool,
    },
    /// There is no server.
    Unavailable {
        /// Why the last one ended, if there was one.
        cause: Option<Cause>,
        /// How long the request was held for it.
        held: Duration,
        /// Whether it never left us, or was refused by the last server.
        outcome: Outcome,
        /// After this time it is tried again: by itself, or for whoever calls then.
        retry_after: Option<Duration>,
    },
    /// More requests are waiting than may be held.
    Overloaded {
        /// The limit that is reached.
        limit: Limit,
    },
    /// The request took longer than its bound.
    Timeout {
        /// The bound.
        after: Duration,
        /// Which bound.
        bound: Bound,
    },
    /// The caller cancelled it.
    CancelledByCaller,
    /// The server gave it up.
    CancelledByPeer {
        /// Its reason, if it told one.
        reason: Option<String>,
    },
    /// The session is ending, or the server says that it shuts down.
    ShuttingDown {
        /// Whether the request may have been executed.
        outcome: Outcome,
    },
    /// The token is no longer good that the request was sent with (`outlive serve`).
    TokenWithdrawn {
        /// Whether the request may have been executed.
        outcome: Outcome,
    },
    /// The remote server has forgotten the session.
    SessionExpired,
    /// The remote server refused the request unexecuted.
    Rejected {
        /// Its status.
        status: u16,
        /// What else is known about it, and what can be done.
        why: Option<String>,
    },
    /// The message is longer than the limit.
    TooLarge {
        /// The limit in bytes.
        limit: usize,
        /// Whether it is the answer that is too large.
        answer: bool,
    },
    /// The message breaks JSON-RPC.
    Protocol {
        /// How.
        what: String,
        /// Whether the text itself could not be read (−32700), rather than what it says (−32600).
        unreadable: bool,
        /// What is known about the execution of the request.
        outcome: Outcome,
    },
    /// The server does not take `server/discover`; said by us on its behalf, in the words that
    /// make a host fall back to `initialize`.
    Unsupported {
        /// What shows it.
        why: String,
    },
    /// The client cannot be set up as it was told to.
    Misconfigured {
        /// What is wrong.
        why: String,
    },
    /// The server asked the client something before it could answer, and got no answer: the client has no handler for
    /// it, or the handler failed.
    HandlerFailed {
        /// What it asked, such as `elicitation/create`.
        method: String,
        /// How, as the part of a sentence after "but".
        why: String,
    },
    /// The server answered with an error of its own.
    Remote {
        /// Its code.
        code: i64,
        /// Its words.
        message: String,
        /// The whole JSON-RPC error object as the server wrote it.
        raw: Bytes,
    },
}

impl Error {
    /// The error in an answer of the server's, given its JSON-RPC error object: [`Remote`](Error::Remote), or
    /// [`ShuttingDown`](Error::ShuttingDown) if it says so in the words of this crate.
    pub fn remote(object: &[u8]) -> Error {
        let raw = Bytes::copy_from_slice(object);
        let fields: Value = serde_json::from_slice(object).unwrap_or_default();
        let about = &fields["data"]["outlive"];
        if about["kind"] == "shutting_down" {
            let outcome = match about["outcome"].as_str() {
                Some("not_sent" | "rejected") => Outcome::Rejected,
                _ => Outcome::Unknown,
            };
            return Error::ShuttingDown { outcome };
        }
        let code = &fields["code"];
        // Some languages write 1.0.
        let code = code.as_i64().or(code.as_f64().map(|code| code as i64));
        Error::Remote {
            code: code.unwrap_or(code::INTERNAL_ERROR),
            message: fields["message"].as_str().unwrap_or_default().to_string(),
            raw,
        }
    }

    /// The word for its kind on the wire, in logs and in metrics.
    pub fn kind(&self) -> &'static str {
        self.error_kind().as_str()
    }

    /// Its kind, to be matched on.
    pub fn error_kind(&self) -> ErrorKind {
        match self {
            Error::ConnectionLost { .. } => ErrorKind::ConnectionLost,
            Error::Unavailable { .. } | Error::Overloaded { .. } => ErrorKind::Unavailable,
            Error::Timeout { .. } => ErrorKind::Timeout,
            Error::CancelledByCaller => ErrorKind::CancelledByCaller,
            Error::CancelledByPeer { .. } => ErrorKind::CancelledByPeer,
            Error::ShuttingDown { .. } => ErrorKind::ShuttingDown,
            Error::TokenWithdrawn { .. } => ErrorKind::TokenWithdrawn,
            Error::SessionExpired => ErrorKind::SessionExpired,
            Error::Rejected { .. } => ErrorKind::Rejected,
            Error::TooLarge { .. } => ErrorKind::TooLarge,
            Error::Protocol { .. } => ErrorKind::Protocol,
            Error::Unsupported { .. } => ErrorKind::Unsupported,
            Error::Misconfigured { .. } => ErrorKind::Misconfigured,
            Error::HandlerFailed { .. } => ErrorKind::HandlerFailed,
            Error::Remote { .. } => ErrorKind::Remote,
        }
    }

    /// Its JSON-RPC code.
    pub fn code(&self) -> i64 {
        match self {
            Error::ConnectionLost { .. } => -31001,
            Error::Unavailable { .. } | Error::Overloaded { .. } => -31002,
            Error::Timeout { .. } => -31003,
            Error::CancelledByCaller | Error::CancelledByPeer { .. } => -31004,
            Error::ShuttingDown { .. } => -31005,
            Error::TokenWithdrawn { .. } => -31009,
            Error::SessionExpired => -31006,
            Error::Rejected { .. } => -31007,
            Error::TooLarge { .. } => -31008,
            Error::Protocol {
                unreadable: true, ..
            } => code::PARSE_ERROR,
            Error::Protocol {
                unreadable: false, ..
            } => code::INVALID_REQUEST,
            Error::Unsupported { .. } => code::METHOD_NOT_FOUND,
            Error::Misconfigured { .. } | Error::HandlerFailed { .. } => code::INTERNAL_ERROR,
            Error::Remote { code, .. } => *code,
        }
    }

    /// What is known about the execution of the request.
    pub fn outcome(&self) -> Outcome {
        match self {
            Error::ConnectionLost { outcome, .. }
            | Error::Unavailable { outcome, .. }
            | Error::Protocol { outcome, .. }
            | Error::ShuttingDown { outcome }
            | Error::TokenWithdrawn { outcome } => *outcome,
            Error::Timeout { .. } | Error::CancelledByCaller => Outcome::Unknown,
            Error::Overloaded { .. } | Error::Misconfigured { .. } => Outcome::NotSent,
            Error::TooLarge { answer: true, .. } | Error::Remote { .. } => Outcome::Done,
            Error::TooLarge { answer: false, .. } => Outcome::NotSent,
            Error::SessionExpired | Error::Rejected { .. } | Error::Unsupported { .. } => {
                Outcome::Rejected
            }
            Error::CancelledByPeer { .. } | Error::HandlerFailed { .. } => Outcome::Unknown,
        }
    }

    /// Whether sending the same request again may succeed and cannot do harm.
    pub fn is_retryable(&self) -> bool {
        match self {
            Error::ConnectionLost {
                outcome, poison, ..
            } => !poison && matches!(outcome, Outcome::NotSent | Outcome::Rejected),
            Error::Unavailable { .. } | Error::Overloaded { .. } | Error::SessionExpired => true,
            Error::Rejected { status, .. } => is_temporary(*status),
            _ => false,
        }
    }

    /// What happened, what was done about it, and what the reader can do. `what` is the request,
    /// as in "tool \"crash\"" or "resources/read". Settings have the names of the library.
    pub fn sentence(&self, what: &str) -> String {
        self.words(what, Names::Library)
    }

    /// The JSON-RPC error response for the request with this id. Settings have the names of the flags of `outlive`.
    pub fn to_response(&self, id_json: &[u8], what: &str, generation: Generation) -> Message {
        let mut about = json!({
            "kind": self.kind(),
            "outcome": self.outcome().as_str(),
            "generation": generation.number(),
            "retryable": self.is_retryable(),
        });
        match self {
            Error::ConnectionLost { cause, .. }
            | Error::Unavailable {
                cause: Some(cause), ..
            } => {
                about["cause"] = cause.to_json();
            }
            Error::Timeout { after, .. } => about["after_ms"] = json!(after.as_millis() as u64),
            Error::TooLarge { limit, .. } => about["limit"] = json!(limit),
            Error::Overloaded { limit } => about["limit"] = json!(limit.most),
            Error::Rejected { status, .. } => about["status"] = json!(status),
            _ => {}
        }
        if let Error::Unavailable {
            retry_after: Some(after),
            ..
        } = self
        {
            about["retry_after_ms"] = json!(whole(*after).as_millis() as u64);
        }
        let error: Value = json!({
            "code": self.code(),
            "message": self.words(what, Names::Flags),
            "data": { "outlive": about },
        });
        Message::failure(id_json, error.to_string().as_bytes())
    }
}

/// The sentence for somebody who knows what they called.
impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.sentence("the call"))
    }
}

impl std::error::Error for Error {}

/// An error of ours as the answer to a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// The request's id as its sender wrote it.
    pub id_json: Bytes,
    /// The request in words, as in "tool \"crash\"" or "resources/read".
    pub what: String,
    /// Why it failed.
    pub error: Error,
    /// The link in service, or the last one.
    pub generation: Generation,
}

impl Refusal {
    /// The refusal as a JSON-RPC response.
    pub fn to_response(&self) -> Message {
        self.error
            .to_response(&self.id_json, &self.what, self.generation)
    }
}

/// Whether a server that answers with this status may take the same request later: it was too early, too often, or too
/// much at once. Any other refusal is about the request itself.
fn is_temporary(status: u16) -> bool {
    matches!(status, 425 | 429 | 503)
}

/// Rounded up to a millisecond: who comes back after this time must not be too early.
fn whole(after: Duration) -> Duration {
    Duration::from_millis(after.as_nanos().div_ceil(1_000_000) as u64)
}
