//! The end.

use outlive_core::cause::Exit;
use outlive_core::event::{Direction, DropReason};
use outlive_core::policy::Cancel;
use outlive_core::{Event, Input, LinkInput, Policy, State};

use crate::pair::*;

const ABANDONED: &str = r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":7,"reason":"no longer waited for"}}"#;

#[test]
fn an_idle_session_ends_at_once_when_the_host_leaves() {
    let mut p = Pair::ready();
    p.feed(Input::HostClosed);
    assert_eq!(p.all(), ["draining", "state down", "close input 1"]);
    p.die(Exit::Code(0));
    assert_eq!(p.all(), ["kill 1", "state closed", "closed"]);
    assert_eq!(p.session.state(), &State::Closed);
    assert_eq!(p.session.deadline(), None);
    p.call(9, "any");
    p.feed(Input::Restart);
    p.feed(Input::Stop);
    p.advance(1_000_000);
    assert_eq!(p.all(), [""; 0], "nothing follows");
}

#[test]
fn what_the_host_asked_for_before_it_left_may_finish() {
    let mut p = Pair::ready();
    p.call(7, "any");
    p.forget();
    p.feed(Input::HostClosed);
    assert_eq!(p.events(), [Event::Draining { in_flight: 1 }]);
    p.advance(999);
    p.result(7, "{}");
    assert_eq!(p.at_host(), [r#"{"jsonrpc":"2.0","id":7,"result":{}}"#]);
    assert_eq!(p.orders(), ["close input 1"]);
}

#[test]
fn a_host_that_only_left_waits_for_a_server_to_come_and_one_that_is_gone_does_not() {
    for gone_later in [false, true] {
        let mut p = Pair::new(Policy::default());
        p.feed(Input::Start);
        p.up();
        p.request(1, "initialize");
        p.forget();
        let closes = |p: &mut Pair| p.orders().contains(&"close input 1".to_string());
        if gone_later {
            p.feed(Input::HostClosed);
            p.advance(2_000);
            assert!(!closes(&mut p));
        }
        p.feed(Input::HostGone);
        p.advance(999);
        assert!(!closes(&mut p));
        p.advance(1);
        assert!(closes(&mut p));
    }
}

#[test]
fn a_host_that_has_left_is_told_nothing_when_its_time_is_up() {
    let mut p = Pair::ready();
    p.call(7, "any");
    p.forget();
    p.feed(Input::HostClosed);
    p.advance(999);
    assert_eq!(p.at_link(), [""; 0]);
    p.forget();
    p.advance(1);
    assert_eq!(
        p.all(),
        [
            "inspect 1".to_string(),
            format!("link: {ABANDONED}"),
            "state down".into(),
            "close input 1".into()
        ],
        "and no ping: the server is leaving anyway"
    );
}

/// The server is stopped, and answers while it is: the host, which may read on, is told, once.
#[test]
fn what_a_server_answers_while_it_leaves_reaches_the_host() {
    let mut p = Pair::ready();
    p.call(7, "any");
    p.call(8, "any");
    p.call(9, "any");
    p.feed(Input::HostClosed);
    p.advance(1_000);
    p.forget();
    p.result(7, "{}");
    p.result(7, "{}");
    p.server(r#"{"jsonrpc":"2.0","method":"notifications/message","params":{}}"#);
    // Servers of mcp 1.x answer a cancellation, which was ours, with an error.
    p.server(r#"{"jsonrpc":"2.0","id":8,"error":{"code":0,"message":"Request cancelled"}}"#);
    p.server(r#"{"jsonrpc":"2.0","id":1,"method":"elicitation/create","params":{}}"#);
    assert_eq!(
        p.at_host(),
        [
            r#"{"jsonrpc":"2.0","id":7,"result":{}}"#,
            r#"{"jsonrpc":"2.0","method":"notifications/message","params":{}}"#
        ]
    );
    p.advance(2_000);
    assert_eq!(p.orders(), ["terminate 1"]);
    p.result(9, "{}");
    assert_eq!(p.at_host(), [r#"{"jsonrpc":"2.0","id":9,"result":{}}"#]);
    p.forget();
    p.die(Exit::Code(0));
    assert_eq!(p.all(), ["kill 1", "state closed", "closed"]);
    assert_eq!(p.session.sizes().ledger, (0, 0));
}

/// Where cancellations are kept from the server, its error is an answer like any other.
#[test]
fn an_error_of_a_leaving_server_that_was_told_of_no_cancellation_reaches_the_host() {
    let mut p = Pair::ready_with(|policy| policy.cancel = Cancel::Absorb);
    p.call(7, "any");
    p.feed(Input::HostClosed);
    p.advance(1_000);
    p.forget();
    let error = r#"{"jsonrpc":"2.0","id":7,"error":{"code":-1,"message":"no"}}"#;
    p.server(error);
    assert_eq!(p.at_host(), [error]);
}

/// A server that nothing ends is waited for no longer, and nothing follows.
#[test]
fn a_session_ends_although_its_last_server_does_not() {
    let mut p = Pair::ready();
    p.call(7, "any");
    p.feed(Input::HostClosed);
    p.advance(7_000);
    assert_eq!(p.orders().last().map(String::as_str), Some("closed"));
    p.forget();
    p.result(7, "{}");
    assert_eq!(p.all(), [""; 0]);
    assert_eq!(p.session.sizes().ledger, (0, 0));
}

#[test]
fn a_stop_gives_what_is_in_flight_a_second_and_then_an_answer() {
    let mut p = Pair::ready();
    p.call(7, "any");
    p.forget();
    p.feed(Input::Stop);
    p.advance(999);
    assert_eq!(p.at_host(), [""; 0]);
    p.forget();
    p.advance(1);
    let failure = p.failure();
    assert_eq!((failure.code, failure.kind()), (-31005, "shutting_down"));
    assert_eq!(
        failure.message,
        "The session is ending, so tool \"any\" was not finished. It may have taken effect."
    );
    assert_eq!(p.at_link(), [ABANDONED]);
    assert_eq!(p.orders(), ["inspect 1", "close input 1"]);
}

#[test]
fn the_last_server_is_asked_ever_more_firmly() {
    let mut p = Pair::ready();
    p.feed(Input::Stop);
    assert_eq!(p.orders(), ["close input 1"]);
    for (patience, order) in [(2_000, "terminate 1"), (3_000, "kill 1"), (1_000, "closed")] {
        p.advance(patience - 1);
        assert_eq!(p.orders(), [""; 0]);
        p.advance(1);
        assert_eq!(p.orders(), [order]);
    }
}

#[test]
fn a_second_stop_does_not_wait() {
    let mut p = Pair::ready();
    p.call(7, "any");
    p.forget();
    p.feed(Input::Stop);
    assert_eq!(p.at_host(), [""; 0]);
    p.feed(Input::Stop);
    assert_eq!(p.failure().kind(), "shutting_down");
    assert_eq!(p.orders(), ["close input 1", "kill 1"]);
    p.feed(Input::Stop);
    assert_eq!(p.orders(), [""; 0], "once");
    p.advance(999);
    assert_eq!(p.orders(), [""; 0]);
    p.advance(1);
    assert_eq!(p.orders(), ["closed"]);
}

#[test]
fn a_second_stop_kills_a_server_that_takes_its_time() {
    let mut p = Pair::ready();
    p.feed(Input::Stop);
    p.advance(500);
    p.forget();
    p.feed(Input::Stop);
    assert_eq!(p.orders(), ["kill 1"]);
    p.die(Exit::Signal(9));
    assert_eq!(p.orders(), ["kill 1", "closed"]);
}

#[test]
fn a_stop_after_the_host_has_left_ends_the_wait_but_kills_nobody() {
    let mut p = Pair::ready();
    p.call(7, "any");
    p.forget();
    p.feed(Input::HostClosed);
    p.feed(Input::Stop);
    assert_eq!(p.at_host(), [""; 0]);
    assert_eq!(p.orders(), ["close input 1"]);
    p.feed(Input::Stop);
    assert_eq!(p.orders(), ["kill 1"]);
}

#[test]
fn a_host_that_leaves_after_a_stop_changes_nothing_but_that_it_is_told_nothing() {
    let mut p = Pair::ready();
    p.call(7, "any");
    p.feed(Input::Stop);
    p.advance(500);
    p.feed(Input::HostClosed);
    p.forget();
    p.advance(499);
    assert_eq!(p.orders(), [""; 0]);
    p.advance(1);
    assert_eq!(p.orders().last().map(String::as_str), Some("close input 1"));
    assert_eq!(p.at_host(), [""; 0]);
}

#[test]
fn a_server_that_is_not_made_yet_is_not_waited_for() {
    let mut p = Pair::new(Policy::default());
    p.feed(Input::Stop);
    assert_eq!(p.orders(), ["close input 1", "kill 1"]);
    p.die(Exit::Signal(9));
    assert_eq!(p.orders(), ["kill 1", "closed"]);
}

#[test]
fn without_a_link_the_end_is_immediate() {
    let mut p = Pair::ready_with(|policy| policy.breaker.failures = 1);
    p.die(Exit::Code(1));
    p.forget();
    p.feed(Input::Stop);
    assert_eq!(p.all(), ["draining", "state closed", "closed"]);
}

#[test]
fn nothing_new_is_accepted() {
    let mut p = Pair::ready();
    p.call(7, "any");
    p.feed(Input::Stop);
    p.forget();
    p.call(8, "any");
    let failure = p.failure();
    assert_eq!(
        (failure.id.clone(), failure.kind()),
        (8.into(), "shutting_down")
    );
    p.host(r#"{"jsonrpc":"2.0","method":"notifications/roots/list_changed"}"#);
    assert_eq!(
        p.drops(),
        [(
            Direction::ToServer,
            DropReason::Closing,
            "notifications/roots/list_changed".into()
        )]
    );
    p.feed(Input::Restart);
    p.forget();
    p.advance(100);
    assert_eq!(p.all(), [""; 0], "no restart either");
    assert_eq!(p.at_link(), [""; 0]);
}

#[test]
fn a_cancellation_is_still_passed_on_while_draining() {
    let mut p = Pair::ready();
    p.call(7, "any");
    p.feed(Input::Stop);
    p.forget();
    p.cancel(7);
    assert_eq!(p.at_link()[0], cancelled(7));
    assert_eq!(p.orders(), ["close input 1"], "nothing is left to wait for");
}

#[test]
fn a_host_that_pipes_its_requests_and_leaves_is_served() {
    let mut p = Pair::new(Policy::default());
    p.host(INITIALIZE);
    p.host(INITIALIZED);
    p.call(7, "any");
    p.feed(Input::HostClosed);
    p.advance(20_000);
    assert_eq!(p.orders(), [""; 0], "as long as a call may be held");
    p.up();
    p.result(0, WELCOME);
    p.forget();
    p.advance(999);
    assert_eq!(p.orders(), [""; 0], "a second from now");
    p.forget();
    p.advance(1);
    assert_eq!(p.orders(), ["inspect 1", "close input 1"]);
}

#[test]
fn a_host_that_leaves_before_a_server_came_waits_no_longer_than_a_held_call() {
    let mut p = Pair::new(Policy::default());
    p.host(INITIALIZE);
    p.feed(Input::HostClosed);
    p.forget();
    p.advance(29_999);
    assert_eq!(p.orders(), [""; 0]);
    p.advance(1);
    assert_eq!(p.orders(), ["close input 1", "kill 1"]);
}

#[test]
fn the_time_that_is_left_is_not_prolonged_by_a_late_server() {
    let mut p = Pair::new(Policy::default());
    p.host(INITIALIZE);
    p.call(7, "any");
    p.feed(Input::HostClosed);
    p.advance(29_500);
    p.up();
    p.result(0, WELCOME);
    p.forget();
    p.advance(499);
    assert_eq!(p.orders(), [""; 0]);
    p.forget();
    p.advance(1);
    assert_eq!(p.orders(), ["close input 1"]);
}

#[test]
fn a_server_that_dies_while_draining_is_replaced_only_if_somebody_waits() {
    let mut p = Pair::ready();
    p.request(7, "ping");
    p.feed(Input::Stop);
    p.forget();
    p.die(Exit::Code(1));
    assert_eq!(p.orders(), ["kill 1", "connect 2"]);
    let mut p = Pair::ready();
    p.call(7, "any");
    p.feed(Input::Stop);
    p.forget();
    p.die(Exit::Code(1));
    assert_eq!(p.failure().kind(), "connection_lost");
    assert_eq!(p.orders(), ["kill 1", "closed"]);
}

#[test]
fn what_waits_in_the_queue_is_settled_too() {
    let mut p = Pair::ready();
    p.die(Exit::Code(1));
    p.call(7, "any");
    p.host(r#"{"jsonrpc":"2.0","method":"notifications/roots/list_changed"}"#);
    p.feed(Input::Stop);
    p.forget();
    p.advance(1_000);
    assert_eq!(p.failure().id, 7);
    let sizes = p.session.sizes();
    assert_eq!(
        (sizes.queue, sizes.note_bytes, sizes.ledger),
        (0, 0, (0, 0))
    );
}

#[test]
fn the_server_before_is_waited_for_as_well() {
    let mut p = Pair::ready();
    p.eof();
    p.advance(100);
    p.forget();
    p.feed(Input::Stop);
    assert_eq!(p.orders(), [""; 0]);
    p.old_link(
        1,
        LinkInput::Exited {
            exit: Exit::Code(0),
            sent: 2,
        },
    );
    assert_eq!(p.orders(), ["kill 1", "closed"]);
}

#[test]
fn a_dead_servers_end_is_reported_to_nobody_else() {
    let mut p = Pair::ready();
    p.eof();
    p.advance(100);
    p.forget();
    // Some other link's end is not the end we wait for.
    p.old_link(
        5,
        LinkInput::Exited {
            exit: Exit::Code(0),
            sent: 0,
        },
    );
    assert_eq!(p.orders(), [""; 0]);
}

#[test]
fn what_was_never_sent_is_said_not_to_have_been() {
    let mut p = Pair::ready();
    p.request(6, "ping");
    p.die(Exit::Code(1));
    p.call(7, "any");
    p.feed(Input::Stop);
    p.forget();
    p.advance(1_000);
    let failures = p.failures();
    assert_eq!(failures[0].outcome(), "unknown", "it was sent once");
    assert_eq!(failures[1].outcome(), "not_sent");
    assert_eq!(
        failures[1].message,
        "The session is ending, so tool \"any\" was not sent."
    );
}
