//! Bounds of one caller's own, and clocks that wait for a person.

use std::time::Duration;

use outlive_core::cause::Exit;
use outlive_core::policy::{Cancel, Retry, Terms};
use outlive_core::{Framer, Input};

use crate::pair::*;

const QUESTION: &str = r#"{"jsonrpc":"2.0","id":1,"method":"elicitation/create","params":{}}"#;
const REPLY: &str = r#"{"jsonrpc":"2.0","id":1,"result":{"action":"accept"}}"#;
const PROGRESS: &str = r#"{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":1,"progress":1}}"#;

/// A request with its own terms, and 1 as its progress token.
fn call_on(p: &mut Pair, id: u64, terms: Terms) {
    let mut framer = Framer::new(1 << 20);
    framer.extend(format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/call","params":{{"name":"any","_meta":{{"progressToken":1}}}}}}"#).as_bytes());
    framer.extend(b"\n");
    let frame = framer.next_frame().expect("a line");
    p.feed(Input::Call(frame, terms));
    p.forget();
}

fn idle(seconds: u64) -> Terms {
    Terms {
        idle: Some(Duration::from_secs(seconds)),
        ..Terms::default()
    }
}

fn total(seconds: u64) -> Terms {
    Terms {
        total: Some(Duration::from_secs(seconds)),
        ..Terms::default()
    }
}

/// Nothing reaches the host for this long, and then, a millisecond later, a timeout does.
fn expires_after(p: &mut Pair, ms: u64) -> Failure {
    p.forget();
    p.advance(ms - 1);
    assert_eq!(p.at_host(), [""; 0], "too early");
    p.advance(1);
    let failure = p.failure();
    assert_eq!(failure.kind(), "timeout");
    failure
}

#[test]
fn a_callers_bounds_come_before_the_policys() {
    for (terms, after) in [(idle(2), 2_000), (idle(7), 7_000), (total(3), 3_000)] {
        let mut p =
            Pair::ready_with(|policy| policy.request_timeout = Some(Duration::from_secs(5)));
        call_on(&mut p, 7, terms);
        assert_eq!(expires_after(&mut p, after).about["after_ms"], after);
    }
}

#[test]
fn a_callers_idle_bound_is_rearmed_by_progress_and_its_total_is_not() {
    let mut p = Pair::ready();
    call_on(&mut p, 7, idle(4));
    p.advance(3_000);
    p.server(PROGRESS);
    expires_after(&mut p, 4_000);
    let mut p = Pair::ready();
    call_on(&mut p, 7, total(4));
    p.advance(3_000);
    p.server(PROGRESS);
    expires_after(&mut p, 1_000);
}

#[test]
fn a_caller_may_want_a_call_repeated_or_never() {
    for (retry, repeated) in [(Retry::Always, true), (Retry::Never, false)] {
        let mut p = Pair::ready();
        let terms = Terms {
            retry: Some(retry),
            ..Terms::default()
        };
        call_on(&mut p, 7, terms);
        p.die(Exit::Signal(9));
        let failed = p.failures().len() == 1;
        assert_eq!(failed, !repeated, "{retry:?}");
        p.revive();
        p.result(7, "{}");
        let answered = p.at_host().len() == 1;
        assert_eq!(answered, repeated, "{retry:?}");
    }
}

#[test]
fn the_clocks_stand_still_while_a_person_answers() {
    for terms in [idle(5), total(5)] {
        let mut p = Pair::ready();
        call_on(&mut p, 7, terms);
        p.advance(3_000);
        p.server(QUESTION);
        p.forget();
        p.advance(300_000);
        assert_eq!(p.at_host(), [""; 0]);
        p.host(REPLY);
        expires_after(&mut p, 2_000);
    }
}

#[test]
fn a_call_made_while_a_person_is_asked_waits_with_the_others() {
    let mut p = Pair::ready();
    p.server(QUESTION);
    p.advance(1_000);
    call_on(&mut p, 7, total(5));
    p.advance(60_000);
    p.host(REPLY);
    expires_after(&mut p, 5_000);
}

#[test]
fn progress_while_a_person_is_asked_rearms_what_is_left() {
    let mut p = Pair::ready();
    call_on(&mut p, 7, idle(5));
    p.advance(3_000);
    p.server(QUESTION);
    p.advance(60_000);
    p.server(PROGRESS);
    p.advance(60_000);
    p.host(REPLY);
    expires_after(&mut p, 5_000);
}

#[test]
fn a_question_stops_the_clocks_no_longer_than_its_ceiling() {
    let mut p = Pair::ready_with(|policy| {
        policy.elicitation = Duration::from_secs(60);
        // A server that was sent a cancellation is asked for a sign of life before the next call.
        policy.cancel = Cancel::Absorb;
    });
    call_on(&mut p, 7, idle(5));
    p.advance(3_000);
    p.server(QUESTION);
    expires_after(&mut p, 62_000);
    // Asked once more while the first question is open, it does not start anew.
    call_on(&mut p, 8, idle(5));
    p.server(&QUESTION.replace(r#""id":1"#, r#""id":2"#));
    expires_after(&mut p, 5_000);
    // Once all are answered, the next one does.
    p.host(REPLY);
    p.host(&REPLY.replace(r#""id":1"#, r#""id":2"#));
    call_on(&mut p, 9, idle(5));
    p.server(QUESTION);
    expires_after(&mut p, 65_000);
}

#[test]
fn a_question_that_is_taken_back_or_dies_with_its_server_stops_nothing() {
    let mut p = Pair::ready();
    call_on(&mut p, 7, idle(5));
    p.server(QUESTION);
    p.advance(60_000);
    p.server(r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}"#);
    expires_after(&mut p, 5_000);

    let mut p = Pair::ready();
    let terms = Terms {
        retry: Some(Retry::Always),
        ..idle(5)
    };
    call_on(&mut p, 7, terms);
    p.server(QUESTION);
    p.advance(20_000);
    p.die(Exit::Signal(9));
    p.revive();
    expires_after(&mut p, 5_000);
}

#[test]
fn what_is_asked_of_a_program_stops_nothing() {
    let mut p = Pair::ready();
    call_on(&mut p, 7, idle(5));
    p.server(&QUESTION.replace("elicitation/create", "sampling/createMessage"));
    expires_after(&mut p, 5_000);
}
