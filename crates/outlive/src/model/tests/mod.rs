//! What is read is written back.
//!
//! `samples.jsonl` holds messages as each version of the protocol defines them, together with every
//! optional field, and messages of no version, full of fields, kinds and words we do not know.

use std::fmt::Debug;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::*;

#[derive(Deserialize)]
struct Sample {
    version: String,
    r#type: String,
    message: Value,
}

fn samples() -> impl Iterator<Item = Sample> {
    let lines = include_str!("samples.jsonl").lines();
    lines.map(|line| serde_json::from_str(line).unwrap_or_else(|e| panic!("{e}: {line}")))
}

/// Reads a message and writes it back, once as JSON and once as what it was understood to be.
type RoundTrip = fn(&Value) -> Result<(Value, String), String>;

/// Three ways for a message to arrive: as text with the tag before all other fields, as text with
/// the tag after them, and as a value, which is how a buffered part is read.
fn kind<T: DeserializeOwned + Serialize + PartialEq + Debug>() -> RoundTrip {
    fn read<T: DeserializeOwned>(text: &str) -> Result<T, String> {
        serde_json::from_str(text).map_err(|e| e.to_string())
    }
    |message| {
        let tag_first: T = read(&text(message, true))?;
        let tag_last: T = read(&text(message, false))?;
        let value: T = serde_json::from_value(message.clone()).map_err(|e| e.to_string())?;
        assert_eq!(tag_first, tag_last);
        assert_eq!(tag_first, value);
        let written = serde_json::to_value(&tag_first).map_err(|e| e.to_string())?;
        Ok((written, format!("{tag_first:?}")))
    }
}

/// A message as text, the tag of each object first or last.
fn text(message: &Value, tag_first: bool) -> String {
    match message {
        Value::Object(object) => {
            let mut fields: Vec<_> = object.iter().collect();
            fields.sort_by_key(|(name, _)| (*name == "type") != tag_first);
            let fields: Vec<String> = fields
                .into_iter()
                .map(|(name, value)| format!("{}:{}", json!(name), text(value, tag_first)))
                .collect();
            format!("{{{}}}", fields.join(","))
        }
        Value::Array(array) => {
            let items: Vec<String> = array.iter().map(|item| text(item, tag_first)).collect();
            format!("[{}]", items.join(","))
        }
        plain => plain.to_string(),
    }
}

/// A message, read and written back.
fn round_trip(kind_name: &str, message: &Value) -> Result<Value, String> {
    kind_of(kind_name)(message).map(|(written, _)| written)
}

fn kind_of(name: &str) -> RoundTrip {
    match name {
        "InitializeParams" => kind::<InitializeParams>(),
        "InitializeResult" => kind::<InitializeResult>(),
        "DiscoverResult" => kind::<DiscoverResult>(),
        "PageParams" => kind::<PageParams>(),
        "ToolPage" => kind::<Page<Tool>>(),
        "ResourcePage" => kind::<Page<Resource>>(),
        "ResourceTemplatePage" => kind::<Page<ResourceTemplate>>(),
        "PromptPage" => kind::<Page<Prompt>>(),
        "CallParams" => kind::<CallParams>(),
        "CallResult" => kind::<CallResult>(),
        "CallAnswer" => kind::<Answer<CallResult>>(),
        "ResourceParams" => kind::<ResourceParams>(),
        "ReadResult" => kind::<ReadResult>(),
        "ReadAnswer" => kind::<Answer<ReadResult>>(),
        "GetPromptParams" => kind::<GetPromptParams>(),
        "GetPromptResult" => kind::<GetPromptResult>(),
        "GetPromptAnswer" => kind::<Answer<GetPromptResult>>(),
        "CompleteParams" => kind::<CompleteParams>(),
        "CompleteResult" => kind::<CompleteResult>(),
        "SamplingRequest" => kind::<SamplingRequest>(),
        "SamplingResult" => kind::<SamplingResult>(),
        "ElicitRequest" => kind::<ElicitRequest>(),
        "ElicitResult" => kind::<ElicitResult>(),
        "RootsResult" => kind::<RootsResult>(),
        "LogMessage" => kind::<LogMessage>(),
        "SetLevelParams" => kind::<SetLevelParams>(),
        "Progress" => kind::<Progress>(),
        "ListenParams" => kind::<ListenParams>(),
        "RpcError" => kind::<RpcError>(),
        unknown => panic!("no such type: {unknown}"),
    }
}

/// The message, once for each place that `change` changes.
fn changed(message: &Value, change: &dyn Fn(&str, &mut Value) -> bool) -> Vec<Value> {
    fn places(value: &Value, path: String, found: &mut Vec<String>) {
        match value {
            Value::Object(object) => {
                for (name, value) in object {
                    let name = name.replace('~', "~0").replace('/', "~1");
                    places(value, format!("{path}/{name}"), found);
                }
            }
            Value::Array(array) => {
                for (index, value) in array.iter().enumerate() {
                    places(value, format!("{path}/{index}"), found);
                }
            }
            _ => {}
        }
        found.push(path);
    }
    let mut found = Vec::new();
    places(message, String::new(), &mut found);
    found
        .iter()
        .filter_map(|path| {
            let mut copy = message.clone();
            let place = copy.pointer_mut(path).expect("the path was just found");
            change(path, place).then_some(copy)
        })
        .collect()
}

/// Numbers mean the same with and without a fraction of zero.
fn meaning(value: Value) -> Value {
    match value {
        Value::Number(number) => json!(number.as_f64()),
        Value::Array(array) => array.into_iter().map(meaning).collect(),
        Value::Object(object) => object.into_iter().map(|(k, v)| (k, meaning(v))).collect(),
        plain => plain,
    }
}

#[test]
fn every_sample_survives() {
    for Sample {
        version,
        r#type,
        message,
    } in samples()
    {
        let context = format!("{type} of {version}");
        assert_eq!(round_trip(&r#type, &message), Ok(message), "{context}");
    }
}

/// A misspelt field or kind would survive as an unknown one.
#[test]
fn everything_in_the_protocol_is_known() {
    // Tasks are an experiment of 2025-11-25 that the next version dropped: only their capability has
    // a name here.
    const UNNAMED: &[&str] = &["extra: {\"task\"", "extra: {\"execution\""];
    for sample in samples().filter(|sample| sample.version != "unknown") {
        let (_, mut understood) = kind_of(&sample.r#type)(&sample.message).expect("a sample");
        for unnamed in UNNAMED {
            understood = understood.replace(unnamed, "");
        }
        assert!(!understood.contains("extra: {\""), "{understood}");
        assert!(!understood.contains("Other("), "{understood}");
    }
}

#[test]
fn an_unknown_field_survives_in_every_object() {
    for sample in samples() {
        let grown = changed(&sample.message, &|path, place| {
            // A map from names to requests, not an object with fields.
            if path.ends_with("/inputRequests") || !place.is_object() {
                return false;
            }
            place["x-unknown"] = json!({"a": [1, null, "b"]});
            true
        });
        assert!(!grown.is_empty());
        for message in grown {
            assert_eq!(round_trip(&sample.r#type, &message), Ok(message));
        }
    }
}

#[test]
fn an_unknown_word_survives_everywhere() {
    for sample in samples() {
        for message in changed(&sample.message, &|path, place| {
            // An answer of unknown kind is read as the result it stands in for.
            let known = path == "/resultType" && sample.r#type.ends_with("Answer");
            if known || !place.is_string() {
                return false;
            }
            *place = json!("x-unknown");
            true
        }) {
            assert_eq!(round_trip(&sample.r#type, &message), Ok(message));
        }
    }
}

#[test]
fn an_integer_may_be_written_as_a_float() {
    for sample in samples() {
        for message in changed(&sample.message, &|_, place| match place.as_i64() {
            Some(integer) => {
                *place = json!(integer as f64);
                true
            }
            None => false,
        }) {
            let written = round_trip(&sample.r#type, &message).map(meaning);
            assert_eq!(written, Ok(meaning(message)));
        }
    }
}

/// Fields without which a message means nothing. All others may be absent or `null`.
const REQUIRED: &[&str] = &[
    "action",
    "argument",
    "code",
    "content",
    "id",
    "level",
    "maxTokens",
    "method",
    "name",
    "progress",
    "progressToken",
    "protocolVersion",
    "ref",
    "resource",
    "role",
    "src",
    "toolUseId",
    "uri",
    "uriTemplate",
];

#[test]
fn what_is_not_required_may_be_absent_or_null() {
    for sample in samples() {
        let optional = |path: &str, object: &Value| -> Vec<String> {
            let fields = object
                .as_object()
                .into_iter()
                .flatten()
                .map(|(name, _)| name);
            let fields = fields.filter(|name| !REQUIRED.contains(&name.as_str()));
            let fields = fields.filter(|_| !path.ends_with("/inputRequests"));
            fields.cloned().collect()
        };
        let most = 20;
        for nth in 0..most {
            for absent in [false, true] {
                for message in changed(&sample.message, &|path, place| {
                    let fields = optional(path, place);
                    assert!(fields.len() <= most);
                    let (Some(field), Value::Object(object)) = (fields.get(nth), place) else {
                        return false;
                    };
                    if absent {
                        object.remove(field);
                    } else {
                        object.insert(field.clone(), Value::Null);
                    }
                    true
                }) {
                    if let Err(error) = round_trip(&sample.r#type, &message) {
                        panic!("{type}: {error}: {message}", r#type = sample.r#type);
                    }
                }
            }
        }
    }
}

#[test]
fn null_is_a_value_where_any_value_is() {
    let result: CallResult = serde_json::from_str(r#"{"structuredContent":null}"#).expect("null");
    assert_eq!(result.structured_content, Some(Value::Null));
    let result: CallResult = serde_json::from_str(r#"{"content":null}"#).expect("no content");
    assert_eq!(result.structured_content, None);
    let error: RpcError = serde_json::from_str(r#"{"code":1,"data":null}"#).expect("null");
    assert_eq!(error.data, Some(Value::Null));
}

#[test]
fn an_integer_that_does_not_fit_is_the_nearest_that_does() {
    for (written, read) in [
        ("-1", -1),
        ("12.9", 12),
        ("1e3", 1000),
        ("18446744073709551615", i64::MAX),
        ("1e300", i64::MAX),
        ("-1e300", i64::MIN),
    ] {
        let text = format!(r#"{{"uri":"a:b","name":"b","size":{written}}}"#);
        let resource: Resource = serde_json::from_str(&text).expect("a resource");
        assert_eq!(resource.size, Some(read), "{written}");
    }
}

#[test]
fn a_number_keeps_its_fraction_and_gains_none() {
    for (progress, written) in [(5.0, "5"), (0.5, "0.5"), (-2.0, "-2"), (1e17, "1e+17")] {
        let message = serde_json::to_string(&Progress::new(1, progress)).expect("progress");
        let expected = format!(r#"{{"progressToken":1,"progress":{written}}}"#);
        assert_eq!(message, expected);
    }
}

#[test]
fn an_answer_is_what_it_says() {
    let read = |text: &str| serde_json::from_str::<Answer<CallResult>>(text).expect("an answer");
    assert!(matches!(read(r#"{"content":[]}"#), Answer::Complete(_)));
    assert!(matches!(
        read(r#"{"resultType":null}"#),
        Answer::Complete(_)
    ));
    assert!(matches!(read(r#"{"resultType":"task"}"#), Answer::Other(_)));
    let asked = read(
        r#"{"inputRequests":{"a":{"method":"roots/list"}},"resultType":"input_required","x":1}"#,
    );
    let Answer::InputRequired(asked) = asked else {
        panic!("{asked:?}");
    };
    assert_eq!(asked.extra["x"], 1);
    let requests = asked.input_requests.expect("a request");
    assert_eq!(requests["a"].method, "roots/list");
}

#[test]
fn text_is_joined_and_errors_are_told() {
    let message = r#"{"content":[{"type":"text","text":"a"},{"type":"smell"}],"isError":true}"#;
    let result: CallResult = serde_json::from_str(message).expect("a result");
    assert!(result.is_error());
    assert_eq!(result.text(), "a");
    assert!(!CallResult::from("a").is_error());
    assert_eq!(CallResult::new(["a".into(), "b".into()]).text(), "a\nb");
}

#[test]
fn levels_are_ordered_by_gravity() {
    assert!(LogLevel::Debug < LogLevel::Info && LogLevel::Alert < LogLevel::Emergency);
    assert!(LogLevel::Other("trace".into()) > LogLevel::Emergency);
}
