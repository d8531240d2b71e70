//! Requests of ours to the client.

use std::borrow::Cow;

use bytes::Bytes;

/// One request of ours to the client. The driver chooses the number and never uses it twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AskId(pub u64);

/// Something to ask the client for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ask {
    /// What its answer will be known by.
    pub id: AskId,
    /// `sampling/createMessage`, `elicitation/create`, `roots/list`, or any other (legacy).
    pub method: Cow<'static, str>,
    /// Its parameters, a JSON object.
    pub params: Bytes,
    /// What a modern client sees it named (a key of `inputRequests`); `None`: we make one up.
    pub key: Option<Cow<'static, str>>,
}
