//! Prompts: messages a server has ready for a model.

use serde::{Deserialize, Serialize};

use super::{Content, Icon, Listed, Object, Role, lenient};

/// A prompt.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Prompt {
    /// The name it is asked for by.
    pub name: String,
    /// The name for people.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// What it is for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// What can be filled in.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub arguments: Option<Vec<PromptArgument>>,
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

impl Prompt {
    /// A prompt of this name.
    pub fn new(name: impl Into<String>) -> Prompt {
        Prompt {
            name: name.into(),
            ..Prompt::default()
        }
    }
}

impl Listed for Prompt {
    const METHOD: &'static str = "prompts/list";
    const FIELD: &'static str = "prompts";
}

/// Something that can be filled into a prompt.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct PromptArgument {
    /// Its name.
    pub name: String,
    /// The name for people.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// What it means.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// It has to be given. If absent: it has not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub required: Option<bool>,
    /// Fields we do not know.
    #[serde(flatten)]
    pub extra: Object,
}

impl PromptArgument {
    /// An argument of this name.
    pub fn new(name: impl Into<String>, required: bool) -> PromptArgument {
        PromptArgument {
            name: name.into(),
            required: Some(required),
            ..PromptArgument::default()
        }
    }
}

/// The parameters of `prompts/get`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct GetPromptParams {
    /// Which prompt.
    pub name: String,
    /// What to fill in. The protocol wants strings.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub arguments: Option<Object>,
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

impl GetPromptParams {
    /// The prompt of this name, with these arguments filled in.
    pub fn new(name: impl Into<String>, arguments: Object) -> GetPromptParams {
        GetPromptParams {
            name: name.into(),
            arguments: Some(arguments),
            ..GetPromptParams::default()
        }
    }
}

/// A prompt with everything filled in: the result of `prompts/get`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct GetPromptResult {
    /// `complete`, or absent before 2026-07-28.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub result_type: Option<String>,
    /// What the prompt is for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// What to say to the model.
    #[serde(default, deserialize_with = "lenient::null_as_default")]
    pub messages: Vec<PromptMessage>,
    /// Metadata.
    #[serde(rename = "_meta", skip_serializing_if = "Option::is_none")]
    pub meta: Option<Object>,
    /// Fields we do not know.
    #[serde(flatten)]
    pub extra: Object,
}

impl GetPromptResult {
    /// A prompt that says this.
    pub fn new(messages: Vec<PromptMessage>) -> GetPromptResult {
        GetPromptResult {
            messages,
            ..GetPromptResult::default()
        }
    }
}

/// A message of a prompt.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct PromptMessage {
    /// Who says it.
    pub role: Role,
    /// What is said.
    pub content: Content,
    /// Fields we do not know.
    #[serde(flatten)]
    pub extra: Object,
}

impl PromptMessage {
    /// The person says this.
    pub fn user(content: impl Into<Content>) -> PromptMessage {
        PromptMessage {
            role: Role::User,
            content: content.into(),
            extra: Object::new(),
        }
    }

    /// The model says this.
    pub fn assistant(content: impl Into<Content>) -> PromptMessage {
        PromptMessage {
            role: Role::Assistant,
            content: content.into(),
            extra: Object::new(),
        }
    }
}
