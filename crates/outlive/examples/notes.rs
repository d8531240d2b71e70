//! A server whose tools are the functions of a type, and share it.
//!
//! ```console
//! $ cargo run -p outlive --example notes            # over standard streams
//! $ cargo run -p outlive --example notes -- try     # a client in the same process calls every tool
//! ```

use std::error::Error;
use std::sync::{Mutex, MutexGuard, PoisonError};

use outlive::model::LogLevel;
use outlive::schemars::JsonSchema;
use outlive::server::{Ctx, Json, ToolError};
use outlive::{Client, Server};
use serde::{Deserialize, Serialize};
use serde_json::json;

/// A note.
#[derive(Clone, Serialize, Deserialize, JsonSchema)]
struct Note {
    /// What it is about, in a few words.
    title: String,
    /// What it says.
    #[serde(default)]
    text: String,
}

/// All notes.
#[derive(Default)]
struct Notes {
    all: Mutex<Vec<Note>>,
}

#[outlive::tools]
impl Notes {
    /// Keeps a note.
    #[outlive::tool]
    async fn add(&self, ctx: &Ctx, #[serde(flatten)] note: Note) -> String {
        ctx.log(LogLevel::Info, json!({ "added": note.title }));
        let mut all = self.lock();
        all.push(note);
        format!("There are {} notes now.", all.len())
    }

    /// Finds notes.
    #[outlive::tool(read_only)]
    async fn find(
        &self,
        /// What their titles contain.
        title: String,
        /// How many at most. All, if it is left out.
        most: Option<usize>,
    ) -> Json<Vec<Note>> {
        let all = self.lock();
        let found = all.iter().filter(|note| note.title.contains(&title));
        Json(found.take(most.unwrap_or(usize::MAX)).cloned().collect())
    }

    /// Forgets the notes of this title.
    #[outlive::tool(name = "remove", idempotent)]
    fn forget(&self, title: String) -> Result<&'static str, ToolError> {
        let mut all = self.lock();
        let before = all.len();
        all.retain(|note| note.title != title);
        match all.len() < before {
            true => Ok("Forgotten."),
            false => Err(ToolError::new(format!("There is no note {title:?}."))),
        }
    }

    /// Not a tool.
    fn lock(&self) -> MutexGuard<'_, Vec<Note>> {
        self.all.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Says when notes were last sorted. (A tool can also be a function of its own.)
#[outlive::tool(read_only)]
async fn sorted() -> &'static str {
    "Never."
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let server = Server::builder("notes", "1.0.0")
        .tools(Notes::default())
        .tools(sorted {})
        .build();
    if std::env::args().nth(1).as_deref() != Some("try") {
        return Ok(server.serve_stdio().await?);
    }
    let client = Client::builder().server(&server).connect().await?;
    for (tool, arguments) in [
        ("add", json!({ "title": "milk", "text": "two bottles" })),
        ("add", json!({ "title": "bread" })),
        ("find", json!({ "title": "il" })),
        ("remove", json!({ "title": "milk" })),
        ("remove", json!({ "title": "milk" })),
        ("find", json!({ "title": "", "most": "one" })),
        ("sorted", json!({})),
    ] {
        let result = client.call(tool, arguments).await?;
        let failed = if result.is_error() { " (failed)" } else { "" };
        println!("{tool} -> {}{failed}", result.text());
    }
    client.close().await;
    Ok(())
}
