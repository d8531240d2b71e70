//! The host leaves, or `outlive` is told to: what was accepted is finished, everything is
//! settled, and it ends.

use std::io::{BufRead, BufReader};
use std::process::Stdio;

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::rig::{Host, Setup, until};

const FOR_EVER: u64 = 3_600_000;

/// FM-20: fifty calls are running when the host closes its side. `outlive` exits 0 with nothing
/// that looks like a crash on standard error, every call is cancelled at the server, and no process
/// stays. The host, which has left, is not told: some break on an answer after that.
#[test]
fn fm_20_closing_input_under_running_calls_is_clean() {
    let mut host = Host::ready(Setup::new().flags(&["--drain", "300ms"]));
    let ids: Vec<i64> = (0..50)
        .map(|_| host.call("sleep", json!({ "ms": FOR_EVER })))
        .collect();
    host.hang_up();
    assert_eq!(host.exit().code(), Some(0));
    host.wait_for_end();
    for id in ids {
        assert_eq!(host.answers(id), 0, "answers to {id}");
    }
    assert_eq!(host.tap().method("notifications/cancelled").len(), 50);
    clean(&mut host);
}

/// FM-56: the host has closed its side, and the server answers while it is being stopped. The host, which reads on,
/// gets that answer, once.
#[test]
fn fm_56_answers_of_a_server_that_is_being_stopped_reach_the_host() {
    let setup = Setup::new().knobs(&["--ignore-eof"]);
    let mut host = Host::ready(setup.flags(&["--drain", "100ms"]));
    let id = host.call("stubborn", json!({}));
    until("the call at the server", || {
        host.tap().method("tools/call").pop()
    });
    host.hang_up();
    host.answer(id).result();
    assert_eq!(host.exit().code(), Some(0));
    host.wait_for_end();
    assert_eq!(host.answers(id), 1);
    clean(&mut host);
}

/// FM-20: the host stops listening under running calls. There is nobody left to serve.
#[test]
fn fm_20_closing_output_under_running_calls_is_clean() {
    for close_input_too in [false, true] {
        let setup = Setup::new().flags(&["--drain", "300ms"]);
        let (reader, writer) = std::io::pipe().expect("a pipe");
        let mut command = setup.command();
        command.stdout(Stdio::from(writer));
        let mut host = Host::spawn(setup, command);
        let mut output = BufReader::new(reader);
        let mut line = String::new();
        let id = host.request(
            "initialize",
            json!({
                "protocolVersion": "2025-11-25", "capabilities": {},
                "clientInfo": { "name": "deaf", "version": "0" },
            }),
        );
        output.read_line(&mut line).expect("an answer");
        let answer: Value = serde_json::from_str(&line).expect("JSON");
        assert_eq!(answer["id"], id);
        host.notify("notifications/initialized", json!({}));
        for _ in 0..50 {
            host.call("sleep", json!({ "ms": 500 }));
        }
        until("the calls at the server", || {
            (host.tap().method("tools/call").len() == 50).then_some(())
        });
        drop(output);
        if close_input_too {
            host.hang_up();
        }
        assert_eq!(host.exit().code(), Some(0));
        host.wait_for_empty_tree();
        clean(&mut host);
    }
}

/// FM-51: the host leaves while the server waits for its answer. The handler gets an error
/// rather than nothing.
#[test]
fn fm_51_pending_question_is_answered_when_the_host_leaves() {
    let mut host = Host::ready(Setup::new().flags(&["--drain", "30s"]));
    let id = host.call("elicit", json!({}));
    let ask = host.wait_for("the question", |m| m["method"] == "elicitation/create");
    assert_eq!(
        ask["id"], 1,
        "the first generation's own ids pass unchanged"
    );
    host.hang_up();
    let elicited = until("the handler's answer", || {
        host.tap().notes("elicited").pop()
    });
    assert!(elicited["data"].get("error").is_some(), "{elicited}");
    // The handler could finish, so its call is answered.
    host.answer(id).result();
    assert_eq!(host.exit().code(), Some(0));
}

/// FM-51: the server dies while the host is thinking about its question. The question is
/// withdrawn; an answer that comes all the same reaches nobody; the next server may use the same
/// id without meeting the old one.
#[test]
fn fm_51_question_of_a_dead_server_is_withdrawn() {
    let mut host = Host::ready(Setup::new());
    host.call("elicit", json!({}));
    let ask = host.wait_for("the question", |m| m["method"] == "elicitation/create");
    host.ask("crash", json!({ "code": 1 }))
        .refused("connection_lost");
    let withdrawn = host.wait_for("the withdrawal", |m| {
        m["method"] == "notifications/cancelled"
    });
    assert_eq!(withdrawn["params"]["requestId"], ask["id"]);

    let second = host.call("elicit", json!({}));
    let again = host.wait_for("the second question", |m| {
        m["method"] == "elicitation/create" && m["id"] != ask["id"]
    });
    let answer = |id: &Value, action: &str| json!({ "jsonrpc": "2.0", "id": id, "result": { "action": action } });
    host.send(&answer(&ask["id"], "decline"));
    host.send(&answer(&again["id"], "accept"));
    let text = host.answer(second).text().to_owned();
    assert!(text.contains("accept"), "{text}");
    let elicited = host.tap().notes("elicited");
    assert_eq!(elicited.len(), 1, "the late answer reached a server");
}

/// FM-54: `SIGTERM` with ten calls running. All ten finish, what comes later is refused, and it
/// exits 0 as soon as they are done, not at the bound.
#[test]
fn fm_54_sigterm_drains() {
    let mut host = Host::ready(Setup::new().flags(&["--drain", "600s"]));
    let ids: Vec<i64> = (0..10)
        .map(|_| host.call("sleep", json!({ "ms": 4000 })))
        .collect();
    until("the calls at the server", || {
        (host.tap().method("tools/call").len() == 10).then_some(())
    });
    host.signal(Signal::TERM);
    host.event("the drain", |e| e["event"] == "draining");
    let late = host.call("ping", json!({}));
    host.answer(late).refused("shutting_down");
    for id in &ids {
        assert_eq!(host.answer(*id).text(), "slept");
    }
    assert_eq!(host.exit().code(), Some(0));
    host.wait_for_empty_tree();
}

/// FM-54: what does not finish within the bound is told so, and cancelled at the server.
#[test]
fn fm_54_drain_is_bounded() {
    let mut host = Host::ready(Setup::new().flags(&["--drain", "300ms"]));
    let id = host.call("sleep", json!({ "ms": FOR_EVER }));
    until("the call at the server", || {
        host.tap().method("tools/call").pop()
    });
    host.signal(Signal::TERM);
    host.answer(id).refused("shutting_down");
    assert_eq!(host.exit().code(), Some(0));
    let told = host.tap().method("notifications/cancelled");
    assert_eq!(told.len(), 1, "the server was told to stop");
    assert_eq!(told[0]["params"]["requestId"], id);
}

/// FM-37, FM-54: a stop in the middle of a restart is a stop: no further server is started, what
/// was held is settled, and it ends.
#[test]
fn fm_54_stop_during_a_restart_stays_stopped() {
    let setup = Setup::new().flags(&["--drain", "300ms"]);
    let slow = setup.path("slow");
    let script = format!("[ -e {slow} ] && sleep 9999; exec FAKE");
    let mut host = Host::ready(setup.script(&script));
    std::fs::write(&slow, "").expect("the fault");
    host.ask("crash", json!({ "code": 1 }))
        .refused("connection_lost");
    let held = host.call("ping", json!({}));
    host.event("the restart", |e| e["state"] == "connecting");
    host.signal(Signal::TERM);
    host.answer(held).error();
    assert_eq!(host.exit().code(), Some(0));
    host.wait_for_empty_tree();
    assert_eq!(host.answers(held), 1);
    assert_eq!(host.tap().pids().len(), 1);
}

/// FM-56: a script pipes its requests in and closes. All answers come, every time, also to a
/// last line without its line end; then it exits 0.
#[test]
fn fm_56_end_of_input_drops_no_answer() {
    let input = [
        json!({
            "jsonrpc": "2.0", "id": 1, "method": "initialize",
            "params": {
                "protocolVersion": "2025-11-25", "capabilities": {},
                "clientInfo": { "name": "script", "version": "0" },
            },
        }),
        json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }),
        json!({
            "jsonrpc": "2.0", "id": 2, "method": "tools/call",
            "params": { "name": "sleep", "arguments": { "ms": 50 } },
        }),
        json!({ "jsonrpc": "2.0", "id": 3, "method": "tools/list" }),
    ]
    .map(|message| message.to_string())
    .join("\n");
    for run in 0..20 {
        let mut host = Setup::new().flags(&["--drain", "30s"]).start();
        host.send_raw(input.clone());
        host.hang_up();
        assert_eq!(host.exit().code(), Some(0), "run {run}");
        host.wait_for_end();
        for id in 1..=3 {
            host.answer(id).result();
        }
        assert_eq!(host.received().len(), 3, "run {run}");
    }
}

/// FM-56: a handler that never ends does not keep it: at the bound its call is cancelled at the
/// server, whose input is closed; what could be finished was.
#[test]
fn fm_56_end_of_input_is_bounded() {
    let mut host = Host::ready(Setup::new().flags(&["--drain", "300ms"]));
    let quick = host.call("sleep", json!({ "ms": 50 }));
    let id = host.call("sleep", json!({ "ms": FOR_EVER }));
    host.hang_up();
    assert_eq!(host.exit().code(), Some(0));
    host.wait_for_end();
    assert_eq!(host.answer(quick).text(), "slept");
    assert_eq!(host.answers(id), 0);
    let told = host.tap().method("notifications/cancelled");
    assert_eq!(told.len(), 1, "{told:?}");
    assert_eq!(told[0]["params"]["requestId"], id);
}

/// No crash message of ours, no traceback of the server's.
fn clean(host: &mut Host) {
    let stderr = host.last_stderr();
    for word in ["panicked", "RUST_BACKTRACE", "Traceback", "Broken pipe"] {
        assert!(!stderr.contains(word), "{stderr}");
    }
    host.wait_for_empty_tree();
}
