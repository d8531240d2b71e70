//! One handshake for all, and modern requests for modern servers only.

use outlive_core::Generation;
use outlive_core::error::{Error, Limit, Refusal};
use outlive_core::switch::{Client, Input, Output, Sharing};
use serde_json::{Value, json};

use crate::routes::{A, B, Rig, initialize, sent, told, welcome};

pub const EVERYBODY: Client = Client(0);

pub fn modern(id: u64, method: &str) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "method": method, "params": {"_meta": {
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {},
        "progressToken": 5,
    }}})
}

pub fn call_id(outputs: &[Output]) -> Value {
    sent(outputs)["id"].clone()
}

#[test]
fn the_second_client_is_given_the_first_ones_welcome() {
    for early in [true, false] {
        let mut rig = Rig::new(Sharing::Shared);
        let (_, first) = rig.post(A, &initialize(0));
        let result = json!({"jsonrpc": "2.0", "id": call_id(&first), "result": welcome()});
        let mut heard = Vec::new();
        if early {
            heard.extend(rig.post(B, &initialize(9)).1);
            assert_eq!(heard, [], "it waits");
        }
        heard.extend(rig.said(&result));
        if !early {
            heard.extend(rig.post(B, &initialize(9)).1);
        }
        let heard = told(&heard);
        assert_eq!(heard.len(), 2);
        let second = heard.iter().find(|it| it.0 == B).expect("an answer");
        assert_eq!(second.2["id"], 9);
        assert_eq!(second.2["result"], welcome());
        // The server is told once that it is initialized.
        let initialized = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
        let notified = |outputs: &[Output]| matches!(outputs[0], Output::Notify(..));
        assert!(notified(&rig.post(B, &initialized).1));
        assert!(!notified(&rig.post(A, &initialized).1));
    }
}

/// What a client can do must not depend on who came first.
#[test]
fn a_shared_server_is_told_that_everything_can_be_asked_and_a_lone_one_the_truth() {
    for (sharing, expected) in [
        (Sharing::Shared, json!(["elicitation", "roots", "sampling"])),
        (Sharing::Dedicated, json!(["elicitation"])),
    ] {
        let (_, outputs) = Rig::new(sharing).post(A, &initialize(0));
        let capabilities = &sent(&outputs)["params"]["capabilities"];
        let names: Vec<_> = capabilities
            .as_object()
            .expect("an object")
            .keys()
            .collect();
        assert_eq!(json!(names), expected);
    }
}

#[test]
fn a_handshake_that_fails_is_followed_by_the_next() {
    let mut rig = Rig::new(Sharing::Shared);
    let (_, first) = rig.post(A, &initialize(0));
    rig.post(B, &initialize(0));
    let error = json!({"code": -32000, "message": "not you"});
    let outputs = rig.said(&json!({"jsonrpc": "2.0", "id": call_id(&first), "error": error}));
    assert_eq!(told(&outputs)[0].0, A);
    let outputs =
        rig.said(&json!({"jsonrpc": "2.0", "id": call_id(&outputs), "result": welcome()}));
    let heard = told(&outputs);
    assert_eq!((heard[0].0, &heard[0].2["id"]), (B, &json!(0)));
}

#[test]
fn fm_12_a_handshake_whose_client_has_left_is_good_for_the_next_client() {
    let mut rig = Rig::new(Sharing::Dedicated);
    let (_, first) = rig.post(A, &initialize(0));
    assert_eq!(rig.feed(Input::Gone(A)), [], "initialize is not cancelled");
    assert!(rig.switch.is_shaking_hands());
    let (channel, outputs) = rig.post(B, &initialize(0));
    assert_eq!(outputs, []);
    let outputs = rig.said(&json!({"jsonrpc": "2.0", "id": call_id(&first), "result": welcome()}));
    assert_eq!(told(&outputs)[0].0, B);
    assert_eq!(outputs.last(), Some(&Output::Done(B, channel)));
    assert_eq!(rig.switch.in_flight(), 0);
}

#[test]
fn a_handshake_that_waits_goes_with_its_client() {
    let mut rig = Rig::new(Sharing::Shared);
    let (_, first) = rig.post(A, &initialize(0));
    rig.post(B, &initialize(0));
    assert_eq!(rig.feed(Input::Gone(B)), []);
    assert_eq!(rig.switch.in_flight(), 1);
    let error = json!({"code": -32000, "message": "not you"});
    let outputs = rig.said(&json!({"jsonrpc": "2.0", "id": call_id(&first), "error": error}));
    assert_eq!(told(&outputs).len(), 1);
    assert_eq!(rig.switch.in_flight(), 0);
}

#[test]
fn a_second_handshake_changes_nothing() {
    let mut rig = Rig::shaken(Sharing::Dedicated, &[A]);
    let (_, outputs) = rig.post(A, &initialize(1));
    assert_eq!(told(&outputs)[0].2["error"]["code"], -32600);
}

#[test]
fn nothing_comes_before_the_handshake() {
    let mut rig = Rig::shaken(Sharing::Shared, &[A]);
    let (_, outputs) = rig.post(
        B,
        &json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list"}),
    );
    assert_eq!(told(&outputs)[0].2["error"]["code"], -32602);
}

#[test]
fn a_modern_server_that_does_not_know_initialize_is_named() {
    let mut rig = Rig::new(Sharing::Dedicated);
    let (_, first) = rig.post(A, &initialize(0));
    let error = json!({"code": -32601, "message": "Method not found"});
    let outputs = rig.said(&json!({"jsonrpc": "2.0", "id": call_id(&first), "error": error}));
    let words = told(&outputs)[0].2["error"]["message"].to_string();
    assert!(words.contains("2026-07-28"), "{words}");
}

#[test]
fn a_server_is_asked_once_whether_it_is_modern_before_it_is_sent_anything() {
    let mut rig = Rig::new(Sharing::Pooled);
    let (_, probe) = rig.post(EVERYBODY, &modern(1, "tools/list"));
    assert_eq!(sent(&probe)["method"], "server/discover");
    assert!(
        sent(&probe)["params"]["_meta"]
            .get("progressToken")
            .is_none()
    );
    assert_eq!(rig.post(EVERYBODY, &modern(1, "tools/call")).1, []);
    let outputs = rig.said(&json!({"jsonrpc": "2.0", "id": call_id(&probe), "result": {}}));
    let methods: Vec<Value> = outputs
        .iter()
        .map(|output| match output {
            Output::Call(_, frame) => {
                serde_json::from_slice::<Value>(frame.bytes()).expect("JSON")["method"].clone()
            }
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(methods, ["tools/list", "tools/call"], "in their order");
    assert_eq!(
        sent(&rig.post(EVERYBODY, &modern(1, "tools/list")).1)["method"],
        "tools/list"
    );
}

#[test]
fn a_legacy_server_gets_no_modern_request_and_its_client_a_way_out() {
    for code in [-32601, -32602, -32000] {
        let mut rig = Rig::new(Sharing::Pooled);
        let (channel, probe) = rig.post(EVERYBODY, &modern(1, "tools/call"));
        let error = json!({"code": code, "message": "?"});
        let outputs = rig.said(&json!({"jsonrpc": "2.0", "id": call_id(&probe), "error": error}));
        let refused = &told(&outputs)[0];
        assert_eq!((refused.1, &refused.2["id"]), (channel, &json!(1)));
        assert!(
            refused.2["error"]["message"]
                .to_string()
                .contains("initialize")
        );
        assert_eq!(refused.2["error"]["code"], -32600);
        assert!(rig.switch.is_legacy_only());
        let (_, outputs) = rig.post(EVERYBODY, &modern(2, "tools/call"));
        assert_eq!(
            told(&outputs)[0].2["error"]["data"]["outlive"]["kind"],
            "unsupported"
        );
    }
    // This error only modern servers know.
    let mut rig = Rig::new(Sharing::Pooled);
    let (_, probe) = rig.post(EVERYBODY, &modern(1, "tools/call"));
    let error = json!({"code": -32022, "message": "?"});
    let outputs = rig.said(&json!({"jsonrpc": "2.0", "id": call_id(&probe), "error": error}));
    assert_eq!(sent(&outputs)["method"], "tools/call");
}

#[test]
fn without_a_server_the_question_is_put_again() {
    let mut rig = Rig::new(Sharing::Pooled);
    let (_, probe) = rig.post(EVERYBODY, &modern(1, "tools/call"));
    let Output::Call(id, _) = &probe[0] else {
        panic!("{probe:?}");
    };
    let refusal = Refusal {
        id_json: id.to_json().into(),
        what: "server/discover".into(),
        error: Error::Overloaded {
            limit: Limit::held(1),
        },
        generation: Generation::FIRST,
    };
    let outputs = rig.feed(Input::Refused(refusal.into()));
    let error = &told(&outputs)[0].2["error"];
    assert_eq!(error["code"], -31002);
    let words = error["message"].to_string();
    assert!(
        words.contains("the request") && !words.contains("discover"),
        "{words}"
    );
    let (_, outputs) = rig.post(EVERYBODY, &modern(1, "tools/call"));
    assert_eq!(sent(&outputs)["method"], "server/discover");
}

#[test]
fn who_leaves_while_the_question_is_put_is_not_sent_for() {
    let mut rig = Rig::new(Sharing::Pooled);
    let (channel, probe) = rig.post(EVERYBODY, &modern(1, "tools/call"));
    assert_eq!(rig.feed(Input::Left(EVERYBODY, channel)), []);
    let outputs = rig.said(&json!({"jsonrpc": "2.0", "id": call_id(&probe), "result": {}}));
    assert_eq!(outputs, []);
}

#[test]
fn a_modern_request_without_its_metadata_is_refused() {
    let mut rig = Rig::new(Sharing::Pooled);
    let (_, outputs) = rig.post(
        EVERYBODY,
        &json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list"}),
    );
    assert_eq!(told(&outputs)[0].2["error"]["code"], -32602);
    let mut wrong = modern(1, "tools/list");
    wrong["params"]["_meta"]["io.modelcontextprotocol/protocolVersion"] = "2099-01-01".into();
    let (_, outputs) = rig.post(EVERYBODY, &wrong);
    assert_eq!(told(&outputs)[0].2["error"]["code"], -32022);
}

#[test]
fn a_subscription_ends_gracefully_when_there_is_no_session_any_more() {
    let mut rig = Rig::new(Sharing::Pooled);
    let (channel, probe) = rig.post(EVERYBODY, &modern(7, "subscriptions/listen"));
    let outputs = rig.said(&json!({"jsonrpc": "2.0", "id": call_id(&probe), "result": {}}));
    let known = call_id(&outputs);
    let meta = json!({"io.modelcontextprotocol/subscriptionId": known});
    let outputs = rig.said(&json!({"jsonrpc": "2.0", "method": "notifications/subscriptions/acknowledged", "params": {"_meta": meta, "notifications": {}}}));
    let heard = told(&outputs);
    assert_eq!(heard[0].1, channel);
    assert_eq!(
        heard[0].2["params"]["_meta"]["io.modelcontextprotocol/subscriptionId"],
        7
    );
    let outputs = rig.feed(Input::Ended);
    let end = &told(&outputs)[0].2;
    assert_eq!(
        (&end["id"], &end["result"]["resultType"]),
        (&json!(7), &json!("complete"))
    );
    assert_eq!(outputs.last(), Some(&Output::Done(EVERYBODY, channel)));
}
