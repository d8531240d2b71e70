//! Which arguments of a call a client has to repeat in headers (2026-07-28, `x-mcp-header`).

pub(crate) use outlive_core::protocol::mirrored::{Mirrored, is_marked};
use serde_json::Value;

/// The arguments of the tool with this definition that are to be repeated.
pub(crate) fn mirrored(definition: &[u8]) -> Vec<Mirrored> {
    if !is_marked(definition) {
        return Vec::new();
    }
    let definition: Value = serde_json::from_slice(definition).unwrap_or_default();
    of_schema(&definition["inputSchema"])
}

/// The same for the tool with this schema. Where a mark is invalid nothing is: no client has such a tool in its list.
pub(crate) fn of_schema(schema: &Value) -> Vec<Mirrored> {
    outlive_core::protocol::mirrored::mirrored(schema).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn nothing_is_expected_of_a_tool_that_no_client_may_list() {
        let of = |mark: &str, kind: &str| {
            let schema = json!({"properties": {"a": {"type": kind, "x-mcp-header": mark}}});
            let definition = json!({"name": "t", "inputSchema": schema});
            mirrored(definition.to_string().as_bytes())
        };
        let expected = Mirrored {
            header: "mcp-param-a".into(),
            path: vec!["a".into()],
        };
        assert_eq!(of("A", "string"), [expected]);
        assert_eq!(of("A", "number"), []);
        assert_eq!(of("a b", "string"), []);
    }
}
