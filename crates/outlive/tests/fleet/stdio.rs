//! One host on a pair of pipes before many servers.

use std::io::{BufRead, BufReader, PipeReader, PipeWriter, Write};
use std::os::fd::AsFd;
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use outlive::gateway::{Several, run_streams};
use outlive::policy::Policy;
use outlive::server::Ctx;
use outlive::{Gateway, Server};
use serde_json::{Value, json};
use tokio::task::JoinHandle;

use crate::rig::{HANG, in_time, named};

/// The other end of both pipes.
struct Host {
    input: Option<PipeWriter>,
    lines: Receiver<Value>,
    running: JoinHandle<std::io::Result<()>>,
    gateway: Gateway,
    /// What came and was not asked for.
    beside: Vec<Value>,
}

impl Host {
    fn of(several: Several) -> Host {
        let (host, output) = Host::unread(several);
        host.reading(output)
    }

    /// A host that does not read.
    fn unread(several: Several) -> (Host, PipeReader) {
        let gateway = several.build().expect("a gateway");
        let (stdin, input) = std::io::pipe().expect("a pipe");
        let (output, stdout) = std::io::pipe().expect("a pipe");
        let served = gateway.clone();
        let running = tokio::spawn(async move {
            let served = run_streams(&served, stdin.as_fd(), stdout.as_fd()).await;
            drop((stdin, stdout));
            served
        });
        let (_, lines) = channel();
        let host = Host {
            input: Some(input),
            lines,
            running,
            gateway,
            beside: Vec::new(),
        };
        (host, output)
    }

    fn reading(mut self, output: PipeReader) -> Host {
        let (tell, lines) = channel();
        self.lines = lines;
        std::thread::spawn(move || {
            for line in BufReader::new(output).lines() {
                let Ok(line) = line else { return };
                let message = serde_json::from_str(&line).expect("a message");
                if tell.send(message).is_err() {
                    return;
                }
            }
        });
        self
    }

    fn send(&mut self, message: &Value) {
        let input = self.input.as_mut().expect("it is open");
        writeln!(input, "{message}").expect("it is read");
    }

    fn request(&mut self, id: u64, method: &str, params: Value) {
        self.send(&json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params }));
    }

    fn call(&mut self, id: u64, tool: &str) {
        self.request(id, "tools/call", json!({ "name": tool, "arguments": {} }));
    }

    fn begin(&mut self) {
        self.request(0, "initialize", opening());
        let answer = self.answer(0);
        assert_eq!(
            answer["result"]["serverInfo"]["name"], "outlive",
            "{answer}"
        );
        self.send(&json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }));
    }

    fn answer(&mut self, id: u64) -> Value {
        loop {
            let message = self.lines.recv_timeout(HANG).expect("it hangs");
            if message["id"] == id && message.get("method").is_none() {
                return message;
            }
            self.beside.push(message);
        }
    }

    /// Leaves, and waits for the end.
    async fn leave(mut self) -> Vec<Value> {
        self.input = None;
        in_time(self.running)
            .await
            .expect("no panic")
            .expect("it runs");
        assert!(self.gateway.upstreams().is_empty(), "nothing is left");
        self.beside.extend(self.lines.iter());
        self.beside
    }
}

fn opening() -> Value {
    json!({
        "protocolVersion": "2025-11-25", "capabilities": {},
        "clientInfo": { "name": "host", "version": "1" },
    })
}

fn text(answer: &Value) -> &str {
    answer["result"]["content"][0]["text"]
        .as_str()
        .unwrap_or_default()
}

fn modern(id: u64, method: &str, mut params: Value) -> Value {
    params["_meta"] = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {},
        "io.modelcontextprotocol/clientInfo": { "name": "host", "version": "1" },
    });
    json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params })
}

#[tokio::test(flavor = "multi_thread")]
async fn a_host_lists_and_calls_all_servers() {
    let mut host = Host::of(Gateway::of([("a", named("a")), ("b", named("b"))]));
    host.begin();
    host.request(1, "tools/list", json!({}));
    let list = host.answer(1);
    assert_eq!(
        list["result"]["tools"].as_array().map(Vec::len),
        Some(4),
        "{list}"
    );
    for (id, (tool, by)) in [("a__who", "a"), ("b__who", "b")].into_iter().enumerate() {
        host.call(10 + id as u64, tool);
        assert_eq!(text(&host.answer(10 + id as u64)), by);
    }
    host.leave().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_host_that_says_everything_at_once_and_leaves_is_answered() {
    let mut host = Host::of(Gateway::of([("a", named("a")), ("b", named("b"))]));
    host.request(0, "initialize", opening());
    host.send(&json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }));
    host.request(1, "tools/list", json!({}));
    for id in 2..40 {
        host.call(id, ["a__who", "b__who"][id as usize % 2]);
    }
    let answers = host.leave().await;
    for id in 0..40 {
        let answer = answers.iter().find(|it| it["id"] == id);
        let answer = answer.unwrap_or_else(|| panic!("{id} is not answered"));
        assert!(answer.get("result").is_some(), "{answer}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_host_speaks_both_eras_on_one_pipe() {
    let mut host = Host::of(Gateway::of([("a", named("a")), ("b", named("b"))]));
    host.send(&modern(1, "server/discover", json!({})));
    let about = host.answer(1);
    assert_eq!(
        about["result"]["supportedVersions"][0], "2026-07-28",
        "{about}"
    );
    host.send(&modern(2, "tools/list", json!({})));
    let list = host.answer(2);
    assert_eq!(
        list["result"]["tools"].as_array().map(Vec::len),
        Some(4),
        "{list}"
    );
    host.send(&modern(
        3,
        "tools/call",
        json!({ "name": "b__who", "arguments": {} }),
    ));
    assert_eq!(text(&host.answer(3)), "b");
    host.begin();
    host.call(4, "a__who");
    assert_eq!(text(&host.answer(4)), "a");
    host.leave().await;
}

/// A server whose tool waits until it is cancelled, and one that says much.
fn slow() -> outlive::gateway::Builder {
    let server = Server::builder("slow", "1")
        .tool("wait", "", |ctx: Ctx, (): ()| async move {
            ctx.cancelled().await;
            "cancelled"
        })
        .tool("much", "", |_, (): ()| async { "x".repeat(100_000) });
    Gateway::server(&server.build())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_is_cancelled_in_either_era() {
    let mut host = Host::of(Gateway::of([("slow", slow()), ("b", named("b"))]));
    host.begin();
    host.request(1, "tools/list", json!({}));
    host.answer(1);
    host.call(2, "slow__wait");
    host.send(&modern(
        3,
        "tools/call",
        json!({ "name": "slow__wait", "arguments": {} }),
    ));
    host.call(4, "b__who");
    assert_eq!(text(&host.answer(4)), "b");
    for id in [2, 3] {
        let params = json!({ "requestId": id });
        host.send(
            &json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": params }),
        );
    }
    // Nothing is waited for, so the end comes at once.
    let said = host.leave().await;
    assert!(
        said.iter().all(|it| it["id"] != 2 && it["id"] != 3),
        "{said:?}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_host_that_does_not_read_is_waited_for_and_loses_nothing() {
    let several = Gateway::of([("slow", slow()), ("b", named("b"))]);
    let (mut host, output) = Host::unread(several);
    host.request(0, "initialize", opening());
    host.request(1, "tools/list", json!({}));
    let mut input = host.input.take().expect("it is open");
    const CALLS: u64 = 300;
    let writing = std::thread::spawn(move || {
        for id in 2..CALLS {
            let params = json!({ "name": "slow__much", "arguments": {} });
            let call =
                json!({ "jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params });
            writeln!(input, "{call}").expect("it is read in the end");
        }
        input
    });
    tokio::time::sleep(Duration::from_millis(300)).await;
    let mut host = host.reading(output);
    for id in 0..CALLS {
        let found = host.beside.iter().position(|it| it["id"] == id);
        let answer = match found {
            Some(at) => host.beside.remove(at),
            None => host.answer(id),
        };
        assert!(answer.get("result").is_some(), "{answer}");
    }
    host.input = writing.join().ok();
    host.leave().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_host_that_is_gone_ends_it() {
    let mut policy = Policy::default();
    policy.drain = Duration::from_millis(100);
    let several = Gateway::of([("slow", slow().policy(policy)), ("b", named("b"))]);
    let (mut host, output) = Host::unread(several);
    host.request(0, "initialize", opening());
    host.request(1, "tools/list", json!({}));
    drop(output);
    in_time(host.running)
        .await
        .expect("no panic")
        .expect("it runs");
    assert!(host.gateway.upstreams().is_empty(), "nothing is left");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_gateway_that_is_told_to_end_ends() {
    let mut host = Host::of(Gateway::of([("a", named("a"))]));
    host.begin();
    host.gateway.shutdown();
    in_time(host.running)
        .await
        .expect("no panic")
        .expect("it runs");
    assert!(host.gateway.upstreams().is_empty(), "nothing is left");
}

#[tokio::test]
async fn a_gateway_of_one_server_has_no_router() {
    let gateway = named("a").build();
    let (stdin, stdout) = std::io::pipe().expect("a pipe");
    let refused = run_streams(&gateway, stdin.as_fd(), stdout.as_fd()).await;
    let refused = refused.expect_err("there is none").to_string();
    assert!(refused.contains("Gateway::of"), "{refused}");
}
