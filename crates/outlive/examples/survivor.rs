//! A client whose server dies under it, and what it sees of that.
//!
//! The server is `dying_server`. The state is true at any moment, the call the server died of
//! says what became of the server, and the tools that were listed before work after it.
//!
//! ```console
//! $ cargo build -p outlive --examples && cargo run -p outlive --example survivor
//! ```

use std::time::Duration;

use outlive::client::{State, Tool};
use outlive::{Client, Command, Error};
use serde_json::json;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let server = std::env::current_exe()?.with_file_name("dying_server");
    let none: [&str; 0] = [];
    let client = Client::builder()
        .command(Command::new(server, none))
        .connect()
        .await?;
    let tools = client.tools().await?;
    let names: Vec<_> = tools.iter().map(|tool| &*tool.name).collect();
    println!("1) state={}, tools={names:?}", word(&client.state()));

    let named = |name: &str| tools.iter().find(|tool| tool.name == name);
    let (ping, crash) = (
        named("ping").ok_or("no ping")?,
        named("crash").ok_or("no crash")?,
    );
    println!("2) ping -> {}", text(ping).await?);

    let mut states = client.watch();
    match crash.call(json!({})).await {
        Err(Error::ConnectionLost { cause, outcome, .. }) => println!(
            "3) crash tool raised ConnectionLost: the server {} (outcome: {})",
            cause.predicate(),
            outcome.as_str()
        ),
        other => println!("3) crash tool -> {other:?}"),
    }

    tokio::time::sleep(Duration::from_secs(1)).await;
    client.ready().await?;
    let mut passed = Vec::new();
    while passed.last() != Some(&client.state()) {
        passed.extend(states.next().await);
    }
    let mut passed: Vec<_> = passed.iter().map(word).collect();
    passed.dedup();
    println!(
        "4) one second after server death: state={}",
        passed.join(" -> ")
    );

    for n in [5, 6] {
        println!("{n}) ping -> {}", text(ping).await?);
        tokio::time::sleep(Duration::from_millis(500)).await;
    }

    println!(
        "7) the server was restarted by itself; state={}",
        word(&client.state())
    );
    client.close().await;
    println!("8) closed; state={}", word(&client.state()));
    Ok(())
}

async fn text(tool: &Tool) -> Result<String, Error> {
    Ok(tool.call(json!({})).await?.text())
}

fn word(state: &State) -> String {
    match state {
        State::Ready { generation } => format!("ready (server {generation})"),
        State::Down { .. } => "down".into(),
        State::Connecting { .. } => "connecting".into(),
        State::Failed { .. } => "failed".into(),
        State::Closed => "closed".into(),
        other => format!("{other:?}"),
    }
}
