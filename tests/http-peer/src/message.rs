//! What clients of both eras say.

use serde_json::{Value, json};

/// `initialize`, by a client that can be asked.
pub fn initialize() -> Value {
    json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {
        "protocolVersion": "2025-11-25",
        "capabilities": {"elicitation": {}},
        "clientInfo": {"name": "test", "version": "1"},
    }})
}

/// `notifications/initialized`.
pub fn initialized() -> Value {
    json!({"jsonrpc": "2.0", "method": "notifications/initialized"})
}

/// A call that wants to hear of its progress.
pub fn call(id: u64, tool: &str, arguments: Value) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": {
        "name": tool, "arguments": arguments, "_meta": {"progressToken": id},
    }})
}

/// A request that speaks for itself.
pub fn modern(id: u64, method: &str, mut params: Value) -> Value {
    let meta = &mut params["_meta"];
    meta["io.modelcontextprotocol/protocolVersion"] = "2026-07-28".into();
    meta["io.modelcontextprotocol/clientCapabilities"] = json!({});
    json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params})
}

/// A call that speaks for itself, and wants to hear of its progress.
pub fn modern_call(id: u64, tool: &str, arguments: Value) -> Value {
    let meta = json!({"progressToken": id});
    let params = json!({"name": tool, "arguments": arguments, "_meta": meta});
    modern(id, "tools/call", params)
}

/// The headers that belong to a modern request.
pub fn modern_headers(request: &Value) -> Vec<(String, String)> {
    let params = &request["params"];
    let name = params["name"].as_str().or(params["uri"].as_str());
    let known = [
        ("MCP-Protocol-Version", Some("2026-07-28")),
        ("Mcp-Method", request["method"].as_str()),
        ("Mcp-Name", name),
    ];
    let given = known
        .into_iter()
        .filter_map(|(header, value)| Some((header, value?)));
    given
        .map(|(header, value)| (header.to_owned(), value.to_owned()))
        .collect()
}

/// Headers as requests take them.
pub fn as_strs(headers: &[(String, String)]) -> Vec<(&str, &str)> {
    headers
        .iter()
        .map(|(name, value)| (&**name, &**value))
        .collect()
}

/// The text of a tool's result.
#[track_caller]
pub fn text_of(answer: &Value) -> &str {
    let text = answer["result"]["content"][0]["text"].as_str();
    text.unwrap_or_else(|| panic!("no text in {answer}"))
}
