//! An rmcp client whose server is killed under it, and an rmcp server that can bear its clients.
//!
//! `cargo run --example rmcp_survivor --features rmcp` starts itself once more as the server, with
//! `serve` as its argument, and kills that in the middle of a call.

use std::error::Error;
use std::sync::Arc;
use std::time::Duration;

use outlive::rmcp::{ErrorExt, Supervised, serve_stdio};
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock, ListToolsResult,
    PaginatedRequestParams, ServerCapabilities, ServerConfig, Tool,
};
use rmcp::service::RequestContext;
use rmcp::{ErrorData, Peer, RoleClient, RoleServer, ServerHandler, ServiceError, ServiceExt};

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    if std::env::args().nth(1).as_deref() == Some("serve") {
        return Ok(serve_stdio(Mortal).await?);
    }
    let this = std::env::current_exe()?.to_string_lossy().into_owned();
    // The one line that is different.
    let transport = Supervised::command(outlive::Command::new(this, ["serve"]));
    let link = transport.handle();
    let mut client = ().serve(transport).await?;

    println!("ping: {}", call(&client, "ping").await?);
    match call(&client, "die").await {
        Ok(words) => println!("die: {words}"),
        Err(error) => match error.outlive() {
            Some(lost) => println!("die: {}, outcome {:?}", lost.kind(), lost.outcome()),
            None => println!("die: {error}"),
        },
    }
    println!("ping: {}", call(&client, "ping").await?);
    println!("state: {:?}", link.state());
    client.close().await?;
    println!("state: {:?}", link.state());
    Ok(())
}

async fn call(client: &Peer<RoleClient>, tool: &'static str) -> Result<String, ServiceError> {
    let result = client.call_tool(CallToolRequestParams::new(tool)).await?;
    let text = result.content.first().and_then(|content| content.as_text());
    Ok(text.map(|text| text.text.clone()).unwrap_or_default())
}

/// A server that can be asked to die.
struct Mortal;

impl ServerHandler for Mortal {
    fn get_info(&self) -> ServerConfig {
        ServerConfig::new(ServerCapabilities::builder().enable_tools().build())
    }

    async fn list_tools(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        let schema = Arc::new(
            [("type".to_string(), "object".into())]
                .into_iter()
                .collect(),
        );
        let tools = [("ping", "Returns pong."), ("die", "Ends the server.")];
        let tools = tools.map(|(name, does)| Tool::new(name, does, Arc::clone(&schema)));
        Ok(ListToolsResult::with_all_items(tools.into()))
    }

    async fn call_tool(
        &self,
        call: CallToolRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        if call.name == "die" {
            tokio::time::sleep(Duration::from_millis(10)).await;
            std::process::abort();
        }
        // To standard error, where it harms nobody.
        println!("somebody called {}", call.name);
        Ok(CallToolResult::success(vec![ContentBlock::text("pong")]).into())
    }
}
