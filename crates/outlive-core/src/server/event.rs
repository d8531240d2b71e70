//! What a server tells the people who watch it.

use std::fmt;

use serde_json::{Value, json};

use crate::event::{DropReason, counted};

/// How a connection ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CloseKind {
    /// The client closed its side. It may still read.
    Eof,
    /// The client no longer reads.
    BrokenPipe,
    /// The connection was cut.
    Reset,
    /// Anything else, in the operating system's words.
    Failed(String),
}

impl fmt::Display for CloseKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CloseKind::Eof => f.write_str("end of input"),
            CloseKind::BrokenPipe => f.write_str("broken pipe"),
            CloseKind::Reset => f.write_str("connection reset"),
            CloseKind::Failed(words) => f.write_str(words),
        }
    }
}

/// Something a server did or noticed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ServerEvent {
    /// A client has shaken hands (legacy).
    Connected {
        /// Its name and version, where it told them.
        client: Option<String>,
        /// The protocol version agreed on.
        version: String,
    },
    /// A request was answered by the machine with an error.
    Refused {
        /// Its id as the client wrote it.
        id: String,
        /// Its method.
        method: String,
        /// The kind of the error.
        kind: &'static str,
    },
    /// A message was not passed on, or an answer came too late.
    Dropped {
        /// Why.
        reason: DropReason,
        /// The beginning of it, or its method.
        detail: String,
    },
    /// A handler panicked or let its request go unanswered; the client was told so.
    Faulted {
        /// The method of its request.
        method: String,
        /// What happened.
        words: String,
    },
    /// The connection is over or the server is being shut down.
    Draining {
        /// Why: how the connection ended, or a shutdown.
        why: String,
        /// Requests that were accepted and are not settled.
        in_flight: usize,
    },
}

impl ServerEvent {
    /// The word for it in logs and metrics.
    pub fn name(&self) -> &'static str {
        match self {
            ServerEvent::Connected { .. } => "connected",
            ServerEvent::Refused { .. } => "refused",
            ServerEvent::Dropped { .. } => "dropped",
            ServerEvent::Faulted { .. } => "faulted",
            ServerEvent::Draining { .. } => "draining",
        }
    }

    /// Whether a person would want to see it without having asked for details.
    pub fn is_notable(&self) -> bool {
        match self {
            ServerEvent::Connected { .. } | ServerEvent::Draining { .. } => false,
            ServerEvent::Refused { .. } | ServerEvent::Faulted { .. } => true,
            ServerEvent::Dropped { reason, .. } => {
                matches!(reason, DropReason::NotAMessage | DropReason::TooLarge)
            }
        }
    }

    /// The event as data: `{"event": name, …}`.
    pub fn to_json(&self) -> Value {
        match self {
            ServerEvent::Connected { client, version } => {
                json!({ "event": self.name(), "client": client, "version": version })
            }
            ServerEvent::Refused { id, method, kind } => {
                json!({ "event": self.name(), "id": id, "method": method, "kind": kind })
            }
            ServerEvent::Dropped { reason, detail } => {
                json!({ "event": self.name(), "reason": reason.as_str(), "detail": detail })
            }
            ServerEvent::Faulted { method, words } => {
                json!({ "event": self.name(), "method": method, "words": words })
            }
            ServerEvent::Draining { why, in_flight } => {
                json!({ "event": self.name(), "why": why, "in_flight": in_flight })
            }
        }
    }
}

/// The event as a sentence for a person.
impl fmt::Display for ServerEvent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ServerEvent::Connected { client, version } => match client {
                Some(client) => write!(f, "serving {client} ({version})"),
                None => write!(f, "serving a client ({version})"),
            },
            ServerEvent::Refused { id, method, kind } => {
                write!(f, "answered {method} (id {id}) with {kind}")
            }
            ServerEvent::Dropped { reason, detail } => {
                write!(f, "dropped: {} ({detail})", reason.as_str())
            }
            ServerEvent::Faulted { method, words } => {
                write!(f, "the handler of {method} failed: {words}")
            }
            ServerEvent::Draining { why, in_flight: 0 } => write!(f, "closing: {why}"),
            ServerEvent::Draining { why, in_flight } => {
                write!(
                    f,
                    "closing: {why}; {} may still finish",
                    counted(*in_flight, "request")
                )
            }
        }
    }
}
