//! The tools: each does one small thing, or one thing wrong.

use std::fs::OpenOptions;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::Duration;

use rustix::process::{Signal, getpid, kill_process};
use serde_json::{Value, json};

use crate::server::{Call, Server, lock};

/// Long enough that only a kill ends it.
const FOR_EVER: Duration = Duration::from_secs(3600);

/// A result as no library would write it.
const ODDLY: &str =
    "{ \"z\" : 1.50e+2,\t\"content\":[ ],\"a\":\"\\u0041\\/\", \"z2\":12345678901234567890 }";

/// How a call ends.
pub enum Outcome {
    /// With this result.
    Result(Value),
    /// With this JSON-RPC error.
    Error(i64, String),
    /// Without an answer, or with one that was sent already.
    Nothing,
}

/// The tools on offer in set `v1`, `v2`, `v3`, `unhinted`, `none` or `twice`.
///
/// `v3` has another title for its first tool. `v2` has `added` instead of `removed`, and another schema for `changing`.
/// `unhinted` is `v1` without any annotation. `none` has no tools. `twice` has each annotated tool twice, first
/// without.
pub fn list(set: &str) -> Vec<Value> {
    if set == "none" {
        return Vec::new();
    }
    let plain = [
        "ping",
        "echo",
        "sleep",
        "racy",
        "stubborn",
        "crash",
        "append",
        "stderr",
        "junk",
        "babble",
        "close_stdout",
        "deaf",
        "block",
        "tick",
        "mute",
        "flood",
        "orphan",
        "elicit",
        "progress",
        "huge",
        "answer_as",
        "twice",
        "stop",
        "memory",
        "touch",
        "leak",
        "fail",
        "notify_listeners",
        "ask",
        "puppet",
        "notify",
        "go_on",
    ];
    let tool = |name: &str| json!({ "name": name, "inputSchema": { "type": "object" } });
    let mut tools: Vec<Value> = plain.iter().map(|name| tool(name)).collect();
    for (name, hint) in [
        ("append_read", "readOnlyHint"),
        ("append_idem", "idempotentHint"),
        ("sleep_read", "readOnlyHint"),
        ("tick_read", "readOnlyHint"),
    ] {
        if set == "twice" {
            tools.push(tool(name));
        }
        let mut hinted = tool(name);
        if set != "unhinted" {
            hinted["annotations"] = json!({ hint: true });
        }
        tools.push(hinted);
    }
    if set == "v3" {
        tools[0]["title"] = json!("another");
    }
    let mut changing = tool("changing");
    if set == "v2" {
        changing["inputSchema"]["required"] = json!(["x"]);
        tools.push(tool("added"));
    } else {
        tools.push(tool("removed"));
    }
    tools.push(changing);
    tools
}

/// Runs a tool to its end: one arm per tool.
pub fn run(server: &Arc<Server>, call: &Call, name: &str, args: &Value) -> Outcome {
    let number = |key: &str| args[key].as_u64();
    let pause = || Duration::from_millis(number("ms").unwrap_or(0));
    match name {
        "ping" => Outcome::Result(json!({
            "content": [{ "type": "text", "text": "pong" }],
            "structuredContent": { "pid": std::process::id(), "spawn": server.tap.spawn },
        })),
        "echo" => text(args["text"].as_str().unwrap_or_default()),
        "sleep" | "sleep_read" => {
            if call.cancelled_within(pause()) {
                server.tap.note("cancelled", call.id.clone());
                Outcome::Nothing
            } else {
                text(args["text"].as_str().unwrap_or("slept"))
            }
        }
        "racy" => {
            thread::sleep(Duration::from_micros(number("us").unwrap_or(0)));
            text("raced")
        }
        "stubborn" => stubborn(server, call, args["how"].as_str().unwrap_or("result")),
        "crash" => {
            thread::sleep(pause());
            if let Some(words) = args["say"].as_str() {
                eprintln!("{words}");
            }
            die(args)
        }
        "append" | "append_read" | "append_idem" => append(args),
        "stderr" => {
            let mut junk = vec![b'x'; number("bytes").unwrap_or(0) as usize];
            if args["newlines"] == true {
                junk.iter_mut()
                    .skip(79)
                    .step_by(80)
                    .for_each(|byte| *byte = b'\n');
            }
            let _ = std::io::stderr().write_all(&junk);
            text("written")
        }
        "junk" => {
            for line in args["hex"].as_array().into_iter().flatten() {
                let mut bytes = unhex(line.as_str().unwrap_or_default());
                bytes.push(b'\n');
                server.output.raw(&bytes);
            }
            text("printed")
        }
        "babble" => {
            let server = server.clone();
            let lines = b"y\n".repeat(512);
            (0..64).for_each(|_| server.output.raw(&lines));
            thread::spawn(move || {
                loop {
                    server.output.raw(&lines);
                    // Whoever has an answer to write has a turn as well.
                    thread::sleep(Duration::from_micros(1));
                }
            });
            text("babbling")
        }
        "close_stdout" => {
            // With `deaf_ms`, nothing is read meanwhile, and everything afterwards.
            if let Some(ms) = number("deaf_ms") {
                server.deaf.store(true, Ordering::SeqCst);
                server.tap.note("deaf", call.id.clone());
                thread::sleep(Duration::from_millis(ms));
            }
            close_stdout();
            server.deaf.store(false, Ordering::SeqCst);
            Outcome::Nothing
        }
        "deaf" => {
            server.deaf.store(true, Ordering::SeqCst);
            text("deaf")
        }
        "block" => {
            server.deaf.store(true, Ordering::SeqCst);
            thread::sleep(pause());
            server.deaf.store(false, Ordering::SeqCst);
            text("unblocked")
        }
        "mute" => {
            server.mute.store(true, Ordering::SeqCst);
            Outcome::Nothing
        }
        "flood" => {
            let pad = "x".repeat(number("bytes").unwrap_or(0) as usize);
            for n in 0..number("count").unwrap_or(1) {
                let data = json!({ "n": n, "pad": pad });
                server.notify(
                    "notifications/message",
                    json!({ "level": "info", "data": data }),
                );
                thread::sleep(pause());
            }
            text("flooded")
        }
        "orphan" => orphan(server, args),
        "ask" => ask(server, call, args),
        "puppet" => puppet(call, args),
        "go_on" => go_on(server, call, args),
        "notify" => {
            let method = args["method"].as_str().unwrap_or_default();
            server.notify(method, args["params"].clone());
            text("notified")
        }
        "elicit" => {
            let schema = json!({ "type": "object", "properties": {} });
            let ask = json!({ "message": "Go on?", "requestedSchema": schema });
            match server.ask("elicitation/create", ask).recv() {
                Ok(answer) => {
                    server.tap.note("elicited", answer.clone());
                    text(&answer.to_string())
                }
                Err(_) => Outcome::Nothing,
            }
        }
        "progress" => progress(server, call),
        "tick" | "tick_read" => {
            for n in 1..=number("ticks").unwrap_or(1) {
                if call.cancelled_within(pause()) {
                    return Outcome::Nothing;
                }
                let token = call.progress_token.clone();
                let mut params = json!({ "progressToken": token, "progress": n });
                if let Some(bytes) = number("bytes") {
                    params["message"] = "x".repeat(bytes as usize).into();
                }
                server.notify("notifications/progress", params);
                if Some(n) == number("die_at") && server.tap.spawn == 1 {
                    die(&json!({ "signal": 9 }));
                }
            }
            text("ticked")
        }
        "huge" => text(&"h".repeat(number("bytes").unwrap_or(0) as usize)),
        "answer_as" => answer_as(server, call, args["as"].as_str().unwrap_or_default()),
        "twice" => {
            server.reply(
                &call.id,
                json!({ "content": [], "structuredContent": { "n": 1 } }),
            );
            server.fail(&call.id, -32603, "the second answer");
            server.reply(
                &call.id,
                json!({ "content": [], "structuredContent": { "n": 3 } }),
            );
            Outcome::Nothing
        }
        "stop" => {
            let _ = kill_process(getpid(), Signal::STOP);
            // It takes the kernel a moment to stop all threads.
            thread::sleep(Duration::from_millis(500));
            text("resumed")
        }
        "memory" => {
            let memory = lock(&server.memory);
            Outcome::Result(json!({
                "content": [],
                "structuredContent": {
                    "level": memory.level,
                    "subscriptions": memory.subscriptions,
                    "listeners": memory.listeners,
                },
            }))
        }
        "touch" => {
            server.notify_subscribers(args["uri"].as_str().unwrap_or_default());
            text("touched")
        }
        "leak" => {
            let value = std::env::var(args["name"].as_str().unwrap_or_default());
            eprintln!("cannot log in with {}", value.unwrap_or_default());
            std::process::exit(1);
        }
        "fail" => Outcome::Error(-32042, "the tool's own error".into()),
        "notify_listeners" => {
            server.notify_listeners();
            text("notified")
        }
        "changing" | "removed" | "added"
            if list(&server.knobs.tool_set())
                .iter()
                .any(|tool| tool["name"] == name) =>
        {
            text(name)
        }
        other => Outcome::Error(-32602, format!("Unknown tool: {other}")),
    }
}

fn text(words: &str) -> Outcome {
    Outcome::Result(json!({ "content": [{ "type": "text", "text": words }] }))
}

/// Closes standard output, whatever it is, and lives on.
fn close_stdout() {
    // A socket is standard input too; this is an error for a pipe.
    let _ = rustix::net::shutdown(rustix::stdio::stdout(), rustix::net::Shutdown::Write);
    // The pipe closes when its last descriptor is replaced.
    if let Ok(null) = OpenOptions::new().write(true).open("/dev/null") {
        let _ = rustix::stdio::dup2_stdout(null);
    }
}

/// Asks the host with `method` and `params`, in the way of the call's era, and tells what it said.
///
/// A modern call is answered with what is needed first; what comes with the next one is told.
fn ask(server: &Server, call: &Call, args: &Value) -> Outcome {
    let method = args["method"].as_str().unwrap_or_default();
    if !call.modern {
        return match server.ask(method, args["params"].clone()).recv() {
            Ok(answer) => {
                server.tap.note("asked", answer.clone());
                text(&answer.to_string())
            }
            Err(_) => Outcome::Nothing,
        };
    }
    if call.given["responses"].is_object() {
        return text(&call.given.to_string());
    }
    Outcome::Result(json!({
        "resultType": "input_required",
        "inputRequests": { "it": { "method": method, "params": args["params"] } },
        "requestState": "where I was",
    }))
}

/// Does nothing until the file `strings` has a word in it: `answer`, `fail` or `eof`.
fn puppet(call: &Call, args: &Value) -> Outcome {
    let strings = Path::new(args["strings"].as_str().unwrap_or_default());
    loop {
        if call.cancelled_within(Duration::from_millis(5)) {
            return Outcome::Nothing;
        }
        match std::fs::read_to_string(strings).unwrap_or_default().trim() {
            "" => {}
            "fail" => return Outcome::Error(-32042, "the tool's own error".into()),
            "eof" => {
                close_stdout();
                return Outcome::Nothing;
            }
            words => return text(words),
        }
    }
}

/// Ends the process with the `signal` or the exit `code` asked for.
fn die(args: &Value) -> ! {
    let signal = args["signal"]
        .as_i64()
        .and_then(|n| Signal::from_named_raw(n as i32));
    if let Some(signal) = signal {
        let _ = kill_process(getpid(), signal);
        thread::sleep(FOR_EVER);
    }
    std::process::exit(args["code"].as_i64().unwrap_or(1) as i32);
}

/// Waits for its own cancellation, then answers all the same.
fn stubborn(server: &Server, call: &Call, how: &str) -> Outcome {
    if !call.cancelled_within(FOR_EVER) {
        return text("never cancelled");
    }
    thread::sleep(Duration::from_millis(20));
    if how != "error" {
        server.reply(&call.id, json!({ "content": [] }));
    }
    if how != "result" {
        server.fail(&call.id, 0, "Request cancelled");
    }
    server.tap.note("answered_late", call.id.clone());
    Outcome::Nothing
}

/// A side effect, the `line` in the file, then death before the answer, until the file has more than `die_until` lines.
fn append(args: &Value) -> Outcome {
    let path = Path::new(args["file"].as_str().unwrap_or_default());
    let lines = OpenOptions::new()
        .create(true)
        .append(true)
        .open(path)
        .and_then(|mut file| {
            let line = args["line"].as_u64().map(|n| format!("{n}\n"));
            file.write_all(line.as_deref().unwrap_or("done\n").as_bytes())
        })
        .and_then(|()| std::fs::read_to_string(path))
        .map(|content| content.lines().count() as u64);
    match lines {
        Ok(lines) if lines <= args["die_until"].as_u64().unwrap_or(0) => {
            die(&json!({ "signal": 9 }))
        }
        Ok(lines) => text(&lines.to_string()),
        Err(error) => Outcome::Error(-32603, error.to_string()),
    }
}

/// Leaves a descendant behind that holds our pipes; exits with `code` if there is one.
///
/// The descendant ignores `SIGTERM`. With `say` it writes that line to the inherited standard
/// output after `ms`. With `script` it is whatever that makes it.
fn orphan(server: &Server, args: &Value) -> Outcome {
    let pause = args["ms"].as_u64().unwrap_or(0) as f64 / 1000.0;
    let script = match (args["script"].as_str(), args["say"].as_str()) {
        (Some(script), _) => script.into(),
        (_, Some(words)) => {
            format!("trap '' TERM; sleep {pause}; printf '%s\\n' '{words}'; sleep 9999")
        }
        _ => "trap '' TERM; sleep 9999".into(),
    };
    let mut command = Command::new("sh");
    if args["own_session"] == true {
        command = Command::new("setsid");
        command.arg("sh");
    }
    match command.arg("-c").arg(script).stdin(Stdio::null()).spawn() {
        Ok(child) => server.tap.note("orphan", json!(child.id())),
        Err(error) => return Outcome::Error(-32603, error.to_string()),
    }
    if let Some(code) = args["code"].as_i64() {
        std::process::exit(code as i32);
    }
    text("left behind")
}

/// Progress with the caller's token, with an invented one, and after the answer.
fn progress(server: &Server, call: &Call) -> Outcome {
    let given = call.progress_token.clone().unwrap_or(json!("none-given"));
    let tell = |token: &Value, n: u32| {
        server.notify(
            "notifications/progress",
            json!({ "progressToken": token, "progress": n }),
        )
    };
    tell(&given, 1);
    tell(&json!("invented"), 1);
    tell(&given, 2);
    server.reply(
        &call.id,
        json!({ "content": [{ "type": "text", "text": "progressed" }] }),
    );
    tell(&given, 3);
    tell(&given, 4);
    Outcome::Nothing
}

/// An answer whose id is not the one that was asked with.
fn answer_as(server: &Server, call: &Call, how: &str) -> Outcome {
    let result = json!({ "content": [{ "type": "text", "text": how }] });
    let error = json!({ "code": -32700, "message": "Parse error" });
    match how {
        "string" => server.reply(&json!(call.id.to_string()), result),
        "number" => {
            let number = call.id.as_str().and_then(|id| id.parse::<i64>().ok());
            server.reply(&json!(number), result);
        }
        "null" => server.send(json!({ "jsonrpc": "2.0", "id": null, "error": error })),
        "missing" => server.send(json!({ "jsonrpc": "2.0", "error": error })),
        "server-error" => {
            server.send(json!({ "jsonrpc": "2.0", "id": "server-error", "error": error }))
        }
        "bad-utf8" => {
            let line = format!(
                "{{\"jsonrpc\":\"2.0\",\"id\":{},\"result\":{{\"x\":\"",
                call.id
            );
            server
                .output
                .raw(&[line.as_bytes(), b"\xff\xfe\"}}\n"].concat());
        }
        "spelt" => {
            let line = format!(
                "{{\"jsonrpc\":\"2.0\",\"id\":{},\"result\":{ODDLY}}}\n",
                call.id
            );
            server.output.raw(line.as_bytes());
        }
        "behind" => {
            let line = json!({ "jsonrpc": "2.0", "id": call.id, "result": result });
            server.output.raw(format!("..{line}\n").as_bytes());
        }
        "both" => server
            .send(json!({ "jsonrpc": "2.0", "id": call.id, "result": result, "error": error })),
        _ => server.reply(&json!("nobody-asked"), result),
    }
    Outcome::Nothing
}

fn unhex(text: &str) -> Vec<u8> {
    text.as_bytes()
        .chunks(2)
        .filter_map(|pair| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok())
        .collect()
}

/// Goes on whether it is cancelled or not: when a file is there, it logs, says something of its own and asks.
fn go_on(server: &Arc<Server>, call: &Call, args: &Value) -> Outcome {
    let file = args["until"].as_str().unwrap_or_default();
    server.tap.note("going on", json!(file));
    while !std::path::Path::new(file).exists() {
        thread::sleep(Duration::from_millis(10));
    }
    let data = json!(format!("a log about {file}"));
    server.notify(
        "notifications/message",
        json!({ "level": "error", "data": data }),
    );
    server.notify("notifications/vendor/thing", json!({ "about": file }));
    let token = call.progress_token.clone();
    let progress = json!({ "progressToken": token, "progress": 1, "message": file });
    server.notify("notifications/progress", progress);
    let schema = json!({ "type": "object", "properties": {} });
    let ask = json!({ "message": format!("Go on with {file}?"), "requestedSchema": schema });
    let answer = server.ask("elicitation/create", ask).recv();
    server.tap.note("elicited", answer.unwrap_or_default());
    text("gone on")
}
