//! Log messages.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::Object;

/// How grave a message is, in the manner of RFC 5424; the gravest is the greatest.
///
/// A level we do not know is greater than all, so that a filter never hides it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum LogLevel {
    /// For those who look for a fault.
    Debug,
    /// The usual.
    Info,
    /// Worth a look.
    Notice,
    /// Not yet an error.
    Warning,
    /// An error.
    Error,
    /// A part has failed.
    Critical,
    /// Somebody has to act at once.
    Alert,
    /// Nothing works.
    Emergency,
    /// A level we do not know.
    #[serde(untagged)]
    Other(String),
}

/// A log message: the parameters of `notifications/message`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct LogMessage {
    /// How grave it is.
    pub level: LogLevel,
    /// Which part of the server says it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub logger: Option<String>,
    /// What it says; any JSON value.
    #[serde(default)]
    pub data: Value,
    /// Metadata.
    #[serde(rename = "_meta", skip_serializing_if = "Option::is_none")]
    pub meta: Option<Object>,
    /// Fields we do not know.
    #[serde(flatten)]
    pub extra: Object,
}

impl LogMessage {
    /// A message.
    pub fn new(level: LogLevel, data: impl Into<Value>) -> LogMessage {
        LogMessage {
            level,
            logger: None,
            data: data.into(),
            meta: None,
            extra: Object::new(),
        }
    }
}

/// The parameters of `logging/setLevel` (up to 2025-11-25).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct SetLevelParams {
    /// From which level on messages are wanted.
    pub level: LogLevel,
    /// Metadata.
    #[serde(rename = "_meta", skip_serializing_if = "Option::is_none")]
    pub meta: Option<Object>,
    /// Fields we do not know.
    #[serde(flatten)]
    pub extra: Object,
}

impl SetLevelParams {
    /// Messages are wanted from this level on.
    pub fn new(level: LogLevel) -> SetLevelParams {
        SetLevelParams {
            level,
            meta: None,
            extra: Object::new(),
        }
    }
}
