//! Which tool to call, and with what.

use serde::Serialize;
use serde_json::{Map, Value, json};

/// A tool and the arguments to call it with.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ToolCall {
    /// The tool's name.
    pub name: String,
    /// Its arguments.
    pub arguments: Value,
}

impl ToolCall {
    /// The parameters of `tools/call`.
    pub fn params(&self) -> Value {
        json!({ "name": self.name, "arguments": self.arguments })
    }

    /// A call of a tool that was named; arguments that were not given are made up from its schema.
    pub fn named(tools: &[Value], name: &str, arguments: Option<&Value>) -> Option<ToolCall> {
        let tool = tools.iter().find(|tool| tool["name"] == name)?;
        let arguments = match arguments {
            Some(given) => given.clone(),
            None => made_up(&tool["inputSchema"])?,
        };
        Some(ToolCall {
            name: name.into(),
            arguments,
        })
    }

    /// What could be called, the most harmless first: tools that say they only read, tools without
    /// required arguments. A tool that says it destroys is never chosen.
    pub fn candidates(tools: &[Value]) -> Vec<ToolCall> {
        let mut found: Vec<(usize, ToolCall)> = tools
            .iter()
            .filter(|tool| tool["annotations"]["destructiveHint"] != true)
            .filter_map(|tool| {
                let schema = &tool["inputSchema"];
                let reads = tool["annotations"]["readOnlyHint"] == true;
                let required = schema["required"].as_array().map_or(0, Vec::len);
                let name = tool["name"].as_str()?.to_owned();
                let call = ToolCall {
                    name,
                    arguments: made_up(schema)?,
                };
                Some((2 * required + usize::from(!reads), call))
            })
            .collect();
        found.sort_by_key(|(rank, _)| *rank);
        found.into_iter().map(|(_, call)| call).collect()
    }
}

/// The smallest arguments a schema accepts, as far as can be told.
fn made_up(schema: &Value) -> Option<Value> {
    let made = value(schema, schema, 0)?;
    made.is_object().then_some(made)
}

fn value(schema: &Value, root: &Value, depth: usize) -> Option<Value> {
    if depth > 16 {
        return None;
    }
    if let Some(path) = schema["$ref"].as_str() {
        return value(root.pointer(path.strip_prefix('#')?)?, root, depth + 1);
    }
    for key in ["const", "default"] {
        if let Some(given) = schema.get(key) {
            return Some(given.clone());
        }
    }
    for key in ["enum", "examples"] {
        if let Some(first) = schema[key].as_array().and_then(|list| list.first()) {
            return Some(first.clone());
        }
    }
    for key in ["anyOf", "oneOf", "allOf"] {
        if let Some(options) = schema[key].as_array() {
            return options
                .iter()
                .find_map(|option| value(option, root, depth + 1));
        }
    }
    let kind = match &schema["type"] {
        Value::Array(kinds) => kinds.iter().find(|kind| *kind != "null")?.as_str()?,
        Value::String(kind) => kind,
        _ => "object",
    };
    Some(match kind {
        "string" => string(schema),
        "integer" | "number" => number(schema),
        "boolean" => false.into(),
        "null" => Value::Null,
        "array" => {
            let least = schema["minItems"].as_u64().unwrap_or(0).min(100);
            let item = |_| value(&schema["items"], root, depth + 1);
            (0..least).map(item).collect::<Option<Vec<Value>>>()?.into()
        }
        _ => {
            let required = schema["required"].as_array().into_iter().flatten();
            let mut object = Map::new();
            for name in required.filter_map(Value::as_str) {
                let made = value(&schema["properties"][name], root, depth + 1)?;
                object.insert(name.into(), made);
            }
            object.into()
        }
    })
}

fn string(schema: &Value) -> Value {
    let known = match schema["format"].as_str() {
        Some("uri" | "url") => "https://example.com/",
        Some("email") => "someone@example.com",
        Some("date") => "2026-01-01",
        Some("date-time") => "2026-01-01T00:00:00Z",
        Some("uuid") => "00000000-0000-4000-8000-000000000000",
        _ => "outlive check",
    };
    let least = schema["minLength"].as_u64().unwrap_or(0).min(10_000) as usize;
    let most = schema["maxLength"].as_u64().unwrap_or(u64::MAX) as usize;
    let text: String = known
        .chars()
        .chain(std::iter::repeat('x'))
        .take(least.max(known.len()))
        .collect();
    text.chars().take(most).collect::<String>().into()
}

fn number(schema: &Value) -> Value {
    let least = schema["minimum"].as_f64();
    let above = schema["exclusiveMinimum"].as_f64().map(|n| n + 1.0);
    let most = schema["maximum"].as_f64().unwrap_or(1.0);
    let chosen = least.or(above).unwrap_or(most.min(1.0));
    match chosen.fract() == 0.0 {
        true => (chosen as i64).into(),
        false => chosen.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_are_made_up_from_the_schema() {
        let schema = json!({
            "type": "object",
            "$defs": { "side": { "enum": ["left", "right"] } },
            "properties": {
                "text": { "type": "string", "maxLength": 3 },
                "count": { "type": "integer", "minimum": 5 },
                "side": { "$ref": "#/$defs/side" },
                "either": { "anyOf": [{ "type": "null" }, { "type": "string" }] },
                "many": { "type": "array", "minItems": 2, "items": { "type": "boolean" } },
                "inner": { "type": "object", "required": ["x"], "properties": { "x": { "type": "number" } } },
                "optional": { "type": "string" },
            },
            "required": ["text", "count", "side", "either", "many", "inner"],
        });
        let expected = json!({
            "text": "out", "count": 5, "side": "left", "either": null,
            "many": [false, false], "inner": { "x": 1 },
        });
        assert_eq!(made_up(&schema), Some(expected));
    }

    #[test]
    fn a_schema_that_never_ends_is_given_up() {
        let schema = json!({
            "type": "object", "required": ["self"], "properties": { "self": { "$ref": "#" } },
        });
        assert_eq!(made_up(&schema), None);
    }

    #[test]
    fn the_most_harmless_tool_comes_first() {
        let none = json!({ "type": "object" });
        let one = json!({ "type": "object", "required": ["a"], "properties": { "a": { "type": "string" } } });
        let tools = [
            json!({ "name": "write", "inputSchema": one }),
            json!({ "name": "drop", "inputSchema": none, "annotations": { "destructiveHint": true } }),
            json!({ "name": "touch", "inputSchema": none }),
            json!({ "name": "look", "inputSchema": none, "annotations": { "readOnlyHint": true } }),
        ];
        let names: Vec<String> = ToolCall::candidates(&tools)
            .into_iter()
            .map(|c| c.name)
            .collect();
        assert_eq!(names, ["look", "touch", "write"]);
    }
}
