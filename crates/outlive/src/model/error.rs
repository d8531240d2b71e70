//! Errors as they travel.

use std::fmt;

use outlive_core::protocol::code;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{Object, lenient};

/// An error of JSON-RPC.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct RpcError {
    /// Its kind.
    #[serde(deserialize_with = "lenient::integer")]
    pub code: i64,
    /// One sentence.
    #[serde(default, deserialize_with = "lenient::null_as_default")]
    pub message: String,
    /// Whatever else the sender wanted to say.
    #[serde(
        default,
        deserialize_with = "lenient::present",
        skip_serializing_if = "Option::is_none"
    )]
    pub data: Option<Value>,
    /// Fields we do not know.
    #[serde(flatten)]
    pub extra: Object,
}

impl RpcError {
    /// What arrived is not JSON.
    pub const PARSE_ERROR: i64 = code::PARSE_ERROR;
    /// What arrived is not a request.
    pub const INVALID_REQUEST: i64 = code::INVALID_REQUEST;
    /// There is no such method.
    pub const METHOD_NOT_FOUND: i64 = code::METHOD_NOT_FOUND;
    /// The parameters are wrong.
    pub const INVALID_PARAMS: i64 = code::INVALID_PARAMS;
    /// The peer failed.
    pub const INTERNAL_ERROR: i64 = code::INTERNAL_ERROR;
    /// There is no such resource (up to 2025-11-25).
    pub const RESOURCE_NOT_FOUND: i64 = code::RESOURCE_NOT_FOUND;
    /// The person must visit a web page first (2025-11-25).
    pub const URL_ELICITATION_REQUIRED: i64 = code::URL_ELICITATION_REQUIRED;
    /// The headers of a request do not fit its body (2026-07-28).
    pub const HEADER_MISMATCH: i64 = code::HEADER_MISMATCH;
    /// The client lacks a capability the request needs (2026-07-28).
    pub const MISSING_CLIENT_CAPABILITY: i64 = code::MISSING_CLIENT_CAPABILITY;
    /// The server does not speak the version of the request (2026-07-28).
    pub const UNSUPPORTED_PROTOCOL_VERSION: i64 = code::UNSUPPORTED_PROTOCOL_VERSION;

    /// An error of this kind.
    pub fn new(code: i64, message: impl Into<String>) -> RpcError {
        RpcError {
            code,
            message: message.into(),
            ..RpcError::default()
        }
    }

    /// There is no such method.
    pub fn method_not_found(method: &str) -> RpcError {
        RpcError::new(
            Self::METHOD_NOT_FOUND,
            format!("Method not found: {method}"),
        )
    }

    /// The parameters are wrong.
    pub fn invalid_params(message: impl Into<String>) -> RpcError {
        RpcError::new(Self::INVALID_PARAMS, message)
    }

    /// The peer failed.
    pub fn internal(message: impl Into<String>) -> RpcError {
        RpcError::new(Self::INTERNAL_ERROR, message)
    }

    /// The same error with something else to say.
    pub fn with_data(mut self, data: Value) -> RpcError {
        self.data = Some(data);
        self
    }
}

impl fmt::Display for RpcError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.message, self.code)
    }
}

impl std::error::Error for RpcError {}
