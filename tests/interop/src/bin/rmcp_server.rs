//! A server on rmcp with the tools of `tests/peers/servers/tools.py`, for the client of `outlive`.

use std::path::Path;
use std::sync::Arc;

use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock, ListToolsResult,
    PaginatedRequestParams, ProgressNotificationParam, ServerCapabilities, ServerConfig, Tool,
};
use rmcp::service::{RequestContext, RoleServer};
use rmcp::transport::stdio;
use rmcp::{ErrorData, ServerHandler, ServiceExt};
use serde_json::{Map, Value};

struct Tools;

impl ServerHandler for Tools {
    fn get_info(&self) -> ServerConfig {
        ServerConfig::new(ServerCapabilities::builder().enable_tools().build())
    }

    async fn list_tools(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        let mut schema = Map::new();
        schema.insert("type".into(), "object".into());
        let schema = Arc::new(schema);
        let names = ["ping", "pid", "echo", "fail", "count", "linger"];
        let tools = names.map(|name| Tool::new(name, "See tools.py.", schema.clone()));
        Ok(ListToolsResult::with_all_items(tools.to_vec()))
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let arguments = Value::from(request.arguments.unwrap_or_default());
        let text = match &*request.name {
            "ping" => "pong".into(),
            "pid" => std::process::id().to_string(),
            "echo" => arguments["value"].to_string(),
            "fail" => {
                let words = ContentBlock::text("this tool always fails");
                return Ok(CallToolResult::error(vec![words]).into());
            }
            "count" => count(arguments["to"].as_u64().unwrap_or_default(), context).await,
            "linger" => linger(arguments["started"].as_str().unwrap_or_default(), context).await,
            other => return Err(ErrorData::invalid_params(format!("no tool {other}"), None)),
        };
        Ok(CallToolResult::success(vec![ContentBlock::text(text)]).into())
    }
}

async fn count(to: u64, context: RequestContext<RoleServer>) -> String {
    if let Some(token) = context.meta.get_progress_token() {
        for step in 1..=to {
            let progress = ProgressNotificationParam::new(token.clone(), step as f64);
            // A client that has left wants no progress.
            let _ = context.peer.notify_progress(progress).await;
        }
    }
    format!("counted to {to}")
}

async fn linger(started: &str, context: RequestContext<RoleServer>) -> String {
    let started = Path::new(started);
    // A file that cannot be made is one the test waits for in vain.
    let _ = std::fs::write(started, "");
    context.ct.cancelled().await;
    let _ = std::fs::write(started.with_added_extension("cancelled"), "");
    "cancelled".into()
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    Tools.serve(stdio()).await?.waiting().await?;
    Ok(())
}
