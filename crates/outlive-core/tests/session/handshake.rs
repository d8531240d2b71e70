//! The handshake, and how it is repeated for the host.

use outlive_core::cause::{Exit, Reason};
use outlive_core::event::{Direction, DropReason};
use outlive_core::{Event, LinkInput, Policy, State};

use crate::pair::*;

#[test]
fn the_first_handshake_is_the_hosts_own_byte_for_byte() {
    let mut p = Pair::new(Policy::default());
    p.up();
    assert_eq!(p.all(), [""; 0], "nothing is said before the host speaks");
    p.host(INITIALIZE);
    assert_eq!(p.all(), [format!("link: {INITIALIZE}")]);
    p.result(
        0,
        r#"{"protocolVersion":"2025-06-18","capabilities":{"tools":{}}}"#,
    );
    assert_eq!(
        p.all(),
        [
            "state ready".to_string(),
            "connected".into(),
            r#"host: {"jsonrpc":"2.0","id":0,"result":{"protocolVersion":"2025-06-18","capabilities":{"tools":{"listChanged":true}}}}"#.into(),
        ]
    );
    p.host(INITIALIZED);
    assert_eq!(p.all(), [format!("link: {INITIALIZED}")]);
}

#[test]
fn a_host_that_does_not_wait_is_held_until_the_link_is_up() {
    let mut p = Pair::new(Policy::default());
    p.host(INITIALIZE);
    p.host(INITIALIZED);
    p.request(1, "tools/list");
    assert_eq!(p.all(), [""; 0]);
    p.up();
    assert_eq!(
        p.at_link(),
        [INITIALIZE, INITIALIZED, &request(1, "tools/list")]
    );
}

#[test]
fn the_server_is_named_to_whoever_watches() {
    let mut p = Pair::new(Policy::default());
    p.up();
    p.host(INITIALIZE);
    p.result(0, WELCOME);
    let generation = p.newest();
    assert_eq!(
        p.events(),
        [
            Event::State(State::Ready { generation }),
            Event::Connected {
                generation,
                server: Some(software("s", Some("1")))
            }
        ]
    );
}

#[test]
fn an_answered_handshake_is_repeated_with_the_hosts_own_bytes_and_all_it_asked_for() {
    let mut p = Pair::ready();
    let level =
        r#"{"jsonrpc":"2.0","id":1,"method":"logging/setLevel","params":{"level":"debug"}}"#;
    let subscribe = |id: u64, uri: &str| {
        format!(
            r#"{{"jsonrpc":"2.0","id":{id},"method":"resources/subscribe","params":{{"uri":"{uri}"}}}}"#
        )
    };
    p.host(level);
    p.host(&subscribe(2, "b:"));
    p.host(&subscribe(3, "a:"));
    p.host(&subscribe(4, "c:"));
    p.host(&subscribe(5, "d:"));
    for id in 1..=4 {
        p.result(id, "{}");
    }
    p.server(r#"{"id":5,"error":{"code":-32602,"message":"no such resource"}}"#);
    p.host(r#"{"jsonrpc":"2.0","id":6,"method":"resources/unsubscribe","params":{"uri":"c:"}}"#);
    p.result(6, "{}");
    p.forget();

    p.die(Exit::Signal(9));
    assert_eq!(
        p.all(),
        [
            "lost",
            "kill 1",
            "state down",
            "state connecting",
            "connect 2"
        ]
    );
    p.call(7, "any");
    let note = r#"{"jsonrpc":"2.0","method":"notifications/roots/list_changed"}"#;
    p.host(note);
    p.request(8, "ping");
    assert_eq!(p.all(), [""; 0]);
    p.up();
    let renamed = |line: &str, id: &str, n: u64| {
        line.replacen(
            &format!(r#""id":{id}"#),
            &format!(r#""id":"outlive-2-{n}""#),
            1,
        )
    };
    assert_eq!(p.all(), [format!("link: {}", renamed(INITIALIZE, "0", 1))]);
    p.own_result(1, WELCOME);
    let updated = |uri: &str| {
        format!(
            r#"host: {{"jsonrpc":"2.0","method":"notifications/resources/updated","params":{{"uri":"{uri}"}}}}"#
        )
    };
    assert_eq!(
        p.all(),
        [
            format!("link: {INITIALIZED}"),
            format!("link: {}", renamed(level, "1", 2)),
            format!("link: {}", renamed(&subscribe(3, "a:"), "3", 3)),
            format!("link: {}", renamed(&subscribe(2, "b:"), "2", 4)),
            "state ready".into(),
            "connected".into(),
            format!("link: {}", call(7, "any")),
            format!("link: {note}"),
            format!("link: {}", request(8, "ping")),
            updated("a:"),
            updated("b:"),
        ]
    );
    // What is answered to a replay concerns nobody.
    for n in 2..=4 {
        p.own_result(n, "{}");
    }
    assert_eq!(p.all(), [""; 0]);
}

#[test]
fn a_replayed_handshake_that_is_slow_is_given_up_after_a_minute() {
    let mut p = Pair::ready();
    p.die(Exit::Signal(9));
    p.up();
    p.forget();
    p.advance(59_999);
    p.forget();
    p.advance(1);
    let Some(Event::Lost { cause, .. }) = p
        .events()
        .into_iter()
        .find(|event| matches!(event, Event::Lost { .. }))
    else {
        panic!("it is lost")
    };
    assert_eq!(
        cause.predicate(),
        "did not answer `initialize` within 60 s and was stopped"
    );
    assert_eq!(p.orders(), ["terminate 2"]);
}

#[test]
fn a_server_that_refuses_the_replayed_handshake_is_replaced() {
    let mut p = Pair::ready();
    p.die(Exit::Signal(9));
    p.up();
    p.call(7, "any");
    p.forget();
    p.server(r#"{"id":"outlive-2-1","error":{"code":1,"message":"no"}}"#);
    let states = p.states();
    let [State::Down { cause, .. }] = &states[..] else {
        panic!("{states:?}")
    };
    assert_eq!(
        cause.reason,
        Reason::HandshakeRefused(r#"{"code":1,"message":"no"}"#.into())
    );
    assert_eq!(p.orders(), ["close input 2"]);
    assert_eq!(p.at_host(), [""; 0], "the call waits for the next one");
}

#[test]
fn the_words_of_a_refusal_are_kept_within_bounds() {
    let mut p = Pair::ready();
    p.die(Exit::Signal(9));
    p.up();
    p.forget();
    let error = format!(r#"{{"code":1,"message":"{}"}}"#, "x".repeat(500));
    p.server(&format!(r#"{{"id":"outlive-2-1","error":{error}}}"#));
    let states = p.states();
    let [State::Down { cause, .. }] = &states[..] else {
        panic!("{states:?}")
    };
    assert_eq!(cause.reason, Reason::HandshakeRefused(error[..300].into()));
}

#[test]
fn a_server_that_comes_back_with_another_version_has_failed_with_a_sentence() {
    let mut p = Pair::ready();
    p.die(Exit::Signal(9));
    p.up();
    p.call(7, "any");
    p.forget();
    p.own_result(1, r#"{"protocolVersion":"2024-11-05","capabilities":{}}"#);
    let failure = p.failure();
    assert_eq!(
        failure.message,
        "The server came back speaking protocol version 2024-11-05, but this session was opened \
         with 2025-06-18 (command: the server), so tool \"any\" was not executed. Call again in 1 s to \
         try the server again."
    );
    assert_eq!(failure.about["retry_after_ms"], 1_000);
    assert_eq!(failure.about["cause"]["held"], "2025-06-18");
    assert_eq!(failure.about["cause"]["offered"], "2024-11-05");
    let states = p.states();
    assert!(matches!(&states[..], [State::Failed { .. }]), "{states:?}");
    assert_eq!(p.orders(), ["close input 2"]);
}

#[test]
fn a_server_that_names_no_version_is_taken() {
    let mut p = Pair::ready();
    p.die(Exit::Signal(9));
    p.up();
    p.forget();
    p.own_result(1, "{}");
    let generation = p.newest();
    assert_eq!(
        p.events(),
        [
            Event::State(State::Ready { generation }),
            Event::Connected {
                generation,
                server: None
            }
        ]
    );
}

#[test]
fn an_error_in_answer_to_initialize_is_the_hosts_business() {
    let mut p = Pair::new(Policy::default());
    p.up();
    p.host(INITIALIZE);
    p.forget();
    let answer = r#"{"jsonrpc":"2.0","id":0,"error":{"code":-32602,"message":"bad version"}}"#;
    p.server(answer);
    assert_eq!(p.all(), [format!("host: {answer}")]);
    p.die(Exit::Signal(9));
    p.up();
    assert_eq!(
        p.at_link(),
        [""; 0],
        "nothing was agreed on, so nothing is replayed"
    );
}

#[test]
fn a_second_initialize_of_the_host_begins_anew() {
    let mut p = Pair::ready();
    p.host(r#"{"jsonrpc":"2.0","id":1,"method":"logging/setLevel","params":{"level":"debug"}}"#);
    p.result(1, "{}");
    let second = INITIALIZE.replace(r#""id":0"#, r#""id":2"#);
    p.host(&second);
    p.result(2, WELCOME);
    p.die(Exit::Signal(9));
    p.up();
    p.forget();
    p.own_result(1, WELCOME);
    assert_eq!(
        p.at_link(),
        [INITIALIZED],
        "the level belonged to the session before"
    );
}

#[test]
fn initialized_sent_while_down_is_told_in_the_handshake_only() {
    let mut p = Pair::ready();
    p.die(Exit::Signal(9));
    let other = r#"{"jsonrpc":"2.0","method":"notifications/initialized","params":{}}"#;
    p.forget();
    p.host(other);
    assert_eq!(p.at_link(), [""; 0]);
    p.up();
    p.forget();
    p.own_result(1, WELCOME);
    assert_eq!(p.at_link(), [other]);
}

#[test]
fn initialized_without_a_handshake_is_a_notification_like_any_other() {
    let mut p = Pair::new(Policy::default());
    p.host(INITIALIZED);
    p.up();
    assert_eq!(p.at_link(), [INITIALIZED]);
}

#[test]
fn initialize_cannot_be_cancelled() {
    let mut p = Pair::new(Policy::default());
    p.up();
    p.host(INITIALIZE);
    p.forget();
    p.cancel(0);
    assert_eq!(
        p.drops(),
        [(
            Direction::ToServer,
            DropReason::UselessCancel,
            "request 0".into()
        )]
    );
    assert_eq!(p.at_link(), [""; 0]);
    p.result(0, WELCOME);
    assert_eq!(p.at_host().len(), 1);
}

#[test]
fn a_link_is_ready_only_when_the_hosts_handshake_is_done() {
    let mut p = Pair::new(Policy::default());
    p.up();
    p.request(1, "ping");
    p.host(INITIALIZE);
    p.result(1, "{}");
    assert_eq!(p.states(), [], "the handshake is under way");
    p.result(0, WELCOME);
    assert_eq!(p.states().len(), 1);
    // A host of no era at all is served as well.
    let mut p = Pair::new(Policy::default());
    p.up();
    p.request(1, "ping");
    p.result(1, "{}");
    assert_eq!(p.states().len(), 1);
}

#[test]
fn an_up_that_is_reported_twice_changes_nothing() {
    let mut p = Pair::ready();
    p.die(Exit::Signal(9));
    p.up();
    p.forget();
    p.up();
    assert_eq!(p.all(), [""; 0]);
}

#[test]
fn what_a_replaced_link_says_is_dropped() {
    let mut p = Pair::ready();
    p.die(Exit::Signal(9));
    p.revive();
    p.old_link(
        1,
        LinkInput::Frame(outlive_core::Frame::read(r#"{"id":1,"result":{}}"#.into())),
    );
    assert_eq!(
        p.drops(),
        [(
            Direction::ToHost,
            DropReason::StaleGeneration,
            "generation 1".into()
        )]
    );
    p.old_link(1, LinkInput::Stderr("late".into()));
    p.old_link(
        1,
        LinkInput::Exited {
            exit: Exit::Code(0),
            sent: 0,
        },
    );
    assert_eq!(p.all(), [""; 0]);
}

#[test]
fn initialized_may_follow_before_the_handshake_is_answered() {
    let mut p = Pair::new(Policy::default());
    p.up();
    p.host(INITIALIZE);
    p.host(INITIALIZED);
    assert_eq!(p.at_link(), [INITIALIZE, INITIALIZED]);
    p.result(0, WELCOME);
    assert_eq!(p.at_link(), [""; 0], "once");
}

#[test]
fn initialized_does_not_wait_for_what_a_suspect_is_spared() {
    let mut p = Pair::ready();
    p.call(7, "slow");
    p.cancel(7);
    p.call(8, "next");
    p.forget();
    p.host(INITIALIZED);
    assert_eq!(p.at_link(), [INITIALIZED]);
}

#[test]
fn a_replayed_handshake_whose_answer_cannot_be_read_has_failed() {
    for unreadable in [true, false] {
        let mut p = Pair::ready();
        p.die(Exit::Signal(9));
        p.up();
        p.forget();
        if unreadable {
            p.server(r#"{"jsonrpc":"2.0","id":"outlive-2-1"}"#);
        } else {
            p.link(LinkInput::Frame(too_long(
                Some(r#""outlive-2-1""#),
                false,
                1 << 30,
            )));
        }
        let states = p.states();
        let [State::Down { cause, .. }] = &states[..] else {
            panic!("{states:?}")
        };
        let words = match unreadable {
            true => "neither a method nor a result nor an error",
            false => "its answer is too long",
        };
        assert_eq!(cause.reason, Reason::HandshakeRefused(words.into()));
        assert_eq!(p.orders(), ["close input 2"]);
    }
}

#[test]
fn an_initialize_that_is_not_answered_when_the_end_comes_is_not_cancelled() {
    let mut p = Pair::new(Policy::default());
    p.up();
    p.host(INITIALIZE);
    p.feed(outlive_core::Input::Stop);
    p.forget();
    p.advance(1_000);
    assert_eq!(p.failure().kind(), "shutting_down");
    assert_eq!(p.at_link(), [""; 0]);
}

#[test]
fn a_link_known_to_be_dead_is_not_revived_by_its_last_words() {
    let mut p = Pair::ready();
    p.die(Exit::Signal(9));
    p.up();
    p.call(7, "any");
    p.eof();
    p.forget();
    p.own_result(1, WELCOME);
    assert_eq!(p.all(), [""; 0]);
    p.advance(100);
    assert_eq!(p.at_link(), [""; 0]);
}

#[test]
fn initialized_is_told_while_the_tools_are_read() {
    let mut p = Pair::with_tools();
    p.call(7, "safe");
    p.die(Exit::Code(1));
    p.up();
    p.own_result(1, WELCOME);
    p.forget();
    p.host(INITIALIZED);
    assert_eq!(p.at_link(), [INITIALIZED]);
}
