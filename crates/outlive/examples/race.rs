//! Cancellations aimed at the very moment of the answer.
//!
//! A handler says that it is about to return, and its call is cancelled at once; how long it then
//! takes to return is different from call to call. So some cancellations come just before the
//! answer is given, some just after, and some at the same moment. Whichever is first, there is one
//! ending: an answer, or a cancellation and no answer. Every other call is not cancelled, and has to
//! be answered whatever happens around it.
//!
//! ```console
//! $ cargo run --release -p outlive --example race -- 100000
//! ```

use std::collections::HashMap;
use std::time::{Duration, Instant};

use outlive::Server;
use outlive::memory::{Endpoint, pair};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::io::{self, AsyncBufReadExt, AsyncWriteExt, BufReader, ReadHalf, WriteHalf};
use tokio::sync::mpsc;

/// Calls in flight.
const AT_ONCE: u64 = 8;

/// Microseconds. A cancellation is on its way for about as long.
const LONGEST: u64 = 120;

#[derive(Deserialize, JsonSchema)]
struct Work {
    call: u64,
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let calls: u64 = match std::env::args().nth(1) {
        Some(number) => number.parse()?,
        None => 4_000,
    };
    let (returning, mut returned) = mpsc::unbounded_channel();
    let server = Server::builder("racer", "1.0.0")
        .tool("work", "Says so and returns.", move |_, work: Work| {
            let returning = returning.clone();
            async move {
                // Nobody listens any more only if the program is over.
                let _ = returning.send(work.call);
                let moment = Duration::from_micros(work.call % LONGEST);
                let start = Instant::now();
                while start.elapsed() < moment {
                    std::hint::spin_loop();
                }
                "done"
            }
        })
        .build();
    let (ours, theirs) = pair();
    let serving = tokio::spawn(async move { server.serve(theirs).await });
    let (reader, mut writer) = io::split(ours);
    let counting = tokio::spawn(count(reader));

    greet(&mut writer).await?;
    let mut begun = 0;
    for done in 0..calls {
        while begun < calls.min(done + AT_ONCE) {
            call(&mut writer, begun).await?;
            begun += 1;
        }
        let id = returned.recv().await.ok_or("the server has gone")?;
        if is_cancelled(&id) {
            cancel(&mut writer, id).await?;
        }
    }
    // What is owed is still answered before the server leaves.
    writer.shutdown().await?;
    serving.await??;
    let answers = counting.await??;

    let given = |id: &u64| answers.get(id).copied().unwrap_or(0);
    let cancelled: Vec<u64> = (0..calls)
        .filter(is_cancelled)
        .map(|id| given(&id))
        .collect();
    let others: Vec<u64> = (0..calls)
        .filter(|id| !is_cancelled(id))
        .map(|id| given(&id))
        .collect();
    let times = |of: &[u64], times: u64| of.iter().filter(|given| **given == times).count();
    println!("calls cancelled as they returned: {}", cancelled.len());
    println!("  answered before that: {}", times(&cancelled, 1));
    println!(
        "  cancelled before they were answered: {}",
        times(&cancelled, 0)
    );
    println!("calls left alone: {}", others.len());
    println!("  answered: {}", times(&others, 1));
    println!("  missing: {}", times(&others, 0));
    let twice = answers.values().filter(|given| **given > 1).count();
    println!("calls answered twice: {twice}");
    Ok(())
}

/// Every other call is cancelled.
fn is_cancelled(id: &u64) -> bool {
    id.is_multiple_of(2)
}

async fn greet(to: &mut WriteHalf<Endpoint>) -> io::Result<()> {
    let params = json!({
        "protocolVersion": "2025-11-25",
        "capabilities": {},
        "clientInfo": { "name": "race", "version": "1.0.0" },
    });
    send(
        to,
        json!({ "id": "hello", "method": "initialize", "params": params }),
    )
    .await?;
    send(to, json!({ "method": "notifications/initialized" })).await
}

async fn call(to: &mut WriteHalf<Endpoint>, id: u64) -> io::Result<()> {
    let params = json!({ "name": "work", "arguments": { "call": id } });
    send(
        to,
        json!({ "id": id, "method": "tools/call", "params": params }),
    )
    .await
}

async fn cancel(to: &mut WriteHalf<Endpoint>, id: u64) -> io::Result<()> {
    let params = json!({ "requestId": id });
    send(
        to,
        json!({ "method": "notifications/cancelled", "params": params }),
    )
    .await
}

async fn send(to: &mut WriteHalf<Endpoint>, mut message: Value) -> io::Result<()> {
    message["jsonrpc"] = "2.0".into();
    to.write_all(format!("{message}\n").as_bytes()).await
}

/// How many answers each call got.
async fn count(from: ReadHalf<Endpoint>) -> io::Result<HashMap<u64, u64>> {
    let mut answers = HashMap::new();
    let mut lines = BufReader::new(from).lines();
    while let Some(line) = lines.next_line().await? {
        let message: Value = serde_json::from_str(&line)?;
        if let Some(id) = message["id"].as_u64() {
            *answers.entry(id).or_default() += 1;
        }
    }
    Ok(answers)
}
