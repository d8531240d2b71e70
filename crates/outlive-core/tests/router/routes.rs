//! What the client sends reaches the right server, and what servers say the client.

use std::time::Duration;

use outlive_core::gateway::TargetId;
use outlive_core::roster::Filter;
use outlive_core::router::{Input, RouterPolicy};
use outlive_core::server::Channel;
use serde_json::{Value, json};

use crate::rig::{Order, Rig};

#[test]
fn a_call_starts_its_server_and_no_other() {
    let mut rig = Rig::known(&[("a", &["x"]), ("b", &["x", "y"])]);
    rig.initialize();
    let channel = rig.call(1, "b__y");
    assert_eq!(rig.orders, [Order::Open(TargetId(1))]);
    assert!(rig.take(0).is_empty());
    rig.serve(1, &["x", "y"]);
    let answer = rig.answer(1);
    assert_eq!(
        (&answer["result"]["server"], &answer["result"]["tool"]),
        (&json!(1), &json!("y"))
    );
    assert!(rig.done.contains(&channel));
    assert_eq!(rig.router.in_flight(), 0);
}

#[test]
fn a_server_hears_the_handshake_of_the_client_and_its_calls_in_order() {
    let mut rig = Rig::known(&[("a", &["x", "y"])]);
    rig.initialize();
    for (id, tool) in [(1, "a__x"), (2, "a__y"), (3, "a__x")] {
        rig.call(id, tool);
    }
    let heard = rig.take(0);
    assert_eq!(heard.len(), 1, "the rest waits for the handshake");
    let hello = &heard[0].1;
    assert_eq!(hello["params"]["clientInfo"]["name"], "host");
    let result = json!({"protocolVersion": "2025-11-25", "capabilities": {}, "serverInfo": {"name": "s", "version": "1"}});
    rig.server_says(
        0,
        heard[0].0,
        json!({"jsonrpc": "2.0", "id": hello["id"], "result": result}),
    );
    let heard: Vec<Value> = rig.take(0).into_iter().map(|it| it.1).collect();
    assert_eq!(heard[0]["method"], "notifications/initialized");
    let ids: Vec<&Value> = heard[1..].iter().map(|it| &it["id"]).collect();
    assert_eq!(ids, [&json!(1), &json!(2), &json!(3)]);
    assert_eq!(
        heard[2]["params"],
        json!({"name": "y", "arguments": {"n": 2}})
    );
}

#[test]
fn an_unknown_tool_is_refused_and_starts_nothing() {
    let mut rig = Rig::known(&[("a", &["x"])]);
    rig.initialize();
    rig.call(1, "a__nothing");
    let error = &rig.answer(1)["error"];
    assert_eq!(error["code"], -32602);
    assert!(
        error["message"]
            .as_str()
            .is_some_and(|it| it.contains("a__nothing")),
        "{error}"
    );
    assert_eq!(rig.orders, []);
}

#[test]
fn a_tool_of_a_server_that_was_never_seen_is_waited_for() {
    let mut rig = Rig::new(&["a"]);
    rig.initialize();
    rig.call(1, "a__x");
    assert!(rig.answers(1).is_empty());
    rig.serve(0, &["x"]);
    assert_eq!(rig.answer(1)["result"]["tool"], "x");
}

#[test]
fn cancellations_reach_the_server_of_their_request() {
    let mut rig = Rig::known(&[("a", &["x"]), ("b", &["y"])]);
    rig.initialize();
    rig.call(1, "a__x");
    rig.call(2, "b__y");
    let cancel = |id| json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": id}});
    // Before it was sent.
    rig.say(cancel(1));
    let rest = rig.serve(0, &["x"]);
    assert!(
        rest.iter()
            .all(|it| it["method"] == "notifications/initialized"),
        "{rest:?}"
    );
    // After.
    let (channel, hello) = rig.take(1).remove(0);
    let result = json!({"protocolVersion": "2025-11-25", "capabilities": {}, "serverInfo": {"name": "s", "version": "1"}});
    rig.server_says(
        1,
        channel,
        json!({"jsonrpc": "2.0", "id": hello["id"], "result": result}),
    );
    let call = rig
        .take(1)
        .into_iter()
        .find(|it| it.1["id"] == 2)
        .expect("the call");
    rig.say(cancel(2));
    let heard = rig.take(1);
    assert_eq!(heard[0].1["params"]["requestId"], 2);
    rig.server_says(1, call.0, json!({"jsonrpc": "2.0", "id": 2, "result": {}}));
    rig.say(cancel(2));
    rig.say(cancel(77));
    assert!(rig.take(1).is_empty());
    assert!(rig.answers(1).is_empty() && rig.answers(2).is_empty());
    assert_eq!(rig.router.in_flight(), 0);
}

#[test]
fn questions_of_two_servers_with_one_id_are_told_apart() {
    let mut rig = Rig::known(&[("a", &["x"]), ("b", &["y"])]);
    rig.initialize();
    for (id, server, tool) in [(1, 0, "a__x"), (2, 1, "b__y")] {
        let channel = rig.call(id, tool);
        let (hello_channel, hello) = rig.take(server).remove(0);
        let result = json!({"protocolVersion": "2025-11-25", "capabilities": {}, "serverInfo": {"name": "s", "version": "1"}});
        rig.server_says(
            server,
            hello_channel,
            json!({"jsonrpc": "2.0", "id": hello["id"], "result": result}),
        );
        let ask = json!({"jsonrpc": "2.0", "id": 7, "method": "elicitation/create",
            "params": {"message": format!("{server}"), "requestedSchema": {}}});
        rig.server_says(server, channel, ask);
    }
    rig.take(0);
    rig.take(1);
    let asked = rig.told("elicitation/create");
    assert_eq!(asked.len(), 2);
    assert_ne!(asked[0]["id"], asked[1]["id"]);
    for (server, ask) in asked.iter().enumerate() {
        rig.say(json!({"jsonrpc": "2.0", "id": ask["id"], "result": {"action": "accept", "for": server}}));
        let heard = rig.take(server);
        assert_eq!(
            heard[0].1,
            json!({"jsonrpc": "2.0", "id": 7, "result": {"action": "accept", "for": server}})
        );
        rig.say(json!({"jsonrpc": "2.0", "id": ask["id"], "result": {}}));
        assert!(rig.take(server).is_empty(), "an answer counts once");
    }
}

#[test]
fn a_client_is_not_asked_what_it_cannot_do() {
    let mut rig = Rig::known(&[("a", &["x"])]);
    rig.initialize_with(json!({}));
    let channel = rig.call(1, "a__x");
    rig.serve(0, &["x"]);
    for method in ["sampling/createMessage", "elicitation/create", "roots/list"] {
        rig.server_says(
            0,
            channel,
            json!({"jsonrpc": "2.0", "id": 7, "method": method, "params": {}}),
        );
        assert!(rig.told(method).is_empty());
        assert_eq!(rig.take(0)[0].1["error"]["code"], -32601);
    }
    rig.server_says(
        0,
        channel,
        json!({"jsonrpc": "2.0", "id": 8, "method": "ping"}),
    );
    assert_eq!(rig.take(0)[0].1["result"], json!({}));
}

#[test]
fn the_level_reaches_every_server_now_or_later() {
    let mut rig = Rig::known(&[("a", &["x"]), ("b", &["y"])]);
    rig.initialize();
    rig.call(1, "a__x");
    rig.serve(0, &["x"]);
    rig.request(2, "logging/setLevel", json!({"level": "debug"}));
    rig.answer(2);
    let heard = rig.take(0);
    assert_eq!(heard[0].1["params"], json!({"level": "debug"}));
    // It has not answered: the next choice waits, and only the last counts.
    for (id, level) in [(3, "info"), (4, "error")] {
        rig.request(id, "logging/setLevel", json!({"level": level}));
    }
    assert!(rig.take(0).is_empty());
    rig.server_says(
        0,
        heard[0].0,
        json!({"jsonrpc": "2.0", "id": heard[0].1["id"], "result": {}}),
    );
    let heard = rig.take(0);
    assert_eq!(
        (heard.len(), &heard[0].1["params"]),
        (1, &json!({"level": "error"}))
    );
    rig.call(5, "b__y");
    let (channel, hello) = rig.take(1).remove(0);
    let result = json!({"protocolVersion": "2025-11-25", "capabilities": {"logging": {}}, "serverInfo": {"name": "s", "version": "1"}});
    rig.server_says(
        1,
        channel,
        json!({"jsonrpc": "2.0", "id": hello["id"], "result": result}),
    );
    let heard = rig.take(1);
    assert!(
        heard
            .iter()
            .any(|it| it.1["method"] == "logging/setLevel" && it.1["params"]["level"] == "error")
    );
}

#[test]
fn an_idle_leg_is_closed_and_opened_again_by_the_next_call() {
    let policy = RouterPolicy {
        idle_stop: Some(Duration::from_secs(60)),
        ..RouterPolicy::default()
    };
    let mut rig = Rig::known_with(&[("a", &["x"])], policy);
    rig.initialize();
    let channel = rig.call(1, "a__x");
    rig.shake(0, &["x"]);
    rig.pass(Duration::from_secs(300));
    assert_eq!(
        rig.orders,
        [Order::Open(TargetId(0))],
        "a call is in flight"
    );
    rig.server_says(0, channel, json!({"jsonrpc": "2.0", "id": 1, "result": {}}));
    rig.take(0);
    rig.pass(Duration::from_secs(130));
    assert_eq!(rig.orders[1..], [Order::Close(TargetId(0))]);
    assert_eq!(rig.tools(2), ["a__x"]);
    rig.call(3, "a__x");
    rig.serve(0, &["x"]);
    rig.answer(3);
    assert_eq!(rig.orders[2..], [Order::Open(TargetId(0))]);
}

#[test]
fn a_client_that_is_gone_needs_no_server() {
    let mut rig = Rig::known(&[("a", &["x"]), ("b", &["y"])]);
    rig.initialize();
    rig.call(1, "a__x");
    rig.call(2, "b__y");
    rig.sent.clear();
    rig.feed(Input::Gone);
    assert_eq!(
        rig.orders[2..],
        [Order::Close(TargetId(0)), Order::Close(TargetId(1))]
    );
    rig.server_says(
        0,
        Channel::MAIN,
        json!({"jsonrpc": "2.0", "id": 1, "result": {}}),
    );
    assert!(rig.sent.is_empty() && rig.router.deadline().is_none());
}

#[test]
fn whoever_loses_its_token_is_told_so_for_each_call() {
    let mut rig = Rig::known(&[("a", &["x"])]);
    rig.initialize();
    rig.call(1, "a__x");
    rig.feed(Input::Withdrawn);
    let error = &rig.answer(1)["error"];
    assert_eq!(error["data"]["outlive"]["kind"], "token_withdrawn");
    assert_eq!(error["data"]["outlive"]["outcome"], "not_sent");
}

#[test]
fn a_method_that_nobody_knows_does_not_pass_where_not_all_of_a_server_may_be_used() {
    let mut rig = Rig::known(&[("a", &["x", "y"])]);
    rig.initialize();
    rig.request(1, "x/y", json!({}));
    assert_eq!(
        rig.serve(0, &["x", "y"]).len(),
        2,
        "the rest of a handshake, and this"
    );
    rig.view.tools = Filter::new([], ["y"]);
    rig.publish();
    rig.request(2, "x/y", json!({}));
    let refused = rig.answer(2);
    assert_eq!(refused["error"]["code"], -32601, "{refused}");
    assert!(rig.take(0).is_empty());
}
