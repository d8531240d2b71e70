//! Clients that send more than they read.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
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
        let server = server(&Arc::default());
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
            }
            writer
        });
        // Far more is written than all queues together hold, so the server has to stop reading.
        tokio::time::sleep(Duration::from_millis(200)).await;
        assert!(!writing.is_finished(), "it reads without bound");
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
