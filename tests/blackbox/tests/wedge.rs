//! Servers that are alive and do nothing, and healthy ones that only look like it.

use std::thread;
use std::time::Duration;

use rustix::process::Signal;
use serde_json::json;

use crate::rig::{Host, Setup, tree, until};

/// Quick verdicts.
const QUICK: [&str; 4] = ["--probe-interval", "200ms", "--probe-patience", "2s"];

/// FM-07: the server is stopped in the middle of a call. The call fails with a timeout at the
/// bound the user set; the server is found wedged and replaced; the next call works.
#[test]
fn fm_07_stopped_server_times_out_and_is_replaced() {
    let setup = Setup::new()
        .flags(&QUICK)
        .flags(&["--request-timeout", "2s"]);
    let mut host = Host::ready(setup);
    let first = host.server(1);
    let answer = host.ask("stop", json!({}));
    let about = answer.refused("timeout");
    assert_eq!(about["after_ms"], 2000);
    assert_eq!(about["outcome"], "unknown");
    let lost = host.event("the verdict", |e| e["event"] == "lost");
    let verdict = lost["cause"]["kind"].as_str().expect("a kind");
    assert!(["stopped", "unresponsive"].contains(&verdict), "{verdict}");
    host.ready_event(2);
    assert_ne!(host.ping(), first);
    host.wait_for_end_of(first);
}

/// FM-07: the server reads and never answers. The call times out and is cancelled at the
/// server, under its own id; the probe goes unanswered too; the server is replaced.
#[test]
fn fm_07_mute_server_times_out_is_told_and_is_replaced() {
    let setup = Setup::new()
        .flags(&QUICK)
        .flags(&["--request-timeout", "2s"]);
    let mut host = Host::ready(setup);
    let id = host.call("mute", json!({}));
    host.answer(id).refused("timeout");
    let cancelled = until("the cancellation", || {
        host.tap().method("notifications/cancelled").pop()
    });
    assert_eq!(cancelled["params"]["requestId"], id);
    let lost = host.event("the verdict", |e| e["event"] == "lost");
    assert_eq!(lost["cause"]["kind"], "unresponsive");
    assert_eq!(host.ping(), host.server(2));
}

/// FM-13: progress re-arms the request timeout, and the ceiling bounds it all the same.
#[test]
fn fm_13_progress_rearms_the_timeout_and_the_ceiling_holds() {
    let flags = ["--request-timeout", "2500ms", "--request-ceiling", "6s"];
    let mut host = Host::ready(Setup::new().flags(&flags));
    let slow = |host: &mut Host, ticks: u32| {
        let meta = json!({ "progressToken": format!("t{ticks}") });
        let args = json!({ "ticks": ticks, "ms": 400 });
        let params = json!({ "name": "tick", "arguments": args, "_meta": meta });
        host.request("tools/call", params)
    };
    let patient = slow(&mut host, 8);
    assert_eq!(host.answer(patient).text(), "ticked");
    let endless = slow(&mut host, 100_000);
    assert_eq!(host.answer(endless).refused("timeout")["after_ms"], 6000);
    host.ping();
    assert_eq!(host.tap().pids().len(), 1);
}

/// FM-50: the time a person takes to answer does not count, up to a ceiling of its own.
#[test]
fn fm_50_a_persons_time_is_not_the_calls() {
    let flags = ["--request-timeout", "1s", "--request-ceiling", "1s"];
    let ceiling = |value| {
        Setup::new()
            .flags(&flags)
            .flags(&["--elicitation-ceiling", value])
    };
    let mut host = Host::ready(ceiling("10m"));
    let id = host.call("elicit", json!({}));
    let ask = host.wait_for("the question", |m| m["method"] == "elicitation/create");
    thread::sleep(Duration::from_millis(2500));
    host.send(&json!({ "jsonrpc": "2.0", "id": ask["id"], "result": { "action": "accept" } }));
    assert!(host.answer(id).text().contains("accept"));

    let mut host = Host::ready(ceiling("1s"));
    let id = host.call("elicit", json!({}));
    host.answer(id).refused("timeout");
}

/// FM-22: a server that answers a probe with an error is alive.
#[test]
fn fm_22_error_to_a_probe_is_life() {
    let mut host = Host::ready(Setup::new().flags(&QUICK).knobs(&["--ping-error"]));
    until("three probes", || (probes(&host) >= 3).then_some(()));
    assert_eq!(host.ping(), host.server(1));
    assert_eq!(host.tap().pids().len(), 1);
}

/// FM-22: a server that ignores `ping` but answers calls is not recycled for it.
#[test]
fn fm_22_ignored_ping_alone_kills_nobody() {
    let mut host = Host::ready(Setup::new().flags(&QUICK).knobs(&["--ignore-ping"]));
    let first = host.server(1);
    for _ in 0..12 {
        thread::sleep(Duration::from_millis(300));
        assert_eq!(host.ping(), first);
    }
    thread::sleep(Duration::from_secs(6));
    assert_eq!(host.ping(), first);
    assert_eq!(host.tap().pids().len(), 1);
}

/// FM-22: a server busy with a call that blocks everything, probes included, is not killed for
/// it, however long the call takes by the prober's measure.
#[test]
fn fm_22_busy_server_is_not_killed() {
    let mut host = Host::ready(Setup::new().flags(&QUICK));
    let first = host.server(1);
    let id = host.call("sleep", json!({ "ms": 300 }));
    let blocked = host.call("block", json!({ "ms": 6000 }));
    host.answer(blocked).result();
    host.answer(id);
    assert_eq!(host.ping(), first);
    assert_eq!(host.tap().pids().len(), 1);
}

/// FM-22: an idle server that the operating system shows as stopped is recycled.
#[test]
fn fm_22_stopped_idle_server_is_recycled() {
    let mut host = Host::ready(Setup::new().flags(&QUICK));
    let first = host.ping();
    tree::kill(first, Signal::STOP);
    let lost = host.event("the verdict", |e| e["event"] == "lost");
    let verdict = lost["cause"]["kind"].as_str().expect("a kind");
    assert!(["stopped", "unresponsive"].contains(&verdict), "{verdict}");
    assert_eq!(host.ping(), host.server(2));
}

/// FM-55: the machine sleeps: everything stands still for longer than any patience. On waking
/// nothing is taken for wedged, and the first call works on the same server.
#[test]
fn fm_55_sleep_and_wake_cost_nothing() {
    let mut host = Host::ready(Setup::new().flags(&QUICK));
    let server = host.ping();
    tree::kill(server, Signal::STOP);
    host.signal(Signal::STOP);
    thread::sleep(Duration::from_secs(6));
    tree::kill(server, Signal::CONT);
    host.signal(Signal::CONT);
    assert_eq!(host.ping(), server);
    thread::sleep(Duration::from_secs(1));
    assert_eq!(host.ping(), server);
    assert_eq!(host.tap().pids().len(), 1);
}

/// `--probe-interval off` never asks.
#[test]
fn probes_can_be_turned_off() {
    let mut host = Host::ready(Setup::new().flags(&["--probe-interval", "off"]));
    thread::sleep(Duration::from_millis(500));
    host.ping();
    assert_eq!(probes(&host), 0);
}

fn probes(host: &Host) -> usize {
    host.tap().method("ping").len()
}
