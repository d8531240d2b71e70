//! What is one client's reaches no other: a server that goes on with what was cancelled, subscriptions, levels,
//! streams.
//!
//! What a client is told is compared up to a message that everybody gets and that comes later; executions are counted
//! at the tool.

use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::{Value, json};

use crate::gate::{Client, Gate, kind, text};
use crate::rig::{Setup, until};
use crate::web::{Act, Web, event, message, stream};
use crate::wire::{self, Reply, modern, modern_call};

fn shared(flags: &[&str]) -> Gate {
    Gate::with(Setup::new(), &[&["--share"], flags].concat())
}

/// What this stream has told, up to a change that everybody is told of.
fn told_before_a_change(stream: &mut Reply, other: &Client) -> Vec<Value> {
    let notify = json!({"method": "notifications/tools/list_changed"});
    assert_eq!(
        text(&other.call(900, "notify", notify).answer()),
        "notified"
    );
    let mut heard = Vec::new();
    loop {
        let message = stream.message();
        if message["method"] == "notifications/tools/list_changed" {
            return heard;
        }
        heard.push(message);
    }
}

fn is_going_on(gate: &Gate, times: usize) {
    until("the tool goes on", || {
        (gate.setup.tap().notes("going on").len() >= times).then_some(())
    });
}

fn elicited(gate: &Gate) -> Vec<Value> {
    let notes = gate.setup.tap().notes("elicited");
    notes.into_iter().map(|note| note["data"].clone()).collect()
}

/// With the cancellation forwarded, and withheld by us.
#[test]
fn fm_34_what_is_about_a_cancelled_call_is_told_to_nobody() {
    for flags in [&[][..], &["--cancel", "absorb"]] {
        for leaves in [true, false] {
            let gate = shared(flags);
            let (one, two) = (gate.client(), gate.client());
            let mut listening = two.listen();
            let file = gate.setup.path("go");
            let _unread = one.call(1, "go_on", json!({"until": file}));
            is_going_on(&gate, 1);
            match leaves {
                true => assert_eq!(one.leave().status, 200),
                false => {
                    let method = "notifications/cancelled";
                    let params = json!({"requestId": 1});
                    let cancel = json!({"jsonrpc": "2.0", "method": method, "params": params});
                    assert_eq!(one.post(&cancel).status, 202);
                }
            }
            // The other one waits for something meanwhile, and could be meant.
            let waiting = two.clone();
            let call = std::thread::spawn(move || {
                waiting.call(7, "sleep", json!({"ms": 1500})).messages()
            });
            until("it has both", || {
                (gate.setup.tap().method("tools/call").len() == 2).then_some(())
            });
            fs::write(&file, "").expect("a file");
            let answer = until("the question is answered", || elicited(&gate).pop());
            assert!(answer.get("error").is_some(), "nobody was asked: {answer}");
            assert_eq!(
                call.join().expect("an answer").len(),
                1,
                "nothing but the answer"
            );
            assert_eq!(
                told_before_a_change(&mut listening, &two),
                [] as [Value; 0],
                "{flags:?} {leaves}"
            );
            // It is answered now: what follows is the other one's again.
            let ran = gate.setup.tap().method("tools/call");
            assert_eq!(
                ran.iter()
                    .filter(|it| it["params"]["name"] == "go_on")
                    .count(),
                1
            );
            let mut asking = two.call(8, "elicit", json!({}));
            let ask = asking.message();
            assert_eq!(ask["method"], "elicitation/create", "{ask}");
        }
    }
}

/// The same in the pool: both requests have the same id, the same token, and ask for log messages.
#[test]
fn fm_34_what_is_about_a_modern_call_that_was_left_is_told_to_nobody() {
    for flags in [&[][..], &["--cancel", "absorb"]] {
        let gate = Gate::with(Setup::new(), flags);
        let file = gate.setup.path("go");
        let call = |tool: &str, arguments: Value| {
            let mut call = modern_call(1, tool, arguments);
            call["params"]["_meta"]["io.modelcontextprotocol/logLevel"] = json!("debug");
            call
        };
        let left = gate.modern(&call("go_on", json!({"until": file})));
        is_going_on(&gate, 1);
        drop(left);
        let said = std::thread::scope(|scope| {
            let waits = scope.spawn(|| gate.modern(&call("sleep", json!({"ms": 1500}))).messages());
            until("the server has both", || {
                (gate.setup.tap().method("tools/call").len() == 2).then_some(())
            });
            until("the first one was left", || {
                (in_flight(&gate) == 1).then_some(())
            });
            fs::write(&file, "").expect("a file");
            let answer = until("the question is answered", || elicited(&gate).pop());
            assert!(answer.get("error").is_some(), "nobody was asked: {answer}");
            waits.join().expect("an answer")
        });
        assert_eq!(methods(&said), ["answer"], "{flags:?}: {said:?}");
        assert_eq!(gate.setup.tap().notes("going on").len(), 1, "it ran once");
    }
}

/// Requests that are waited for.
fn in_flight(gate: &Gate) -> usize {
    let page = wire::send_to(gate.address, "/metrics", "GET", &[], "").text();
    let mut lines = page.lines();
    let value = lines.find_map(|line| line.strip_prefix("outlive_requests_in_flight "));
    value.expect("a number").parse().expect("a number")
}

#[test]
fn fm_34_a_subscription_ends_with_its_client_also_if_that_was_the_last() {
    let gate = shared(&[]);
    let one = gate.client();
    let subscribe = json!({"jsonrpc": "2.0", "id": 1, "method": "resources/subscribe", "params": {"uri": "test://a"}});
    assert_eq!(one.post(&subscribe).answer()["result"], json!({}));
    assert_eq!(one.leave().status, 200);
    let two = gate.client();
    let mut listening = two.listen();
    let updated =
        json!({"method": "notifications/resources/updated", "params": {"uri": "test://a"}});
    assert_eq!(two.call(2, "notify", updated).answer()["id"], 2);
    assert_eq!(told_before_a_change(&mut listening, &two), [] as [Value; 0]);
    assert_eq!(gate.setup.tap().method("resources/unsubscribe").len(), 1);
    // The next server is not told of it either.
    assert_eq!(
        kind(&two.call(3, "crash", json!({})).answer()),
        "connection_lost"
    );
    assert_eq!(text(&two.call(4, "ping", json!({})).answer()), "pong");
    assert_eq!(gate.setup.tap().method("initialize").len(), 2);
    assert_eq!(gate.setup.tap().method("resources/subscribe").len(), 1);
    assert_eq!(told_before_a_change(&mut listening, &two), [] as [Value; 0]);
}

/// The server does things in the order in which it is asked, and answers in another.
#[test]
fn fm_41_a_late_answer_costs_no_subscription_of_another() {
    let setup = Setup::new().knobs(&["--late-unsubscribe"]);
    let gate = Gate::with(setup, &["--share"]);
    let (one, two) = (gate.client(), gate.client());
    let wish = |id: u64, method: &str| {
        let params = json!({"uri": "test://a"});
        json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params})
    };
    let subscribe = wish(1, "resources/subscribe");
    assert_eq!(one.post(&subscribe).answer()["result"], json!({}));
    let leaving = one.clone();
    let unsubscribe = wish(2, "resources/unsubscribe");
    let late = std::thread::spawn(move || leaving.post(&unsubscribe).answer());
    until("it is asked", || {
        (gate.setup.tap().method("resources/unsubscribe").len() == 1).then_some(())
    });
    assert_eq!(two.post(&subscribe).answer()["result"], json!({}));
    assert_eq!(late.join().expect("an answer")["result"], json!({}));
    assert_eq!(
        kind(&two.call(3, "crash", json!({})).answer()),
        "connection_lost"
    );
    let memory = two.call(4, "memory", json!({})).answer();
    let memory = &memory["result"]["structuredContent"];
    assert_eq!(memory["subscriptions"], json!(["test://a"]));
}

#[test]
fn fm_34_a_name_that_begins_like_another_is_another() {
    let gate = shared(&[]);
    let (one, two) = (gate.client(), gate.client());
    let mut listening = one.listen();
    for (id, uri) in [(1, "x://u"), (2, "")] {
        let subscribe = json!({"jsonrpc": "2.0", "id": id, "method": "resources/subscribe", "params": {"uri": uri}});
        assert_eq!(one.post(&subscribe).answer()["result"], json!({}));
    }
    for uri in ["x://user-B/secret", "x://u/part"] {
        let updated = json!({"method": "notifications/resources/updated", "params": {"uri": uri}});
        assert_eq!(two.call(3, "notify", updated).status, 200);
    }
    let heard = told_before_a_change(&mut listening, &two);
    let uris: Vec<&Value> = heard.iter().map(|it| &it["params"]["uri"]).collect();
    assert_eq!(uris, ["x://u/part"]);
}

#[test]
fn fm_34_one_clients_level_is_not_anothers() {
    let gate = shared(&[]);
    let (one, two) = (gate.client(), gate.client());
    let set = |client: &Client, level: &str| {
        let set = json!({"jsonrpc": "2.0", "id": 1, "method": "logging/setLevel", "params": {"level": level}});
        assert_eq!(client.post(&set).answer()["result"], json!({}));
    };
    let level = |gate: &Gate| {
        let sent = gate.setup.tap().method("logging/setLevel");
        sent.last().map(|it| it["params"]["level"].clone())
    };
    set(&one, "error");
    assert_eq!(
        level(&gate),
        Some(json!("info")),
        "what the other one gets, who has chosen nothing"
    );
    set(&one, "debug");
    assert_eq!(level(&gate), Some(json!("debug")));
    // The other one is not told more for it.
    let debug = json!({"method": "notifications/message", "params": {"level": "debug", "data": 1}});
    let said = two.call(2, "notify", debug).messages();
    assert_eq!(said.len(), 1, "{said:?}");
    assert_eq!(one.leave().status, 200);
    until("the server is told", || {
        (level(&gate) == Some(json!("info"))).then_some(())
    });
}

/// A server over HTTP says what is about a call on the stream of that call.
fn talkative() -> (Web, Arc<AtomicUsize>) {
    let ran = Arc::new(AtomicUsize::new(0));
    let count = ran.clone();
    let web = Web::start(move |request| {
        let id = request.body["id"].clone();
        match request.rpc() {
            "server/discover" => Some(message(&json!({"jsonrpc": "2.0", "id": id, "result": {
                "supportedVersions": ["2026-07-28"], "capabilities": {"tools": {}}, "resultType": "complete",
            }}))),
            "tools/call" => {
                count.fetch_add(1, Ordering::SeqCst);
                let about = &request.body["params"]["arguments"]["who"];
                let told = |method: &str, params: Value| {
                    event(&json!({"jsonrpc": "2.0", "method": method, "params": params}))
                };
                let content = json!([{"type": "text", "text": "done"}]);
                let result = json!({"content": content, "resultType": "complete"});
                let answer = json!({"jsonrpc": "2.0", "id": id, "result": result});
                Some(vec![
                    stream(),
                    Act::Wait(std::time::Duration::from_millis(300)),
                    told(
                        "notifications/message",
                        json!({"level": "error", "data": about}),
                    ),
                    told("notifications/vendor/thing", json!({"about": about})),
                    told("notifications/tools/list_changed", json!({})),
                    event(&answer),
                    Act::Close,
                ])
            }
            _ => None,
        }
    });
    (web, ran)
}

fn methods(said: &[Value]) -> Vec<&str> {
    said.iter()
        .map(|it| it["method"].as_str().unwrap_or("answer"))
        .collect()
}

#[test]
fn fm_45_two_calls_at_once_hear_what_is_said_on_their_own_streams() {
    let (web, ran) = talkative();
    let gate = Gate::before(Setup::new(), &[], &[&web.url()]);
    let call = |who: &str| {
        let mut call = modern_call(1, "talk", json!({"who": who}));
        call["params"]["_meta"]["io.modelcontextprotocol/logLevel"] = json!("info");
        gate.modern(&call).messages()
    };
    let said = std::thread::scope(|scope| {
        let both = ["one", "two"].map(|who| scope.spawn(move || (who, call(who))));
        both.map(|it| it.join().expect("an answer"))
    });
    for (who, said) in said {
        let heard = methods(&said);
        assert_eq!(
            heard[..2],
            ["notifications/message", "notifications/vendor/thing"],
            "{said:?}"
        );
        assert_eq!(heard.last(), Some(&"answer"));
        assert_eq!(
            (&said[0]["params"]["data"], &said[1]["params"]["about"]),
            (&json!(who), &json!(who))
        );
    }
    assert_eq!(ran.load(Ordering::SeqCst), 2, "each ran once");
}

#[test]
fn fm_45_a_legacy_client_without_a_standalone_stream_hears_it_on_that_of_its_call() {
    let (web, ran) = talkative();
    let gate = Gate::before(Setup::new(), &[], &[&web.url()]);
    let said = gate
        .client()
        .call(1, "talk", json!({"who": "one"}))
        .messages();
    let expected = [
        "notifications/message",
        "notifications/vendor/thing",
        "notifications/tools/list_changed",
        "answer",
    ];
    assert_eq!(methods(&said), expected, "{said:?}");
    assert_eq!(ran.load(Ordering::SeqCst), 1);
}

#[test]
fn fm_45_a_notification_of_an_extension_reaches_the_server_or_is_refused() {
    let post = |gate: &Gate, method: &str| {
        let note = json!({"jsonrpc": "2.0", "method": method, "params": {"x": 1}});
        gate.modern(&note)
    };
    let gate = Gate::new();
    assert_eq!(post(&gate, "notifications/vendor/thing").status, 202);
    until("the server has it", || {
        (gate.setup.tap().method("notifications/vendor/thing").len() == 1).then_some(())
    });
    let refused = post(&gate, "notifications/roots/list_changed");
    assert_eq!(refused.status, 400);
    assert_eq!(kind(&refused.answer()), "unsupported");
    let legacy = Gate::with(Setup::new().knobs(&["--legacy"]), &[]);
    assert_eq!(post(&legacy, "notifications/vendor/thing").status, 400);
    assert!(
        legacy
            .setup
            .tap()
            .method("notifications/vendor/thing")
            .is_empty()
    );
    // Requests are served as before.
    let answer = gate
        .modern(&modern(
            1,
            "tools/call",
            json!({"name": "ping", "arguments": {}}),
        ))
        .answer();
    assert_eq!(text(&answer), "pong");
}

#[test]
fn fm_45_a_session_is_told_which_revisions_it_can_speak() {
    let gate = Gate::new();
    let client = gate.client();
    let list = json!({"jsonrpc": "2.0", "id": 5, "method": "tools/list"}).to_string();
    let with = |session: &str, version: &str| {
        let headers = [
            ("Mcp-Session-Id", session),
            ("MCP-Protocol-Version", version),
        ];
        wire::send(gate.address, "POST", &headers, &list)
    };
    for version in ["2099-01-01", "2026-07-28", "nonsense"] {
        let reply = with(&client.session, version);
        assert_eq!(reply.status, 400);
        let refused = reply.answer();
        assert_eq!(refused["id"], 5);
        let words = refused["error"]["message"].as_str().expect("words");
        assert!(
            words.contains(version) && words.contains("2025-11-25"),
            "{words}"
        );
        assert!(!words.contains("not initialized"), "{words}");
    }
    assert_eq!(with("nobody", "2099-01-01").status, 404);
    assert_eq!(with(&client.session, "2025-06-18").status, 200);
    let look = |method: &str, version: &str| {
        let headers = [
            ("Mcp-Session-Id", &*client.session),
            ("MCP-Protocol-Version", version),
        ];
        wire::send(gate.address, method, &headers, "")
    };
    for (method, version) in [("GET", "2099-01-01"), ("DELETE", "2026-07-28")] {
        let reply = look(method, version);
        assert_eq!(reply.status, 400, "{method}");
        let words = reply.answer()["error"]["message"].to_string();
        assert!(words.contains(version), "{words}");
    }
    assert_eq!(look("GET", "2025-06-18").status, 200);
    assert_eq!(look("DELETE", "2025-06-18").status, 200);
}
