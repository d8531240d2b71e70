//! `outlive run`.

use std::process::Command;
use std::time::Duration;

use serde_json::json;

use crate::host::{Host, introduction};
use crate::processes::{SHOWN, kill, lives};
use crate::{outlive, server, state, until};

#[test]
fn a_server_that_is_killed_while_idle_is_replaced() {
    let mut host = Host::new(&[]);
    let first = host.number("pid");
    kill(first);
    let second = host.number("pid");
    assert_ne!(first, second);
    assert!(!lives(first));
    assert_eq!(host.leave(), Some(0));
    until("the server is gone", || !lives(second));
}

#[test]
fn a_call_fails_with_its_server_and_says_why() {
    let mut host = Host::new(&[]);
    let pid = host.number("pid");
    let call = host.call("slow", json!({ "ms": 60_000 }));
    host.says("echo", json!({ "text": "it has begun" }));
    kill(pid);
    let (kind, words) = host.error(call);
    assert_eq!(kind, "connection_lost");
    assert!(words.contains(SHOWN[0]), "{words}");
    assert_ne!(host.number("pid"), pid);
}

#[test]
fn a_call_that_is_safe_is_repeated() {
    let mut host = Host::new(&[]);
    let pid = host.number("pid");
    let call = host.call("safe", json!({ "ms": 1000 }));
    host.says("echo", json!({ "text": "it has begun" }));
    kill(pid);
    assert_eq!(host.answer(call)["result"]["content"][0]["text"], "slept");
}

#[test]
fn calls_that_a_dying_server_has_not_read_are_not_lost() {
    let mut host = Host::new(&[]);
    for round in 0..5 {
        let pid = host.number("pid");
        // It reads nothing after this one, and then is killed: what is in its pipe by then has not been read.
        let hang = host.call("hang", json!({}));
        std::thread::sleep(Duration::from_millis(200));
        let calls: Vec<u64> = (0..8)
            .map(|nth| host.call("echo", json!({ "text": format!("{round} {nth}") })))
            .collect();
        std::thread::sleep(Duration::from_millis(200));
        kill(pid);
        assert_eq!(host.error(hang).0, "connection_lost");
        for (nth, call) in calls.into_iter().enumerate() {
            let answer = host.answer(call);
            let text = &answer["result"]["content"][0]["text"];
            assert_eq!(text, &format!("{round} {nth}"), "{answer}");
        }
    }
}

#[test]
fn a_server_that_hangs_is_replaced() {
    let mut host = Host::new(&["--request-timeout", "1s", "--probe-patience", "300ms"]);
    let pid = host.number("pid");
    let call = host.call("hang", json!({}));
    assert_eq!(host.error(call).0, "timeout");
    until("it is ended", || !lives(pid));
    assert_ne!(host.number("pid"), pid);
}

#[test]
fn a_crash_is_named() {
    let mut host = Host::new(&[]);
    let call = host.call("crash", json!({}));
    let (kind, words) = host.error(call);
    assert_eq!(kind, "connection_lost");
    assert!(words.contains(SHOWN[1]), "{words}");
    let call = host.call("exit", json!({ "code": 3 }));
    let (_, words) = host.error(call);
    assert!(words.contains("code 3"), "{words}");
}

#[test]
fn what_is_no_message_is_dropped() {
    let mut host = Host::new(&[]);
    // A line that were passed on would end the thread that reads.
    assert_eq!(host.says("junk", json!({})), "said it");
    assert_eq!(host.says("echo", json!({ "text": "ünïcödé" })), "ünïcödé");
}

#[test]
fn a_server_that_never_starts_is_named() {
    let mut host = Host::start(&["--", server(), "--exit", "3"]);
    let answer = host.ask("initialize", introduction());
    let words = answer["error"]["message"].to_string();
    assert!(
        words.contains("code 3") && words.contains("no luck today"),
        "{answer}"
    );
}

#[test]
fn a_crash_loop_is_bounded_and_can_be_left() {
    let broken = state().join("broken");
    let flags = [
        "--backoff-base",
        "10ms",
        "--breaker-failures",
        "3",
        "--breaker-retry",
        "600s",
        "--hold",
        "600s",
    ];
    let file = broken.to_str().expect("a path in UTF-8");
    let mut host = Host::before(&[&flags[..], &["--", server(), "--broken", file]].concat());
    let pid = host.number("pid");
    std::fs::write(&broken, "").expect("the fault");
    kill(pid);
    // Calls are not held for it: each tries once, and is told why.
    for _ in 0..2 {
        let call = host.call("echo", json!({ "text": "on" }));
        let (kind, words) = host.error(call);
        assert_eq!(kind, "unavailable", "{words}");
        assert!(
            words.contains("code 3") && words.contains("broken again"),
            "{words}"
        );
    }
    std::fs::remove_file(&broken).expect("the fault");
    until("it is back", || {
        let call = host.call("echo", json!({ "text": "on" }));
        host.answer(call)["result"]["content"][0]["text"] == "on"
    });
}

#[test]
fn a_program_that_is_not_there_is_named() {
    let mut host = Host::start(&["--", "no-such-program-anywhere"]);
    let answer = host.ask("initialize", introduction());
    assert!(
        answer["error"]["message"].to_string().contains("PATH"),
        "{answer}"
    );
}

#[test]
fn nobody_is_left_when_outlive_is_killed() {
    let mut host = Host::new(&[]);
    let pids = [
        host.number("pid"),
        host.number("child"),
        host.number("child"),
    ];
    assert!(pids.iter().all(|pid| lives(*pid)));
    host.outlive.kill().expect("it is killed");
    until("all are gone", || !pids.iter().any(|pid| lives(*pid)));
}

/// It hands its streams down, so the input stays open.
#[test]
fn nobody_is_left_when_only_the_launcher_is_killed() {
    let launcher = Command::new(server()).arg("--sleep").spawn();
    let mut launcher = launcher.expect("the server is built");
    let mut command = outlive();
    command.env("OUTLIVE_PARENT_PID", launcher.id().to_string());
    command.args(["run", "--", server()]);
    let mut host = Host::with(command).introduced("portable");
    let pids = [host.number("pid"), host.number("child")];
    assert!(pids.iter().all(|pid| lives(*pid)));
    launcher.kill().expect("it is killed");
    launcher.wait().expect("it has ended");
    until("outlive has ended", || {
        host.outlive.try_wait().expect("it is ours").is_some()
    });
    until("all are gone", || !pids.iter().any(|pid| lives(*pid)));
}

#[test]
fn nobody_is_left_when_the_host_leaves_or_a_server_dies() {
    let mut host = Host::new(&[]);
    let (server, child) = (host.number("pid"), host.number("child"));
    kill(server);
    let (next, last) = (host.number("pid"), host.number("child"));
    until("the child of the dead is gone", || !lives(child));
    assert!(lives(next) && lives(last));
    assert_eq!(host.leave(), Some(0));
    until("all are gone", || !lives(next) && !lives(last));
}

#[test]
fn large_messages_pass_whole_in_both_directions() {
    let mut host = Host::new(&[]);
    for size in [1, 4095, 4096, 65_536, 65_537, 5_000_000] {
        let sent = "x".repeat(size);
        let text = host.says("echo", json!({ "text": sent }));
        assert!(text == sent, "{} of {size}", text.len());
    }
}

#[test]
fn a_host_that_does_not_read_for_a_while_gets_everything() {
    let mut host = Host::new(&[]);
    let text = "y".repeat(400_000);
    // More than all pipes hold together; nobody reads while it is sent but a thread that cannot keep up for ever.
    let calls: Vec<u64> = (0..50)
        .map(|_| host.call("echo", json!({ "text": text })))
        .collect();
    for call in calls {
        let answer = host.answer(call);
        assert!(answer["result"]["content"][0]["text"] == *text);
    }
}

#[test]
fn a_host_that_does_not_read_stops_the_server_and_loses_nothing() {
    const ALL: u64 = 1500;
    let mut host = Host::new(&["--request-timeout", "off"]);
    let told = state().join("flood");
    let so_far = || {
        let told = std::fs::read_to_string(&told).unwrap_or_default();
        told.parse::<u64>().unwrap_or(0)
    };
    let deaf = host.deaf.clone();
    let deaf = deaf.lock().expect("nobody holds it");
    let flood = host.call(
        "flood",
        json!({ "count": ALL, "size": 60_000, "told": told }),
    );
    // It gets no further when all that may lie between it and the host is full.
    let mut last = 0;
    until("the server stands still", || {
        std::thread::sleep(Duration::from_secs(2));
        std::mem::replace(&mut last, so_far()) == last && last > 0
    });
    assert!(last < ALL, "all {last} messages are held in memory");
    drop(deaf);
    for nth in 1..=ALL {
        let message = host.next();
        assert_eq!(message["params"]["data"]["nth"], nth);
    }
    assert_eq!(
        host.answer(flood)["result"]["content"][0]["text"],
        "said it all"
    );
}

#[test]
fn a_server_that_does_not_read_holds_up_nobody_for_ever() {
    let mut host = Host::new(&["--request-timeout", "3s", "--probe-patience", "300ms"]);
    let pid = host.number("pid");
    let hang = host.call("hang", json!({}));
    let text = "z".repeat(300_000);
    let calls: Vec<u64> = (0..4)
        .map(|_| host.call("echo", json!({ "text": text })))
        .collect();
    assert_eq!(host.error(hang).0, "timeout");
    for call in calls {
        // Each is answered: by the next server, or with an error.
        host.answer(call);
    }
    until("it is ended", || !lives(pid));
    assert_eq!(host.says("echo", json!({ "text": "on" })), "on");
}
