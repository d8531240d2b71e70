//! Servers that keep dying: restarts are bounded, and there is always a way back.

use std::thread;
use std::time::Duration;

use rustix::process::Signal;
use serde_json::json;

use crate::rig::{Host, Setup, tree, until};

/// FM-17: a server that exits a moment after every good handshake is restarted only so often,
/// then left alone; calls do not wait for it; once it is mended, a call brings it back.
#[test]
fn fm_17_crash_loop_is_bounded_and_can_be_left() {
    let setup = Setup::new().flags(&[
        "--backoff-base",
        "10ms",
        "--breaker-failures",
        "4",
        "--breaker-retry",
        "600s",
        "--hold",
        "600s",
    ]);
    let broken = setup.file("broken", "");
    let mut host = setup
        .knobs(&["--exit-after-ready", "100", "--only-while", &broken])
        .start();
    host.initialize();
    let failed = host.event("the breaker", |e| {
        e["event"] == "state" && e["state"] == "failed"
    });
    assert_eq!(failed["cause"]["exit_code"], 1);
    let spawned = host.tap().pids().len();
    assert_eq!(spawned, 4, "servers until the breaker opened");
    thread::sleep(Duration::from_secs(1));
    assert_eq!(
        host.tap().pids().len(),
        spawned,
        "nothing is started while the breaker is open"
    );

    std::fs::remove_file(&broken).expect("the fault");
    host.call_until_up();
    assert_eq!(host.tap().pids().len(), spawned + 1);
}

/// FM-17: while the breaker is open a call tries once and fails with the cause, though calls may
/// be held for an hour.
#[test]
fn fm_17_calls_fail_fast_while_the_breaker_is_open() {
    let setup = Setup::new().flags(&[
        "--backoff-base",
        "10ms",
        "--breaker-failures",
        "3",
        "--breaker-retry",
        "600s",
        "--hold",
        "3600s",
    ]);
    let broken = setup.path("broken");
    let knobs = ["--exit-at-start", "7", "--only-while", &broken];
    let mut host = Host::ready(setup.knobs(&knobs));
    std::fs::write(&broken, "").expect("the fault");
    tree::kill(host.server(1), Signal::KILL);
    host.event("the breaker", |e| {
        e["event"] == "state" && e["state"] == "failed"
    });
    let spawned = host.tap().pids().len();
    let answer = host.ask("ping", json!({}));
    let about = answer.refused("unavailable");
    assert_eq!(about["cause"]["exit_code"], 7);
    assert_eq!(about["outcome"], "not_sent");
    assert_eq!(about["retryable"], true);
    let tried = host.tap().pids().len() - spawned;
    assert!(tried <= 1, "one call tried {tried} times");
}

/// FM-70: a mended server comes back without any call, by the breaker's own retry.
#[test]
fn fm_70_recovery_without_a_call() {
    let setup = Setup::new().flags(&[
        "--backoff-base",
        "10ms",
        "--breaker-failures",
        "3",
        "--breaker-retry",
        "500ms",
    ]);
    let broken = setup.path("broken");
    let knobs = ["--exit-at-start", "7", "--only-while", &broken];
    let mut host = Host::ready(setup.knobs(&knobs));
    std::fs::write(&broken, "").expect("the fault");
    tree::kill(host.server(1), Signal::KILL);
    host.event("the breaker", |e| {
        e["event"] == "state" && e["state"] == "failed"
    });
    let attempts = host.tap().pids().len();
    until("two more attempts", || {
        (host.tap().pids().len() >= attempts + 2).then_some(())
    });
    std::fs::remove_file(&broken).expect("the fault");
    host.event("recovery", |e| {
        e["event"] == "state" && e["state"] == "ready" && e["generation"].as_u64() > Some(1)
    });
    host.ping();
}

/// FM-70: a call brings an attempt, within a second or two, however long the breaker would have slept.
#[test]
fn fm_70_a_call_wakes_a_failed_server() {
    let setup = Setup::new().flags(&[
        "--backoff-base",
        "10ms",
        "--breaker-failures",
        "3",
        "--breaker-retry",
        "3600s",
    ]);
    let broken = setup.path("broken");
    let knobs = ["--exit-at-start", "7", "--only-while", &broken];
    let mut host = Host::ready(setup.knobs(&knobs));
    std::fs::write(&broken, "").expect("the fault");
    tree::kill(host.server(1), Signal::KILL);
    host.event("the breaker", |e| {
        e["event"] == "state" && e["state"] == "failed"
    });
    std::fs::remove_file(&broken).expect("the fault");
    host.call_until_up();
}

/// FM-70: the same in the middle of a long backoff.
#[test]
fn fm_70_a_call_cuts_a_backoff_short() {
    let setup = Setup::new().flags(&[
        "--backoff-base",
        "3000s",
        "--backoff-cap",
        "3600s",
        "--breaker-failures",
        "50",
        "--hold",
        "3600s",
    ]);
    let broken = setup.path("broken");
    let knobs = ["--exit-at-start", "7", "--only-while", &broken];
    let mut host = Host::ready(setup.knobs(&knobs));
    std::fs::write(&broken, "").expect("the fault");
    tree::kill(host.server(1), Signal::KILL);
    host.event("a backoff", |e| {
        e["state"] == "down" && e["retry_in_ms"].as_u64() > Some(1000)
    });
    std::fs::remove_file(&broken).expect("the fault");
    host.ping();
}

/// `--exit-on-failed`: a supervisor above us may want to know; the exit code is 3.
#[test]
fn exit_on_failed_has_its_own_code() {
    let setup = Setup::new()
        .flags(&[
            "--exit-on-failed",
            "--backoff-base",
            "10ms",
            "--breaker-failures",
            "3",
        ])
        .knobs(&["--exit-at-start", "7"]);
    let mut host = setup.start();
    let id = host.request("initialize", json!({ "protocolVersion": "2025-11-25" }));
    assert_eq!(host.exit().code(), Some(3));
    host.wait_for_end();
    assert!(host.answer(id).message().contains("code 7"));
    assert_eq!(host.tap().pids().len(), 3);
}

/// A held call that its server does not come back for is answered at the end of its hold.
#[test]
fn hold_is_bounded() {
    let setup = Setup::new().flags(&["--hold", "500ms"]);
    let slow = setup.path("slow");
    let script = format!("[ -e {slow} ] && sleep 9999; exec FAKE");
    let mut host = Host::ready(setup.script(&script));
    std::fs::write(&slow, "").expect("the fault");
    tree::kill(host.server(1), Signal::KILL);
    host.event("the loss", |e| e["event"] == "lost");
    let about = host.ask("ping", json!({})).refused("unavailable").clone();
    assert_eq!(about["outcome"], "not_sent");
    assert_eq!(about["retryable"], true);
}

/// The hold queue is bounded by count: what does not fit is refused at once, the rest is served.
#[test]
fn hold_queue_is_bounded() {
    let setup = Setup::new().flags(&["--max-held", "5"]);
    let slow = setup.path("slow");
    let script = format!("while [ -e {slow} ]; do sleep 0.05; done; exec FAKE");
    let mut host = Host::ready(setup.script(&script));
    std::fs::write(&slow, "").expect("the fault");
    tree::kill(host.server(1), Signal::KILL);
    host.event("the loss", |e| e["event"] == "lost");
    let ids: Vec<i64> = (0..8).map(|_| host.call("ping", json!({}))).collect();
    for id in &ids[5..] {
        host.answer(*id).refused("unavailable");
    }
    std::fs::remove_file(&slow).expect("the fault");
    for id in &ids[..5] {
        host.answer(*id).result();
    }
}
