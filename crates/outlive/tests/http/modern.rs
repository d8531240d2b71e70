//! Requests that speak for themselves (2026-07-28).

use std::time::Duration;

use serde_json::{Value, json};

use crate::offer::Offer;
use crate::rig::*;

fn code(reply: Reply) -> (u16, Value) {
    let status = reply.status;
    (status, reply.json()["error"]["code"].clone())
}

#[test]
fn a_request_needs_nothing_before_it() {
    let offer = Offer::new();
    let rig = Rig::new(&offer.server);
    let reply = rig.modern(&modern_call(1, "echo", json!({"text": "hi"})));
    assert_eq!((reply.status, reply.header("mcp-session-id")), (200, None));
    assert_eq!(text_of(&reply.answer()), "hi");
    let found = rig.modern(&modern(2, "server/discover", json!({}))).json();
    assert_eq!(found["result"]["supportedVersions"], json!(["2026-07-28"]));
    // A session id means nothing here.
    let request = modern(3, "tools/list", json!({}));
    let mut headers = modern_headers(&request);
    headers.push(("Mcp-Session-Id".into(), "unknown".into()));
    let reply = rig.send("POST", &as_strs(&headers), &request.to_string());
    assert_eq!((reply.status, reply.header("mcp-session-id")), (200, None));
}

#[test]
fn fm_44_wrong_requests_get_the_status_and_code_of_the_specification() {
    let offer = Offer::new();
    let rig = Rig::new(&offer.server);
    let list = modern(1, "tools/list", json!({}));
    let with = |request: &Value, name: &str, value: Option<&str>| {
        let mut headers = modern_headers(request);
        headers.retain(|(known, _)| known != name);
        headers.extend(value.map(|value| (name.to_owned(), value.to_owned())));
        code(rig.send("POST", &as_strs(&headers), &request.to_string()))
    };
    let mismatch = (400, json!(-32020));
    assert_eq!(with(&list, "Mcp-Method", None), mismatch);
    assert_eq!(with(&list, "Mcp-Method", Some("tools/call")), mismatch);
    assert_eq!(with(&list, "MCP-Protocol-Version", None), mismatch);
    assert_eq!(
        with(&list, "MCP-Protocol-Version", Some("2025-11-25")),
        mismatch
    );
    let call = modern_call(1, "echo", json!({"text": "hi"}));
    assert_eq!(with(&call, "Mcp-Name", Some("other")), mismatch);
    assert_eq!(
        with(&call, "Mcp-Name", Some("=?base64?ZWNobw==?=")),
        (200, Value::Null)
    );

    let mut future = modern(1, "tools/list", json!({}));
    future["params"]["_meta"]["io.modelcontextprotocol/protocolVersion"] = "2099-01-01".into();
    let answer = with(&future, "MCP-Protocol-Version", Some("2099-01-01"));
    assert_eq!(answer, (400, json!(-32022)));
    for method in ["no/such", "initialize", "ping", "resources/subscribe"] {
        let answer = code(rig.modern(&modern(1, method, json!({}))));
        assert_eq!(answer, (404, json!(-32601)), "{method}");
    }
    let mut bare = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {}});
    assert_eq!(code(rig.modern(&bare)), (400, json!(-32602)));
    bare["method"] = "initialize".into();
    assert_eq!(code(rig.modern(&bare)), (400, json!(-32602)));
    // What a tool makes of its arguments is between it and its caller.
    let unknown = modern_call(1, "unknown", json!({}));
    assert_eq!(code(rig.modern(&unknown)), (200, json!(-32602)));
}

#[test]
fn fm_34_the_same_id_from_two_clients_is_two_requests() {
    let offer = Offer::new();
    let rig = Rig::new(&offer.server);
    std::thread::scope(|scope| {
        for n in 0..16 {
            let rig = &rig;
            scope.spawn(move || {
                for round in 0..10 {
                    let words = format!("{n} {round}");
                    let answer = rig.modern(&modern_call(1, "echo", json!({"text": words})));
                    assert_eq!(text_of(&answer.answer()), words);
                }
            });
        }
    });
}

#[test]
fn fm_73_every_event_is_sent_when_it_happens() {
    let offer = Offer::new();
    let rig = Rig::new(&offer.server);
    let mut reply = rig.modern(&modern_call(1, "gate", json!({})));
    assert!(reply.is_stream());
    assert_eq!(reply.header("x-accel-buffering"), Some("no"));
    assert!(
        reply
            .header("cache-control")
            .is_some_and(|it| it.contains("no-cache"))
    );
    let first = reply.event().expect("an event");
    assert_eq!(
        (first.id.as_ref(), &first.json()["params"]["progress"]),
        (None, &json!(1))
    );
    offer.open();
    assert_eq!(reply.message()["params"]["progress"], 2);
    offer.open();
    assert_eq!(text_of(&reply.message()), "through");
    assert_eq!(reply.event(), None);
}

#[test]
fn fm_46_a_modern_client_that_closes_its_stream_has_cancelled() {
    let offer = Offer::new();
    let rig = Rig::new(&offer.server);
    let mut reply = rig.modern(&modern_call(1, "gate", json!({})));
    assert_eq!(reply.message()["params"]["progress"], 1);
    drop(reply);
    assert_eq!(offer.told(1), ["client"]);

    // Also before anything has been sent.
    let mut quiet = modern_call(2, "gate", json!({}));
    quiet["params"]["_meta"]["progressToken"].take();
    let headers = modern_headers(&quiet);
    let mut stream = rig.connect();
    let body = quiet.to_string();
    let head = head("POST", &as_strs(&headers), body.len());
    std::io::Write::write_all(&mut stream, (head + &body).as_bytes()).expect("sent");
    offer.begun(2);
    drop(stream);
    assert_eq!(offer.told(2), ["client", "client"]);
}

#[test]
fn fm_23_a_silent_stream_is_kept_alive() {
    let offer = Offer::new();
    let interval = Duration::from_millis(20);
    let rig = Rig::with(&offer.server, |http| http.keep_alive(interval));
    let mut reply = rig.modern(&modern_call(1, "gate", json!({})));
    assert_eq!(reply.message()["params"]["progress"], 1);
    let comments = (0..20).map(|_| reply.line().expect("a line").expect("more"));
    assert_eq!(comments.filter(|line| line.starts_with(':')).count(), 10);
    offer.open();
    offer.open();
    assert_eq!(reply.message()["params"]["progress"], 2);
    assert_eq!(text_of(&reply.message()), "through");
}

#[test]
fn a_listener_hears_what_it_asked_for() {
    let offer = Offer::new();
    let rig = Rig::new(&offer.server);
    let wanted = json!({"notifications": {"toolsListChanged": true}});
    let mut listening = rig.modern(&modern(5, "subscriptions/listen", wanted));
    let mut other = rig.modern(&modern(
        5,
        "subscriptions/listen",
        json!({"notifications": {"promptsListChanged": true}}),
    ));
    let subscription = |message: &Value| {
        message["params"]["_meta"]["io.modelcontextprotocol/subscriptionId"].clone()
    };
    for stream in [&mut listening, &mut other] {
        let first = stream.message();
        assert_eq!(first["method"], "notifications/subscriptions/acknowledged");
        assert_eq!(subscription(&first), 5);
    }
    rig.handle
        .add_tool("late", "Came later.", |_, (): ()| async {});
    let changed = listening.message();
    assert_eq!(changed["method"], "notifications/tools/list_changed");
    assert_eq!(subscription(&changed), 5);
    drop(listening);
    rig.handle.shutdown();
    let last = other.message();
    assert_eq!(
        (&last["id"], &last["result"]["resultType"]),
        (&json!(5), &json!("complete"))
    );
    assert_eq!(other.event(), None);
    assert!(rig.has_ended());
}

#[test]
fn a_client_that_reads_nothing_is_cut_off() {
    let offer = Offer::new();
    let rig = Rig::new(&offer.server);
    let mut reply = rig.modern(&modern_call(1, "flood", json!({})));
    // It is not read for as long as it likes, and nobody else waits for it.
    assert_eq!(offer.told(1), ["client"]);
    let other = rig.modern(&modern_call(1, "echo", json!({"text": "hi"})));
    assert_eq!(text_of(&other.answer()), "hi");
    let broken = loop {
        match reply.line() {
            Ok(Some(_)) => {}
            Ok(None) => break false,
            Err(_) => break true,
        }
    };
    assert!(broken, "it was told that all is well");
}
