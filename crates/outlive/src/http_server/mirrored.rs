//! Which arguments of a tool are repeated in headers (2026-07-28, `x-mcp-header`).

use memchr::memmem;
use serde_json::Value;

use super::Mirrored;

const MARK: &[u8] = b"x-mcp-header";

/// The arguments of the tool with this definition that are to be repeated.
pub(crate) fn mirrored(definition: &[u8]) -> Vec<Mirrored> {
    if !is_marked(definition) {
        return Vec::new();
    }
    let definition: Value = serde_json::from_slice(definition).unwrap_or_default();
    of_schema(&definition["inputSchema"])
}

/// Whether anything in this text may be marked.
pub(crate) fn is_marked(json: &[u8]) -> bool {
    memmem::find(json, MARK).is_some()
}

/// The same for the tool with this schema.
pub(crate) fn of_schema(schema: &Value) -> Vec<Mirrored> {
    let mut found = Vec::new();
    find(schema, &mut Vec::new(), &mut found);
    found
}

/// The properties that are marked: only those that a chain of `properties` leads to.
fn find(schema: &Value, path: &mut Vec<String>, found: &mut Vec<Mirrored>) {
    let Some(properties) = schema["properties"].as_object() else {
        return;
    };
    for (key, property) in properties {
        path.push(key.clone());
        if let Some(header) = property["x-mcp-header"].as_str() {
            found.push(Mirrored {
                header: header.to_owned(),
                path: path.clone(),
            });
        }
        find(property, path, found);
        path.pop();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mirrored_arguments_are_found_through_properties_only() {
        let definition = serde_json::json!({"inputSchema": {
            "properties": {
                "a": { "x-mcp-header": "A" },
                "b": { "properties": { "c": { "x-mcp-header": "C" } } },
                "d": { "items": { "x-mcp-header": "D" } },
            },
            "x-mcp-header": "no",
        }});
        let found = mirrored(definition.to_string().as_bytes());
        let paths: Vec<_> = found
            .iter()
            .map(|it| (it.header.as_str(), it.path.join(".")))
            .collect();
        assert_eq!(paths, [("A", "a".to_owned()), ("C", "b.c".to_owned())]);
    }
}
