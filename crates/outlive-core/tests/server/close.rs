//! The end: bounded, and nobody is left waiting (FM-20, FM-51, FM-56).

use std::time::Duration;

use outlive_core::error::{Error, Outcome};
use outlive_core::server::{CloseKind, Input, ServerEvent};

use crate::pair::*;

fn ended() -> Error {
    Error::ShuttingDown {
        outcome: Outcome::Unknown,
    }
}

#[test]
fn an_idle_server_ends_at_once() {
    for kind in [
        CloseKind::Eof,
        CloseKind::BrokenPipe,
        CloseKind::Reset,
        CloseKind::Failed("x".into()),
    ] {
        let mut p = Pair::ready();
        p.close(kind);
        assert_eq!(p.all(), ["draining", "closed"]);
        assert_eq!(p.server.deadline(), None);
        assert!(!p.server.wants_input());
    }
    let mut p = Pair::ready();
    p.shutdown();
    assert_eq!(p.all(), ["draining", "closed"]);
}

#[test]
fn nothing_follows_the_end() {
    let mut p = Pair::ready();
    p.close(CloseKind::Eof);
    p.forget();
    p.client(&request(1, "ping"));
    p.close(CloseKind::Reset);
    p.shutdown();
    p.ask(None, 1);
    p.feed(Input::Changed(outlive_core::protocol::List::Tools));
    p.feed(Input::Tick);
    assert_eq!(p.all(), [""; 0]);
}

/// `server < requests > answers` (FM-56).
#[test]
fn at_the_end_of_input_what_was_accepted_is_answered() {
    let mut p = Pair::ready_with(|policy| policy.concurrency = 1);
    let first = p.call(1, "a");
    p.client(&call(2, "b"));
    p.forget();
    p.close(CloseKind::Eof);
    assert_eq!(
        p.events(),
        [ServerEvent::Draining {
            why: "end of input".into(),
            in_flight: 2
        }]
    );
    assert_eq!(p.all(), [""; 0]);
    p.advance(999);
    p.answer(first, "{}");
    assert_eq!(
        p.all(),
        [format!("send {}", result(1, "{}")), "start 1".into()]
    );
    let second = p.newest();
    p.answer(second, "{}");
    assert_eq!(
        p.all(),
        [format!("send {}", result(2, "{}")), "closed".into()]
    );
}

#[test]
fn a_handler_that_does_not_end_is_told_after_the_drain_and_dropped_after_its_grace() {
    let mut p = Pair::ready_with(|policy| {
        policy.drain = Duration::from_millis(300);
        policy.grace = Duration::from_millis(100);
        policy.concurrency = 1;
    });
    let ticket = p.call(1, "a");
    p.client(&call(2, "b"));
    p.close(CloseKind::Eof);
    p.forget();
    p.advance(299);
    assert_eq!(p.all(), [""; 0]);
    p.advance(1);
    assert_eq!(p.all(), [format!("cancel {ticket} transport_closed")]);
    p.advance(99);
    assert_eq!(p.all(), [""; 0]);
    p.advance(1);
    assert_eq!(p.all(), [format!("drop {ticket}"), "closed".into()]);
}

#[test]
fn a_connection_that_breaks_ends_everything_and_nothing_is_sent() {
    let mut p = Pair::ready_with(|policy| policy.concurrency = 2);
    let (a, b) = (p.call(1, "a"), p.call(2, "b"));
    p.client(&call(3, "c"));
    p.ask(Some(a), 1);
    p.ask(None, 2);
    p.forget();
    p.close(CloseKind::BrokenPipe);
    assert_eq!(
        p.all(),
        [
            "draining".into(),
            format!("cancel {a} transport_closed"),
            "asked 1 shutting_down".into(),
            format!("cancel {b} transport_closed"),
            "asked 2 shutting_down".into()
        ]
    );
    p.answer(a, "{}");
    assert_eq!(
        p.all(),
        ["dropped late_answer"],
        "late answers are discarded"
    );
    p.ask(Some(b), 3);
    p.feed(Input::Changed(outlive_core::protocol::List::Tools));
    let outcome = Outcome::NotSent;
    assert_eq!(p.asked(), [(3, Err(Error::ShuttingDown { outcome }))]);
    assert_eq!(p.all(), [""; 0]);
    p.advance(1000);
    assert_eq!(p.all(), [format!("drop {b}"), "closed".into()]);
}

#[test]
fn a_drain_is_cut_short_when_the_client_no_longer_reads() {
    let mut p = Pair::ready();
    let ticket = p.call(1, "a");
    p.close(CloseKind::Eof);
    p.forget();
    p.close(CloseKind::Eof);
    assert_eq!(p.all(), [""; 0]);
    p.close(CloseKind::BrokenPipe);
    assert_eq!(p.all(), [format!("cancel {ticket} transport_closed")]);
    p.close(CloseKind::Reset);
    assert_eq!(p.all(), [""; 0]);
    p.answer(ticket, "{}");
    assert_eq!(p.all(), ["dropped late_answer", "closed"]);
}

#[test]
fn at_the_end_of_input_questions_end_and_parked_handlers_are_told() {
    let mut p = Pair::ready();
    let parked = p.modern_call(1, "a");
    p.ask(Some(parked), 1);
    let asking = p.call(2, "b");
    p.ask(Some(asking), 2);
    p.client(&modern_request(
        3,
        "subscriptions/listen",
        r#""notifications":{"toolsListChanged":true},"#,
    ));
    p.forget();
    p.close(CloseKind::Eof);
    assert_eq!(
        p.all(),
        [
            "draining".into(),
            "asked 1 shutting_down".into(),
            "asked 2 shutting_down".into(),
            format!("cancel {parked} transport_closed")
        ]
    );
    p.ask(Some(asking), 3);
    let outcome = Outcome::NotSent;
    assert_eq!(p.asked(), [(3, Err(Error::ShuttingDown { outcome }))]);
    p.answer(asking, "{}");
    p.answer(parked, "{}");
    assert_eq!(
        p.all(),
        [
            format!("send {}", result(2, "{}")),
            "dropped late_answer".into(),
            "closed".into()
        ]
    );
}

#[test]
fn the_clock_of_a_handler_goes_on_when_its_question_ends_with_the_input() {
    let mut p = Pair::ready_with(|policy| {
        policy.deadline = Some(Duration::from_millis(100));
        policy.drain = Duration::from_secs(50);
    });
    let ticket = p.call(1, "a");
    p.ask(Some(ticket), 1);
    p.advance(5000);
    p.close(CloseKind::Eof);
    p.forget();
    p.advance(100);
    assert_eq!(p.failure().code, -31003);
    assert_eq!(p.orders(), [format!("cancel {ticket} deadline")]);
}

#[test]
fn a_shutdown_lets_handlers_finish_within_their_grace() {
    let mut p = Pair::ready_with(|policy| policy.concurrency = 2);
    let (a, b) = (p.call(1, "a"), p.call(2, "b"));
    p.client(&call(3, "c"));
    p.ask(Some(a), 1);
    p.forget();
    p.shutdown();
    assert_eq!(
        p.events(),
        [
            ServerEvent::Draining {
                why: "shutdown".into(),
                in_flight: 3
            },
            ServerEvent::Refused {
                id: "3".into(),
                method: "tools/call".into(),
                kind: "shutting_down"
            }
        ]
    );
    assert_eq!(p.asked(), [(1, Err(ended()))]);
    let sent = p.sent();
    let refused = failure(&sent[0]);
    assert_eq!((refused.code, refused.outcome()), (-31005, "rejected"));
    assert_eq!(
        refused.message,
        "The server is shutting down, so tool \"c\" was not executed."
    );
    assert!(sent[1].contains("notifications/cancelled") && sent[1].contains("outlive-ask-1"));
    assert_eq!(
        p.all(),
        [
            format!("cancel {a} shutdown"),
            format!("cancel {b} shutdown")
        ]
    );
    p.advance(500);
    p.answer(a, "{}");
    assert_eq!(p.all(), [format!("send {}", result(1, "{}"))]);
    p.advance(499);
    assert_eq!(p.all(), [""; 0]);
    p.advance(1);
    let refused = p.failure();
    assert_eq!((refused.code, refused.outcome()), (-31005, "unknown"));
    assert_eq!(
        refused.message,
        "The server is shutting down, so tool \"b\" was not finished. It may have taken effect."
    );
    assert_eq!(
        p.all(),
        ["refused".into(), format!("drop {b}"), "closed".into()]
    );
}

#[test]
fn a_server_that_is_shutting_down_takes_nothing_new_but_listens() {
    let mut p = Pair::ready();
    let ticket = p.call(1, "a");
    p.shutdown();
    p.forget();
    assert!(p.server.wants_input());
    p.client(&request(2, "ping"));
    assert_eq!(p.sent(), [result(2, "{}")]);
    for line in [
        call(3, "a"),
        initialize(3, "2025-11-25"),
        r#"{"jsonrpc":"2.0","id":3,"method":"resources/subscribe","params":{"uri":"u"}}"#.into(),
        modern_request(3, "tools/call", r#""name":"a","#),
        modern_request(3, "subscriptions/listen", ""),
    ] {
        p.client(&line);
        assert_eq!(p.failure().code, -31005, "{line}");
    }
    p.forget();
    p.cancel(1);
    assert_eq!(p.all(), [""; 0], "it has been told before");
    p.advance(999);
    assert_eq!(p.all(), [""; 0]);
    p.advance(1);
    assert_eq!(p.all(), [format!("drop {ticket}"), "closed".into()]);
}

#[test]
fn a_second_shutdown_ends_at_once() {
    let mut p = Pair::ready();
    let (a, b) = (p.call(1, "a"), p.call(2, "b"));
    p.cancel(2);
    p.shutdown();
    p.forget();
    p.shutdown();
    assert_eq!(p.failure().code, -31005);
    assert_eq!(
        p.all(),
        [
            "refused".into(),
            format!("drop {a}"),
            format!("drop {b}"),
            "closed".into()
        ]
    );
}

#[test]
fn a_shutdown_while_the_input_drains_tells_the_handlers() {
    let mut p = Pair::ready();
    let ticket = p.call(1, "a");
    p.close(CloseKind::Eof);
    p.forget();
    p.shutdown();
    assert_eq!(p.all(), [format!("cancel {ticket} shutdown")]);
    p.close(CloseKind::Eof);
    p.answer(ticket, "{}");
    assert_eq!(
        p.all(),
        [format!("send {}", result(1, "{}")), "closed".into()]
    );
}

#[test]
fn a_connection_that_breaks_during_a_shutdown_changes_nothing_for_the_handlers() {
    let mut p = Pair::ready();
    let ticket = p.call(1, "a");
    p.shutdown();
    p.advance(600);
    p.forget();
    p.close(CloseKind::Reset);
    assert_eq!(p.all(), [""; 0]);
    p.advance(399);
    assert_eq!(p.all(), [""; 0]);
    p.advance(1);
    assert_eq!(p.all(), [format!("drop {ticket}"), "closed".into()]);
}

#[test]
fn a_shutdown_after_the_connection_broke_waits_for_the_grace_and_a_second_does_not() {
    let mut p = Pair::ready();
    let ticket = p.call(1, "a");
    p.close(CloseKind::Reset);
    p.forget();
    p.shutdown();
    assert_eq!(p.all(), [""; 0]);
    p.shutdown();
    assert_eq!(p.all(), [format!("drop {ticket}"), "closed".into()]);
}

#[test]
fn streams_end_gracefully_at_a_shutdown() {
    let mut p = Pair::modern();
    p.client(&modern_request(
        4,
        "subscriptions/listen",
        r#""notifications":{"toolsListChanged":true},"#,
    ));
    p.forget();
    p.shutdown();
    assert_eq!(
        p.all(),
        [
            "draining",
            r#"send {"jsonrpc":"2.0","id":4,"result":{"resultType":"complete","_meta":{"io.modelcontextprotocol/subscriptionId":4}}}"#,
            r#"send {"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":4,"reason":"the server is shutting down"}}"#,
            "closed"
        ]
    );
}

#[test]
fn parked_handlers_are_told_of_a_shutdown() {
    let mut p = Pair::modern();
    let ticket = p.modern_call(1, "a");
    p.ask(Some(ticket), 1);
    p.forget();
    p.shutdown();
    assert_eq!(
        p.all(),
        [
            "draining".into(),
            format!("cancel {ticket} shutdown"),
            "asked 1 shutting_down".into()
        ]
    );
    p.advance(1000);
    assert_eq!(p.all(), [format!("drop {ticket}"), "closed".into()]);
}

#[test]
fn subscriptions_end_with_the_input_and_with_a_shutdown() {
    for eof in [true, false] {
        let mut p = Pair::ready();
        p.client(r#"{"jsonrpc":"2.0","id":1,"method":"resources/subscribe","params":{"uri":"u"}}"#);
        p.client(&modern_request(
            2,
            "subscriptions/listen",
            r#""notifications":{"resourceSubscriptions":["u"]},"#,
        ));
        p.call(3, "a");
        match eof {
            true => p.close(CloseKind::Eof),
            false => p.shutdown(),
        }
        p.forget();
        p.feed(Input::Updated { uri: "u".into() });
        assert_eq!(p.all(), [""; 0]);
        assert_eq!(p.server.sizes().subscriptions, (0, 0));
    }
}
