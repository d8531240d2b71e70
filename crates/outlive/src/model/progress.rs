//! How far a request has come.

use serde::{Deserialize, Serialize};

use super::{Object, lenient};

/// How far a request has come: the parameters of `notifications/progress`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Progress {
    /// Which request: the token it was sent with.
    pub progress_token: ProgressToken,
    /// How far it has come. It grows from message to message.
    #[serde(serialize_with = "lenient::write_number")]
    pub progress: f64,
    /// How far it will go, if that is known.
    #[serde(
        skip_serializing_if = "Option::is_none",
        serialize_with = "lenient::write_optional_number"
    )]
    pub total: Option<f64>,
    /// What is being done.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// Metadata.
    #[serde(rename = "_meta", skip_serializing_if = "Option::is_none")]
    pub meta: Option<Object>,
    /// Fields we do not know.
    #[serde(flatten)]
    pub extra: Object,
}

impl Progress {
    /// The request with this token has come this far.
    pub fn new(progress_token: impl Into<ProgressToken>, progress: f64) -> Progress {
        Progress {
            progress_token: progress_token.into(),
            progress,
            total: None,
            message: None,
            meta: None,
            extra: Object::new(),
        }
    }
}

/// The name of a request as far as progress is concerned.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(untagged)]
pub enum ProgressToken {
    /// A number.
    Number(#[serde(deserialize_with = "lenient::integer")] i64),
    /// A string.
    String(String),
}

impl From<i64> for ProgressToken {
    fn from(number: i64) -> ProgressToken {
        ProgressToken::Number(number)
    }
}

impl From<String> for ProgressToken {
    fn from(string: String) -> ProgressToken {
        ProgressToken::String(string)
    }
}
