//! An address where nobody is: over HTTP the link comes up, and the first request on it finds out.

use std::time::Duration;

use outlive_core::cause::Exit;
use outlive_core::link::RequestFailure;
use outlive_core::{Id, Input, LinkInput, Policy, State};

use crate::pair::*;

/// Whatever is sent finds nobody, for at most this long. Tells when the host was given an answer, in milliseconds.
fn nobody_for(p: &mut Pair, ms: u64) -> Option<u64> {
    let mut looks = Vec::new();
    for at in 0..ms {
        let ordered = p.orders();
        if let Some(generation) = ordered.iter().find_map(|it| it.strip_prefix("connect ")) {
            looks.push(at);
            let generation: u64 = generation.parse().expect("a number");
            p.up();
            refuse(p, generation);
        }
        if let Some(line) = p.at_host().first() {
            assert!(line.contains("connection refused"), "{line}");
            assert_eq!(failure(line).kind(), "unavailable");
            assert_eq!(failure(line).outcome(), "not_sent");
            assert!(looks.len() > 1, "looked for at {looks:?}");
            return Some(at);
        }
        p.advance(1);
    }
    None
}

/// All that was sent on this link finds nobody.
fn refuse(p: &mut Pair, generation: u64) {
    let sent = p.at_link();
    for line in &sent {
        let message = outlive_core::Message::read(line.clone().into()).expect("a message");
        if let Some(id) = message.id() {
            p.link(LinkInput::Unanswered {
                id: id.clone(),
                failure: RequestFailure::Unsent("connection refused".into()),
            });
        }
    }
    let exit = Exit::Unknown;
    p.old_link(generation, LinkInput::Exited { exit, sent: 0 });
}

/// The host has sent this, and found nobody at once.
fn at_a_wrong_address(hold: u64, lines: &[&str]) -> Pair {
    let mut policy = Policy::default();
    policy.hold = Duration::from_millis(hold);
    let mut p = Pair::new(policy);
    p.up();
    lines.iter().for_each(|line| p.host(line));
    refuse(&mut p, 1);
    p
}

#[test]
fn a_host_that_begins_is_told_within_seconds_that_nobody_is_there() {
    let discover = modern_request(0, "server/discover", "");
    for greeting in [INITIALIZE, &discover] {
        let mut p = at_a_wrong_address(30_000, &[greeting]);
        assert_eq!(nobody_for(&mut p, 60_000), Some(3_000));
        // A host with less patience is told sooner.
        let mut p = at_a_wrong_address(1_500, &[greeting]);
        assert_eq!(nobody_for(&mut p, 60_000), Some(1_500));
    }
}

#[test]
fn a_host_that_has_left_meanwhile_is_told_all_the_same() {
    let mut p = at_a_wrong_address(30_000, &[INITIALIZE]);
    p.feed(Input::HostClosed);
    assert_eq!(nobody_for(&mut p, 60_000), Some(3_000));
    assert_eq!(p.session.state(), &State::Closed);
}

#[test]
fn a_host_that_begins_again_is_told_again() {
    let mut p = at_a_wrong_address(30_000, &[INITIALIZE]);
    assert_eq!(nobody_for(&mut p, 60_000), Some(3_000));
    p.forget();
    p.host(INITIALIZE);
    let again = nobody_for(&mut p, 60_000).expect("an answer");
    assert!((3_000..5_000).contains(&again), "{again}");
}

#[test]
fn attempts_that_find_nobody_do_not_begin_the_hold_anew() {
    for hold in [2_000, 30_000] {
        let mut p = at_a_wrong_address(hold, &[&call(7, "any")]);
        assert_eq!(nobody_for(&mut p, 120_000), Some(hold));
    }
}

#[test]
fn a_server_that_comes_up_a_moment_later_is_found() {
    let mut p = at_a_wrong_address(30_000, &[INITIALIZE]);
    assert_eq!(nobody_for(&mut p, 1_000), None);
    for _ in 0..2_000 {
        if p.orders().iter().any(|order| order.starts_with("connect")) {
            p.up();
            assert_eq!(p.at_link(), [INITIALIZE]);
            p.result(0, WELCOME);
            assert_eq!(p.at_host().len(), 1);
            return;
        }
        p.advance(1);
    }
    panic!("not looked for in time");
}

/// It reached a server once, which died of it or with it: what it waits for now is another server, and that is a new
/// wait.
#[test]
fn a_call_that_was_with_a_server_has_the_whole_hold_for_the_next() {
    let mut p = Pair::with_tools();
    p.call(7, "safe");
    p.advance(100_000);
    p.link(LinkInput::Disconnected {
        error: None,
        sent: u64::MAX,
    });
    p.forget();
    for _ in 0..29_000 {
        if p.orders().iter().any(|order| order.starts_with("connect")) {
            let generation = p.newest().number();
            p.up();
            p.link(LinkInput::Unanswered {
                id: Id::text(format!("outlive-{generation}-1")),
                failure: RequestFailure::Unsent("connection refused".into()),
            });
            let exit = Exit::Unknown;
            p.old_link(generation, LinkInput::Exited { exit, sent: 0 });
        }
        p.advance(1);
    }
    assert_eq!(p.failures().len(), 0, "it waits for 30 s");
}

#[test]
fn what_was_acknowledged_is_not_overtaken_by_an_answer() {
    let note = r#"{"jsonrpc":"2.0","method":"notifications/x"}"#;
    let answer = r#"{"jsonrpc":"2.0","id":5,"result":{}}"#;
    let mut p = Pair::ready_with(|policy| policy.limits.in_flight = 1);
    p.call(7, "any");
    p.server(r#"{"jsonrpc":"2.0","id":5,"method":"elicitation/create","params":{}}"#);
    p.call(8, "any");
    p.forget();
    p.host(note);
    assert_eq!(p.at_link(), [""; 0], "it waits behind a request that waits");
    p.host(answer);
    assert_eq!(p.at_link(), [note, answer]);
    p.result(7, "{}");
    assert_eq!(p.at_link(), [call(8, "any")], "and is not sent again");
}

#[test]
fn whoever_waits_for_it_is_told_once_that_the_server_is_initialized() {
    let told = |p: &mut Pair| {
        let told =
            p.take(|output| matches!(output, outlive_core::Output::Initialized).then_some(()));
        told.len()
    };
    let mut p = Pair::new(Policy::default());
    p.up();
    p.host(INITIALIZE);
    p.result(0, WELCOME);
    p.link(LinkInput::Initialized);
    assert_eq!(told(&mut p), 0, "nobody has said it");
    p.host(INITIALIZED);
    assert_eq!(told(&mut p), 0, "the server may not have it");
    p.link(LinkInput::Initialized);
    p.link(LinkInput::Initialized);
    assert_eq!(told(&mut p), 1);

    let mut p = Pair::ready();
    p.die(Exit::Code(1));
    assert_eq!(
        told(&mut p),
        1,
        "from now on it is the session that says it"
    );
}
