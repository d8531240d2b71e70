//! Why a client did not answer a question of the server's.

use std::fmt;
use std::time::Duration;

use outlive_core::Error;
use outlive_core::error::{Limit, Outcome};

use crate::model::RpcError;

/// Why the client did not answer a question, such as that of [`Ctx::elicit`](super::Ctx::elicit).
///
/// With `?` in a tool the model reads what it says.
#[derive(Clone, Debug, PartialEq)]
pub struct AskError {
    method: String,
    why: Unanswered,
}

/// What became of a question that was not answered.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Unanswered {
    /// It was not asked: the client has not declared that it can answer, or cannot be asked that here.
    Unsupported(String),
    /// The client answered with an error: it refuses, or its handler failed.
    Refused(RpcError),
    /// The client answered, but not with what was asked for.
    Unusable(String),
    /// It was not asked: the question cannot be written as JSON.
    Unsendable(String),
    /// It was not asked: too many questions wait already.
    Overloaded(Limit),
    /// The client took longer than [`Builder::ask_timeout`](super::Builder::ask_timeout).
    Timeout(Duration),
    /// Nobody waits any more for the request this is a question of: it was cancelled.
    Cancelled,
    /// The client has left, or the server is shutting down.
    Closed,
}

impl AskError {
    pub(crate) fn new(method: &str, error: Error) -> AskError {
        let why = match error {
            Error::Unsupported { why } => Unanswered::Unsupported(why),
            Error::Remote {
                code, message, raw, ..
            } => {
                let error = serde_json::from_slice(&raw);
                Unanswered::Refused(error.unwrap_or_else(|_| RpcError::new(code, message)))
            }
            Error::Protocol {
                what,
                outcome: Outcome::Done,
                ..
            } => Unanswered::Unusable(what),
            Error::Protocol { what, .. } => Unanswered::Unsendable(what),
            Error::Overloaded { limit } => Unanswered::Overloaded(limit),
            Error::Timeout { after, .. } => Unanswered::Timeout(after),
            Error::CancelledByCaller | Error::CancelledByPeer { .. } => Unanswered::Cancelled,
            _ => Unanswered::Closed,
        };
        AskError {
            method: method.to_owned(),
            why,
        }
    }

    pub(crate) fn unusable(method: &str, why: String) -> AskError {
        AskError {
            method: method.to_owned(),
            why: Unanswered::Unusable(why),
        }
    }

    /// What was asked, such as `elicitation/create`.
    pub fn method(&self) -> &str {
        &self.method
    }

    /// The word for it, as in [`Error::kind`](crate::Error::kind).
    pub fn kind(&self) -> &'static str {
        match self.why {
            Unanswered::Unsupported(_) => "unsupported",
            Unanswered::Refused(_) => "remote",
            Unanswered::Unusable(_) | Unanswered::Unsendable(_) => "protocol",
            Unanswered::Overloaded(_) => "unavailable",
            Unanswered::Timeout(_) => "timeout",
            Unanswered::Cancelled => "cancelled_by_caller",
            Unanswered::Closed => "shutting_down",
        }
    }

    /// What became of it.
    pub fn why(&self) -> &Unanswered {
        &self.why
    }
}

impl fmt::Display for AskError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let method = &self.method;
        match &self.why {
            Unanswered::Unsupported(why) => {
                write!(f, "The client was not asked for {method}. {why}")
            }
            Unanswered::Refused(error) => write!(
                f,
                "The client answered {method} with error {}: {}",
                error.code, error.message
            ),
            Unanswered::Unusable(why) => {
                write!(f, "The client's answer to {method} cannot be used: {why}.")
            }
            Unanswered::Unsendable(why) => {
                write!(f, "The client was not asked for {method}: {why}.")
            }
            Unanswered::Overloaded(limit) => {
                write!(f, "{limit}, so the client was not asked for {method}.")
            }
            Unanswered::Timeout(after) => {
                write!(f, "The client did not answer {method} within {after:?}.")
            }
            Unanswered::Cancelled => write!(
                f,
                "Nobody waits for the answer to {method} any more: the request was cancelled."
            ),
            Unanswered::Closed => write!(
                f,
                "The client did not answer {method}: it has left, or the server is shutting down."
            ),
        }
    }
}

impl std::error::Error for AskError {}
