//! Roots: the places a client lets its server work in.

use serde::{Deserialize, Serialize};

use super::{Object, lenient};

/// A place.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Root {
    /// Where it is: a `file://` URI.
    pub uri: String,
    /// The name for people.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Metadata.
    #[serde(rename = "_meta", skip_serializing_if = "Option::is_none")]
    pub meta: Option<Object>,
    /// Fields we do not know.
    #[serde(flatten)]
    pub extra: Object,
}

impl Root {
    /// The place at this URI.
    pub fn new(uri: impl Into<String>) -> Root {
        Root {
            uri: uri.into(),
            ..Root::default()
        }
    }
}

/// The result of `roots/list`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct RootsResult {
    /// The places.
    #[serde(default, deserialize_with = "lenient::null_as_default")]
    pub roots: Vec<Root>,
    /// Metadata.
    #[serde(rename = "_meta", skip_serializing_if = "Option::is_none")]
    pub meta: Option<Object>,
    /// Fields we do not know.
    #[serde(flatten)]
    pub extra: Object,
}

impl RootsResult {
    /// These places.
    pub fn new(roots: Vec<Root>) -> RootsResult {
        RootsResult {
            roots,
            ..RootsResult::default()
        }
    }
}
