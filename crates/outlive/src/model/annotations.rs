//! Hints about content and resources.

use serde::{Deserialize, Serialize};

use super::{Object, lenient};

/// Who speaks, or who is spoken to.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum Role {
    /// The person.
    User,
    /// The model.
    Assistant,
    /// A role we do not know.
    #[serde(untagged)]
    Other(String),
}

/// Hints for whoever shows or uses a piece of content or a resource.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Annotations {
    /// Whom it is meant for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub audience: Option<Vec<Role>>,
    /// How much it matters, from 0 to 1.
    #[serde(
        skip_serializing_if = "Option::is_none",
        serialize_with = "lenient::write_optional_number"
    )]
    pub priority: Option<f64>,
    /// When it was last changed, in ISO 8601.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_modified: Option<String>,
    /// Fields we do not know.
    #[serde(flatten)]
    pub extra: Object,
}
