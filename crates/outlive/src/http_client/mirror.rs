//! What a modern request says of itself in its headers (2026-07-28, Streamable HTTP, Request Metadata).
//!
//! Gateways route by headers, servers compare them with the body. Which arguments of a tool are mirrored
//! stands in its input schema, so the lists of tools that pass by are looked at.

use std::collections::HashMap;

use outlive_core::Message;
use outlive_core::protocol::mirrored::{Mirrored, is_marked, mirrored};
use outlive_core::protocol::{header, meta, method};
use reqwest::header::{HeaderMap, HeaderName, HeaderValue};
use serde_json::Value;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;

/// Integers beyond this are not safe everywhere (2^53 − 1).
const MOST: i64 = (1 << 53) - 1;

/// The mirrored arguments of all tools of a server that have any.
#[derive(Debug, Default)]
pub(super) struct Mirror {
    tools: HashMap<String, Vec<Mirrored>>,
}

impl Mirror {
    /// The headers of this request.
    pub(super) fn headers(&self, message: &Message) -> HeaderMap {
        let mut headers = HeaderMap::new();
        let mut add = |name: HeaderName, value: &str| {
            if let Ok(value) = HeaderValue::from_str(&encode(value)) {
                headers.insert(name, value);
            }
        };
        if let Some(version) = version(message) {
            add(HeaderName::from_static(header::PROTOCOL_VERSION), &version);
        }
        add(HeaderName::from_static(header::METHOD), message.method());
        let name = method::subject(message);
        if let Some(name) = &name {
            add(HeaderName::from_static(header::NAME), name);
        }
        if message.is("tools/call")
            && let Some(params) = name.and_then(|name| self.tools.get(&*name))
        {
            let body: Value =
                serde_json::from_slice(message.params().unwrap_or_default()).unwrap_or_default();
            for param in params {
                let value = param.path.iter().fold(&body["arguments"], |v, key| &v[key]);
                if let Some(value) = text(value)
                    && let Ok(name) = HeaderName::from_bytes(param.header.as_bytes())
                {
                    add(name, &value);
                }
            }
        }
        headers
    }

    /// Learns from an answer to `tools/list`; gives its result back without the tools whose marks are invalid,
    /// if there are any, and with them why.
    pub(super) fn learn(&mut self, answer: &Message) -> Option<(String, Vec<String>)> {
        let result = answer.result()?;
        if self.tools.is_empty() && !is_marked(result) {
            return None;
        }
        let mut result: Value = serde_json::from_slice(result).ok()?;
        let tools = result.get_mut("tools")?.as_array_mut()?;
        let mut refused = Vec::new();
        tools.retain(|tool| {
            let name = tool["name"].as_str().unwrap_or_default();
            self.tools.remove(name);
            match mirrored(&tool["inputSchema"]) {
                Ok(params) if params.is_empty() => true,
                Ok(params) => {
                    self.tools.insert(name.to_string(), params);
                    true
                }
                Err(why) => {
                    refused.push(format!("tool {name:?}: {why}"));
                    false
                }
            }
        });
        (!refused.is_empty()).then(|| (result.to_string(), refused))
    }
}

/// The version a request names in its `_meta`.
fn version(message: &Message) -> Option<String> {
    let meta: Value = serde_json::from_slice(message.meta()?).ok()?;
    meta[meta::PROTOCOL_VERSION].as_str().map(str::to_string)
}

/// A value as the text of a header; none if it is not mirrored.
fn text(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Bool(yes) => Some(yes.to_string()),
        Value::Number(number) => {
            let whole = number.as_i64().or_else(|| {
                let number = number.as_f64()?;
                (number.fract() == 0.0 && number.abs() <= MOST as f64).then_some(number as i64)
            })?;
            (-MOST..=MOST).contains(&whole).then(|| whole.to_string())
        }
        _ => None,
    }
}

/// A text as a header carries it: as it is, or in Base64 where that could be misunderstood.
fn encode(text: &str) -> String {
    let plain = text
        .bytes()
        .all(|b| matches!(b, b' ' | b'\t' | 0x21..=0x7e))
        && text.trim() == text
        && !(text.starts_with("=?base64?") && text.ends_with("?="));
    match plain {
        true => text.to_string(),
        false => format!("=?base64?{}?=", BASE64_STANDARD.encode(text)),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn message(value: &Value) -> Message {
        Message::read(value.to_string().into()).unwrap()
    }

    fn call(name: &str, arguments: Value) -> Message {
        message(
            &json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {
            "_meta": {meta::PROTOCOL_VERSION: "2026-07-28"}, "name": name, "arguments": arguments}}),
        )
    }

    fn tools(schemas: &[(&str, Value)]) -> Message {
        let tools: Vec<Value> = schemas
            .iter()
            .map(|(name, properties)| {
                json!({"name": name, "inputSchema": {"type": "object", "properties": properties}})
            })
            .collect();
        message(&json!({"jsonrpc": "2.0", "id": 2, "result": {"tools": tools}}))
    }

    fn pairs(headers: &HeaderMap) -> Vec<String> {
        let mut pairs: Vec<String> = headers
            .iter()
            .map(|(name, value)| format!("{name}: {}", value.to_str().unwrap()))
            .collect();
        pairs.sort();
        pairs
    }

    #[test]
    fn values_are_encoded_as_the_specification_shows() {
        for (value, header) in [
            ("us-west1", "us-west1"),
            ("Hello, 世界", "=?base64?SGVsbG8sIOS4lueVjA==?="),
            (" padded ", "=?base64?IHBhZGRlZCA=?="),
            ("line1\nline2", "=?base64?bGluZTEKbGluZTI=?="),
            ("=?base64?literal?=", "=?base64?PT9iYXNlNjQ/bGl0ZXJhbD89?="),
        ] {
            assert_eq!(encode(value), header);
        }
    }

    #[test]
    fn a_request_names_its_version_method_and_target() {
        let mirror = Mirror::default();
        assert_eq!(
            pairs(&mirror.headers(&call("wetter für morgen", json!({})))),
            [
                "mcp-method: tools/call",
                "mcp-name: =?base64?d2V0dGVyIGbDvHIgbW9yZ2Vu?=",
                "mcp-protocol-version: 2026-07-28"
            ]
        );
    }

    #[test]
    fn marked_arguments_are_mirrored_if_they_are_there() {
        let mut mirror = Mirror::default();
        let list = tools(&[(
            "sql",
            json!({
                "region": {"type": "string", "x-mcp-header": "Region"},
                "deep": {"type": "object", "properties": {"n": {"type": "integer", "x-mcp-header": "N"}}},
                "dry": {"type": "boolean", "x-mcp-header": "Dry"},
                "query": {"type": "string"},
            }),
        )]);
        assert_eq!(mirror.learn(&list), None, "nothing is taken out of it");
        let arguments =
            json!({"region": "us-west1", "deep": {"n": 42.0}, "dry": null, "query": "x"});
        let headers = pairs(&mirror.headers(&call("sql", arguments)));
        assert!(headers.contains(&"mcp-param-region: us-west1".to_string()));
        assert!(headers.contains(&"mcp-param-n: 42".to_string()));
        assert_eq!(headers.len(), 5);
    }

    #[test]
    fn tools_with_invalid_marks_are_taken_out_of_the_list() {
        let mut mirror = Mirror::default();
        let list = tools(&[
            (
                "empty",
                json!({"a": {"type": "string", "x-mcp-header": ""}}),
            ),
            (
                "number",
                json!({"a": {"type": "number", "x-mcp-header": "A"}}),
            ),
            (
                "token",
                json!({"a": {"type": "string", "x-mcp-header": "a b"}}),
            ),
            (
                "twice",
                json!({"a": {"type": "string", "x-mcp-header": "A"}, "b": {"type": "string", "x-mcp-header": "a"}}),
            ),
            (
                "items",
                json!({"a": {"type": "array", "items": {"type": "string", "x-mcp-header": "A"}}}),
            ),
            (
                "good",
                json!({"a": {"type": "string", "x-mcp-header": "A"}, "x-mcp-header": {"type": "string"}}),
            ),
        ]);
        let (result, refused) = mirror.learn(&list).unwrap();
        let left: Value = serde_json::from_str(&result).unwrap();
        assert_eq!(left["tools"].as_array().unwrap().len(), 1);
        assert_eq!(left["tools"][0]["name"], "good");
        assert_eq!(refused.len(), 5, "{refused:?}");
    }

    #[test]
    fn what_a_later_list_says_counts() {
        let mut mirror = Mirror::default();
        let of = |mirror: &Mirror| {
            let headers = mirror.headers(&call("t", json!({"a": "x"})));
            let mut names: Vec<String> = headers.keys().map(ToString::to_string).collect();
            names.retain(|name| name.starts_with("mcp-param-"));
            names
        };
        let marked =
            |name: &str| tools(&[("t", json!({"a": {"type": "string", "x-mcp-header": name}}))]);
        mirror.learn(&marked("A"));
        assert_eq!(of(&mirror), ["mcp-param-a"]);
        mirror.learn(&marked("B"));
        assert_eq!(of(&mirror), ["mcp-param-b"]);
        mirror.learn(&tools(&[("t", json!({"a": {"type": "string"}}))]));
        assert!(of(&mirror).is_empty());
    }
}
