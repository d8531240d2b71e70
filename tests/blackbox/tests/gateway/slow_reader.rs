//! Clients that read more slowly than their servers write, or not at all.

use std::thread;
use std::time::Duration;

use serde_json::{Value, json};

use crate::gate::{Gate, text};
use crate::rig::{Setup, tree, until};
use crate::wire::{self, Reply, call};

/// Notifications that a server writes as fast as it can: 40 MB.
const COUNT: u64 = 20_000;
const BYTES: u64 = 2_000;

/// What a gateway may need for some streams, far less than what is written on one of them.
const MEMORY: u64 = 24 << 20;

fn flood() -> Value {
    json!({"count": COUNT, "bytes": BYTES})
}

/// Reads all notifications of a flood, with a pause now and then, in order. Returns the most memory that the gateway
/// had meanwhile.
#[track_caller]
fn read_slowly(gate: &Gate, stream: &mut Reply) -> u64 {
    let mut most = 0;
    for n in 0..COUNT {
        let message = stream.next_message().expect("a whole event");
        let message = message.unwrap_or_else(|| panic!("it was cut off before {n}"));
        assert_eq!(message["params"]["data"]["n"], n, "{message}");
        if n % 16 == 0 {
            thread::sleep(Duration::from_millis(4));
        }
        if n % 512 == 0 {
            most = most.max(tree::resident(gate.pid()).expect("it lives"));
        }
    }
    most
}

fn cuts(gate: &Gate) -> u64 {
    let page = wire::send_to(gate.address, "/metrics", "GET", &[], "").text();
    let line = page
        .lines()
        .find_map(|line| line.strip_prefix("outlive_streams_cut_total "));
    line.expect("a counter").parse().expect("a number")
}

fn logged(gate: &Gate) -> Vec<Value> {
    let mut events = gate.events();
    events.retain(|event| event["event"] == "streams_cut");
    events
}

#[test]
fn a_server_waits_for_a_client_that_reads_more_slowly_than_it_writes() {
    let gate = Gate::new();
    let (steady, stuck) = (gate.client(), gate.client());
    // The other client has a server of its own. It stops reading, and nobody waits for it but that server.
    let unread = stuck.call(1, "flood", flood());
    let before = tree::resident(gate.pid()).expect("it lives");
    let mut stream = steady.call(1, "flood", flood());
    let most = read_slowly(&gate, &mut stream);
    assert_eq!(text(&stream.message()), "flooded");
    assert!(most < before + MEMORY, "{before} bytes became {most}");
    assert_eq!((cuts(&gate), logged(&gate)), (0, vec![]));
    // Nothing of what the other one has not read is lost, either.
    assert_eq!(unread.messages().len() as u64, COUNT + 1);
}

#[test]
fn a_server_waits_for_a_slow_reader_of_the_standalone_stream() {
    let gate = Gate::new();
    let client = gate.client();
    let mut stream = client.listen();
    thread::scope(|scope| {
        // With two calls at a time, it is not known which of them is told something.
        let other = scope
            .spawn(|| client.call(1, "puppet", json!({"strings": gate.setup.path("strings")})));
        until("the call", || {
            (!gate.setup.tap().method("tools/call").is_empty()).then_some(())
        });
        let flooding = scope.spawn(|| client.call(2, "flood", flood()).answer());
        read_slowly(&gate, &mut stream);
        assert_eq!(text(&flooding.join().expect("an answer")), "flooded");
        gate.setup.file("strings", "answer");
        assert_eq!(text(&other.join().expect("a response").answer()), "answer");
    });
    assert_eq!((cuts(&gate), logged(&gate)), (0, vec![]));
}

#[test]
fn a_server_waits_for_a_slow_client_of_http_sse() {
    let gate = Gate::new();
    let mut stream = wire::send_to(gate.address, "/sse", "GET", &[], "");
    let address = stream.event().expect("an address").data;
    let post = |message: &Value| {
        let reply = wire::send_to(gate.address, &address, "POST", &[], &message.to_string());
        assert_eq!(reply.status, 202);
    };
    post(&wire::initialize());
    assert!(stream.message()["result"].is_object());
    post(&wire::initialized());
    post(&call(1, "flood", flood()));
    read_slowly(&gate, &mut stream);
    assert_eq!(text(&stream.message()), "flooded");
    assert_eq!((cuts(&gate), logged(&gate)), (0, vec![]));
}

#[test]
fn an_answer_does_not_wait_for_ever_behind_a_stream_that_is_not_read() {
    let gate = Gate::new();
    let client = gate.client();
    let unread = client.listen();
    thread::scope(|scope| {
        let other = scope
            .spawn(|| client.call(1, "puppet", json!({"strings": gate.setup.path("strings")})));
        until("the call", || {
            (!gate.setup.tap().method("tools/call").is_empty()).then_some(())
        });
        assert_eq!(text(&client.call(2, "flood", flood()).answer()), "flooded");
        gate.setup.file("strings", "answer");
        assert_eq!(text(&other.join().expect("a response").answer()), "answer");
    });
    drop(unread);
    assert_eq!((cuts(&gate), logged(&gate).len()), (1, 1));
}

#[test]
fn nobody_waits_for_a_slow_client_of_a_server_that_others_use() {
    let gate = Gate::with(Setup::new(), &["--share"]);
    let (slow, other) = (gate.client(), gate.client());
    let unread = slow.call(1, "flood", flood());
    until("it is cut off", || (cuts(&gate) == 1).then_some(()));
    assert_eq!(text(&other.call(1, "ping", json!({})).answer()), "pong");
    assert!(unread.messages().len() as u64 <= COUNT, "it has lost some");
    let [event] = &logged(&gate)[..] else {
        panic!("{:?}", logged(&gate));
    };
    assert_eq!(event["streams"], 1, "{event}");
    assert!(event["unread_bytes"].as_u64() > Some(4 << 20), "{event}");
}
