//! Calls of a plan: all tools are listed, and those of a file are called, all at once.

use std::collections::BTreeMap;
use std::error::Error;
use std::path::Path;

use rmcp::model::CallToolRequestParams;
use serde_json::{Map, Value, json};
use tokio::task::JoinSet;

use crate::{Client, first_text};

/// Makes the calls; what the host saw.
pub async fn make(client: &Client, plan: &Path) -> Result<Value, Box<dyn Error>> {
    let plan: Vec<Value> = serde_json::from_slice(&std::fs::read(plan)?)?;
    let tools = client.list_all_tools().await?;
    let tools: Vec<_> = tools.iter().map(|tool| tool.name.to_string()).collect();
    let mut calls = JoinSet::new();
    for step in plan {
        let peer = client.peer().clone();
        calls.spawn(async move {
            let name = step["name"].as_str().unwrap_or_default().to_owned();
            let arguments: Map<String, Value> =
                step["arguments"].as_object().cloned().unwrap_or_default();
            let params = CallToolRequestParams::new(name.clone()).with_arguments(arguments);
            let end = match peer.call_tool(params).await {
                Ok(result) => json!({ "text": first_text(&result) }),
                Err(error) => json!({ "error": error.to_string() }),
            };
            (name, end)
        });
    }
    let ends: BTreeMap<String, Value> = calls.join_all().await.into_iter().collect();
    let protocol = client
        .peer_info()
        .map(|info| info.protocol_version.to_string());
    Ok(json!({ "sdk": "rmcp 3.8.0", "protocol": protocol, "tools": tools, "ends": ends }))
}
