//! A legacy client before servers that speak 2026-07-28 only.

use std::time::Duration;

use outlive_core::gateway::TargetId;
use outlive_core::router::{Input, RouterPolicy};
use outlive_core::server::Channel;
use serde_json::{Value, json};

use crate::rig::{CAPABILITIES, Order, Rig};

const VERSION: &str = "io.modelcontextprotocol/protocolVersion";
const CLIENT_CAPABILITIES: &str = "io.modelcontextprotocol/clientCapabilities";
const LEVEL: &str = "io.modelcontextprotocol/logLevel";

/// What modern servers were handed that the tests answer.
type Handed = Vec<(Channel, Value)>;

impl Rig {
    /// A client has come, and the server has refused the handshake as one does that has none.
    fn refused() -> Rig {
        let mut rig = Rig::new(&["a"]);
        rig.initialize();
        rig.refuse_handshake();
        rig
    }

    /// The same; it has told what it offers, and is listened to.
    fn modern(tools: &[&str]) -> Rig {
        let mut rig = Rig::refused();
        let rest = rig.serve_modern(tools);
        assert!(rest.is_empty(), "{rest:?}");
        rig
    }

    fn refuse_handshake(&mut self) {
        let (channel, opening) = self.take(0).pop().expect("a handshake");
        assert_eq!(opening["method"], "initialize");
        let error = json!({"code": -32602, "message": "`_meta` is missing"});
        self.server_says(0, channel, failure(&opening, error));
    }

    fn handed(&mut self) -> Handed {
        self.handed.remove(&TargetId(0)).unwrap_or_default()
    }

    /// A modern server tells what it is and what it offers, and acknowledges streams. What it was handed beside that.
    fn serve_modern(&mut self, tools: &[&str]) -> Handed {
        let mut rest = Vec::new();
        loop {
            let handed = self.handed();
            if handed.is_empty() {
                return rest;
            }
            for (channel, message) in handed {
                assert_eq!(
                    message["params"]["_meta"][VERSION], "2026-07-28",
                    "{message}"
                );
                let tool = |name: &&str| json!({"name": name, "inputSchema": {"type": "object"}});
                let result = match message["method"].as_str() {
                    Some("server/discover") => about(),
                    Some("tools/list") => {
                        json!({"tools": tools.iter().map(tool).collect::<Vec<_>>()})
                    }
                    Some("prompts/list") => json!({"prompts": []}),
                    Some("resources/list") => json!({"resources": []}),
                    Some("resources/templates/list") => json!({"resourceTemplates": []}),
                    Some("subscriptions/listen") => {
                        self.acknowledge(channel, &message["params"]["notifications"]);
                        continue;
                    }
                    _ => {
                        rest.push((channel, message));
                        continue;
                    }
                };
                self.modern_says(0, channel, success(&message, result));
            }
        }
    }

    fn acknowledge(&mut self, channel: Channel, notifications: &Value) {
        let method = "notifications/subscriptions/acknowledged";
        let params = json!({"notifications": notifications});
        self.modern_says(
            0,
            channel,
            json!({"jsonrpc": "2.0", "method": method, "params": params}),
        );
    }

    /// The one request that a modern server was handed.
    fn one(&mut self) -> (Channel, Value) {
        let mut handed = self.handed();
        assert_eq!(handed.len(), 1, "{handed:?}");
        handed.remove(0)
    }

    /// The one question that the client was asked.
    fn question(&mut self, method: &str) -> Value {
        let mut asked = self.told(method);
        assert_eq!(asked.len(), 1, "{asked:?}");
        asked.remove(0)
    }
}

fn about() -> Value {
    json!({"resultType": "complete", "supportedVersions": ["2026-07-28"],
        "capabilities": serde_json::from_str::<Value>(CAPABILITIES).expect("JSON"),
        "_meta": {"io.modelcontextprotocol/serverInfo": {"name": "s", "version": "1"}}})
}

fn success(request: &Value, result: Value) -> Value {
    json!({"jsonrpc": "2.0", "id": request["id"], "result": result})
}

fn failure(request: &Value, error: Value) -> Value {
    json!({"jsonrpc": "2.0", "id": request["id"], "error": error})
}

fn unsupported(request: &Value) -> Value {
    let data =
        json!({"outlive": {"kind": "unsupported", "outcome": "rejected", "retryable": false}});
    failure(
        request,
        json!({"code": -32600, "message": "earlier revisions only", "data": data}),
    )
}

fn wants(request: &Value, questions: Value, state: Value) -> Value {
    let result =
        json!({"resultType": "input_required", "inputRequests": questions, "requestState": state});
    success(request, result)
}

#[test]
fn a_server_without_a_handshake_is_learnt_from_its_discovery_and_its_lists() {
    let mut rig = Rig::refused();
    // A list waits for it, as for any server that was never seen.
    rig.request(1, "tools/list", json!({}));
    assert!(rig.answers(1).is_empty());
    assert_eq!(
        rig.orders,
        [Order::Open(TargetId(0)), Order::Close(TargetId(0))]
    );
    let rest = rig.serve_modern(&["x"]);
    assert!(rest.is_empty(), "{rest:?}");
    assert_eq!(crate::rig::names(&rig.answer(1)), ["a__x"]);
    let offer = rig.entries[0].offer.as_ref().expect("an offer");
    assert!(offer.is_modern());
}

#[test]
fn a_server_that_is_known_to_have_no_handshake_is_not_asked_for_one() {
    let entries = Rig::modern(&["x"]).entries;
    let mut rig = Rig::new(&["a"]);
    rig.entries = entries;
    rig.publish();
    rig.initialize();
    rig.call(1, "a__x");
    assert!(rig.orders.is_empty(), "{:?}", rig.orders);
    let (channel, discover) = rig.one();
    assert_eq!(discover["method"], "server/discover");
    rig.modern_says(0, channel, success(&discover, about()));
    let rest = rig.serve_modern(&["x"]);
    let [(channel, call)] = &rest[..] else {
        panic!("{rest:?}");
    };
    rig.modern_says(0, *channel, success(call, json!({"content": []})));
    assert!(rig.answer(1)["result"].is_object());
}

#[test]
fn a_server_that_speaks_earlier_revisions_by_now_is_shaken_hands_with() {
    let entries = Rig::modern(&["x"]).entries;
    let mut rig = Rig::new(&["a"]);
    rig.entries = entries;
    rig.publish();
    rig.initialize();
    rig.call(1, "a__x");
    let (channel, discover) = rig.one();
    rig.modern_says(0, channel, unsupported(&discover));
    assert_eq!(rig.orders, [Order::Open(TargetId(0))]);
    rig.serve(0, &["x"]);
    assert_eq!(rig.answer(1)["result"]["tool"], "x");
    let offer = rig.entries[0].offer.as_ref().expect("an offer");
    assert!(!offer.is_modern());
}

#[test]
fn a_server_that_refuses_both_is_told_in_the_words_it_had_for_the_handshake() {
    let mut rig = Rig::known(&[("a", &["x"])]);
    rig.initialize();
    rig.call(1, "a__x");
    rig.refuse_handshake();
    let (channel, discover) = rig.one();
    rig.modern_says(0, channel, unsupported(&discover));
    let answer = rig.answer(1);
    let words = answer["error"]["message"].as_str().expect("words");
    assert!(words.contains("`_meta` is missing"), "{words}");
    // It is tried again with the next call, from the beginning.
    rig.call(2, "a__x");
    assert_eq!(rig.take(0).len(), 1);
}

#[test]
fn an_error_of_ours_does_not_make_a_server_a_modern_one() {
    let mut rig = Rig::known(&[("a", &["x"])]);
    rig.initialize();
    rig.call(1, "a__x");
    let (channel, opening) = rig.take(0).pop().expect("a handshake");
    let data = json!({"outlive": {"kind": "unavailable"}});
    let error = json!({"code": -31002, "message": "gone", "data": data});
    rig.server_says(0, channel, failure(&opening, error));
    assert!(rig.handed().is_empty());
    assert!(rig.answer(1)["error"].is_object());
}

#[test]
fn a_call_tells_who_it_is_from_and_its_answer_passes() {
    let mut rig = Rig::modern(&["x"]);
    let meta = json!({"progressToken": "p", "own": 2});
    let params = json!({"name": "a__x", "arguments": {"deep": {"_meta": 1}}, "_meta": meta});
    let client = rig.request(1, "tools/call", params);
    let (channel, call) = rig.one();
    let meta = &call["params"]["_meta"];
    assert_eq!(call["params"]["name"], "x");
    assert_eq!(call["params"]["arguments"], json!({"deep": {"_meta": 1}}));
    assert_eq!(
        (&meta["progressToken"], &meta["own"]),
        (&json!("p"), &json!(2))
    );
    assert_eq!(meta["io.modelcontextprotocol/clientInfo"]["name"], "host");
    let declared = json!({"roots": {}, "sampling": {}, "elicitation": {}});
    assert_eq!(meta[CLIENT_CAPABILITIES], declared);
    assert_eq!(meta.get(LEVEL), None);
    let params = json!({"progressToken": "p", "progress": 1});
    let progress = json!({"jsonrpc": "2.0", "method": "notifications/progress", "params": params});
    rig.modern_says(0, channel, progress);
    assert_eq!(rig.sent.last().expect("progress").0, client);
    let result = json!({"resultType": "complete", "content": [{"type": "text", "text": "here"}]});
    rig.modern_says(0, channel, success(&call, result.clone()));
    assert_eq!(rig.answer(1)["result"], result);
    assert!(rig.done.contains(&client));
    // Nothing more is heard on its channel.
    rig.modern_says(0, channel, success(&call, result));
    assert_eq!(rig.answers(1).len(), 1);
}

#[test]
fn a_level_is_named_by_the_requests_that_follow() {
    let mut rig = Rig::modern(&["x"]);
    rig.request(1, "logging/setLevel", json!({"level": "warning"}));
    rig.answer(1);
    assert!(rig.handed().is_empty());
    let client = rig.call(2, "a__x");
    let (channel, call) = rig.one();
    assert_eq!(call["params"]["_meta"][LEVEL], "warning");
    let log = json!({"jsonrpc": "2.0", "method": "notifications/message", "params": {"level": "error", "data": 1}});
    rig.modern_says(0, channel, log);
    assert_eq!(rig.sent.last().expect("a message").0, client);
}

#[test]
fn a_cancelled_call_leaves_its_channel() {
    let mut rig = Rig::modern(&["x"]);
    rig.call(1, "a__x");
    let (channel, call) = rig.one();
    rig.say(
        json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1}}),
    );
    assert_eq!(rig.left, [channel]);
    rig.modern_says(0, channel, success(&call, json!({})));
    assert!(rig.answers(1).is_empty());
}

#[test]
fn what_a_server_wants_to_know_is_asked_of_the_client_and_the_call_is_sent_again() {
    let mut rig = Rig::modern(&["x"]);
    let client = rig.call(1, "a__x");
    let (channel, call) = rig.one();
    let form = json!({"method": "elicitation/create", "params": {"message": "name?", "requestedSchema": {}}});
    let roots = json!({"method": "roots/list"});
    rig.modern_says(
        0,
        channel,
        wants(&call, json!({"n": form, "r": roots}), json!("s1")),
    );
    let asked = rig.question("elicitation/create");
    assert_eq!(asked["params"]["message"], "name?");
    let listed = rig.question("roots/list");
    assert!(rig.handed().is_empty());
    rig.say(json!({"jsonrpc": "2.0", "id": asked["id"], "result": {"action": "accept", "content": {"n": 1}}}));
    assert!(rig.handed().is_empty(), "it waits for the other answer");
    rig.say(json!({"jsonrpc": "2.0", "id": listed["id"], "result": {"roots": []}}));
    let (again, retry) = rig.one();
    assert_ne!(again, channel);
    let params = &retry["params"];
    assert_eq!(params["arguments"], call["params"]["arguments"]);
    assert_eq!(params["requestState"], "s1");
    let given = json!({"n": {"action": "accept", "content": {"n": 1}}, "r": {"roots": []}});
    assert_eq!(params["inputResponses"], given);
    // It may want to know more, and then the answers are those of the last round.
    let form = json!({"method": "elicitation/create", "params": {"message": "sure?"}});
    rig.modern_says(0, again, wants(&retry, json!({"s": form}), json!("s2")));
    let asked = rig.question("elicitation/create");
    rig.say(json!({"jsonrpc": "2.0", "id": asked["id"], "result": {"action": "decline"}}));
    let (last, retry) = rig.one();
    assert_eq!(
        retry["params"]["inputResponses"],
        json!({"s": {"action": "decline"}})
    );
    assert_eq!(retry["params"]["requestState"], "s2");
    rig.modern_says(0, last, success(&retry, json!({"content": []})));
    rig.answer(1);
    assert!(rig.done.contains(&client));
    assert_eq!(rig.router.sizes().asks, 0);
}

#[test]
fn a_web_page_that_the_client_is_led_to_has_an_id() {
    let mut rig = Rig::refused();
    rig.serve_modern(&["x"]);
    let mut rig = {
        let entries = rig.entries.clone();
        let mut rig = Rig::new(&["a"]);
        rig.entries = entries;
        rig.publish();
        rig.initialize_with(json!({"elicitation": {"url": {}}}));
        rig
    };
    rig.call(1, "a__x");
    let rest = rig.serve_modern(&["x"]);
    let (channel, call) = rest[0].clone();
    let params = json!({"mode": "url", "url": "https://x.example", "message": "go"});
    let page = json!({"method": "elicitation/create", "params": params});
    rig.modern_says(0, channel, wants(&call, json!({"p": page}), Value::Null));
    let asked = rig.question("elicitation/create");
    assert!(asked["params"]["elicitationId"].is_string(), "{asked}");
}

#[test]
fn what_the_client_cannot_be_asked_fails_the_call_and_says_so() {
    let mut rig = Rig::modern(&["x"]);
    rig.call(1, "a__x");
    let (channel, call) = rig.one();
    let sampling = json!({"method": "sampling/createMessage", "params": {"tools": []}});
    let roots = json!({"method": "roots/list"});
    rig.modern_says(
        0,
        channel,
        wants(&call, json!({"a": roots, "b": sampling}), Value::Null),
    );
    let answer = rig.answer(1);
    let words = answer["error"]["message"].as_str().expect("words");
    assert!(words.contains("has not declared"), "{words}");
    // The other question is taken back.
    assert_eq!(rig.told("roots/list").len(), 1);
    assert_eq!(rig.told("notifications/cancelled").len(), 1);
    assert_eq!(rig.router.sizes().asks, 0);
}

#[test]
fn a_server_that_asks_without_end_is_given_up() {
    let mut rig = Rig::modern(&["x"]);
    rig.call(1, "a__x");
    let mut handed = 0;
    while rig.answers(1).is_empty() {
        let Some((channel, call)) = rig.handed().pop() else {
            rig.pass(Duration::from_secs(60));
            continue;
        };
        handed += 1;
        assert!(handed < 20, "it goes on and on");
        // Without a question it is sent again after a pause.
        rig.modern_says(
            0,
            channel,
            wants(&call, json!({}), json!(format!("s{handed}"))),
        );
    }
    assert_eq!(handed, 9);
    assert!(rig.answer(1)["error"].is_object());
}

#[test]
fn a_client_that_does_not_answer_is_not_waited_for_without_end() {
    let mut rig = Rig::modern(&["x"]);
    rig.call(1, "a__x");
    let (channel, call) = rig.one();
    rig.modern_says(
        0,
        channel,
        wants(&call, json!({"r": {"method": "roots/list"}}), Value::Null),
    );
    let wait = RouterPolicy::default().answer_wait;
    rig.pass(wait - Duration::from_millis(1));
    assert!(rig.answers(1).is_empty());
    rig.pass(Duration::from_millis(1));
    let answer = rig.answer(1);
    assert_eq!(
        answer["error"]["data"]["outlive"]["kind"], "timeout",
        "{answer}"
    );
    assert_eq!(rig.told("notifications/cancelled").len(), 1);
}

#[test]
fn a_question_of_a_call_that_is_cancelled_is_taken_back() {
    let mut rig = Rig::modern(&["x"]);
    rig.call(1, "a__x");
    let (channel, call) = rig.one();
    rig.modern_says(
        0,
        channel,
        wants(&call, json!({"r": {"method": "roots/list"}}), Value::Null),
    );
    let asked = rig.question("roots/list");
    rig.say(
        json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1}}),
    );
    let told = rig.told("notifications/cancelled");
    assert_eq!(told[0]["params"]["requestId"], asked["id"]);
    rig.say(json!({"jsonrpc": "2.0", "id": asked["id"], "result": {"roots": []}}));
    assert!(rig.handed().is_empty());
    assert_eq!(rig.router.sizes().lifted, 1, "the stream stays");
}

#[test]
fn what_servers_may_not_ask_for_fails_the_call() {
    for (questions, method) in [
        (json!({"p": {"method": "ping"}}), "tools/call"),
        (
            json!({"p": {"method": "roots/list"}}),
            "completion/complete",
        ),
    ] {
        let mut rig = Rig::modern(&["x"]);
        let reference = json!({"type": "ref/resource", "uri": "outlive:a:x://1"});
        let params =
            json!({"name": "a__x", "ref": reference, "argument": {"name": "n", "value": "v"}});
        rig.request(1, method, params);
        let (channel, call) = rig.one();
        rig.modern_says(0, channel, wants(&call, questions, Value::Null));
        let answer = rig.answer(1);
        assert!(
            answer["error"]["message"]
                .as_str()
                .is_some_and(|it| it.contains("may not ask")),
            "{answer}"
        );
        assert!(rig.told("roots/list").is_empty());
    }
}

#[test]
fn changes_of_lists_are_told_by_one_stream() {
    let mut rig = Rig::refused();
    let discover = rig.one();
    rig.modern_says(0, discover.0, success(&discover.1, about()));
    let handed = rig.handed();
    let streams: Vec<_> = handed
        .iter()
        .filter(|it| it.1["method"] == "subscriptions/listen")
        .cloned()
        .collect();
    let [(stream, listen)] = &streams[..] else {
        panic!("{streams:?}");
    };
    let filter =
        json!({"toolsListChanged": true, "promptsListChanged": true, "resourcesListChanged": true});
    assert_eq!(listen["params"]["notifications"], filter);
    rig.handed.insert(TargetId(0), handed.clone());
    rig.serve_modern(&["x"]);
    assert_eq!(rig.tools(1), ["a__x"]);
    let changed = json!({"jsonrpc": "2.0", "method": "notifications/tools/list_changed",
        "params": {"_meta": {"io.modelcontextprotocol/subscriptionId": listen["id"]}}});
    rig.modern_says(0, *stream, changed);
    rig.serve_modern(&["x", "y"]);
    rig.pass(Duration::from_secs(1));
    assert_eq!(rig.told("notifications/tools/list_changed").len(), 1);
    assert_eq!(rig.tools(2), ["a__x", "a__y"]);
}

#[test]
fn a_stream_that_ends_is_opened_again_and_what_was_missed_is_read() {
    let mut rig = Rig::refused();
    let (channel, discover) = rig.one();
    rig.modern_says(0, channel, success(&discover, about()));
    let handed = rig.handed();
    let (stream, listen) = handed
        .iter()
        .find(|it| it.1["method"] == "subscriptions/listen")
        .cloned()
        .expect("a stream");
    rig.handed.insert(TargetId(0), handed);
    rig.serve_modern(&["x"]);
    rig.modern_says(
        0,
        stream,
        success(&listen, json!({"resultType": "complete"})),
    );
    assert!(rig.handed().is_empty());
    rig.pass(Duration::from_secs(2));
    rig.serve_modern(&["x", "y"]);
    assert_eq!(rig.tools(1), ["a__x", "a__y"]);
}

/// Schedule 1,063,799 of the legacy clients: the stream was forgotten, and stayed open at its server.
#[test]
fn a_stream_is_not_ended_by_an_answer_to_something_else() {
    let mut rig = Rig::refused();
    let (channel, discover) = rig.one();
    rig.modern_says(0, channel, success(&discover, about()));
    let handed = rig.handed();
    let (stream, listen) = handed
        .iter()
        .find(|it| it.1["method"] == "subscriptions/listen")
        .cloned()
        .expect("a stream");
    rig.handed.insert(TargetId(0), handed);
    rig.serve_modern(&["x"]);
    assert_eq!(rig.tools(1), ["a__x"]);
    let mut lie = success(&listen, json!({"resultType": "complete"}));
    lie["id"] = json!("other");
    rig.modern_says(0, stream, lie);
    rig.pass(Duration::from_secs(600));
    assert!(rig.handed().is_empty(), "there is one stream");
    let changed = json!({"jsonrpc": "2.0", "method": "notifications/tools/list_changed",
        "params": {"_meta": {"io.modelcontextprotocol/subscriptionId": listen["id"]}}});
    rig.modern_says(0, stream, changed);
    rig.serve_modern(&["x", "y"]);
    assert_eq!(rig.tools(2), ["a__x", "a__y"]);
}

#[test]
fn a_server_without_streams_is_not_asked_for_one_again() {
    let mut rig = Rig::refused();
    let (channel, discover) = rig.one();
    rig.modern_says(0, channel, success(&discover, about()));
    let handed = rig.handed();
    let (stream, listen) = handed
        .iter()
        .find(|it| it.1["method"] == "subscriptions/listen")
        .cloned()
        .expect("a stream");
    let rest = handed.into_iter().filter(|it| it.0 != stream).collect();
    rig.handed.insert(TargetId(0), rest);
    rig.serve_modern(&["x"]);
    rig.modern_says(
        0,
        stream,
        failure(&listen, json!({"code": -32601, "message": "no"})),
    );
    rig.pass(Duration::from_secs(3600));
    assert!(rig.handed().is_empty());
    rig.request(1, "resources/subscribe", json!({"uri": "outlive:a:x://1"}));
    assert!(
        rig.answer(1)["error"]["message"]
            .as_str()
            .is_some_and(|it| it.contains("does not tell"))
    );
}

#[test]
fn a_resource_is_followed_when_the_server_has_acknowledged_it() {
    let mut rig = Rig::modern(&["x"]);
    let one = "outlive:a:x://1";
    rig.request(1, "resources/subscribe", json!({"uri": one}));
    rig.request(2, "resources/subscribe", json!({"uri": "outlive:a:x://2"}));
    assert!(rig.answers(1).is_empty());
    let (stream, listen) = rig.one();
    assert_eq!(
        listen["params"]["notifications"]["resourceSubscriptions"],
        json!(["x://1"])
    );
    let left = rig.left.len();
    rig.acknowledge(stream, &json!({"resourceSubscriptions": ["x://1"]}));
    rig.answer(1);
    assert_eq!(rig.left.len(), left + 1, "the stream before is left");
    // The second was asked for while that was under way. The server does not tell of it.
    let (stream, listen) = rig.one();
    assert_eq!(
        listen["params"]["notifications"]["resourceSubscriptions"],
        json!(["x://1", "x://2"])
    );
    rig.acknowledge(stream, &json!({"resourceSubscriptions": ["x://1"]}));
    assert!(rig.answer(2)["error"].is_object());
    let updated = json!({"jsonrpc": "2.0", "method": "notifications/resources/updated", "params": {"uri": "x://1"}});
    rig.modern_says(0, stream, updated.clone());
    assert_eq!(
        rig.told("notifications/resources/updated")[0]["params"],
        json!({"uri": one})
    );
    rig.request(3, "resources/unsubscribe", json!({"uri": one}));
    rig.answer(3);
    rig.modern_says(0, stream, updated);
    assert!(rig.told("notifications/resources/updated").is_empty());
}

#[test]
fn what_no_server_of_this_revision_has_is_refused() {
    let mut rig = Rig::modern(&["x"]);
    rig.request(1, "tasks/list", json!({}));
    let answer = rig.answer(1);
    assert_eq!(
        answer["error"]["data"]["outlive"]["kind"], "unsupported",
        "{answer}"
    );
    assert!(rig.handed().is_empty());
}

#[test]
fn nothing_is_left_of_a_client_that_is_gone() {
    let mut rig = Rig::modern(&["x"]);
    rig.call(1, "a__x");
    let (channel, _) = rig.one();
    rig.left.clear();
    rig.orders.clear();
    rig.feed(Input::Gone);
    assert!(
        rig.left.contains(&channel) && rig.left.len() == 2,
        "{:?}",
        rig.left
    );
    assert!(rig.orders.is_empty(), "{:?}", rig.orders);
    assert_eq!(rig.router.sizes().lifted, 0);
}

#[test]
fn an_unused_leg_lets_go_of_its_stream() {
    let policy = RouterPolicy {
        idle_stop: Some(Duration::from_secs(60)),
        ..RouterPolicy::default()
    };
    let mut rig = Rig::with(&["a"], policy);
    rig.initialize();
    rig.refuse_handshake();
    rig.serve_modern(&["x"]);
    rig.left.clear();
    rig.pass(Duration::from_secs(200));
    assert_eq!(rig.left.len(), 1);
    assert_eq!(rig.router.sizes().lifted, 0);
    rig.call(1, "a__x");
    let rest = rig.serve_modern(&["x"]);
    assert_eq!(rest.len(), 1, "{rest:?}");
}
