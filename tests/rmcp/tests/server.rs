//! An rmcp handler behind guarded standard streams, and a client that does what it should not.

use std::collections::HashMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::Duration;

use rmcp::ServiceExt;
use rmcp::transport::TokioChildProcess;
use serde_json::{Value, json};

use crate::rig::{self, Note, TOOLS, within};

/// Only a hang takes this long.
const PATIENCE: Duration = Duration::from_secs(60);

/// The server, and both ends of its pipes.
struct Server {
    child: Child,
    input: Option<ChildStdin>,
    lines: Receiver<Value>,
    complaints: thread::JoinHandle<String>,
}

impl Server {
    fn start() -> Server {
        let mut child = Command::new(TOOLS)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("it starts");
        let (sender, lines) = channel();
        let output = BufReader::new(child.stdout.take().expect("a pipe"));
        thread::spawn(move || {
            for line in output.lines() {
                let line = line.expect("UTF-8");
                let message = serde_json::from_str(&line)
                    .unwrap_or_else(|_| panic!("no message of the protocol: {line}"));
                if sender.send(message).is_err() {
                    break;
                }
            }
        });
        let mut errors = child.stderr.take().expect("a pipe");
        let complaints = thread::spawn(move || {
            let mut text = String::new();
            errors.read_to_string(&mut text).expect("UTF-8");
            text
        });
        Server {
            input: child.stdin.take(),
            child,
            lines,
            complaints,
        }
    }

    /// One that has been greeted.
    fn greeted() -> Server {
        let mut server = Server::start();
        server.greet();
        server
    }

    fn greet(&mut self) {
        self.say(
            json!({ "jsonrpc": "2.0", "id": "greeting", "method": "initialize", "params": {
            "protocolVersion": "2025-11-25",
            "capabilities": {},
            "clientInfo": { "name": "test", "version": "1" },
        } }),
        );
        let answer = self.hear();
        assert_eq!(answer["id"], "greeting");
        assert_eq!(answer["result"]["serverInfo"]["name"], "tools");
        self.say(json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }));
    }

    fn write(&mut self, bytes: &[u8]) {
        let input = self.input.as_mut().expect("open");
        input.write_all(bytes).expect("it reads");
    }

    fn say(&mut self, message: Value) {
        self.write(format!("{message}\n").as_bytes());
    }

    fn call(&mut self, id: impl Into<Value>, tool: &str, arguments: Value) {
        let params = json!({ "name": tool, "arguments": arguments });
        let id: Value = id.into();
        self.say(json!({ "jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params }));
    }

    fn cancel(&mut self, id: impl Into<Value>) {
        let params = json!({ "requestId": id.into() });
        self.say(
            json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": params }),
        );
    }

    fn hear(&mut self) -> Value {
        self.lines.recv_timeout(PATIENCE).expect("it answers")
    }

    /// The server lives.
    fn pings(&mut self, id: &str) {
        self.call(id, "ping", json!({}));
        let answer = self.hear();
        assert_eq!(answer["id"], id);
        assert_eq!(text(&answer), "pong");
    }

    /// The client leaves. What the server still says, and its complaints; it must end with success.
    fn leave(mut self) -> (Vec<Value>, String) {
        drop(self.input.take());
        let rest = self.lines.iter().collect();
        let status = self.child.wait().expect("it was ours");
        assert_eq!(status.code(), Some(0), "{status}");
        (rest, self.complaints.join().expect("no panic"))
    }
}

fn text(answer: &Value) -> &str {
    answer["result"]["content"][0]["text"]
        .as_str()
        .unwrap_or_default()
}

#[tokio::test]
async fn a_plain_rmcp_client_is_served() {
    within(async {
        let server = TokioChildProcess::new(tokio::process::Command::new(TOOLS));
        let mut client = ().serve(server.expect("it starts")).await.expect("it connects");
        assert_eq!(client.list_all_tools().await.expect("a list").len(), 7);
        assert_eq!(rig::text(&client, "ping").await.expect("a pong"), "pong");
        assert_eq!(
            rig::text(&client, "steps").await.expect("an answer"),
            "done"
        );
        client.close().await.expect("no panic");
    })
    .await;
}

#[test]
fn what_a_tool_prints_is_not_protocol() {
    let mut server = Server::greeted();
    server.call(1, "print", json!({}));
    assert_eq!(text(&server.hear()), "printed");
    server.pings("after");
    let (rest, complaints) = server.leave();
    assert_eq!(rest, [] as [Value; 0]);
    assert_eq!(complaints, "a stray print\na stray child\n");
}

#[test]
fn nonsense_does_not_end_it() {
    let mut server = Server::greeted();
    server.write(b"this is no JSON\n\n{\"jsonrpc\":\"2.0\"}\n[1,2]\n");
    server.write(b"{\"jsonrpc\":\"2.0\",\"method\":\"notifications/\xff\"}\n");
    server.write(b"{\"jsonrpc\":\"2.0\",\"id\":\"bytes\",\"method\":\"tools/list\",\"params\":{\"cursor\":\"\xff\"}}\n");
    let answer = server.hear();
    assert_eq!(answer["id"], "bytes");
    assert_eq!(answer["error"]["code"], -32700);

    // Not a request that rmcp has a type for: its id is a fraction.
    server.say(json!({ "jsonrpc": "2.0", "id": 1.5, "method": "tools/list" }));
    let answer = server.hear();
    assert_eq!(answer["id"], 1.5);
    assert_eq!(answer["error"]["code"], -32600);
    server.pings("after");
    let (rest, complaints) = server.leave();
    assert_eq!((rest, &*complaints), (vec![], ""));
}

#[test]
fn a_line_that_is_too_long_is_answered() {
    let mut server = Server::greeted();
    let long = "x".repeat(65 << 20);
    server.call("long", "ping", json!({ "long": long }));
    let answer = server.hear();
    assert_eq!(answer["id"], "long");
    assert_eq!(answer["error"]["code"], -31008);
    server.pings("after");
    server.leave();
}

#[test]
fn an_id_in_use_is_refused_and_the_first_call_unharmed() {
    let note = Note::new();
    let mut server = Server::greeted();
    server.call("twice", "linger", json!({ "note": note.path() }));
    server.call("twice", "ping", json!({}));
    let answer = server.hear();
    assert_eq!(answer["id"], "twice");
    assert_eq!(answer["error"]["code"], -32600);
    server.pings("after");
    server.cancel("twice");
    server.pings("and after");
    let (rest, complaints) = server.leave();
    assert_eq!((rest, &*complaints), (vec![], ""));
    assert_eq!(note.lines(), ["begun", "cancelled"]);
}

#[test]
fn a_client_that_leaves_in_the_middle_of_a_call_is_a_success() {
    let note = Note::new();
    let mut server = Server::greeted();
    server.call(1, "linger", json!({ "note": note.path() }));
    server.pings("meanwhile");
    let (rest, complaints) = server.leave();
    assert_eq!((rest, &*complaints), (vec![], ""));
    assert_eq!(note.lines(), ["begun", "cancelled"]);
}

/// A client may close its side and still wait for what it asked.
#[test]
fn what_was_asked_before_the_end_is_answered_after_it() {
    let mut server = Server::greeted();
    for id in 0..50 {
        server.call(id, "ping", json!({}));
    }
    let (rest, complaints) = server.leave();
    assert_eq!((rest.len(), &*complaints), (50, ""));
}

#[test]
fn a_panic_is_answered_for() {
    let mut server = Server::greeted();
    server.call(1, "panic", json!({}));
    let answer = server.hear();
    assert_eq!(answer["id"], 1);
    assert_eq!(answer["error"]["code"], -32603);
    server.pings("after");
    let (rest, complaints) = server.leave();
    assert_eq!(rest, [] as [Value; 0]);
    assert!(complaints.contains("as asked"), "{complaints}");
}

/// Cancellations aimed at the moment of the answer, and at one that comes after it.
#[test]
fn a_cancelled_call_is_not_answered_and_no_call_twice() {
    let note = Note::new();
    let mut server = Server::greeted();
    server.call("lingers", "linger", json!({ "note": note.path() }));
    server.cancel("lingers");
    let calls = 2000;
    for id in 0..calls {
        server.call(id, "ping", json!({}));
        if id % 3 == 0 {
            server.cancel(id - id % 7);
        }
    }
    let mut answers: HashMap<u64, u32> = HashMap::new();
    let (rest, complaints) = server.leave();
    for answer in rest {
        assert_eq!(text(&answer), "pong");
        *answers
            .entry(answer["id"].as_u64().expect("ours"))
            .or_default() += 1;
    }
    assert!(answers.values().all(|times| *times == 1));
    let cancelled = |id: u64| (id..id + 7).any(|by| by % 3 == 0 && by - by % 7 == id);
    for id in (0..calls).filter(|id| !cancelled(*id)) {
        assert!(answers.contains_key(&id), "{id} was not answered");
    }
    assert_eq!(complaints, "");
}

/// A notification before the handshake ends rmcp's; the next one is met all the same.
#[test]
fn a_handshake_that_goes_wrong_is_not_the_end() {
    let mut server = Server::start();
    server.say(json!({ "jsonrpc": "2.0", "method": "notifications/roots/list_changed" }));
    server.say(json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/list" }));
    let answer = server.hear();
    assert_eq!(answer["id"], 1);
    assert!(answer["error"].is_object());
    server.greet();
    server.pings("after");
    let (rest, complaints) = server.leave();
    assert_eq!((rest, &*complaints), (vec![], ""));
}
