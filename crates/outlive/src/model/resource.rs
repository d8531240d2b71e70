//! Resources and what is in them.

use serde::{Deserialize, Serialize};

use super::{Annotations, CacheScope, Icon, Listed, Object, lenient};

/// A resource: something a server can be asked to read.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Resource {
    /// Where it is.
    pub uri: String,
    /// The name for programs.
    #[serde(default, deserialize_with = "lenient::null_as_default")]
    pub name: String,
    /// The name for people.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// What it is, for the model.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// Its type.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mime_type: Option<String>,
    /// Its size in bytes.
    #[serde(
        default,
        deserialize_with = "lenient::optional_integer",
        skip_serializing_if = "Option::is_none"
    )]
    pub size: Option<i64>,
    /// Hints.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub annotations: Option<Annotations>,
    /// Pictures to show for it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub icons: Option<Vec<Icon>>,
    /// Metadata.
    #[serde(rename = "_meta", skip_serializing_if = "Option::is_none")]
    pub meta: Option<Object>,
    /// Fields we do not know.
    #[serde(flatten)]
    pub extra: Object,
}

impl Resource {
    /// The resource at this URI.
    pub fn new(uri: impl Into<String>, name: impl Into<String>) -> Resource {
        Resource {
            uri: uri.into(),
            name: name.into(),
            ..Resource::default()
        }
    }
}

impl Listed for Resource {
    const METHOD: &'static str = "resources/list";
    const FIELD: &'static str = "resources";
}

/// A family of resources.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct ResourceTemplate {
    /// Where they are, in the manner of RFC 6570.
    pub uri_template: String,
    /// The name for programs.
    #[serde(default, deserialize_with = "lenient::null_as_default")]
    pub name: String,
    /// The name for people.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// What they are, for the model.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// Their type, if it is the same for all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mime_type: Option<String>,
    /// Hints.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub annotations: Option<Annotations>,
    /// Pictures to show for them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub icons: Option<Vec<Icon>>,
    /// Metadata.
    #[serde(rename = "_meta", skip_serializing_if = "Option::is_none")]
    pub meta: Option<Object>,
    /// Fields we do not know.
    #[serde(flatten)]
    pub extra: Object,
}

impl ResourceTemplate {
    /// The resources at these URIs.
    pub fn new(uri_template: impl Into<String>, name: impl Into<String>) -> ResourceTemplate {
        ResourceTemplate {
            uri_template: uri_template.into(),
            name: name.into(),
            ..ResourceTemplate::default()
        }
    }
}

impl Listed for ResourceTemplate {
    const METHOD: &'static str = "resources/templates/list";
    const FIELD: &'static str = "resourceTemplates";
}

/// What is in a resource, or in a part of it: text or bytes.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct ResourceContents {
    /// Which resource.
    pub uri: String,
    /// Its type.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mime_type: Option<String>,
    /// The text, if it is text.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// The bytes as base64, if it is not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub blob: Option<String>,
    /// Metadata.
    #[serde(rename = "_meta", skip_serializing_if = "Option::is_none")]
    pub meta: Option<Object>,
    /// Fields we do not know.
    #[serde(flatten)]
    pub extra: Object,
}

impl ResourceContents {
    /// Text.
    pub fn text(uri: impl Into<String>, text: impl Into<String>) -> ResourceContents {
        ResourceContents {
            uri: uri.into(),
            text: Some(text.into()),
            ..ResourceContents::default()
        }
    }

    /// Bytes, as base64.
    pub fn blob(uri: impl Into<String>, base64: impl Into<String>) -> ResourceContents {
        ResourceContents {
            uri: uri.into(),
            blob: Some(base64.into()),
            ..ResourceContents::default()
        }
    }
}

/// The parameters of `resources/read`, `resources/subscribe`, `resources/unsubscribe` and
/// `notifications/resources/updated`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct ResourceParams {
    /// Which resource.
    pub uri: String,
    /// Answers to what the server asked for at the last attempt (2026-07-28).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub input_responses: Option<Object>,
    /// What the server wanted to be given back at the next attempt (2026-07-28).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub request_state: Option<String>,
    /// Metadata.
    #[serde(rename = "_meta", skip_serializing_if = "Option::is_none")]
    pub meta: Option<Object>,
    /// Fields we do not know.
    #[serde(flatten)]
    pub extra: Object,
}

impl ResourceParams {
    /// The resource at this URI.
    pub fn new(uri: impl Into<String>) -> ResourceParams {
        ResourceParams {
            uri: uri.into(),
            ..ResourceParams::default()
        }
    }
}

/// What was read: the result of `resources/read`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct ReadResult {
    /// `complete`, or absent before 2026-07-28.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub result_type: Option<String>,
    /// The resource, or the parts it consists of.
    #[serde(default, deserialize_with = "lenient::null_as_default")]
    pub contents: Vec<ResourceContents>,
    /// For how many milliseconds it may be taken as true (2026-07-28).
    #[serde(
        default,
        deserialize_with = "lenient::optional_integer",
        skip_serializing_if = "Option::is_none"
    )]
    pub ttl_ms: Option<i64>,
    /// Who may share it (2026-07-28).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cache_scope: Option<CacheScope>,
    /// Metadata.
    #[serde(rename = "_meta", skip_serializing_if = "Option::is_none")]
    pub meta: Option<Object>,
    /// Fields we do not know.
    #[serde(flatten)]
    pub extra: Object,
}

impl ReadResult {
    /// A resource that consists of these parts.
    pub fn new(contents: Vec<ResourceContents>) -> ReadResult {
        ReadResult {
            contents,
            ..ReadResult::default()
        }
    }
}
