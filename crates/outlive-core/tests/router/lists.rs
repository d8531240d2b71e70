//! Lists: complete, in a stable order, whatever servers do; and changes are told once.

use std::sync::Arc;
use std::time::Duration;

use outlive_core::gateway::TargetId;
use outlive_core::server::Channel;
use serde_json::{Value, json};

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
    let data = json!({"outlive": {"kind": "unavailable"}});
    let error = json!({"code": -31002, "message": "It exits with code 1.", "data": data});
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

/// A server that answers the handshake, and each of its first lists of tools with this.
fn answer_first_list(rig: &mut Rig, answer: Value) {
    let (channel, hello) = rig.take(0).remove(0);
    let result = json!({"protocolVersion": "2025-11-25", "capabilities": {"tools": {}},
        "serverInfo": {"name": "s", "version": "1"}});
    rig.server_says(
        0,
        channel,
        json!({"jsonrpc": "2.0", "id": hello["id"], "result": result}),
    );
    let heard = rig.take(0);
    let (channel, list) = heard
        .iter()
        .find(|it| it.1["method"] == "tools/list")
        .expect("a list");
    let mut answer = answer;
    answer["jsonrpc"] = json!("2.0");
    answer["id"] = list["id"].clone();
    rig.server_says(0, *channel, answer);
}

#[test]
fn a_first_list_that_cannot_be_read_or_is_empty_is_read_again() {
    let bad = [
        json!({"error": {"code": -32603, "message": "still loading"}}),
        json!({"result": {"tools": {}}}),
        json!({"result": {"tools": []}}),
    ];
    for answer in bad {
        let mut rig = Rig::new(&["a"]);
        rig.initialize();
        answer_first_list(&mut rig, answer.clone());
        assert!(rig.tools(1).is_empty(), "nobody waits for it: {answer}");
        rig.pass(Duration::from_secs(3));
        rig.serve(0, &["x"]);
        rig.pass(Duration::from_secs(1));
        assert_eq!(rig.told(CHANGED).len(), 1, "{answer}");
        assert_eq!(rig.tools(2), ["a__x"], "{answer}");
        // Also if that was in an earlier life: the next client has it looked at again.
        let mut rig = Rig::known(&[("a", &[])]);
        rig.initialize();
        assert_eq!(rig.orders, [Order::Open(TargetId(0))]);
        assert!(rig.tools(1).is_empty());
        rig.serve(0, &["x"]);
        assert_eq!(rig.tools(2), ["a__x"]);
    }
}

#[test]
fn a_list_that_never_can_be_read_is_given_up_in_the_end() {
    let mut rig = Rig::new(&["a"]);
    rig.initialize();
    let error = json!({"error": {"code": -32603, "message": "no"}});
    answer_first_list(&mut rig, error.clone());
    let mut asked = 0;
    for _ in 0..1000 {
        rig.pass(Duration::from_secs(1));
        for (channel, message) in rig.take(0) {
            asked += usize::from(message["method"] == "tools/list");
            let mut answer = error.clone();
            answer["jsonrpc"] = json!("2.0");
            answer["id"] = message["id"].clone();
            rig.server_says(0, channel, answer);
        }
    }
    assert_eq!(asked, 6);
    assert_eq!(rig.router.deadline(), None);
}

#[test]
fn a_server_that_says_with_each_list_that_it_has_changed_is_known_and_read_ever_less_often() {
    let mut rig = Rig::new(&["a"]);
    rig.initialize();
    let mut asked = 0;
    for _ in 0..600 {
        loop {
            let heard = rig.take(0);
            if heard.is_empty() {
                break;
            }
            for (channel, message) in heard {
                let result = match message["method"].as_str() {
                    Some("initialize") => {
                        json!({"protocolVersion": "2025-11-25", "capabilities": {"tools": {}},
                        "serverInfo": {"name": "s", "version": "1"}})
                    }
                    Some("tools/list") => {
                        asked += 1;
                        let changed = json!({"jsonrpc": "2.0", "method": CHANGED});
                        rig.server_says(0, Channel::MAIN, changed);
                        json!({"tools": [{"name": "x"}]})
                    }
                    _ => continue,
                };
                let answer = json!({"jsonrpc": "2.0", "id": message["id"], "result": result});
                rig.server_says(0, channel, answer);
            }
        }
        rig.pass(Duration::from_millis(100));
    }
    assert_eq!(rig.tools(1), ["a__x"]);
    assert!((2..20).contains(&asked), "{asked}");
}
