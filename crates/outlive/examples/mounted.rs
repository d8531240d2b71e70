//! A server beside the pages of a web application, in one router of `axum`.
//!
//! ```console
//! $ cargo run -p outlive --features tower --example mounted
//! $ curl http://127.0.0.1:8000/
//! $ outlive run http://127.0.0.1:8000/mcp
//! ```

use std::io;

use axum::Router;
use axum::routing::get;
use outlive::Server;
use tokio::net::TcpListener;

#[tokio::main]
async fn main() -> io::Result<()> {
    let server = Server::builder("greeter", "1.0.0")
        .tool("greet", "Greets whoever calls.", |_, (): ()| async {
            "Hello!"
        })
        .build();
    let app = Router::new()
        .route("/", get(|| async { "There is an MCP server at /mcp.\n" }))
        .route_service("/mcp", server.http().service()?);
    let listener = TcpListener::bind("127.0.0.1:8000").await?;
    axum::serve(listener, app).await
}
