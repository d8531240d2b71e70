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
    pub code: i64,
    /// A sentence a person and a model can act on.
    pub message: Cow<'static, str>,
    /// More about it, as JSON.
    pub data: Option<Bytes>,
}

impl RpcError {
    /// An error without data.
    pub fn new(code: i64, message: impl Into<Cow<'static, str>>) -> RpcError {
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
