//! A request of the client, as its handler sees it.

use std::fmt;
use std::sync::Arc;

use bytes::Bytes;

use crate::message::Message;
use crate::protocol::Era;

use super::Level;
use super::channel::Channel;

/// One accepted request. It is answered through its ticket, whatever id the client gave it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ticket(pub(super) u64);

impl fmt::Display for Ticket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Where the id of a request must be unique: a legacy client counts its requests over all
/// channels; modern ones know nothing of each other.
pub(super) fn scope(era: Era, channel: Channel) -> Channel {
    match era {
        Era::Legacy => Channel::MAIN,
        Era::Modern => channel,
    }
}

/// Who the client says it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Peer {
    /// The protocol version that was agreed on (legacy) or that the request names (modern).
    pub version: Box<str>,
    /// `clientInfo`, a JSON object.
    pub info: Option<Bytes>,
    /// Its capabilities, a JSON object.
    pub capabilities: Bytes,
}

/// What a handler is given.
#[derive(Clone, Debug)]
pub struct Request {
    /// The client's message.
    pub message: Message,
    /// Where it came from.
    pub channel: Channel,
    /// Its era.
    pub era: Era,
    /// Who asks.
    pub peer: Arc<Peer>,
    /// The lowest level of log messages the client wants about this request; `None`: none.
    pub log_level: Option<Level>,
}

/// Why nobody waits for a handler any more.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CancelReason {
    /// The client cancelled the request, for this reason if it told one.
    Client(Option<String>),
    /// The client is gone.
    TransportClosed,
    /// The handler has used up its time, or the client has not come back with the input it asked
    /// for.
    Deadline,
    /// The server is shutting down.
    Shutdown,
}

impl CancelReason {
    /// The word for it in logs and metrics.
    pub fn as_str(&self) -> &'static str {
        match self {
            CancelReason::Client(_) => "client",
            CancelReason::TransportClosed => "transport_closed",
            CancelReason::Deadline => "deadline",
            CancelReason::Shutdown => "shutdown",
        }
    }
}

/// The reason as a sentence without its full stop.
impl fmt::Display for CancelReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CancelReason::Client(Some(words)) => {
                write!(f, "the client cancelled the request: {words}")
            }
            CancelReason::Client(None) => f.write_str("the client cancelled the request"),
            CancelReason::TransportClosed => f.write_str("the client is gone"),
            CancelReason::Deadline => f.write_str("the request took too long"),
            CancelReason::Shutdown => f.write_str("the server is shutting down"),
        }
    }
}
