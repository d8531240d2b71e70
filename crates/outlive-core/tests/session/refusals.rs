//! Refusals that are one request's own, and refusals that are the session's.

use std::time::Duration;

use outlive_core::cause::{Exit, StartFailure};
use outlive_core::link::RequestFailure;
use outlive_core::{Id, LinkInput, State};

use crate::pair::*;

fn unanswered(p: &mut Pair, id: Id, failure: RequestFailure) {
    p.link(LinkInput::Unanswered { id, failure });
}

fn rejected(status: u16, seconds: Option<u64>) -> RequestFailure {
    RequestFailure::Rejected {
        status,
        retry_after: seconds.map(Duration::from_secs),
    }
}

fn elsewhere() -> RequestFailure {
    RequestFailure::Elsewhere {
        status: 302,
        why: "it redirects to https://login.example, which is another origin".into(),
    }
}

fn expired(p: &mut Pair, id: Option<Id>) {
    p.link(LinkInput::Expired { id, status: 404 });
}

fn own(generation: u64, n: u64) -> Id {
    Id::text(format!("outlive-{generation}-{n}"))
}

/// The link was given up: its successor is made, and shaken hands with.
fn succeed(p: &mut Pair) {
    let exit = Exit::Unknown;
    let generation = p.newest().number();
    p.old_link(generation, LinkInput::Exited { exit, sent: 0 });
    assert_eq!(p.newest().number(), generation + 1, "{:?}", p.all());
    p.up();
    p.forget();
    p.own_result(1, WELCOME);
}

fn is_failed(state: &State) -> bool {
    matches!(state, State::Failed { .. })
}

#[test]
fn a_request_alone_is_sent_again_in_a_new_session_once() {
    let mut p = Pair::ready();
    p.call(7, "odd");
    p.forget();
    expired(&mut p, Some(Id::Int(7)));
    // Nothing is lost by a new session, so nobody is asked.
    assert_eq!(p.at_link(), [""; 0]);
    assert_eq!(p.orders(), ["terminate 1"]);
    succeed(&mut p);
    assert!(p.at_link().contains(&call(7, "odd")));
    p.forget();
    expired(&mut p, Some(Id::Int(7)));
    let failure = p.failure();
    assert_eq!(
        (failure.kind(), failure.outcome()),
        ("rejected", "rejected")
    );
    assert_eq!(
        failure.message,
        "The server refused tool \"odd\" with status 404. It was not executed. The same request would be refused again."
    );
    // Whether the session is known is another question, and nothing ends before it is answered.
    assert_eq!(p.at_link(), [ping(2, 2)]);
    assert_eq!(p.orders(), [""; 0]);
    p.own_result(2, "{}");
    assert_eq!(p.states(), []);
}

#[test]
fn a_request_that_every_session_refuses_does_not_open_the_breaker() {
    let mut p = Pair::ready();
    for round in 0..20 {
        p.call(7, "odd");
        expired(&mut p, Some(Id::Int(7)));
        succeed(&mut p);
        expired(&mut p, Some(Id::Int(7)));
        assert_eq!(p.failure().kind(), "rejected", "{round}");
        let asked = p.at_link().iter().any(|line| line.contains("ping"));
        assert!(asked, "{round}");
        p.own_result(2, "{}");
        p.forget();
    }
    assert!(!p.states().iter().any(is_failed));
}

#[test]
fn a_server_that_denies_every_session_opens_the_breaker() {
    let mut p = Pair::ready();
    let mut rounds = 0;
    while !p.states().iter().any(is_failed) {
        rounds += 1;
        assert!(rounds < 20, "it never opens");
        p.call(7, "odd");
        expired(&mut p, Some(Id::Int(7)));
        succeed(&mut p);
        expired(&mut p, Some(Id::Int(7)));
        assert_eq!(p.failure().kind(), "rejected");
        let asked = own(p.newest().number(), 2);
        expired(&mut p, Some(asked));
        if p.states().iter().any(is_failed) {
            break;
        }
        let exit = Exit::Unknown;
        p.old_link(p.newest().number(), LinkInput::Exited { exit, sent: 0 });
        while !p.orders().iter().any(|order| order.starts_with("connect")) {
            p.advance(100);
        }
        p.up();
        p.forget();
        p.own_result(1, WELCOME);
    }
    assert!(rounds >= 4);
}

#[test]
fn a_refusal_beside_a_call_is_the_requests_own_if_the_session_is_known() {
    // Whatever the answer says, the session was found.
    for answer in ["result", "error", "refusal", "silence"] {
        let mut p = Pair::ready();
        p.call(7, "slow");
        p.call(8, "odd");
        p.forget();
        expired(&mut p, Some(Id::Int(8)));
        assert_eq!(p.all(), [format!("link: {}", ping(1, 1))]);
        match answer {
            "result" => p.own_result(1, "{}"),
            "error" => p.server(r#"{"id":"outlive-1-1","error":{"code":-32601,"message":"no"}}"#),
            "refusal" => unanswered(&mut p, own(1, 1), rejected(403, None)),
            _ => {
                p.advance(4_999);
                assert_eq!(p.at_host(), [""; 0]);
                p.advance(1);
            }
        }
        let failure = p.failure();
        assert_eq!(
            (failure.id.clone(), failure.kind()),
            (8.into(), "rejected"),
            "{answer}"
        );
        assert_eq!(p.states(), [], "{answer}");
        p.result(7, "{}");
        assert_eq!(p.at_host().len(), 1, "{answer}");
        // A late answer is nobody's.
        p.own_result(1, "{}");
        assert_eq!(p.at_host(), [""; 0]);
    }
}

#[test]
fn a_request_that_is_doubted_can_be_cancelled_and_its_id_used_again() {
    let mut p = Pair::ready();
    p.call(7, "slow");
    p.call(8, "odd");
    expired(&mut p, Some(Id::Int(8)));
    p.forget();
    p.cancel(8);
    assert_eq!(p.at_link(), [""; 0], "the server has nothing of it");
    p.call(8, "risky");
    p.forget();
    // It is another request, and it may have been executed.
    p.die(Exit::Signal(9));
    let outcomes: Vec<String> = p
        .failures()
        .iter()
        .map(|f| f.outcome().to_string())
        .collect();
    assert_eq!(outcomes, ["unknown", "unknown"]);
}

#[test]
fn a_notification_or_a_request_of_ours_that_is_refused_proves_nothing() {
    for ours in [false, true] {
        let mut p = Pair::with_tools();
        let mut next = 1;
        if ours {
            p.die(Exit::Code(1));
            p.up();
            p.own_result(1, WELCOME);
            next = 3;
        }
        let generation = p.newest().number();
        p.call(7, "slow");
        p.forget();
        // The second request of ours is for the new list.
        expired(&mut p, ours.then(|| own(generation, 2)));
        assert_eq!(p.at_link(), [ping(generation, next)]);
        p.own_result(next, "{}");
        p.result(7, "{}");
        assert_eq!(p.at_host().len(), 1);
        assert_eq!(p.orders(), [""; 0]);
        // Refused, it does.
        p.forget();
        expired(&mut p, None);
        expired(&mut p, Some(own(generation, next + 1)));
        assert_eq!(p.orders(), [format!("terminate {generation}")]);
    }
}

#[test]
fn words_in_an_answer_only_make_us_ask() {
    let mut p = Pair::ready();
    p.call(7, "browse");
    p.forget();
    let words = r#"{"jsonrpc":"2.0","id":7,"error":{"code":-32602,"message":"Invalid session"}}"#;
    p.server(words);
    p.link(LinkInput::MaybeExpired);
    p.link(LinkInput::MaybeExpired);
    assert_eq!(p.at_host(), [words]);
    assert_eq!(p.at_link(), [ping(1, 1)]);
    p.own_result(1, "{}");
    assert_eq!(p.all(), [""; 0]);
    p.link(LinkInput::MaybeExpired);
    assert_eq!(p.at_link(), [ping(1, 2)], "each time");
    p.forget();
    expired(&mut p, Some(own(1, 2)));
    assert_eq!(p.orders(), ["terminate 1"]);
    succeed(&mut p);
    assert!(!p.at_link().contains(&call(7, "browse")));
}

#[test]
fn a_link_that_is_refused_late_may_have_executed_what_it_took() {
    let why = || StartFailure::Other("it is elsewhere".into());
    for counted in [true, false] {
        let mut p = Pair::ready();
        p.call(7, "risky");
        p.call(8, "risky");
        p.forget();
        // `initialize`, `initialized` and the first call had left.
        p.link(match counted {
            true => LinkInput::Refused {
                why: why(),
                sent: 3,
            },
            false => LinkInput::Unmade(why()),
        });
        let failures = p.failures();
        let ids: Vec<_> = failures.iter().map(|f| f.id.clone()).collect();
        assert!(failures.iter().all(|f| f.outcome() == "unknown"));
        match counted {
            true => assert_eq!(ids, [7]),
            false => assert_eq!(ids, [7, 8]),
        }
        assert_eq!(
            p.orders(),
            ["stop writing 1", "terminate 1"],
            "what was made is ended"
        );
    }
}

#[test]
fn a_second_initialize_that_is_refused_is_refused_alone() {
    let mut p = Pair::ready();
    p.call(7, "slow");
    p.host(&INITIALIZE.replace(r#""id":0"#, r#""id":2"#));
    p.forget();
    unanswered(&mut p, Id::Int(2), rejected(409, None));
    let failure = p.failure();
    assert_eq!((failure.id.clone(), failure.kind()), (2.into(), "rejected"));
    p.result(7, "{}");
    assert_eq!(p.at_host().len(), 1);
    assert_eq!(p.orders(), [""; 0]);
}

#[test]
fn a_second_initialize_has_the_bound_of_any_request() {
    let mut p = Pair::ready_with(|policy| policy.request_timeout = Some(Duration::from_secs(3)));
    p.host(&INITIALIZE.replace(r#""id":0"#, r#""id":2"#));
    p.forget();
    p.advance(2_999);
    assert_eq!(p.at_host(), [""; 0]);
    p.advance(1);
    assert_eq!(p.failure().kind(), "timeout");
    assert_eq!(p.states(), []);
}

#[test]
fn a_redirected_beginning_is_no_link_but_only_if_nothing_else_runs() {
    // Alone: there will be no session there.
    let mut p = Pair::new(outlive_core::Policy::default());
    p.up();
    p.host(INITIALIZE);
    p.forget();
    unanswered(&mut p, Id::Int(0), elsewhere());
    let failure = p.failure();
    assert_eq!(failure.kind(), "unavailable");
    assert!(
        failure.message.contains("another origin"),
        "{}",
        failure.message
    );
    assert_eq!(p.orders(), ["terminate 1"]);

    // Beside a call that may be running.
    let mut p = Pair::new(outlive_core::Policy::default());
    p.up();
    p.host(&modern_request(
        6,
        "tools/call",
        r#""name":"slow","arguments":{},"#,
    ));
    p.host(&modern_request(7, "server/discover", ""));
    p.forget();
    unanswered(&mut p, Id::Int(7), elsewhere());
    let failure = p.failure();
    assert_eq!(
        (failure.id.clone(), failure.kind()),
        (7.into(), "unavailable")
    );
    assert_eq!(p.orders(), [""; 0]);
    p.result(6, "{}");
    assert_eq!(p.at_host().len(), 1);

    // In a session that has begun it is like any request.
    for method in ["server/discover", "tools/list"] {
        let mut p = Pair::modern();
        p.host(&modern_request(7, method, ""));
        p.forget();
        unanswered(&mut p, Id::Int(7), elsewhere());
        assert_eq!(p.failure().kind(), "rejected");
        assert_eq!(p.orders(), [""; 0]);
    }
}

#[test]
fn our_own_handshake_that_is_redirected_is_no_link_and_our_probe_is_a_sign_of_life() {
    let mut p = Pair::ready();
    p.die(Exit::Code(1));
    p.up();
    p.forget();
    unanswered(&mut p, own(2, 1), elsewhere());
    assert!(
        matches!(p.states().last(), Some(State::Down { cause, .. }) if cause.kind() == "spawn_failed")
    );

    let mut p = Pair::modern();
    p.advance(30_000);
    assert!(p.at_link()[0].contains("server/discover"));
    p.forget();
    unanswered(&mut p, own(1, 1), elsewhere());
    assert_eq!(p.all(), [""; 0]);
}

#[test]
fn what_is_forbidden_is_forbidden_alone() {
    let mut p = Pair::ready();
    p.call(7, "slow");
    p.call(8, "write");
    p.forget();
    unanswered(&mut p, Id::Int(8), rejected(403, None));
    let failure = p.failure();
    assert_eq!((failure.id.clone(), failure.kind()), (8.into(), "rejected"));
    assert_eq!(p.states(), []);
    assert_eq!(p.at_link(), [""; 0]);
    p.result(7, "{}");
    assert_eq!(p.at_host().len(), 1);
    // Nothing else runs: we see whether that is so for everything.
    assert_eq!(p.at_link(), [ping(1, 1)]);
    p.own_result(1, "{}");
    p.call(9, "write");
    p.forget();
    unanswered(&mut p, Id::Int(9), rejected(403, None));
    assert_eq!(p.at_link(), [ping(1, 2)]);
    p.own_result(2, "{}");
    assert_eq!(p.states(), []);
    assert_eq!(p.orders(), [""; 0]);
}

#[test]
fn where_everything_is_forbidden_other_credentials_are_needed() {
    let mut p = Pair::ready();
    p.call(8, "write");
    unanswered(&mut p, Id::Int(8), rejected(403, None));
    p.forget();
    unanswered(&mut p, own(1, 1), rejected(403, None));
    assert!(matches!(
        p.states().last(),
        Some(State::Failed { cause, .. }) if cause.kind() == "unauthorized"
    ));
    // A server that forbids nothing but `ping` forbids nothing that matters.
    let mut p = Pair::ready();
    p.advance(30_000);
    assert_eq!(p.at_link(), [ping(1, 1)]);
    p.forget();
    unanswered(&mut p, own(1, 1), rejected(403, None));
    assert_eq!(p.all(), [""; 0]);
}

#[test]
fn what_old_credentials_let_in_may_finish() {
    for status in [401, 403] {
        let mut p = Pair::ready();
        p.call(7, "slow");
        p.call(8, "any");
        p.forget();
        unanswered(&mut p, Id::Int(8), rejected(status, None));
        let failure = p.failure();
        assert_eq!((failure.id.clone(), failure.kind()), (8.into(), "rejected"));
        // However long it takes.
        p.advance(3_600_000);
        assert_eq!((p.at_host(), p.at_link(), p.states()), Default::default());
        p.forget();
        p.result(7, "{}");
        assert_eq!(p.at_host().len(), 1);
        // That it had a result says nothing about now.
        assert_eq!(p.at_link(), [ping(1, 1)]);
        unanswered(&mut p, own(1, 1), rejected(status, None));
        assert!(p.states().iter().any(is_failed));
        assert_eq!(p.orders(), ["terminate 1"]);
    }
}

#[test]
fn what_runs_when_everything_is_refused_may_finish() {
    for status in [401, 403] {
        let mut p = Pair::ready();
        p.call(8, "any");
        unanswered(&mut p, Id::Int(8), rejected(status, None));
        p.call(7, "slow");
        p.forget();
        unanswered(&mut p, own(1, 1), rejected(status, None));
        p.advance(3_600_000);
        assert_eq!((p.at_host(), p.at_link(), p.states()), Default::default());
        p.forget();
        // It was sent after the refusal, so its result shows that the credentials will do; the next ping has to say so.
        p.result(7, "{}");
        assert_eq!(p.at_host().len(), 1);
        assert_eq!(p.at_link(), [ping(1, 2)]);
        p.own_result(2, "{}");
        assert_eq!(p.states(), []);
    }
}

#[test]
fn a_tool_that_wants_a_login_of_its_own_costs_nobody_else() {
    let mut p = Pair::ready();
    p.call(7, "one-that-wants-a-login");
    p.forget();
    unanswered(&mut p, Id::Int(7), rejected(401, None));
    assert_eq!(p.failure().kind(), "rejected");
    assert_eq!(p.at_link(), [ping(1, 1)]);
    p.own_result(1, "{}");
    p.call(9, "any");
    p.result(9, "{}");
    assert_eq!(p.states(), []);
    assert_eq!(p.orders(), [""; 0]);
}

#[test]
fn a_long_pause_is_the_requests_own() {
    let mut p = Pair::ready();
    p.call(7, "later");
    p.forget();
    unanswered(&mut p, Id::Int(7), rejected(503, Some(12)));
    p.call(8, "any");
    assert_eq!(p.at_link(), [""; 0]);
    p.advance(1_000);
    assert_eq!(
        p.at_link(),
        [call(8, "any")],
        "the others wait for a moment"
    );
    p.result(8, "{}");
    p.forget();
    p.advance(10_999);
    assert_eq!(p.at_link(), [""; 0]);
    p.advance(1);
    assert_eq!(p.at_link(), [call(7, "later")]);
}

#[test]
fn a_pause_longer_than_a_request_may_be_held_ends_it() {
    for (after, held) in [(29, true), (30, false), (3_600, false)] {
        let mut p = Pair::ready();
        p.call(7, "later");
        p.forget();
        unanswered(&mut p, Id::Int(7), rejected(503, Some(after)));
        assert_eq!(p.failures().is_empty(), held, "{after}");
        p.forget();
        p.call(8, "any");
        p.advance(1_000);
        assert_eq!(p.at_link(), [call(8, "any")]);
    }
    // Also one that waits for the start of its server.
    let mut p = Pair::new(outlive_core::Policy::default());
    p.up();
    p.host(INITIALIZE);
    p.forget();
    unanswered(&mut p, Id::Int(0), rejected(503, Some(3_600)));
    assert_eq!(p.failure().kind(), "rejected");
}

#[test]
fn what_broke_off_and_cannot_be_repeated_in_time_may_have_run() {
    let mut p = Pair::ready_with(|policy| policy.request_ceiling = Some(Duration::from_secs(3)));
    p.request(7, "resources/list");
    p.call(8, "busy");
    unanswered(&mut p, Id::Int(8), rejected(503, Some(4)));
    unanswered(&mut p, Id::Int(7), RequestFailure::Lost("reset".into()));
    p.forget();
    p.advance(3_000);
    let failures = p.failures();
    let outcomes: Vec<_> = failures
        .iter()
        .map(|f| (f.id.clone(), f.outcome()))
        .collect();
    assert_eq!(outcomes, [(7.into(), "unknown"), (8.into(), "rejected")]);
}

#[test]
fn what_may_have_run_before_is_not_called_unexecuted() {
    for failure in [
        rejected(413, None),
        rejected(403, None),
        rejected(503, Some(3_600)),
    ] {
        let mut p = Pair::ready();
        p.request(7, "resources/list");
        p.die(Exit::Code(1));
        p.up();
        p.own_result(1, WELCOME);
        p.forget();
        unanswered(&mut p, Id::Int(7), failure);
        assert_eq!(p.failure().outcome(), "unknown");
    }
}
