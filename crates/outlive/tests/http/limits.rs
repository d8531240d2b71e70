//! What a client may take up: bytes, time, connections.

use std::io::{Read, Write};
use std::time::Duration;

use serde_json::json;

use crate::offer::Offer;
use crate::rig::*;

/// Whether the server has closed this connection.
fn is_closed(mut stream: std::net::TcpStream) -> bool {
    let mut rest = Vec::new();
    // A reset is an end as well; a timeout is none.
    match stream.read_to_end(&mut rest) {
        Ok(_) => true,
        Err(error) => error.kind() == std::io::ErrorKind::ConnectionReset,
    }
}

#[test]
fn a_body_over_the_limit_is_not_read() {
    let offer = Offer::with(|builder| builder.message_limit(10_000));
    let rig = Rig::new(&offer.server);
    let call = |length: usize| modern_call(1, "echo", json!({"text": "x".repeat(length)}));
    assert_eq!(rig.modern(&call(9_000)).status, 200);
    let reply = rig.modern(&call(10_000));
    assert_eq!(reply.status, 413);
    assert_eq!(reply.json()["error"]["code"], -31008);

    // Neither is one that does not say how long it is.
    let mut stream = rig.connect();
    let head = "POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n\
                Transfer-Encoding: chunked\r\n\r\n";
    stream.write_all(head.as_bytes()).expect("sent");
    let chunk = format!("3e8\r\n{}\r\n", "x".repeat(1000));
    for _ in 0..20 {
        if stream.write_all(chunk.as_bytes()).is_err() {
            break;
        }
    }
    assert_eq!(Reply::read(stream).expect("a response").status, 413);
}

#[test]
fn a_head_without_end_is_given_up() {
    let offer = Offer::new();
    let rig = Rig::new(&offer.server);
    let mut stream = rig.connect();
    let _ = stream.write_all(b"POST /mcp HTTP/1.1\r\nHost: localhost\r\nX-Long: ");
    let piece = "x".repeat(1 << 10);
    for _ in 0..256 {
        if stream.write_all(piece.as_bytes()).is_err() {
            break;
        }
    }
    if let Ok(reply) = Reply::read(stream) {
        assert_eq!(reply.status, 431);
    }
}

#[test]
fn slow_senders_are_given_up() {
    let offer = Offer::new();
    let rig = Rig::with(&offer.server, |http| {
        http.read_timeout(Duration::from_secs(1))
    });
    let nothing = rig.connect();
    let mut half_a_head = rig.connect();
    half_a_head
        .write_all(b"POST /mcp HTTP/1.1\r\nHo")
        .expect("sent");
    let mut half_a_body = rig.connect();
    let begun = head("POST", &[], 1000) + "{";
    half_a_body.write_all(begun.as_bytes()).expect("sent");
    assert!(is_closed(nothing));
    assert!(is_closed(half_a_head));
    let reply = Reply::read(half_a_body).expect("a response");
    assert_eq!(reply.status, 408);
    // A call that takes longer is none of that.
    let mut reply = rig.modern(&modern_call(1, "gate", json!({})));
    assert_eq!(reply.message()["params"]["progress"], 1);
    std::thread::sleep(Duration::from_secs(2));
    offer.open();
    offer.open();
    assert_eq!(reply.message()["params"]["progress"], 2);
    assert_eq!(text_of(&reply.message()), "through");
}

#[test]
fn connections_over_the_limit_wait() {
    let offer = Offer::new();
    let rig = Rig::with(&offer.server, |http| http.max_connections(1));
    let mut first = rig.modern(&modern_call(1, "gate", json!({})));
    assert_eq!(first.message()["params"]["progress"], 1);
    std::thread::scope(|scope| {
        let second = scope.spawn(|| rig.modern(&modern_call(1, "echo", json!({"text": "hi"}))));
        std::thread::sleep(Duration::from_millis(100));
        assert!(!second.is_finished(), "it should wait");
        offer.open();
        offer.open();
        assert_eq!(first.message()["params"]["progress"], 2);
        assert_eq!(text_of(&first.message()), "through");
        drop(first);
        let second = second.join().expect("no panic");
        assert_eq!(text_of(&second.answer()), "hi");
    });
}

#[test]
fn a_reader_that_only_seems_to_read_is_given_up() {
    let offer = Offer::new();
    let rig = Rig::with(&offer.server, |http| {
        http.write_timeout(Duration::from_secs(1))
    });
    // More than the system takes in on both sides.
    let call = modern_call(1, "echo", json!({"text": "x".repeat(32 << 20)}));
    let mut stream = rig.connect();
    let body = call.to_string();
    let head = head("POST", &as_strs(&modern_headers(&call)), body.len());
    stream.write_all((head + &body).as_bytes()).expect("sent");
    // A byte now and then, once the answer has begun: the system sees a peer that is alive.
    let mut byte = [0];
    stream.read_exact(&mut byte).expect("a beginning");
    for _ in 0..100 {
        std::thread::sleep(Duration::from_millis(100));
        if !matches!(stream.read(&mut byte), Ok(1)) {
            break;
        }
    }
    let mut rest = Vec::new();
    let _ = stream.read_to_end(&mut rest);
    assert!(rest.len() < 32 << 20, "the whole answer was kept for it");
    assert_eq!(
        rig.modern(&modern_call(1, "echo", json!({"text": "hi"})))
            .status,
        200
    );
}

#[test]
fn clients_that_only_listen_leave_room_for_others() {
    let offer = Offer::new();
    let rig = Rig::with(&offer.server, |http| http.max_streams(2));
    let clients = [rig.client(), rig.client(), rig.client()];
    let first = clients[0].listen(None);
    let sse = rig.send_to("/sse", "GET", &[], "");
    assert_eq!((first.status, sse.status), (200, 200));
    let refused = clients[2].listen(None);
    assert_eq!(refused.status, 503);
    assert!(refused.header("retry-after").is_some());
    let words = refused.text();
    assert!(
        words.contains("2 open streams") && words.contains("`max_streams`"),
        "{words}"
    );
    // Streams that a request has opened are not counted.
    let mut call = clients[2].call(1, "gate", json!({}));
    assert_eq!(call.message()["params"]["progress"], 1);
    drop(first);
    let begun = std::time::Instant::now();
    while clients[2].listen(None).status != 200 {
        assert!(begun.elapsed() < HANG);
        std::thread::sleep(Duration::from_millis(5));
    }
}
