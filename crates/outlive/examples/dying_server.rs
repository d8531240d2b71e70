//! A server with a tool that kills it, for `survivor` to survive.
//!
//! It stands for any server that goes away in the middle of a conversation: a crash, a redeployment,
//! the kernel short of memory.

use outlive::Server;
use outlive::server::Ctx;

fn main() -> std::io::Result<()> {
    Server::builder("dying-server", "1.0.0")
        .tool("ping", "Returns pong.", |_, (): ()| async { "pong" })
        .tool("crash", "Ends the process.", crash)
        .build()
        .run_stdio()
}

async fn crash(_: Ctx, (): ()) -> String {
    std::process::exit(1)
}
