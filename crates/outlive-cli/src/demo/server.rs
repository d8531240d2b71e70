//! The server that the demo kills: a small MCP server over stdio.
//!
//! It has the manners that make a supervisor necessary. It takes a moment to start, it runs slow
//! tools in threads, it prints to standard output what does not belong there, and it answers a
//! call although the call was cancelled. It dies only when somebody kills it or its input ends.

use std::io::{self, BufRead, Write};
use std::process::ExitCode;
use std::thread;
use std::time::Duration;

use serde_json::{Value, json};

/// How long the server takes before it reads its first line, as real ones do.
pub const START: Duration = Duration::from_millis(150);

/// How long a call of a slow tool takes.
pub const WORK: Duration = Duration::from_millis(350);

/// What the tool `chatter` prints between two frames; the last one is not UTF-8.
pub const JUNK: [&[u8]; 4] = [
    b"Loading plugins... done",
    b"\x1b[33mwarning\x1b[0m: cache is cold",
    b"{\"level\":\"info\",\"half\":",
    b"caf\xe9 \xff\xfe\xc3\x28",
];

/// Serves until its input ends.
pub fn main() -> ExitCode {
    thread::sleep(START);
    for line in io::stdin().lock().split(b'\n') {
        let Ok(line) = line else { break };
        let Ok(message) = serde_json::from_slice::<Value>(&line) else {
            continue;
        };
        if let (Some(id), Some(method)) = (message.get("id"), message["method"].as_str()) {
            serve(id.clone(), method, &message["params"]);
        }
    }
    ExitCode::SUCCESS
}

fn serve(id: Value, method: &str, params: &Value) {
    match method {
        "initialize" => answer(
            id,
            json!({
                "protocolVersion": params["protocolVersion"],
                "capabilities": { "tools": {} },
                "serverInfo": { "name": "demo-server", "version": env!("CARGO_PKG_VERSION") },
            }),
        ),
        "ping" => answer(id, json!({})),
        "tools/list" => answer(id, json!({ "tools": tools() })),
        "tools/call" => call(id, params.clone()),
        _ => refuse(id, -32601, &format!("There is no method `{method}`.")),
    }
}

fn tools() -> Value {
    let tool = |name: &str, description: &str, read_only: bool| {
        json!({
            "name": name,
            "description": description,
            "inputSchema": { "type": "object" },
            "annotations": { "readOnlyHint": read_only, "idempotentHint": read_only },
        })
    };
    json!([
        tool("pid", "The process id of this server.", true),
        tool("search", "Takes a while and changes nothing.", true),
        tool("deploy", "Takes a while and must not happen twice.", false),
        tool(
            "chatter",
            "Prints junk to standard output, then answers.",
            false
        ),
    ])
}

fn call(id: Value, params: Value) {
    match params["name"].as_str() {
        Some("pid") => answer(id, content(format!("process {}", std::process::id()))),
        Some("chatter") => {
            for line in JUNK {
                write(line);
            }
            answer(id, content(format!("printed {} lines of junk", JUNK.len())));
        }
        Some("search") => work(id, params, "3 results"),
        Some("deploy") => work(id, params, "deployed"),
        _ => refuse(id, -32602, "There is no such tool."),
    }
}

/// Reports progress once, so that the host knows the call is running, and answers later.
fn work(id: Value, params: Value, done: &'static str) {
    thread::spawn(move || {
        if let Some(token) = params.pointer("/_meta/progressToken") {
            send(json!({
                "jsonrpc": "2.0",
                "method": "notifications/progress",
                "params": { "progressToken": token, "progress": 0, "message": "working" },
            }));
        }
        thread::sleep(WORK);
        answer(
            id,
            content(format!("{done} by process {}", std::process::id())),
        );
    });
}

/// Every answer says who gave it: the host of the demo kills by that number.
fn content(text: String) -> Value {
    json!({
        "content": [{ "type": "text", "text": text }],
        "structuredContent": { "pid": std::process::id() },
    })
}

fn answer(id: Value, result: Value) {
    send(json!({ "jsonrpc": "2.0", "id": id, "result": result }));
}

fn refuse(id: Value, code: i32, message: &str) {
    let error = json!({ "code": code, "message": message });
    send(json!({ "jsonrpc": "2.0", "id": id, "error": error }));
}

fn send(message: Value) {
    write(message.to_string().as_bytes());
}

/// Writes one line whole. Nobody left to read it means that the server may go.
fn write(line: &[u8]) {
    let mut out = io::stdout().lock();
    let written = out
        .write_all(line)
        .and_then(|()| out.write_all(b"\n"))
        .and_then(|()| out.flush());
    if written.is_err() {
        std::process::exit(0);
    }
}
