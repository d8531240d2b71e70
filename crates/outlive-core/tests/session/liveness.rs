//! Signs of life: asked for when they are missed, and never of a server that is merely busy.

use outlive_core::cause::{Exit, Reason};
use outlive_core::policy::Cancel;
use outlive_core::{Event, Input, LinkInput, State};
use std::time::Duration;

use crate::pair::*;

fn down_reason(p: &mut Pair) -> Reason {
    let states = p.states();
    match &states[..] {
        [State::Down { cause, .. }, ..] => cause.reason.clone(),
        _ => panic!("{states:?}"),
    }
}

#[test]
fn silence_of_half_a_minute_is_probed() {
    let mut p = Pair::ready();
    p.advance(29_999);
    assert_eq!(p.all(), [""; 0]);
    p.advance(1);
    assert_eq!(p.all(), [format!("link: {}", ping(1, 1))]);
    p.advance(10);
    p.own_result(1, "{}");
    p.advance(29_999);
    assert_eq!(p.at_link(), [""; 0]);
    p.advance(1);
    assert_eq!(p.at_link(), [ping(1, 2)]);
}

#[test]
fn anything_heard_puts_the_probe_off() {
    let mut p = Pair::ready();
    p.advance(20_000);
    p.stderr("still here");
    p.advance(29_999);
    assert_eq!(p.at_link(), [""; 0]);
    p.advance(1);
    assert_eq!(p.at_link(), [ping(1, 1)]);
    // Its verdict, too.
    p.advance(29_999);
    p.server(r#"{"jsonrpc":"2.0","method":"notifications/message","params":{}}"#);
    p.forget();
    p.advance(29_999);
    assert_eq!(p.at_link(), [""; 0]);
    p.advance(1);
    assert_eq!(p.at_link(), [list_tools(1, 2)]);
}

#[test]
fn a_server_that_answers_neither_probe_is_unresponsive() {
    let mut p = Pair::ready();
    p.advance(59_999);
    assert_eq!(p.at_link(), [ping(1, 1)]);
    p.advance(1);
    assert_eq!(p.at_link(), [list_tools(1, 2)]);
    p.forget();
    p.advance(29_999);
    assert_eq!(p.states(), []);
    p.forget();
    p.advance(1);
    assert_eq!(
        down_reason(&mut p),
        Reason::Unresponsive(Duration::from_secs(90))
    );
    assert_eq!(p.orders(), ["terminate 1"]);
    p.advance(500);
    assert_eq!(p.orders(), ["kill 1"]);
    p.die(Exit::Signal(9));
    assert_eq!(p.orders(), ["kill 1", "connect 2"]);
}

#[test]
fn a_server_that_is_heard_is_alive_though_it_says_nothing() {
    let mut p = Pair::ready();
    for _ in 0..10 {
        p.advance(29_999);
        p.link(LinkInput::Alive);
    }
    assert_eq!(p.at_link(), [""; 0], "nobody had to ask");
    p.advance(30_000);
    assert_eq!(p.at_link(), [ping(1, 1)]);
    p.advance(29_999);
    p.link(LinkInput::Alive);
    p.forget();
    p.advance(29_999);
    assert_eq!((p.at_link(), p.states()), (vec![], vec![]));
}

#[test]
fn a_server_that_knows_no_ping_is_not_asked_again() {
    let mut p = Pair::ready();
    p.advance(60_000);
    p.own_result(2, r#"{"tools":[]}"#);
    p.forget();
    p.advance(200_000);
    assert_eq!(p.at_link(), [""; 0]);
    // Not after a cancellation either, nor its successors.
    p.call(7, "slow");
    p.cancel(7);
    assert_eq!(p.at_link(), [call(7, "slow"), cancelled(7)]);
    p.call(8, "next");
    assert_eq!(p.at_link(), [call(8, "next")]);
    p.die(Exit::Signal(9));
    p.revive();
    p.advance(200_000);
    assert_eq!(p.at_link(), [""; 0]);
}

#[test]
fn an_answer_to_the_first_probe_after_the_second_was_sent_counts_as_life_only() {
    let mut p = Pair::ready();
    p.advance(60_000);
    p.own_result(1, "{}");
    p.forget();
    p.advance(29_999);
    assert_eq!(p.states(), []);
    p.own_result(2, r#"{"tools":[]}"#);
    p.forget();
    p.advance(30_000);
    assert_eq!(p.all(), [""; 0]);
}

#[test]
fn a_busy_server_is_not_probed_but_looked_at() {
    let mut p = Pair::ready();
    p.call(7, "long");
    p.forget();
    p.advance(999);
    assert_eq!(p.all(), [""; 0]);
    p.advance(1);
    assert_eq!(p.all(), ["inspect 1"]);
    p.link(LinkInput::Inspected { stopped: false });
    p.advance(4_999);
    assert_eq!(p.all(), [""; 0]);
    p.advance(1);
    assert_eq!(p.all(), ["inspect 1"]);
    p.advance(600_000);
    assert_eq!(p.orders().len(), 120);
    assert_eq!(p.all(), [""; 0], "and that is all, however long it takes");
}

#[test]
fn a_server_that_speaks_is_looked_at_a_second_later() {
    let mut p = Pair::ready();
    p.call(7, "long");
    p.advance(1_000);
    p.advance(3_000);
    p.stderr("working");
    p.forget();
    p.advance(999);
    assert_eq!(p.orders(), [""; 0]);
    p.advance(1);
    assert_eq!(p.orders(), ["inspect 1"]);
}

#[test]
fn an_idle_server_is_not_looked_at() {
    let mut p = Pair::ready();
    p.advance(29_000);
    assert_eq!(p.orders(), [""; 0]);
    p.advance(1_999);
    assert_eq!(p.orders(), [""; 0]);
    p.advance(1);
    assert_eq!(p.orders(), ["inspect 1"], "a probe is out");
}

#[test]
fn a_stopped_server_is_killed_after_two_seconds() {
    let mut p = Pair::with_tools();
    p.call(7, "risky");
    p.forget();
    p.advance(1_000);
    p.link(LinkInput::Inspected { stopped: true });
    p.forget();
    p.advance(499);
    assert_eq!(p.orders(), [""; 0]);
    for _ in 0..3 {
        p.advance(1);
        assert_eq!(p.orders(), ["inspect 1"], "closely");
        p.link(LinkInput::Inspected { stopped: true });
        p.advance(499);
    }
    assert_eq!(p.at_host(), [""; 0]);
    p.link(LinkInput::Inspected { stopped: true });
    assert_eq!(p.at_host(), [""; 0], "1,999 ms are not two seconds");
    p.advance(1);
    assert_eq!(p.orders(), ["inspect 1"]);
    p.link(LinkInput::Inspected { stopped: true });
    assert_eq!(p.all(), ["kill 1", "state down"]);
    p.die(Exit::Signal(9));
    assert_eq!(
        p.failure().message,
        "The server was found suspended (stopped) and was killed while running \
         tool \"risky\". The server is being restarted; the call may have taken effect, so it was \
         not repeated. Calling again is safe only if doing it twice is."
    );
    assert_eq!(p.orders(), ["kill 1", "connect 2"]);
}

#[test]
fn what_a_stopped_server_had_not_taken_was_not_executed() {
    let mut p = Pair::with_tools();
    p.call(7, "risky");
    p.call(8, "risky");
    p.advance(1_000);
    p.link(LinkInput::Inspected { stopped: true });
    p.advance(2_000);
    p.link(LinkInput::Inspected { stopped: true });
    p.forget();
    p.die_unread(Exit::Signal(9), 1);
    let failure = p.failure();
    assert_eq!(failure.id, 7);
    assert_eq!(failure.about["cause"]["kind"], "stopped");
}

#[test]
fn a_stopped_server_that_is_slow_to_die_is_not_waited_for() {
    let mut p = Pair::with_tools();
    p.call(7, "risky");
    p.advance(1_000);
    p.link(LinkInput::Inspected { stopped: true });
    p.advance(2_000);
    p.link(LinkInput::Inspected { stopped: true });
    p.forget();
    p.advance(99);
    assert_eq!(p.all(), [""; 0]);
    p.advance(1);
    assert_eq!(p.failure().outcome(), "unknown");
    assert_eq!(p.orders(), ["kill 1"]);
    p.advance(999);
    assert_eq!(p.orders(), [""; 0]);
    p.advance(1);
    assert_eq!(p.orders(), ["connect 2"]);
}

#[test]
fn a_server_that_was_stopped_for_a_moment_is_none() {
    let mut p = Pair::ready();
    p.call(7, "long");
    p.advance(1_000);
    p.link(LinkInput::Inspected { stopped: true });
    p.advance(1_500);
    p.link(LinkInput::Inspected { stopped: false });
    p.advance(500);
    p.link(LinkInput::Inspected { stopped: true });
    p.advance(1_999);
    p.link(LinkInput::Inspected { stopped: true });
    assert_eq!(p.states(), []);
    p.advance(1);
    p.link(LinkInput::Inspected { stopped: true });
    assert_eq!(down_reason(&mut p), Reason::Stopped);
}

#[test]
fn a_stopped_server_is_found_out_during_the_handshake_too() {
    let mut p = Pair::ready();
    p.die(Exit::Signal(9));
    p.up();
    p.forget();
    p.advance(1_000);
    assert_eq!(p.orders(), ["inspect 2"]);
    p.link(LinkInput::Inspected { stopped: true });
    p.advance(2_000);
    p.forget();
    p.link(LinkInput::Inspected { stopped: true });
    assert_eq!(p.orders(), ["kill 2"]);
}

#[test]
fn the_look_at_a_dying_server_is_of_no_use() {
    let mut p = Pair::ready();
    p.eof();
    p.forget();
    p.link(LinkInput::Inspected { stopped: true });
    p.advance(99);
    p.link(LinkInput::Inspected { stopped: true });
    assert_eq!(p.all(), [""; 0]);
}

#[test]
fn probes_can_be_turned_off() {
    let mut p = Pair::ready_with(|policy| policy.liveness.interval = None);
    p.advance(1_000_000);
    assert_eq!(p.all(), [""; 0]);
}

#[test]
fn nobody_is_probed_before_it_is_in_service() {
    let mut p = Pair::new(Default::default());
    p.up();
    p.host(INITIALIZE);
    p.forget();
    p.advance(50_000);
    assert_eq!(p.at_link(), [""; 0]);
}

#[test]
fn while_the_host_takes_nothing_silence_means_nothing() {
    let mut p = Pair::ready();
    p.call(7, "long");
    p.feed(Input::HostBlocked(true));
    p.forget();
    p.advance(100_000);
    assert_eq!(p.all(), [""; 0]);
    p.result(7, "{}");
    p.forget();
    p.advance(100_000);
    assert_eq!(p.all(), [""; 0]);
    p.feed(Input::HostBlocked(false));
    p.advance(29_999);
    assert_eq!(p.all(), [""; 0], "counted from now");
    p.advance(1);
    assert_eq!(p.at_link(), [ping(1, 1)]);
}

#[test]
fn a_probe_that_was_out_when_the_host_stalled_is_judged_from_its_return() {
    let mut p = Pair::ready();
    p.advance(30_000);
    p.feed(Input::HostBlocked(true));
    p.advance(100_000);
    p.feed(Input::HostBlocked(false));
    p.forget();
    p.advance(29_999);
    assert_eq!(p.at_link(), [""; 0]);
    p.advance(1);
    assert_eq!(p.at_link(), [list_tools(1, 2)]);
}

#[test]
fn an_expired_request_asks_for_a_sign_of_life_at_once() {
    let mut p = Pair::ready_with(|policy| {
        policy.request_timeout = Some(Duration::from_secs(5));
        policy.cancel = Cancel::Absorb;
    });
    p.call(7, "slow");
    p.forget();
    p.advance(5_000);
    assert_eq!(p.at_link(), [ping(1, 1)]);
    p.own_result(1, "{}");
    p.forget();
    p.advance(29_999);
    assert_eq!(p.at_link(), [""; 0], "once");
    // While something else is in flight it is busy, not dead.
    p.call(8, "slow");
    p.advance(2_000);
    p.call(9, "slow");
    p.forget();
    p.advance(3_000);
    assert_eq!(p.failure().kind(), "timeout");
    assert_eq!(p.at_link(), [""; 0]);
    p.advance(1_000);
    p.result(9, "{}");
    assert_eq!(p.at_link(), [ping(1, 2)], "now");
}

#[test]
fn a_request_that_comes_while_a_probe_is_out_stops_the_clock() {
    let mut p = Pair::ready();
    p.advance(30_000);
    p.call(7, "long");
    p.forget();
    p.advance(300_000);
    assert_eq!(p.at_link(), [""; 0]);
    assert_eq!(p.states(), []);
}

#[test]
fn a_link_that_has_been_in_service_for_a_while_is_trusted_again() {
    let mut p = Pair::ready();
    p.die(Exit::Code(1));
    p.revive();
    p.die(Exit::Code(1));
    p.advance(200);
    p.revive();
    p.advance(10_000);
    p.forget();
    p.die(Exit::Code(1));
    assert_eq!(
        p.events()
            .iter()
            .filter(|e| matches!(e, Event::State(State::Connecting { attempt: 1 })))
            .count(),
        1
    );
    assert_eq!(p.orders(), ["kill 3", "connect 4"], "at once");
}

#[test]
fn an_unreadable_answer_to_a_probe_is_a_sign_of_life() {
    let mut p = Pair::ready();
    p.advance(30_000);
    p.server(r#"{"jsonrpc":"2.0","id":"outlive-1-1"}"#);
    p.forget();
    p.advance(29_999);
    assert_eq!(p.at_link(), [""; 0]);
    p.advance(1);
    assert_eq!(p.at_link(), [ping(1, 2)]);
}

#[test]
fn a_server_that_was_killed_for_being_stopped_has_nothing_to_say_any_more() {
    let mut p = Pair::with_tools();
    p.call(7, "risky");
    p.advance(1_000);
    p.link(LinkInput::Inspected { stopped: true });
    p.advance(2_000);
    p.link(LinkInput::Inspected { stopped: true });
    p.forget();
    p.result(7, "{}");
    assert_eq!(p.all(), ["dropped"]);
    p.die(Exit::Signal(9));
    assert_eq!(p.failure().kind(), "connection_lost");
}
