//! What waits while there is no server, for how long, and how much of it; and how long a request
//! may take that was sent.

use std::time::Duration;

use outlive_core::cause::Exit;
use outlive_core::event::{Direction, DropReason};
use outlive_core::policy::Policy;
use outlive_core::{Input, LinkInput};
use serde_json::json;

use crate::pair::*;

const NOTE: &str = r#"{"jsonrpc":"2.0","method":"notifications/roots/list_changed"}"#;

fn down_with(change: impl FnOnce(&mut Policy)) -> Pair {
    let mut p = Pair::ready_with(change);
    p.die(Exit::Code(1));
    p.forget();
    p
}

#[test]
fn a_held_request_is_given_up_after_half_a_minute() {
    let mut p = down_with(|_| ());
    p.advance(1_000);
    p.call(7, "any");
    p.advance(29_999);
    assert_eq!(p.at_host(), [""; 0]);
    p.advance(1);
    let failure = p.failure();
    assert_eq!(
        failure.message,
        "The server exited with code 1 and is not back yet, so tool \"any\" was not executed (it was \
         held for 30 s). Call again to try the server again."
    );
    assert_eq!(
        (failure.kind(), failure.outcome(), failure.code),
        ("unavailable", "not_sent", -31002)
    );
    assert_eq!(failure.about["retryable"], true);
    p.revive();
    assert_eq!(p.session.sizes().queue, 0);
}

#[test]
fn before_the_first_server_there_is_no_cause_to_name() {
    let mut p = Pair::new(Policy::default());
    p.call(7, "any");
    p.advance(30_000);
    let failure = p.failure();
    assert_eq!(
        failure.message,
        "The server is not running yet, so tool \"any\" was not executed (it was held for 30 s). Call \
         again to try the server again."
    );
    assert_eq!(failure.about.get("cause"), None);
}

#[test]
fn initialize_waits_as_long_as_its_server_may_start() {
    let mut p = Pair::new(Policy::default());
    p.host(INITIALIZE);
    p.advance(299_999);
    assert_eq!(p.at_host(), [""; 0]);
}

#[test]
fn the_ceiling_counts_while_a_request_is_held() {
    let mut p = down_with(|policy| policy.request_ceiling = Some(Duration::from_secs(9)));
    p.call(7, "any");
    p.advance(8_999);
    assert_eq!(p.at_host(), [""; 0]);
    p.advance(1);
    let failure = p.failure();
    assert_eq!(failure.kind(), "unavailable");
    assert!(failure.message.contains("was held for 9 s"), "{failure:?}");
}

#[test]
fn more_than_the_limit_is_refused() {
    let mut p = down_with(|policy| policy.limits.held = 2);
    p.call(7, "any");
    p.call(8, "any");
    assert_eq!(p.at_host(), [""; 0]);
    p.call(9, "any");
    let failure = p.failure();
    assert_eq!(failure.id, 9);
    assert_eq!(
        failure.message,
        "Too many requests are already waiting for the server (the limit is 2: --max-held), so tools/call was not \
         accepted. It was not executed; call again later."
    );
    assert_eq!(
        failure.about,
        json!({"kind": "unavailable", "outcome": "not_sent", "generation": 2, "retryable": true, "limit": 2})
    );
    assert_eq!(p.session.sizes().held.0, 2);
    // Once there is a server, there is no limit to what it is sent at once.
    p.revive();
    for id in 10..20 {
        p.call(id, "any");
    }
    assert_eq!(p.at_link().len(), 10);
}

#[test]
fn bytes_are_limited_too_but_one_message_always_fits() {
    let line = call(7, "any");
    let mut p = down_with(|policy| {
        policy.limits.held_bytes = 2 * line.len();
        policy.limits.message = line.len();
    });
    p.call(7, "any");
    p.call(8, "any");
    assert_eq!(p.at_host(), [""; 0], "exactly the limit");
    p.call(9, "any");
    assert_eq!(p.failure().kind(), "unavailable");
    let mut p = down_with(|policy| {
        policy.limits.held_bytes = 1;
        policy.limits.message = line.len();
    });
    p.call(7, "any");
    assert_eq!(p.at_host(), [""; 0]);
    assert_eq!(p.session.sizes().held, (1, line.len()));
    p.call(8, "any");
    assert_eq!(p.failure().kind(), "unavailable");
}

#[test]
fn notifications_take_room_from_requests_and_give_it_back() {
    let line = call(7, "any");
    let mut p = down_with(|policy| {
        policy.limits.held_bytes = line.len() + NOTE.len() - 1;
        policy.limits.message = 1;
    });
    p.host(NOTE);
    assert_eq!(p.session.sizes().note_bytes, NOTE.len());
    p.call(7, "any");
    assert_eq!(p.failure().kind(), "unavailable");
    p.revive();
    assert_eq!(p.session.sizes().note_bytes, 0);
}

#[test]
fn notifications_keep_their_place_and_are_dropped_after_half_a_minute() {
    let mut p = down_with(|_| ());
    p.host(NOTE);
    p.advance(29_999);
    assert_eq!(p.drops(), []);
    p.advance(1);
    assert_eq!(
        p.drops(),
        [(
            Direction::ToServer,
            DropReason::NoServer,
            "notifications/roots/list_changed".into()
        )]
    );
    assert_eq!(p.session.sizes().note_bytes, 0);
    p.up();
    p.forget();
    p.own_result(1, WELCOME);
    assert_eq!(p.at_link(), [INITIALIZED]);
}

#[test]
fn notifications_beyond_the_limit_are_dropped() {
    let mut p = down_with(|policy| policy.limits.held = 2);
    p.call(7, "any");
    p.host(NOTE);
    assert_eq!(p.drops(), []);
    p.host(NOTE);
    assert_eq!(p.drops().len(), 1);
    let mut p = down_with(|policy| policy.limits.held_bytes = 2 * NOTE.len());
    p.host(NOTE);
    p.host(NOTE);
    assert_eq!(p.drops(), [], "exactly the limit");
    p.host(NOTE);
    assert_eq!(p.drops().len(), 1);
    let size = call(7, "any").len();
    let mut p = down_with(|policy| policy.limits.held_bytes = size + NOTE.len() - 1);
    p.call(7, "any");
    p.host(NOTE);
    assert_eq!(p.drops().len(), 1, "requests count as well");
}

#[test]
fn a_notification_does_not_overtake_a_request_that_waits() {
    let mut p = Pair::ready();
    p.call(7, "slow");
    p.cancel(7);
    p.call(8, "next");
    p.forget();
    p.host(NOTE);
    assert_eq!(p.at_link(), [""; 0]);
    p.own_result(1, "{}");
    assert_eq!(p.at_link(), [call(8, "next").as_str(), NOTE]);
    p.host(NOTE);
    assert_eq!(p.at_link(), [NOTE], "alone, it need not wait for a suspect");
}

#[test]
fn a_request_behind_a_notification_waits_its_turn() {
    let mut p = down_with(|_| ());
    p.host(NOTE);
    p.call(7, "any");
    p.up();
    p.forget();
    p.own_result(1, WELCOME);
    assert_eq!(p.at_link(), [INITIALIZED, NOTE, &call(7, "any")]);
}

#[test]
fn an_idle_bound_is_counted_from_the_last_progress() {
    let mut p = Pair::ready_with(|policy| policy.request_timeout = Some(Duration::from_secs(5)));
    p.host(r#"{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"long","_meta":{"progressToken":"t"}}}"#);
    p.call(8, "long");
    p.advance(3_000);
    let progress = r#"{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":"t","progress":1}}"#;
    p.forget();
    p.server(progress);
    assert_eq!(p.at_host(), [progress]);
    p.advance(1_999);
    assert_eq!(p.at_host(), [""; 0]);
    p.advance(1);
    let failure = p.failure();
    assert_eq!((failure.id.clone(), failure.code), (json!(8), -31003));
    assert_eq!(
        failure.message,
        "No answer and no progress of tool \"long\" within 5 s. It was cancelled; it may have \
         taken effect."
    );
    assert_eq!(
        failure.about,
        json!({"kind": "timeout", "outcome": "unknown", "generation": 1, "retryable": false, "after_ms": 5000})
    );
    assert_eq!(
        p.at_link()[0],
        r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":8,"reason":"no longer waited for"}}"#
    );
    p.advance(2_999);
    assert_eq!(p.at_host(), [""; 0]);
    p.advance(1);
    assert_eq!(p.failure().id, 7);
    p.forget();
    p.server(progress);
    p.result(8, "{}");
    let reasons: Vec<_> = p.drops().into_iter().map(|d| d.1).collect();
    assert_eq!(reasons, [DropReason::LateProgress, DropReason::LateAnswer]);
    assert_eq!(p.at_host(), [""; 0]);
}

#[test]
fn a_ceiling_is_not_moved_by_progress() {
    let mut p = Pair::ready_with(|policy| {
        policy.request_timeout = Some(Duration::from_secs(5));
        policy.request_ceiling = Some(Duration::from_secs(9));
    });
    p.host(r#"{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"long","_meta":{"progressToken":1}}}"#);
    for _ in 0..2 {
        p.advance(4_000);
        p.server(r#"{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":1,"progress":1}}"#);
    }
    p.forget();
    p.advance(999);
    assert_eq!(p.at_host(), [""; 0]);
    p.advance(1);
    let failure = p.failure();
    assert_eq!(
        failure.message,
        "No answer of tool \"long\" within 9 s. It was cancelled; it may have taken effect."
    );
    assert_eq!(failure.about["after_ms"], 9_000);
}

#[test]
fn a_ceiling_alone_is_one_too_and_progress_without_a_bound_sets_none() {
    let mut p = Pair::ready_with(|policy| policy.request_ceiling = Some(Duration::from_secs(9)));
    p.call(7, "long");
    p.advance(8_999);
    assert_eq!(p.at_host(), [""; 0]);
    p.advance(1);
    assert_eq!(p.failure().kind(), "timeout");
    let mut p = Pair::ready();
    p.host(r#"{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"long","_meta":{"progressToken":1}}}"#);
    p.server(r#"{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":1,"progress":1}}"#);
    p.forget();
    p.advance(10_000_000);
    assert_eq!(p.at_host(), [""; 0]);
}

#[test]
fn the_clock_of_a_request_starts_anew_when_it_is_sent_again() {
    let mut p = Pair::ready_with(|policy| policy.request_timeout = Some(Duration::from_secs(5)));
    p.request(7, "tools/list");
    p.advance(4_000);
    p.die(Exit::Code(1));
    p.revive();
    p.advance(4_999);
    assert_eq!(p.at_host(), [""; 0]);
    p.advance(1);
    assert_eq!(p.failure().kind(), "timeout");
}

#[test]
fn initialize_has_no_bound_but_its_own() {
    let mut policy = Policy::default();
    policy.request_timeout = Some(Duration::from_secs(1));
    let mut p = Pair::new(policy);
    p.up();
    p.host(INITIALIZE);
    p.forget();
    p.advance(50_000);
    assert_eq!(p.at_host(), [""; 0]);
}

#[test]
fn time_that_nobody_lived_through_is_not_counted() {
    // Late by five seconds is a busy machine; by more, one that slept.
    for (woken, both) in [(35_000, true), (35_001, false)] {
        let mut p = down_with(|_| ());
        p.call(7, "any");
        p.advance(4_000);
        p.call(8, "any");
        p.sleep(woken - 4_000);
        p.feed(Input::Tick);
        let failed: Vec<_> = p.failures().iter().map(|f| f.id.clone()).collect();
        if both {
            assert_eq!(failed, [json!(7), json!(8)]);
            continue;
        }
        assert_eq!(failed, [json!(7)]);
        p.advance(3_999);
        assert_eq!(p.at_host(), [""; 0]);
        p.advance(1);
        assert_eq!(p.failure().id, 8);
    }
}

#[test]
fn sleep_kills_nobody() {
    let mut p = Pair::ready();
    p.advance(30_000);
    p.sleep(3_600_000);
    p.forget();
    p.feed(Input::Tick);
    p.own_result(1, "{}");
    assert_eq!(p.states(), []);
    p.advance(29_999);
    assert_eq!(p.at_link(), [""; 0]);
    p.advance(1);
    assert_eq!(p.at_link(), [ping(1, 2)]);
}

#[test]
fn published_moments_are_on_the_drivers_clock() {
    let mut p = Pair::ready();
    p.advance(29_999);
    p.sleep(3_600_000);
    p.feed(Input::Tick);
    p.forget();
    p.die(Exit::Code(1));
    let states = p.states();
    let [outlive_core::State::Down { retry_at, .. }, _] = &states[..] else {
        panic!("{states:?}")
    };
    assert_eq!(retry_at.since_start().as_millis() as u64, p.now_ms());
    let mut p = Pair::ready();
    p.advance(29_999);
    p.sleep(3_600_000);
    p.feed(Input::Tick);
    p.forget();
    p.eof();
    let states = p.states();
    let [outlive_core::State::Down { retry_at, .. }] = &states[..] else {
        panic!("{states:?}")
    };
    assert_eq!(retry_at.since_start().as_millis() as u64, p.now_ms());
}

#[test]
fn a_host_that_sends_faster_than_its_server_works_is_slowed_down() {
    let mut p = Pair::ready_with(|policy| {
        policy.limits.in_flight = 2;
        policy.limits.held = 1;
    });
    p.call(7, "any");
    p.call(8, "any");
    assert!(p.session.wants_host(), "what is more can wait");
    p.forget();
    p.call(9, "any");
    assert_eq!(p.at_link(), [""; 0], "two in flight are enough");
    assert!(!p.session.wants_host());
    p.call(10, "any");
    assert_eq!(p.at_host(), [""; 0], "what was on its way comes in");
    p.call(11, "any");
    assert_eq!(p.failure().kind(), "unavailable");
    p.forget();
    p.result(7, "{}");
    assert_eq!(p.at_link(), [call(9, "any")]);
    assert!(!p.session.wants_host());
    p.cancel(8);
    assert!(p.session.wants_host());
}

#[test]
fn bytes_slow_the_host_down_too() {
    let line = call(7, "any");
    let mut p = Pair::ready_with(|policy| {
        policy.limits.in_flight_bytes = 2 * line.len();
        policy.limits.held_bytes = line.len();
    });
    p.call(7, "any");
    p.call(8, "any");
    assert!(p.session.wants_host());
    p.forget();
    p.call(9, "any");
    assert_eq!(p.at_link(), [""; 0]);
    assert!(!p.session.wants_host());
    assert_eq!(p.session.sizes().ledger, (3, 3 * line.len()));
    // One request is always sent, however long it is.
    let mut p = Pair::ready_with(|policy| policy.limits.in_flight_bytes = 0);
    p.call(7, "any");
    assert_eq!(p.at_link(), [line]);
    p.call(8, "any");
    assert_eq!(p.at_link(), [""; 0]);
    p.result(7, "{}");
    assert_eq!(p.at_link(), [call(8, "any")]);
}

#[test]
fn what_a_server_waits_to_hear_comes_through() {
    let mut p = Pair::ready_with(|policy| {
        policy.limits.in_flight = 1;
        policy.limits.held = 1;
    });
    p.call(7, "any");
    p.call(8, "any");
    assert!(!p.session.wants_host());
    p.server(r#"{"jsonrpc":"2.0","id":1,"method":"roots/list"}"#);
    assert!(p.session.wants_host());
    p.host(r#"{"jsonrpc":"2.0","id":1,"result":{"roots":[]}}"#);
    assert!(!p.session.wants_host());
    p.die(Exit::Code(1));
    assert!(
        p.session.wants_host(),
        "without a server nobody is slowed down"
    );
}

#[test]
fn what_comes_after_a_death_is_held_from_then_on() {
    let mut p = Pair::ready();
    p.request(7, "ping");
    p.advance(20_000);
    p.link(LinkInput::Exited {
        exit: Exit::Code(1),
        sent: 2,
    });
    p.forget();
    p.advance(29_999);
    assert_eq!(p.at_host(), [""; 0]);
    p.advance(1);
    let failure = p.failure();
    assert_eq!(
        (failure.kind(), failure.outcome()),
        ("unavailable", "not_sent"),
        "it never was"
    );
}

#[test]
fn one_that_is_given_up_takes_nobody_along() {
    let mut p = down_with(|_| ());
    p.call(7, "any");
    p.advance(10_000);
    p.call(8, "any");
    p.advance(20_000);
    assert_eq!(p.failure().id, 7);
    p.up();
    p.forget();
    p.own_result(1, WELCOME);
    assert_eq!(p.at_link(), [INITIALIZED, &call(8, "any")]);
}

#[test]
fn notifications_that_wait_slow_the_host_down_as_well() {
    let mut p = Pair::ready_with(|policy| {
        policy.limits.in_flight = 1;
        policy.limits.held_bytes = call(8, "any").len() + NOTE.len();
    });
    p.call(7, "any");
    p.call(8, "any");
    assert!(p.session.wants_host());
    p.host(NOTE);
    assert!(!p.session.wants_host());
    p.result(7, "{}");
    assert!(p.session.wants_host());
}
