//! The echo server and its client on rmcp.
//!
//! usage: `sdk-rmcp many|one legacy|modern stdio|pipes`: the kind of runtime, the era of the protocol, and
//! which of its two transports for standard input and output the server uses
//! or: `sdk-rmcp listen ADDRESS sessions|stateless`: only the server, over HTTP

use std::sync::Arc;

use hyper::server::conn::http1;
use hyper_util::rt::TokioIo;
use hyper_util::service::TowerToHyperService;
use outlive_bench_sdk::{Counting, Echo, Failure, allocations, obey, runtime, server};
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock, ListToolsResult,
    PaginatedRequestParams, ProtocolVersion, ServerCapabilities, ServerConfig, Tool,
};
use rmcp::service::{
    ClientLifecycleMode, RequestContext, RoleClient, RoleServer, RunningService,
    serve_client_with_lifecycle,
};
use rmcp::transport::streamable_http_server::session::local::LocalSessionManager;
use rmcp::transport::{
    StreamableHttpServerConfig, StreamableHttpService, TokioChildProcess, stdio, stdio_pipes,
};
use rmcp::{ErrorData, ServerHandler, ServiceExt};
use serde_json::{Map, Value};
use tokio::net::TcpListener;

#[global_allocator]
static ALLOCATOR: Counting = Counting;

fn main() -> Result<(), Failure> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match words[..] {
        ["serve", kind, transport] => runtime(kind)?.block_on(serve(transport)),
        ["listen", address, mode] => runtime("many")?.block_on(listen(address, mode)),
        [kind, era, transport] => runtime(kind)?.block_on(drive(kind, era, transport)),
        _ => Err("usage: sdk-rmcp many|one legacy|modern stdio|pipes, or listen ADDRESS sessions|stateless".into()),
    }
}

async fn serve(transport: &str) -> Result<(), Failure> {
    match transport {
        "pipes" => EchoServer.serve(stdio_pipes()).await?.waiting().await?,
        _ => EchoServer.serve(stdio()).await?.waiting().await?,
    };
    Ok(())
}

/// Without sessions it answers in JSON, which is the fastest it has.
async fn listen(address: &str, mode: &str) -> Result<(), Failure> {
    let sessions = mode == "sessions";
    let config = StreamableHttpServerConfig::default()
        .with_legacy_session_mode(sessions)
        .with_json_response(!sessions);
    let service = StreamableHttpService::new(
        || Ok(EchoServer),
        LocalSessionManager::default().into(),
        config,
    );
    let service = TowerToHyperService::new(service);
    let listener = TcpListener::bind(address).await?;
    loop {
        let (stream, _) = listener.accept().await?;
        stream.set_nodelay(true)?;
        let service = service.clone();
        tokio::spawn(async move {
            let connection = http1::Builder::new().serve_connection(TokioIo::new(stream), service);
            // A client that vanishes is no failure of the server.
            let _ = connection.await;
        });
    }
}

struct EchoServer;

impl ServerHandler for EchoServer {
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
        let tools = ["echo", "allocations"].map(|name| Tool::new(name, "", schema.clone()));
        Ok(ListToolsResult::with_all_items(tools.to_vec()))
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let text = match &*request.name {
            "echo" => match request.arguments.and_then(|mut all| all.remove("text")) {
                Some(Value::String(text)) => text,
                _ => return Err(ErrorData::invalid_params("no text", None)),
            },
            _ => allocations().to_string(),
        };
        Ok(CallToolResult::success(vec![ContentBlock::text(text)]).into())
    }
}

async fn drive(kind: &str, era: &str, transport: &str) -> Result<(), Failure> {
    let server = tokio::process::Command::from(server(&[kind, transport])?);
    let lifecycle = match era {
        "modern" => ClientLifecycleMode::Discover {
            preferred_versions: vec![ProtocolVersion::V_2026_07_28],
        },
        _ => ClientLifecycleMode::Initialize,
    };
    let child = TokioChildProcess::new(server)?;
    obey(Rmcp(
        serve_client_with_lifecycle((), child, lifecycle).await?,
    ))
    .await
}

struct Rmcp(RunningService<RoleClient, ()>);

impl Rmcp {
    /// Calls a tool and reads the text it answers with.
    async fn call<R>(
        &self,
        tool: &'static str,
        arguments: Map<String, Value>,
        read: impl Fn(&str) -> R + Send,
    ) -> Result<R, Failure> {
        let params = CallToolRequestParams::new(tool).with_arguments(arguments);
        let result = self.0.call_tool(params).await?;
        let text = result.content.first().and_then(|content| content.as_text());
        Ok(read(text.map_or("", |text| &text.text)))
    }
}

impl Echo for Rmcp {
    async fn echo(&self, text: &str) -> Result<usize, Failure> {
        let mut arguments = Map::new();
        arguments.insert("text".into(), text.into());
        self.call("echo", arguments, str::len).await
    }

    async fn allocations(&self) -> Result<u64, Failure> {
        let count = self.call("allocations", Map::new(), |text| text.parse());
        Ok(count.await??)
    }
}
