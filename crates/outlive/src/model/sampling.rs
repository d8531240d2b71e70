//! Sampling: a server asks the client's model.

use std::fmt;
use std::slice;

use serde::de::value::{MapAccessDeserializer, SeqAccessDeserializer};
use serde::de::{MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};

use super::{Content, Object, Role, Tool, lenient};

/// The parameters of `sampling/createMessage`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct SamplingRequest {
    /// What has been said so far.
    #[serde(default, deserialize_with = "lenient::null_as_default")]
    pub messages: Vec<SamplingMessage>,
    /// How long the answer may become.
    #[serde(deserialize_with = "lenient::integer")]
    pub max_tokens: i64,
    /// What the model should be told about its role.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub system_prompt: Option<String>,
    /// Which model would be right.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model_preferences: Option<ModelPreferences>,
    /// What the model should be told of other servers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub include_context: Option<IncludeContext>,
    /// How freely the model may choose its words.
    #[serde(
        skip_serializing_if = "Option::is_none",
        serialize_with = "lenient::write_optional_number"
    )]
    pub temperature: Option<f64>,
    /// Words at which the model stops.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stop_sequences: Option<Vec<String>>,
    /// Tools the model may use (2025-11-25).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tools: Option<Vec<Tool>>,
    /// Whether it must use them (2025-11-25).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tool_choice: Option<ToolChoice>,
    /// Whatever else the model's provider understands.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub metadata: Option<Object>,
    /// Metadata of the protocol.
    #[serde(rename = "_meta", skip_serializing_if = "Option::is_none")]
    pub meta: Option<Object>,
    /// Fields we do not know.
    #[serde(flatten)]
    pub extra: Object,
}

impl SamplingRequest {
    /// What would the model say next?
    pub fn new(messages: Vec<SamplingMessage>, max_tokens: i64) -> SamplingRequest {
        SamplingRequest {
            messages,
            max_tokens,
            ..SamplingRequest::default()
        }
    }
}

/// What a model said: the result of `sampling/createMessage`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct SamplingResult {
    /// Who speaks.
    pub role: Role,
    /// What was said.
    pub content: Contents,
    /// The model that said it.
    #[serde(default, deserialize_with = "lenient::null_as_default")]
    pub model: String,
    /// Why it stopped: `endTurn`, `stopSequence`, `maxTokens`, `toolUse`, or something else.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stop_reason: Option<String>,
    /// Metadata.
    #[serde(rename = "_meta", skip_serializing_if = "Option::is_none")]
    pub meta: Option<Object>,
    /// Fields we do not know.
    #[serde(flatten)]
    pub extra: Object,
}

impl SamplingResult {
    /// This model said this.
    pub fn new(model: impl Into<String>, content: impl Into<Contents>) -> SamplingResult {
        SamplingResult {
            role: Role::Assistant,
            content: content.into(),
            model: model.into(),
            stop_reason: None,
            meta: None,
            extra: Object::new(),
        }
    }
}

/// A message of a conversation with a model.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct SamplingMessage {
    /// Who says it.
    pub role: Role,
    /// What is said.
    pub content: Contents,
    /// Metadata.
    #[serde(rename = "_meta", skip_serializing_if = "Option::is_none")]
    pub meta: Option<Object>,
    /// Fields we do not know.
    #[serde(flatten)]
    pub extra: Object,
}

impl SamplingMessage {
    /// A message.
    pub fn new(role: Role, content: impl Into<Contents>) -> SamplingMessage {
        SamplingMessage {
            role,
            content: content.into(),
            meta: None,
            extra: Object::new(),
        }
    }
}

/// One piece of content, or several (2025-11-25). Older peers understand one only.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(untagged)]
pub enum Contents {
    /// One.
    One(Box<Content>),
    /// Several.
    Many(Vec<Content>),
}

impl Contents {
    /// The pieces.
    pub fn pieces(&self) -> &[Content] {
        match self {
            Contents::One(content) => slice::from_ref(content),
            Contents::Many(contents) => contents,
        }
    }
}

impl<T: Into<Content>> From<T> for Contents {
    fn from(content: T) -> Contents {
        Contents::One(Box::new(content.into()))
    }
}

impl<'de> Deserialize<'de> for Contents {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Reader;
        impl<'de> Visitor<'de> for Reader {
            type Value = Contents;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("content or an array of it")
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Contents, A::Error> {
                Deserialize::deserialize(MapAccessDeserializer::new(map)).map(Contents::One)
            }

            fn visit_seq<A: SeqAccess<'de>>(self, seq: A) -> Result<Contents, A::Error> {
                Deserialize::deserialize(SeqAccessDeserializer::new(seq)).map(Contents::Many)
            }
        }
        deserializer.deserialize_any(Reader)
    }
}

/// What the model should be told of other servers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub enum IncludeContext {
    /// Nothing.
    #[serde(rename = "none")]
    Nothing,
    /// What this server has said.
    ThisServer,
    /// What all servers have said.
    AllServers,
    /// A word we do not know.
    #[serde(untagged)]
    Other(String),
}

/// Which model would be right. Priorities go from 0 to 1.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct ModelPreferences {
    /// Names, or parts of names, the best first.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hints: Option<Vec<ModelHint>>,
    /// How much it matters that it is cheap.
    #[serde(
        skip_serializing_if = "Option::is_none",
        serialize_with = "lenient::write_optional_number"
    )]
    pub cost_priority: Option<f64>,
    /// How much it matters that it is fast.
    #[serde(
        skip_serializing_if = "Option::is_none",
        serialize_with = "lenient::write_optional_number"
    )]
    pub speed_priority: Option<f64>,
    /// How much it matters that it is clever.
    #[serde(
        skip_serializing_if = "Option::is_none",
        serialize_with = "lenient::write_optional_number"
    )]
    pub intelligence_priority: Option<f64>,
    /// Fields we do not know.
    #[serde(flatten)]
    pub extra: Object,
}

/// A hint at a model.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct ModelHint {
    /// Its name, or a part of it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Fields we do not know.
    #[serde(flatten)]
    pub extra: Object,
}

/// Whether a model must use tools.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct ToolChoice {
    /// `auto`, `required` or `none`. If absent: `auto`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mode: Option<String>,
    /// Fields we do not know.
    #[serde(flatten)]
    pub extra: Object,
}
