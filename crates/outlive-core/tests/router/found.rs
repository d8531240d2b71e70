//! What random schedules have found, and the rules that came of it.

use std::sync::Arc;
use std::time::Duration;

use outlive_core::gateway::TargetId;
use outlive_core::roster::Filter;
use outlive_core::router::{Input, RouterPolicy};
use outlive_core::server::{Channel, RpcError};
use serde_json::{Value, json};

use crate::rig::{Order, Rig, names, offer};

const CHANGED: &str = "notifications/tools/list_changed";

fn says_changed(rig: &mut Rig, server: usize) {
    rig.server_says(
        server,
        Channel::MAIN,
        json!({"jsonrpc": "2.0", "method": CHANGED}),
    );
}

/// Some servers list nothing while they start.
#[test]
fn a_list_that_was_not_empty_is_read_twice_before_it_is_believed_to_be() {
    let mut rig = Rig::known(&[("a", &["x"])]);
    rig.initialize();
    assert_eq!(rig.tools(1), ["a__x"]);
    rig.call(2, "a__x");
    rig.serve(0, &[]);
    rig.pass(Duration::from_millis(1999));
    assert!(rig.take(0).is_empty(), "it is given two seconds");
    assert_eq!(rig.tools(3), ["a__x"]);
    rig.pass(Duration::from_millis(1));
    rig.serve(0, &["x", "y"]);
    assert_eq!(rig.tools(4), ["a__x", "a__y"], "it had only just started");
    says_changed(&mut rig, 0);
    rig.serve(0, &[]);
    assert_eq!(rig.tools(5), ["a__x", "a__y"]);
    rig.pass(Duration::from_secs(2));
    rig.serve(0, &[]);
    assert!(rig.tools(6).is_empty(), "it has said so twice");
    rig.pass(Duration::from_secs(60));
    assert!(rig.take(0).is_empty(), "it is not read again");
}

/// Seed 47.
#[test]
fn what_the_client_follows_outlives_a_leg_and_brings_the_server_back() {
    let mut rig = Rig::known(&[("a", &["x"])]);
    rig.initialize();
    rig.request(1, "resources/subscribe", json!({"uri": "x://1"}));
    rig.serve(0, &["x"]);
    rig.answer(1);
    rig.feed(Input::LegEnded(TargetId(0)));
    rig.orders.clear();
    rig.pass(Duration::from_secs(20));
    assert_eq!(rig.orders, [Order::Open(TargetId(0))]);
    let (channel, hello) = rig.take(0).remove(0);
    let result = json!({"protocolVersion": "2025-11-25", "capabilities": {"resources": {"subscribe": true}},
        "serverInfo": {"name": "s", "version": "1"}});
    rig.server_says(
        0,
        channel,
        json!({"jsonrpc": "2.0", "id": hello["id"], "result": result}),
    );
    let heard = rig.take(0);
    let subscribes = |it: &&(Channel, Value)| it.1["method"] == "resources/subscribe";
    assert_eq!(heard.iter().filter(subscribes).count(), 1, "{heard:?}");
}

/// A subscription that failed is none, and a read of the same resource is not one either.
#[test]
fn a_subscription_that_failed_is_not_made_again() {
    let mut rig = Rig::known(&[("a", &["x"])]);
    rig.initialize();
    rig.request(1, "resources/subscribe", json!({"uri": "x://1"}));
    rig.feed(Input::Refused(TargetId(0), RpcError::new(-31002, "No.")));
    assert!(rig.answer(1)["error"].is_object());
    assert_eq!(rig.router.sizes().subscriptions, 0);
}

/// Seed 2: four lists, one after the other, wait once for a server that hangs.
#[test]
fn a_server_that_hangs_is_waited_for_once() {
    let mut rig = Rig::new(&["a"]);
    rig.initialize();
    rig.request(1, "tools/list", json!({}));
    rig.pass(Duration::from_secs(5));
    assert!(names(&rig.answer(1)).is_empty());
    assert!(rig.tools(2).is_empty(), "answered at once");
    rig.serve(0, &["x"]);
    rig.pass(Duration::from_secs(1));
    assert_eq!(rig.told(CHANGED).len(), 1);
    assert_eq!(rig.tools(3), ["a__x"]);
}

/// The second page of another list than the first one.
#[test]
fn a_client_that_has_read_pages_of_two_lists_is_told() {
    let mut policy = RouterPolicy::default();
    policy.limits.page_items = 1;
    let mut rig = Rig::known_with(&[("a", &["x"]), ("b", &["y"])], policy);
    rig.initialize();
    rig.request(1, "tools/list", json!({}));
    let cursor = rig.answer(1)["result"]["nextCursor"].clone();
    rig.entries[1].offer = Some(Arc::new(offer(&["z"])));
    rig.publish();
    rig.request(2, "tools/list", json!({"cursor": cursor}));
    assert_eq!(names(&rig.answer(2)), ["b__z"]);
    // It is as it was when the client began: what the client has is neither.
    rig.entries[1].offer = Some(Arc::new(offer(&["y"])));
    rig.publish();
    rig.pass(Duration::from_secs(1));
    assert_eq!(rig.told(CHANGED).len(), 1);
}

/// Seed 161.
#[test]
fn an_id_like_ours_is_still_the_clients() {
    for n in 1..8 {
        let mut rig = Rig::known(&[("a", &["x"])]);
        rig.initialize();
        let id = format!("outlive-router-{n}");
        rig.say(
            json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": {"name": "a__x"}}),
        );
        rig.serve(0, &["x"]);
        let answers = rig
            .sent
            .iter()
            .filter(|it| it.1["id"] == id && it.1["result"]["tool"] == "x");
        assert_eq!(answers.count(), 1, "{id}: {:?}", rig.sent);
    }
}

/// Seed 53, and what a server may say of tasks.
#[test]
fn a_server_with_a_task_has_no_say_in_the_calls_and_tasks_of_others() {
    let mut rig = Rig::known(&[("a", &["x"]), ("b", &["y"])]);
    rig.initialize();
    for (id, server, tool) in [(1, 0, "a__x"), (2, 1, "b__y")] {
        let params =
            json!({"name": tool, "task": {"ttl": 1}, "_meta": {"progressToken": format!("t{id}")}});
        let channel = rig.request(id, "tools/call", params);
        rig.shake(server, &[tool.rsplit("__").next().unwrap_or_default()]);
        let result = json!({"task": {"taskId": format!("task{id}")}});
        rig.server_says(
            server,
            channel,
            json!({"jsonrpc": "2.0", "id": id, "result": result}),
        );
        rig.answer(id);
    }
    rig.sent.clear();
    let progress = |token: &str| {
        json!({"jsonrpc": "2.0", "method": "notifications/progress",
        "params": {"progressToken": token, "progress": 1}})
    };
    let status = |task: &str| {
        json!({"jsonrpc": "2.0", "method": "notifications/tasks/status",
        "params": {"taskId": task, "status": "failed"}})
    };
    for lie in [progress("t2"), status("task2")] {
        rig.server_says(0, Channel::MAIN, lie);
    }
    assert!(rig.sent.is_empty(), "{:?}", rig.sent);
    for truth in [progress("t1"), status("task1")] {
        rig.server_says(0, Channel::MAIN, truth);
    }
    assert_eq!(rig.sent.len(), 2);
    // Seed 678: a server that may not be seen any more is not reached for its tasks.
    rig.view.servers = Filter::new([], ["b"]);
    rig.publish();
    rig.orders.clear();
    rig.request(3, "tasks/get", json!({"taskId": "task2"}));
    assert_eq!(rig.orders, []);
}

/// Two servers that have chosen one token are told apart, as those with one id are.
#[test]
fn progress_of_a_question_reaches_who_asked() {
    let mut rig = Rig::known(&[("a", &["x"]), ("b", &["y"])]);
    rig.initialize();
    for (id, server, tool) in [(1, 0, "a__x"), (2, 1, "b__y")] {
        let channel = rig.call(id, tool);
        rig.shake(server, &[tool.rsplit("__").next().unwrap_or_default()]);
        let params =
            json!({"message": "?", "requestedSchema": {}, "_meta": {"progressToken": "t"}});
        rig.server_says(
            server,
            channel,
            json!({"jsonrpc": "2.0", "id": 7, "method": "elicitation/create", "params": params}),
        );
        rig.take(server);
    }
    for (server, ask) in rig.told("elicitation/create").into_iter().enumerate() {
        let token = ask["params"]["_meta"]["progressToken"].clone();
        rig.say(json!({"jsonrpc": "2.0", "method": "notifications/progress",
            "params": {"progressToken": token, "progress": 1}}));
        assert_eq!(rig.take(server)[0].1["params"]["progressToken"], "t");
        assert!(rig.take(1 - server).is_empty());
    }
}

/// Seed 0: a server may ask, and expect an answer, before it is in service.
#[test]
fn a_server_that_asks_before_the_end_of_its_handshake_is_answered() {
    let mut rig = Rig::known(&[("a", &["x"])]);
    rig.initialize();
    rig.call(1, "a__x");
    rig.take(0);
    rig.server_says(
        0,
        Channel::MAIN,
        json!({"jsonrpc": "2.0", "id": 8, "method": "ping"}),
    );
    assert_eq!(rig.take(0)[0].1["result"], json!({}));
}
