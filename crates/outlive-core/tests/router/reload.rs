//! The file of servers is read again: servers come, go and are changed under a client that stays.

use std::sync::Arc;
use std::time::Duration;

use outlive_core::gateway::TargetId;
use outlive_core::router::Input;
use outlive_core::server::Channel;
use serde_json::json;

use crate::rig::{Order, Rig, offer};

const CHANGED: &str = "notifications/tools/list_changed";

/// A client that has listed everything, and whose servers `a` and `b` run.
fn running() -> Rig {
    let mut rig = Rig::known(&[("a", &["x"]), ("b", &["y"])]);
    rig.initialize();
    assert_eq!(rig.tools(1), ["a__x", "b__y"]);
    rig.call(2, "a__x");
    rig.serve(0, &["x"]);
    rig.call(3, "b__y");
    rig.serve(1, &["y"]);
    rig.sent.clear();
    rig.orders.clear();
    rig
}

#[test]
fn a_changed_server_is_replaced_under_the_session_and_nobody_else_notices() {
    let mut rig = running();
    rig.request(4, "resources/subscribe", json!({"uri": "outlive:a:x://1"}));
    rig.serve(0, &["x"]);
    rig.call(5, "a__x");
    rig.call(6, "b__y");
    rig.sent.clear();
    rig.entries[0].target = TargetId(2);
    rig.doubtful = Some(TargetId(2));
    rig.publish();

    assert_eq!(
        rig.orders,
        [Order::Close(TargetId(0)), Order::Open(TargetId(2))]
    );
    let failed = rig.answer(5);
    assert_eq!(failed["error"]["code"], -31010);
    assert_eq!(failed["error"]["data"]["outlive"]["outcome"], "unknown");
    let words = failed["error"]["message"].as_str().expect("a sentence");
    assert!(words.contains("\"a\" was changed"), "{words}");
    assert!(rig.answers(6).is_empty(), "the other call runs on");

    // What is known of the old one is shown until the new one tells, and it is asked at once.
    assert_eq!(rig.tools(7), ["a__x", "b__y"]);
    let rest = rig.serve(2, &["x", "z"]);
    assert!(
        rest.iter()
            .all(|it| it["method"] == "notifications/initialized"),
        "{rest:?}"
    );
    let updated = rig.told("notifications/resources/updated");
    assert_eq!(
        updated.len(),
        1,
        "what is followed is followed there: {updated:?}"
    );
    rig.pass(Duration::from_millis(200));
    assert_eq!(rig.told(CHANGED).len(), 1);
    assert_eq!(rig.tools(8), ["a__x", "a__z", "b__y"]);
    rig.serve(1, &["y"]);
    assert_eq!(rig.answer(6)["result"]["server"], 1);
    rig.call(9, "a__z");
    rig.serve(2, &["x", "z"]);
    assert_eq!(rig.answer(9)["result"]["server"], 2);
    // The old one may still say something; nobody listens.
    let late = json!({"jsonrpc": "2.0", "method": "notifications/message", "params": {}});
    rig.server_says(0, Channel::MAIN, late);
    assert!(rig.told("notifications/message").is_empty());
}

#[test]
fn a_removed_server_settles_its_calls_and_questions_and_is_not_called_again() {
    let mut rig = running();
    let channel = rig.call(4, "a__x");
    let ask = json!({"jsonrpc": "2.0", "id": 7, "method": "roots/list"});
    rig.server_says(0, channel, ask);
    rig.call(5, "b__y");
    rig.entries.remove(0);
    rig.publish();
    assert_eq!(rig.orders, [Order::Close(TargetId(0))]);
    let failed = rig.answer(4);
    let words = failed["error"]["message"].as_str().expect("a sentence");
    assert!(
        words.contains("The server \"a\" was removed from the file of servers"),
        "{words}"
    );
    assert_eq!(failed["error"]["data"]["outlive"]["kind"], "removed");
    assert_eq!(failed["error"]["data"]["outlive"]["retryable"], false);
    assert_eq!(
        rig.told("notifications/cancelled").len(),
        1,
        "nobody waits for the answer"
    );
    rig.pass(Duration::from_millis(200));
    assert_eq!(rig.told(CHANGED).len(), 1);
    rig.call(6, "a__x");
    assert_eq!(rig.answer(6)["error"]["code"], -32602);
    assert!(
        rig.take(0).iter().all(|it| it.1["id"] != 6),
        "it is not reached"
    );
    rig.serve(1, &["y"]);
    assert_eq!(rig.answer(5)["result"]["server"], 1);
    // It comes again, as another.
    let mut again = rig.entries[0].clone();
    (again.target, again.name) = (TargetId(2), "a".into());
    again.offer = Some(Arc::new(offer(&["x"])));
    rig.entries.push(again);
    rig.publish();
    rig.call(7, "a__x");
    rig.serve(2, &["x"]);
    assert_eq!(rig.answer(7)["result"]["server"], 2);
}

#[test]
fn a_call_that_was_not_sent_to_a_changed_server_may_be_sent_again() {
    let mut rig = Rig::known(&[("a", &["x"])]);
    rig.initialize();
    rig.call(1, "a__x");
    rig.entries[0].target = TargetId(1);
    rig.publish();
    let about = &rig.answer(1)["error"]["data"]["outlive"];
    assert_eq!(about["outcome"], "not_sent");
    assert_eq!(about["retryable"], true);
}

#[test]
fn a_server_that_comes_is_asked_what_it_offers_by_those_who_have_a_list() {
    let mut rig = running();
    let mut fresh = rig.entries[0].clone();
    (fresh.target, fresh.name, fresh.offer) = (TargetId(2), "c".into(), None);
    rig.entries.push(fresh);
    rig.publish();
    assert_eq!(rig.orders, [Order::Open(TargetId(2))]);
    rig.serve(2, &["z"]);
    rig.pass(Duration::from_millis(200));
    assert_eq!(rig.told(CHANGED).len(), 1);
    assert_eq!(rig.tools(4), ["a__x", "b__y", "c__z"]);

    let mut idle = Rig::known(&[("a", &["x"])]);
    idle.initialize();
    let mut fresh = idle.entries[0].clone();
    (fresh.target, fresh.name, fresh.offer) = (TargetId(1), "c".into(), None);
    idle.entries.push(fresh);
    idle.publish();
    assert!(idle.orders.is_empty(), "who has no list will ask for one");
    idle.feed(Input::Tick);
}
