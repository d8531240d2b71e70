//! Elicitation: a server asks the person.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{Object, lenient};

/// The parameters of `elicitation/create`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct ElicitRequest {
    /// How the person is asked. Absent before 2025-11-25; see [`mode`](ElicitRequest::mode).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mode: Option<ElicitMode>,
    /// What to say to the person.
    #[serde(default, deserialize_with = "lenient::null_as_default")]
    pub message: String,
    /// The form, as a JSON Schema of flat fields.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub requested_schema: Option<Value>,
    /// The web page.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
    /// The name under which the end of the visit is told (2025-11-25).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub elicitation_id: Option<String>,
    /// Metadata.
    #[serde(rename = "_meta", skip_serializing_if = "Option::is_none")]
    pub meta: Option<Object>,
    /// Fields we do not know.
    #[serde(flatten)]
    pub extra: Object,
}

impl ElicitRequest {
    /// Asks for a form to be filled in. The mode is left out: it is the default, and older clients
    /// do not know the word.
    pub fn form(message: impl Into<String>, requested_schema: Value) -> ElicitRequest {
        ElicitRequest {
            message: message.into(),
            requested_schema: Some(requested_schema),
            ..ElicitRequest::default()
        }
    }

    /// Asks for a web page to be visited.
    pub fn url(message: impl Into<String>, url: impl Into<String>) -> ElicitRequest {
        ElicitRequest {
            mode: Some(ElicitMode::Url),
            message: message.into(),
            url: Some(url.into()),
            ..ElicitRequest::default()
        }
    }

    /// How the person is asked: by a form, if nothing is said.
    pub fn mode(&self) -> &ElicitMode {
        self.mode.as_ref().unwrap_or(&ElicitMode::Form)
    }
}

/// How a person is asked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum ElicitMode {
    /// By a form.
    Form,
    /// On a web page.
    Url,
    /// In a way we do not know.
    #[serde(untagged)]
    Other(String),
}

/// What the person did: the result of `elicitation/create`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct ElicitResult {
    /// What the person did.
    pub action: ElicitAction,
    /// The filled in form, if there was one and the person accepted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub content: Option<Object>,
    /// Metadata.
    #[serde(rename = "_meta", skip_serializing_if = "Option::is_none")]
    pub meta: Option<Object>,
    /// Fields we do not know.
    #[serde(flatten)]
    pub extra: Object,
}

impl ElicitResult {
    /// The person filled in the form.
    pub fn accept(content: Object) -> ElicitResult {
        ElicitResult {
            content: Some(content),
            ..ElicitResult::of(ElicitAction::Accept)
        }
    }

    /// The person said no.
    pub fn decline() -> ElicitResult {
        ElicitResult::of(ElicitAction::Decline)
    }

    /// The person looked away.
    pub fn cancel() -> ElicitResult {
        ElicitResult::of(ElicitAction::Cancel)
    }

    /// The person did this, and there is no form.
    pub fn of(action: ElicitAction) -> ElicitResult {
        ElicitResult {
            action,
            content: None,
            meta: None,
            extra: Object::new(),
        }
    }
}

/// What a person did.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum ElicitAction {
    /// Said yes.
    Accept,
    /// Said no.
    Decline,
    /// Said nothing and went away.
    Cancel,
    /// Something we do not know.
    #[serde(untagged)]
    Other(String),
}
