//! Lines that are no messages: answered where an id can be read, never an end (FM-57, 58, 60).

use outlive_core::Frame;
use outlive_core::event::DropReason;
use outlive_core::server::{Channel, Input, ServerEvent};

use crate::pair::*;

fn raw(p: &mut Pair, line: &[u8]) {
    p.feed(Input::Frame(
        Channel::MAIN,
        Frame::read(line.to_vec().into()),
    ));
}

#[test]
fn garbage_is_counted_and_not_answered() {
    let mut p = Pair::ready();
    for (line, words) in [
        ("hello", "not a JSON object"),
        ("{", "not JSON: cut off"),
        ("7", "not a JSON object"),
        (r#"{"a":1}"#, "JSON, but no JSON-RPC message"),
        ("[]", "an empty batch"),
    ] {
        p.client(line);
        assert_eq!(
            p.drops(),
            [(DropReason::NotAMessage, words.into())],
            "{line}"
        );
        assert_eq!(p.all(), [""; 0]);
    }
    p.call(1, "a");
    assert_eq!(p.orders(), ["start 0"]);
}

#[test]
fn a_broken_request_whose_id_can_be_read_is_answered() {
    let mut p = Pair::ready();
    for (line, code, words) in [
        (
            &b"{\"jsonrpc\":\"2.0\",\"id\":5,\"method\":\"tools/call\",\"x\":\"\xff\"}"[..],
            -32700,
            "not UTF-8 at byte 51",
        ),
        (
            br#"{"jsonrpc":"2.0","id":5,"method":"tools/call","params":{"#,
            -32700,
            "not JSON: cut off",
        ),
        (
            br#"{"jsonrpc":"2.0","id":5,"method":7}"#,
            -32600,
            "the method is not a string",
        ),
    ] {
        raw(&mut p, line);
        let failure = p.failure();
        assert_eq!((failure.id.clone(), failure.code), (5.into(), code));
        assert_eq!(
            (failure.kind(), failure.outcome()),
            ("protocol", "rejected")
        );
        assert_eq!(
            failure.message,
            format!("The request was not executed: {words}.")
        );
        assert_eq!(
            p.events(),
            [ServerEvent::Refused {
                id: "5".into(),
                method: "".into(),
                kind: "protocol"
            }]
        );
    }
    let deep = format!(
        r#"{{"jsonrpc":"2.0","id":5,"method":"tools/call","params":{}1{}}}"#,
        "[".repeat(600),
        "]".repeat(600)
    );
    p.client(&deep);
    assert_eq!(p.failure().code, -32700);
}

#[test]
fn a_line_too_long_is_answered_if_it_is_a_request() {
    let mut p = Pair::ready_with(|policy| policy.message = 1000);
    p.feed(too_long(Some(r#""x""#), true, 2000));
    let failure = p.failure();
    assert_eq!(
        (failure.id.clone(), failure.code, failure.kind()),
        ("x".into(), -31008, "too_large")
    );
    assert_eq!(
        failure.message,
        "The request is longer than the limit of 1000 bytes and was not read. Send less."
    );
    p.forget();
    p.feed(too_long(Some("1"), false, 2000));
    p.feed(too_long(None, true, 2001));
    assert_eq!(
        p.drops(),
        [
            (DropReason::TooLarge, "2000 bytes".into()),
            (DropReason::TooLarge, "2001 bytes".into())
        ]
    );
    assert_eq!(p.all(), [""; 0]);
}

/// 2025-03-26 lets clients send batches; the answers come one by one.
#[test]
fn a_batch_is_taken_apart() {
    let mut p = Pair::ready();
    p.client(&format!(
        r#"[{},{},7,{{"jsonrpc":"2.0","id":9,"method":7}},{}]"#,
        request(1, "ping"),
        call(2, "a"),
        cancelled(2)
    ));
    let all = p.all();
    assert_eq!(all[0], format!("send {}", result(1, "{}")));
    assert_eq!(all[1], "start 0");
    assert_eq!(all[2], "dropped not_a_message");
    assert_eq!(all[3], "refused");
    assert!(all[4].contains(r#""id":9,"error""#), "{all:?}");
    assert_eq!(all[5], "cancel 0 client");
    assert_eq!(all.len(), 6);
}

#[test]
fn white_space_and_carriage_returns_are_tolerated() {
    let mut p = Pair::ready();
    raw(
        &mut p,
        b" \t{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"} \r",
    );
    assert_eq!(p.sent(), [result(1, "{}")]);
}

#[test]
fn an_id_too_long_to_remember_is_refused() {
    let mut p = Pair::ready();
    let id = "x".repeat(5000);
    p.client(&format!(
        r#"{{"jsonrpc":"2.0","id":"{id}","method":"ping"}}"#
    ));
    let failure = p.failure();
    assert_eq!((failure.code, failure.id), (-32600, id.into()));
    assert_eq!(
        failure.message,
        "The request was not executed: its id is longer than 4096 bytes."
    );
    let id = "x".repeat(4096 - 2);
    p.client(&format!(
        r#"{{"jsonrpc":"2.0","id":"{id}","method":"ping"}}"#
    ));
    assert_eq!(p.reply()["result"], serde_json::json!({}));
}

#[test]
fn an_answer_nobody_asked_for_is_counted() {
    let mut p = Pair::ready();
    for id in ["7", r#""outlive-ask-1""#, r#""outlive-ask-01""#, "null"] {
        p.client(&format!(
            r#"{{"jsonrpc":"2.0","id":{id},"error":{{"code":1,"message":""}}}}"#
        ));
        assert_eq!(p.drops(), [(DropReason::UnknownAnswer, format!("id {id}"))]);
    }
}

#[test]
fn nothing_is_read_after_the_end_of_input() {
    let mut p = Pair::ready();
    p.call(1, "a");
    p.close(outlive_core::server::CloseKind::Eof);
    p.forget();
    p.client(&request(2, "ping"));
    assert_eq!(p.all(), ["dropped closing"]);
}
