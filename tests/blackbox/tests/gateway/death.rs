//! The server dies; its clients stay.

use rustix::process::Signal;
use serde_json::json;

use crate::gate::{Gate, kind, text};
use crate::rig::{Setup, tree, until};
use crate::wire::modern_call;

#[test]
fn a_death_costs_a_legacy_client_one_call_and_not_its_session() {
    let gate = Gate::new();
    let client = gate.client();
    let lost = client.call(1, "crash", json!({"say": "goodbye"})).answer();
    assert_eq!(kind(&lost), "connection_lost");
    assert_eq!(lost["id"], 1);
    assert_eq!(lost["error"]["data"]["outlive"]["outcome"], "unknown");
    assert_eq!(text(&client.call(2, "ping", json!({})).answer()), "pong");
    assert_eq!(gate.setup.tap().pids().len(), 2);
    assert_eq!(gate.setup.tap().method("initialize").len(), 2);
}

#[test]
fn a_death_costs_a_modern_client_one_call() {
    let gate = Gate::new();
    let lost = gate.modern(&modern_call(1, "crash", json!({}))).answer();
    assert_eq!(kind(&lost), "connection_lost");
    let next = gate.modern(&modern_call(1, "ping", json!({}))).answer();
    assert_eq!(text(&next), "pong");
}

/// FM-10: when the gateway itself is killed with `SIGKILL`, its servers die too, with the shell before them
/// and the helper beside them, none of which listens.
#[test]
fn fm_10_sigkill_of_the_gateway_ends_grandchildren() {
    let setup = Setup::new();
    let fake = setup.fake().join(" ");
    let script = format!("sleep 9999 & {fake} --ignore-eof; true");
    let gate = Gate::before(setup, &[], &["--", "sh", "-c", &script]);
    // One of its own, one for all modern clients.
    let client = gate.client();
    assert_eq!(text(&client.call(1, "ping", json!({})).answer()), "pong");
    let modern = gate.modern(&modern_call(1, "ping", json!({}))).answer();
    assert_eq!(text(&modern), "pong");
    until("both trees", || (gate.servers().len() >= 6).then_some(()));
    tree::kill(gate.pid(), Signal::KILL);
    gate.join();
    until("the end of both", || {
        gate.servers().is_empty().then_some(())
    });
}

#[test]
fn a_death_between_calls_is_not_noticed() {
    let gate = Gate::new();
    let client = gate.client();
    assert_eq!(text(&client.call(1, "ping", json!({})).answer()), "pong");
    let first = gate.servers();
    for pid in &first {
        tree::kill(*pid, Signal::KILL);
    }
    until("another server", || {
        let now = gate.servers();
        (!now.is_empty() && now != first).then_some(())
    });
    assert_eq!(text(&client.call(2, "ping", json!({})).answer()), "pong");
}

#[test]
fn nothing_stays_behind() {
    let gate = Gate::new();
    let clients: Vec<_> = (0..5).map(|_| gate.client()).collect();
    assert_eq!(gate.modern(&modern_call(1, "ping", json!({}))).status, 200);
    assert_eq!(gate.servers().len(), 6);
    assert_eq!(clients[0].leave().status, 200);
    until("its server ends", || {
        (gate.servers().len() == 5).then_some(())
    });
    assert_eq!(clients[0].call(9, "ping", json!({})).status, 404);
    gate.stop();
    gate.join();
    assert!(gate.servers().is_empty());
}
