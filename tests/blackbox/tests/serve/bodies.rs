//! Bodies that are refused, and bodies that never come whole.

use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use serde_json::json;

use crate::gateway::Gateway;
use crate::rig::{PATIENCE, tree, until};
use crate::wire;

/// More than the system takes in on both sides.
const LONG: usize = 12 << 20;

#[test]
fn fm_60_a_refusal_reaches_a_client_that_sends_all_before_it_reads() {
    let gateway = Gateway::new(&["--token", "t", "--message-limit", "1MiB"]);
    let body = "x".repeat(LONG);
    let token = ("Authorization", "Bearer t");
    let cases = [
        (&[][..], "/mcp", 401),
        (&[token][..], "/mcp", 413),
        (&[token, ("Content-Type", "text/plain")][..], "/mcp", 415),
        (&[token, ("Accept", "text/html")][..], "/mcp", 406),
        (
            &[token, ("Origin", "http://evil.example.com")][..],
            "/mcp",
            403,
        ),
        (&[token][..], "/elsewhere", 404),
    ];
    for (headers, path, status) in cases {
        for round in 0..5 {
            let sent = http_peer::send(gateway.address, "POST", path, headers, &body);
            let reply = sent.unwrap_or_else(|error| panic!("{status}, round {round}: {error}"));
            assert_eq!(reply.status, status);
            assert!(reply.json()["error"]["message"].is_string());
        }
    }
}

#[test]
fn fm_60_a_connection_is_good_for_another_request_after_a_refusal() {
    let gateway = Gateway::new(&["--message-limit", "1MiB"]);
    let body = "x".repeat(LONG);
    let mut stream = TcpStream::connect(gateway.address).expect("a connection");
    stream.set_read_timeout(Some(PATIENCE)).expect("a timeout");
    let head = |length: usize| {
        format!(
            "POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n\
             Content-Length: {length}\r\n\r\n"
        )
    };
    stream.write_all(head(body.len()).as_bytes()).expect("sent");
    stream.write_all(body.as_bytes()).expect("sent");
    let refused = http_peer::Reply::read(stream.try_clone().expect("a clone")).expect("a response");
    assert_eq!(refused.status, 413);
    refused.json();
    let hello = wire::initialize().to_string();
    stream
        .write_all((head(hello.len()) + &hello).as_bytes())
        .expect("sent");
    assert_eq!(
        http_peer::Reply::read(stream).expect("a response").status,
        200
    );
}

/// A client that begins a long message. What it is told, if anything, is in `told`.
struct Sender {
    stream: TcpStream,
    sent: usize,
    told: bool,
}

/// So many clients each send so much of a message that is longer; the most memory that the program had meanwhile.
fn unfinished(gateway: &Gateway, clients: usize, each: usize) -> (u64, usize) {
    let head = format!(
        "POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n\
         Content-Length: {}\r\n\r\n",
        each + (1 << 20)
    );
    let piece = vec![b' '; 256 << 10];
    let mut senders: Vec<Sender> = (0..clients)
        .map(|_| {
            let mut stream = TcpStream::connect(gateway.address).expect("a connection");
            stream.write_all(head.as_bytes()).expect("sent");
            stream.set_nonblocking(true).expect("set");
            Sender {
                stream,
                sent: 0,
                told: false,
            }
        })
        .collect();
    let mut most = 0;
    let begun = Instant::now();
    loop {
        let mut moved = false;
        for sender in senders.iter_mut().filter(|it| !it.told && it.sent < each) {
            match sender.stream.write(&piece) {
                Ok(count) => (sender.sent, moved) = (sender.sent + count, true),
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                Err(_) => sender.told = true,
            }
            // One that is told something sends no more of it.
            let told = sender.stream.read(&mut [0; 4096]);
            sender.told |= !matches!(told, Err(error) if error.kind() == ErrorKind::WouldBlock);
        }
        most = most.max(tree::resident(gateway.pid()).unwrap_or_default());
        if !senders.iter().any(|it| !it.told && it.sent < each) {
            break;
        }
        assert!(
            begun.elapsed() < 4 * PATIENCE,
            "it neither reads nor answers"
        );
        if !moved {
            std::thread::sleep(Duration::from_millis(5));
        }
    }
    // It may still be reading what has been sent.
    for _ in 0..50 {
        std::thread::sleep(Duration::from_millis(10));
        most = most.max(tree::resident(gateway.pid()).unwrap_or_default());
    }
    let told = senders.iter().filter(|it| it.told).count();
    // Others are served meanwhile.
    let session = gateway.session();
    let answer = gateway
        .call(&session, 1, "echo", json!({"text": "hi"}))
        .answer();
    assert_eq!(answer["result"]["content"][0]["text"], "hi");
    (most, told)
}

/// The bound that docs/guide.md states for 1,000 clients.
const MOST: u64 = 768 << 20;

#[test]
fn invariant_unfinished_bodies_have_a_bound_together() {
    let gateway = Gateway::new(&[]);
    let (most, told) = unfinished(&gateway, 40, 30 << 20);
    assert!(most < 400 << 20, "{} MiB", most >> 20);
    assert!(told >= 25, "{told} of 40 were refused");
}

#[test]
fn invariant_a_thousand_unfinished_bodies_have_the_same_bound() {
    let gateway = Gateway::new(&[]);
    let (most, told) = unfinished(&gateway, 1000, 30 << 20);
    println!(
        "1,000 unfinished bodies of 30 MiB: {} MiB at most",
        most >> 20
    );
    assert!(most < MOST, "{} MiB", most >> 20);
    assert!(told >= 900, "{told} of 1000 were refused");
}

#[test]
fn fm_60_whoever_stalls_gives_way() {
    let gateway = Gateway::new(&["--message-limit", "8MiB", "--max-body-bytes", "8MiB"]);
    let mut stalls = TcpStream::connect(gateway.address).expect("a connection");
    stalls.set_read_timeout(Some(PATIENCE)).expect("a timeout");
    let length = 7 << 20;
    let head = format!(
        "POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n\
         Content-Length: {length}\r\n\r\n",
    );
    stalls.write_all(head.as_bytes()).expect("sent");
    stalls.write_all(&vec![b' '; 6 << 20]).expect("sent");
    let session = gateway.session();
    let text = "x".repeat(5 << 20);
    let call = || gateway.call(&session, 1, "echo", json!({"text": text}));
    let refused = until("there is no room", || {
        Some(call()).filter(|reply| reply.status != 200)
    });
    assert_eq!(refused.status, 503);
    assert!(refused.header("retry-after").is_some());
    let answer = until("it gives way", || {
        Some(call()).filter(|reply| reply.status == 200)
    });
    assert_eq!(answer.answer()["result"]["content"][0]["text"], *text);
    let told = http_peer::Reply::read(stalls).expect("a response");
    assert_eq!(told.status, 408);
}
