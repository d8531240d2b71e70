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

/// Where cancellations take longer and all come too late, handlers are given twice the time, and
/// twice that, so often at most.
const ROUNDS: u32 = 6;

#[derive(Deserialize, JsonSchema)]
struct Work {
    call: u64,
}

/// How many calls ended in which way.
#[derive(Default)]
struct Tally {
    /// Cancelled, and answered before that.
    late: usize,
    /// Cancelled, and not answered.
    early: usize,
    /// Left alone, and answered.
    answered: usize,
    /// Left alone, and not answered.
    missing: usize,
    /// Answered more than once, cancelled or not.
    twice: usize,
}

impl Tally {
    fn add(&mut self, cancelled: bool, answers: u64) {
        let ending = match (cancelled, answers) {
            (true, 1) => &mut self.late,
            (true, 0) => &mut self.early,
            (false, 1) => &mut self.answered,
            (false, 0) => &mut self.missing,
            (_, _) => &mut self.twice,
        };
        *ending += 1;
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let calls: u64 = match std::env::args().nth(1) {
        Some(number) => number.parse()?,
        None => 4_000,
    };
    let mut tally = Tally::default();
    for round in 0..ROUNDS {
        race(calls, LONGEST << round, &mut tally).await?;
        if tally.late > 0 && tally.early > 0 {
            break;
        }
    }
    println!(
        "calls cancelled as they returned: {}",
        tally.late + tally.early
    );
    println!("  answered before that: {}", tally.late);
    println!("  cancelled before they were answered: {}", tally.early);
    println!("calls left alone: {}", tally.answered + tally.missing);
    println!("  answered: {}", tally.answered);
    println!("  missing: {}", tally.missing);
    println!("calls answered twice: {}", tally.twice);
    Ok(())
}

/// So many calls of one server, whose handlers take up to `longest` microseconds to return.
async fn race(
    calls: u64,
    longest: u64,
    tally: &mut Tally,
) -> Result<(), Box<dyn std::error::Error>> {
    let (returning, mut returned) = mpsc::unbounded_channel();
    let server = Server::builder("racer", "1.0.0")
        .tool("work", "Says so and returns.", move |_, work: Work| {
            let returning = returning.clone();
            async move {
                // Nobody listens any more only if the program is over.
                let _ = returning.send(work.call);
                let moment = Duration::from_micros(work.call % longest);
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

    for id in 0..calls {
        tally.add(is_cancelled(&id), answers.get(&id).copied().unwrap_or(0));
    }
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
