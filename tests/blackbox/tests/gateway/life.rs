//! Servers are started, kept, stopped; so are sessions, and the gateway.

use std::thread;
use std::time::{Duration, Instant};

use serde_json::json;

use crate::gate::{Gate, kind, text};
use crate::rig::{PATIENCE, Setup, until};
use crate::wire::{self, initialize, modern, modern_call};

#[test]
fn fm_12_a_client_with_less_patience_than_the_server_needs_gets_there_in_the_end() {
    let setup = Setup::new().knobs(&["--start-delay", "1500"]);
    let gate = Gate::with(setup, &[]);
    let mut attempts = 0;
    let begun = Instant::now();
    loop {
        attempts += 1;
        let body = initialize().to_string();
        thread::sleep(Duration::from_millis(100));
        match wire::send_briefly(gate.address, &body, Duration::from_millis(200)) {
            Some(reply) => {
                assert_eq!(reply.status, 200);
                break;
            }
            None => assert!(begun.elapsed() < PATIENCE, "it never converges"),
        }
    }
    let starts = gate.setup.tap().pids().len();
    // An attempt may come before it is known that the last one was given up.
    assert!(
        2 * starts <= attempts,
        "{starts} starts for {attempts} attempts"
    );
}

#[test]
fn fm_12_a_slow_start_is_reported_and_waited_for() {
    let setup = Setup::new().knobs(&["--start-delay", "1000"]);
    let gate = Gate::with(setup, &["--start-soft", "100ms"]);
    thread::scope(|scope| {
        let connecting = scope.spawn(|| gate.client());
        until("it is reported", || logged(&gate, "slow_start"));
        let client = connecting.join().expect("a client");
        assert_eq!(text(&client.call(1, "ping", json!({})).answer()), "pong");
    });
    assert_eq!(gate.setup.tap().pids().len(), 1);
}

fn logged(gate: &Gate, event: &str) -> Option<()> {
    let events = gate.events();
    events.iter().any(|it| it["event"] == event).then_some(())
}

#[test]
fn fm_33_clients_that_come_and_go_harm_nobody() {
    let gate = Gate::new();
    let steady = gate.client();
    thread::scope(|scope| {
        for n in 0..4 {
            let gate = &gate;
            scope.spawn(move || {
                for round in 0..6 {
                    let client = gate.client();
                    let words = format!("{n}/{round}");
                    let answer = client.call(1, "echo", json!({"text": words})).answer();
                    assert_eq!(text(&answer), words);
                    match round % 3 {
                        0 => drop(client.leave()),
                        // It vanishes in the middle of a call.
                        1 => drop(wire::reset_after(gate.address, &client.session)),
                        _ => {}
                    }
                }
            });
        }
    });
    assert_eq!(text(&steady.call(1, "ping", json!({})).answer()), "pong");
    gate.stop();
    gate.join();
    assert!(gate.servers().is_empty());
}

#[test]
fn fm_39_a_session_nobody_uses_ends_with_its_server() {
    let gate = Gate::with(Setup::new(), &["--session-ttl", "300ms"]);
    for _ in 0..10 {
        gate.client();
    }
    assert_eq!(gate.setup.tap().pids().len(), 10, "each had its own");
    until("the servers end", || {
        gate.servers().is_empty().then_some(())
    });
}

#[test]
fn fm_40_a_session_in_use_does_not_end() {
    let gate = Gate::with(Setup::new(), &["--session-ttl", "200ms"]);
    let client = gate.client();
    let answer = client.call(1, "sleep", json!({"ms": 1500})).answer();
    assert_eq!(text(&answer), "slept");
    // A connection that breaks is not the end of the session either.
    drop(client.listen());
    assert_eq!(text(&client.call(2, "ping", json!({})).answer()), "pong");
}

#[test]
fn fm_54_a_shutdown_lets_calls_finish_and_refuses_new_clients() {
    let gate = Gate::new();
    let clients: Vec<_> = (0..6).map(|_| gate.client()).collect();
    let mut streams: Vec<_> = clients.iter().map(|client| client.listen()).collect();
    thread::scope(|scope| {
        let calls: Vec<_> = clients[..3]
            .iter()
            .map(|client| scope.spawn(|| client.call(1, "sleep", json!({"ms": 1500})).answer()))
            .collect();
        let modern = scope.spawn(|| {
            gate.modern(&modern_call(1, "sleep", json!({"ms": 1500})))
                .answer()
        });
        until("the calls", || {
            (gate.setup.tap().method("tools/call").len() == 4).then_some(())
        });
        gate.stop();
        // A signal takes its time.
        until("it knows", || {
            let ready = http_peer::send(gate.address, "GET", "/ready", &[], "").ok()?;
            (ready.status == 503).then_some(())
        });
        let refused = wire::send(gate.address, "POST", &[], &initialize().to_string());
        assert_eq!(refused.status, 503);
        assert!(refused.header("retry-after").is_some());
        // A modern client has no session that could end.
        let refused = gate.modern(&modern_call(2, "ping", json!({}))).answer();
        assert_eq!(kind(&refused), "shutting_down");
        let words = refused["error"]["message"].as_str().expect("words");
        assert!(words.contains("server is shutting down"), "{words}");
        for call in calls {
            assert_eq!(text(&call.join().expect("an answer")), "slept");
        }
        assert_eq!(text(&modern.join().expect("an answer")), "slept");
    });
    for stream in &mut streams {
        assert!(stream.next_message().expect("a clean end").is_none());
    }
    gate.join();
    assert!(gate.servers().is_empty());
}

#[test]
fn fm_54_a_second_shutdown_does_not_wait() {
    let setup = Setup::new().knobs(&["--ignore-eof"]);
    let gate = Gate::with(setup, &["--drain", "1h", "--stop-grace", "1h"]);
    let client = gate.client();
    thread::scope(|scope| {
        let call = scope.spawn(|| client.call(1, "sleep", json!({"ms": 3_600_000})).answer());
        until("the call", || {
            (!gate.setup.tap().method("tools/call").is_empty()).then_some(())
        });
        gate.stop();
        // Signals are not counted: two at once are one.
        until("it drains", || logged(&gate, "draining"));
        gate.stop();
        assert_eq!(kind(&call.join().expect("an answer")), "shutting_down");
    });
    gate.join();
    assert!(gate.servers().is_empty());
}

#[test]
fn a_pool_is_used_evenly_and_stopped_when_idle() {
    let gate = Gate::with(Setup::new(), &["--pool", "3", "--idle-stop", "300ms"]);
    thread::scope(|scope| {
        let sleep = || {
            gate.modern(&modern_call(1, "sleep", json!({"ms": 700})))
                .answer()
        };
        let calls: Vec<_> = (0..3).map(|_| scope.spawn(sleep)).collect();
        for call in calls {
            assert_eq!(text(&call.join().expect("an answer")), "slept");
        }
    });
    assert_eq!(gate.setup.tap().pids().len(), 3);
    // One that listens is in use.
    let wanted = json!({"notifications": {"toolsListChanged": true}});
    let mut stream = gate.modern(&modern(1, "subscriptions/listen", wanted));
    stream.message();
    until("the others are stopped", || {
        (gate.servers().len() == 1).then_some(())
    });
    drop(stream);
    until("all are stopped", || {
        gate.servers().is_empty().then_some(())
    });
    let answer = gate.modern(&modern_call(1, "ping", json!({}))).answer();
    assert_eq!(text(&answer), "pong");
}

#[test]
fn a_server_that_cannot_be_started_is_told_of() {
    let server = ["--", "/nonexistent/server", "--token", "hush-hush"];
    let gate = Gate::before(Setup::new(), &["--hold", "300ms"], &server);
    let refused = gate.modern(&modern_call(1, "ping", json!({}))).answer();
    assert_eq!(kind(&refused), "unavailable");
    let words = refused.to_string();
    assert!(
        words.contains("/nonexistent/server") && !words.contains("hush-hush"),
        "{words}"
    );
}
