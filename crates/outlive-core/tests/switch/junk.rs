//! What cannot be read is answered all the same, and only by whom it concerns.

use outlive_core::framer::TooLong;
use outlive_core::switch::{Output, Sharing};
use outlive_core::{Frame, Id};
use serde_json::{Value, json};

use crate::routes::{A, B, Rig, call, told};

#[test]
fn a_request_that_cannot_be_read_is_refused_where_it_came_from() {
    let mut rig = Rig::shaken(Sharing::Shared, &[A]);
    let (channel, outputs) = rig.post_line(A, r#"{"jsonrpc":"2.0","id":5,"method":{}}"#);
    let refused = &told(&outputs)[0];
    assert_eq!((refused.0, refused.1), (A, channel));
    assert_eq!(
        (&refused.2["id"], &refused.2["error"]["code"]),
        (&json!(5), &json!(-32600))
    );
    assert_eq!(outputs[1..], [Output::Done(A, channel)]);
}

#[test]
fn an_answer_that_cannot_be_read_is_an_answer_of_whoever_was_asked() {
    let mut rig = Rig::shaken(Sharing::Shared, &[A, B]);
    rig.post(A, &call(1));
    let params = json!({"message": "?", "requestedSchema": {}});
    rig.said(
        &json!({"jsonrpc": "2.0", "id": "q", "method": "elicitation/create", "params": params}),
    );
    let broken = r#"{"jsonrpc":"2.0","id":"q","result":{},"error":{}}"#;
    let (channel, outputs) = rig.post_line(B, broken);
    assert_eq!(outputs, [Output::Done(B, channel)]);
    let (_, outputs) = rig.post_line(A, broken);
    let Output::Answer(line) = &outputs[0] else {
        panic!("{outputs:?}");
    };
    let answer: Value = serde_json::from_slice(line.bytes()).expect("JSON");
    assert_eq!(
        answer["error"]["message"],
        "The client's answer cannot be read."
    );
    let (channel, outputs) = rig.post_line(A, broken);
    assert_eq!(outputs, [Output::Done(A, channel)], "once");
}

#[test]
fn a_request_too_long_to_keep_is_refused_if_it_is_one() {
    let mut rig = Rig::shaken(Sharing::Shared, &[A]);
    let mut refused = |id: Option<Id>, has_method| {
        let line = TooLong {
            id_json: id.as_ref().map(Id::to_json).unwrap_or_default().into(),
            id,
            has_method,
            len: 4711,
        };
        let (channel, outputs) = rig.post_frame(A, Frame::TooLong(line));
        assert_eq!(outputs.last(), Some(&Output::Done(A, channel)));
        told(&outputs)
    };
    assert_eq!(refused(Some(Id::Int(5)), false), []);
    assert_eq!(refused(None, true), []);
    let answer = &refused(Some(Id::Int(5)), true)[0].2;
    assert_eq!(
        (&answer["id"], &answer["error"]["code"]),
        (&json!(5), &json!(-31008))
    );
    assert_eq!(
        answer["error"]["message"],
        "The request has 4711 bytes. That is too many, and it was not read. Send less."
    );
}

#[test]
fn what_is_about_a_session_is_refused_without_one() {
    let line = json!({"jsonrpc": "2.0", "method": "notifications/roots/list_changed"});
    let (channel, outputs) = Rig::new(Sharing::Pooled).post(A, &line);
    let [Output::Send(A, at, refusal), Output::Done(A, done)] = &outputs[..] else {
        panic!("{outputs:?}");
    };
    assert_eq!((*at, *done), (channel, channel));
    let refusal: serde_json::Value = serde_json::from_slice(refusal.bytes()).expect("JSON");
    assert_eq!(
        (&refusal["error"]["code"], refusal.get("id")),
        (&json!(-32600), None)
    );
    let cancel =
        json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1}});
    let (channel, outputs) = Rig::new(Sharing::Pooled).post(A, &cancel);
    assert_eq!(
        outputs,
        [Output::Done(A, channel)],
        "closing the stream is what cancels"
    );
    let (_, outputs) = Rig::shaken(Sharing::Shared, &[A]).post(A, &line);
    assert!(matches!(outputs[0], Output::Notify(..)), "{outputs:?}");
}
