//! How soon the next server is made, when that is given up, and the ways out.

use std::time::Duration;

use outlive_core::cause::{Exit, StartFailure};
use outlive_core::policy::Policy;
use outlive_core::{Event, Input, State};
use serde_json::json;

use crate::pair::*;

/// No waiting between attempts, and three failures open the breaker.
fn quick(policy: &mut Policy) {
    policy.backoff.base = Duration::ZERO;
    policy.backoff.cap = Duration::ZERO;
    policy.breaker.failures = 3;
}

/// Three servers have died at once: the breaker is open at 0.
fn broken() -> Pair {
    let mut p = Pair::ready_with(quick);
    for _ in 0..2 {
        p.die(Exit::Code(1));
        p.revive();
    }
    p.die(Exit::Code(1));
    p
}

fn connects_at(p: &mut Pair, generation: u64, ms: u64) {
    assert_eq!(p.orders(), [""; 0]);
    p.advance(ms - 1);
    assert_eq!(p.orders(), [""; 0], "one millisecond early");
    p.advance(1);
    assert_eq!(p.orders(), [format!("connect {generation}")]);
}

#[test]
fn the_first_restart_is_immediate_and_the_next_is_made_when_it_was_announced() {
    let mut p = Pair::ready();
    p.die(Exit::Code(1));
    assert_eq!(p.orders(), ["kill 1", "connect 2"]);
    p.revive();
    p.die(Exit::Code(1));
    assert_eq!(p.orders(), ["kill 2"]);
    let states = p.states();
    let [State::Down { retry_at, .. }] = &states[..] else {
        panic!("{states:?}")
    };
    let wait = retry_at.since_start();
    assert!(
        wait > Duration::ZERO && wait <= Duration::from_millis(200),
        "{wait:?}"
    );
    assert_eq!(p.session.deadline(), Some(*retry_at));
    p.advance(200);
    assert_eq!(p.orders(), ["connect 3"]);
    assert_eq!(p.states(), [State::Connecting { attempt: 3 }]);
}

#[test]
fn too_many_failures_open_the_breaker() {
    let mut p = Pair::ready_with(quick);
    for _ in 0..2 {
        p.die(Exit::Code(1));
        p.revive();
    }
    p.request(7, "ping");
    p.forget();
    p.die(Exit::Code(1));
    let states = p.states();
    let [State::Failed { retry_at, .. }] = &states[..] else {
        panic!("{states:?}")
    };
    assert_eq!(retry_at.since_start(), Duration::from_secs(30));
    let failure = p.failure();
    assert_eq!(
        (failure.kind(), failure.outcome()),
        ("connection_lost", "unknown"),
        "nobody waits for a server that may not come"
    );
    assert_eq!(p.orders(), ["kill 3"]);
    connects_at(&mut p, 4, 30_000);
}

#[test]
fn what_was_held_is_told_how_long_when_the_breaker_opens() {
    let mut p = Pair::ready_with(quick);
    for _ in 0..2 {
        p.die(Exit::Code(1));
        p.up();
        p.at_link();
    }
    p.call(7, "any");
    let note = r#"{"jsonrpc":"2.0","method":"notifications/roots/list_changed"}"#;
    p.host(note);
    p.advance(2_000);
    p.forget();
    p.die(Exit::Code(1));
    let failure = p.failure();
    assert_eq!(
        failure.message,
        "The server exited with code 1 during the handshake (command: the server), so tool \
         \"any\" was not executed (it was held for 2 s). Call again to try the server again."
    );
    assert_eq!(failure.about["retry_after_ms"], 0);
    p.call(8, "any");
    p.up();
    p.forget();
    p.own_result(1, WELCOME);
    assert_eq!(
        p.at_link(),
        [INITIALIZED, note, &call(8, "any")],
        "the notification may still arrive"
    );
}

#[test]
fn callers_are_refused_until_an_attempt_for_them_is_due() {
    let mut p = broken();
    p.forget();
    p.call(7, "any");
    let failure = p.failure();
    assert_eq!(
        failure.message,
        "The server exited with code 1 and is not back yet, so tools/call was not executed. \
         Call again in 1 s to try the server again."
    );
    assert_eq!(failure.about["retry_after_ms"], 1_000);
    p.advance(999);
    p.call(8, "any");
    assert_eq!(p.failure().about["retry_after_ms"], 1);
    p.forget();
    p.advance(1);
    assert_eq!(p.orders(), [""; 0], "nobody calls, nothing happens");
    p.call(9, "any");
    assert_eq!(p.at_host(), [""; 0]);
    assert_eq!(p.states(), [State::Connecting { attempt: 4 }]);
    assert_eq!(p.orders(), ["connect 4"]);
    p.call(10, "any");
    assert_eq!(p.at_host(), [""; 0], "an attempt is under way");
    // In vain: the next one who calls waits twice as long.
    p.unmade(StartFailure::NotFound);
    let failed: Vec<_> = p.failures().iter().map(|f| f.id.clone()).collect();
    assert_eq!(failed, [json!(9), json!(10)]);
    p.call(11, "any");
    assert_eq!(p.failure().about["retry_after_ms"], 2_000);
    p.advance(2_000);
    p.forget();
    p.call(12, "any");
    assert_eq!(p.orders(), ["connect 5"]);
    p.unmade(StartFailure::NotFound);
    p.forget();
    p.call(13, "any");
    assert_eq!(p.failure().about["retry_after_ms"], 4_000);
}

#[test]
fn nobody_is_told_to_wait_longer_than_the_breakers_own_attempt_takes_to_come() {
    let mut p = broken();
    p.advance(29_500);
    p.call(7, "any");
    p.unmade(StartFailure::NotFound);
    // Open until 59,500; the caller's next turn is at 31,500.
    p.advance(1_000);
    p.forget();
    p.call(8, "any");
    assert_eq!(p.failure().about["retry_after_ms"], 1_000);
}

#[test]
fn a_call_that_succeeds_finds_the_way_back() {
    let mut p = broken();
    p.advance(1_000);
    p.call(7, "any");
    p.up();
    p.forget();
    p.own_result(1, WELCOME);
    let generation = p.newest();
    assert_eq!(p.states(), [State::Ready { generation }]);
    assert_eq!(p.at_link(), [INITIALIZED, &call(7, "any")]);
    // Until it has proved itself, one more failure opens the breaker again.
    p.advance(9_999);
    p.forget();
    p.die(Exit::Code(1));
    assert!(matches!(p.states()[..], [State::Failed { .. }]));
}

#[test]
fn a_link_that_proves_itself_closes_the_breaker() {
    let mut p = broken();
    p.advance(30_000);
    p.revive();
    p.advance(10_000);
    p.forget();
    p.die(Exit::Code(1));
    assert!(matches!(
        p.states()[..],
        [State::Down { .. }, State::Connecting { attempt: 1 }]
    ));
    assert_eq!(p.orders(), ["kill 4", "connect 5"]);
}

#[test]
fn a_caller_shortens_a_long_wait_to_one_attempt_a_second() {
    let mut p = Pair::ready_with(|policy| {
        policy.backoff.base = Duration::from_secs(15);
    });
    p.die(Exit::Code(1));
    p.revive();
    p.die(Exit::Code(1));
    p.forget();
    let planned = p.session.deadline().expect("an attempt");
    assert!(
        planned.since_start() > Duration::from_millis(1_500),
        "this seed draws a long wait: {planned:?}"
    );
    p.advance(200);
    p.call(7, "any");
    connects_at(&mut p, 3, 800);
    // One that comes later finds it due at once.
    p.die(Exit::Code(1));
    p.advance(1_500);
    p.forget();
    p.call(8, "any");
    assert_eq!(p.orders(), ["connect 4"]);
}

#[test]
fn a_caller_does_not_put_off_what_is_due_sooner() {
    let mut p = Pair::ready();
    p.die(Exit::Code(1));
    p.revive();
    p.die(Exit::Code(1));
    p.forget();
    let planned = p.session.deadline();
    p.call(7, "any");
    assert_eq!(p.session.deadline(), planned);
}

#[test]
fn a_restart_on_request_forgets_all_failures() {
    let mut p = broken();
    p.forget();
    p.feed(Input::Restart);
    assert_eq!(p.orders(), ["connect 4"]);
    assert_eq!(p.states(), [State::Connecting { attempt: 1 }]);
    p.revive();
    p.die(Exit::Code(1));
    assert!(matches!(
        p.states()[..],
        [State::Down { .. }, State::Connecting { attempt: 2 }]
    ));
}

#[test]
fn a_server_that_changed_its_version_is_tried_again_like_any_other() {
    let mut p = Pair::ready();
    p.die(Exit::Code(1));
    p.up();
    p.own_result(1, r#"{"protocolVersion":"1999-01-01"}"#);
    p.old_link(
        2,
        outlive_core::LinkInput::Exited {
            exit: Exit::Code(0),
            sent: 1,
        },
    );
    p.forget();
    connects_at(&mut p, 3, 30_000);
    p.up();
    p.forget();
    p.own_result(1, WELCOME);
    assert!(matches!(p.states()[..], [State::Ready { .. }]));
}

#[test]
fn the_next_server_waits_until_the_last_one_has_left() {
    let mut p = Pair::ready();
    p.feed(Input::Restart);
    assert_eq!(p.orders(), ["close input 1"]);
    p.advance(1_999);
    assert_eq!(p.orders(), [""; 0]);
    p.die(Exit::Code(0));
    assert_eq!(p.orders(), ["kill 1", "connect 2"], "its children go too");
    assert!(p.events().iter().any(|event| matches!(
        event,
        Event::Lost { cause, in_flight: 0, .. } if cause.kind() == "requested"
    )));
}

#[test]
fn a_restart_on_request_is_waited_for_even_while_the_last_server_is_leaving() {
    let mut p = Pair::ready();
    p.die(Exit::Code(1));
    p.up();
    p.own_result(1, r#"{"protocolVersion":"1999-01-01"}"#);
    p.forget();
    p.feed(Input::Restart);
    p.call(7, "any");
    assert_eq!(p.at_host(), [""; 0], "the next attempt is due");
    assert_eq!(p.orders(), [""; 0]);
    p.advance(2_000);
    assert_eq!(p.orders(), ["terminate 2"]);
}

#[test]
fn a_seed_draws_the_same_everywhere() {
    // The first numbers of SplitMix64 from its published seed, as fractions of 200 and 400 ms.
    let drawn = [6457827717110365317_u64, 3203168211198807973];
    let mut p = Pair::seeded(Policy::default(), 1234567);
    p.unmade(StartFailure::NotFound);
    for (n, number) in drawn.into_iter().enumerate() {
        p.unmade(StartFailure::NotFound);
        let most = Duration::from_millis(200 << n);
        let wait = most.mul_f64((number >> 11) as f64 / (1_u64 << 53) as f64);
        let last = p.states().pop();
        let Some(State::Down { retry_at, .. }) = last else {
            panic!("{last:?}")
        };
        let now = Duration::from_millis(p.now_ms());
        assert_eq!(retry_at.since_start(), now + wait);
        p.advance(400);
    }
}

#[test]
fn a_failure_as_old_as_the_window_still_counts() {
    for (window, opens) in [(60_000, true), (59_999, false)] {
        let mut p = Pair::ready_with(|policy| {
            policy.breaker.failures = 2;
            policy.breaker.window = Duration::from_millis(window);
        });
        p.die(Exit::Code(1));
        p.up();
        p.forget();
        // The replayed handshake is given up after a minute.
        p.advance(60_000);
        let states = p.states();
        let failed = matches!(states[..], [State::Failed { .. }]);
        assert_eq!(failed, opens, "{states:?}");
    }
}
