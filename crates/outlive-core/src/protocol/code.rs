//! The error codes of JSON-RPC and of MCP.

/// What arrived is not JSON.
pub const PARSE_ERROR: i64 = -32700;
/// What arrived is not a request.
pub const INVALID_REQUEST: i64 = -32600;
/// There is no such method.
pub const METHOD_NOT_FOUND: i64 = -32601;
/// The parameters are wrong.
pub const INVALID_PARAMS: i64 = -32602;
/// The peer failed.
pub const INTERNAL_ERROR: i64 = -32603;
/// There is no such resource (up to 2025-11-25).
pub const RESOURCE_NOT_FOUND: i64 = -32002;
/// The person must visit a web page first (2025-11-25).
pub const URL_ELICITATION_REQUIRED: i64 = -32042;
/// The headers of a request do not fit its body (2026-07-28).
pub const HEADER_MISMATCH: i64 = -32020;
/// The client has not declared a capability that the request needs (2026-07-28).
pub const MISSING_CLIENT_CAPABILITY: i64 = -32021;
/// The server does not speak the version of the request (2026-07-28).
pub const UNSUPPORTED_PROTOCOL_VERSION: i64 = -32022;

/// A gateway of ours got its own request back: the address of one of its servers leads to itself.
pub const CYCLIC: i64 = -31011;

/// Whether an error of this code comes from a server of the modern era: 2026-07-28 set the range aside for what the
/// specification defines from then on, and the one older code in it stands for itself.
pub fn is_modern_only(code: i64) -> bool {
    (-32099..=-32020).contains(&code) && code != URL_ELICITATION_REQUIRED
}
