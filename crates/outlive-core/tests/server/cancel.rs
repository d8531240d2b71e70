//! A cancelled request gets no answer; any other cancellation is harmless (FM-19).

use outlive_core::event::DropReason;
use outlive_core::server::{CancelReason, Input, Output};

use crate::pair::*;

#[test]
fn a_cancelled_request_gets_no_answer_and_its_handler_is_told_why() {
    for modern in [false, true] {
        let mut p = Pair::ready();
        let ticket = match modern {
            true => p.modern_call(1, "a"),
            false => p.call(1, "a"),
        };
        p.forget();
        p.cancel(1);
        let Some(Output::Cancel(told, reason)) = p.server_outputs().first().cloned() else {
            panic!("no cancel");
        };
        assert_eq!(
            (told, reason),
            (ticket, CancelReason::Client(Some("user".into())))
        );
        p.forget();
        p.answer(ticket, "{}");
        assert_eq!(p.all(), ["dropped late_answer"]);
        p.advance(10_000);
        assert_eq!(p.all(), [""; 0], "it has left by itself");
    }
}

#[test]
fn a_handler_that_does_not_leave_is_dropped_after_its_grace() {
    let mut p = Pair::ready();
    let ticket = p.call(1, "a");
    p.cancel(1);
    p.forget();
    p.advance(999);
    assert_eq!(p.all(), [""; 0]);
    p.advance(1);
    assert_eq!(p.all(), [format!("drop {ticket}")]);
}

/// Seed 2: the cancellation and the answer in either order, with the id used again.
#[test]
fn a_cancellation_and_an_answer_cannot_meet() {
    let mut p = Pair::ready();
    for n in 0..1000 {
        let ticket = p.call(1, "a");
        p.forget();
        if n % 2 == 0 {
            p.answer(ticket, "{}");
            p.cancel(1);
            assert_eq!(
                p.all(),
                [
                    format!("send {}", result(1, "{}")),
                    "dropped useless_cancel".into()
                ]
            );
        } else {
            p.cancel(1);
            p.answer(ticket, "{}");
            assert_eq!(
                p.all(),
                [
                    format!("cancel {ticket} client"),
                    "dropped late_answer".into()
                ]
            );
        }
    }
}

#[test]
fn an_id_can_be_used_again_while_the_cancelled_handler_is_leaving() {
    let mut p = Pair::ready();
    let old = p.call(1, "a");
    p.cancel(1);
    let new = p.call(1, "b");
    p.forget();
    p.answer(old, r#"{"old":1}"#);
    p.answer(new, r#"{"new":1}"#);
    assert_eq!(p.sent(), [result(1, r#"{"new":1}"#)]);
}

#[test]
fn useless_cancellations_are_harmless() {
    let mut p = Pair::ready();
    let done = p.call(1, "a");
    p.answer(done, "{}");
    let twice = p.call(2, "a");
    p.cancel(2);
    p.forget();
    for (id, words) in [
        (0, "request 0"),
        (1, "request 1"),
        (2, "request 2"),
        (9, "request 9"),
    ] {
        p.cancel(id);
        assert_eq!(p.drops(), [(DropReason::UselessCancel, words.into())]);
    }
    for params in ["{}", r#"{"requestId":null}"#, r#"{"requestId":{}}"#, "[]"] {
        p.client(&format!(
            r#"{{"jsonrpc":"2.0","method":"notifications/cancelled","params":{params}}}"#
        ));
        assert_eq!(
            p.drops(),
            [(DropReason::UselessCancel, "no requestId".into())]
        );
    }
    assert_eq!(p.all(), [""; 0]);
    p.answer(twice, "{}");
    assert_eq!(p.all(), ["dropped late_answer"]);
}

#[test]
fn one_and_one_point_nought_are_the_same_id_and_the_text_one_is_not() {
    let mut p = Pair::ready();
    let ticket = p.call(1, "a");
    p.forget();
    p.client(r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"1"}}"#);
    assert_eq!(p.all(), ["dropped useless_cancel"]);
    p.client(r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1.0}}"#);
    assert_eq!(p.all(), [format!("cancel {ticket} client")]);
}

#[test]
fn a_reason_is_passed_on_as_far_as_it_is_text_and_short() {
    let reason = |params: &str| {
        let mut p = Pair::ready();
        p.call(1, "a");
        p.forget();
        p.client(&format!(
            r#"{{"jsonrpc":"2.0","method":"notifications/cancelled","params":{{"requestId":1{params}}}}}"#
        ));
        match p.server_outputs().first() {
            Some(Output::Cancel(_, CancelReason::Client(reason))) => reason.clone(),
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(reason(""), None);
    assert_eq!(reason(r#","reason":null"#), None);
    assert_eq!(reason(r#","reason":7"#), None);
    assert_eq!(reason(r#","reason":"x\ny""#), Some("x\ny".into()));
    let long = "é".repeat(600);
    let cut = reason(&format!(r#","reason":"{long}""#)).expect("a reason");
    assert_eq!(cut.len(), 1024);
}

#[test]
fn a_waiting_request_that_is_cancelled_is_never_started() {
    let mut p = Pair::ready_with(|policy| policy.concurrency = 1);
    let first = p.call(1, "a");
    p.client(&call(2, "b"));
    p.client(&call(3, "c"));
    p.cancel(2);
    p.forget();
    p.answer(first, "{}");
    let started = p.started();
    assert_eq!(started.len(), 1);
    assert_eq!(started[0].1.message.name().as_deref(), Some("c"));
    assert_eq!(p.server.sizes().queued, (0, 0));
}

/// The grace of a cancelled handler takes a place: it may still be at work.
#[test]
fn a_cancelled_handler_keeps_its_place_until_it_has_left() {
    let mut p = Pair::ready_with(|policy| policy.concurrency = 1);
    let first = p.call(1, "a");
    p.client(&call(2, "b"));
    p.cancel(1);
    assert_eq!(p.orders(), ["start 0", "cancel 0 client"]);
    p.answer(first, "{}");
    assert_eq!(p.orders(), ["start 1"]);
    p.client(&call(3, "c"));
    p.cancel(2);
    p.forget();
    p.advance(1000);
    assert_eq!(p.orders(), ["drop 1", "start 2"]);
}

#[test]
fn an_answered_initialize_cannot_be_cancelled() {
    let mut p = Pair::new(policy());
    p.client(&initialize(0, "2025-11-25"));
    p.forget();
    p.cancel(0);
    assert_eq!(p.all(), ["dropped useless_cancel"]);
    p.call(1, "a");
    assert_eq!(p.orders(), ["start 0"]);
}

/// A timer that fires late because the machine slept does not shorten a grace (FM-55).
#[test]
fn sleep_does_not_count() {
    let mut p = Pair::ready_with(|policy| {
        policy.deadline = Some(std::time::Duration::from_secs(60));
    });
    p.call(1, "a");
    p.forget();
    p.sleep(3_600_000);
    p.client(&call(2, "b"));
    assert_eq!(p.orders(), ["start 1", "cancel 0 deadline"]);
    p.advance(59_999);
    assert_eq!(p.orders(), ["drop 0"]);
    p.advance(1);
    assert_eq!(p.orders(), ["cancel 1 deadline"]);
    p.feed(Input::Tick);
}
