//! Requests that speak for themselves.

use std::thread;

use serde_json::json;

use crate::gate::{Gate, kind, text};
use crate::rig::{Setup, until};
use crate::wire::{modern, modern_call};

#[test]
fn requests_share_a_server_whatever_their_ids() {
    let gate = Gate::new();
    thread::scope(|scope| {
        let calls: Vec<_> = (0..20)
            .map(|n| {
                let gate = &gate;
                scope.spawn(move || {
                    let said = format!("number {n}");
                    let answer = gate
                        .modern(&modern_call(1, "echo", json!({"text": said})))
                        .answer();
                    assert_eq!(answer["id"], 1);
                    assert_eq!(text(&answer), said);
                })
            })
            .collect();
        calls
            .into_iter()
            .for_each(|call| call.join().expect("an answer"));
    });
    assert_eq!(gate.setup.tap().pids().len(), 1);
}

#[test]
fn closing_the_stream_cancels() {
    let gate = Gate::new();
    let reply = gate.modern(&modern_call(1, "sleep", json!({"ms": 60_000})));
    assert!(reply.is_stream());
    drop(reply);
    until("the handler is told", || {
        (!gate.setup.tap().notes("cancelled").is_empty()).then_some(())
    });
}

#[test]
fn a_legacy_server_is_not_sent_modern_requests() {
    let gate = Gate::with(Setup::new().knobs(&["--legacy"]), &[]);
    for id in 1..=2 {
        let reply = gate.modern(&modern_call(id, "append", json!({"path": "/nowhere"})));
        assert_eq!(reply.status, 400);
        let refused = reply.answer();
        assert_eq!(refused["id"], id);
        assert_eq!(kind(&refused), "unsupported");
    }
    assert!(gate.setup.tap().method("tools/call").is_empty());
    // With the handshake it works.
    assert_eq!(
        text(&gate.client().call(1, "ping", json!({})).answer()),
        "pong"
    );
}

#[test]
fn a_subscription_is_told_under_the_id_of_its_client_and_ends_gracefully() {
    let gate = Gate::new();
    let wanted = json!({"notifications": {"toolsListChanged": true}});
    let mut stream = gate.modern(&modern(77, "subscriptions/listen", wanted));
    let standing = stream.message();
    assert_eq!(
        standing["method"],
        "notifications/subscriptions/acknowledged"
    );
    let id = |message: &serde_json::Value| {
        message["params"]["_meta"]["io.modelcontextprotocol/subscriptionId"].clone()
    };
    assert_eq!(id(&standing), 77);
    let told = gate.modern(&modern_call(1, "notify_listeners", json!({})));
    assert_eq!(told.status, 200);
    let change = stream.message();
    assert_eq!(id(&change), 77, "{change}");
    gate.stop();
    let end = stream.message();
    assert_eq!(end["id"], 77, "{end}");
    assert_eq!(end["result"]["resultType"], "complete");
    assert!(stream.next_message().expect("a clean end").is_none());
    gate.join();
}
