//! A client on rmcp with the server of `outlive`.
//!
//! usage: `rmcp-client SCRATCH_FOLDER auto|legacy COMMAND ARG…`; prints one JSON object with what it
//! saw, which the peer tests judge.
#![allow(deprecated)] // Roots, sampling and logging, which the newest version of the protocol does not recommend.

use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use rmcp::model::{
    CallToolRequestParams, CallToolResult, ClientCapabilities, ClientConfig,
    CreateMessageRequestParams, CreateMessageResult, ElicitRequestParams, ElicitResult,
    ElicitationAction, GetPromptRequestParams, Implementation, ListRootsResult,
    LoggingMessageNotificationParam, ProgressNotificationParam, ProtocolVersion,
    ReadResourceRequestParams, Root, SamplingMessage,
};
use rmcp::service::{
    ClientLifecycleMode, NotificationContext, RequestContext, RoleClient, RunningService,
    serve_client_with_lifecycle,
};
use rmcp::transport::TokioChildProcess;
use rmcp::{ClientHandler, ErrorData, ServiceError};
use serde_json::{Value, json};
use tokio::process::Command;

type Client = RunningService<RoleClient, Host>;

/// What the server told and asked.
#[derive(Clone, Default)]
struct Host {
    progress: Arc<Mutex<Vec<f64>>>,
    log: Arc<Mutex<Vec<Value>>>,
}

impl ClientHandler for Host {
    fn get_info(&self) -> ClientConfig {
        let able = ClientCapabilities::builder()
            .enable_roots()
            .enable_sampling()
            .enable_elicitation()
            .build();
        ClientConfig::new(able, Implementation::new("rmcp-client", "0.0.0"))
    }

    async fn list_roots(
        &self,
        _: RequestContext<RoleClient>,
    ) -> Result<ListRootsResult, ErrorData> {
        Ok(ListRootsResult::new(vec![Root::new("file:///one")]))
    }

    async fn create_message(
        &self,
        _: CreateMessageRequestParams,
        _: RequestContext<RoleClient>,
    ) -> Result<CreateMessageResult, ErrorData> {
        let said = SamplingMessage::assistant_text("it");
        Ok(CreateMessageResult::new(said, "none".into()))
    }

    async fn create_elicitation(
        &self,
        _: ElicitRequestParams,
        _: RequestContext<RoleClient>,
    ) -> Result<ElicitResult, ErrorData> {
        let form = json!({ "name": "Ada" });
        Ok(ElicitResult::new(ElicitationAction::Accept).with_content(form))
    }

    async fn on_progress(
        &self,
        told: ProgressNotificationParam,
        _: NotificationContext<RoleClient>,
    ) {
        self.progress.lock().unwrap().push(told.progress);
    }

    async fn on_logging_message(
        &self,
        told: LoggingMessageNotificationParam,
        _: NotificationContext<RoleClient>,
    ) {
        self.log.lock().unwrap().push(told.data);
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut args = std::env::args_os().skip(1);
    let (Some(scratch), Some(mode), Some(command)) = (args.next(), args.next(), args.next()) else {
        return Err("usage: rmcp-client SCRATCH_FOLDER auto|legacy COMMAND ARG…".into());
    };
    let mut server = Command::new(command);
    server.args(args);
    let host = Host::default();
    let lifecycle = match mode == "legacy" {
        true => ClientLifecycleMode::Initialize,
        false => ClientLifecycleMode::Auto {
            preferred_versions: vec![ProtocolVersion::V_2026_07_28],
            legacy_version: None,
        },
    };
    let transport = TokioChildProcess::new(server)?;
    let mut client = serve_client_with_lifecycle(host.clone(), transport, lifecycle).await?;

    let tools = client.list_all_tools().await?;
    let tools: Vec<_> = tools.iter().map(|tool| &*tool.name).collect();
    let prompts = client.list_all_prompts().await?;
    let prompts: Vec<_> = prompts.iter().map(|prompt| &*prompt.name).collect();
    let resources = client.list_all_resources().await?;
    let resources: Vec<_> = resources.iter().map(|resource| &*resource.uri).collect();
    let templates = client.list_all_resource_templates().await?;
    let templates: Vec<_> = templates.iter().map(|of| &*of.uri_template).collect();
    let greeting = client.read_resource(ReadResourceRequestParams::new("memo://greeting"));
    let greeting = json!(greeting.await?);
    let missing = client.read_resource(ReadResourceRequestParams::new("memo://missing"));
    let missing = match missing.await {
        Err(ServiceError::McpError(error)) => json!({ "code": error.code.0 }),
        other => json!(format!("{other:?}")),
    };
    let code = json!({ "code": "1" })
        .as_object()
        .cloned()
        .unwrap_or_default();
    let prompt = GetPromptRequestParams::new("review").with_arguments(code);
    let prompt = json!(client.get_prompt(prompt).await?);
    let completion = client
        .complete_prompt_simple("review", "code", "fn")
        .await?;

    let echo = call(&client, "echo", json!({ "value": "h\u{e9} \u{2028}" })).await;
    let fail = call(&client, "fail", json!({})).await;
    let unknown = call(&client, "no such tool", json!({})).await;
    let count = call(&client, "count", json!({ "to": 5 })).await;
    let roots = call(&client, "roots", json!({})).await;
    let sample = call(&client, "sample", json!({})).await;
    let ask = call(&client, "ask", json!({})).await;

    // Losing the `select!` drops the call's future, which is how a Rust program cancels.
    let started = Path::new(&scratch).join("started");
    let cancelled = tokio::select! {
        early = call(&client, "linger", json!({ "started": started })) => early,
        () = appearance(&started) => json!({ "kind": "dropped" }),
    };
    appearance(&started.with_added_extension("cancelled")).await;
    let ping = call(&client, "ping", json!({})).await;

    let seen = json!({
        "sdk": "rmcp 3.8.0",
        "protocol": client.peer_info().map(|info| info.protocol_version.to_string()),
        "tools": tools,
        "prompts": prompts,
        "resources": resources,
        "templates": templates,
        "read": greeting["contents"][0]["text"],
        "missing": missing,
        "prompt": prompt["messages"][0]["content"]["text"],
        "completion": completion,
        "echo": echo,
        "fail": fail,
        "unknown": unknown,
        "count": count,
        "progress": *host.progress.lock().unwrap(),
        "log": *host.log.lock().unwrap(),
        "roots": roots,
        "sample": sample,
        "ask": ask,
        "cancelled": cancelled,
        "ping": ping,
    });
    client.close().await?;
    println!("{seen}");
    Ok(())
}

async fn call(client: &Client, tool: &'static str, arguments: Value) -> Value {
    let arguments = arguments.as_object().cloned().unwrap_or_default();
    let params = CallToolRequestParams::new(tool).with_arguments(arguments);
    end_of(client.call_tool(params).await)
}

fn end_of(call: Result<CallToolResult, ServiceError>) -> Value {
    match call {
        Ok(result) => json!({
            "is error": result.is_error.unwrap_or(false),
            "text": json!(result.content)[0]["text"],
        }),
        Err(ServiceError::McpError(error)) => {
            json!({ "code": error.code.0, "message": error.message })
        }
        Err(other) => json!({ "kind": other.to_string() }),
    }
}

/// Waits for the file by which a tool says how far it is.
async fn appearance(file: &Path) {
    while !file.exists() {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}
