//! Servers that speak 2026-07-28 only, behind one address with others, for clients of both eras.

use http_peer::message;
use serde_json::{Value, json};

use crate::fleet::{Fleet, fake};
use crate::place::{Place, has, names, pid};
use crate::rig::{Host, Setup, until};

/// An entry of a fake that knows no handshake.
fn modern(place: &Place, name: &str) -> Value {
    let set = place.path(&format!("{name}.tools"));
    let words = ["--refuse-initialize", "no such method", "--tools", &set];
    place.fake(name, &words)
}

fn both(place: &Place) -> Value {
    json!({ "old": place.fake("old", &[]), "new": modern(place, "new") })
}

/// A host that can be asked, and has seen all tools.
fn open(place: &Place) -> Host {
    let mut host = place.start(&both(place), &["--list-wait", "45s"]);
    let id = host.request(
        "initialize",
        json!({
            "protocolVersion": "2025-11-25",
            "capabilities": { "elicitation": {}, "roots": {} },
            "clientInfo": { "name": "rig", "version": "0" },
        }),
    );
    host.answer(id).result();
    host.notify("notifications/initialized", json!({}));
    let all = names(&host.list_tools());
    assert!(has(&all, "old") && has(&all, "new"), "{all:?}");
    host
}

#[test]
fn a_legacy_host_lists_and_calls_a_server_that_has_no_handshake() {
    let place = Place::new();
    let mut host = open(&place);
    pid(&mut host, "old__ping");
    pid(&mut host, "new__ping");
    let meta = json!({ "progressToken": "t" });
    let params = json!({ "name": "new__tick", "arguments": { "ticks": 3 }, "_meta": meta });
    let call = host.request("tools/call", params);
    host.answer(call).result();
    let told = host.notified("notifications/progress");
    assert_eq!(told.len(), 3, "{told:?}");
    let id = host.request(
        "prompts/get",
        json!({ "name": "new__greet", "arguments": {} }),
    );
    host.answer(id).result();
    let id = host.request("resources/read", json!({ "uri": "outlive:new:mem://a" }));
    host.answer(id).result();
    let id = host.request("logging/setLevel", json!({ "level": "error" }));
    host.answer(id).result();
    let call = host.call("new__sleep", json!({ "ms": 3_600_000 }));
    until("the call", || {
        (place.heard("new", "tools/call") == 3).then_some(())
    });
    host.cancel(call);
    until("the cancellation", || {
        (place.notes("new", "cancelled").len() == 1).then_some(())
    });
    assert_eq!(host.answers(call), 0);
}

#[test]
fn what_such_a_server_wants_to_know_is_a_question_to_a_legacy_host() {
    let place = Place::new();
    let mut host = open(&place);
    let params =
        json!({ "message": "who?", "requestedSchema": { "type": "object", "properties": {} } });
    let call = host.call(
        "new__ask",
        json!({ "method": "elicitation/create", "params": params }),
    );
    let asked = host.wait_for("the question", |it| it["method"] == "elicitation/create");
    assert_eq!(asked["params"]["message"], "who?", "{asked}");
    let given = json!({ "action": "accept", "content": { "name": "me" } });
    host.send(&json!({ "jsonrpc": "2.0", "id": asked["id"], "result": given }));
    let answer = host.answer(call);
    let told: Value = serde_json::from_str(answer.text()).expect("JSON");
    assert_eq!(told["responses"]["it"], given, "{told}");
    assert_eq!(told["state"], "where I was", "{told}");
}

#[test]
fn changes_in_such_a_server_reach_clients_of_both_eras() {
    let place = Place::new();
    let setup = Setup::new();
    let mut flags = place.flags(&json!({ "new": modern(&place, "new"), "old": fake() }));
    flags.extend(["--list-wait".into(), "45s".into()]);
    let flags: Vec<&str> = flags.iter().map(String::as_str).collect();
    let fleet = Fleet::start(setup, &flags);
    let session = fleet.all();
    assert!(has(&fleet.tools(&session), "new"));
    let listen = message::modern(
        5,
        "subscriptions/listen",
        json!({ "notifications": { "toolsListChanged": true } }),
    );
    let headers = message::modern_headers(&listen);
    let body = listen.to_string();
    let mut stream = http_peer::send(
        fleet.address,
        "POST",
        "/mcp",
        &message::as_strs(&headers),
        &body,
    )
    .expect("a stream");
    assert_eq!(
        stream.message()["method"],
        "notifications/subscriptions/acknowledged"
    );
    let get = [
        ("Mcp-Session-Id", session.as_str()),
        ("Accept", "text/event-stream"),
    ];
    let mut main = http_peer::send(fleet.address, "GET", "/mcp", &get, "").expect("a stream");
    until("the router listens", || {
        (place.heard("new", "subscriptions/listen") >= 1).then_some(())
    });
    place.write("new.tools", "v2");
    let answer = fleet.call_all(&session, "new__notify_listeners", json!({}));
    assert!(answer["result"].is_object(), "{answer}");
    for stream in [&mut stream, &mut main] {
        loop {
            let told = stream.message();
            if told["method"] == "notifications/tools/list_changed" {
                break;
            }
        }
    }
    let all = fleet.tools(&session);
    assert!(all.contains(&"new__added".to_owned()), "{all:?}");
}

#[test]
fn a_modern_client_calls_a_server_that_has_no_handshake_and_it_may_be_far_away() {
    let place = Place::new();
    let far = Fleet::of(json!({ "new": modern(&place, "new") }));
    let url = format!("http://{}/new/mcp", far.address);
    let fleet = Fleet::of(json!({ "far": { "url": url }, "near": fake() }));
    let ask = |method: &str, params: Value| {
        let request = message::modern(3, method, params);
        let headers = message::modern_headers(&request);
        let body = request.to_string();
        let reply = http_peer::send(
            fleet.address,
            "POST",
            "/mcp",
            &message::as_strs(&headers),
            &body,
        );
        reply.expect("a response").answer()
    };
    let all = until("all tools", || {
        let listed = ask("tools/list", json!({}));
        let all = names(listed["result"]["tools"].as_array().expect("tools"));
        (has(&all, "far") && has(&all, "near")).then_some(all)
    });
    assert!(all.len() > 2);
    let answer = ask(
        "tools/call",
        json!({ "name": "far__echo", "arguments": { "text": "here" } }),
    );
    assert_eq!(message::text_of(&answer), "here");
    // So does a legacy client, over HTTP on both sides.
    let session = fleet.all();
    let answer = fleet.call_all(&session, "far__echo", json!({ "text": "there" }));
    assert_eq!(message::text_of(&answer), "there");
}

#[test]
fn a_modern_batch_is_refused() {
    let fleet = Fleet::of(json!({ "one": fake() }));
    let call = message::modern_call(1, "one__ping", json!({}));
    let headers = [("MCP-Protocol-Version", "2026-07-28")];
    let body = json!([call]).to_string();
    for path in ["/mcp", "/one/mcp"] {
        let reply =
            http_peer::send(fleet.address, "POST", path, &headers, &body).expect("a response");
        assert_eq!(reply.status, 400);
        let answer = reply.json();
        assert_eq!(answer["error"]["code"], -32600, "{answer}");
    }
}

#[test]
fn an_id_that_is_in_flight_in_one_era_is_refused_in_the_other() {
    let place = Place::new();
    let mut host = open(&place);
    let strings = place.path("strings");
    let call = host.call("old__puppet", json!({ "strings": strings }));
    let modern = message::modern_call(call as u64, "new__ping", json!({}));
    host.send(&modern);
    let refused = host.wait_for("a refusal", |it| {
        it["id"] == call && it.get("error").is_some()
    });
    let words = refused["error"]["message"].as_str().unwrap_or_default();
    assert!(words.contains("still in flight"), "{refused}");
    place.write("strings", "answer");
    until("the answer", || (host.answers(call) == 2).then_some(()));
    assert_eq!(place.heard("new", "tools/call"), 0);
}
