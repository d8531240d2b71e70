//! The official Rust SDK as a host: a server killed in the middle of a call, a call dropped by its caller.
//!
//! usage: `rmcp-host SCRATCH_FOLDER COMMAND ARG…`; prints one JSON object with what the host saw. The peer tests run it
//! with `outlive run -- SERVER` as the command and judge what it prints. `rmcp-host --plan FILE COMMAND ARG…` makes the
//! calls of a [plan] instead.

mod plan;

use std::error::Error;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use rmcp::ServiceError;
use rmcp::model::{CallToolRequestParams, CallToolResult, ProtocolVersion};
use rmcp::service::{ClientLifecycleMode, RoleClient, RunningService, serve_client_with_lifecycle};
use rmcp::transport::TokioChildProcess;
use serde_json::{Value, json};
use tokio::process::Command;

type Client = RunningService<RoleClient, ()>;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let mut args = std::env::args_os().skip(1);
    let first = args.next();
    let has_plan = first.as_deref().is_some_and(|word| word == "--plan");
    let file = match has_plan {
        true => args.next(),
        false => first,
    };
    let (Some(scratch), Some(command)) = (file, args.next()) else {
        return Err("usage: rmcp-host SCRATCH_FOLDER|--plan FILE COMMAND ARG…".into());
    };
    let scratch = Path::new(&scratch);
    let mut server = Command::new(command);
    server.args(args).stderr(Stdio::inherit());
    let mut client = serve_client_with_lifecycle(
        (),
        TokioChildProcess::new(server)?,
        ClientLifecycleMode::Auto {
            preferred_versions: vec![ProtocolVersion::V_2026_07_28],
            legacy_version: None,
        },
    )
    .await?;
    if has_plan {
        println!("{}", plan::make(&client, scratch).await?);
        client.close().await?;
        return Ok(());
    }

    let pid = text(&client, "pid").await?;
    let killed = {
        let call = client.call_tool(linger(&scratch.join("killed")));
        tokio::pin!(call);
        tokio::select! {
            early = &mut call => early,
            () = appearance(scratch.join("killed")) => {
                Command::new("sh").arg("-c").arg(format!("kill -KILL {pid}")).status().await?;
                call.await
            }
        }
    };
    let after_the_kill = text(&client, "ping").await?;
    let next_pid = text(&client, "pid").await?;

    // Losing the `select!` drops the call's future, which is how a Rust program cancels.
    let cancelled = tokio::select! {
        early = client.call_tool(linger(&scratch.join("cancelled"))) => json!({ "early": end_of(early) }),
        () = appearance(scratch.join("cancelled")) => json!({ "type": "dropped" }),
    };
    let after_the_cancel = text(&client, "ping").await?;
    let last_pid = text(&client, "pid").await?;

    let seen = json!({
        "sdk": "rmcp 3.8.0",
        "protocol": client.peer_info().map(|info| info.protocol_version.to_string()),
        "killed": end_of(killed),
        "after the kill": after_the_kill,
        "another process": next_pid != pid,
        "cancelled": cancelled,
        "after the cancel": after_the_cancel,
        "same process": last_pid == next_pid,
    });
    client.close().await?;
    println!("{seen}");
    Ok(())
}

fn linger(started: &Path) -> CallToolRequestParams {
    let mut arguments = serde_json::Map::new();
    arguments.insert("seconds".into(), 60.into());
    arguments.insert("started".into(), started.to_string_lossy().into());
    CallToolRequestParams::new("linger").with_arguments(arguments)
}

/// Waits for the file by which a tool says that it is running.
async fn appearance(file: PathBuf) {
    while !file.exists() {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

async fn text(client: &Client, tool: &'static str) -> Result<String, ServiceError> {
    let result = client.call_tool(CallToolRequestParams::new(tool)).await?;
    Ok(first_text(&result))
}

fn first_text(result: &CallToolResult) -> String {
    let text = result.content.first().and_then(|content| content.as_text());
    text.map(|text| text.text.clone()).unwrap_or_default()
}

fn end_of(call: Result<CallToolResult, ServiceError>) -> Value {
    match call {
        Ok(result) => json!({ "result": first_text(&result) }),
        Err(ServiceError::McpError(error)) => json!({
            "type": "McpError",
            "code": error.code.0,
            "message": error.message,
            "data": error.data,
        }),
        Err(other) => json!({ "type": other.to_string() }),
    }
}
