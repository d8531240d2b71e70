//! The tool lists of real servers, as one list.

use std::fs;
use std::path::Path;

use serde::Deserialize;
use serde_json::value::RawValue;

use outlive_core::search::{Entry, Index};

/// A tool of one of the servers.
pub struct Tool {
    /// The server and the name that the server gave it, as in `github/create_issue`.
    pub id: String,
    /// The name under which a gateway would list it, as in `github__create_issue`.
    pub exposed: String,
    pub listed: Listed,
}

/// What the server says about it.
#[derive(Deserialize)]
pub struct Listed {
    pub name: String,
    title: Option<String>,
    description: Option<String>,
    #[serde(rename = "inputSchema")]
    schema: Box<RawValue>,
}

#[derive(Deserialize)]
struct Catalogue {
    tools: Vec<Listed>,
}

impl Tool {
    /// The tool as it is indexed, under this name.
    pub fn entry<'a>(&'a self, name: &'a str) -> Entry<'a> {
        Entry {
            name,
            title: self.listed.title.as_deref(),
            description: self.listed.description.as_deref(),
            schema: self.listed.schema.get().as_bytes(),
        }
    }
}

/// Reads the catalogue of a server, which is called `server` here.
pub fn read(server: &str, catalogue: &str) -> Vec<Tool> {
    let path =
        Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/catalogues/{catalogue}.json"));
    let text =
        fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let catalogue: Catalogue =
        serde_json::from_str(&text).unwrap_or_else(|error| panic!("{catalogue}: {error}"));
    let tools = catalogue.tools.into_iter().map(|listed| Tool {
        id: format!("{server}/{}", listed.name),
        exposed: format!("{server}__{}", listed.name),
        listed,
    });
    tools.collect()
}

/// All tools, under the names that a gateway gives them.
pub fn index(tools: &[Tool]) -> Index {
    Index::new(tools.iter().map(|tool| tool.entry(&tool.exposed)))
}
