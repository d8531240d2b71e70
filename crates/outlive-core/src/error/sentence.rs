//! The sentences of errors: what happened, what was done about it, what the reader can do.

use std::time::Duration;

use crate::cause::{Cause, Phase, Reason, seconds};

use super::{Bound, Error, Names, Outcome, is_temporary, whole};

impl Error {
    pub(super) fn words(&self, what: &str, names: Names) -> String {
        match self {
            Error::ConnectionLost {
                cause,
                outcome,
                poison,
            } => {
                let unknown = "may have taken effect, so it was not repeated. \
                               Calling again is safe only if doing it twice is.";
                let then = if *poison {
                    "It was in flight at two such ends in a row, so it was not sent again.".into()
                } else if *outcome != Outcome::Unknown {
                    "You can send it again.".into()
                } else if is_restarted(cause) && cause.is_remote() {
                    format!("A new session is being opened; the call {unknown}")
                } else if is_restarted(cause) {
                    format!("The server is being restarted; the call {unknown}")
                } else {
                    format!("The call {unknown}")
                };
                let sent = *poison || *outcome == Outcome::Unknown;
                let happened = lost_with(cause, what, sent);
                format!("{happened}. {then}{}", own_output(cause))
            }
            Error::Unavailable {
                cause,
                held,
                outcome: _,
                retry_after,
            } => {
                let mut text = match cause {
                    Some(cause) if cause.phase == Phase::Service => {
                        let server = cause.sentence_subject();
                        format!("{server} {} and is not back yet", cause.predicate())
                    }
                    Some(cause) => {
                        let by = match cause.is_remote() {
                            true => "address",
                            false => "command",
                        };
                        let (server, label) = (cause.sentence_subject(), &cause.label);
                        match label.is_empty() {
                            true => format!("{server} {}", cause.predicate()),
                            false => format!("{server} {} ({by}: {label})", cause.predicate()),
                        }
                    }
                    None => "The server is not running yet".to_string(),
                };
                text += &format!(", so {what} was not executed");
                if *held > Duration::ZERO {
                    text += &format!(" (it was held for {})", seconds(*held));
                }
                text += &match retry_after {
                    Some(after) if *after > Duration::ZERO => format!(
                        ". Call again in {} to try the server again.",
                        seconds(whole(*after))
                    ),
                    _ => ". Call again to try the server again.".to_string(),
                };
                if let Some(cause) = cause {
                    text += cause.advice(names);
                    text += &own_output(cause);
                }
                text
            }
            Error::Overloaded { limit } => format!(
                "{}, so {what} was not accepted. It was not executed; call again later.",
                limit.words(names)
            ),
            Error::Timeout { after, bound } => format!(
                "{} of {what} within {}. It was cancelled; it may have taken effect.",
                match bound {
                    Bound::Idle => "No answer and no progress",
                    Bound::Total => "No answer",
                },
                seconds(*after)
            ),
            Error::CancelledByCaller => format!("The caller cancelled {what}."),
            Error::CancelledByPeer {
                reason: Some(reason),
            } => {
                format!(
                    "The server gave up {what}: {}.",
                    reason.trim_end_matches('.')
                )
            }
            Error::CancelledByPeer { reason: None } => format!("The server gave up {what}."),
            Error::ShuttingDown {
                outcome: Outcome::NotSent,
            } => format!("The session is ending, so {what} was not sent."),
            Error::ShuttingDown {
                outcome: Outcome::Rejected,
            } => format!(
                "The session or its server is ending, so {what} was refused and not sent again. It was not executed."
            ),
            Error::ShuttingDown { .. } => {
                format!(
                    "The session is ending, so {what} was not finished. It may have taken effect."
                )
            }
            Error::TokenWithdrawn { outcome } => format!(
                "The token that {what} was sent with has been withdrawn, so {}. Use a token that is good.",
                match outcome {
                    Outcome::NotSent => "it was not sent",
                    _ =>
                        "it was cancelled and its answer is not delivered; it may have taken effect",
                }
            ),
            Error::SessionExpired => format!(
                "The server has forgotten this session, so {what} was not executed. A new session is being opened; \
                 call again."
            ),
            Error::Rejected {
                status,
                why: Some(why),
            } => {
                format!(
                    "The server refused {what} with status {status}: {why}. It was not executed."
                )
            }
            Error::Rejected { status, why: None } => format!(
                "The server refused {what} with status {status}. It was not executed. {}",
                match status {
                    401 =>
                        "The server asks for other credentials: give it valid ones, then call again.",
                    status if is_temporary(*status) => "You can send it again later.",
                    _ => "The same request would be refused again.",
                }
            ),
            Error::TooLarge {
                limit,
                answer: true,
            } => format!(
                "The server's answer to {what} is longer than the limit of {limit} bytes and was dropped. \
                 Ask for less, or raise {}.",
                names.message_limit()
            ),
            Error::TooLarge {
                limit,
                answer: false,
            } => format!(
                "The request is longer than the limit of {limit} bytes and was not sent. Send less, or raise {}.",
                names.message_limit()
            ),
            Error::Protocol {
                what: words,
                outcome: Outcome::Done,
                ..
            } => {
                format!("The server's answer to {what} cannot be used: {words}.")
            }
            Error::Protocol { what: words, .. } => {
                format!("The request was not sent: {words}.")
            }
            Error::Unsupported { why } => format!("Method not found: {what}. {why}"),
            Error::Misconfigured { why } => format!("The client cannot be set up: {why}."),
            Error::HandlerFailed { method, why } => format!(
                "The server asked for {method} before it could answer {what}, but {why}. The server was not answered; \
                 what it had done until then stands."
            ),
            Error::Remote { code, message, .. } => {
                format!("The server answered {what} with error {code}: {message}")
            }
        }
    }
}

/// What became of a server, and of a request that was lost with it or, if not `sent`, never reached it.
fn lost_with(cause: &Cause, what: &str, sent: bool) -> String {
    let (server, predicate) = (cause.sentence_subject(), cause.predicate());
    match &cause.reason {
        _ if !sent => format!("{server} {predicate} before {what} was sent to it"),
        Reason::Unanswered(why) => format!("{server} left {what} without an answer ({why})"),
        // Such a server has run nothing: the one before has.
        Reason::Unmade(_)
        | Reason::SlowHandshake(_)
        | Reason::HandshakeRefused(_)
        | Reason::VersionChanged { .. } => {
            format!("{server} was lost while running {what}, and the next one {predicate}")
        }
        // It may have been sent to this one, or to the one before.
        _ if cause.phase == Phase::Handshake => {
            format!("{server} {predicate}, with {what} in flight")
        }
        _ => format!("{server} {predicate} while running {what}"),
    }
}

/// Whether it goes without saying that another server is started. After many failures in a row it may not be.
fn is_restarted(cause: &Cause) -> bool {
    let again = !matches!(
        cause.reason,
        Reason::Unanswered(_) | Reason::Unauthorized(_) | Reason::Requested | Reason::Closing
    );
    again && cause.phase == Phase::Service
}

/// What the server wrote itself, quoted: readers, and models above all, must not take it for advice of ours. It stands
/// at the end of a sentence, so that nothing of ours follows what may contain anything.
pub(crate) fn own_output(cause: &Cause) -> String {
    const MOST_LINES: usize = 3;
    const LONGEST: usize = 200;
    let tail = &cause.stderr_tail;
    if tail.is_empty() {
        return String::new();
    }
    let quoted = |line: &String| {
        let line = line.trim();
        let end = line.floor_char_boundary(LONGEST);
        let more = if end < line.len() { "…" } else { "" };
        format!("\"{}{more}\"", &line[..end])
    };
    let from = tail.len().saturating_sub(MOST_LINES);
    let lines: Vec<String> = tail[from..].iter().map(quoted).collect();
    format!(
        " The server's own output on stderr (quoted, not advice from outlive): {}",
        lines.join(" | ")
    )
}
