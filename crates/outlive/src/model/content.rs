//! What tools answer, prompts say and models write.

use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;

use super::tagged::{self, Tagged};
use super::{Annotations, Object, Resource, ResourceContents, lenient};

/// A piece of content.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
#[non_exhaustive]
pub enum Content {
    /// Text.
    Text(TextContent),
    /// A picture.
    Image(MediaContent),
    /// Sound.
    Audio(MediaContent),
    /// A resource that can be read from the server.
    ResourceLink(Resource),
    /// A resource and what is in it.
    Resource(EmbeddedResource),
    /// A model wants a tool to be used (sampling).
    ToolUse(ToolUseContent),
    /// What the tool answered (sampling).
    ToolResult(ToolResultContent),
    /// Content of a kind we do not know: the whole object.
    #[serde(untagged)]
    Other(Value),
}

impl Content {
    /// Text.
    pub fn text(text: impl Into<String>) -> Content {
        Content::Text(TextContent {
            text: text.into(),
            ..TextContent::default()
        })
    }

    /// A picture, as base64.
    pub fn image(data: impl Into<String>, mime_type: impl Into<String>) -> Content {
        Content::Image(MediaContent::new(data, mime_type))
    }

    /// Sound, as base64.
    pub fn audio(data: impl Into<String>, mime_type: impl Into<String>) -> Content {
        Content::Audio(MediaContent::new(data, mime_type))
    }

    /// A resource and what is in it.
    pub fn resource(contents: ResourceContents) -> Content {
        Content::Resource(EmbeddedResource {
            resource: contents,
            annotations: None,
            meta: None,
            extra: Object::new(),
        })
    }

    /// The text, if this is text.
    pub fn as_text(&self) -> Option<&str> {
        match self {
            Content::Text(content) => Some(&content.text),
            _ => None,
        }
    }
}

impl From<&str> for Content {
    fn from(text: &str) -> Content {
        Content::text(text)
    }
}

impl From<String> for Content {
    fn from(text: String) -> Content {
        Content::text(text)
    }
}

impl<'de> Deserialize<'de> for Content {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        tagged::read(deserializer)
    }
}

impl Tagged for Content {
    const TAG: &'static str = "type";

    fn read<'de, D: Deserializer<'de>>(tag: Option<&str>, rest: D) -> Result<Self, D::Error> {
        Ok(match tag {
            Some("text") => Content::Text(Deserialize::deserialize(rest)?),
            Some("image") => Content::Image(Deserialize::deserialize(rest)?),
            Some("audio") => Content::Audio(Deserialize::deserialize(rest)?),
            Some("resource_link") => Content::ResourceLink(Deserialize::deserialize(rest)?),
            Some("resource") => Content::Resource(Deserialize::deserialize(rest)?),
            Some("tool_use") => Content::ToolUse(Deserialize::deserialize(rest)?),
            Some("tool_result") => Content::ToolResult(Deserialize::deserialize(rest)?),
            _ => Content::Other(tagged::read_unknown(Self::TAG, tag, rest)?),
        })
    }
}

/// Text.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct TextContent {
    /// The text.
    #[serde(default, deserialize_with = "lenient::null_as_default")]
    pub text: String,
    /// Hints.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub annotations: Option<Annotations>,
    /// Metadata.
    #[serde(rename = "_meta", skip_serializing_if = "Option::is_none")]
    pub meta: Option<Object>,
    /// Fields we do not know.
    #[serde(flatten)]
    pub extra: Object,
}

/// A picture or a sound.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct MediaContent {
    /// The bytes, as base64.
    #[serde(default, deserialize_with = "lenient::null_as_default")]
    pub data: String,
    /// What they are.
    #[serde(default, deserialize_with = "lenient::null_as_default")]
    pub mime_type: String,
    /// Hints.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub annotations: Option<Annotations>,
    /// Metadata.
    #[serde(rename = "_meta", skip_serializing_if = "Option::is_none")]
    pub meta: Option<Object>,
    /// Fields we do not know.
    #[serde(flatten)]
    pub extra: Object,
}

impl MediaContent {
    /// Bytes as base64, and what they are.
    pub fn new(data: impl Into<String>, mime_type: impl Into<String>) -> MediaContent {
        MediaContent {
            data: data.into(),
            mime_type: mime_type.into(),
            ..MediaContent::default()
        }
    }
}

/// A resource and what is in it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct EmbeddedResource {
    /// What is in it.
    pub resource: ResourceContents,
    /// Hints.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub annotations: Option<Annotations>,
    /// Metadata.
    #[serde(rename = "_meta", skip_serializing_if = "Option::is_none")]
    pub meta: Option<Object>,
    /// Fields we do not know.
    #[serde(flatten)]
    pub extra: Object,
}

/// A model wants a tool to be used.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct ToolUseContent {
    /// The name the result refers to.
    pub id: String,
    /// Which tool.
    pub name: String,
    /// Its arguments.
    #[serde(default, deserialize_with = "lenient::null_as_default")]
    pub input: Object,
    /// Metadata.
    #[serde(rename = "_meta", skip_serializing_if = "Option::is_none")]
    pub meta: Option<Object>,
    /// Fields we do not know.
    #[serde(flatten)]
    pub extra: Object,
}

/// What a tool answered a model.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct ToolResultContent {
    /// The `id` of the [`ToolUseContent`].
    pub tool_use_id: String,
    /// The answer.
    #[serde(default, deserialize_with = "lenient::null_as_default")]
    pub content: Vec<Content>,
    /// The answer as data; any JSON value.
    #[serde(
        default,
        deserialize_with = "lenient::present",
        skip_serializing_if = "Option::is_none"
    )]
    pub structured_content: Option<Value>,
    /// The tool failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub is_error: Option<bool>,
    /// Metadata.
    #[serde(rename = "_meta", skip_serializing_if = "Option::is_none")]
    pub meta: Option<Object>,
    /// Fields we do not know.
    #[serde(flatten)]
    pub extra: Object,
}
