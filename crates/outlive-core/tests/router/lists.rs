//! Lists: complete, in a stable order, whatever servers do; and changes are told once.

use std::sync::Arc;
use std::time::Duration;

use outlive_core::gateway::TargetId;
use outlive_core::server::Channel;
use serde_json::json;

use crate::rig::{Order, Rig, names, offer};

const CHANGED: &str = "notifications/tools/list_changed";

#[test]
fn what_is_known_is_answered_before_any_server_runs() {
    let mut rig = Rig::known(&[("a", &["x", "y"]), ("b", &["x"])]);
    let told = rig.initialize();
    assert_eq!(told["serverInfo"]["name"], "outlive");
    assert!(told["capabilities"]["tools"]["listChanged"] == true);
    assert_eq!(rig.tools(1), ["a__x", "a__y", "b__x"]);
    assert_eq!(rig.orders, [], "nothing was started");
    assert_eq!(rig.done.len(), 3);
}

#[test]
fn a_list_waits_for_servers_that_were_never_seen() {
    let mut rig = Rig::new(&["a", "b"]);
    rig.initialize();
    let both = [Order::Open(TargetId(0)), Order::Open(TargetId(1))];
    assert_eq!(rig.orders, both);
    let channel = rig.request(1, "tools/list", json!({}));
    rig.serve(0, &["x"]);
    assert!(rig.answers(1).is_empty() && !rig.done.contains(&channel));
    rig.serve(1, &["y"]);
    assert_eq!(names(&rig.answer(1)), ["a__x", "b__y"]);
    assert!(rig.done.contains(&channel));
    rig.pass(Duration::from_secs(60));
    assert_eq!(rig.told(CHANGED).len(), 0, "nothing has changed since");
}

#[test]
fn a_list_waits_no_longer_than_its_bound_and_the_rest_is_announced_once() {
    let mut rig = Rig::new(&["a", "b", "c"]);
    rig.initialize();
    rig.request(1, "tools/list", json!({}));
    rig.serve(0, &["x"]);
    rig.pass(Duration::from_millis(4900));
    assert!(rig.answers(1).is_empty());
    rig.pass(Duration::from_millis(200));
    assert_eq!(names(&rig.answer(1)), ["a__x"]);
    rig.serve(1, &["y"]);
    rig.serve(2, &["z"]);
    assert_eq!(rig.told(CHANGED).len(), 0, "told together, a moment later");
    rig.pass(Duration::from_secs(1));
    assert_eq!(rig.told(CHANGED).len(), 1);
    assert_eq!(rig.tools(2), ["a__x", "b__y", "c__z"]);
    rig.pass(Duration::from_secs(1));
    assert_eq!(rig.told(CHANGED).len(), 0);
}

#[test]
fn a_server_that_cannot_be_reached_is_not_waited_for() {
    let mut rig = Rig::new(&["a", "b"]);
    rig.initialize();
    rig.request(1, "tools/list", json!({}));
    rig.serve(1, &["y"]);
    let (channel, hello) = rig.take(0).remove(0);
    let error = json!({"code": -31002, "message": "It exits with code 1."});
    rig.server_says(
        0,
        channel,
        json!({"jsonrpc": "2.0", "id": hello["id"], "error": error}),
    );
    assert_eq!(names(&rig.answer(1)), ["b__y"]);
    // It is tried again by itself, and what it has is told when it comes.
    rig.pass(Duration::from_secs(20));
    rig.serve(0, &["x"]);
    rig.pass(Duration::from_secs(1));
    assert_eq!(rig.told(CHANGED).len(), 1);
    assert_eq!(rig.tools(2), ["a__x", "b__y"]);
}

#[test]
fn a_list_that_has_changed_is_read_again_and_told_once() {
    let mut rig = Rig::known(&[("a", &["x"]), ("b", &["y"])]);
    rig.initialize();
    assert_eq!(rig.tools(1), ["a__x", "b__y"]);
    rig.call(2, "a__x");
    rig.serve(0, &["x"]);
    rig.answer(2);
    let changed = json!({"jsonrpc": "2.0", "method": CHANGED});
    rig.server_says(0, Channel::MAIN, changed.clone());
    rig.server_says(0, Channel::MAIN, changed);
    rig.serve(0, &["x", "new"]);
    rig.pass(Duration::from_secs(1));
    assert_eq!(rig.told(CHANGED).len(), 1);
    assert_eq!(rig.tools(3), ["a__x", "a__new", "b__y"]);
}

#[test]
fn a_client_that_never_listed_is_told_nothing() {
    let mut rig = Rig::known(&[("a", &["x"])]);
    rig.initialize();
    rig.entries[0].offer = Some(Arc::new(offer(&["x", "y"])));
    rig.publish();
    rig.pass(Duration::from_secs(1));
    assert!(rig.told(CHANGED).is_empty());
}

#[test]
fn a_list_that_is_cancelled_while_it_waits_is_not_answered() {
    let mut rig = Rig::new(&["a"]);
    rig.initialize();
    let channel = rig.request(1, "tools/list", json!({}));
    rig.say(
        json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1}}),
    );
    assert!(rig.done.contains(&channel));
    rig.serve(0, &["x"]);
    rig.pass(Duration::from_secs(10));
    assert!(rig.answers(1).is_empty());
    assert_eq!(rig.router.in_flight(), 0);
}

#[test]
fn a_server_without_an_end_to_its_pages_is_read_for_a_while_and_no_longer() {
    let mut rig = Rig::new(&["a"]);
    rig.initialize();
    let mut pages = 0;
    for _ in 0..5000 {
        for (channel, message) in rig.take(0) {
            let result = match message["method"].as_str() {
                Some("initialize") => {
                    json!({"protocolVersion": "2025-11-25", "capabilities": {"tools": {}},
                    "serverInfo": {"name": "s", "version": "1"}})
                }
                Some("tools/list") => {
                    pages += 1;
                    json!({"tools": [{"name": format!("t{pages}")}], "nextCursor": "more"})
                }
                _ => continue,
            };
            rig.server_says(
                0,
                channel,
                json!({"jsonrpc": "2.0", "id": message["id"], "result": result}),
            );
        }
    }
    assert_eq!(pages, 1000);
    assert_eq!(rig.tools(1).len(), 1000);
}
