//! What a session tells the people who watch it: its state, and what it did.

use std::fmt;

use serde_json::{Value, json};

use crate::bounded::escape;
use crate::cause::{Cause, Phase};
use crate::link::Generation;
use crate::protocol::List;
use crate::time::Time;
use crate::words::words;

/// Where a session stands. There is no second flag that could disagree with it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum State {
    /// A link is being made or is shaking hands.
    Connecting {
        /// Which attempt in a row this is, from 1.
        attempt: u32,
    },
    /// The handshake is done on this generation and its link is not known to be dead.
    Ready {
        /// The link in service.
        generation: Generation,
    },
    /// The link died; another one will be made.
    Down {
        /// Why it died.
        cause: Cause,
        /// When the next one will be made.
        retry_at: Time,
    },
    /// Too many links died in a row, or the server changed beyond what the host can bear.
    /// It is still tried now and then, and whenever it is called.
    Failed {
        /// Why the last one died.
        cause: Cause,
        /// When it is tried next without being asked.
        retry_at: Time,
    },
    /// The session is over.
    Closed,
}

impl State {
    /// The word for it in logs and metrics.
    pub fn name(&self) -> &'static str {
        self.kind().as_str()
    }

    /// Which state it is, without the particulars.
    pub fn kind(&self) -> StateKind {
        match self {
            State::Connecting { .. } => StateKind::Connecting,
            State::Ready { .. } => StateKind::Ready,
            State::Down { .. } => StateKind::Down,
            State::Failed { .. } => StateKind::Failed,
            State::Closed => StateKind::Closed,
        }
    }
}

words! {
    /// A [`State`] without the particulars.
    pub enum StateKind {
        /// [`State::Connecting`].
        Connecting => "connecting",
        /// [`State::Ready`].
        Ready => "ready",
        /// [`State::Down`].
        Down => "down",
        /// [`State::Failed`].
        Failed => "failed",
        /// [`State::Closed`].
        Closed => "closed",
    }
}

words! {
    /// Which way a message was going.
    pub enum Direction {
        /// From the host to the server.
        ToServer => "to_server",
        /// From the server to the host.
        ToHost => "to_host",
    }
}

words! {
    /// Why a message was not passed on.
    pub enum DropReason {
        /// The line is not a JSON-RPC message.
        NotAMessage => "not_a_message",
        /// It is longer than the limit.
        TooLarge => "too_large",
        /// It comes from a link that has been replaced.
        StaleGeneration => "stale_generation",
        /// The answer to a request that was cancelled or had expired.
        LateAnswer => "late_answer",
        /// The answer to a request that nobody made, or that was answered before.
        UnknownAnswer => "unknown_answer",
        /// A cancellation of a request that is unknown, finished or must not be cancelled.
        UselessCancel => "useless_cancel",
        /// A cancellation kept from a server that dies of them.
        AbsorbedCancel => "absorbed_cancel",
        /// Progress for a request that is not in flight, or that was further before it was sent again.
        LateProgress => "late_progress",
        /// The server a notification was for is gone.
        NoServer => "no_server",
        /// The session is closing.
        Closing => "closing",
        /// The acknowledgement of a subscription that was replayed.
        ReplayedAcknowledgement => "replayed_acknowledgement",
    }
}

/// What a program says it is. Control characters are escaped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Software {
    /// Its name.
    pub name: String,
    /// Its version, if it told one.
    pub version: Option<String>,
}

impl Software {
    /// As `serverInfo` and `clientInfo` say it.
    pub(crate) fn read(info: &Value) -> Option<Software> {
        Some(Software {
            name: escape(info["name"].as_str()?),
            version: info["version"].as_str().map(escape),
        })
    }
}

impl fmt::Display for Software {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.version {
            Some(version) => write!(f, "{} {version}", self.name),
            None => f.write_str(&self.name),
        }
    }
}

words! {
    /// How it is known that a server has not executed a request.
    pub enum Unexecuted {
        /// The server ended before it had read it.
        Unread => "unread",
        /// The server refused it.
        Refused => "refused",
    }
}

/// Something a session did or noticed.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Event {
    /// The state changed. Sent before any message that depends on it.
    State(State),
    /// A link is in service.
    Connected {
        /// Which one.
        generation: Generation,
        /// What the server says it is, if it does.
        server: Option<Software>,
    },
    /// A link is dead.
    Lost {
        /// Which one.
        generation: Generation,
        /// Why.
        cause: Cause,
        /// Requests that were in flight on it.
        in_flight: usize,
    },
    /// The host's handshake failed by itself: whoever is at the server's address has no answer to it. The link lives.
    HandshakeFailed {
        /// Why.
        cause: Cause,
    },
    /// The server has not finished starting; we go on waiting.
    SlowStart {
        /// How long it has taken so far, in milliseconds.
        after_ms: u64,
    },
    /// A request was sent again on another link.
    Retried {
        /// Its id as the host wrote it.
        id: String,
        /// Its method.
        method: String,
        /// The link it was sent on.
        generation: Generation,
    },
    /// A request was sent again that had certainly not been executed.
    Resent {
        /// Its id as the host wrote it.
        id: String,
        /// Its method.
        method: String,
        /// The link it was sent on.
        generation: Generation,
        /// How that is known.
        why: Unexecuted,
    },
    /// A request was answered by us with an error.
    Refused {
        /// Its id as the host wrote it.
        id: String,
        /// Its method.
        method: String,
        /// The kind of the error.
        kind: &'static str,
    },
    /// A message was not passed on.
    Dropped {
        /// Which way it was going.
        direction: Direction,
        /// Why it was not passed on.
        reason: DropReason,
        /// The beginning of it, or its method.
        detail: String,
    },
    /// This server dies of cancellations: from now on they are kept from it.
    AbsorbingCancels {
        /// The link that died of one.
        generation: Generation,
    },
    /// This server ends when asked `server/discover`, or does not answer it.
    LegacyOnly,
    /// After a restart a list differs from what the host last saw.
    ListChanged {
        /// Which one.
        list: List,
        /// Names that are new.
        added: Vec<String>,
        /// Names that are gone.
        removed: Vec<String>,
        /// Names whose definition differs.
        changed: Vec<String>,
    },
    /// Clients of a gateway read so slowly that streams to them were cut off.
    StreamsCut {
        /// How many.
        streams: usize,
        /// What had been sent on them and was not read, in bytes.
        unread_bytes: usize,
    },
    /// The host left or the session is being stopped; accepted requests may still finish.
    Draining {
        /// How many there are.
        in_flight: usize,
    },
}

impl Event {
    /// The word for it in logs and metrics.
    pub fn name(&self) -> &'static str {
        match self {
            Event::State(_) => "state",
            Event::Connected { .. } => "connected",
            Event::Lost { .. } => "lost",
            Event::HandshakeFailed { .. } => "handshake_failed",
            Event::SlowStart { .. } => "slow_start",
            Event::Retried { .. } => "retried",
            Event::Resent { .. } => "resent",
            Event::Refused { .. } => "refused",
            Event::Dropped { .. } => "dropped",
            Event::AbsorbingCancels { .. } => "absorbing_cancels",
            Event::LegacyOnly => "legacy_only",
            Event::ListChanged { .. } => "list_changed",
            Event::StreamsCut { .. } => "streams_cut",
            Event::Draining { .. } => "draining",
        }
    }

    /// Whether a person would want to see it without having asked for details.
    pub fn is_notable(&self) -> bool {
        !matches!(
            self,
            // A loss is told by `Lost`, with its cause.
            Event::State(State::Connecting { .. } | State::Down { .. } | State::Closed)
                | Event::Dropped {
                    reason: DropReason::LateAnswer
                        | DropReason::LateProgress
                        | DropReason::UselessCancel
                        | DropReason::AbsorbedCancel
                        | DropReason::StaleGeneration
                        | DropReason::ReplayedAcknowledgement,
                    ..
                }
        )
    }

    /// The event as data: `{"event": name, …}`. `now` turns moments into delays.
    pub fn to_json(&self, now: Time) -> Value {
        let mut line = json!({ "event": self.name() });
        match self {
            Event::State(state) => {
                line["state"] = json!(state.name());
                match state {
                    State::Connecting { attempt } => line["attempt"] = json!(attempt),
                    State::Ready { generation } => line["generation"] = json!(generation.number()),
                    State::Down { cause, retry_at } | State::Failed { cause, retry_at } => {
                        line["cause"] = cause.to_json();
                        line["retry_in_ms"] = json!((*retry_at - now).as_millis() as u64);
                    }
                    State::Closed => {}
                }
            }
            Event::Connected { generation, server } => {
                line["generation"] = json!(generation.number());
                line["server"] = json!(server.as_ref().map(Software::to_string));
            }
            Event::Lost {
                generation,
                cause,
                in_flight,
            } => {
                line["generation"] = json!(generation.number());
                line["cause"] = cause.to_json();
                line["in_flight"] = json!(in_flight);
            }
            Event::HandshakeFailed { cause } => line["cause"] = cause.to_json(),
            Event::SlowStart { after_ms } => line["after_ms"] = json!(after_ms),
            Event::Retried {
                id,
                method,
                generation,
            } => {
                line["id"] = json!(id);
                line["method"] = json!(method);
                line["generation"] = json!(generation.number());
            }
            Event::Resent {
                id,
                method,
                generation,
                why,
            } => {
                line["id"] = json!(id);
                line["method"] = json!(method);
                line["generation"] = json!(generation.number());
                line["why"] = json!(why.as_str());
            }
            Event::Refused { id, method, kind } => {
                line["id"] = json!(id);
                line["method"] = json!(method);
                line["kind"] = json!(kind);
            }
            Event::Dropped {
                direction,
                reason,
                detail,
            } => {
                line["direction"] = json!(direction.as_str());
                line["reason"] = json!(reason.as_str());
                line["detail"] = json!(detail);
            }
            Event::AbsorbingCancels { generation } => {
                line["generation"] = json!(generation.number())
            }
            Event::LegacyOnly => {}
            Event::ListChanged {
                list,
                added,
                removed,
                changed,
            } => {
                line["list"] = json!(list.as_str());
                line["added"] = json!(added);
                line["removed"] = json!(removed);
                line["changed"] = json!(changed);
            }
            Event::StreamsCut {
                streams,
                unread_bytes,
            } => {
                line["streams"] = json!(streams);
                line["unread_bytes"] = json!(unread_bytes);
            }
            Event::Draining { in_flight } => line["in_flight"] = json!(in_flight),
        }
        line
    }
}

/// The event as a sentence for a person.
impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Event::State(State::Connecting { attempt: 1 }) => f.write_str("starting the server"),
            Event::State(State::Connecting { attempt }) => {
                write!(f, "starting the server, attempt {attempt}")
            }
            Event::State(State::Ready { generation }) => {
                write!(f, "ready (generation {generation})")
            }
            Event::State(State::Down { .. }) => f.write_str("down"),
            Event::State(State::Failed { cause, .. }) => write!(
                f,
                "failed: {}; it is tried again now and then, and when it is called, at most once a second \
                 (each failed attempt doubles the wait)",
                sentence(cause)
            ),
            Event::State(State::Closed) => f.write_str("closed"),
            Event::Connected {
                generation,
                server: Some(server),
            } => {
                write!(f, "connected to {server} (generation {generation})")
            }
            Event::Connected {
                generation,
                server: None,
            } => {
                write!(f, "connected (generation {generation})")
            }
            Event::Lost {
                generation,
                cause,
                in_flight,
            } => {
                match cause.phase {
                    Phase::Service => write!(
                        f,
                        "lost generation {generation}: {} {}",
                        cause.subject(),
                        cause.predicate()
                    )?,
                    Phase::Spawn | Phase::Handshake => {
                        write!(f, "{} (generation {generation})", sentence(cause))?;
                    }
                }
                if *in_flight > 0 {
                    write!(f, ", {in_flight} in flight")?;
                }
                if let Some(last) = cause.stderr_tail.last() {
                    write!(f, "; it last wrote to stderr: \"{}\"", last.trim())?;
                }
                Ok(())
            }
            Event::HandshakeFailed { cause } => f.write_str(&sentence(cause)),
            Event::SlowStart { after_ms } => write!(
                f,
                "the server is still starting after {} s; waiting (a first start may download packages)",
                after_ms / 1000
            ),
            Event::Retried {
                id,
                method,
                generation,
            } => {
                write!(
                    f,
                    "sent {method} (id {id}) again on generation {generation}"
                )
            }
            Event::Resent {
                id,
                method,
                generation,
                why,
            } => write!(
                f,
                "sent {method} (id {id}) again on generation {generation}: {}, so it had not been executed",
                match why {
                    Unexecuted::Unread => "the server before it had ended without reading it",
                    Unexecuted::Refused => "the server had refused it",
                }
            ),
            Event::Refused { id, method, kind } => {
                let what = if method.is_empty() {
                    "a request"
                } else {
                    method
                };
                write!(f, "answered {what} (id {id}) with {kind}")
            }
            Event::Dropped {
                direction,
                reason,
                detail,
            } => write!(
                f,
                "dropped a line {}: {} ({})",
                match direction {
                    Direction::ToServer => "from the host",
                    Direction::ToHost => "from the server",
                },
                reason.as_str(),
                shortened(detail)
            ),
            Event::AbsorbingCancels { generation } => write!(
                f,
                "generation {generation} died of a cancellation; from now on cancellations are kept from this server"
            ),
            Event::LegacyOnly => f.write_str("this server does not take `server/discover`"),
            Event::ListChanged {
                list,
                added,
                removed,
                changed,
            } => write!(
                f,
                "the list of {} changed: {} added, {} removed, {} changed",
                list.as_str(),
                added.len(),
                removed.len(),
                changed.len()
            ),
            Event::StreamsCut {
                streams,
                unread_bytes,
            } => write!(
                f,
                "cut off {} because {} too slowly; {} had not been read",
                counted(*streams, "stream"),
                match streams {
                    1 => "its client reads",
                    _ => "their clients read",
                },
                counted(*unread_bytes, "byte"),
            ),
            Event::Draining { in_flight: 0 } => f.write_str("closing"),
            Event::Draining { in_flight } => {
                write!(
                    f,
                    "closing; {} may still finish",
                    counted(*in_flight, "request")
                )
            }
        }
    }
}

/// What happened to a server, by the name it was started under: one that does not start is looked for by that name.
fn sentence(cause: &Cause) -> String {
    let predicate = cause.predicate();
    match cause.phase {
        Phase::Spawn | Phase::Handshake
            if !cause.label.is_empty() && cause.label.name().is_none() =>
        {
            format!("{} {predicate}", cause.label)
        }
        _ => format!("{} {predicate}", cause.subject()),
    }
}

/// "1 request", "2 requests".
pub(crate) fn counted(count: usize, noun: &str) -> String {
    match count {
        1 => format!("1 {noun}"),
        _ => format!("{count} {noun}s"),
    }
}

/// The beginning of a text on one line, control characters escaped.
fn shortened(text: &str) -> String {
    const MOST: usize = 120;
    let short: String = text.chars().take(MOST).collect();
    let more = if short.len() < text.len() { "…" } else { "" };
    escape(&short) + more
}
