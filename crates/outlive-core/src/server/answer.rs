//! How a request is answered.

use std::borrow::Cow;

use bytes::Bytes;

/// How a handler ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// With this result, a JSON object.
    Result(Bytes),
    /// With this error.
    Error(RpcError),
    /// It let go of its responder without answering.
    Dropped,
    /// It panicked, with these words.
    Panicked(String),
}

/// A JSON-RPC error object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RpcError {
    /// Its code.
    pub code: i32,
    /// A sentence a person and a model can act on.
    pub message: Cow<'static, str>,
    /// More about it, as JSON.
    pub data: Option<Bytes>,
}

impl RpcError {
    /// The method does not exist (−32601).
    pub const METHOD_NOT_FOUND: i32 = -32601;
    /// The parameters are wrong (−32602).
    pub const INVALID_PARAMS: i32 = -32602;
    /// The fault is ours (−32603).
    pub const INTERNAL: i32 = -32603;
    /// The request needs something the client has not declared (−32021, 2026-07-28).
    pub const MISSING_CAPABILITY: i32 = -32021;
    /// The request is of a protocol version the server does not speak (−32022, 2026-07-28).
    pub const UNSUPPORTED_VERSION: i32 = -32022;

    /// An error without data.
    pub fn new(code: i32, message: impl Into<Cow<'static, str>>) -> RpcError {
        RpcError {
            code,
            message: message.into(),
            data: None,
        }
    }

    /// The error object as JSON.
    pub fn to_json(&self) -> String {
        let message = serde_json::Value::from(&*self.message);
        match &self.data {
            Some(data) => format!(
                r#"{{"code":{},"message":{message},"data":{}}}"#,
                self.code,
                String::from_utf8_lossy(data)
            ),
            None => format!(r#"{{"code":{},"message":{message}}}"#, self.code),
        }
    }
}
