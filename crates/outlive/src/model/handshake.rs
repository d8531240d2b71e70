//! How a client and a server get to know each other: `initialize` up to 2025-11-25,
//! `server/discover` since 2026-07-28.

use serde::{Deserialize, Serialize};

use super::{CacheScope, ClientCapabilities, Implementation, Object, ServerCapabilities, lenient};

/// What a client says of itself: the parameters of `initialize`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct InitializeParams {
    /// The version the client would like to speak.
    pub protocol_version: String,
    /// What it is able to do.
    #[serde(default, deserialize_with = "lenient::null_as_default")]
    pub capabilities: ClientCapabilities,
    /// What it is.
    #[serde(default, deserialize_with = "lenient::null_as_default")]
    pub client_info: Implementation,
    /// Metadata.
    #[serde(rename = "_meta", skip_serializing_if = "Option::is_none")]
    pub meta: Option<Object>,
    /// Fields we do not know.
    #[serde(flatten)]
    pub extra: Object,
}

impl InitializeParams {
    /// A client that would like to speak this version.
    pub fn new(
        protocol_version: impl Into<String>,
        capabilities: ClientCapabilities,
        client_info: Implementation,
    ) -> InitializeParams {
        InitializeParams {
            protocol_version: protocol_version.into(),
            capabilities,
            client_info,
            ..InitializeParams::default()
        }
    }
}

/// What a server says of itself: the result of `initialize`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct InitializeResult {
    /// The version that will be spoken.
    pub protocol_version: String,
    /// What the server is able to do.
    #[serde(default, deserialize_with = "lenient::null_as_default")]
    pub capabilities: ServerCapabilities,
    /// What it is.
    #[serde(default, deserialize_with = "lenient::null_as_default")]
    pub server_info: Implementation,
    /// How to use it, for the model.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub instructions: Option<String>,
    /// Metadata.
    #[serde(rename = "_meta", skip_serializing_if = "Option::is_none")]
    pub meta: Option<Object>,
    /// Fields we do not know.
    #[serde(flatten)]
    pub extra: Object,
}

impl InitializeResult {
    /// A server that will speak this version.
    pub fn new(
        protocol_version: impl Into<String>,
        capabilities: ServerCapabilities,
        server_info: Implementation,
    ) -> InitializeResult {
        InitializeResult {
            protocol_version: protocol_version.into(),
            capabilities,
            server_info,
            ..InitializeResult::default()
        }
    }
}

/// What a server says of itself: the result of `server/discover`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct DiscoverResult {
    /// `complete`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub result_type: Option<String>,
    /// The versions it speaks.
    #[serde(default, deserialize_with = "lenient::null_as_default")]
    pub supported_versions: Vec<String>,
    /// What it is able to do.
    #[serde(default, deserialize_with = "lenient::null_as_default")]
    pub capabilities: ServerCapabilities,
    /// How to use it, for the model.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub instructions: Option<String>,
    /// For how many milliseconds the answer may be taken as true.
    #[serde(
        default,
        deserialize_with = "lenient::optional_integer",
        skip_serializing_if = "Option::is_none"
    )]
    pub ttl_ms: Option<i64>,
    /// Who may share the answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cache_scope: Option<CacheScope>,
    /// Metadata; the server's name is among it, see [`server_info`](DiscoverResult::server_info).
    #[serde(rename = "_meta", skip_serializing_if = "Option::is_none")]
    pub meta: Option<Object>,
    /// Fields we do not know.
    #[serde(flatten)]
    pub extra: Object,
}

impl DiscoverResult {
    /// What the server is, if it says so. Drafts of 2026-07-28 had it beside the capabilities.
    pub fn server_info(&self) -> Option<Implementation> {
        let meta = self.meta.as_ref();
        let info = meta.and_then(|meta| meta.get(super::meta::SERVER_INFO));
        let info = info.or_else(|| self.extra.get("serverInfo"))?;
        Implementation::deserialize(info).ok()
    }
}
