//! HTTP in front of a server: Streamable HTTP, both eras on one endpoint, and HTTP+SSE beside it.
//!
//! # Theory
//!
//! HTTP cuts a conversation into exchanges. Each exchange is a [`Channel`]; what answers (a
//! [`Route`]) says for every message on which channel it goes and when a channel is done. So this
//! module decides nothing about requests: it reads a body, hands it to the route under a fresh
//! channel, and writes what comes on that channel into the response.
//!
//! ```text
//!  POST ──► access ──► request_metadata (headers against body) ──► Route::hear(channel, frame)
//!       ◄── JSON, or a stream of events ◄── Reader ◄── ReplayBuffer::send(channel, message), done(channel)
//! ```
//!
//! - A legacy client has a *session*: a route of its own, found by the id we gave it. It lasts while
//!   it is used; work in flight and open streams count as use (FM-39, FM-40).
//! - Modern requests have none: one route answers all of them.
//! - A [`ReplayBuffer`] keeps what a legacy client may not have read, within bounds, so that a stream that
//!   was cut can be taken up again with `Last-Event-ID` (FM-26). When a modern client closes its
//!   stream, that is a cancellation, and the route is told (FM-46).
//!
//! | file | what happens there |
//! |---|---|
//! | `listener`, `socket`, `tls` | connections come and, at the end, go |
//! | `access`, `token`, `cors` | who may come in: `Host`, `Origin`, token |
//! | `bearer`, `user` | access tokens of an identity provider, and whom it vouches for |
//! | `files` | tokens and certificates that change meanwhile |
//! | `endpoint`, `arrival`, `body`, `reply`, `refusal` | one request: its head, its body and its response |
//! | `exchange` | its message on the way to a route, and the answer |
//! | `request_metadata`, `mirrored` | the headers of a modern request against its body |
//! | `opening`, `session` | legacy clients |
//! | `durable`, `takeover` | what is kept of their sessions elsewhere, and how one from there goes on here |
//! | `forward`, `replicas`, `passport`, `secret`, `peers`, `peer_connection` | exchanges of sessions that another process answers for |
//! | `pages` | what is told about the server to those who watch it |
//! | `action` | what they may have done to it, and who may |
//! | `sse` | clients of 2024-11-05: a stream to read, an address to write to |
//! | `replay_buffer`, `reader` | what is sent, kept and read |
//! | `deadline` | how long an answer is waited for |

mod access;
mod action;
mod arrival;
mod bearer;
mod body;
mod cors;
mod deadline;
mod durable;
mod endpoint;
mod exchange;
mod files;
mod forward;
mod head;
mod listener;
mod mirrored;
mod opening;
mod pages;
mod passport;
mod peer_connection;
mod peers;
mod reader;
mod refusal;
mod replay_buffer;
mod replicas;
mod reply;
mod request_metadata;
mod secret;
mod session;
mod socket;
mod sse;
mod takeover;
#[cfg(feature = "tls")]
mod tls;
mod token;
mod user;

use std::sync::Arc;
use std::time::Duration;

use hyper::HeaderMap;
use outlive_core::policy::Retry;
use outlive_core::server::Channel;
use outlive_core::session_table::Principal;
use outlive_core::{Frame, Message};
use tokio::sync::Notify;

pub(crate) use access::AccessRules;
#[cfg_attr(not(feature = "gateway"), expect(unused_imports))]
pub(crate) use action::{Action, ActionError};
pub(crate) use arrival::Arrival;
#[cfg(feature = "oauth")]
pub(crate) use bearer::{Resource, TokenVerifier, Unverified, Verifying, WELL_KNOWN};
#[cfg(feature = "tower")]
pub(crate) use body::Source;
#[cfg(feature = "tower")]
pub(crate) use deadline::DeadlineTimer;
pub(crate) use durable::Durability;
#[cfg(feature = "gateway")]
pub(crate) use durable::StoreStats;
pub(crate) use files::{Files, stays};
#[cfg(feature = "gateway")]
pub(crate) use head::VIA;
pub(crate) use listener::{HandOver, HttpListener, Tell};
pub(crate) use mirrored::{Mirrored, mirrored};
#[cfg(feature = "gateway")]
pub(crate) use mirrored::{is_marked, of_schema};
#[cfg_attr(not(feature = "gateway"), expect(unused_imports))]
pub(crate) use pages::{Asset, ListenerStats, Pages, Readiness, ServerUse};
#[cfg(all(test, feature = "gateway"))]
pub(crate) use replay_buffer::Beginning;
#[cfg(feature = "gateway")]
pub(crate) use replay_buffer::Next;
pub(crate) use replay_buffer::ReplayBuffer;
pub(crate) use replicas::{ReplicaSettings, Replicas};
#[cfg(feature = "tower")]
pub(crate) use reply::Content;
pub(crate) use secret::ReplicaSecret;
#[cfg(feature = "tls")]
pub(crate) use tls::Tls;
pub(crate) use token::Tokens;
pub use user::User;
#[cfg(feature = "oauth")]
pub(crate) use user::Users;

/// Whoever answers the messages of a client.
pub(crate) trait Route: Send + Sync {
    /// The client sent a frame on a channel that was not used before. All that is sent on it, and
    /// its end, is told to the route's [`ReplayBuffer`]. True if that was done at once, by the rules and
    /// not by whatever the request is for; the route of a session need not tell.
    fn hear(&self, channel: Channel, frame: Frame, arrival: &Arc<Arrival>) -> bool;

    /// The client of a modern request closed its channel.
    fn left(&self, channel: Channel);

    /// The token was withdrawn that the channel was opened with. What runs on it, in a session on any channel, is
    /// cancelled and answered with an error that says why; nothing else is said any more, also of what was not yet
    /// read. A session has ended with it.
    fn withdraw(&self, channel: Channel);

    /// Whether the client, which has not sent anything yet, may have a session.
    fn room(&self) -> Room {
        Room::Free
    }

    /// The arguments of this call that are to be repeated in headers.
    fn mirrored(&self, _call: &Message) -> Vec<Mirrored> {
        Vec::new()
    }

    /// Whether the client waits for something.
    fn is_busy(&self) -> bool;

    /// The numbers of the servers that it has to itself.
    fn servers(&self) -> Vec<u64> {
        Vec::new()
    }

    /// Which requests may be sent again that a former process may have handed on.
    fn retry(&self) -> Retry {
        Retry::Safe
    }

    /// What the server is called in sentences.
    fn label(&self) -> String {
        String::new()
    }

    /// The client has left before it was told how its handshake ended. Its end follows.
    fn unanswered(&self) {}

    /// The endpoint it was opened at is there no more. What is in flight may finish; then it ends.
    fn retire(&self) {
        self.end();
    }

    /// The client is gone for good.
    fn end(&self);

    /// The server is to end: first time gracefully, second time at once.
    fn shutdown(&self);
}

/// Where routes come from.
pub(crate) trait Backend: Send + Sync + 'static {
    /// Its endpoints by number, and their paths, if this is the path it is to be found at. That with the number 0 comes
    /// first and is always there.
    fn endpoints(&self, path: &str) -> Vec<(usize, String)> {
        vec![(0, path.to_owned())]
    }

    /// How often its endpoints have changed.
    fn edition(&self) -> u64 {
        0
    }

    /// Rings when they have.
    fn endpoints_bell(&self) -> Arc<Notify> {
        Arc::default()
    }

    /// A route from an endpoint for one legacy client, or for all modern ones. It ends its replay buffer when it has
    /// ended.
    fn open(&self, endpoint: usize, replay: Arc<ReplayBuffer>, kind: Kind<'_>) -> Arc<dyn Route>;

    /// Whether a request with these headers, which some gateway has sent, was sent by this backend itself: that would
    /// go on for ever.
    fn is_own(&self, _headers: &HeaderMap) -> bool {
        false
    }

    /// Rings when a client that waits for [room](Route::room) may ask again.
    fn room_bell(&self) -> Arc<Notify> {
        Arc::default()
    }

    /// The longest message a client may send.
    fn message_limit(&self) -> usize;

    /// What it has to tell about itself, if it has anything.
    fn pages(&self) -> Option<&dyn Pages> {
        None
    }
}

/// Whom a route is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind<'a> {
    /// One client that shakes hands: who it is, and the message it begins with, if that is known.
    Session(Principal, Option<&'a Message>),
    /// Everybody whose requests speak for themselves.
    Shared,
}

/// Whether a client may have a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(
    not(feature = "gateway"),
    expect(dead_code, reason = "only a gateway has servers for sessions")
)]
pub(crate) enum Room {
    /// Yes.
    Free,
    /// Ask again when the [bell](Backend::room_bell) rings, after this time at the latest.
    Soon(Duration),
    /// If another session of this endpoint ends. Ask again then.
    GiveWay,
    /// No: there are as many servers as there may be.
    Full,
    /// No: what the endpoint leads to was removed.
    Removed,
    /// No: everything ends.
    ShuttingDown,
}

/// The bounds of a listener.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ListenerLimits {
    /// Connections at once. More wait to be accepted.
    pub(crate) connections: usize,
    /// Streams of clients that only listen: those that no request of theirs has opened.
    pub(crate) streams: usize,
    /// Legacy sessions at once.
    pub(crate) sessions: usize,
    /// A session that was not used for this long is ended.
    pub(crate) session_ttl: Duration,
    /// The head of a request, in bytes.
    pub(crate) head: usize,
    /// The time a client has to send a head; also how long a connection may be idle.
    pub(crate) head_time: Duration,
    /// The time a client has to send a body.
    pub(crate) body_time: Duration,
    /// Bytes of bodies that have not come whole, over all clients.
    pub(crate) bodies: usize,
    /// What is sent this often on a stream that is silent.
    pub(crate) keep_alive: Duration,
    /// Close a connection whose client has read nothing for this long.
    pub(crate) unread: Duration,
}

impl Default for ListenerLimits {
    fn default() -> ListenerLimits {
        ListenerLimits {
            connections: 16_384,
            streams: 8192,
            sessions: 4096,
            session_ttl: Duration::from_secs(30 * 60),
            head: 64 << 10,
            head_time: Duration::from_secs(60),
            body_time: Duration::from_secs(60),
            bodies: 256 << 20,
            keep_alive: Duration::from_secs(15),
            unread: Duration::from_secs(60),
        }
    }
}
