//! Many at once.

use std::io::Write;
use std::net::TcpStream;

use serde_json::json;

use crate::gate::{Gate, text};
use crate::rig::{PATIENCE, Setup, until};
use crate::wire::{Reply, as_strs, modern_call, modern_headers};

/// Descriptors of a process.
fn descriptors(pid: u32) -> usize {
    std::fs::read_dir(format!("/proc/{pid}/fd")).map_or(0, Iterator::count)
}

#[test]
fn a_thousand_requests_in_flight_are_all_answered() {
    let gate = Gate::new();
    let connections: Vec<TcpStream> = (0..1000)
        .map(|n| {
            let body = modern_call(1, "echo", json!({"text": format!("number {n}")}));
            let mut stream = TcpStream::connect(gate.address).expect("a connection");
            stream.set_read_timeout(Some(PATIENCE)).expect("a timeout");
            let (headers, body) = (modern_headers(&body), body.to_string());
            let request = http_peer::head("POST", "/mcp", &as_strs(&headers), body.len()) + &body;
            stream.write_all(request.as_bytes()).expect("sent");
            stream
        })
        .collect();
    for (n, connection) in connections.into_iter().enumerate() {
        let answer = Reply::read(connection).expect("a response").answer();
        assert_eq!(text(&answer), format!("number {n}"));
    }
    assert_eq!(gate.setup.tap().pids().len(), 1);
}

/// FM-39: clients connect, call and vanish; nearly none says good-bye.
#[test]
fn fm_39_a_storm_of_clients_leaves_no_process_descriptor_or_session_behind() {
    let gate = Gate::with(
        Setup::new(),
        &["--session-ttl", "300ms", "--max-servers", "256"],
    );
    gate.client();
    until("it ends", || gate.servers().is_empty().then_some(()));
    let before = descriptors(gate.pid());
    for n in 0..150 {
        let client = gate.client();
        let words = format!("number {n}");
        let answer = client.call(1, "echo", json!({"text": words})).answer();
        assert_eq!(text(&answer), words);
    }
    until("all servers end", || {
        gate.servers().is_empty().then_some(())
    });
    until("all descriptors are closed", || {
        (descriptors(gate.pid()) <= before).then_some(())
    });
    gate.stop();
    assert!(gate.join().success());
}
