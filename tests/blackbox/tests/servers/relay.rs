//! What passes between a host and one of its servers, and reaches no other.

use serde_json::{Value, json};

use crate::place::{Place, pid};
use crate::rig::{Host, until};

fn both(place: &Place) -> Value {
    json!({ "one": place.fake("one", &[]), "two": place.fake("two", &[]) })
}

/// A host that can be asked anything.
fn open(place: &Place) -> Host {
    let mut host = place.start(&both(place), &["--list-wait", "45s"]);
    let id = host.request(
        "initialize",
        json!({
            "protocolVersion": "2025-11-25",
            "capabilities": { "elicitation": {}, "sampling": {}, "roots": { "listChanged": true } },
            "clientInfo": { "name": "rig", "version": "0" },
        }),
    );
    host.answer(id).result();
    host.notify("notifications/initialized", json!({}));
    host.list_tools();
    host
}

#[test]
fn a_cancellation_reaches_the_server_of_the_call_and_no_other() {
    let place = Place::new();
    let mut host = open(&place);
    let strings = place.path("strings");
    let other = host.call("two__puppet", json!({ "strings": strings }));
    let call = host.call("one__sleep", json!({ "ms": 3_600_000 }));
    until("the calls", || {
        let heard = |name| place.heard(name, "tools/call") == 1;
        (heard("one") && heard("two")).then_some(())
    });
    host.cancel(call);
    until("the cancellation", || {
        (place.notes("one", "cancelled").len() == 1).then_some(())
    });
    place.write("strings", "answer");
    host.answer(other).result();
    assert_eq!(place.heard("two", "notifications/cancelled"), 0);
    assert_eq!(host.answers(call), 0);
}

#[test]
fn progress_is_that_of_its_own_call() {
    let place = Place::new();
    let mut host = open(&place);
    let mut call = |tool: &str, token: Value| {
        let meta = json!({ "progressToken": token });
        host.request(
            "tools/call",
            json!({ "name": tool, "arguments": { "ticks": 3 }, "_meta": meta }),
        )
    };
    let (one, two) = (call("one__tick", json!("a")), call("two__tick", json!(1)));
    host.answer(one).result();
    host.answer(two).result();
    let told = host.notified("notifications/progress");
    for token in [json!("a"), json!(1)] {
        let steps = told
            .iter()
            .filter(|it| it["params"]["progressToken"] == token);
        let steps: Vec<&Value> = steps.map(|it| &it["params"]["progress"]).collect();
        assert_eq!(steps, [1, 2, 3], "{told:?}");
    }
    // Progress of a call that this server does not have is told to nobody.
    host.ask("two__progress", json!({})).result();
    pid(&mut host, "two__ping");
    assert_eq!(host.notified("notifications/progress").len(), 6);
}

#[test]
fn each_server_is_given_the_answer_to_its_own_question() {
    let place = Place::new();
    let mut host = open(&place);
    let questions = [
        (
            "elicitation/create",
            json!({ "message": "?", "requestedSchema": { "type": "object", "properties": {} } }),
        ),
        (
            "sampling/createMessage",
            json!({ "messages": [], "maxTokens": 1 }),
        ),
        ("roots/list", json!({})),
    ];
    for (n, (method, params)) in questions.into_iter().enumerate() {
        // The fakes count alike, so both ask under the same id.
        let calls = ["one", "two"].map(|server| {
            let mut params = params.clone();
            params["from"] = server.into();
            host.call(
                &format!("{server}__ask"),
                json!({ "method": method, "params": params }),
            )
        });
        for server in ["two", "one"] {
            let asked = host.wait_for("a question", |it| {
                it["method"] == method && it["params"]["from"] == server
            });
            let answer = json!({ "for": server, "n": n });
            host.send(&json!({ "jsonrpc": "2.0", "id": asked["id"], "result": answer }));
        }
        for (call, server) in calls.into_iter().zip(["one", "two"]) {
            let answer = host.answer(call);
            assert!(
                answer.text().contains(&format!("\"for\":\"{server}\"")),
                "{method}: {}",
                answer.0
            );
        }
    }
}

#[test]
fn changed_roots_are_told_to_the_servers_that_run() {
    let place = Place::new();
    let mut host = open(&place);
    pid(&mut host, "one__ping");
    host.notify("notifications/roots/list_changed", json!({}));
    until("the change", || {
        (place.heard("one", "notifications/roots/list_changed") == 1).then_some(())
    });
}

#[test]
fn a_subscription_is_at_the_server_of_the_resource() {
    let place = Place::new();
    let mut host = open(&place);
    // Both have it, so it is said whose is meant.
    let uri = "outlive:two:mem://a";
    let id = host.request("resources/subscribe", json!({ "uri": uri }));
    host.answer(id).result();
    assert_eq!(place.heard("one", "resources/subscribe"), 0);
    host.ask("two__touch", json!({ "uri": "mem://a" })).result();
    let told = host.wait_for("the update", |it| {
        it["method"] == "notifications/resources/updated"
    });
    assert_eq!(told["params"]["uri"], uri, "{told}");
    let id = host.request("resources/read", json!({ "uri": uri }));
    host.answer(id).result();
    assert_eq!(
        (
            place.heard("one", "resources/read"),
            place.heard("two", "resources/read")
        ),
        (0, 1)
    );
}
