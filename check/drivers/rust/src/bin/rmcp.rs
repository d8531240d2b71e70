//! Drives the client of `rmcp`, the official Rust SDK.

use std::collections::HashMap;
use std::error::Error;
use std::process::Stdio;
use std::sync::Arc;

use outlive_check_drivers::{Errand, Errands};
use rmcp::ServiceError;
use rmcp::model::{CallToolRequestParams, CallToolResult, ProtocolVersion};
use rmcp::service::{ClientLifecycleMode, RoleClient, RunningService, serve_client_with_lifecycle};
use rmcp::transport::{StreamableHttpClientTransport, TokioChildProcess};
use serde_json::Value;
use tokio::process::Command;
use tokio::sync::Notify;

type Client = RunningService<RoleClient, ()>;

#[tokio::main(flavor = "current_thread")]
async fn main() {
    // In one workspace with us its HTTP client is built without one.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let mut errands = Errands::begin("rmcp 3.8.0");
    let mut client: Option<Client> = None;
    let mut calls: HashMap<u64, Arc<Notify>> = HashMap::new();
    while let Some(errand) = errands.next().await {
        match (errand.verb(), &client) {
            ("connect", _) => match connect(&errand).await {
                Ok(connected) => {
                    errand.ok(true);
                    client = Some(connected);
                }
                Err(error) => errand.failed("other", &error.to_string()),
            },
            ("close", _) => {
                if let Some(mut client) = client.take() {
                    let _ = client.close().await;
                }
                errand.ok(true);
            }
            (_, None) => errand.failed("other", "not connected"),
            ("list", Some(client)) => {
                let peer = client.peer().clone();
                tokio::spawn(async move {
                    match peer.list_all_tools().await {
                        Ok(tools) => errand.ok(tools
                            .iter()
                            .map(|tool| Value::from(&*tool.name))
                            .collect::<Vec<_>>()),
                        Err(error) => fail(&errand, &error),
                    }
                });
            }
            ("call", Some(client)) => {
                let (peer, dropped) = (client.peer().clone(), Arc::new(Notify::new()));
                calls.insert(errand.n, dropped.clone());
                tokio::spawn(async move {
                    let tool = errand.body["tool"].as_str().unwrap_or_default().to_owned();
                    let arguments = errand.body["arguments"].as_object().cloned();
                    let params = CallToolRequestParams::new(tool)
                        .with_arguments(arguments.unwrap_or_default());
                    // Dropping the future is how a Rust program cancels.
                    tokio::select! {
                        end = peer.call_tool(params) => match end {
                            Ok(result) => errand.ok(text(&result)),
                            Err(error) => fail(&errand, &error),
                        },
                        () = dropped.notified() => errand.failed("cancelled", "dropped"),
                    }
                });
            }
            ("cancel", Some(_)) => {
                let call = errand.body["call"].as_u64().and_then(|n| calls.get(&n));
                if let Some(dropped) = call {
                    dropped.notify_one();
                }
                errand.ok(true);
            }
            ("state", Some(client)) => errand.ok(
                match client.is_closed() || client.peer().is_transport_closed() {
                    true => "disconnected",
                    false => "connected",
                },
            ),
            (verb, Some(_)) => errand.failed("unsupported", &format!("there is no {verb}")),
        }
    }
}

async fn connect(errand: &Errand) -> Result<Client, Box<dyn Error>> {
    let lifecycle = ClientLifecycleMode::Auto {
        preferred_versions: vec![ProtocolVersion::V_2026_07_28],
        legacy_version: None,
    };
    if let Some(url) = errand.body["url"].as_str() {
        let transport = StreamableHttpClientTransport::from_uri(url);
        return Ok(serve_client_with_lifecycle((), transport, lifecycle).await?);
    }
    let words = errand.command();
    let (program, args) = words.split_first().ok_or("there is no command")?;
    let mut server = Command::new(program);
    server.args(args).stderr(Stdio::inherit());
    let transport = TokioChildProcess::new(server)?;
    Ok(serve_client_with_lifecycle((), transport, lifecycle).await?)
}

fn text(result: &CallToolResult) -> String {
    let text = result.content.first().and_then(|content| content.as_text());
    text.map(|text| text.text.clone()).unwrap_or_default()
}

fn fail(errand: &Errand, error: &ServiceError) {
    let kind = match error {
        ServiceError::McpError(_) => "answered",
        ServiceError::TransportClosed | ServiceError::TransportSend(_) => "lost",
        ServiceError::Timeout { .. } => "timeout",
        ServiceError::Cancelled { .. } => "cancelled",
        _ => "other",
    };
    errand.failed(kind, &error.to_string());
}
