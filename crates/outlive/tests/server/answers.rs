//! Exactly one answer, or none if the client cancelled.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use outlive::memory;
use outlive::model::{RpcError, Tool};
use outlive::server::{CancelReason, Responder, Server};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};

use crate::rig::{Client, on_both_runtimes, soon, text};

/// A number that looks drawn, and is the same in every run.
fn drawn(n: u64) -> u64 {
    let x = n.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (x ^ (x >> 29)).wrapping_mul(0xbf58_476d_1ce4_e5b9) >> 32
}

#[derive(Deserialize, JsonSchema)]
struct Turns {
    /// How often the handler lets others go first.
    turns: u64,
}

async fn take_turns(turns: u64) {
    for _ in 0..turns {
        tokio::task::yield_now().await;
    }
}

/// A server whose tools answer after a few turns, in every way a tool can.
fn racing() -> Server {
    let plain = |_, of: Turns| async move {
        take_turns(of.turns).await;
        "done"
    };
    let by_responder = |ctx: outlive::server::Ctx, responder: Responder| async move {
        take_turns(drawn(ctx.params().len() as u64) % 4).await;
        responder.respond(&json!({ "content": [] }));
    };
    let elsewhere = |_, responder: Responder| async move {
        tokio::spawn(async move {
            tokio::task::yield_now().await;
            responder.respond(&json!({ "content": [] }));
        });
    };
    Server::builder("racing", "1")
        .concurrency(64)
        .tool("plain", "", plain)
        .tool_responding(Tool::new("responder"), by_responder)
        .tool_responding(Tool::new("elsewhere"), elsewhere)
        .build()
}

/// FM-19: each call is cancelled before, while or after it is answered, but for every tenth.
#[test]
fn fm_19_a_hundred_thousand_cancels_around_the_answer() {
    const CALLS: u64 = 100_000;
    const ROW: u64 = 40;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .unwrap();
    let run = async {
        let (ours, theirs) = memory::pair_with(64 << 10);
        let serving = tokio::spawn(async move { racing().serve(theirs).await });
        let (reader, mut writer) = tokio::io::split(ours);
        let mut reader = BufReader::new(reader);

        let owed = Arc::new(AtomicU64::new(0));
        let given = owed.clone();
        let reading = tokio::spawn(async move {
            let mut answers: HashMap<u64, u32> = HashMap::new();
            let mut line = String::new();
            loop {
                line.clear();
                if reader.read_line(&mut line).await.unwrap() == 0 {
                    return answers;
                }
                let message: Value = serde_json::from_str(&line).unwrap();
                assert!(message.get("error").is_none(), "{message}");
                if let Some(id) = message["id"].as_u64() {
                    *answers.entry(id).or_default() += 1;
                    given.fetch_add(u64::from(id % 10 == 0), Ordering::SeqCst);
                }
            }
        });

        let hello = r#"{"jsonrpc":"2.0","id":"i","method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"r","version":"1"}}}"#;
        writer
            .write_all(format!("{hello}\n").as_bytes())
            .await
            .unwrap();
        // A row of calls, and then their cancellations in another order, some twice, some for
        // requests that never were.
        for row in 0..CALLS / ROW {
            let mut lines = String::new();
            for id in row * ROW..(row + 1) * ROW {
                let tool = ["plain", "responder", "elsewhere"][(drawn(id) % 3) as usize];
                let turns = drawn(id * 7) % 4;
                lines += &format!(
                    r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/call","params":{{"name":"{tool}","arguments":{{"turns":{turns}}}}}}}"#
                );
                lines += "\n";
                if id % 10 != 0 && drawn(id * 3).is_multiple_of(3) {
                    lines += &cancel(id);
                }
            }
            writer.write_all(lines.as_bytes()).await.unwrap();
            let mut lines = String::new();
            for id in (row * ROW..(row + 1) * ROW).rev().filter(|id| id % 10 != 0) {
                lines += &cancel(id);
                if drawn(id * 5).is_multiple_of(8) {
                    lines += &cancel(id);
                    lines += &cancel(id + CALLS);
                }
            }
            if drawn(row).is_multiple_of(2) {
                tokio::task::yield_now().await;
            }
            // Some are for a row that has been answered, however slow the machine is.
            while row.is_multiple_of(8) && owed.load(Ordering::SeqCst) < (row + 1) * ROW / 10 {
                tokio::task::yield_now().await;
            }
            writer.write_all(lines.as_bytes()).await.unwrap();
        }
        writer.shutdown().await.unwrap();
        let answers = reading.await.unwrap();
        serving.await.unwrap().unwrap();
        answers
    };
    let answers =
        runtime.block_on(async { tokio::time::timeout(20 * crate::rig::PATIENCE, run).await });
    let answers = answers.expect("this hangs");
    let mut unanswered = 0;
    for id in 0..CALLS {
        match answers.get(&id) {
            Some(1) => {}
            None if id % 10 != 0 => unanswered += 1,
            count => panic!("call {id} was answered {} times", count.unwrap_or(&0)),
        }
    }
    // The race was run: the cancellation won many, and lost many.
    let cancelled = CALLS - CALLS / 10;
    assert!(
        unanswered > CALLS / 100,
        "{unanswered} of {cancelled} unanswered"
    );
    assert!(
        unanswered < cancelled - CALLS / 100,
        "{unanswered} of {cancelled} unanswered"
    );
}

fn cancel(id: u64) -> String {
    format!(
        "{{\"jsonrpc\":\"2.0\",\"method\":\"notifications/cancelled\",\"params\":{{\"requestId\":{id}}}}}\n"
    )
}

#[test]
fn a_cancelled_handler_is_told_why_and_dropped_after_its_grace() {
    on_both_runtimes(|| async {
        let (told, dropped) = (
            Arc::new(Mutex::new(Vec::new())),
            Arc::new(AtomicUsize::new(0)),
        );
        let (reasons, drops) = (told.clone(), dropped.clone());
        let started = Arc::new(AtomicUsize::new(0));
        let starts = started.clone();
        let server = Server::builder("told", "1")
            .grace(Duration::from_millis(300))
            .tool("wait", "", move |ctx, (): ()| {
                let (reasons, bomb) = (reasons.clone(), Dropped(drops.clone()));
                starts.fetch_add(1, Ordering::SeqCst);
                async move {
                    let _bomb = bomb;
                    let reason = ctx.cancelled().await;
                    assert_eq!(ctx.reason(), Some(reason.clone()));
                    assert!(ctx.is_cancelled());
                    reasons.lock().unwrap().push(reason);
                    std::future::pending::<()>().await;
                }
            })
            .build();
        let mut client = Client::legacy(&server).await;
        client.begin_call(1, "wait", json!({})).await;
        while started.load(Ordering::SeqCst) == 0 {
            client.ping("start").await;
        }
        client.cancel(1, "no longer needed").await;
        client.cancel(1, "again").await;
        while dropped.load(Ordering::SeqCst) == 0 {
            client.ping("tick").await;
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        let expected = CancelReason::Client(Some("no longer needed".into()));
        assert_eq!(*told.lock().unwrap(), [expected]);
        assert_eq!(
            client.kept(),
            [] as [Value; 0],
            "a cancelled request gets no answer"
        );
        client.vanish().await;
    });
}

struct Dropped(Arc<AtomicUsize>);

impl Drop for Dropped {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

#[test]
fn a_responder_answers_once_wherever_it_goes() {
    on_both_runtimes(|| async {
        let server = Server::builder("responders", "1")
            .tool_responding(Tool::new("thread"), |_, responder| async {
                std::thread::spawn(move || {
                    std::thread::sleep(Duration::from_millis(5));
                    responder.respond(&json!({ "content": [], "from": "a thread" }));
                });
            })
            .tool_responding(Tool::new("drop"), |_, responder| async { drop(responder) })
            .tool_responding(Tool::new("panic"), |_, responder| async {
                let _responder = responder;
                panic!("with the responder in its hands");
            })
            .tool_responding(Tool::new("fail"), |_, responder| async {
                responder.fail(RpcError::new(-32050, "no"));
            })
            .tool_responding(Tool::new("array"), |_, responder| async {
                responder.respond_json(&b"[1]"[..]);
            })
            .tool_responding(Tool::new("torn"), |_, responder| async {
                responder.respond_json(&b"{\"a\":1}\n{}"[..]);
            })
            .method("custom/echo", |ctx, responder| async move {
                responder.respond_json(ctx.params().to_vec());
            })
            .build();
        let mut client = Client::legacy(&server).await;
        let thread = client.call(1, "thread", json!({})).await;
        assert_eq!(thread["result"]["from"], "a thread");
        for (id, tool, words) in [
            (2, "drop", "ended without an answer"),
            (3, "panic", "panicked"),
            (5, "array", "no object"),
            (6, "torn", "not JSON"),
        ] {
            let answer = client.call(id, tool, json!({})).await;
            assert_eq!(answer["error"]["code"], -32603, "{tool}");
            let said = answer["error"]["message"].as_str().unwrap();
            assert!(said.contains(words), "{tool}: {said}");
        }
        let failed = client.call(4, "fail", json!({})).await;
        assert_eq!(failed["error"], json!({ "code": -32050, "message": "no" }));
        let custom = client.request(7, "custom/echo", json!({ "x": 1 })).await;
        assert_eq!(custom["result"], json!({ "x": 1 }));
        client.ping("last").await;
        assert_eq!(client.kept(), [] as [Value; 0]);
        client.vanish().await;
    });
}

#[test]
fn a_handler_may_go_on_after_its_answer_and_is_dropped_at_the_end() {
    on_both_runtimes(|| async {
        let dropped = Arc::new(AtomicUsize::new(0));
        let drops = dropped.clone();
        let server = Server::builder("going-on", "1")
            .tool_responding(Tool::new("on"), move |_, responder| {
                let bomb = Dropped(drops.clone());
                async move {
                    let _bomb = bomb;
                    responder.respond(&json!({ "content": [] }));
                    std::future::pending().await
                }
            })
            .build();
        let mut client = Client::legacy(&server).await;
        client.call(1, "on", json!({})).await;
        assert_eq!(dropped.load(Ordering::SeqCst), 0);
        client.vanish().await;
        soon(async {
            while dropped.load(Ordering::SeqCst) == 0 {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        })
        .await;
    });
}

#[test]
fn a_handler_that_takes_too_long_is_answered_for() {
    on_both_runtimes(|| async {
        let told = Arc::new(Mutex::new(None));
        let reason = told.clone();
        let server = Server::builder("slow", "1")
            .deadline(Duration::from_millis(700))
            .tool("slow", "", move |ctx, (): ()| {
                let reason = reason.clone();
                async move {
                    *reason.lock().unwrap() = Some(ctx.cancelled().await);
                    "too late"
                }
            })
            .tool("quick", "", |_, (): ()| async { "in time" })
            .build();
        let mut client = Client::legacy(&server).await;
        assert_eq!(text(&client.call(1, "quick", json!({})).await), "in time");
        let late = client.call(2, "slow", json!({})).await;
        assert_eq!(late["error"]["code"], -31003);
        soon(async {
            while told.lock().unwrap().is_none() {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        })
        .await;
        assert_eq!(*told.lock().unwrap(), Some(CancelReason::Deadline));
        client.ping("last").await;
        assert_eq!(client.kept(), [] as [Value; 0]);
        client.vanish().await;
    });
}
