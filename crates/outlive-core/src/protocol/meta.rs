//! The fields of `_meta` that the protocol itself uses.

use std::fmt;

use serde_json::{Map, Value};

use crate::message::Message;

/// The token that progress is told under.
pub const PROGRESS_TOKEN: &str = "progressToken";
/// The version a request is in (2026-07-28).
pub const PROTOCOL_VERSION: &str = "io.modelcontextprotocol/protocolVersion";
/// What the client is (2026-07-28).
pub const CLIENT_INFO: &str = "io.modelcontextprotocol/clientInfo";
/// What the client is able to do (2026-07-28).
pub const CLIENT_CAPABILITIES: &str = "io.modelcontextprotocol/clientCapabilities";
/// From which level on the client wants to be told log messages (2026-07-28).
pub const LOG_LEVEL: &str = "io.modelcontextprotocol/logLevel";
/// What the server is (2026-07-28).
pub const SERVER_INFO: &str = "io.modelcontextprotocol/serverInfo";
/// What the names of the specification's own fields begin with.
pub const PREFIX: &str = "io.modelcontextprotocol/";
/// The subscription a notification belongs to (2026-07-28).
pub const SUBSCRIPTION_ID: &str = "io.modelcontextprotocol/subscriptionId";

/// The fields by which a modern request says who it is from.
const IDENTITY: [&str; 3] = [PROTOCOL_VERSION, CLIENT_INFO, CLIENT_CAPABILITIES];

/// Who a modern request says it is from, as a `_meta` object.
pub(crate) fn identity(request: &Message) -> Option<String> {
    let mut meta: Map<String, Value> = serde_json::from_slice(request.meta()?).ok()?;
    meta.retain(|key, _| IDENTITY.contains(&key.as_str()));
    Some(Value::Object(meta).to_string())
}

/// The member `_meta` that ties a message to the subscription with this id, which is JSON.
pub(crate) fn of_subscription(id_json: impl fmt::Display) -> String {
    format!(r#""_meta":{{"{SUBSCRIPTION_ID}":{id_json}}}"#)
}
