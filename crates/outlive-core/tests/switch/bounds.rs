//! How much is let in.

use outlive_core::error::{Error, Limit, Outcome, Refusal};
use outlive_core::switch::{Input, Output, Sharing, SwitchLimits};
use outlive_core::{Generation, Id};
use serde_json::{Value, json};

use crate::routes::{A, B, Rig, call, initialize, sent, told};

fn is_refused(outputs: &[Output], code: i64) -> bool {
    told(outputs)
        .iter()
        .any(|it| it.2["error"]["code"] == json!(code))
}

fn limited(limits: SwitchLimits) -> Rig {
    Rig::limited(Sharing::Shared, limits).welcoming(&[A, B])
}

fn overloaded() -> Error {
    Error::Overloaded {
        limit: Limit::held(1),
    }
}

#[test]
fn more_than_may_be_in_flight_is_refused() {
    let limits = SwitchLimits {
        calls_each: 2,
        ..SwitchLimits::default()
    };
    let mut rig = Rig::limited(Sharing::Shared, limits);
    rig.post(A, &initialize(0));
    rig.post(A, &call(1));
    let (_, outputs) = rig.post(A, &call(2));
    assert_eq!(told(&outputs)[0].2["error"]["code"], -31002);
    assert_eq!(
        sent(
            &rig.post(B, &json!({"jsonrpc": "2.0", "id": 1, "method": "ping"}))
                .1
        )["method"],
        "ping"
    );
}

#[test]
fn all_clients_together_are_bounded_too() {
    let mut rig = limited(SwitchLimits {
        calls: 2,
        ..SwitchLimits::default()
    });
    assert!(!is_refused(&rig.post(A, &call(1)).1, -31002));
    assert!(!is_refused(&rig.post(B, &call(1)).1, -31002));
    assert!(is_refused(&rig.post(B, &call(2)).1, -31002));
}

#[test]
fn bytes_are_bounded_to_the_byte_but_one_request_always_fits() {
    let bytes = |bytes| SwitchLimits {
        bytes,
        ..SwitchLimits::default()
    };
    let Output::Call(_, first) = &limited(bytes(0)).post(A, &call(1)).1[0] else {
        panic!("refused");
    };
    let both = first.bytes().len() + call(2).to_string().len();
    for (limit, refused) in [(both, false), (both - 1, true), (0, true)] {
        let mut rig = limited(bytes(limit));
        assert!(!is_refused(&rig.post(A, &call(1)).1, -31002), "{limit}");
        let outputs = rig.post(A, &call(2)).1;
        assert_eq!(is_refused(&outputs, -31002), refused, "{limit}");
    }
}

#[test]
fn ids_and_tokens_may_be_4_kib_long() {
    let text = |len: usize| json!("x".repeat(len - 2));
    let named = |id: Value, token: Value| {
        let params = json!({"name": "t", "_meta": {"progressToken": token}});
        json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params})
    };
    for (id, token, refused) in [
        (4096, 4096, false),
        (4097, 10, true),
        (10, 4097, true),
        (5000, 5000, true),
    ] {
        let mut rig = Rig::shaken(Sharing::Shared, &[A]);
        let (_, outputs) = rig.post(A, &named(text(id), text(token)));
        assert_eq!(is_refused(&outputs, -32600), refused, "{id} {token}");
    }
}

#[test]
fn who_only_pings_counts_as_a_client() {
    let ping = json!({"jsonrpc": "2.0", "id": 1, "method": "ping"});
    let mut rig = Rig::new(Sharing::Shared);
    rig.post(A, &ping);
    assert_eq!((rig.switch.clients(), rig.switch.in_flight_of(A)), (1, 1));
    let mut rig = Rig::new(Sharing::Pooled);
    rig.post(A, &ping);
    assert_eq!(rig.switch.clients(), 0, "modern requests have no client");
}

fn refusal(id: &Id, error: Error) -> Input {
    let refusal = Refusal {
        id_json: id.to_json().into(),
        what: "it".into(),
        error,
        generation: Generation::FIRST,
    };
    Input::Refused(refusal.into())
}

#[test]
fn a_subscription_the_session_refuses_takes_no_room() {
    let mut rig = Rig::shaken(Sharing::Shared, &[A]);
    let params = json!({"uri": "a://b"});
    let subscribe =
        json!({"jsonrpc": "2.0", "id": 1, "method": "resources/subscribe", "params": params});
    let (_, outputs) = rig.post(A, &subscribe);
    assert_eq!(rig.switch.sizes().subscriptions, 1);
    let Output::Call(id, _) = &outputs[0] else {
        panic!("{outputs:?}");
    };
    let outputs = rig.feed(refusal(id, overloaded()));
    assert!(is_refused(&outputs, -31002));
    assert_eq!(rig.switch.sizes().subscriptions, 0);
}

#[test]
fn subscriptions_are_bounded() {
    let mut rig = limited(SwitchLimits {
        subscriptions: 1,
        ..SwitchLimits::default()
    });
    let subscribe = |uri: &str| json!({"jsonrpc": "2.0", "id": uri, "method": "resources/subscribe", "params": {"uri": uri}});
    assert!(!is_refused(&rig.post(A, &subscribe("a://b")).1, -31002));
    assert!(is_refused(&rig.post(B, &subscribe("a://c")).1, -31002));
}

#[test]
fn a_stream_is_refused_with_an_error_and_ended_without() {
    let ending = Error::ShuttingDown {
        outcome: Outcome::NotSent,
    };
    for (error, ends) in [(overloaded(), false), (ending, true)] {
        let mut rig = Rig::new(Sharing::Pooled);
        let meta = json!({
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientCapabilities": {},
        });
        let listen = json!({"jsonrpc": "2.0", "id": 7, "method": "subscriptions/listen", "params": {"_meta": meta}});
        let (_, probe) = rig.post(A, &listen);
        let known = rig.said(&json!({"jsonrpc": "2.0", "id": sent(&probe)["id"], "result": {}}));
        let Output::Call(id, _) = &known[0] else {
            panic!("{known:?}");
        };
        let outputs = rig.feed(refusal(id, error));
        let answer = &told(&outputs)[0].2;
        assert_eq!(answer["id"], 7);
        assert_eq!(answer.get("result").is_some(), ends, "{answer}");
    }
}

#[test]
fn a_thousand_and_twenty_four_tasks_are_remembered() {
    let mut rig = Rig::shaken(Sharing::Shared, &[A]);
    let mut task = call(1);
    task["params"]["task"] = json!({});
    for _ in 0..1025 {
        let (_, outputs) = rig.post(A, &task);
        rig.said(&json!({"jsonrpc": "2.0", "id": sent(&outputs)["id"], "result": {}}));
    }
    assert_eq!(rig.switch.sizes().tasks, 1024);
}
