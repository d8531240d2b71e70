//! Pipes that fill up.

use std::thread;
use std::time::Duration;

use rustix::process::Signal;
use serde_json::json;

use crate::rig::{Host, Setup, tree, until};

const BRISK: [&str; 6] = [
    "--stop-grace",
    "200ms",
    "--term-grace",
    "200ms",
    "--drain",
    "200ms",
];

/// FM-29: a tool writes a megabyte to standard error, in lines and in one endless one. The call
/// returns, memory stays bounded, and the last words are there when the server dies.
#[test]
fn fm_29_stderr_never_blocks_the_server() {
    for mode in ["inherit", "capture"] {
        let mut host = Host::ready(Setup::new().flags(&["--stderr", mode]));
        for newlines in [true, false] {
            let args = json!({ "bytes": 1 << 20, "newlines": newlines });
            assert_eq!(host.ask("stderr", args).text(), "written");
        }
        let resident = tree::resident(host.pid()).expect("outlive lives");
        assert!(resident < 64 << 20, "{resident} bytes resident");
        let crash = host.ask(
            "crash",
            json!({ "code": 1, "say": "\nthe very last words" }),
        );
        let tail = &crash.refused("connection_lost")["cause"]["stderr_tail"];
        let last = tail.as_array().and_then(|lines| lines.last());
        assert_eq!(last, Some(&json!("the very last words")));
        assert!(tail.to_string().len() < 64 << 10, "the tail is bounded");
        if mode == "inherit" {
            // Passed on, though a line without end is cut and a burst may lose some lines.
            until("the last words", || {
                let passed_on = host.stderr();
                let last = passed_on.ends_with(b"the very last words\n");
                (last && passed_on.len() > 64 << 10).then_some(())
            });
            println!(
                "{} bytes of standard error were passed on",
                host.stderr().len()
            );
        } else {
            assert!(host.stderr().len() < 1 << 20, "captured, not passed on");
        }
    }
}

/// FM-29: nobody reads `outlive`'s own standard error, and the server still never blocks.
#[test]
fn fm_29_unread_stderr_of_ours_never_blocks_the_server() {
    let setup = Setup::new();
    let (unread, writer) = std::io::pipe().expect("a pipe");
    let mut command = setup.command();
    command.stderr(writer);
    let mut host = Host::spawn(setup, command);
    host.initialize();
    let args = json!({ "bytes": 1 << 20, "newlines": true });
    assert_eq!(host.ask("stderr", args).text(), "written");
    host.ping();
    drop(unread);
    host.ping();
}

/// FM-30: the server stops reading while the host has ten megabytes for it. What the server
/// says still arrives; a stop is carried out and settles every call.
#[test]
fn fm_30_deaf_server_blocks_neither_reading_nor_stopping() {
    let mut host = Host::ready(Setup::new().flags(&BRISK));
    let flood = host.call("flood", json!({ "count": 60, "bytes": 100, "ms": 50 }));
    host.ask("deaf", json!({})).result();
    let pad = "x".repeat(64 << 10);
    let ids: Vec<i64> = (0..160)
        .map(|_| host.call("echo", json!({ "text": pad })))
        .collect();
    assert_eq!(host.answer(flood).text(), "flooded");
    assert_eq!(host.notified("notifications/message").len(), 60);
    host.signal(Signal::TERM);
    assert_eq!(host.exit().code(), Some(0));
    host.wait_for_empty_tree();
    host.wait_for_end();
    for id in ids {
        assert_eq!(host.answers(id), 1, "answers to {id}");
    }
}

/// FM-30: a stopped server with a full pipe: a cancellation, a timeout and a new generation do
/// not wait for the write that can never end.
#[test]
fn fm_30_full_pipe_does_not_delay_a_timeout() {
    let setup = Setup::new().flags(&BRISK).flags(&[
        "--request-timeout",
        "2s",
        "--probe-interval",
        "200ms",
        "--probe-patience",
        "2s",
    ]);
    let mut host = Host::ready(setup);
    tree::kill(host.server(1), Signal::STOP);
    let pad = "x".repeat(64 << 10);
    let ids: Vec<i64> = (0..32)
        .map(|_| host.call("echo", json!({ "text": pad })))
        .collect();
    for id in ids {
        let answer = host.answer(id);
        let kind = answer.kind().expect("an error of ours").to_owned();
        assert!(
            ["timeout", "connection_lost"].contains(&kind.as_str()),
            "{kind}"
        );
    }
    host.ready_event(2);
    assert_eq!(host.ping(), host.server(2));
}

/// FM-30, roles swapped: the host stops reading while the server has ten megabytes for it. The
/// server is not judged by the silence that follows; when the host reads on, nothing is missing
/// and the order is kept.
#[test]
fn fm_30_slow_host_loses_nothing_and_costs_no_server() {
    let setup = Setup::new().flags(&["--probe-interval", "200ms", "--probe-patience", "2s"]);
    let mut host = Host::ready(setup);
    let first = host.server(1);
    host.pause_reading();
    let flood = host.call("flood", json!({ "count": 160, "bytes": 64 << 10 }));
    thread::sleep(Duration::from_secs(5));
    let resident = tree::resident(host.pid()).expect("outlive lives");
    assert!(
        resident < 48 << 20,
        "{resident} bytes resident: the flood was buffered"
    );
    host.resume_reading();
    assert_eq!(host.answer(flood).text(), "flooded");
    let order: Vec<_> = host
        .notified("notifications/message")
        .iter()
        .map(|m| m["params"]["data"]["n"].as_u64().expect("a number"))
        .collect();
    assert_eq!(order, (0..160).collect::<Vec<u64>>());
    assert_eq!(host.ping(), first);
    assert_eq!(host.tap().pids().len(), 1);
}

/// FM-30: a host that reads nothing does not keep `outlive` from stopping.
#[test]
fn fm_30_unreading_host_does_not_prevent_a_stop() {
    let mut host = Host::ready(Setup::new().flags(&BRISK));
    host.pause_reading();
    host.call("flood", json!({ "count": 160, "bytes": 64 << 10 }));
    until("the call at the server", || {
        host.tap().method("tools/call").pop()
    });
    thread::sleep(Duration::from_millis(300));
    host.signal(Signal::TERM);
    host.exit();
    host.wait_for_empty_tree();
}

/// Back-pressure, not memory: a host that sends far more than may be in flight is no longer
/// read, and everything is served in the end. (What was read in one piece is let through, so the
/// messages are long.)
#[test]
fn in_flight_limit_is_back_pressure() {
    let mut host = Host::ready(Setup::new().flags(&["--max-in-flight", "4"]));
    let pad = "x".repeat(256 << 10);
    let call = |host: &mut Host| host.call("sleep", json!({ "ms": 250, "pad": pad }));
    let ids: Vec<i64> = (0..32).map(|_| call(&mut host)).collect();
    for id in ids {
        assert_eq!(host.answer(id).text(), "slept");
    }
    let (mut open, mut most) = (0i64, 0i64);
    for record in host.tap().records() {
        if record["rec"] == "recv" && record["method"] == "tools/call" {
            open += 1;
        }
        if record["rec"] == "note" && record["note"] == "done" {
            open -= 1;
        }
        most = most.max(open);
    }
    assert!(most <= 8, "{most} calls were at the server at once");
}
