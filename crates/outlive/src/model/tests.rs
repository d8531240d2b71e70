//! What is read is written back.

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::*;

/// Reads and writes a message from text, as it arrives, and from a value, as a buffered part does.
fn round_trip<T: DeserializeOwned + Serialize + PartialEq + std::fmt::Debug>(message: Value) -> T {
    let text = message.to_string();
    let from_text: T = serde_json::from_str(&text).unwrap_or_else(|e| panic!("{e}: {text}"));
    let from_value: T = serde_json::from_value(message.clone()).expect("a value is no harder");
    assert_eq!(from_text, from_value);
    assert_eq!(
        serde_json::to_value(&from_text).expect("can be written"),
        message
    );
    from_text
}

#[test]
fn content_of_unknown_kind_survives() {
    let message = json!({"content": [
        {"type": "text", "text": "a", "mood": "good", "_meta": {"k": 1}},
        {"type": "hologram", "text": 5, "depth": null},
        {"kind": "without a type"},
    ], "isError": false, "verdict": [1]});
    let result: CallResult = round_trip(message);
    assert_eq!(result.text(), "a");
    assert!(matches!(&result.content[1], Content::Other(v) if v["depth"].is_null()));
}

#[test]
fn the_tag_may_come_last() {
    let content: Content =
        serde_json::from_str(r#"{"x":1,"text":"a","type":"text"}"#).expect("text");
    assert_eq!(content.as_text(), Some("a"));
    let Content::Text(text) = content else {
        unreachable!()
    };
    assert_eq!(text.extra["x"], 1);
}
