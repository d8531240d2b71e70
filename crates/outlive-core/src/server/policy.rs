//! The settings of a server.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::time::Duration;

use bytes::Bytes;

/// How a server introduces itself and behaves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerPolicy {
    /// `serverInfo`, a JSON object.
    pub info: Bytes,
    /// `capabilities`, a JSON object, the same for `initialize` and `server/discover`.
    pub capabilities: Bytes,
    /// `instructions`, a JSON string.
    pub instructions: Option<Bytes>,
    /// Request methods that have a handler. What the machine answers by itself need not be named.
    pub methods: BTreeSet<Cow<'static, str>>,
    /// Whether clients are served that shake hands first (legacy). Without it every request has to
    /// speak for itself.
    pub handshake: bool,
    /// Handlers running at once, one at least. More requests wait in order.
    pub concurrency: usize,
    /// Bytes of requests that have a handler. One always may run.
    pub running_bytes: usize,
    /// Requests waiting for a handler; one always may.
    pub queue: usize,
    /// Bytes of requests waiting for a handler; the last one may exceed it. Subscriptions, and
    /// what is asked of clients in round trips, are bounded by it too, each for itself.
    pub queue_bytes: usize,
    /// The longest message, in bytes, that the driver's framer lets through; for error messages.
    pub message: usize,
    /// Requests of ours that the client has not answered.
    pub asks: usize,
    /// Open subscriptions: resources of a legacy client, or streams of a modern one and the
    /// resources they name.
    pub subscriptions: usize,
    /// Ids of requests of ours that nobody waits for any more, remembered to know a late answer.
    pub tombstones: usize,
    /// Handlers that wait for a modern client to come back with the input they asked for.
    pub parked: usize,
    /// How long such a handler waits.
    pub parked_for: Duration,
    /// The time a handler is given between being told that nobody waits and being dropped.
    pub grace: Duration,
    /// How long accepted requests may take once the client has closed its side. It may still
    /// read, as in `server < requests > answers` (FM-56). A client that waits for its server to end
    /// waits for this and the grace, about two seconds by default.
    pub drain: Duration,
    /// A handler that takes longer is given up; time in which it waits for the client does not
    /// count (FM-50). `None`: never.
    pub deadline: Option<Duration>,
    /// A request of ours that takes longer is given up. `None`: never.
    pub ask_timeout: Option<Duration>,
}

impl Default for ServerPolicy {
    fn default() -> ServerPolicy {
        ServerPolicy {
            info: Bytes::from_static(br#"{"name":"outlive","version":"0"}"#),
            capabilities: Bytes::from_static(b"{}"),
            instructions: None,
            methods: BTreeSet::new(),
            handshake: true,
            concurrency: 256,
            running_bytes: 64 << 20,
            queue: 4096,
            queue_bytes: 64 << 20,
            message: 64 << 20,
            asks: 1024,
            subscriptions: 4096,
            tombstones: 4096,
            parked: 256,
            parked_for: Duration::from_secs(600),
            grace: Duration::from_secs(1),
            drain: Duration::from_secs(1),
            deadline: None,
            ask_timeout: None,
        }
    }
}
