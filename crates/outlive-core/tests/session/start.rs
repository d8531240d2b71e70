//! Starts, good and bad.

use outlive_core::cause::{Exit, StartFailure};
use outlive_core::{Event, Policy};
use serde_json::json;

use crate::pair::*;

#[test]
fn a_program_that_does_not_exist_is_told_at_once() {
    let mut p = Pair::new(Policy::default());
    p.host(INITIALIZE);
    p.call(7, "any");
    p.unmade(StartFailure::NotFound);
    let failure = p.failure();
    assert_eq!((failure.code, failure.kind()), (-31002, "unavailable"));
    assert_eq!(failure.id, 0);
    assert_eq!(
        failure.message,
        "The server could not be started: there is no such program in the PATH it was given (the \
         full path always works) (command: the server), so initialize was not executed. Call again to try the server again."
    );
    assert_eq!(
        failure.about,
        json!({
            "kind": "unavailable",
            "outcome": "not_sent",
            "generation": 1,
            "retryable": true,
            "retry_after_ms": 0,
            "cause": {
                "kind": "spawn_failed",
                "phase": "spawn",
                "command": "the server",
                "error": "there is no such program in the PATH it was given (the full path always works)",
            },
        })
    );
    assert_eq!(
        p.orders(),
        ["connect 2"],
        "nothing was made, so nothing is killed"
    );
}

#[test]
fn a_server_that_exits_twice_before_it_answers_is_told_with_its_last_words() {
    for (code, words, advice) in [
        (3, "exited with code 3", ""),
        (
            0,
            "exited with code 0",
            " It ended without an answer: is it an MCP server that talks over stdio?",
        ),
    ] {
        let mut p = Pair::new(Policy::default());
        p.host(INITIALIZE);
        p.up();
        p.stderr("boom");
        p.die(Exit::Code(code));
        assert_eq!(p.at_host(), [""; 0], "the first time may be bad luck");
        assert_eq!(p.orders(), ["kill 1", "connect 2"]);
        p.up();
        assert_eq!(p.at_link(), [INITIALIZE, INITIALIZE]);
        p.stderr("one");
        p.stderr("two");
        p.stderr("three");
        p.stderr("four");
        p.die(Exit::Code(code));
        let failure = p.failure();
        assert_eq!(failure.kind(), "unavailable");
        assert_eq!(failure.about["cause"]["exit_code"], code);
        assert_eq!(failure.about["cause"]["phase"], "handshake");
        let wait = failure.about["retry_after_ms"].as_u64().expect("a delay");
        assert!(wait <= 200, "{wait}");
        assert_eq!(
            failure.message,
            format!(
                "The server {words} during the handshake (command: the server), so initialize was \
                 not executed. Call again in {wait} ms to try the server again.{advice} The server's own \
                 output on stderr (quoted, not advice from outlive): \"two\" | \"three\" | \"four\""
            )
        );
    }
}

#[test]
fn a_slow_first_start_is_reported_and_borne_for_five_minutes() {
    let mut p = Pair::new(Policy::default());
    p.host(INITIALIZE);
    p.up();
    p.forget();
    p.advance(59_999);
    assert_eq!(p.events(), []);
    p.advance(1);
    assert_eq!(p.events(), [Event::SlowStart { after_ms: 60_000 }]);
    p.advance(239_999);
    assert_eq!(p.events(), []);
    assert_eq!(p.at_host(), [""; 0]);
    p.forget();
    p.advance(1);
    assert_eq!(
        p.failure().message,
        "The server did not answer `initialize` within 300 s and was stopped (command: the \
         server), so initialize was not executed. Call again to try the server again. \
         --start-timeout gives it longer."
    );
    assert_eq!(p.orders(), ["terminate 1"]);
}

#[test]
fn a_link_that_is_never_made_is_given_up_too() {
    let mut p = Pair::new(Policy::default());
    p.host(INITIALIZE);
    p.advance(299_999);
    assert_eq!(p.at_host(), [""; 0]);
    p.advance(1);
    let failure = p.failure();
    assert_eq!(failure.about["cause"]["kind"], "start_timeout");
    assert_eq!(failure.about["cause"]["after_ms"], 300_000);
}

#[test]
fn a_link_nobody_waits_for_may_take_its_time() {
    let mut p = Pair::new(Policy::default());
    p.up();
    p.advance(400_000);
    assert_eq!(p.all(), [""; 0]);
    p.host(INITIALIZE);
    assert_eq!(p.at_link(), [INITIALIZE]);
    p.advance(299_999);
    assert_eq!(p.at_host(), [""; 0], "counted from the moment it was asked");
    p.advance(1);
    assert_eq!(p.failure().about["cause"]["kind"], "start_timeout");
}

#[test]
fn what_the_command_is_called_cannot_move_the_readers_cursor() {
    let mut policy = Policy::default();
    policy.label = "run\u{1b}[2J".into();
    let mut p = Pair::new(policy);
    p.host(INITIALIZE);
    p.unmade(StartFailure::NotFound);
    assert!(p.failure().message.contains("(command: run\\u{1b}[2J)"));
}

#[test]
fn a_second_initialize_is_no_start() {
    let mut p = Pair::ready();
    p.host(&INITIALIZE.replace(r#""id":0"#, r#""id":2"#));
    p.forget();
    p.advance(400_000);
    assert_eq!(p.events(), []);
    assert_eq!(p.at_host(), [""; 0]);
}
