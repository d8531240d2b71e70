//! The server that the official conformance suite wants to see.
//!
//! ```console
//! $ cargo run -p outlive --features http-server --example conformance -- 127.0.0.1:3001
//! ```
//!
//! It prints where it listens (port 0: any), and ends when its standard input does. With `stdio` in place of an
//! address it speaks over its standard streams. What the suite asks for is in `docs/conformance.md`.

mod content;
mod questions;

use std::io::Read as _;
use std::time::Duration;

use outlive::Server;
use outlive::model::{LogLevel, RpcError, Tool};
use outlive::server::{Builder, Ctx};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

#[derive(Deserialize, JsonSchema)]
struct Region {
    region: String,
}

fn server() -> Server {
    let server = Server::builder("outlive-conformance", "1.0.0");
    questions::add(content::add(telling(server))).build()
}

/// Tools that tell the client things while they work, or change what is offered.
fn telling(server: Builder) -> Builder {
    let mut mirrored = Tool::new("test_x_mcp_header");
    mirrored.description = Some("Has an argument that is repeated in a header.".into());
    mirrored.input_schema = json!({
        "type": "object",
        "properties": { "region": { "type": "string", "x-mcp-header": "Region" } },
        "required": ["region"],
    });
    server
        .tool("test_simple_text", "Returns a text.", |_, (): ()| async {
            "This is a simple text response for testing."
        })
        .tool("test_tool_with_progress", "Says how far it is.", progress)
        .tool("test_tool_with_logging", "Writes log messages.", logging)
        .tool(
            "test_logging_tool",
            "Writes a log message.",
            |ctx, (): ()| async move {
                ctx.log(LogLevel::Info, "called");
                "logged"
            },
        )
        .tool(
            "test_streaming_elicitation",
            "Sends something first.",
            |ctx, (): ()| async move {
                ctx.progress(1.0, None);
                "done"
            },
        )
        .tool(
            "test_reconnection",
            "Lets the client come back for its answer.",
            |ctx, (): ()| async move {
                ctx.hang_up();
                tokio::time::sleep(Duration::from_secs(1)).await;
                "The answer came over another connection."
            },
        )
        .tool(
            "test_missing_capability",
            "Needs sampling.",
            missing_capability,
        )
        .tool(
            "test_trigger_tool_change",
            "Changes the tools.",
            |ctx, (): ()| async move {
                ctx.server()
                    .add_tool("passing", "Comes and goes.", |_, (): ()| async {});
                ctx.server().remove_tool("passing");
                "changed"
            },
        )
        .tool(
            "test_trigger_prompt_change",
            "Changes the prompts.",
            |ctx, (): ()| async move {
                let prompt = outlive::model::Prompt::new("passing");
                ctx.server()
                    .add_prompt(prompt, |_, _: NoArguments| async { "" });
                ctx.server().remove_prompt("passing");
                "changed"
            },
        )
        .tool_with(mirrored, |_, region: Region| async move { region.region })
}

#[derive(Deserialize, JsonSchema)]
struct NoArguments {}

async fn progress(ctx: Ctx, (): ()) -> &'static str {
    for done in [0.0, 50.0, 100.0] {
        ctx.progress(done, Some(100.0));
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    "done"
}

async fn logging(ctx: Ctx, (): ()) -> &'static str {
    for words in ["started", "processing", "completed"] {
        ctx.log(LogLevel::Info, words);
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    "done"
}

async fn missing_capability(ctx: Ctx, (): ()) -> Result<&'static str, RpcError> {
    let able: Value = serde_json::from_slice(&ctx.peer().capabilities).unwrap_or_default();
    match able["sampling"].is_object() {
        true => Ok("The client can sample."),
        false => Err(RpcError::new(-32021, "The tool needs sampling.")
            .with_data(json!({ "requiredCapabilities": { "sampling": {} } }))),
    }
}

#[tokio::main]
async fn main() -> std::io::Result<()> {
    let address = std::env::args().nth(1).unwrap_or("127.0.0.1:3001".into());
    let server = server();
    if address == "stdio" {
        return server.serve_stdio().await;
    }
    let listening = server.http().bind(address).await?;
    println!("http://{}/mcp", listening.local_addr());
    let handle = server.handle();
    std::thread::spawn(move || {
        let _ = std::io::stdin().read_to_end(&mut Vec::new());
        handle.shutdown();
    });
    listening.serve().await
}
