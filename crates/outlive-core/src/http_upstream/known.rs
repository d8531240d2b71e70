//! What is known of a server, and outlives the links to it: the next one begins where this one ended.

/// How messages travel over HTTP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transport {
    /// One address for everything (2025-03-26 and later).
    Streamable,
    /// A stream to read and an address to write to (2024-11-05).
    Sse,
}

/// What is known of a server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Known {
    /// How messages travel.
    pub transport: Option<Transport>,
    /// It was seen to speak the modern era.
    pub modern: bool,
    /// It has left the GET for its stream unanswered.
    pub stream_unanswered: bool,
}
