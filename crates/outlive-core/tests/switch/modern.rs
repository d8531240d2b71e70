//! Requests that speak for themselves: each is answered, and told things, on its own channel.

use outlive_core::server::Channel;
use outlive_core::switch::{Output, Sharing};
use serde_json::{Value, json};

use crate::handshake::{EVERYBODY, call_id, modern};
use crate::routes::{Rig, told};

/// A rig before a modern server.
fn rig() -> Rig {
    let mut rig = Rig::new(Sharing::Pooled);
    let (_, probe) = rig.post(EVERYBODY, &modern(1, "ping"));
    let outputs = rig.said(&json!({"jsonrpc": "2.0", "id": call_id(&probe), "result": {}}));
    rig.said(&json!({"jsonrpc": "2.0", "id": call_id(&outputs), "result": {}}));
    rig
}

/// A request on its channel, and the id the server knows it by.
fn posted(rig: &mut Rig, request: &Value) -> (Channel, Value) {
    let (channel, outputs) = rig.post(EVERYBODY, request);
    (channel, call_id(&outputs))
}

#[test]
fn log_messages_go_to_the_only_request_that_asks_for_them() {
    let log = |level: &str| json!({"jsonrpc": "2.0", "method": "notifications/message", "params": {"level": level, "data": 1}});
    let mut curious = modern(1, "tools/call");
    curious["params"]["_meta"]["io.modelcontextprotocol/logLevel"] = json!("warning");
    let mut rig = rig();
    posted(&mut rig, &modern(1, "tools/call"));
    assert_eq!(told(&rig.said(&log("error"))), []);
    let (channel, _) = posted(&mut rig, &curious);
    assert_eq!(
        told(&rig.said(&log("error"))),
        [(EVERYBODY, channel, log("error"))]
    );
    assert_eq!(told(&rig.said(&log("info"))), []);
    posted(&mut rig, &curious);
    assert_eq!(told(&rig.said(&log("error"))), [], "one of two");
}

#[test]
fn news_of_a_subscription_need_one() {
    let mut rig = rig();
    let (_, plain) = posted(&mut rig, &modern(1, "tools/call"));
    let (channel, listen) = posted(&mut rig, &modern(2, "subscriptions/listen"));
    let mut heard = |id: &Value| {
        let meta = json!({"io.modelcontextprotocol/subscriptionId": id});
        told(&rig.said(&json!({"jsonrpc": "2.0", "method": "notifications/tools/list_changed", "params": {"_meta": meta}})))
    };
    assert_eq!(heard(&plain), []);
    assert_eq!(heard(&listen)[0].1, channel);
}

#[test]
fn a_server_can_end_a_subscription_and_nothing_else() {
    let mut rig = rig();
    let (_, plain) = posted(&mut rig, &modern(1, "tools/call"));
    let (channel, listen) = posted(&mut rig, &modern(2, "subscriptions/listen"));
    let mut withdrawn = |id: &Value| {
        rig.said(&json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": id}}))
    };
    assert_eq!(withdrawn(&plain), []);
    let outputs = withdrawn(&listen);
    assert_eq!(told(&outputs)[0].2["result"]["resultType"], "complete");
    assert_eq!(outputs.last(), Some(&Output::Done(EVERYBODY, channel)));
    assert_eq!(rig.switch.in_flight(), 1);
}

#[test]
fn a_modern_server_asks_nobody() {
    let outputs = rig().said(&json!({"jsonrpc": "2.0", "id": 5, "method": "roots/list"}));
    assert!(matches!(outputs[..], [Output::Answer(_)]), "{outputs:?}");
}

#[test]
fn the_end_of_a_subscription_names_it_as_its_client_does() {
    let mut rig = rig();
    let (_, listen) = posted(&mut rig, &modern(7, "subscriptions/listen"));
    let meta = json!({"io.modelcontextprotocol/subscriptionId": listen});
    let result = json!({"resultType": "complete", "_meta": meta});
    let outputs = rig.said(&json!({"jsonrpc": "2.0", "id": listen, "result": result}));
    let end = &told(&outputs)[0].2;
    assert_eq!(end["id"], 7);
    assert_eq!(
        end["result"]["_meta"]["io.modelcontextprotocol/subscriptionId"],
        7
    );
}
