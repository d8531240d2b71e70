//! Legacy clients, each with a server to itself.

use std::thread;

use serde_json::json;

use crate::gate::{Gate, text};
use crate::rig::until;
use crate::wire::{self, call};

#[test]
fn each_client_has_a_server_to_itself_and_none_is_started_before() {
    let gate = Gate::new();
    assert!(gate.servers().is_empty());
    let (one, two) = (gate.client(), gate.client());
    let pid = |client: &crate::gate::Client| {
        let answer = client.call(1, "ping", json!({})).answer();
        answer["result"]["structuredContent"]["pid"].clone()
    };
    assert_ne!(pid(&one), pid(&two));
    assert_eq!(pid(&one), pid(&one));
}

#[test]
fn progress_and_the_answer_come_on_the_stream_of_the_call() {
    let gate = Gate::new();
    let client = gate.client();
    let said = client.call(7, "progress", json!({"steps": 3})).messages();
    let (answer, progress) = said.split_last().expect("an answer");
    assert_eq!(answer["id"], 7);
    assert!(!progress.is_empty());
    for step in progress {
        assert_eq!(step["method"], "notifications/progress", "{step}");
        assert_eq!(step["params"]["progressToken"], 7);
    }
}

#[test]
fn what_the_server_asks_comes_on_the_stream_of_the_only_call() {
    let gate = Gate::new();
    let client = gate.client();
    let mut reply = client.call(1, "elicit", json!({}));
    let ask = reply.message();
    assert_eq!(ask["method"], "elicitation/create", "{ask}");
    let answer = json!({"jsonrpc": "2.0", "id": ask["id"], "result": {"action": "accept", "content": {"name": "Ada"}}});
    assert_eq!(client.post(&answer).status, 202);
    let answer = reply.message();
    assert_eq!(answer["id"], 1, "{answer}");
    assert!(answer["result"].is_object(), "{answer}");
}

#[test]
fn a_cancellation_ends_the_stream_of_its_call() {
    let gate = Gate::new();
    let client = gate.client();
    let calling = {
        let client = client.clone();
        thread::spawn(move || client.call(1, "sleep", json!({"ms": 60_000})))
    };
    until("the call", || {
        (!gate.setup.tap().method("tools/call").is_empty()).then_some(())
    });
    let cancel =
        json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1}});
    assert_eq!(client.post(&cancel).status, 202);
    let mut reply = calling.join().expect("a response");
    match reply.is_stream() {
        true => assert!(reply.next_message().expect("a clean end").is_none()),
        // It was cancelled before there was a stream.
        false => assert_eq!(reply.status, 202),
    }
    until("the handler is told", || {
        (!gate.setup.tap().notes("cancelled").is_empty()).then_some(())
    });
}

#[test]
fn a_body_with_line_breaks_reaches_the_server_as_one_line() {
    let gate = Gate::new();
    let client = gate.client();
    let body = serde_json::to_string_pretty(&call(1, "echo", json!({"text": "hi"}))).expect("JSON");
    let headers = [("Mcp-Session-Id", client.session.as_str())];
    let answer = wire::send(gate.address, "POST", &headers, &body).answer();
    assert_eq!(text(&answer), "hi");
}

#[test]
fn what_belongs_to_no_call_comes_on_the_standalone_stream() {
    let gate = Gate::new();
    let client = gate.client();
    let mut stream = client.listen();
    assert!(stream.is_stream());
    let notify = json!({"method": "notifications/tools/list_changed"});
    assert_eq!(client.call(1, "notify", notify).status, 200);
    assert_eq!(
        stream.message()["method"],
        "notifications/tools/list_changed"
    );
}
