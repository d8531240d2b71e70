//! Tools and what comes of calling them.

use std::fmt;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::{Content, Icon, Listed, Object, lenient};
use crate::model::reading;

/// A tool.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Tool {
    /// The name it is called by.
    pub name: String,
    /// The name for people.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// What it does, for the model.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// The JSON Schema of its arguments.
    #[serde(default = "any_object")]
    pub input_schema: Value,
    /// The JSON Schema of its structured content.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub output_schema: Option<Value>,
    /// Hints about its effects.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub annotations: Option<ToolAnnotations>,
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

impl Tool {
    /// A tool of this name that takes any arguments.
    pub fn new(name: impl Into<String>) -> Tool {
        Tool {
            name: name.into(),
            title: None,
            description: None,
            input_schema: any_object(),
            output_schema: None,
            annotations: None,
            icons: None,
            meta: None,
            extra: Object::new(),
        }
    }

    /// The same with words for the model.
    pub fn described(name: impl Into<String>, description: impl Into<String>) -> Tool {
        Tool {
            description: Some(description.into()),
            ..Tool::new(name)
        }
    }

    /// Marks it as one that changes nothing (`readOnlyHint`): a call whose outcome nobody knows
    /// may be repeated.
    #[must_use]
    pub fn read_only(mut self) -> Tool {
        let annotations = self.annotations.get_or_insert_default();
        annotations.read_only_hint = Some(true);
        self
    }

    /// Marks it as one whose second call with the same arguments changes nothing more
    /// (`idempotentHint`): a call whose outcome nobody knows may be repeated.
    #[must_use]
    pub fn idempotent(mut self) -> Tool {
        let annotations = self.annotations.get_or_insert_default();
        annotations.idempotent_hint = Some(true);
        self
    }
}

impl Listed for Tool {
    const METHOD: &'static str = "tools/list";
    const FIELD: &'static str = "tools";
}

fn any_object() -> Value {
    json!({"type": "object"})
}

/// Hints about a tool's effects. A server that is not trusted may lie here.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct ToolAnnotations {
    /// The name for people.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// It changes nothing. If absent: it may.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub read_only_hint: Option<bool>,
    /// It may destroy something. If absent: it may.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub destructive_hint: Option<bool>,
    /// A second call with the same arguments changes nothing more. If absent: it may.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub idempotent_hint: Option<bool>,
    /// It deals with the world outside. If absent: it does.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub open_world_hint: Option<bool>,
    /// Fields we do not know.
    #[serde(flatten)]
    pub extra: Object,
}

/// A call of a tool: the parameters of `tools/call`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct CallParams {
    /// Which tool.
    pub name: String,
    /// Its arguments.
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

impl CallParams {
    /// A call of this tool with these arguments.
    pub fn new(name: impl Into<String>, arguments: Object) -> CallParams {
        CallParams {
            name: name.into(),
            arguments: Some(arguments),
            ..CallParams::default()
        }
    }
}

/// What came of a call.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct CallResult {
    /// `complete`, or absent before 2026-07-28.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub result_type: Option<String>,
    /// The answer, for the model.
    #[serde(default, deserialize_with = "lenient::null_as_default")]
    pub content: Vec<Content>,
    /// The answer as data; any JSON value.
    #[serde(
        default,
        deserialize_with = "lenient::present",
        skip_serializing_if = "Option::is_none"
    )]
    pub structured_content: Option<Value>,
    /// The tool failed, and the content says how. If absent: it did not. See
    /// [`is_error`](CallResult::is_error).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub is_error: Option<bool>,
    /// Metadata.
    #[serde(rename = "_meta", skip_serializing_if = "Option::is_none")]
    pub meta: Option<Object>,
    /// Fields we do not know.
    #[serde(flatten)]
    pub extra: Object,
}

impl CallResult {
    /// A success with this content.
    pub fn new(content: impl IntoIterator<Item = Content>) -> CallResult {
        CallResult {
            content: content.into_iter().collect(),
            ..CallResult::default()
        }
    }

    /// A failure the model is told of in these words.
    pub fn error(message: impl Into<String>) -> CallResult {
        CallResult {
            content: vec![Content::text(message)],
            is_error: Some(true),
            ..CallResult::default()
        }
    }

    /// A success with data. The data is repeated as text, for clients that do not know structured
    /// content.
    pub fn structured(data: Value) -> CallResult {
        CallResult {
            content: vec![Content::text(data.to_string())],
            structured_content: Some(data),
            ..CallResult::default()
        }
    }

    /// Whether the tool failed.
    pub fn is_error(&self) -> bool {
        self.is_error == Some(true)
    }

    /// All text of the content, a line break between its pieces.
    pub fn text(&self) -> String {
        let texts: Vec<&str> = self.content.iter().filter_map(Content::as_text).collect();
        texts.join("\n")
    }
}

impl CallResult {
    /// The data of the answer, as a type.
    ///
    /// Data that is no object, such as a number, travels as the field `result` of one; it is found there.
    ///
    /// ```no_run
    /// # async fn example(client: outlive::Client) -> Result<(), Box<dyn std::error::Error>> {
    /// #[derive(serde::Deserialize)]
    /// struct Weather {
    ///     degrees: f64,
    /// }
    ///
    /// let result = client.call("weather", serde_json::json!({ "city": "Oslo" })).await?;
    /// let weather: Weather = result.structured_as()?;
    /// println!("{} °C", weather.degrees);
    /// # Ok(())
    /// # }
    /// ```
    pub fn structured_as<T: DeserializeOwned>(&self) -> Result<T, StructuredError> {
        if self.is_error() {
            return Err(StructuredError::ToolFailed(self.text()));
        }
        let Some(data) = &self.structured_content else {
            return Err(StructuredError::Missing);
        };
        if let Ok(read) = T::deserialize(data) {
            return Ok(read);
        }
        if let Value::Object(fields) = data
            && fields.len() == 1
            && let Some(result) = fields.get("result")
            && let Ok(read) = T::deserialize(result)
        {
            return Ok(read);
        }
        let why = reading::of_value::<T>(data.clone());
        Err(StructuredError::Unreadable(why.unwrap_or_default()))
    }
}

/// Why the data of a result cannot be had. See [`CallResult::structured_as`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum StructuredError {
    /// The tool failed, with these words.
    ToolFailed(String),
    /// The result has content, but no data.
    Missing,
    /// The data is not of the type: which field, and what was expected.
    Unreadable(String),
}

impl fmt::Display for StructuredError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            StructuredError::ToolFailed(words) => write!(f, "The tool failed: {words}"),
            StructuredError::Missing => f.write_str(
                "The result has no structured content. Its text can be had with `CallResult::text`.",
            ),
            StructuredError::Unreadable(why) => {
                write!(f, "The structured content is not of the type that was asked for: {why}.")
            }
        }
    }
}

impl std::error::Error for StructuredError {}

impl<T: Into<Content>> From<T> for CallResult {
    fn from(content: T) -> CallResult {
        CallResult::new([content.into()])
    }
}
