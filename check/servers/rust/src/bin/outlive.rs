//! A server on `outlive` for `outlive check server`: over stdio, or over HTTP on the address given.
//! Tools: quick, slow, ask.

use std::time::Duration;

use outlive::Server;
use outlive::server::{Ctx, ToolError};
use schemars::JsonSchema;
use serde::Deserialize;

#[derive(Deserialize, JsonSchema)]
struct Slow {
    #[serde(default = "two")]
    seconds: f64,
}

fn two() -> f64 {
    2.0
}

fn main() -> std::io::Result<()> {
    let server = Server::builder("outlive Server", env!("CARGO_PKG_VERSION"))
        .tool("quick", "Answers.", |_, (): ()| async { "done" })
        .tool("slow", "Takes its time, and says how far it is.", slow)
        .tool("ask", "Asks the host for its roots.", ask)
        .build();
    match std::env::args().nth(1) {
        None => server.run_stdio(),
        Some(address) => tokio::runtime::Runtime::new()?.block_on(server.serve_http(address)),
    }
}

async fn slow(ctx: Ctx, slow: Slow) -> &'static str {
    for step in 0..10 {
        ctx.progress(f64::from(step), Some(10.0));
        tokio::time::sleep(Duration::from_secs_f64(
            slow.seconds.clamp(0.0, 60.0) / 10.0,
        ))
        .await;
    }
    "done"
}

async fn ask(ctx: Ctx, (): ()) -> Result<String, ToolError> {
    match ctx.roots().await {
        Ok(roots) => Ok(roots.len().to_string()),
        Err(error) => Err(error.into()),
    }
}
