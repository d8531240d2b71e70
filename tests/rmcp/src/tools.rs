//! An rmcp server behind guarded streams, with the tools that the tests need.

use std::borrow::Cow;
use std::fs::OpenOptions;
use std::io::Write;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;

use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock, Implementation,
    ListToolsResult, PaginatedRequestParams, ProgressNotificationParam, ServerCapabilities,
    ServerConfig, Tool, ToolAnnotations,
};
use rmcp::service::RequestContext;
use rmcp::{ErrorData, RoleServer, ServerHandler};
use serde_json::{Map, Value, json};

#[tokio::main(worker_threads = 2)]
async fn main() -> std::io::Result<()> {
    outlive::rmcp::serve_stdio(Tools).await
}

struct Tools;

impl ServerHandler for Tools {
    fn get_info(&self) -> ServerConfig {
        let capabilities = ServerCapabilities::builder().enable_tools().build();
        ServerConfig::new(capabilities).with_server_info(Implementation::new("tools", "1.0.0"))
    }

    async fn list_tools(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        let risky = ["ping", "pid", "linger", "print", "panic", "steps"].map(tool);
        let safe = tool("look").with_annotations(ToolAnnotations::new().read_only(true));
        Ok(ListToolsResult::with_all_items(
            risky.into_iter().chain([safe]).collect(),
        ))
    }

    async fn call_tool(
        &self,
        call: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let arguments = call.arguments.unwrap_or_default();
        let text: Cow<'static, str> = match &*call.name {
            "ping" => "pong".into(),
            "pid" => std::process::id().to_string().into(),
            "linger" => linger(&arguments, &context).await.into(),
            "look" => look(&arguments).await.into(),
            "print" => print().into(),
            "panic" => panic!("as asked"),
            "steps" => steps(&context).await.into(),
            other => {
                let words = format!("there is no tool {other}");
                return Err(ErrorData::invalid_params(words, None));
            }
        };
        Ok(CallToolResult::success(vec![ContentBlock::text(text)]).into())
    }
}

fn tool(name: &'static str) -> Tool {
    let mut schema = Map::new();
    schema.insert("type".into(), json!("object"));
    Tool::new(name, name, Arc::new(schema))
}

/// Writes a line to the file named `note` for each time it is begun, and waits to be cancelled; then
/// writes another and answers nevertheless.
async fn linger(
    arguments: &Map<String, Value>,
    context: &RequestContext<RoleServer>,
) -> &'static str {
    note(arguments, "begun");
    context.ct.cancelled().await;
    note(arguments, "cancelled");
    "nobody wants to hear this"
}

/// Answers only if it has been begun before.
async fn look(arguments: &Map<String, Value>) -> &'static str {
    let before = file(arguments).is_some_and(|file| Path::new(file).exists());
    note(arguments, "begun");
    if !before {
        std::future::pending::<()>().await;
    }
    "seen"
}

/// Everything that would corrupt a protocol on standard streams.
fn print() -> &'static str {
    println!("a stray print");
    let script = "echo a stray child; cat";
    let child = Command::new("sh").args(["-c", script]).status();
    match child.is_ok_and(|status| status.success()) {
        true => "printed",
        false => "the child failed",
    }
}

async fn steps(context: &RequestContext<RoleServer>) -> &'static str {
    let Some(token) = context.meta.get_progress_token() else {
        return "nobody asked for progress";
    };
    for step in 1..=20 {
        let progress = ProgressNotificationParam::new(token.clone(), f64::from(step));
        if context.peer.notify_progress(progress).await.is_err() {
            return "progress failed";
        }
    }
    "done"
}

fn file(arguments: &Map<String, Value>) -> Option<&str> {
    arguments.get("note")?.as_str()
}

fn note(arguments: &Map<String, Value>, what: &str) {
    if let Some(file) = file(arguments) {
        let file = OpenOptions::new().create(true).append(true).open(file);
        file.and_then(|mut file| writeln!(file, "{what}"))
            .expect("the note can be written");
    }
}
