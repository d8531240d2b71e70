//! Clients that send more than they read.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use outlive::memory;
use outlive::model::LogLevel;
use outlive::server::{Ctx, Server};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};

use crate::rig::{Client, on_both_runtimes, soon, text};

#[derive(Deserialize, JsonSchema)]
struct Echo {
    text: String,
}

#[derive(Deserialize, JsonSchema)]
struct Flood {
    messages: usize,
}

/// Where a count stops. A writer that goes on would have to be kept from it for half a second to
/// be taken for one that does not.
async fn stall(count: &AtomicUsize) -> usize {
    let mut last = (0, 0);
    while last.1 < 50 {
        tokio::time::sleep(Duration::from_millis(10)).await;
        let now = count.load(Ordering::SeqCst);
        last = match now == last.0 && now > 0 {
            true => (now, last.1 + 1),
            false => (now, 0),
        };
    }
    last.0
}

fn server(flooded: &Arc<AtomicBool>) -> Server {
    let flooded = flooded.clone();
    Server::builder("crowded", "1")
        .tool("echo", "", |_, echo: Echo| async move { echo.text })
        .tool("flood", "", move |ctx: Ctx, flood: Flood| {
            let flooded = flooded.clone();
            async move {
                let words = "w".repeat(1000);
                for _ in 0..flood.messages {
                    ctx.log(LogLevel::Error, &words);
                }
                flooded.store(true, Ordering::SeqCst);
                "flooded"
            }
        })
        .build()
}

/// Every answer comes, however late the client begins to read.
#[test]
fn fm_30_a_client_that_reads_late_gets_every_answer() {
    const CALLS: usize = 200;
    on_both_runtimes(|| async {
        // With so few running and waiting, what is read can only be waiting as answers.
        let server = Server::builder("crowded", "1")
            .tool("echo", "", |_, echo: Echo| async move { echo.text })
            .concurrency(8)
            .queue(8, 1 << 20)
            .build();
        let written = Arc::new(AtomicUsize::new(0));
        let writes = written.clone();
        let (ours, theirs) = memory::pair();
        let serving = tokio::spawn(async move { server.serve(theirs).await });
        let (reader, mut writer) = tokio::io::split(ours);
        let writing = tokio::spawn(async move {
            let params = json!({
                "protocolVersion": "2025-11-25", "capabilities": {},
                "clientInfo": { "name": "late", "version": "1" },
            });
            let hello =
                json!({ "jsonrpc": "2.0", "id": "i", "method": "initialize", "params": params });
            writer
                .write_all(format!("{hello}\n").as_bytes())
                .await
                .unwrap();
            let text = "x".repeat(100_000);
            for id in 0..CALLS {
                let params = json!({ "name": "echo", "arguments": { "text": text } });
                let call =
                    json!({ "jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params });
                writer
                    .write_all(format!("{call}\n").as_bytes())
                    .await
                    .unwrap();
                writes.fetch_add(1, Ordering::SeqCst);
            }
            writer
        });
        // Far more is written than all queues together hold, so the server has to stop reading.
        let stalled = stall(&written).await;
        assert!(stalled < CALLS, "it reads without bound");
        let mut lines = BufReader::new(reader).lines();
        let mut seen = [false; CALLS];
        for _ in 0..=CALLS {
            let line = soon(lines.next_line()).await.unwrap().expect("a line");
            let answer: Value = serde_json::from_str(&line).unwrap();
            if let Some(id) = answer["id"].as_u64() {
                assert_eq!(text(&answer).len(), 100_000);
                assert!(
                    !std::mem::replace(&mut seen[id as usize], true),
                    "{id} twice"
                );
            }
        }
        assert!(seen.iter().all(|seen| *seen));
        drop((writing.await.unwrap(), lines));
        soon(serving).await.unwrap().unwrap();
    });
}

/// What a client need not be told is left out while it does not read.
#[test]
fn notifications_to_a_client_that_does_not_read_are_bounded() {
    on_both_runtimes(|| async {
        let flooded = Arc::default();
        let mut client = Client::legacy(&server(&flooded)).await;
        client
            .begin_call(1, "flood", json!({ "messages": 20_000 }))
            .await;
        // Only then is anything read: twenty megabytes would be waiting.
        soon(async {
            while !flooded.load(Ordering::SeqCst) {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        })
        .await;
        assert_eq!(text(&client.answer_to(1).await), "flooded");
        let told = client.kept().len();
        assert!(told > 100, "{told} messages");
        assert!(
            told < 10_000,
            "{told} messages of a thousand bytes were queued"
        );
        client.ping("last").await;
        client.vanish().await;
    });
}

/// Changes are told once to a client that has not read of them, and none is lost.
#[test]
fn changes_told_to_a_client_that_does_not_read_are_bounded() {
    const CHANGES: usize = 200_000;
    on_both_runtimes(|| async {
        let server = Server::builder("restless", "1")
            .resource("r://often", "often", |_, _| async { "often" })
            .resource("r://once", "once", |_, _| async { "once" })
            .tools_later()
            .build();
        let mut client = Client::legacy(&server).await;
        for uri in ["r://often", "r://once"] {
            let subscribed = client
                .request(uri, "resources/subscribe", json!({ "uri": uri }))
                .await;
            assert_eq!(subscribed["result"], json!({}));
        }
        let handle = server.handle();
        for _ in 0..CHANGES {
            handle.resource_updated("r://often");
        }
        // Nothing has been read. What changes now is told later, and once.
        for round in 0..3 {
            handle.resource_updated("r://once");
            handle.add_tool(format!("t{round}"), "", |_, (): ()| async {});
        }
        let once = |message: &Value| message["params"]["uri"] == "r://once";
        let listed = |message: &Value| message["method"] == "notifications/tools/list_changed";
        let (mut told, mut late) = (0, [0; 2]);
        while late.contains(&0) {
            let message = client.next().await.expect("the server is there");
            told += 1;
            late[0] += usize::from(once(&message));
            late[1] += usize::from(listed(&message));
        }
        assert!(told < CHANGES / 2, "{told} changes were queued");
        client.ping("last").await;
        let rest = client
            .kept()
            .iter()
            .filter(|told| once(told) || listed(told));
        assert_eq!((late, rest.count()), ([1, 1], 0), "each once");
        client.vanish().await;
    });
}
