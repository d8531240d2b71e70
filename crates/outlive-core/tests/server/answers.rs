//! Exactly one answer to each request, whatever its handler does.

use outlive_core::protocol::Era;
use outlive_core::server::{Answer, Input, RpcError, ServerEvent};

use crate::pair::*;

#[test]
fn a_handler_is_started_with_the_request_as_it_was_written_and_its_answer_goes_to_the_id() {
    let mut p = Pair::ready();
    let line =
        r#"{"jsonrpc":"2.0","id":"a\u0062","method":"tools/call","params":{"name":"x","n":1.50}}"#;
    p.client(line);
    let (ticket, request) = p.started().remove(0);
    assert_eq!(request.message.bytes(), line);
    assert_eq!(request.era, Era::Legacy);
    assert_eq!(&*request.peer.version, "2025-11-25");
    assert_eq!(request.peer.capabilities, ABLE);
    assert_eq!(
        request.peer.info.as_deref(),
        Some(br#"{"name":"c","version":"1"}"#.as_slice())
    );
    assert_eq!(request.log_level, None);
    p.answer(ticket, r#"{"content":[ 1 ]}"#);
    assert_eq!(
        p.all(),
        [r#"send {"jsonrpc":"2.0","id":"a\u0062","result":{"content":[ 1 ]}}"#]
    );
}

#[test]
fn answers_come_in_the_order_they_are_given() {
    let mut p = Pair::ready();
    let (a, b) = (p.call(1, "a"), p.call(2, "b"));
    p.forget();
    p.answer(b, r#"{"b":2}"#);
    p.answer(a, r#"{"a":1}"#);
    assert_eq!(p.sent(), [result(2, r#"{"b":2}"#), result(1, r#"{"a":1}"#)]);
}

#[test]
fn an_error_is_passed_on_with_its_data() {
    let mut p = Pair::ready();
    let ticket = p.call(1, "a");
    p.forget();
    let mut error = RpcError::new(-7, "no \"such\" thing");
    error.data = Some("{\n\"why\":1}".into());
    p.fail(ticket, error);
    assert_eq!(
        p.all(),
        [
            r#"send {"jsonrpc":"2.0","id":1,"error":{"code":-7,"message":"no \"such\" thing","data":{ "why":1}}}"#
        ]
    );
    let ticket = p.call(1, "a");
    p.forget();
    p.fail(ticket, RpcError::new(-8, "no"));
    assert_eq!(
        p.sent(),
        [r#"{"jsonrpc":"2.0","id":1,"error":{"code":-8,"message":"no"}}"#]
    );
}

#[test]
fn a_second_answer_is_ignored_and_counted() {
    let mut p = Pair::ready();
    let ticket = p.call(1, "a");
    p.answer(ticket, "{}");
    p.forget();
    p.answer(ticket, "{}");
    p.fail(ticket, RpcError::new(-1, "late"));
    p.feed(Input::Answer(ticket, Answer::Dropped));
    p.feed(Input::Answer(ticket, Answer::Panicked("late".into())));
    assert_eq!(p.all(), ["dropped late_answer"; 4]);
}

#[test]
fn an_answer_before_the_start_is_ignored() {
    let mut p = Pair::ready_with(|policy| policy.concurrency = 1);
    let first = p.call(1, "a");
    p.client(&call(2, "b"));
    p.forget();
    let second = {
        let mut other = Pair::ready_with(|policy| policy.concurrency = 2);
        other.call(1, "a");
        other.call(2, "b")
    };
    p.answer(second, "{}");
    assert_eq!(p.all(), ["dropped late_answer"]);
    p.answer(first, "{}");
    assert_eq!(
        p.all(),
        [
            format!("send {}", result(1, "{}")),
            format!("start {second}")
        ]
    );
}

/// FM-63: a handler that panics answers for itself, the server lives, and what the panic said
/// is for our own log.
#[test]
fn a_panic_is_answered_and_told() {
    let mut p = Pair::ready();
    let ticket = p.call(1, "a");
    p.forget();
    let words = "secret\u{1b}[0m".to_string();
    p.feed(Input::Answer(ticket, Answer::Panicked(words)));
    assert_eq!(
        p.events(),
        [ServerEvent::Faulted {
            method: "tools/call".into(),
            words: "panicked: secret\\u{1b}[0m".into()
        }]
    );
    let failure = p.failure();
    assert_eq!((failure.id, failure.code), (1.into(), -32603));
    assert_eq!(
        failure.message,
        "Internal error: the handler of tool \"a\" panicked. It may have taken effect; the server goes on."
    );
    let ticket = p.call(1, "a");
    p.forget();
    p.answer(ticket, "{}");
    assert_eq!(p.sent(), [result(1, "{}")]);
}

#[test]
fn a_responder_that_is_dropped_and_a_result_that_is_none_are_answered() {
    let mut p = Pair::ready();
    for (answer, how) in [
        (Answer::Dropped, "ended without an answer"),
        (
            Answer::Result("[]".into()),
            "gave a result that is no object",
        ),
        (Answer::Result("".into()), "gave a result that is no object"),
    ] {
        let ticket = p.call(1, "a");
        p.forget();
        p.feed(Input::Answer(ticket, answer));
        assert_eq!(
            p.events(),
            [ServerEvent::Faulted {
                method: "tools/call".into(),
                words: how.into()
            }]
        );
        let failure = p.failure();
        assert_eq!(failure.code, -32603);
        assert!(failure.message.contains(how), "{}", failure.message);
    }
}

#[test]
fn unknown_methods_are_refused() {
    let mut p = Pair::ready();
    p.client(&request(1, "unheard/of"));
    let failure = p.failure();
    assert_eq!(
        (failure.code, &*failure.message),
        (-32601, "Method not found: unheard/of")
    );
    assert_eq!(
        p.events(),
        [ServerEvent::Refused {
            id: "1".into(),
            method: "unheard/of".into(),
            kind: "method_not_found"
        }]
    );
    assert_eq!(p.all(), [""; 0]);
}

#[test]
fn a_duplicate_id_is_refused_and_the_first_request_is_unharmed() {
    let mut p = Pair::ready();
    let ticket = p.call(1, "a");
    p.forget();
    for line in [call(1, "b"), request(1, "ping"), request(1, "unheard/of")] {
        p.client(&line);
        let failure = p.failure();
        assert_eq!((failure.id.clone(), failure.code), (1.into(), -32600));
        assert_eq!(
            (failure.kind(), failure.outcome()),
            ("protocol", "rejected")
        );
        assert_eq!(
            failure.message,
            "The request was not executed: a request with the same id is still in flight."
        );
    }
    assert_eq!(p.started().len(), 0);
    p.forget();
    p.answer(ticket, "{}");
    assert_eq!(p.all(), [format!("send {}", result(1, "{}"))]);
    p.call(1, "a");
    assert_eq!(p.started().len(), 1, "the id is free again");
}

#[test]
fn a_handler_that_takes_too_long_is_given_up_at_its_deadline() {
    let mut p = Pair::ready_with(|policy| {
        policy.deadline = Some(std::time::Duration::from_millis(500));
        policy.grace = std::time::Duration::from_millis(100);
    });
    let ticket = p.call(1, "a");
    p.forget();
    p.advance(499);
    assert_eq!(p.all(), [""; 0]);
    p.advance(1);
    let failure = p.failure();
    assert_eq!(
        (failure.code, failure.kind(), failure.outcome()),
        (-31003, "timeout", "unknown")
    );
    assert_eq!(
        failure.message,
        "tool \"a\" was not finished within 500 ms and was given up. It may have taken effect."
    );
    assert_eq!(p.all(), ["refused", &format!("cancel {ticket} deadline")]);
    p.advance(99);
    assert_eq!(p.all(), [""; 0]);
    p.advance(1);
    assert_eq!(p.all(), [format!("drop {ticket}")]);
    assert_eq!(p.server.deadline(), None);
    p.answer(ticket, "{}");
    assert_eq!(p.all(), ["dropped late_answer"]);
}

#[test]
fn a_handler_that_is_done_in_time_has_no_deadline() {
    let mut p = Pair::ready_with(|policy| {
        policy.deadline = Some(std::time::Duration::from_millis(500));
    });
    let ticket = p.call(1, "a");
    p.answer(ticket, "{}");
    assert_eq!(p.server.deadline(), None);
    assert_eq!(p.server.sizes().timers, 0);
}

#[test]
fn names_are_cut_where_they_are_repeated() {
    let mut p = Pair::ready();
    let long = "é".repeat(5000);
    p.client(&request(1, &long));
    let failure = p.failure();
    let words = "Method not found: ".len();
    assert_eq!((failure.code, failure.message.len()), (-32601, words + 200));
    let ticket = p.call(2, &long);
    p.forget();
    p.feed(Input::Answer(ticket, Answer::Dropped));
    assert!(p.failure().message.len() < 400);
}
