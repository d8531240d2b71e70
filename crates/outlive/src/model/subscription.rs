//! What a client wants to be told (2026-07-28).

use serde::{Deserialize, Serialize};

use super::{Object, lenient};

/// The parameters of `subscriptions/listen`, and of the notification that acknowledges it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct ListenParams {
    /// What the client wants to be told; in the acknowledgement, what it will be told.
    #[serde(default, deserialize_with = "lenient::null_as_default")]
    pub notifications: SubscriptionFilter,
    /// Metadata.
    #[serde(rename = "_meta", skip_serializing_if = "Option::is_none")]
    pub meta: Option<Object>,
    /// Fields we do not know.
    #[serde(flatten)]
    pub extra: Object,
}

/// Kinds of notifications.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct SubscriptionFilter {
    /// Changes of the list of tools.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tools_list_changed: Option<bool>,
    /// Changes of the list of prompts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prompts_list_changed: Option<bool>,
    /// Changes of the list of resources.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resources_list_changed: Option<bool>,
    /// Changes of these resources, by URI.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resource_subscriptions: Option<Vec<String>>,
    /// Fields we do not know.
    #[serde(flatten)]
    pub extra: Object,
}
