//! How handlers fail.
//!
//! There are two ways, and the protocol keeps them apart. A tool that could not do what it was
//! asked to (no such city, service down) *answers*, with `isError`, so that the model reads why and
//! can do better. A request that makes no sense is refused with a JSON-RPC error, which the client
//! deals with.

use std::any::Any;
use std::fmt;

use crate::model::RpcError;

/// Why a tool failed: in words for the model, or as an error of the protocol.
///
/// Every error type converts into it, so `?` works in a handler that returns
/// `Result<_, ToolError>`. An [`RpcError`] stays what it is.
#[derive(Clone, Debug, PartialEq)]
pub struct ToolError(Why);

#[derive(Clone, Debug, PartialEq)]
enum Why {
    Told(String),
    Refused(RpcError),
}

impl ToolError {
    /// The tool failed, and this is what the model is told.
    pub fn new(words: impl Into<String>) -> ToolError {
        ToolError(Why::Told(words.into()))
    }

    /// The request is refused.
    pub fn refused(error: RpcError) -> ToolError {
        ToolError(Why::Refused(error))
    }
}

impl fmt::Display for ToolError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Why::Told(words) => f.write_str(words),
            Why::Refused(error) => error.fmt(f),
        }
    }
}

// `ToolError` is not an `Error` itself, or this would cover its own conversion.
impl<E: std::error::Error + 'static> From<E> for ToolError {
    fn from(error: E) -> ToolError {
        match refusal(&error) {
            Some(refusal) => ToolError(Why::Refused(refusal)),
            None => ToolError(Why::Told(words(&error))),
        }
    }
}

/// The protocol error that a handler's error is, if it is one.
pub(crate) fn refusal(error: &dyn Any) -> Option<RpcError> {
    if let Some(error) = error.downcast_ref::<RpcError>() {
        return Some(error.clone());
    }
    match error.downcast_ref::<ToolError>() {
        Some(ToolError(Why::Refused(error))) => Some(error.clone()),
        _ => None,
    }
}

/// What a handler's error says, with its causes where the type shows them so.
pub(crate) fn words(error: &impl fmt::Display) -> String {
    format!("{error:#}")
}

/// A handler's error where only protocol errors can be answered.
pub(crate) fn to_rpc<E: fmt::Display + 'static>(error: E) -> RpcError {
    refusal(&error).unwrap_or_else(|| RpcError::internal(words(&error)))
}
