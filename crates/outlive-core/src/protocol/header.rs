//! The headers of MCP over HTTP.

/// Names a session (legacy).
pub const SESSION_ID: &str = "mcp-session-id";
/// The version of a request.
pub const PROTOCOL_VERSION: &str = "mcp-protocol-version";
/// The method of a request (2026-07-28).
pub const METHOD: &str = "mcp-method";
/// What a request is about (2026-07-28); see [`subject`](super::method::subject).
pub const NAME: &str = "mcp-name";
/// The last event that a client has seen of a stream.
pub const LAST_EVENT_ID: &str = "last-event-id";
/// What the name of a header begins with that repeats an argument (2026-07-28).
const PARAM: &str = "mcp-param-";

/// The keyword of an input schema that says that an argument is repeated in a header.
pub const MARK: &str = "x-mcp-header";

/// The name of the header for the argument marked with this name.
pub fn param(name: &str) -> String {
    format!("{PARAM}{name}").to_ascii_lowercase()
}
