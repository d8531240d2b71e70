//! The words for things: what people, models, logs and metrics are given to read.

use std::time::Duration;

use outlive_core::cause::{Cause, Exit, Phase, Reason, StartFailure};
use outlive_core::error::{Bound, Error, Limit, Outcome};
use outlive_core::event::{Direction, DropReason, Unexecuted};
use outlive_core::protocol::List;
use outlive_core::{Event, Generation, State, Time};
use serde_json::{Value, json};

use crate::pair::software;

fn cause(reason: Reason, phase: Phase) -> Cause {
    Cause::new(reason, phase, "cmd --x")
}

fn unmade() -> Cause {
    cause(Reason::Unmade(StartFailure::NoFile), Phase::Spawn)
}

fn refused_handshake() -> Cause {
    let reason = Reason::Unanswered("status 500".into());
    Cause::new(reason, Phase::Handshake, "http://far/mcp")
}

fn with_tail(mut cause: Cause, lines: &[&str]) -> Cause {
    cause.stderr_tail = lines.iter().map(|line| line.to_string()).collect();
    cause
}

#[test]
fn every_exit_has_words() {
    let words = [
        (Exit::Code(0), "exited with code 0"),
        (Exit::Code(-3), "exited with code -3"),
        (Exit::Signal(1), "was ended by signal 1 (SIGHUP)"),
        (Exit::Signal(2), "was ended by signal 2 (SIGINT)"),
        (Exit::Signal(3), "was ended by signal 3 (SIGQUIT)"),
        (Exit::Signal(4), "was ended by signal 4 (SIGILL)"),
        (Exit::Signal(5), "was ended by signal 5"),
        (Exit::Signal(6), "was ended by signal 6 (SIGABRT)"),
        (Exit::Signal(7), "was ended by signal 7 (SIGBUS)"),
        (Exit::Signal(8), "was ended by signal 8 (SIGFPE)"),
        (Exit::Signal(9), "was ended by signal 9 (SIGKILL)"),
        (Exit::Signal(11), "was ended by signal 11 (SIGSEGV)"),
        (Exit::Signal(13), "was ended by signal 13 (SIGPIPE)"),
        (Exit::Signal(15), "was ended by signal 15 (SIGTERM)"),
        (Exit::Unknown, "ended"),
    ];
    for (exit, text) in words {
        assert_eq!(exit.to_string(), text);
    }
}

#[test]
fn a_signal_that_people_send_is_no_fault_of_the_program() {
    for n in 1..=31 {
        let external = [1, 2, 9, 15].contains(&n);
        assert_eq!(Exit::Signal(n).is_external(), external, "{n}");
        assert!(!Exit::Code(n).is_external());
    }
    assert!(!Exit::Unknown.is_external());
}

#[test]
fn every_cause_has_a_kind_a_sentence_and_data() {
    let secs = Duration::from_secs;
    let cases = [
        (
            cause(Reason::Unmade(StartFailure::NotExecutable), Phase::Spawn),
            "could not be started: the file is not executable (permission denied)",
            json!({"kind": "spawn_failed", "phase": "spawn", "command": "cmd --x",
                "error": "the file is not executable (permission denied)"}),
        ),
        (
            cause(
                Reason::Unmade(StartFailure::Other("no memory".into())),
                Phase::Spawn,
            ),
            "could not be started: no memory",
            json!({"kind": "spawn_failed", "phase": "spawn", "command": "cmd --x", "error": "no memory"}),
        ),
        (
            cause(Reason::Exited(Exit::Code(3)), Phase::Handshake),
            "exited with code 3 during the handshake",
            json!({"kind": "exited", "phase": "handshake", "command": "cmd --x", "exit_code": 3}),
        ),
        (
            cause(Reason::Exited(Exit::Signal(6)), Phase::Service),
            "was ended by signal 6 (SIGABRT)",
            json!({"kind": "exited", "phase": "service", "command": "cmd --x", "signal": 6}),
        ),
        (
            cause(Reason::Exited(Exit::Unknown), Phase::Service),
            "ended",
            json!({"kind": "exited", "phase": "service", "command": "cmd --x"}),
        ),
        (
            cause(Reason::Eof, Phase::Handshake),
            "closed its output during the handshake (its process had not exited)",
            json!({"kind": "eof", "phase": "handshake", "command": "cmd --x"}),
        ),
        (
            cause(Reason::WriteFailed("EPIPE".into()), Phase::Service),
            "stopped taking input (EPIPE)",
            json!({"kind": "write_error", "phase": "service", "command": "cmd --x", "error": "EPIPE"}),
        ),
        (
            cause(Reason::SlowHandshake(secs(300)), Phase::Handshake),
            "did not answer `initialize` within 300 s and was stopped",
            json!({"kind": "start_timeout", "phase": "handshake", "command": "cmd --x", "after_ms": 300_000}),
        ),
        (
            cause(
                Reason::Unresponsive(Duration::from_millis(1500)),
                Phase::Service,
            ),
            "answered nothing for 1.5 s and was stopped",
            json!({"kind": "unresponsive", "phase": "service", "command": "cmd --x", "after_ms": 1500}),
        ),
        (
            cause(Reason::Stopped, Phase::Service),
            "was found suspended (stopped) and was killed",
            json!({"kind": "stopped", "phase": "service", "command": "cmd --x"}),
        ),
        (
            cause(Reason::HandshakeRefused("no".into()), Phase::Handshake),
            "refused `initialize`: no",
            json!({"kind": "handshake_refused", "phase": "handshake", "command": "cmd --x", "error": "no"}),
        ),
        (
            cause(
                Reason::VersionChanged {
                    held: "a".into(),
                    offered: "b".into(),
                },
                Phase::Handshake,
            ),
            "came back speaking protocol version b, but this session was opened with a",
            json!({"kind": "version_changed", "phase": "handshake", "command": "cmd --x", "held": "a", "offered": "b"}),
        ),
        (
            cause(Reason::Requested, Phase::Service),
            "was restarted on request",
            json!({"kind": "requested", "phase": "service", "command": "cmd --x"}),
        ),
        (
            with_tail(cause(Reason::Closing, Phase::Service), &["bye"]),
            "was stopped",
            json!({"kind": "closing", "phase": "service", "command": "cmd --x", "stderr_tail": ["bye"]}),
        ),
        (
            cause(Reason::OwnerEnded, Phase::Service),
            "was lost with the process that had started it",
            json!({"kind": "owner_ended", "phase": "service", "command": "cmd --x"}),
        ),
    ];
    for (cause, predicate, data) in cases {
        assert_eq!(cause.predicate(), predicate);
        assert_eq!(cause.to_json(), data);
        assert_eq!(data["kind"], cause.kind());
    }
}

#[test]
fn durations_are_written_for_people() {
    for (ms, text) in [
        (0, "0 ms"),
        (999, "999 ms"),
        (1_000, "1 s"),
        (1_049, "1.0 s"),
        (1_500, "1.5 s"),
        (60_000, "60 s"),
    ] {
        let error = Error::Timeout {
            after: Duration::from_millis(ms),
            bound: Bound::Total,
        };
        assert_eq!(
            error.sentence("x"),
            format!("No answer of x within {text}. It was cancelled; it may have taken effect.")
        );
    }
}

/// Each error: kind, code, outcome, retryable, sentence.
#[test]
fn every_error_has_a_kind_a_code_an_outcome_and_a_sentence() {
    let died = || cause(Reason::Exited(Exit::Code(1)), Phase::Service);
    let unsent = Error::ConnectionLost {
        cause: died(),
        outcome: Outcome::NotSent,
        poison: false,
    };
    let cases = [
        (
            unsent,
            ("connection_lost", -31001, "not_sent", true),
            "The server exited with code 1 before x was sent to it. You can send it again.",
        ),
        (
            Error::ConnectionLost {
                cause: died(),
                outcome: Outcome::Rejected,
                poison: false,
            },
            ("connection_lost", -31001, "rejected", true),
            "The server exited with code 1 before x was sent to it. You can send it again.",
        ),
        (
            Error::ConnectionLost {
                cause: died(),
                outcome: Outcome::NotSent,
                poison: true,
            },
            ("connection_lost", -31001, "not_sent", false),
            "The server exited with code 1 while running x. It was in flight at two such ends in a \
             row, so it was not sent again.",
        ),
        (
            Error::ConnectionLost {
                cause: with_tail(died(), &["a", "b", "c", "d"]),
                outcome: Outcome::Unknown,
                poison: false,
            },
            ("connection_lost", -31001, "unknown", false),
            "The server exited with code 1 while running x. The server is being restarted; the \
             call may have taken effect, so it was not repeated. Calling again is safe only if \
             doing it twice is. The server's own output on stderr (quoted, not advice from outlive): \
             \"b\" | \"c\" | \"d\"",
        ),
        (
            Error::Unavailable {
                cause: None,
                held: Duration::ZERO,
                outcome: Outcome::NotSent,
                retry_after: None,
            },
            ("unavailable", -31002, "not_sent", true),
            "The server is not running yet, so x was not executed. Call again to try the server \
             again.",
        ),
        (
            Error::Overloaded {
                limit: Limit::held(8),
            },
            ("unavailable", -31002, "not_sent", true),
            "Too many requests are already waiting for the server (the limit is 8: `policy::Limits::held`), so x was not \
             accepted. It was not executed; call again later.",
        ),
        (
            Error::ShuttingDown {
                outcome: Outcome::Rejected,
            },
            ("shutting_down", -31005, "rejected", false),
            "The session or its server is ending, so x was refused and not sent again. It was not executed.",
        ),
        (
            Error::TooLarge {
                limit: 9,
                answer: false,
            },
            ("too_large", -31008, "not_sent", false),
            "The request is longer than the limit of 9 bytes and was not sent. Send less, or raise \
             `policy::Limits::message`.",
        ),
        (
            Error::Misconfigured {
                why: "the address is none".into(),
            },
            ("misconfigured", -32603, "not_sent", false),
            "The client cannot be set up: the address is none.",
        ),
        (
            Error::HandlerFailed {
                method: "roots/list".into(),
                why: "this client has no handler for it".into(),
            },
            ("handler_failed", -32603, "unknown", false),
            "The server asked for roots/list before it could answer x, but this client has no handler for it. The \
             server was not answered; what it had done until then stands.",
        ),
        (
            Error::CancelledByCaller,
            ("cancelled_by_caller", -31004, "unknown", false),
            "The caller cancelled x.",
        ),
        (
            Error::CancelledByPeer {
                reason: Some("tired".into()),
            },
            ("cancelled_by_peer", -31004, "unknown", false),
            "The server gave up x: tired.",
        ),
        (
            Error::CancelledByPeer { reason: None },
            ("cancelled_by_peer", -31004, "unknown", false),
            "The server gave up x.",
        ),
        (
            Error::TokenWithdrawn {
                outcome: Outcome::Unknown,
            },
            ("token_withdrawn", -31009, "unknown", false),
            "The token that x was sent with has been withdrawn, so it was cancelled and its answer is not delivered; it \
             may have taken effect. Use a token that is good.",
        ),
        (
            Error::TokenWithdrawn {
                outcome: Outcome::NotSent,
            },
            ("token_withdrawn", -31009, "not_sent", false),
            "The token that x was sent with has been withdrawn, so it was not sent. Use a token that is good.",
        ),
        (
            Error::SessionExpired,
            ("session_expired", -31006, "rejected", true),
            "The server has forgotten this session, so x was not executed. A new session is being opened; call again.",
        ),
        (
            Error::Rejected {
                status: 429,
                why: None,
            },
            ("rejected", -31007, "rejected", true),
            "The server refused x with status 429. It was not executed. You can send it again later.",
        ),
        (
            Error::Rejected {
                status: 401,
                why: None,
            },
            ("rejected", -31007, "rejected", false),
            "The server refused x with status 401. It was not executed. The server asks for other credentials: give \
             it valid ones, then call again.",
        ),
        (
            Error::Rejected {
                status: 400,
                why: None,
            },
            ("rejected", -31007, "rejected", false),
            "The server refused x with status 400. It was not executed. The same request would be refused again.",
        ),
        (
            Error::Rejected {
                status: 307,
                why: Some("it is elsewhere; go there".into()),
            },
            ("rejected", -31007, "rejected", false),
            "The server refused x with status 307: it is elsewhere; go there. It was not executed.",
        ),
        (
            Error::Unsupported {
                why: "Because.".into(),
            },
            ("unsupported", -32601, "rejected", false),
            "Method not found: x. Because.",
        ),
        (
            Error::remote(br#"{"code":-32001.0,"message":"no"}"#),
            ("remote", -32001, "done", false),
            "The server answered x with error -32001: no",
        ),
    ];
    for (error, (kind, code, outcome, retryable), sentence) in cases {
        assert_eq!(
            (error.kind(), error.code(), error.outcome().as_str()),
            (kind, code, outcome)
        );
        assert_eq!(error.is_retryable(), retryable, "{error:?}");
        assert_eq!(error.sentence("x"), sentence);
    }
}

#[test]
fn a_refusal_is_worth_another_try_only_if_it_is_about_the_moment() {
    let retryable = |status: &u16| {
        Error::Rejected {
            status: *status,
            why: None,
        }
        .is_retryable()
    };
    let statuses: Vec<u16> = (100..600).filter(retryable).collect();
    assert_eq!(statuses, [425, 429, 503]);
    let line = Error::Rejected {
        status: 413,
        why: None,
    }
    .to_response(b"1", "x", Generation::FIRST);
    let value: Value = serde_json::from_slice(line.bytes()).expect("JSON");
    let about = &value["error"]["data"]["outlive"];
    assert_eq!(
        (&about["status"], &about["retryable"]),
        (&json!(413), &json!(false))
    );
}

#[test]
fn an_error_on_the_wire_has_the_id_as_it_was_written() {
    let line = Error::SessionExpired.to_response(b"1.0", "x", Generation::FIRST.next());
    let line = std::str::from_utf8(line.bytes()).expect("UTF-8");
    assert!(line.starts_with(r#"{"jsonrpc":"2.0","id":1.0,"error":{"#));
    let value: Value = serde_json::from_str(line).expect("JSON");
    assert_eq!(
        value["error"]["data"]["outlive"],
        json!({"kind": "session_expired", "outcome": "rejected", "generation": 2, "retryable": true})
    );
}

#[test]
fn every_state_and_event_has_a_name_data_and_a_line() {
    let now = Time::after(Duration::from_secs(1));
    let retry_at = Time::after(Duration::from_millis(3_500));
    let generation = Generation::FIRST.next();
    let died = || cause(Reason::Exited(Exit::Code(1)), Phase::Service);
    let dropped = |direction| Event::Dropped {
        direction,
        reason: DropReason::NotAMessage,
        detail: "junk".into(),
    };
    let cases = [
        (
            Event::State(State::Connecting { attempt: 1 }),
            json!({"event": "state", "state": "connecting", "attempt": 1}),
            "starting the server",
        ),
        (
            Event::State(State::Connecting { attempt: 2 }),
            json!({"event": "state", "state": "connecting", "attempt": 2}),
            "starting the server, attempt 2",
        ),
        (
            Event::State(State::Ready { generation }),
            json!({"event": "state", "state": "ready", "generation": 2}),
            "ready (generation 2)",
        ),
        (
            Event::State(State::Down {
                cause: died(),
                retry_at,
            }),
            json!({"event": "state", "state": "down", "cause": died().to_json(), "retry_in_ms": 2500}),
            "down",
        ),
        (
            Event::State(State::Failed {
                cause: died(),
                retry_at,
            }),
            json!({"event": "state", "state": "failed", "cause": died().to_json(), "retry_in_ms": 2500}),
            "failed: the server exited with code 1; it is tried again now and then, and when it is called, at \
             most once a second (each failed attempt doubles the wait)",
        ),
        (
            Event::State(State::Closed),
            json!({"event": "state", "state": "closed"}),
            "closed",
        ),
        (
            Event::Connected {
                generation,
                server: Some(software("s", Some("1"))),
            },
            json!({"event": "connected", "generation": 2, "server": "s 1"}),
            "connected to s 1 (generation 2)",
        ),
        (
            Event::Connected {
                generation,
                server: None,
            },
            json!({"event": "connected", "generation": 2, "server": null}),
            "connected (generation 2)",
        ),
        (
            Event::Lost {
                generation,
                cause: with_tail(died(), &["a", "b"]),
                in_flight: 1,
            },
            json!({"event": "lost", "generation": 2, "in_flight": 1,
                "cause": with_tail(died(), &["a", "b"]).to_json()}),
            "lost generation 2: the server exited with code 1, 1 in flight; it last wrote to stderr: \"b\"",
        ),
        (
            Event::Lost {
                generation,
                cause: died(),
                in_flight: 0,
            },
            json!({"event": "lost", "generation": 2, "in_flight": 0, "cause": died().to_json()}),
            "lost generation 2: the server exited with code 1",
        ),
        (
            Event::Lost {
                generation,
                cause: unmade(),
                in_flight: 0,
            },
            json!({"event": "lost", "generation": 2, "in_flight": 0, "cause": unmade().to_json()}),
            "cmd --x could not be started: there is no such file (generation 2)",
        ),
        (
            Event::State(State::Failed {
                cause: unmade(),
                retry_at: now,
            }),
            json!({"event": "state", "state": "failed", "cause": unmade().to_json(), "retry_in_ms": 0}),
            "failed: cmd --x could not be started: there is no such file; it is tried again now and then, and when it \
             is called, at most once a second (each failed attempt doubles the wait)",
        ),
        (
            Event::Draining { in_flight: 1 },
            json!({"event": "draining", "in_flight": 1}),
            "closing; 1 request may still finish",
        ),
        (
            Event::HandshakeFailed {
                cause: refused_handshake(),
            },
            json!({"event": "handshake_failed", "cause": {
                "kind": "unanswered", "phase": "handshake", "command": "http://far/mcp", "error": "status 500",
            }}),
            "http://far/mcp left the handshake without an answer (status 500)",
        ),
        (
            Event::SlowStart { after_ms: 60_000 },
            json!({"event": "slow_start", "after_ms": 60_000}),
            "the server is still starting after 60 s; waiting (a first start may download packages)",
        ),
        (
            Event::Retried {
                id: "7".into(),
                method: "ping".into(),
                generation,
            },
            json!({"event": "retried", "id": "7", "method": "ping", "generation": 2}),
            "sent ping (id 7) again on generation 2",
        ),
        (
            Event::Resent {
                id: "7".into(),
                method: "tools/call".into(),
                generation,
                why: Unexecuted::Unread,
            },
            json!({"event": "resent", "id": "7", "method": "tools/call", "generation": 2, "why": "unread"}),
            "sent tools/call (id 7) again on generation 2: the server before it had ended without reading it, so it had \
             not been executed",
        ),
        (
            Event::Resent {
                id: "7".into(),
                method: "ping".into(),
                generation,
                why: Unexecuted::Refused,
            },
            json!({"event": "resent", "id": "7", "method": "ping", "generation": 2, "why": "refused"}),
            "sent ping (id 7) again on generation 2: the server had refused it, so it had not been executed",
        ),
        (
            Event::Refused {
                id: "7".into(),
                method: "ping".into(),
                kind: "timeout",
            },
            json!({"event": "refused", "id": "7", "method": "ping", "kind": "timeout"}),
            "answered ping (id 7) with timeout",
        ),
        (
            dropped(Direction::ToServer),
            json!({"event": "dropped", "direction": "to_server", "reason": "not_a_message", "detail": "junk"}),
            "dropped a line from the host: not_a_message (junk)",
        ),
        (
            dropped(Direction::ToHost),
            json!({"event": "dropped", "direction": "to_host", "reason": "not_a_message", "detail": "junk"}),
            "dropped a line from the server: not_a_message (junk)",
        ),
        (
            Event::AbsorbingCancels { generation },
            json!({"event": "absorbing_cancels", "generation": 2}),
            "generation 2 died of a cancellation; from now on cancellations are kept from this server",
        ),
        (
            Event::LegacyOnly,
            json!({"event": "legacy_only"}),
            "this server does not take `server/discover`",
        ),
        (
            Event::ListChanged {
                list: List::Tools,
                added: vec!["a".into()],
                removed: vec!["b".into(), "c".into()],
                changed: vec![],
            },
            json!({"event": "list_changed", "list": "tools", "added": ["a"], "removed": ["b", "c"], "changed": []}),
            "the list of tools changed: 1 added, 2 removed, 0 changed",
        ),
        (
            Event::StreamsCut {
                streams: 2,
                unread_bytes: 5_000_000,
            },
            json!({"event": "streams_cut", "streams": 2, "unread_bytes": 5_000_000}),
            "cut off 2 streams because their clients read too slowly; 5000000 bytes had not been read",
        ),
        (
            Event::Draining { in_flight: 0 },
            json!({"event": "draining", "in_flight": 0}),
            "closing",
        ),
        (
            Event::Draining { in_flight: 2 },
            json!({"event": "draining", "in_flight": 2}),
            "closing; 2 requests may still finish",
        ),
    ];
    for (event, data, line) in cases {
        assert_eq!(event.to_json(now), data);
        assert_eq!(event.to_string(), line);
        assert_eq!(data["event"], event.name());
        if let Event::State(state) = &event {
            assert_eq!(data["state"], state.name());
        }
    }
}

#[test]
fn drops_and_lists_have_names() {
    let names = [
        (DropReason::NotAMessage, "not_a_message"),
        (DropReason::TooLarge, "too_large"),
        (DropReason::StaleGeneration, "stale_generation"),
        (DropReason::LateAnswer, "late_answer"),
        (DropReason::UnknownAnswer, "unknown_answer"),
        (DropReason::UselessCancel, "useless_cancel"),
        (DropReason::AbsorbedCancel, "absorbed_cancel"),
        (DropReason::LateProgress, "late_progress"),
        (DropReason::NoServer, "no_server"),
        (DropReason::Closing, "closing"),
        (
            DropReason::ReplayedAcknowledgement,
            "replayed_acknowledgement",
        ),
    ];
    for (reason, name) in names {
        assert_eq!(reason.as_str(), name);
    }
    let lists = List::ALL.map(List::as_str);
    assert_eq!(lists, ["tools", "prompts", "resources", "templates"]);
}

#[test]
fn a_person_is_shown_what_matters_and_spared_the_rest() {
    let died = || cause(Reason::Exited(Exit::Code(1)), Phase::Service);
    let generation = Generation::FIRST;
    let retry_at = Time::ZERO;
    let shown = |event: Event| event.is_notable();
    let drop_of = |reason| Event::Dropped {
        direction: Direction::ToHost,
        reason,
        detail: String::new(),
    };
    assert!(shown(Event::State(State::Ready { generation })));
    assert!(shown(Event::State(State::Failed {
        cause: died(),
        retry_at
    })));
    assert!(shown(Event::LegacyOnly));
    assert!(shown(drop_of(DropReason::NotAMessage)));
    assert!(shown(drop_of(DropReason::UnknownAnswer)));
    assert!(!shown(Event::State(State::Connecting { attempt: 1 })));
    assert!(!shown(Event::State(State::Down {
        cause: died(),
        retry_at
    })));
    assert!(!shown(Event::State(State::Closed)));
    for reason in [
        DropReason::LateAnswer,
        DropReason::LateProgress,
        DropReason::UselessCancel,
        DropReason::AbsorbedCancel,
        DropReason::StaleGeneration,
        DropReason::ReplayedAcknowledgement,
    ] {
        assert!(!shown(drop_of(reason)), "{reason:?}");
    }
}

#[test]
fn a_dropped_line_is_told_on_one_line() {
    let dropped = |detail: String| Event::Dropped {
        direction: Direction::ToHost,
        reason: DropReason::NotAMessage,
        detail,
    };
    let shown = |detail| format!("dropped a line from the server: not_a_message ({detail})");
    assert_eq!(
        dropped("a\u{1b}[2Jb".into()).to_string(),
        shown("a\\u{1b}[2Jb")
    );
    let long = "é".repeat(120);
    assert_eq!(dropped(long.clone()).to_string(), shown(&long));
    assert_eq!(
        dropped(format!("{long}x")).to_string(),
        shown(&format!("{long}…"))
    );
}

#[test]
fn the_error_of_a_server_has_a_code_whatever_it_wrote() {
    for (object, code) in [
        (r#"{"code":-32602,"message":"no"}"#, -32602),
        (r#"{"code":7.0}"#, 7),
        (r#"{"code":99999999999}"#, 99_999_999_999),
        ("{}", -32603),
    ] {
        assert_eq!(Error::remote(object.as_bytes()).code(), code, "{object}");
    }
}

#[test]
fn a_server_that_says_it_shuts_down_is_understood() {
    for (outcome, read) in [
        ("rejected", Outcome::Rejected),
        ("not_sent", Outcome::Rejected),
        ("unknown", Outcome::Unknown),
    ] {
        let about = json!({"outlive": {"kind": "shutting_down", "outcome": outcome}});
        let object = json!({"code": -31005, "message": "bye", "data": about}).to_string();
        let error = Error::remote(object.as_bytes());
        assert_eq!(error, Error::ShuttingDown { outcome: read });
    }
}

#[test]
fn an_error_reads_as_its_sentence() {
    let error = Error::Overloaded {
        limit: Limit::calls(1),
    };
    let words = error.to_string();
    assert_eq!(words, error.sentence("the call"));
    assert!(words.contains("the call"), "{words}");
}

#[test]
fn a_cause_has_the_status_of_a_server_that_wants_credentials() {
    let cause = cause(Reason::Unauthorized(403), Phase::Handshake).to_json();
    assert_eq!(
        (&cause["kind"], &cause["status"]),
        (&json!("unauthorized"), &json!(403))
    );
}

/// No sentence says that a server ran what it did not, says "while" twice, or promises a restart that may not come.
#[test]
fn a_lost_call_is_told_in_one_plain_sentence() {
    let secs = Duration::from_secs;
    let words = || "no".to_string();
    let cases = [
        (
            Reason::Eof,
            Phase::Service,
            "closed its output (its process had not exited) while running x. The server is",
        ),
        (
            Reason::WriteFailed(words()),
            Phase::Service,
            "stopped taking input (no) while running x. The server is",
        ),
        (
            Reason::Disconnected(None),
            Phase::Service,
            "closed the connection while running x. The server is",
        ),
        (
            Reason::Disconnected(Some(words())),
            Phase::Service,
            "was disconnected (no) while running x. The server is",
        ),
        (
            Reason::Unreachable(words()),
            Phase::Service,
            "could not be reached (no) while running x. The server is",
        ),
        (
            Reason::Unauthorized(401),
            Phase::Service,
            "refused the credentials it was given (status 401) while running x. The call",
        ),
        (
            Reason::SessionExpired,
            Phase::Service,
            "forgot the session while running x. The server is",
        ),
        (
            Reason::Unanswered(words()),
            Phase::Service,
            "left x without an answer (no). The call",
        ),
        (
            Reason::Unresponsive(secs(9)),
            Phase::Service,
            "answered nothing for 9 s and was stopped while running x. The server is",
        ),
        (
            Reason::Stopped,
            Phase::Service,
            "was found suspended (stopped) and was killed while running x. The server is",
        ),
        (
            Reason::Requested,
            Phase::Service,
            "was restarted on request while running x. The call",
        ),
        (
            Reason::Exited(Exit::Code(1)),
            Phase::Handshake,
            "exited with code 1 during the handshake, with x in flight. The call",
        ),
        (
            Reason::Unmade(StartFailure::NoFile),
            Phase::Spawn,
            "was lost while running x, and the next one could not be started: there is no such file. The call",
        ),
        (
            Reason::SlowHandshake(secs(60)),
            Phase::Handshake,
            "was lost while running x, and the next one did not answer `initialize` within 60 s and was stopped. The call",
        ),
        (
            Reason::HandshakeRefused(words()),
            Phase::Handshake,
            "was lost while running x, and the next one refused `initialize`: no. The call",
        ),
    ];
    for (reason, phase, told) in cases {
        let error = Error::ConnectionLost {
            cause: cause(reason, phase),
            outcome: Outcome::Unknown,
            poison: false,
        };
        let sentence = error.sentence("x");
        assert!(
            sentence.starts_with(&format!("The server {told}")),
            "{sentence}"
        );
        assert!(sentence.contains("may have taken effect"), "{sentence}");
    }
    let given_up = Error::CancelledByPeer {
        reason: Some("too busy.".into()),
    };
    assert_eq!(given_up.sentence("x"), "The server gave up x: too busy.");
}

#[test]
fn a_server_at_an_address_is_neither_started_nor_stopped() {
    let remote = |reason, phase| Cause::new(reason, phase, "https://example.com/mcp");
    let lost = Error::ConnectionLost {
        cause: remote(Reason::SessionExpired, Phase::Service),
        outcome: Outcome::Unknown,
        poison: false,
    };
    assert_eq!(
        lost.sentence("x"),
        "The server forgot the session while running x. A new session is being opened; the call may have taken \
         effect, so it was not repeated. Calling again is safe only if doing it twice is."
    );
    let absent = Error::Unavailable {
        cause: Some(remote(
            Reason::Unreachable("refused".into()),
            Phase::Handshake,
        )),
        held: Duration::ZERO,
        outcome: Outcome::NotSent,
        retry_after: None,
    };
    assert!(
        absent
            .sentence("x")
            .contains(" (address: https://example.com/mcp)"),
        "{absent}"
    );
    let soon = Duration::from_secs(3);
    for (reason, words) in [
        (
            Reason::Unmade(StartFailure::Other("no".into())),
            "cannot be used: no",
        ),
        (
            Reason::SlowHandshake(soon),
            "did not answer `initialize` within 3 s",
        ),
        (Reason::Unresponsive(soon), "answered nothing for 3 s"),
        (Reason::Requested, "was given a new session on request"),
        (Reason::Closing, "is not needed any more"),
        (
            Reason::OwnerEnded,
            "was disconnected when the process that held its session ended",
        ),
    ] {
        assert_eq!(remote(reason, Phase::Service).predicate(), words);
    }
}
