//! How a real process ends.

use serde_json::{Value, json};

use crate::process::Server;

/// FM-20 on a real process: it exits 0, without a trace.
#[test]
fn fm_20_a_process_whose_client_leaves_ends_without_a_trace() {
    for kind in ["--multi-thread", "--current-thread", "--no-runtime"] {
        // End of input in the middle of fifty calls.
        let mut server = Server::ready(&[kind]);
        for id in 0..50 {
            server.begin_call(id, "sleep", json!({ "ms": 600_000 }));
        }
        server.ping("running");
        let end = server.finish();
        end.assert_quiet();
        assert_eq!(end.said, [] as [Value; 0]);

        // The client no longer reads, and then nothing is sent either.
        let mut server = Server::ready(&[kind]);
        for id in 0..50 {
            server.begin_call(id, "sleep", json!({ "ms": 600_000 }));
        }
        server.ping("running");
        server.close_stdout();
        server.end(Vec::new()).assert_quiet();

        // The client is killed: both at once.
        let mut server = Server::ready(&[kind]);
        server.begin_call(1, "block", json!({ "ms": 600_000 }));
        server.begin_call(2, "sleep", json!({ "ms": 600_000 }));
        server.ping("running");
        server.close_stdout();
        server.finish().assert_quiet();
    }
}

#[test]
fn a_process_without_a_client_ends_at_once() {
    Server::start(&[]).finish().assert_quiet();
    let mut server = Server::start(&[]);
    server.close_stdout();
    server.end(Vec::new()).assert_quiet();
}

/// FM-56: `server < requests > answers`.
#[test]
fn fm_56_answers_being_computed_at_the_end_of_input_are_given() {
    for _ in 0..20 {
        let mut server = Server::ready(&[]);
        for id in 0..3 {
            server.begin_call(id, "sleep", json!({ "ms": 20 }));
        }
        let end = server.finish();
        end.assert_quiet();
        assert_eq!(end.said.len(), 3);
    }
}

/// FM-51: a handler that asks is told that nobody will answer.
#[test]
fn fm_51_a_handler_that_waits_for_a_client_that_left_goes_on() {
    let mut server = Server::ready(&[]);
    server.begin_call(1, "ask", json!({}));
    server.ping("asked");
    let end = server.finish();
    end.assert_quiet();
    let answer = end
        .said
        .iter()
        .find(|message| message["id"] == 1)
        .expect("an answer");
    assert_eq!(answer["result"]["isError"], true, "{answer}");
}

/// FM-63, FM-64.
#[test]
fn fm_64_a_process_full_of_blocked_and_panicking_handlers_serves_on() {
    for kind in ["--multi-thread", "--current-thread", "--no-runtime"] {
        let mut server = Server::ready(&[kind]);
        for id in 0..40 {
            server.begin_call(id, "block", json!({ "ms": 600_000 }));
        }
        for round in 0..10 {
            let panicked = server.call(format!("p{round}"), "panic", json!({}));
            assert_eq!(panicked["error"]["code"], -32603);
            let dropped = server.call(format!("d{round}"), "drops", json!({}));
            assert_eq!(dropped["error"]["code"], -32603);
            let slept = server.call(format!("s{round}"), "sleep", json!({ "ms": 1 }));
            assert_eq!(slept["result"]["content"][0]["text"], "slept");
            server.ping(&format!("ping {round}"));
        }
        let end = server.finish();
        assert_eq!((end.code, end.signal), (Some(0), None));
    }
}
