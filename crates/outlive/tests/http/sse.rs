//! Clients of 2024-11-05: a stream to read, an address to write to.

use std::io::Write;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::offer::Offer;
use crate::rig::*;

/// A client of HTTP+SSE.
struct Pair<'a> {
    rig: &'a Rig,
    stream: Reply,
    address: String,
}

impl<'a> Pair<'a> {
    fn new(rig: &'a Rig) -> Pair<'a> {
        let mut stream = rig.send_to("/sse", "GET", &[], "");
        assert_eq!((stream.status, stream.is_stream()), (200, true));
        let first = stream.event().expect("an event");
        assert_eq!(first.kind, "endpoint");
        Pair {
            rig,
            stream,
            address: first.data,
        }
    }

    /// One that has shaken hands.
    fn shaken(rig: &'a Rig) -> Pair<'a> {
        let mut pair = Pair::new(rig);
        assert_eq!(pair.post(&initialize()).status, 202);
        assert_eq!(
            pair.stream.message()["result"]["serverInfo"]["name"],
            "test"
        );
        let told = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
        assert_eq!(pair.post(&told).status, 202);
        pair
    }

    fn post(&self, message: &Value) -> Reply {
        self.send(&message.to_string())
    }

    fn send(&self, body: &str) -> Reply {
        self.rig.send_to(&self.address, "POST", &[], body)
    }

    fn call(&self, id: u64, tool: &str, arguments: Value) {
        let reply = self.post(&call(id, tool, arguments));
        assert_eq!((reply.status, reply.text().as_str()), (202, ""));
    }
}

fn until(what: &str, is_so: impl Fn() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < HANG, "{what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn everything_is_said_on_the_stream() {
    let offer = Offer::new();
    let rig = Rig::new(&offer.server);
    let mut pair = Pair::shaken(&rig);
    let (path, id) = pair.address.split_once("?session_id=").expect("an id");
    assert_eq!(path, "/messages");
    assert!(id.len() >= 32 && id.bytes().all(|b| b.is_ascii_alphanumeric()));

    pair.call(1, "gate", json!({}));
    assert_eq!(pair.stream.message()["params"]["progress"], 1);
    // An answer that is there sooner comes sooner, and news come in between.
    pair.call(2, "echo", json!({"text": "hi"}));
    let answer = pair.stream.message();
    assert_eq!((&answer["id"], text_of(&answer)), (&json!(2), "hi"));
    rig.handle
        .add_tool("late", "Came later.", |_, (): ()| async {});
    let news = pair.stream.event().expect("news");
    assert_eq!(news.kind, "message");
    assert_eq!(news.json()["method"], "notifications/tools/list_changed");
    offer.open();
    offer.open();
    assert_eq!(pair.stream.message()["params"]["progress"], 2);
    let answer = pair.stream.message();
    assert_eq!((&answer["id"], text_of(&answer)), (&json!(1), "through"));

    pair.call(3, "ask", json!({}));
    let question = pair.stream.message();
    assert_eq!(question["method"], "elicitation/create");
    let answer = json!({"jsonrpc": "2.0", "id": question["id"], "result": {"action": "decline"}});
    assert_eq!(pair.post(&answer).status, 202);
    assert_eq!(text_of(&pair.stream.message()), "Decline");
}

#[test]
fn fm_73_nobody_on_the_way_holds_the_stream_back() {
    let offer = Offer::new();
    let keep_alive = Duration::from_millis(100);
    let rig = Rig::with(&offer.server, |http| http.keep_alive(keep_alive));
    let mut pair = Pair::new(&rig);
    assert_eq!(pair.stream.header("x-accel-buffering"), Some("no"));
    let caching = pair.stream.header("cache-control").expect("a header");
    assert!(caching.contains("no-cache"), "{caching}");
    // FM-23: a stream that is silent says so.
    let line = loop {
        let line = pair.stream.line().expect("a line").expect("no end");
        if !line.is_empty() {
            break line;
        }
    };
    assert!(line.starts_with(':'), "{line}");
}

#[test]
fn a_session_ends_with_its_stream_and_nobody_elses_does() {
    let offer = Offer::new();
    let rig = Rig::new(&offer.server);
    let mut other = Pair::shaken(&rig);
    let Pair {
        mut stream,
        address,
        ..
    } = Pair::shaken(&rig);
    let reply = rig.send_to(
        &address,
        "POST",
        &[],
        &call(1, "gate", json!({})).to_string(),
    );
    assert_eq!(reply.status, 202);
    assert_eq!(stream.message()["params"]["progress"], 1);
    drop(stream);
    // What ran for it is told, and the address is nobody's.
    assert_eq!(offer.told(1), ["transport_closed"]);
    until("forgotten", || rig.handle.clients() == 2);
    let ping = json!({"jsonrpc": "2.0", "id": 2, "method": "ping"}).to_string();
    let reply = rig.send_to(&address, "POST", &[], &ping);
    assert_eq!(reply.status, 404);
    assert_eq!(reply.json()["error"]["code"], -31006);
    other.call(1, "echo", json!({"text": "hi"}));
    assert_eq!(text_of(&other.stream.message()), "hi");
}

#[test]
fn what_is_no_message_harms_nobody() {
    let offer = Offer::with(|builder| builder.message_limit(10_000));
    let rig = Rig::new(&offer.server);
    let mut pair = Pair::shaken(&rig);
    let reply = pair.send("nonsense");
    assert_eq!(reply.status, 400);
    assert_eq!(reply.json()["error"]["code"], -32700);
    // Whoever waits for an id waits at the stream.
    let broken = r#"{"jsonrpc":"2.0","id":9,"method":1}"#;
    assert_eq!(pair.send(broken).status, 202);
    let answer = pair.stream.message();
    assert_eq!(
        (&answer["id"], &answer["error"]["code"]),
        (&json!(9), &json!(-32600))
    );
    assert_eq!(pair.send(&"x".repeat(20_000)).status, 413);
    let text = [("Content-Type", "text/plain")];
    let reply = rig.send_to(&pair.address, "POST", &text, "{}");
    assert_eq!(reply.status, 415);
    let pretty = serde_json::to_string_pretty(&call(1, "echo", json!({"text": "a\nb"})));
    assert_eq!(pair.send(&pretty.expect("JSON")).status, 202);
    assert_eq!(text_of(&pair.stream.message()), "a\nb");
}

#[test]
fn addresses_are_not_mixed_up() {
    let offer = Offer::new();
    let rig = Rig::new(&offer.server);
    let pair = Pair::shaken(&rig);
    let ping = json!({"jsonrpc": "2.0", "id": 2, "method": "ping"}).to_string();
    let at = |path: &str, method: &str| rig.send_to(path, method, &[], &ping).status;
    assert_eq!(at("/messages", "POST"), 400);
    assert_eq!(at("/messages?session_id=", "POST"), 400);
    assert_eq!(at("/messages?session_id=unknown", "POST"), 404);
    assert_eq!(at(&pair.address, "GET"), 405);
    // FM-71: a client that tries Streamable HTTP here first learns that it is the wrong one.
    assert_eq!(at("/sse", "POST"), 405);
    assert_eq!(at("/other", "POST"), 404);
    // The id of one transport is none of the other's.
    let (_, id) = pair.address.split_once('=').expect("an id");
    let header = [("Mcp-Session-Id", id)];
    assert_eq!(rig.send("POST", &header, &ping).status, 404);
    assert_eq!(rig.send("DELETE", &header, "").status, 404);
    let client = rig.client();
    let address = format!("/messages?session_id={}", client.session);
    assert_eq!(at(&address, "POST"), 404);
}

#[test]
fn fm_72_the_guard_stands_here_too() {
    let offer = Offer::new();
    let rig = Rig::with(&offer.server, |http| http.token("t").max_sessions(2));
    let evil = [("Host", "evil.example.com"), ("Authorization", "Bearer t")];
    let good = [("Authorization", "Bearer t")];
    for (path, method) in [("/sse", "GET"), ("/messages?session_id=x", "POST")] {
        assert_eq!(rig.send_to(path, method, &[], "{}").status, 401);
        assert_eq!(rig.send_to(path, method, &evil, "{}").status, 403);
    }
    // FM-39: its sessions are counted with the others.
    let stream = || rig.send_to("/sse", "GET", &good, "");
    let _held = [stream(), stream()];
    assert_eq!(stream().status, 503);
    let begin = || rig.send("POST", &good, &initialize().to_string()).status;
    assert_eq!(begin(), 503);
    drop(_held);
    until("there is room again", || begin() == 200);
}

#[test]
fn a_reader_that_does_not_read_is_given_up() {
    let offer = Offer::new();
    let rig = Rig::with(&offer.server, |http| {
        http.session_ttl(Duration::from_millis(800))
    });
    let pair = Pair::shaken(&rig);
    pair.call(1, "flood", json!({}));
    assert_eq!(offer.told(1), ["transport_closed"]);
    assert_eq!(pair.send("{}").status, 404);
}

#[test]
fn fm_54_streams_end_cleanly_at_a_shutdown() {
    let offer = Offer::with(|builder| builder.grace(HANG));
    let rig = Rig::new(&offer.server);
    let mut pair = Pair::shaken(&rig);
    pair.call(1, "gate", json!({}));
    assert_eq!(pair.stream.message()["params"]["progress"], 1);
    rig.handle.shutdown();
    assert_eq!(text_of(&pair.stream.message()), "given up");
    assert_eq!(pair.stream.event(), None);
    assert!(rig.has_ended());
}

#[test]
fn fm_33_clients_that_come_and_go_harm_nobody() {
    let offer = Offer::new();
    let rig = Rig::new(&offer.server);
    std::thread::scope(|scope| {
        for n in 0..8 {
            let rig = &rig;
            scope.spawn(move || {
                for round in 0..10 {
                    if round % 3 == 0 {
                        // Gone before it has read anything.
                        let mut stream = rig.connect();
                        let head = "GET /sse HTTP/1.1\r\nHost: localhost\r\n\r\n";
                        let _ = stream.write_all(head.as_bytes());
                        continue;
                    }
                    let mut pair = Pair::shaken(rig);
                    let words = format!("{n} {round}");
                    pair.call(1, "echo", json!({"text": words}));
                    assert_eq!(text_of(&pair.stream.message()), words);
                    pair.call(2, "gate", json!({}));
                }
            });
        }
    });
    until("all are forgotten", || rig.handle.clients() == 1);
}
