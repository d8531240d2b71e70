//! One dead, slow, hung or lying server costs its own calls and nothing else.

use std::time::Duration;

use outlive_core::Time;
use outlive_core::gateway::TargetId;
use outlive_core::router::{Input, YIELD_AFTER, gives_way};
use outlive_core::server::{Channel, RpcError};
use serde_json::json;

use crate::rig::{Order, Rig};

/// A client with a call in flight at each of two servers, and the channels of these.
fn two_calls() -> (Rig, [Channel; 2]) {
    let mut rig = Rig::known(&[("a", &["x"]), ("b", &["y"])]);
    rig.initialize();
    let mut channels = [Channel::MAIN; 2];
    for (id, server, tool) in [(1, 0, "a__x"), (2, 1, "b__y")] {
        let params =
            json!({"name": tool, "arguments": {}, "_meta": {"progressToken": format!("t{id}")}});
        channels[server] = rig.request(id, "tools/call", params);
        rig.shake(server, &[tool.rsplit("__").next().unwrap_or_default()]);
    }
    (rig, channels)
}

#[test]
fn fm_35_a_server_that_lies_about_the_calls_of_another_is_not_believed() {
    let (mut rig, channels) = two_calls();
    let lies = [
        json!({"jsonrpc": "2.0", "id": 2, "result": {"content": "stolen"}}),
        json!({"jsonrpc": "2.0", "id": 2, "error": {"code": 1, "message": "no"}}),
        json!({"jsonrpc": "2.0", "method": "notifications/progress", "params": {"progressToken": "t2", "progress": 1}}),
        json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 2}}),
    ];
    rig.sent.clear();
    for lie in lies {
        rig.server_says(0, channels[1], lie.clone());
        rig.server_says(0, Channel::MAIN, lie);
    }
    assert!(rig.sent.is_empty(), "{:?}", rig.sent);
    // Nor does it get a word onto a channel of the other's.
    let log = json!({"jsonrpc": "2.0", "method": "notifications/message", "params": {"level": "info", "data": 1}});
    rig.server_says(0, channels[1], log);
    assert_ne!(rig.sent[0].0, channels[1]);
    rig.server_says(
        1,
        channels[1],
        json!({"jsonrpc": "2.0", "id": 2, "result": {"content": "true"}}),
    );
    assert_eq!(rig.answer(2)["result"]["content"], "true");
    rig.server_says(
        0,
        channels[0],
        json!({"jsonrpc": "2.0", "id": 1, "result": {}}),
    );
    rig.answer(1);
}

#[test]
fn a_leg_that_ends_fails_its_own_calls_and_the_next_call_opens_another() {
    let (mut rig, channels) = two_calls();
    rig.feed(Input::LegEnded(TargetId(0)));
    let error = &rig.answer(1)["error"];
    assert_eq!(error["data"]["outlive"]["outcome"], "unknown");
    assert!(rig.answers(2).is_empty());
    rig.server_says(
        1,
        channels[1],
        json!({"jsonrpc": "2.0", "id": 2, "result": {}}),
    );
    rig.answer(2);
    rig.orders.clear();
    rig.call(3, "a__x");
    assert_eq!(rig.orders, [Order::Open(TargetId(0))]);
    rig.serve(0, &["x"]);
    rig.answer(3);
}

#[test]
fn a_handshake_that_fails_costs_the_calls_that_wait_for_it_and_names_the_server() {
    let mut rig = Rig::known(&[("a", &["x"]), ("b", &["y"])]);
    rig.initialize();
    rig.call(1, "a__x");
    rig.call(2, "a__x");
    rig.call(3, "b__y");
    let (channel, hello) = rig.take(0).remove(0);
    let error = json!({"code": -31002, "message": "It exited with code 3.", "data": {"outlive": {"kind": "unavailable"}}});
    rig.server_says(
        0,
        channel,
        json!({"jsonrpc": "2.0", "id": hello["id"], "error": error}),
    );
    for id in [1, 2] {
        let error = &rig.answer(id)["error"];
        let message = error["message"].as_str().expect("a sentence");
        assert!(
            message.contains("\"a\"") && message.contains("code 3"),
            "{message}"
        );
        assert_eq!(error["data"]["outlive"]["kind"], "unavailable");
    }
    rig.serve(1, &["y"]);
    rig.answer(3);
    assert_eq!(rig.tools(4), ["a__x", "b__y"], "its tools stay listed");
    // The next call tries again, over the same leg.
    rig.call(5, "a__x");
    rig.serve(0, &["x"]);
    rig.answer(5);
    let opened = rig
        .orders
        .iter()
        .filter(|it| **it == Order::Open(TargetId(0)));
    assert_eq!(opened.count(), 1);
}

#[test]
fn a_leg_that_cannot_be_opened_fails_its_calls_with_the_reason() {
    let mut rig = Rig::known(&[("a", &["x"])]);
    rig.initialize();
    rig.call(1, "a__x");
    rig.feed(Input::Refused(
        TargetId(0),
        RpcError::new(-31002, "There are as many servers as there may be."),
    ));
    let error = rig.answer(1);
    assert!(
        error["error"]["message"]
            .as_str()
            .is_some_and(|it| it.contains("as many servers"))
    );
    rig.call(2, "a__x");
    assert_eq!(rig.orders.len(), 2, "the next call opens another");
}

#[test]
fn a_server_that_says_nothing_holds_up_nobody_else() {
    let (mut rig, channels) = two_calls();
    rig.pass(std::time::Duration::from_secs(3600));
    assert!(
        rig.answers(1).is_empty(),
        "how long a call may take is decided by its session"
    );
    rig.server_says(
        1,
        channels[1],
        json!({"jsonrpc": "2.0", "id": 2, "result": {}}),
    );
    rig.answer(2);
    assert_eq!(rig.tools(3), ["a__x", "b__y"]);
    rig.call(4, "b__y");
    rig.serve(1, &["y"]);
    rig.answer(4);
}

#[test]
fn what_is_not_of_a_leg_that_is_open_is_dropped() {
    let mut rig = Rig::known(&[("a", &["x"])]);
    rig.initialize();
    rig.sent.clear();
    let log = json!({"jsonrpc": "2.0", "method": "notifications/message", "params": {"level": "info", "data": 1}});
    rig.server_says(0, Channel::MAIN, log);
    rig.feed(Input::LegEnded(TargetId(0)));
    assert!(rig.sent.is_empty());
}

#[test]
fn a_leg_that_nobody_uses_gives_way_and_the_next_call_opens_another() {
    let (mut rig, channels) = two_calls();
    let target = TargetId(0);
    rig.pass(2 * YIELD_AFTER);
    rig.orders.clear();
    rig.feed(Input::GiveWay(target));
    assert!(rig.orders.is_empty(), "its call is in flight");
    let answer = json!({"jsonrpc": "2.0", "id": 1, "result": {}});
    rig.server_says(0, channels[0], answer);
    rig.answer(1);
    rig.feed(Input::GiveWay(target));
    assert_eq!(rig.orders, [Order::Close(target)]);
    // Once: there is none any more.
    rig.feed(Input::GiveWay(target));
    rig.orders.clear();
    rig.call(3, "a__x");
    assert_eq!(rig.orders, [Order::Open(target)]);
    rig.serve(0, &["x"]);
    rig.answer(3);
    rig.orders.clear();
    rig.feed(Input::GiveWay(target));
    assert!(rig.orders.is_empty(), "it was just used");
    rig.pass(YIELD_AFTER);
    rig.feed(Input::GiveWay(target));
    assert_eq!(rig.orders, [Order::Close(target)]);
}

#[test]
fn the_leg_that_was_used_least_recently_gives_way() {
    let at = |seconds: u64| Time::after(Duration::from_secs(seconds));
    let legs = [
        ("busy", None),
        ("new", Some(at(9))),
        ("old", Some(at(3))),
        ("newer", Some(at(8))),
    ];
    assert_eq!(gives_way(at(10), legs), Some("old"));
    assert_eq!(gives_way(at(5), legs), Some("old"));
    assert_eq!(gives_way(at(4), legs), None);
}
