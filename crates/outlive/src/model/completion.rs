//! Completion of arguments while a person types.

use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;

use super::tagged::{self, Tagged};
use super::{Object, lenient};

/// What an argument belongs to.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "type")]
#[non_exhaustive]
pub enum CompletionRef {
    /// A prompt.
    #[serde(rename = "ref/prompt")]
    Prompt(PromptRef),
    /// A resource template.
    #[serde(rename = "ref/resource")]
    Resource(ResourceRef),
    /// Something we do not know: the whole object.
    #[serde(untagged)]
    Other(Value),
}

impl CompletionRef {
    /// The prompt of this name.
    pub fn prompt(name: impl Into<String>) -> CompletionRef {
        CompletionRef::Prompt(PromptRef {
            name: name.into(),
            ..PromptRef::default()
        })
    }

    /// The resource template with this URI.
    pub fn resource(uri: impl Into<String>) -> CompletionRef {
        CompletionRef::Resource(ResourceRef {
            uri: uri.into(),
            ..ResourceRef::default()
        })
    }
}

impl<'de> Deserialize<'de> for CompletionRef {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        tagged::read(deserializer)
    }
}

impl Tagged for CompletionRef {
    const TAG: &'static str = "type";

    fn read<'de, D: Deserializer<'de>>(tag: Option<&str>, rest: D) -> Result<Self, D::Error> {
        Ok(match tag {
            Some("ref/prompt") => CompletionRef::Prompt(Deserialize::deserialize(rest)?),
            Some("ref/resource") => CompletionRef::Resource(Deserialize::deserialize(rest)?),
            _ => CompletionRef::Other(tagged::read_unknown(Self::TAG, tag, rest)?),
        })
    }
}

/// A prompt whose argument is completed.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct PromptRef {
    /// Its name.
    pub name: String,
    /// The name for people.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// Fields we do not know.
    #[serde(flatten)]
    pub extra: Object,
}

/// A resource template whose variable is completed.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct ResourceRef {
    /// Its URI or URI template.
    pub uri: String,
    /// Fields we do not know.
    #[serde(flatten)]
    pub extra: Object,
}

/// The parameters of `completion/complete`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct CompleteParams {
    /// What the argument belongs to.
    #[serde(rename = "ref")]
    pub reference: CompletionRef,
    /// What has been typed.
    pub argument: CompletionArgument,
    /// What is known besides (2025-06-18).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub context: Option<CompletionContext>,
    /// Metadata.
    #[serde(rename = "_meta", skip_serializing_if = "Option::is_none")]
    pub meta: Option<Object>,
    /// Fields we do not know.
    #[serde(flatten)]
    pub extra: Object,
}

impl CompleteParams {
    /// What could the argument `name` become, now that `value` has been typed?
    pub fn new(
        reference: CompletionRef,
        name: impl Into<String>,
        value: impl Into<String>,
    ) -> CompleteParams {
        CompleteParams {
            reference,
            argument: CompletionArgument {
                name: name.into(),
                value: value.into(),
                extra: Object::new(),
            },
            context: None,
            meta: None,
            extra: Object::new(),
        }
    }
}

/// An argument and what has been typed of it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct CompletionArgument {
    /// Its name.
    pub name: String,
    /// What has been typed.
    #[serde(default, deserialize_with = "lenient::null_as_default")]
    pub value: String,
    /// Fields we do not know.
    #[serde(flatten)]
    pub extra: Object,
}

/// What is known while an argument is completed.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct CompletionContext {
    /// The arguments that have been given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub arguments: Option<Object>,
    /// Fields we do not know.
    #[serde(flatten)]
    pub extra: Object,
}

/// The result of `completion/complete`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct CompleteResult {
    /// `complete`, or absent before 2026-07-28.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub result_type: Option<String>,
    /// The proposals.
    #[serde(default, deserialize_with = "lenient::null_as_default")]
    pub completion: Completion,
    /// Metadata.
    #[serde(rename = "_meta", skip_serializing_if = "Option::is_none")]
    pub meta: Option<Object>,
    /// Fields we do not know.
    #[serde(flatten)]
    pub extra: Object,
}

/// Proposals.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Completion {
    /// The proposals, at most a hundred.
    #[serde(default, deserialize_with = "lenient::null_as_default")]
    pub values: Vec<String>,
    /// How many there are in all.
    #[serde(
        default,
        deserialize_with = "lenient::optional_integer",
        skip_serializing_if = "Option::is_none"
    )]
    pub total: Option<i64>,
    /// There are more than are given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub has_more: Option<bool>,
    /// Fields we do not know.
    #[serde(flatten)]
    pub extra: Object,
}

impl Completion {
    /// As many of these proposals as the protocol allows.
    pub fn new(values: impl IntoIterator<Item = String>) -> Completion {
        const MOST: usize = 100;
        let mut values: Vec<String> = values.into_iter().collect();
        let total = values.len();
        values.truncate(MOST);
        Completion {
            values,
            total: i64::try_from(total).ok(),
            has_more: Some(total > MOST),
            extra: Object::new(),
        }
    }
}
