//! What a server can have read that is dead to us: everything that was written to it, until nobody is left to read.

use outlive_core::LinkInput;
use outlive_core::cause::Exit;
use serde_json::json;

use crate::pair::*;

fn next_one_gets(p: &mut Pair, line: &str) {
    p.up();
    p.own_result(1, WELCOME);
    let sent = p.at_link();
    assert!(sent.iter().any(|at_link| at_link == line), "{sent:?}");
}

/// What was queued for a server that closed its output is never written to it, so the next one may have it.
#[test]
fn what_is_queued_at_the_end_of_output_goes_to_the_next_server_alone() {
    let mut p = Pair::with_tools();
    p.call(7, "risky");
    p.call(8, "risky");
    p.forget();
    // The handshake, the list and the first call were written.
    p.link(LinkInput::Eof { sent: 4 });
    assert_eq!(p.all(), ["state down", "stop writing 1"]);
    p.advance(100);
    let failures = p.failures();
    assert_eq!(failures.len(), 1);
    assert_eq!(
        (&failures[0].id, failures[0].outcome()),
        (&json!(7), "unknown")
    );
    p.advance(500);
    p.old_link(1, exited(Exit::Code(0), 4));
    next_one_gets(&mut p, &call(8, "risky"));
}

fn exited(exit: Exit, sent: u64) -> LinkInput {
    LinkInput::Exited { exit, sent }
}

/// A wrapper has exited, and what it has started may read on.
fn orphaned(p: &mut Pair) {
    p.call(7, "risky");
    p.call(8, "risky");
    p.forget();
    let exit = Exit::Code(0);
    p.link(LinkInput::Orphaned { exit, sent: 5 });
    assert_eq!(p.all(), ["state down", "kill 1"]);
}

#[test]
fn what_an_orphan_has_read_is_known_when_it_is_dead() {
    let mut p = Pair::with_tools();
    orphaned(&mut p);
    p.advance(999);
    assert_eq!(p.all(), [""; 0]);
    p.link(exited(Exit::Code(0), 4));
    let failures = p.failures();
    assert_eq!(failures.len(), 1);
    assert_eq!(
        (&failures[0].id, failures[0].outcome()),
        (&json!(7), "unknown")
    );
    assert_eq!(failures[0].about["cause"]["exit_code"], 0);
    assert_eq!(p.orders(), ["kill 1", "connect 2"]);
    next_one_gets(&mut p, &call(8, "risky"));
}

#[test]
fn what_an_orphan_may_have_read_is_not_sent_again() {
    let mut p = Pair::with_tools();
    orphaned(&mut p);
    // Its words are not the server's.
    p.result(7, "{}");
    p.forget();
    p.advance(999);
    assert_eq!(p.all(), [""; 0]);
    p.advance(1);
    let outcomes: Vec<_> = p
        .failures()
        .iter()
        .map(|f| f.outcome().to_string())
        .collect();
    assert_eq!(outcomes, ["unknown", "unknown"]);
    assert_eq!(p.orders(), ["kill 1", "release 1", "connect 2"]);
}

#[test]
fn the_orphan_of_a_server_that_was_given_up_is_ended_and_not_waited_for() {
    let mut p = Pair::with_tools();
    p.eof();
    p.advance(100);
    assert_eq!(p.orders(), ["stop writing 1", "terminate 1"]);
    let exit = Exit::Signal(15);
    p.link(LinkInput::Orphaned { exit, sent: 3 });
    assert_eq!(p.orders(), ["kill 1", "release 1", "connect 2"]);
}

#[test]
fn the_exit_of_a_wrapper_explains_the_end_of_the_output() {
    let mut p = Pair::with_tools();
    p.call(7, "risky");
    p.eof();
    p.forget();
    let exit = Exit::Code(3);
    p.link(LinkInput::Orphaned { exit, sent: 4 });
    p.advance(1000);
    assert_eq!(p.failure().about["cause"]["exit_code"], 3);
}

/// What a server has started may take its time to end. How the server itself ended is known at once.
#[test]
fn an_exit_explains_the_end_of_the_output_before_all_of_the_server_has_ended() {
    let mut p = Pair::with_tools();
    p.call(7, "risky");
    p.eof();
    p.forget();
    let exit = Exit::Code(3);
    p.link(LinkInput::Ended { exit, sent: 4 });
    assert_eq!(p.all(), ["state down", "stop writing 1"]);
    p.advance(999);
    assert_eq!(p.all(), [""; 0]);
    p.link(exited(exit, 3));
    assert_eq!(p.orders(), ["kill 1", "connect 2"]);
    next_one_gets(&mut p, &call(7, "risky"));
}

#[test]
fn the_rest_of_a_server_that_has_ended_is_not_waited_for_for_ever() {
    let mut p = Pair::with_tools();
    p.call(7, "risky");
    p.forget();
    let exit = Exit::Signal(11);
    p.link(LinkInput::Ended { exit, sent: 4 });
    assert_eq!(p.all(), ["state down", "stop writing 1"]);
    p.advance(1000);
    let failure = p.failure();
    assert_eq!(failure.about["cause"]["signal"], 11);
    assert_eq!(failure.outcome(), "unknown");
}

#[test]
fn the_orphan_of_a_stopped_server_changes_nothing_about_the_reason() {
    let mut p = Pair::with_tools();
    p.call(7, "risky");
    p.forget();
    p.advance(1000);
    p.link(LinkInput::Inspected { stopped: true });
    p.advance(500);
    p.link(LinkInput::Inspected { stopped: true });
    p.advance(1500);
    p.link(LinkInput::Inspected { stopped: true });
    let exit = Exit::Signal(9);
    p.link(LinkInput::Orphaned { exit, sent: 4 });
    p.link(exited(exit, 4));
    assert_eq!(p.failure().about["cause"]["kind"], "stopped");
}
