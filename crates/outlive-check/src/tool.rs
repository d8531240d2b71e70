//! Which tool to call, and with what.

use serde::Serialize;
use serde_json::{Value, json};

use crate::arguments::{Prose, made_up};

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
            None => made_up(&tool["inputSchema"], Prose::Read)?,
        };
        Some(ToolCall {
            name: name.into(),
            arguments,
        })
    }

    /// What could be called, the most harmless first: tools that say they only read come before others, and tools
    /// with few required arguments before those with many. A tool that says it destroys is never chosen, nor is one
    /// whose name says that it changes something, unless it says that it only reads. Each tool is there with
    /// the arguments its descriptions suggest, and with plain ones.
    pub fn candidates(tools: &[Value]) -> Vec<ToolCall> {
        let mut ranked: Vec<(bool, usize, &str, &Value)> = tools
            .iter()
            .filter_map(|tool| {
                let name = tool["name"].as_str()?;
                let reads = tool["annotations"]["readOnlyHint"] == true;
                let destroys = tool["annotations"]["destructiveHint"] == true;
                let harmless = reads || (!destroys && !sounds_like_a_change(name));
                let schema = &tool["inputSchema"];
                let required = schema["required"].as_array().map_or(0, Vec::len);
                harmless.then_some((!reads, required, name, schema))
            })
            .collect();
        ranked.sort_by_key(|(changes, required, ..)| (*changes, *required));
        let calls = ranked.into_iter().flat_map(|(.., name, schema)| {
            let call = |prose| {
                Some(ToolCall {
                    name: name.to_owned(),
                    arguments: made_up(schema, prose)?,
                })
            };
            let mut calls: Vec<ToolCall> = [Prose::Read, Prose::Ignored]
                .into_iter()
                .filter_map(call)
                .collect();
            calls.dedup();
            calls
        });
        calls.collect()
    }
}

/// Whether a tool's name has a word in it for doing something that cannot be undone by looking away.
fn sounds_like_a_change(name: &str) -> bool {
    const LOOKS: [&str; 16] = [
        "check", "count", "describe", "echo", "fetch", "find", "get", "is", "list", "lookup",
        "ping", "query", "read", "search", "show", "view",
    ];
    let words = words(name);
    let looks = words
        .first()
        .is_some_and(|first| LOOKS.contains(&first.as_str()));
    // Alone it is arithmetic.
    let adds = words.len() > 1 && words.iter().any(|word| word == "add");
    !looks && (adds || words.iter().any(|word| CHANGES.contains(&word.as_str())))
}

/// Words for changing something.
const CHANGES: [&str; 74] = [
    "append",
    "apply",
    "approve",
    "archive",
    "assign",
    "book",
    "buy",
    "cancel",
    "clear",
    "close",
    "commit",
    "copy",
    "create",
    "delete",
    "deploy",
    "destroy",
    "disable",
    "drop",
    "edit",
    "enable",
    "erase",
    "exec",
    "execute",
    "insert",
    "install",
    "invite",
    "kill",
    "launch",
    "merge",
    "mkdir",
    "modify",
    "move",
    "notify",
    "order",
    "overwrite",
    "patch",
    "pay",
    "post",
    "publish",
    "purge",
    "push",
    "put",
    "reboot",
    "register",
    "remove",
    "rename",
    "replace",
    "reset",
    "restart",
    "restore",
    "revoke",
    "rm",
    "run",
    "save",
    "schedule",
    "sell",
    "send",
    "set",
    "shutdown",
    "start",
    "stop",
    "store",
    "submit",
    "terminate",
    "transfer",
    "truncate",
    "uninstall",
    "unlink",
    "update",
    "upload",
    "upsert",
    "wipe",
    "write",
    "unset",
];

/// The words of a name: `delete_file`, `deleteFile` and `files.delete` have two each.
fn words(name: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut before = ' ';
    for letter in name.chars() {
        let begins = letter.is_uppercase() && before.is_lowercase();
        if (begins || !letter.is_alphanumeric()) && words.last().is_some_and(|w| !w.is_empty()) {
            words.push(String::new());
        }
        if letter.is_alphanumeric()
            && let Some(word) = words.last_mut()
        {
            word.extend(letter.to_lowercase());
        }
        before = letter;
    }
    words.retain(|word| !word.is_empty());
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(tools: &[Value]) -> Vec<String> {
        let calls = ToolCall::candidates(tools).into_iter();
        calls.map(|call| call.name).collect()
    }

    #[test]
    fn the_most_harmless_tool_comes_first() {
        let none = json!({ "type": "object" });
        let one = json!({ "type": "object", "required": ["a"], "properties": { "a": { "type": "string" } } });
        let tools = [
            json!({ "name": "lookup", "inputSchema": one }),
            json!({ "name": "drop", "inputSchema": none, "annotations": { "destructiveHint": true } }),
            json!({ "name": "touch", "inputSchema": none }),
            json!({ "name": "look", "inputSchema": one, "annotations": { "readOnlyHint": true } }),
        ];
        assert_eq!(names(&tools), ["look", "touch", "lookup"]);
    }

    #[test]
    fn a_tool_that_sounds_like_a_change_is_not_called_unless_it_says_that_it_reads() {
        let tool = |name: &str| json!({ "name": name, "inputSchema": { "type": "object" } });
        for name in [
            "delete_file",
            "deleteFile",
            "files.delete",
            "send-mail",
            "add_user",
            "SET",
        ] {
            assert_eq!(names(&[tool(name)]), [""; 0], "{name}");
        }
        for name in [
            "get_order",
            "list_stop_words",
            "add",
            "echo",
            "settings",
            "current_time",
        ] {
            assert_eq!(names(&[tool(name)]), [name]);
        }
        let mut read = tool("run_query");
        read["annotations"] = json!({ "readOnlyHint": true });
        assert_eq!(names(&[read]), ["run_query"]);
    }

    /// As mcp-server-time has them.
    #[test]
    fn the_tools_of_a_real_server_are_called_with_what_their_descriptions_say() {
        let zone = |which: &str, first: &str| {
            let description =
                format!("{which} IANA timezone name (e.g., '{first}', 'Europe/London').");
            json!({ "description": description, "title": "Timezone", "type": "string" })
        };
        let hints = json!({ "readOnlyHint": true, "destructiveHint": false });
        let tools = [
            json!({ "name": "convert_time", "annotations": hints, "inputSchema": {
                "type": "object", "required": ["source_timezone", "time", "target_timezone"], "properties": {
                    "source_timezone": zone("Source", "America/New_York"),
                    "time": { "description": "Time to convert in 24-hour format (HH:MM)", "type": "string" },
                    "target_timezone": zone("Target", "Asia/Tokyo"),
                } } }),
            json!({ "name": "get_current_time", "annotations": hints, "inputSchema": {
                "type": "object", "required": ["timezone"],
                "properties": { "timezone": zone("The", "America/New_York") } } }),
        ];
        let calls = ToolCall::candidates(&tools);
        assert_eq!(calls[0].name, "get_current_time");
        assert_eq!(
            calls[0].arguments,
            json!({ "timezone": "America/New_York" })
        );
        let converting = calls.iter().find(|call| call.name == "convert_time");
        assert_eq!(
            converting.map(|call| &call.arguments),
            Some(
                &json!({ "source_timezone": "America/New_York", "time": "12:00", "target_timezone": "Asia/Tokyo" })
            ),
        );
    }
}
