//! Two ways for a call to end early that must not look the same: the server was killed, or the
//! caller no longer wants the answer.
//!
//! After the first one reconnects and goes on; after the second one stops. Here they are two variants
//! of one error, told apart with `match`; and the connection is good after both.

use outlive::client::Running;
use outlive::model::CallResult;
use outlive::server::Ctx;
use outlive::{Client, Command, Error, Server};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    if std::env::args().any(|arg| arg == "--serve") {
        return Ok(server().run_stdio()?);
    }
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    runtime.block_on(host())
}

fn server() -> Server {
    Server::builder("slow-server", "1.0.0")
        .tool("pid", "The server's process id.", |_, (): ()| async {
            std::process::id().to_string()
        })
        .tool("slow_tool", "Works until nobody wants it.", slow_tool)
        .build()
}

async fn slow_tool(ctx: Ctx, (): ()) -> String {
    ctx.progress(1.0, None);
    ctx.cancelled().await.to_string()
}

async fn host() -> Result<(), Box<dyn std::error::Error>> {
    let client = Client::builder()
        .command(Command::new(std::env::current_exe()?, ["--serve"]))
        .connect()
        .await?;

    println!("Test 1: server dies mid-request");
    let call = begun(&client).await;
    let victim = Pid::from_raw(pid(&client).await?.parse()?);
    kill_process(victim.ok_or("no pid")?, Signal::KILL)?;
    println!("  {}", ending(call.await));

    println!("Test 2: the caller cancels");
    let call = begun(&client).await;
    call.canceller().cancel("Ctrl+C");
    println!("  {}", ending(call.await));

    println!("Test 3: the caller drops the call");
    let before = pid(&client).await?;
    drop(begun(&client).await);
    let same = pid(&client).await? == before;
    println!("  nobody is told anything; same server afterwards: {same}");

    client.close().await;
    Ok(())
}

/// A call of the slow tool that the server has begun to work on.
async fn begun(client: &Client) -> Running<CallResult> {
    let mut call = client.call("slow_tool", json!({})).progress().start();
    if let Some(mut progress) = call.progress() {
        progress.next().await;
    }
    call
}

async fn pid(client: &Client) -> Result<String, Error> {
    Ok(client.call("pid", json!({})).await?.text())
}

fn ending(result: Result<CallResult, Error>) -> String {
    match result {
        Err(Error::ConnectionLost { cause, outcome, .. }) => format!(
            "ConnectionLost: the server {} (outcome: {})",
            cause.predicate(),
            outcome.as_str()
        ),
        Err(Error::CancelledByCaller) => "CancelledByCaller".into(),
        other => format!("neither: {other:?}"),
    }
}
