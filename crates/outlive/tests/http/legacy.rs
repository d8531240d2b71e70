//! Clients that shake hands: sessions, streams, and streams that were cut.

use std::time::{Duration, Instant};

use serde_json::json;

use crate::offer::Offer;
use crate::rig::*;

#[test]
fn a_client_comes_calls_and_leaves() {
    let offer = Offer::new();
    let rig = Rig::new(&offer.server);
    let client = rig.client();
    assert!(client.session.len() >= 32 && client.session.bytes().all(|b| b.is_ascii_graphic()));
    let answer = client.call(1, "echo", json!({"text": "hi"})).answer();
    assert_eq!(text_of(&answer), "hi");
    assert_eq!(
        rig.handle.clients(),
        2,
        "it, and the one for modern requests"
    );
    assert_eq!(client.leave().status, 200);
    assert_eq!(client.leave().status, 404);
    assert_eq!(client.listen(None).status, 404);
    let begun = Instant::now();
    while rig.handle.clients() > 1 {
        assert!(begun.elapsed() < HANG);
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn fm_03_a_session_that_is_gone_is_404_and_nothing_else() {
    let offer = Offer::new();
    let rig = Rig::new(&offer.server);
    let client = rig.client();
    client.leave();
    let reply = client.call(1, "echo", json!({"text": "hi"}));
    assert_eq!(reply.status, 404);
    assert_eq!(reply.json()["error"]["code"], -31006);
}

#[test]
fn fm_04_a_new_handshake_may_carry_an_old_id() {
    let offer = Offer::new();
    let rig = Rig::new(&offer.server);
    let old = [("Mcp-Session-Id", "long-gone")];
    let reply = rig.send("POST", &old, &initialize().to_string());
    assert_eq!(reply.status, 200);
    assert_ne!(reply.header("mcp-session-id"), Some("long-gone"));
}

#[test]
fn what_belongs_to_no_session_is_400() {
    let offer = Offer::new();
    let rig = Rig::new(&offer.server);
    let list = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list"});
    let reply = rig.send("POST", &[], &list.to_string());
    assert_eq!(reply.status, 400);
    let answer = reply.json();
    assert!(
        answer["error"]["message"]
            .as_str()
            .unwrap()
            .contains("Mcp-Session-Id")
    );
    assert_eq!(rig.send("POST", &[], "no message").status, 400);
    assert_eq!(rig.send("DELETE", &[], "").status, 400);
    let reply = rig.send("GET", &[], "");
    assert_eq!(reply.status, 400);
    let answer = reply.json();
    let words = answer["error"]["message"].as_str().expect("words");
    assert!(words.contains("Mcp-Session-Id"), "{words}");
    let modern = [("MCP-Protocol-Version", "2026-07-28")];
    for method in ["GET", "DELETE"] {
        let refused = rig.send(method, &modern, "");
        assert_eq!(
            (refused.status, refused.header("allow")),
            (405, Some("POST"))
        );
    }
    assert_eq!(rig.send("PUT", &[], "").status, 405);
}

#[test]
fn an_event_that_never_was_is_400() {
    let offer = Offer::new();
    let rig = Rig::new(&offer.server);
    let client = rig.client();
    for id in [
        "0-18446744073709551615",
        "18446744073709551615-0",
        "0-7",
        "7-0",
        "-",
        "x",
    ] {
        assert_eq!(client.listen(Some(id)).status, 400, "{id}");
    }
    assert_eq!(client.listen(Some("0-0")).status, 200);
}

#[test]
fn what_is_no_message_harms_nobody() {
    let offer = Offer::new();
    let rig = Rig::new(&offer.server);
    let client = rig.client();
    let session = ("Mcp-Session-Id", client.session.as_str());
    for body in [
        "",
        "{",
        "nonsense",
        "[]",
        "\u{feff}",
        r#"{"jsonrpc":"2.0","id":1,"method":1}"#,
    ] {
        assert_eq!(rig.send("POST", &[session], body).status, 400, "{body:?}");
    }
    let pretty = serde_json::to_string_pretty(&call(1, "echo", json!({"text": "a\nb"})));
    let with_mark = format!("\u{feff}{}\r\n", pretty.expect("JSON"));
    let answer = rig.send("POST", &[session], &with_mark).answer();
    assert_eq!(text_of(&answer), "a\nb");
    let batch = json!([
        {"jsonrpc": "2.0", "id": 7, "method": "ping"},
        call(8, "echo", json!({"text": "hi"})),
    ]);
    let mut reply = rig.send("POST", &[session], &batch.to_string());
    let ids = [reply.message()["id"].clone(), reply.message()["id"].clone()];
    assert_eq!(ids, [json!(7), json!(8)]);
    assert_eq!(reply.event(), None);
}

#[test]
fn a_second_handshake_changes_nothing() {
    let offer = Offer::new();
    let rig = Rig::new(&offer.server);
    let client = rig.client();
    let answer = client.post(&initialize()).json();
    assert_eq!(answer["error"]["code"], -32600);
    let answer = client.call(1, "echo", json!({"text": "hi"})).answer();
    assert_eq!(text_of(&answer), "hi");
}

#[test]
fn news_come_on_the_standalone_stream_even_if_it_was_opened_late() {
    let offer = Offer::new();
    let rig = Rig::new(&offer.server);
    let client = rig.client();
    rig.handle
        .add_tool("late", "Came later.", |_, (): ()| async {});
    let mut first = client.listen(None);
    assert_eq!(first.header("x-accel-buffering"), Some("no"));
    let changed = "notifications/tools/list_changed";
    assert_eq!(first.message()["method"], changed);
    // The next stream takes the place of the first, which may be dead without anybody knowing.
    let mut second = client.listen(None);
    assert_eq!(first.event(), None);
    rig.handle.remove_tool("late");
    assert_eq!(second.message()["method"], changed);
}

#[test]
fn a_question_comes_with_the_request_and_is_answered_by_another() {
    let offer = Offer::new();
    let rig = Rig::new(&offer.server);
    let client = rig.client();
    let mut reply = client.call(1, "ask", json!({}));
    let question = reply.message();
    assert_eq!(question["method"], "elicitation/create");
    let answer = json!({"jsonrpc": "2.0", "id": question["id"], "result": {"action": "decline"}});
    assert_eq!(client.post(&answer).status, 202);
    assert_eq!(text_of(&reply.message()), "Decline");
    assert_eq!(reply.event(), None);
}

#[test]
fn fm_26_a_stream_that_was_cut_goes_on_behind_the_last_event() {
    let offer = Offer::new();
    let rig = Rig::new(&offer.server);
    let client = rig.client();
    let mut reply = client.call(1, "gate", json!({}));
    let primer = reply.event().expect("a primer");
    assert_eq!(primer.data, "");
    let primer = primer.id.expect("an id to come back with");
    let first = reply.event().expect("a first message");
    assert_eq!(first.json()["params"]["progress"], 1);
    drop(reply);

    // Another stream of the session is none of its business.
    let other = client.call(2, "echo", json!({"text": "other"})).answer();
    assert_eq!(text_of(&other), "other");

    let mut again = client.listen(first.id.as_deref());
    offer.open();
    let second = again.event().expect("a second message");
    assert_eq!(second.json()["params"]["progress"], 2);
    drop(again);

    // Nothing new has come, and the same event is named again.
    drop(client.listen(second.id.as_deref()));
    offer.open();
    let mut last = client.listen(second.id.as_deref());
    let answer = last.event().expect("the answer").json();
    assert_eq!((&answer["id"], text_of(&answer)), (&json!(1), "through"));
    assert_eq!(last.event(), None);

    // The whole stream is still there, once.
    let mut whole = client.listen(Some(&primer));
    let steps = [whole.message(), whole.message()].map(|it| it["params"]["progress"].clone());
    assert_eq!(steps, [json!(1), json!(2)]);
    assert_eq!(text_of(&whole.message()), "through");
    assert_eq!(whole.event(), None);
    for unknown in [
        "99-0",
        "nonsense",
        "-",
        "0-99",
        "18446744073709551615-18446744073709551615",
    ] {
        assert_eq!(client.listen(Some(unknown)).status, 400, "{unknown}");
    }
}

#[test]
fn fm_46_a_legacy_client_that_loses_its_connection_has_not_cancelled() {
    let offer = Offer::new();
    let rig = Rig::new(&offer.server);
    let client = rig.client();
    let mut reply = client.call(1, "gate", json!({}));
    let first = loop {
        let event = reply.event().expect("an event");
        if !event.data.is_empty() {
            break event;
        }
    };
    drop(reply);
    offer.open();
    offer.open();
    let mut again = client.listen(first.id.as_deref());
    assert_eq!(again.message()["params"]["progress"], 2);
    assert_eq!(text_of(&again.message()), "through");
    assert_eq!(offer.told(0), [""; 0]);

    let mut reply = client.call(2, "gate", json!({}));
    assert_eq!(reply.message()["params"]["progress"], 1);
    let cancel =
        json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 2}});
    assert_eq!(client.post(&cancel).status, 202);
    assert_eq!(reply.event(), None, "the stream ends without an answer");
    assert_eq!(offer.told(1), ["client"]);
}

#[test]
fn fm_40_a_session_in_use_does_not_expire_and_an_unused_one_does() {
    let ttl = Duration::from_millis(1500);
    let offer = Offer::new();
    let rig = Rig::with(&offer.server, |http| http.session_ttl(ttl));
    let client = rig.client();
    let mut reply = client.call(1, "gate", json!({}));
    let first = loop {
        let event = reply.event().expect("an event");
        if !event.data.is_empty() {
            break event;
        }
    };
    // Without its connection, too: the work goes on.
    drop(reply);
    std::thread::sleep(ttl * 2);
    offer.open();
    offer.open();
    let mut again = client.listen(first.id.as_deref());
    assert_eq!(again.message()["params"]["progress"], 2);
    assert_eq!(text_of(&again.message()), "through");
    drop(again);

    let begun = Instant::now();
    while rig.handle.clients() > 1 {
        assert!(begun.elapsed() < HANG);
        std::thread::sleep(ttl / 8);
    }
    assert_eq!(client.call(2, "echo", json!({"text": "hi"})).status, 404);
}

#[test]
fn fm_39_sessions_are_bounded() {
    let offer = Offer::new();
    let rig = Rig::with(&offer.server, |http| http.max_sessions(3));
    let clients: Vec<_> = (0..3).map(|_| rig.client()).collect();
    let reply = rig.send("POST", &[], &initialize().to_string());
    assert_eq!(reply.status, 503);
    assert!(reply.header("retry-after").is_some());
    let words = reply.text();
    assert!(
        words.contains("3 sessions") && words.contains("`max_sessions`"),
        "{words}"
    );
    for _ in 0..50 {
        let refused = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list"});
        assert_eq!(rig.send("POST", &[], &refused.to_string()).status, 400);
    }
    assert_eq!(clients[0].leave().status, 200);
    assert_eq!(rig.send("POST", &[], &initialize().to_string()).status, 200);
}

#[test]
fn fm_33_clients_that_come_and_go_harm_nobody() {
    let offer = Offer::new();
    let rig = Rig::new(&offer.server);
    std::thread::scope(|scope| {
        for n in 0..8 {
            let rig = &rig;
            scope.spawn(move || {
                for round in 0..12 {
                    let client = rig.client();
                    let words = format!("{n} {round}");
                    // Every client counts from one, and half of them vanish in the middle.
                    let reply = client.call(1, "echo", json!({"text": words}));
                    match round % 2 {
                        0 => assert_eq!(text_of(&reply.answer()), words),
                        _ => drop(client.call(2, "gate", json!({}))),
                    }
                    if round % 3 == 0 {
                        assert_eq!(client.leave().status, 200);
                    }
                }
            });
        }
    });
    let client = rig.client();
    assert_eq!(
        text_of(&client.call(1, "echo", json!({"text": "hi"})).answer()),
        "hi"
    );
}
