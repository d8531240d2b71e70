//! Which arguments of a tool are repeated in headers (2026-07-28, Streamable HTTP, `x-mcp-header`).
//!
//! A property of the input schema is marked with the name of its header. The marks of a tool are valid together or not
//! at all: a client has to leave a tool with an invalid mark out of the list, so a server expects no header for it.

use memchr::memmem;
use serde_json::Value;

use super::header::{MARK, param};

/// An argument that is repeated in a header.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mirrored {
    /// The name of the header, in lower case.
    pub header: String,
    /// The keys that lead to the argument.
    pub path: Vec<String>,
}

/// Whether anything in this text may be marked.
pub fn is_marked(json: &[u8]) -> bool {
    memmem::find(json, MARK.as_bytes()).is_some()
}

/// The arguments of the tool with this input schema that are repeated in headers; what is wrong with its marks, if
/// something is.
pub fn mirrored(schema: &Value) -> Result<Vec<Mirrored>, &'static str> {
    let mut found = Vec::new();
    find(schema, &mut Vec::new(), &mut found)?;
    if found.len() != count(schema) {
        return Err("x-mcp-header stands where no property is");
    }
    for (i, it) in found.iter().enumerate() {
        if found[..i].iter().any(|other| other.header == it.header) {
            return Err("x-mcp-header names the same header twice");
        }
    }
    Ok(found)
}

/// Collects the marks that are reached by `properties` alone.
fn find(
    schema: &Value,
    path: &mut Vec<String>,
    found: &mut Vec<Mirrored>,
) -> Result<(), &'static str> {
    if let Some(mark) = schema.get(MARK)
        && !path.is_empty()
    {
        let name = mark.as_str().filter(|name| !name.is_empty());
        let name = name.ok_or("x-mcp-header is empty or no text")?;
        if !name.bytes().all(is_token) {
            return Err("x-mcp-header cannot be the name of a header");
        }
        let kind = schema["type"].as_str();
        if !matches!(kind, Some("string" | "integer" | "boolean")) {
            return Err("x-mcp-header is on a parameter that is no string, integer or boolean");
        }
        found.push(Mirrored {
            header: param(name),
            path: path.clone(),
        });
    }
    for (key, property) in schema["properties"].as_object().into_iter().flatten() {
        path.push(key.clone());
        find(property, path, found)?;
        path.pop();
    }
    Ok(())
}

/// How many marks there are, wherever they stand. A property may itself be called so.
fn count(value: &Value) -> usize {
    match value {
        Value::Object(members) => members
            .iter()
            .map(|(key, value)| match (key.as_str(), value) {
                ("properties", Value::Object(properties)) => properties.values().map(count).sum(),
                (MARK, _) => 1,
                ("default" | "const" | "enum" | "examples", _) => 0,
                _ => count(value),
            })
            .sum(),
        Value::Array(values) => values.iter().map(count).sum(),
        _ => 0,
    }
}

/// Whether this may stand in the name of a header (RFC 9110, `tchar`).
fn is_token(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn of(properties: Value) -> Result<Vec<(String, String)>, &'static str> {
        let found = mirrored(&json!({"type": "object", "properties": properties}))?;
        let pairs = found.into_iter().map(|it| (it.header, it.path.join(".")));
        Ok(pairs.collect())
    }

    #[test]
    fn marked_properties_are_found_with_their_paths() {
        let found = of(json!({
            "a": {"type": "string", "x-mcp-header": "Region-1"},
            "b": {"properties": {"c": {"type": "integer", "x-mcp-header": "C"}}},
            "d": {"type": "boolean", "x-mcp-header": "!#$%&'*+-.^_`|~"},
            "x-mcp-header": {"type": "string"},
            "e": {"default": {"x-mcp-header": 1}},
        }));
        let expected = [
            ("mcp-param-region-1", "a"),
            ("mcp-param-c", "b.c"),
            ("mcp-param-!#$%&'*+-.^_`|~", "d"),
        ];
        let expected = expected.map(|(header, path)| (header.to_string(), path.to_string()));
        let mut found = found.expect("they are valid");
        found.sort_by(|a, b| a.1.cmp(&b.1));
        assert_eq!(found, expected);
    }

    #[test]
    fn one_invalid_mark_makes_all_of_a_tool_invalid() {
        let good = json!({"type": "string", "x-mcp-header": "Good"});
        for (bad, why) in [
            (json!({"type": "string", "x-mcp-header": ""}), "empty"),
            (json!({"type": "string", "x-mcp-header": 7}), "no text"),
            (
                json!({"type": "string", "x-mcp-header": "a b"}),
                "the name of a header",
            ),
            (
                json!({"type": "string", "x-mcp-header": "ä"}),
                "the name of a header",
            ),
            (
                json!({"type": "number", "x-mcp-header": "A"}),
                "no string, integer or boolean",
            ),
            (
                json!({"x-mcp-header": "A"}),
                "no string, integer or boolean",
            ),
            (json!({"type": "string", "x-mcp-header": "GOOD"}), "twice"),
            (
                json!({"items": {"type": "string", "x-mcp-header": "A"}}),
                "where no property is",
            ),
            (
                json!({"anyOf": [{"properties": {"b": good}}]}),
                "where no property is",
            ),
        ] {
            let found = of(json!({"good": good, "bad": bad}));
            assert!(found.is_err_and(|it| it.contains(why)), "{bad}");
        }
        let at_the_root = json!({"x-mcp-header": "A", "properties": {"good": good}});
        assert!(mirrored(&at_the_root).is_err());
        assert_eq!(mirrored(&json!({})), Ok(Vec::new()));
        assert_eq!(mirrored(&Value::Null), Ok(Vec::new()));
    }
}
