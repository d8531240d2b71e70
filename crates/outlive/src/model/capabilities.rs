//! What each side is able to do.
//!
//! A capability is there or not; `{}` means that it is. What it holds are details.

use serde::{Deserialize, Serialize};

use super::Object;

/// What a client is able to do for its server.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct ClientCapabilities {
    /// It lists its roots. Details: whether it tells of changes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub roots: Option<ListCapability>,
    /// It lets the server ask a model.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sampling: Option<SamplingCapability>,
    /// It lets the server ask the person.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub elicitation: Option<ElicitationCapability>,
    /// Tasks (2025-11-25).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tasks: Option<Object>,
    /// Capabilities outside the protocol, by name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub experimental: Option<Object>,
    /// Extensions of the protocol, by name (2026-07-28).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub extensions: Option<Object>,
    /// Capabilities we do not know.
    #[serde(flatten)]
    pub extra: Object,
}

/// What a server is able to do for its clients.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct ServerCapabilities {
    /// It has tools.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tools: Option<ListCapability>,
    /// It has resources.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resources: Option<ResourcesCapability>,
    /// It has prompts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prompts: Option<ListCapability>,
    /// It completes arguments.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub completions: Option<Object>,
    /// It sends log messages.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub logging: Option<Object>,
    /// Tasks (2025-11-25).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tasks: Option<Object>,
    /// Capabilities outside the protocol, by name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub experimental: Option<Object>,
    /// Extensions of the protocol, by name (2026-07-28).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub extensions: Option<Object>,
    /// Capabilities we do not know.
    #[serde(flatten)]
    pub extra: Object,
}

/// A list that may change.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct ListCapability {
    /// Changes of the list are told.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub list_changed: Option<bool>,
    /// Fields we do not know.
    #[serde(flatten)]
    pub extra: Object,
}

impl ListCapability {
    /// A list whose changes are told.
    pub fn telling_changes() -> ListCapability {
        ListCapability {
            list_changed: Some(true),
            ..ListCapability::default()
        }
    }
}

/// Resources.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct ResourcesCapability {
    /// Changes of a single resource are told to those who subscribe.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub subscribe: Option<bool>,
    /// Changes of the list are told.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub list_changed: Option<bool>,
    /// Fields we do not know.
    #[serde(flatten)]
    pub extra: Object,
}

/// Sampling.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct SamplingCapability {
    /// The model may be given what other servers know.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub context: Option<Object>,
    /// The model may use tools.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tools: Option<Object>,
    /// Fields we do not know.
    #[serde(flatten)]
    pub extra: Object,
}

/// Elicitation. Without details it means forms.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct ElicitationCapability {
    /// The person may be shown a form.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub form: Option<Object>,
    /// The person may be sent to a web page.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub url: Option<Object>,
    /// Fields we do not know.
    #[serde(flatten)]
    pub extra: Object,
}
