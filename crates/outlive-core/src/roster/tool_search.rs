//! Search instead of listing: two tools in place of all, one that finds tools and one that calls them.
//!
//! Hosts take a limited number of tools, and models read all of them with every question. With many servers the list is
//! therefore two tools long; every other tool can still be called by its name, through `call_tool` or directly.

use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::Roster;
use crate::fingerprint::fingerprint;
use crate::protocol::List;
use crate::search::{Entry, Index};

/// The tool that finds tools.
pub const FIND: &str = "find_tools";
/// The tool that calls the tools that were found.
pub const CALL: &str = "call_tool";

/// With more tools than this, [`Expose::Auto`] searches. Cursor takes 40 to 80 tools, Windsurf 100 and VS Code 128; the
/// rest is dropped in silence.
pub const AUTO: usize = 100;

/// Tools that are found if nobody says how many.
const USUAL: usize = 8;
/// No more are told at once,
const MOST: usize = 50;
/// and no more bytes of them, but for the first.
const MOST_BYTES: usize = 128 << 10;

/// How the tools of many servers are shown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Expose {
    /// All of them in one list.
    List,
    /// As two tools, one that finds and one that calls.
    Search,
    /// In a list, unless there are more than [`AUTO`].
    #[default]
    Auto,
}

impl Expose {
    /// The roster as it is shown.
    pub fn apply(self, roster: Roster) -> Roster {
        let search = match self {
            Expose::List => false,
            Expose::Search => true,
            Expose::Auto => roster.items(List::Tools).len() > AUTO,
        };
        match search {
            true => roster.searchable(),
            false => roster,
        }
    }
}

/// What is searched.
#[derive(Clone, Debug)]
pub(super) struct ToolSearch {
    /// Made when somebody searches: rosters come and go while servers start.
    index: Arc<OnceLock<Index>>,
    pub(super) items: [Bytes; 2],
    pub(super) digest: u64,
}

#[derive(Deserialize)]
struct Tool<'a> {
    name: String,
    title: Option<String>,
    description: Option<String>,
    #[serde(borrow, rename = "inputSchema")]
    schema: Option<&'a RawValue>,
}

impl ToolSearch {
    fn new(tools: usize) -> ToolSearch {
        let items = definitions(tools);
        let digest = items
            .iter()
            .fold(0, |sum: u64, json| sum.rotate_left(1) ^ fingerprint(json));
        ToolSearch {
            index: Arc::default(),
            items,
            digest,
        }
    }
}

fn index(tools: &[Bytes]) -> Index {
    // What cannot be read keeps its place.
    let told: Vec<Option<Tool<'_>>> = tools.iter().map(read).collect();
    Index::new(told.iter().map(|tool| match tool {
        Some(tool) => Entry {
            name: &tool.name,
            title: tool.title.as_deref(),
            description: tool.description.as_deref(),
            schema: tool.schema.map_or(&[], |schema| schema.get().as_bytes()),
        },
        None => Entry::default(),
    }))
}

fn read(json: &Bytes) -> Option<Tool<'_>> {
    serde_json::from_slice(json).ok()
}

/// The two tools. How many there are behind them is not told exactly, or the list would change with each of them.
fn definitions(tools: usize) -> [Bytes; 2] {
    let about = match tools {
        0..=9 => "a few".to_owned(),
        _ => format!("more than {}", tools / 10 * 10),
    };
    let find = json!({
        "name": FIND,
        "title": "Find tools",
        "description": format!(
            "Finds tools for a task. There are {about} tools, and none of them is listed: describe what you want to do, \
             and this returns the tools that fit best, with their names, descriptions and input schemas. Call one of \
             them with {CALL}."
        ),
        "inputSchema": {
            "type": "object",
            "properties": {
                "query": {
                    "type": "string",
                    "description": "What you want to do, in a few words, or the name of a tool."
                },
                "limit": {
                    "type": "integer",
                    "minimum": 1,
                    "maximum": MOST,
                    "default": USUAL,
                    "description": "How many tools to return at most."
                }
            },
            "required": ["query"]
        },
        "annotations": { "readOnlyHint": true, "openWorldHint": false }
    });
    let call = json!({
        "name": CALL,
        "title": "Call a tool",
        "description": format!("Calls a tool that {FIND} has found, and returns what that tool returns."),
        "inputSchema": {
            "type": "object",
            "properties": {
                "name": { "type": "string", "description": format!("The name of the tool, as {FIND} returned it.") },
                "arguments": {
                    "type": "object",
                    "description": "The arguments of the tool, as its input schema wants them."
                }
            },
            "required": ["name"]
        }
    });
    [find, call].map(|tool| tool.to_string().into())
}

#[derive(Deserialize)]
struct Question {
    query: String,
    limit: Option<f64>,
}

impl Roster {
    /// The same roster with two tools in its list: one that finds tools, and one that calls them.
    pub fn searchable(mut self) -> Roster {
        self.search = Some(ToolSearch::new(
            self.lists[List::Tools as usize].items().len(),
        ));
        self
    }

    /// Whether tools are searched and not listed.
    pub fn is_searchable(&self) -> bool {
        self.search.is_some()
    }

    /// The result of a call of [`FIND`] with these arguments, which are JSON.
    pub fn find_tools(&self, arguments: &[u8]) -> Vec<u8> {
        let Some(search) = &self.search else {
            return failure("Tools are not searched here: list them.");
        };
        let Ok(question) = serde_json::from_slice::<Question>(arguments) else {
            return failure(
                "Nothing was searched for: `query` must be a string that says what you want to do, and `limit`, if there is \
                 one, a number.",
            );
        };
        let limit = question.limit.map_or(USUAL, |limit| limit as usize);
        let all = self.lists[List::Tools as usize].items();
        let index = search.index.get_or_init(|| index(all));
        let found = index.find(&question.query, limit.clamp(1, MOST));
        let mut tools = Vec::new();
        let mut bytes = 0;
        for found in &found {
            let Some(json) = all.get(found.position) else {
                continue;
            };
            let json = for_model(json);
            bytes += json.len();
            if bytes > MOST_BYTES && !tools.is_empty() {
                break;
            }
            tools.push(json);
        }
        let tools = format!("[{}]", tools.join(","));
        let mut words = match found.is_empty() {
            true => format!(
                "No tool fits. There are {} tools; say it in other words, or name the server.",
                all.len()
            ),
            false => format!("Call one of these with {CALL}:\n{tools}"),
        };
        let unknown: Vec<&str> = self.unknown().map(|(_, name)| name).take(5).collect();
        if !unknown.is_empty() {
            words.push_str("\nNothing is known yet of the tools of ");
            words.push_str(&unknown.join(", "));
            words.push_str(", which could not be reached so far; search again later.");
        }
        format!(
            r#"{{"content":[{{"type":"text","text":{}}}],"structuredContent":{{"tools":{tools}}}}}"#,
            Value::from(words)
        )
        .into_bytes()
    }
}

/// A tool without what nobody needs to call it: some describe their results at great length.
fn for_model(json: &[u8]) -> String {
    let mut tool: Value = serde_json::from_slice(json).unwrap_or_default();
    if let Some(members) = tool.as_object_mut() {
        members.retain(|name, _| {
            matches!(
                &**name,
                "name" | "title" | "description" | "inputSchema" | "annotations"
            )
        });
    }
    tool.to_string()
}

/// A result that tells a model what it did wrong.
fn failure(sentence: &str) -> Vec<u8> {
    json!({ "content": [{ "type": "text", "text": sentence }], "isError": true })
        .to_string()
        .into_bytes()
}
