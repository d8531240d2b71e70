//! A server on `rmcp` for `outlive check server`. Tools: quick, slow, ask.

use std::sync::Arc;
use std::time::Duration;

use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock, Implementation,
    ListToolsResult, PaginatedRequestParams, ProgressNotificationParam, ServerCapabilities,
    ServerConfig, Tool,
};
use rmcp::service::{RequestContext, RoleServer};
use rmcp::transport::stdio;
use rmcp::{ErrorData, ServerHandler, ServiceExt};
use serde_json::{Map, Value};

struct Tools;

impl ServerHandler for Tools {
    fn get_info(&self) -> ServerConfig {
        ServerConfig::new(ServerCapabilities::builder().enable_tools().build())
            .with_server_info(Implementation::new("rmcp", "3.8.0"))
    }

    async fn list_tools(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        let mut schema = Map::new();
        schema.insert("type".into(), "object".into());
        let schema = Arc::new(schema);
        let tools = ["quick", "slow", "ask"].map(|name| Tool::new(name, "", schema.clone()));
        Ok(ListToolsResult::with_all_items(tools.to_vec()))
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let text = match &*request.name {
            "quick" => "done".to_owned(),
            "slow" => {
                let seconds = request.arguments.unwrap_or_default().remove("seconds");
                slow(
                    seconds.as_ref().and_then(Value::as_f64).unwrap_or(2.0),
                    context,
                )
                .await
            }
            "ask" => ask(context).await?,
            other => return Err(ErrorData::invalid_params(format!("no tool {other}"), None)),
        };
        Ok(CallToolResult::success(vec![ContentBlock::text(text)]).into())
    }
}

async fn slow(seconds: f64, context: RequestContext<RoleServer>) -> String {
    let token = context.meta.get_progress_token();
    for step in 0..10 {
        if let Some(token) = &token {
            let progress = ProgressNotificationParam::new(token.clone(), f64::from(step));
            // A client that has left wants no progress.
            let _ = context.peer.notify_progress(progress).await;
        }
        let pause = Duration::from_secs_f64(seconds.clamp(0.0, 60.0) / 10.0);
        tokio::select! {
            () = tokio::time::sleep(pause) => {}
            () = context.ct.cancelled() => return "cancelled".to_owned(),
        }
    }
    "done".to_owned()
}

#[expect(
    deprecated,
    reason = "roots are what servers of every version can ask for"
)]
async fn ask(context: RequestContext<RoleServer>) -> Result<String, ErrorData> {
    let roots = context.peer.list_roots().await;
    let roots = roots.map_err(|error| ErrorData::internal_error(error.to_string(), None))?;
    Ok(roots.roots.len().to_string())
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    Tools.serve(stdio()).await?.waiting().await?;
    Ok(())
}
