//! Results that ask for something first (2026-07-28).
//!
//! A server of this era does not send requests. If it needs the model, the person or the roots, it
//! answers with [`InputRequired`]; the client finds out and sends its request again, with
//! `inputResponses` and the `requestState` it was given.

use std::collections::BTreeMap;

use serde::de::{Deserializer, Error};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{CallResult, GetPromptResult, Object, ReadResult};

/// An answer to a request that may ask for something first.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(untagged)]
#[non_exhaustive]
pub enum Answer<T> {
    /// The result. In earlier versions every answer is one.
    Complete(T),
    /// The server needs something first.
    InputRequired(InputRequired),
    /// An answer of a kind we do not know, read as if it were a result: what it says is in `extra`.
    Other(T),
}

/// A result in whose place a server may ask for something first.
pub trait Deferrable {
    /// The kind of the answer.
    fn result_type(&self) -> Option<&str>;

    /// All that is not of the result itself: metadata and unknown fields.
    fn into_rest(self) -> (Option<Object>, Object);
}

macro_rules! deferrable {
    ($($result:ty),*) => {$(
        impl Deferrable for $result {
            fn result_type(&self) -> Option<&str> {
                self.result_type.as_deref()
            }

            fn into_rest(self) -> (Option<Object>, Object) {
                (self.meta, self.extra)
            }
        }
    )*};
}

deferrable!(CallResult, ReadResult, GetPromptResult);

// What the server asks for arrives as unknown fields of the result it is not: so a result, which
// is the rule and may be large, is read into place whatever the order of its fields.
impl<'de, T: Deferrable + Deserialize<'de>> Deserialize<'de> for Answer<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let result = T::deserialize(deserializer)?;
        match result.result_type() {
            None | Some("complete") => Ok(Answer::Complete(result)),
            Some(InputRequired::RESULT_TYPE) => {
                let (meta, rest) = result.into_rest();
                let mut asked: InputRequired =
                    serde_json::from_value(Value::Object(rest)).map_err(D::Error::custom)?;
                asked.meta = meta;
                Ok(Answer::InputRequired(asked))
            }
            Some(_) => Ok(Answer::Other(result)),
        }
    }
}

/// What a server needs before it can answer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct InputRequired {
    /// `input_required`.
    #[serde(default = "input_required")]
    pub result_type: String,
    /// What it asks, each under a name that the response is given under.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub input_requests: Option<BTreeMap<String, InputRequest>>,
    /// What it wants to be given back with the responses.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub request_state: Option<String>,
    /// Metadata.
    #[serde(rename = "_meta", skip_serializing_if = "Option::is_none")]
    pub meta: Option<Object>,
    /// Fields we do not know.
    #[serde(flatten)]
    pub extra: Object,
}

fn input_required() -> String {
    InputRequired::RESULT_TYPE.to_owned()
}

impl InputRequired {
    /// The kind of answer this is.
    pub const RESULT_TYPE: &'static str = "input_required";

    /// These requests have to be answered first.
    pub fn new(requests: impl IntoIterator<Item = (String, InputRequest)>) -> InputRequired {
        InputRequired {
            result_type: input_required(),
            input_requests: Some(requests.into_iter().collect()),
            request_state: None,
            meta: None,
            extra: Object::new(),
        }
    }
}

/// A request of a server: the same methods and parameters that earlier versions send as requests of
/// their own (`sampling/createMessage`, `elicitation/create`, `roots/list`).
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct InputRequest {
    /// What is asked for.
    pub method: String,
    /// How.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub params: Option<Value>,
    /// Fields we do not know.
    #[serde(flatten)]
    pub extra: Object,
}

impl InputRequest {
    /// A request with this method and these parameters.
    pub fn new(method: impl Into<String>, params: Option<Value>) -> InputRequest {
        InputRequest {
            method: method.into(),
            params,
            extra: Object::new(),
        }
    }
}
