//! Errors of ours as the client sees them.
//!
//! Kinds and codes are those of [`crate::error`] wherever they say what happened; the sentences
//! differ, because here it is the server itself that speaks. All of them were sent before a
//! handler ran, except a timeout, a shutdown and a fault of the handler.

use std::time::Duration;

use serde_json::json;

use crate::cause::seconds;
use crate::error::{Bound, Error, Limit, Outcome};
use crate::message::{Defect, DefectKind};
use crate::session::LONGEST_ID;

use super::RpcError;
use crate::protocol::code;
use crate::protocol::version::MODERN;

/// Longer names are cut: an error is to be read, and no louder than what it answers.
const LONGEST_NAME: usize = 200;

/// The word for a server that is no longer there, in logs and on the wire.
const REMOVED: &str = "removed";
const REMOVED_CODE: i64 = -31010;

fn short(name: &str) -> &str {
    &name[..name.floor_char_boundary(LONGEST_NAME)]
}

/// An error of ours.
#[derive(Clone, Debug)]
pub(crate) struct ServerRefusal {
    /// The word for it in logs.
    pub(crate) kind: &'static str,
    pub(crate) error: RpcError,
}

impl ServerRefusal {
    /// An error of the taxonomy, in words of our own.
    fn known(error: &Error, outcome: Outcome, sentence: String) -> ServerRefusal {
        let about = json!({ "outlive": {
            "kind": error.kind(),
            "outcome": outcome.as_str(),
            "retryable": error.is_retryable(),
        }});
        ServerRefusal {
            kind: error.kind(),
            error: RpcError {
                code: error.code(),
                message: sentence.into(),
                data: Some(about.to_string().into()),
            },
        }
    }

    /// A request that breaks the protocol.
    fn protocol(words: &str, unreadable: bool) -> ServerRefusal {
        let error = Error::Protocol {
            what: words.to_string(),
            unreadable,
            outcome: Outcome::Rejected,
        };
        let sentence = format!("The request was not executed: {words}.");
        ServerRefusal::known(&error, Outcome::Rejected, sentence)
    }

    pub(crate) fn defect(defect: &Defect) -> ServerRefusal {
        ServerRefusal::protocol(&defect.detail, defect.what != DefectKind::Ambiguous)
    }

    pub(crate) fn duplicate_id() -> ServerRefusal {
        ServerRefusal::protocol("a request with the same id is still in flight", false)
    }

    /// 2026-07-28, transports: the body of a request is one message.
    pub(crate) fn batch() -> ServerRefusal {
        ServerRefusal::protocol(
            "2026-07-28 has no batches: send each message by itself",
            false,
        )
    }

    pub(crate) fn long_id() -> ServerRefusal {
        let words = format!("its id is longer than {LONGEST_ID} bytes");
        ServerRefusal::protocol(&words, false)
    }

    pub(crate) fn initialized_before() -> ServerRefusal {
        let words = "this connection is initialized already, and goes on as it is";
        ServerRefusal::protocol(words, false)
    }

    /// 2026-07-28 wants −32602 for a request without its metadata; earlier revisions want no code
    /// in particular for one that comes before the handshake.
    pub(crate) fn uninitialized(method: &str) -> ServerRefusal {
        ServerRefusal::invalid_params(format!(
            "{} was not executed: the connection is not initialized. Send `initialize` first, or \
             name a protocol version and the client's capabilities in `params._meta` of each request ({MODERN}).",
            short(method)
        ))
    }

    pub(crate) fn too_large(limit: usize) -> ServerRefusal {
        let error = Error::TooLarge {
            limit,
            answer: false,
        };
        let sentence = format!(
            "The request is longer than the limit of {limit} bytes and was not read. Send less."
        );
        ServerRefusal::known(&error, Outcome::Rejected, sentence)
    }

    /// The same where the limit is somebody else's.
    pub(crate) fn too_long(len: u64) -> ServerRefusal {
        let error = Error::TooLarge {
            limit: 0,
            answer: false,
        };
        let sentence = format!(
            "The request has {len} bytes. That is too many, and it was not read. Send less."
        );
        ServerRefusal::known(&error, Outcome::Rejected, sentence)
    }

    pub(crate) fn overloaded(what: &str) -> ServerRefusal {
        ServerRefusal::busy("The server has as many requests as it can hold", what)
    }

    /// The same where it is known how many that are.
    pub(crate) fn beyond(limit: Limit, what: &str) -> ServerRefusal {
        ServerRefusal::busy(&limit.to_string(), what)
    }

    fn busy(why: &str, what: &str) -> ServerRefusal {
        let what = short(what);
        let sentence =
            format!("{why}, so {what} was not accepted. It was not executed; call again later.");
        let error = Error::Unavailable {
            cause: None,
            held: Duration::ZERO,
            outcome: Outcome::Rejected,
            retry_after: None,
        };
        ServerRefusal::known(&error, Outcome::Rejected, sentence)
    }

    pub(crate) fn shutting_down(what: &str, started: bool) -> ServerRefusal {
        let what = short(what);
        let outcome = match started {
            true => Outcome::Unknown,
            false => Outcome::Rejected,
        };
        let sentence = match started {
            true => format!(
                "The server is shutting down, so {what} was not finished. It may have taken effect."
            ),
            false => format!("The server is shutting down, so {what} was not executed."),
        };
        ServerRefusal::known(&Error::ShuttingDown { outcome }, outcome, sentence)
    }

    /// The server that a request is for is no longer there for its client. With a successor, it was changed: another
    /// one has its name.
    pub(crate) fn removed(what: &str, server: &str, sent: bool, succeeded: bool) -> ServerRefusal {
        let (what, server) = (short(what), short(server));
        let why = match succeeded {
            true => format!(
                "The server {server:?} was changed in the file of servers and is started anew"
            ),
            false => format!(
                "The server {server:?} was removed from the file of servers, or from what this client may use"
            ),
        };
        let then = match (sent, succeeded) {
            (true, _) => "it was not finished, and may have taken effect.",
            (false, true) => "it was not executed. Call again.",
            (false, false) => "it was not executed. List again to see what there is.",
        };
        let outcome = match sent {
            true => Outcome::Unknown,
            false => Outcome::NotSent,
        };
        let about = json!({ "outlive": {
            "kind": REMOVED,
            "outcome": outcome.as_str(),
            "retryable": succeeded && !sent,
        }});
        ServerRefusal {
            kind: REMOVED,
            error: RpcError {
                code: REMOVED_CODE,
                message: format!("{why}. {what} was waiting for it: {then}").into(),
                data: Some(about.to_string().into()),
            },
        }
    }

    pub(crate) fn token_withdrawn(what: &str, outcome: Outcome) -> ServerRefusal {
        let error = Error::TokenWithdrawn { outcome };
        ServerRefusal::known(&error, outcome, error.sentence(short(what)))
    }

    pub(crate) fn timeout(what: &str, after: Duration) -> ServerRefusal {
        let error = Error::Timeout {
            after,
            bound: Bound::Total,
        };
        let sentence = format!(
            "{} was not finished within {} and was given up. It may have taken effect.",
            short(what),
            seconds(after)
        );
        ServerRefusal::known(&error, Outcome::Unknown, sentence)
    }

    pub(crate) fn method_not_found(method: &str) -> ServerRefusal {
        ServerRefusal {
            kind: "method_not_found",
            error: RpcError::new(
                code::METHOD_NOT_FOUND,
                format!("Method not found: {}", short(method)),
            ),
        }
    }

    pub(crate) fn invalid_params(sentence: String) -> ServerRefusal {
        ServerRefusal {
            kind: "invalid_params",
            error: RpcError::new(code::INVALID_PARAMS, sentence),
        }
    }

    /// What a server offers, but nobody has accepted.
    pub(crate) fn withheld(what: &str, name: &str, server: &str) -> ServerRefusal {
        ServerRefusal::unaccepted(format!(
            "The {what} {:?} was not executed: the definitions of the server {server:?} have changed since they were \
             accepted, and outlive withholds what is new. Whoever runs outlive can see the change, and accept it, with \
             `outlive accept {server}`.",
            short(name)
        ))
    }

    /// The same in these words.
    pub(crate) fn unaccepted(sentence: String) -> ServerRefusal {
        let data = r#"{"outlive":{"kind":"withheld","outcome":"rejected","retryable":false}}"#;
        ServerRefusal {
            kind: "withheld",
            error: RpcError {
                code: code::INVALID_PARAMS,
                message: sentence.into(),
                data: Some(data.into()),
            },
        }
    }

    /// Whether it is about something that nobody has accepted: it is known whose that is.
    pub(crate) fn is_withheld(&self) -> bool {
        self.kind == "withheld"
    }

    /// What this server does not take in any form. The code is not one that only modern servers know: it makes a client
    /// that knows both eras fall back to `initialize`.
    pub(crate) fn unsupported(sentence: String) -> ServerRefusal {
        let data = r#"{"outlive":{"kind":"unsupported","outcome":"rejected","retryable":false}}"#;
        ServerRefusal {
            kind: "unsupported",
            error: RpcError {
                code: code::INVALID_REQUEST,
                message: sentence.into(),
                data: Some(data.into()),
            },
        }
    }

    /// 2026-07-28, versioning: the versions that will do are listed.
    pub(crate) fn unsupported_version(requested: &str) -> ServerRefusal {
        let data = json!({ "supported": [MODERN], "requested": requested });
        ServerRefusal {
            kind: "unsupported_version",
            error: RpcError {
                code: code::UNSUPPORTED_PROTOCOL_VERSION,
                message: "Unsupported protocol version".into(),
                data: Some(data.to_string().into()),
            },
        }
    }

    /// What a client carried for us leads nowhere: it was changed, used before, or is too old.
    pub(crate) fn unknown_state() -> ServerRefusal {
        ServerRefusal::invalid_params(
            "The request was not executed: nothing waits for its `requestState`. It was used before, \
             is too old, or belongs to another request. Call again without it."
                .into(),
        )
    }

    /// What a client carried for another replica, which has the call.
    pub(crate) fn state_of_another() -> ServerRefusal {
        ServerRefusal::invalid_params(
            "The request was not executed: its `requestState` was made by another replica of this server, and the call \
             waits there, if it still does. Call again without it. Whoever runs the replicas can have a load balancer \
             send each client to the same one."
                .into(),
        )
    }

    /// The fault is ours; what exactly happened is for our log and not for the client's.
    pub(crate) fn fault(what: &str, how: &str) -> ServerRefusal {
        ServerRefusal {
            kind: "internal",
            error: RpcError::new(
                code::INTERNAL_ERROR,
                format!(
                    "Internal error: the handler of {} {how}. It may have taken effect; the server goes on.",
                    short(what)
                ),
            ),
        }
    }
}
