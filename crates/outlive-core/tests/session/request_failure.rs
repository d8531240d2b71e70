//! Requests that are refused, or break off, while their link lives on.

use std::time::Duration;

use outlive_core::cause::Exit;
use outlive_core::link::RequestFailure;
use outlive_core::policy::{Cancel, Retry};
use outlive_core::{Event, Id, Input, LinkInput, Policy, State};

use crate::pair::*;

fn unanswered(p: &mut Pair, id: i64, failure: RequestFailure) {
    p.forget();
    p.link(LinkInput::Unanswered {
        id: Id::Int(id),
        failure,
    });
}

/// The server refuses something as if it had forgotten the session.
fn expired(p: &mut Pair, id: Option<Id>) {
    let status = 404;
    p.link(LinkInput::Expired { id, status });
}

fn lost() -> RequestFailure {
    RequestFailure::Lost("the stream ended".into())
}

fn rejected(status: u16, seconds: Option<u64>) -> RequestFailure {
    RequestFailure::Rejected {
        status,
        retry_after: seconds.map(Duration::from_secs),
    }
}

#[test]
fn a_busy_server_is_asked_again_when_it_says_and_nobody_overtakes() {
    for (status, after, wait) in [(503, Some(3), 3_000), (429, None, 1_000)] {
        let mut p = Pair::ready();
        p.call(7, "any");
        unanswered(&mut p, 7, rejected(status, after));
        p.call(8, "any");
        assert_eq!(p.at_link(), [""; 0]);
        p.advance(wait - 1);
        assert_eq!(p.at_link(), [""; 0], "too early");
        p.advance(1);
        assert_eq!(p.at_link(), [call(7, "any"), call(8, "any")]);
        p.result(7, "{}");
        assert_eq!(p.at_host().len(), 1);
    }
}

#[test]
fn a_proxy_that_names_no_time_may_have_passed_the_call_on() {
    // A call that may have been executed is not repeated, …
    for retry in [Retry::Safe, Retry::Never] {
        let mut p = Pair::ready_with(|policy| policy.retry = retry);
        p.call(7, "any");
        p.forget();
        unanswered(&mut p, 7, rejected(503, None));
        let failure = p.failure();
        assert_eq!(
            (failure.kind(), failure.outcome()),
            ("connection_lost", "unknown")
        );
        p.advance(60_000);
        assert!(!p.at_link().contains(&call(7, "any")));
        assert_eq!(p.states(), []);
    }
    // … unless that is safe; then it is, with pauses, and what it may have done is not forgotten.
    let mut p = Pair::ready();
    p.request(7, "resources/list");
    p.forget();
    for _ in 0..7 {
        unanswered(&mut p, 7, rejected(503, None));
        assert_eq!(p.at_link(), [""; 0]);
        p.advance(1_000);
        assert_eq!(p.at_link(), [request(7, "resources/list")]);
    }
    unanswered(&mut p, 7, rejected(503, None));
    assert_eq!(p.failure().outcome(), "unknown");
}

#[test]
fn nothing_that_a_server_had_is_sent_again_if_nothing_is_to_be() {
    for failure in [rejected(429, Some(1)), rejected(503, Some(1))] {
        let mut p = Pair::ready_with(|policy| policy.retry = Retry::Never);
        p.call(7, "any");
        p.forget();
        unanswered(&mut p, 7, failure);
        let failure = p.failure();
        assert_eq!(
            (failure.kind(), failure.outcome()),
            ("rejected", "rejected")
        );
        p.advance(60_000);
        assert!(!p.at_link().contains(&call(7, "any")));
    }
    // A session that is forgotten is asked for first, and opened anew all the same.
    for known in [true, false] {
        let mut p = Pair::ready_with(|policy| policy.retry = Retry::Never);
        p.call(7, "any");
        p.forget();
        expired(&mut p, Some(Id::Int(7)));
        assert_eq!(p.at_link(), [ping(1, 1)]);
        match known {
            true => p.own_result(1, "{}"),
            false => expired(&mut p, Some(Id::text("outlive-1-1"))),
        }
        let failure = p.failure();
        let kind = if known { "rejected" } else { "session_expired" };
        assert_eq!((failure.kind(), failure.outcome()), (kind, "rejected"));
        assert_eq!(p.orders().is_empty(), known);
    }
    // Also not where the refusal ends the link (seed 8,688,474).
    let mut policy = Policy::default();
    policy.retry = Retry::Never;
    let mut p = Pair::new(policy);
    p.up();
    p.call(7, "any");
    p.forget();
    unanswered(&mut p, 7, rejected(403, None));
    p.advance(60_000);
    let failure = p.failure();
    assert_eq!(
        (failure.kind(), failure.outcome()),
        ("rejected", "rejected")
    );
    p.up();
    assert_eq!(p.at_link(), [""; 0]);
}

#[test]
fn a_server_that_stays_busy_is_not_asked_for_ever() {
    let mut p = Pair::ready();
    p.call(7, "any");
    for _ in 0..7 {
        unanswered(&mut p, 7, rejected(429, Some(0)));
        assert_eq!(p.at_link(), [call(7, "any")]);
    }
    unanswered(&mut p, 7, rejected(429, Some(0)));
    let failure = p.failure();
    assert_eq!(failure.kind(), "rejected");
    assert_eq!(failure.outcome(), "rejected");
    assert_eq!(p.states(), []);
}

#[test]
fn a_request_of_another_era_is_refused_unexecuted_and_alone() {
    let mut p = Pair::ready();
    p.call(7, "any");
    p.call(8, "any");
    unanswered(&mut p, 7, RequestFailure::WrongEra("It is too old.".into()));
    let failure = p.failure();
    assert_eq!(failure.kind(), "unsupported");
    assert_eq!(failure.outcome(), "rejected");
    assert!(
        failure.message.ends_with("It is too old."),
        "{}",
        failure.message
    );
    p.result(8, "{}");
    assert_eq!(p.at_host().len(), 1);
    assert_eq!(p.orders(), [""; 0]);
}

#[test]
fn a_probe_for_the_modern_era_that_breaks_off_twice_is_answered_for_the_server() {
    let mut p = Pair::new(outlive_core::Policy::default());
    p.up();
    p.host(&modern_request(7, "server/discover", ""));
    for _ in 0..2 {
        unanswered(&mut p, 7, RequestFailure::Lost("connection reset".into()));
    }
    let failure = p.failure();
    assert_eq!(failure.kind(), "unsupported");
    assert!(
        failure.message.contains("use `initialize`"),
        "{}",
        failure.message
    );
}

#[test]
fn a_request_that_is_refused_fails_alone() {
    let mut p = Pair::ready();
    p.call(7, "any");
    p.call(8, "any");
    unanswered(&mut p, 7, rejected(413, None));
    assert_eq!(
        p.failure().message,
        "The server refused tool \"any\" with status 413. It was not executed. The same request would be refused again."
    );
    p.result(8, "{}");
    assert_eq!(p.at_host().len(), 1);
    assert_eq!(p.orders(), [""; 0]);
}

#[test]
fn an_exchange_that_breaks_off_is_settled_by_its_outcome_alone() {
    let mut p = Pair::with_tools();
    p.call(7, "risky");
    p.call(8, "safe");
    p.request(9, "resources/list");
    unanswered(&mut p, 7, lost());
    let failure = p.failure();
    assert_eq!(
        (failure.kind(), failure.outcome()),
        ("connection_lost", "unknown")
    );
    assert_eq!(
        failure.message,
        "The server left tool \"risky\" without an answer (the stream ended). The call may have taken \
         effect, so it was not repeated. Calling again is safe only if doing it twice is."
    );
    unanswered(&mut p, 8, lost());
    assert_eq!(p.at_link(), [call(8, "safe")]);
    unanswered(&mut p, 9, lost());
    assert_eq!(p.at_link(), [request(9, "resources/list")]);
    // Twice in a row is enough.
    unanswered(&mut p, 8, lost());
    assert_eq!(p.failure().id, 8);
    assert_eq!(p.states(), [], "the link lives");
}

#[test]
fn what_one_server_called_safe_the_next_has_to_call_safe_too() {
    let mut p = Pair::with_tools();
    p.call(8, "safe");
    // It is on its way out, so what broke off waits for its successor.
    p.feed(Input::Restart);
    unanswered(&mut p, 8, lost());
    assert_eq!(p.at_link(), [""; 0]);
    p.die(Exit::Code(0));
    p.up();
    p.own_result(1, WELCOME);
    p.forget();
    p.own_result(2, r#"{"tools":[{"name":"safe"}]}"#);
    assert_eq!(p.at_link(), [""; 0]);
    let failure = failure(&p.at_host()[0]);
    assert_eq!(
        (failure.kind(), failure.outcome()),
        ("connection_lost", "unknown")
    );
}

#[test]
fn what_nobody_has_to_call_safe_waits_for_nobody() {
    for retry in [Retry::Safe, Retry::Always] {
        let mut p = Pair::with_tools_and(|policy| policy.retry = retry);
        let sent = match retry {
            Retry::Always => call(8, "risky"),
            _ => request(8, "resources/list"),
        };
        p.host(&sent);
        p.feed(Input::Restart);
        unanswered(&mut p, 8, lost());
        p.die(Exit::Code(0));
        p.up();
        p.own_result(1, WELCOME);
        assert!(p.at_link().contains(&sent), "{retry:?}");
    }
}

#[test]
fn a_call_that_breaks_off_before_this_server_has_called_it_safe_is_not_repeated() {
    for retry in [Retry::Safe, Retry::Always] {
        let mut p = Pair::with_tools_and(|policy| policy.retry = retry);
        p.die(Exit::Code(1));
        p.up();
        p.own_result(1, WELCOME);
        p.call(8, "safe");
        unanswered(&mut p, 8, lost());
        match retry {
            Retry::Always => assert_eq!(p.at_link(), [call(8, "safe")]),
            _ => assert_eq!(p.failure().kind(), "connection_lost"),
        }
    }
}

#[test]
fn what_is_put_off_keeps_its_place() {
    let mut p = Pair::ready();
    p.call(7, "any");
    p.call(8, "any");
    unanswered(&mut p, 7, rejected(503, Some(3)));
    p.call(9, "any");
    unanswered(&mut p, 8, rejected(503, Some(3)));
    p.advance(3_000);
    let in_order = [7, 8, 9].map(|id| call(id, "any"));
    assert_eq!(p.at_link(), in_order);
}

#[test]
fn a_late_answer_to_a_call_that_broke_off_is_not_another_ones() {
    let mut p = Pair::ready_with(|policy| policy.cancel = Cancel::Absorb);
    p.call(7, "any");
    p.cancel(7);
    // The first may still be answered, so the second has a name of ours.
    p.call(7, "any");
    p.forget();
    p.link(LinkInput::Unanswered {
        id: Id::text("outlive-1-1"),
        failure: lost(),
    });
    assert_eq!(p.failure().id, 7);
    p.call(7, "any");
    p.forget();
    p.server(r#"{"jsonrpc":"2.0","id":"outlive-1-1","result":{}}"#);
    assert_eq!(p.at_host(), [""; 0]);
    p.server(r#"{"jsonrpc":"2.0","id":"outlive-1-2","result":{}}"#);
    assert_eq!(p.at_host(), [r#"{"jsonrpc":"2.0","id":7,"result":{}}"#]);
}

#[test]
fn a_forgotten_session_is_opened_anew_once_for_all() {
    let mut p = Pair::ready();
    p.call(7, "any");
    p.call(8, "any");
    p.call(9, "any");
    p.forget();
    expired(&mut p, Some(Id::Int(7)));
    // Something may be running, so the session itself is asked.
    assert_eq!(p.at_link(), [ping(1, 1)]);
    expired(&mut p, Some(Id::Int(9)));
    assert_eq!(p.all(), [""; 0], "once");
    expired(&mut p, Some(Id::text("outlive-1-1")));
    assert_eq!(p.failures().len(), 0);
    assert!(matches!(p.states().last(), Some(State::Down { .. })));
    // Two were refused unexecuted; the third may have run, if nothing is heard of it.
    p.advance(1_000);
    let failure = p.failure();
    assert_eq!(
        (failure.id.clone(), failure.kind()),
        (8.into(), "connection_lost")
    );
    assert_eq!(failure.about["cause"]["kind"], "session_expired");
    p.forget();
    p.old_link(
        1,
        LinkInput::Exited {
            exit: outlive_core::cause::Exit::Unknown,
            sent: 0,
        },
    );
    assert_eq!(p.orders(), ["kill 1", "connect 2"]);
    // Another exchange of the old session says the same: that is no news.
    p.old_link(
        1,
        LinkInput::Expired {
            id: None,
            status: 404,
        },
    );
    assert_eq!(p.orders(), [""; 0]);
    p.up();
    p.own_result(1, WELCOME);
    let sent = p.at_link();
    assert!(sent.contains(&call(7, "any")) && sent.contains(&call(9, "any")));
}

#[test]
fn all_that_was_refused_with_the_link_waits_for_the_next() {
    let refused = || RequestFailure::Unsent("connection refused".into());
    let mut p = Pair::ready();
    for id in 7..10 {
        p.call(id, "any");
    }
    unanswered(&mut p, 7, refused());
    unanswered(&mut p, 8, refused());
    assert_eq!(p.orders(), [""; 0], "the third is not known yet");
    // An answer that was on its way counts; with it all is known.
    p.forget();
    p.result(9, "{}");
    assert_eq!(p.at_host().len(), 1);
    assert_eq!(p.orders(), ["terminate 1"]);
    assert_eq!(p.failures().len(), 0);
}

#[test]
fn credentials_that_are_refused_are_a_state_and_an_error_one_can_act_on() {
    let mut p = Pair::ready();
    p.call(7, "any");
    p.forget();
    unanswered(&mut p, 7, rejected(401, None));
    let failure = p.failure();
    assert_eq!(
        (failure.kind(), failure.outcome()),
        ("rejected", "rejected")
    );
    assert!(
        failure.message.contains("asks for other credentials"),
        "{}",
        failure.message
    );
    // It may be that tool's own affair. If a ping is refused too, it is not.
    assert_eq!(p.at_link(), [ping(1, 1)]);
    assert_eq!(p.states(), []);
    p.link(LinkInput::Unanswered {
        id: Id::text("outlive-1-1"),
        failure: rejected(401, None),
    });
    assert!(matches!(p.states().last(), Some(State::Failed { .. })));
    p.call(8, "any");
    let failure = p.failure();
    assert_eq!(
        (failure.kind(), failure.outcome()),
        ("unavailable", "not_sent")
    );
    assert!(
        failure
            .message
            .contains("refused the credentials it was given (status 401)"),
        "{}",
        failure.message
    );
    assert!(
        failure.message.contains("Give it valid credentials"),
        "{}",
        failure.message
    );
}

/// Causes of the handshakes that were told to have failed.
fn failed_handshakes(p: &mut Pair) -> Vec<String> {
    let events = p.events().into_iter();
    let causes = events.filter_map(|event| match event {
        Event::HandshakeFailed { cause } => Some(cause.predicate()),
        _ => None,
    });
    causes.collect()
}

#[test]
fn a_handshake_that_nobody_answers_is_told_of_although_its_link_lives() {
    // What breaks off is tried once more, and a refusal is one at once.
    let status = |status: u16| RequestFailure::Lost(format!("status {status}"));
    for (failure, tries, told) in [
        (status(500), 2, Some("status 500")),
        (lost(), 2, Some("the stream ended")),
        (rejected(501, None), 1, Some("status 501")),
        // These are about the request, and say nothing about the next.
        (rejected(400, None), 1, None),
        (rejected(422, None), 1, None),
    ] {
        let mut p = Pair::new(outlive_core::Policy::default());
        p.up();
        p.host(INITIALIZE);
        for _ in 1..tries {
            unanswered(&mut p, 0, failure.clone());
            assert_eq!(failed_handshakes(&mut p), [""; 0]);
            p.advance(1_000);
        }
        unanswered(&mut p, 0, failure);
        let words = |it: &str| format!("left the handshake without an answer ({it})");
        let told: Vec<String> = told.map(words).into_iter().collect();
        assert_eq!(failed_handshakes(&mut p), told);
        assert_eq!(p.failures().len(), 1);
    }
    // A server that is too busy for eight handshakes is in no state to be used.
    let mut p = Pair::new(outlive_core::Policy::default());
    p.up();
    p.host(INITIALIZE);
    for _ in 0..7 {
        unanswered(&mut p, 0, rejected(429, None));
        p.advance(1_000);
    }
    unanswered(&mut p, 0, rejected(429, None));
    let told = ["left the handshake without an answer (status 429)"];
    assert_eq!(failed_handshakes(&mut p), told);
    // What fails in service is a call's own.
    let mut p = Pair::ready();
    p.call(7, "any");
    unanswered(&mut p, 7, RequestFailure::Lost("status 500".into()));
    assert_eq!(failed_handshakes(&mut p), [""; 0]);
}

#[test]
fn an_initialize_that_is_refused_for_its_credentials_was_sent() {
    let mut p = Pair::new(outlive_core::Policy::default());
    p.up();
    p.host(INITIALIZE);
    p.forget();
    unanswered(&mut p, 0, rejected(401, None));
    let failure = p.failure();
    assert_eq!(
        (failure.kind(), failure.outcome()),
        ("unavailable", "rejected")
    );
}

#[test]
fn a_server_that_is_not_there_holds_what_was_not_sent() {
    let mut p = Pair::ready();
    p.call(7, "any");
    unanswered(
        &mut p,
        7,
        RequestFailure::Unsent("connection refused".into()),
    );
    assert_eq!(p.failures().len(), 0);
    assert!(matches!(p.states().last(), Some(State::Down { .. })));
    p.old_link(
        1,
        LinkInput::Exited {
            exit: outlive_core::cause::Exit::Unknown,
            sent: 0,
        },
    );
    p.advance(200);
    p.up();
    p.forget();
    p.own_result(1, WELCOME);
    assert!(p.at_link().contains(&call(7, "any")));
}

/// The next link finds nobody, in this way.
fn nobody(p: &mut Pair, failure: &RequestFailure) {
    let generation = p.newest().number();
    p.link(LinkInput::Up);
    p.link(LinkInput::Unanswered {
        id: Id::text(format!("outlive-{generation}-1")),
        failure: failure.clone(),
    });
    p.old_link(
        generation,
        LinkInput::Exited {
            exit: outlive_core::cause::Exit::Unknown,
            sent: 0,
        },
    );
}

#[test]
fn a_server_that_is_not_there_is_looked_for_and_does_not_count_as_failing() {
    for failure in [
        RequestFailure::Unsent("connection refused".into()),
        RequestFailure::Lost("connection reset".into()),
        rejected(503, None),
    ] {
        let mut p = Pair::ready();
        p.call(7, "any");
        unanswered(
            &mut p,
            7,
            RequestFailure::Unsent("connection refused".into()),
        );
        p.old_link(
            1,
            LinkInput::Exited {
                exit: outlive_core::cause::Exit::Unknown,
                sent: 0,
            },
        );
        let mut looks = 0;
        for _ in 0..250 {
            if p.orders().iter().any(|order| order.starts_with("connect")) {
                looks += 1;
                nobody(&mut p, &failure);
            }
            p.advance(100);
        }
        assert!((12..60).contains(&looks), "{looks} in 25 s");
        assert_eq!(p.failures().len(), 0, "the call waits");
        let failed = |state: &State| matches!(state, State::Failed { .. });
        assert!(!p.states().iter().any(failed));
        // But not for ever.
        for _ in 0..500 {
            if p.orders().iter().any(|order| order.starts_with("connect")) {
                nobody(&mut p, &failure);
            }
            p.advance(100);
        }
        assert!(p.states().iter().any(failed));
    }
}

#[test]
fn a_stream_that_ends_is_opened_again_and_a_server_that_closes_all_is_not_stormed() {
    let mut p = Pair::modern();
    let listen = modern_request(
        7,
        "subscriptions/listen",
        r#""notifications":{"toolsListChanged":true},"#,
    );
    p.host(&listen);
    p.forget();
    // Open for long: at once.
    p.advance(20_000);
    unanswered(&mut p, 7, lost());
    assert_eq!(p.at_link().len(), 1);
    // Closed at once, again and again: ever later.
    let mut pauses = Vec::new();
    for _ in 0..5 {
        unanswered(&mut p, 7, lost());
        assert_eq!(p.at_link(), [""; 0]);
        let mut pause = 0;
        while p.at_link().is_empty() {
            p.advance(100);
            pause += 100;
        }
        pauses.push(pause);
    }
    assert_eq!(pauses, [200, 400, 800, 1_600, 3_200]);
    assert_eq!(p.at_host(), [""; 0]);
}

#[test]
fn a_connection_that_is_over_has_no_status_to_wait_for() {
    for (error, words) in [
        (None, "closed the connection"),
        (Some("reset"), "was disconnected (reset)"),
    ] {
        let mut p = Pair::ready();
        p.call(7, "any");
        p.forget();
        p.link(LinkInput::Disconnected {
            error: error.map(str::to_string),
            sent: u64::MAX,
        });
        let message = p.failure().message;
        assert!(message.contains(words), "{message}");
    }
}

#[test]
fn a_death_before_it_was_read_does_not_undo_that_it_may_have_run_before() {
    let mut p = Pair::with_tools();
    p.call(8, "safe");
    p.die(Exit::Code(1));
    p.up();
    p.own_result(1, WELCOME);
    p.forget();
    p.own_result(2, TOOLS);
    assert!(p.at_link().contains(&call(8, "safe")));
    p.die_unread(Exit::Code(1), 1);
    p.advance(1_000);
    p.up();
    p.forget();
    p.own_result(1, WELCOME);
    assert!(
        !p.at_link().contains(&call(8, "safe")),
        "the third has not called it safe yet"
    );
    p.forget();
    p.own_result(2, r#"{"tools":[{"name":"safe"}]}"#);
    assert_eq!(p.at_link(), [""; 0]);
    assert_eq!(failure(&p.at_host()[0]).outcome(), "unknown");
}
