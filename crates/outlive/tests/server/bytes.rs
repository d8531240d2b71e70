//! What is no message, on a real process: an error where one can be addressed, never an end.

use serde_json::{Value, json};

use crate::process::Server;

/// FM-57 to FM-60.
#[test]
fn fm_58_bytes_that_are_no_message_are_no_end() {
    let mut server = Server::ready(&[]);
    let junk: [&[u8]; 12] = [
        b"hello\n",
        b"\n\n\r\n",
        b"\xff\xfe\x00\x01\n",
        b"{\"jsonrpc\":\"2.0\",\n",
        b"{}\n",
        b"[]\n",
        b"null\n",
        b"{\"jsonrpc\":\"2.0\",\"id\":null,\"result\":{}}\n",
        b"{\"jsonrpc\":\"2.0\",\"id\":\"never asked\",\"result\":{}}\n",
        b"{\"jsonrpc\":\"2.0\",\"method\":\"notifications/cancelled\",\"params\":{\"requestId\":[]}}\n",
        b"{\"jsonrpc\":\"2.0\",\"method\":\"notifications/unheard_of\"}\n",
        b"\xef\xbb\xbf\n",
    ];
    for (round, bytes) in junk.into_iter().enumerate() {
        server.send_bytes(bytes);
        server.ping(&format!("after {round}"));
    }
    // What can be addressed is answered.
    server.send_bytes(
        b"{\"jsonrpc\":\"2.0\",\"id\":\"bad\",\"method\":\"ping\",\"params\":{\"x\":\"\xff\"}}\n",
    );
    let answer = server.answer_to("bad");
    assert_eq!(answer["error"]["code"], -32700);
    let deep = "[".repeat(2000) + &"]".repeat(2000);
    server.send_bytes(format!("{{\"jsonrpc\":\"2.0\",\"id\":\"deep\",\"method\":\"ping\",\"params\":{{\"x\":{deep}}}}}\n").as_bytes());
    assert!(server.answer_to("deep")["error"].is_object());
    server.send_bytes(b"{\"jsonrpc\":\"2.0\",\"id\":\"crlf\",\"method\":\"ping\"}\r\n");
    assert_eq!(server.answer_to("crlf")["result"], json!({}));
    // A byte at a time.
    for byte in b"{\"jsonrpc\":\"2.0\",\"id\":\"slow\",\"method\":\"ping\"}\n" {
        server.send_bytes(&[*byte]);
    }
    assert_eq!(server.answer_to("slow")["result"], json!({}));
    let unanswerable: Vec<&Value> = server.kept().iter().filter(|m| m["id"].is_null()).collect();
    assert_eq!(
        unanswerable.len(),
        server.kept().len(),
        "{:?}",
        server.kept()
    );
    let end = server.finish();
    assert_eq!((end.code, end.stderr.as_str()), (Some(0), ""));
}

#[test]
fn fm_60_a_line_too_long_is_answered_and_costs_no_memory() {
    let mut server = Server::ready(&["--message-limit", "100000"]);
    let long = "x".repeat(300_000);
    server.begin_call("long", "echo", json!({ "text": long }));
    let answer = server.answer_to("long");
    assert_eq!(answer["error"]["code"], -31008);
    let fits = "x".repeat(90_000);
    let echoed = server.call("fits", "echo", json!({ "text": fits }));
    assert_eq!(echoed["result"]["content"][0]["text"], fits);
    // Without an end, and then with one.
    for _ in 0..100 {
        server.send_bytes(&[b'y'; 10_000]);
    }
    server.send_bytes(b"\n");
    server.ping("after");
    server.finish().assert_quiet();
}

#[test]
fn requests_out_of_order_are_refused_and_the_session_goes_on() {
    let mut server = Server::start(&[]);
    let early = server.request(1, "tools/list", json!({}));
    assert!(early["error"]["code"].is_i64(), "{early}");
    server.ping("before the handshake");
    server.shake_hands();
    let again = json!({ "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": { "name": "x", "version": "1" } });
    let second = server.request(2, "initialize", again);
    assert!(second["error"]["code"].is_i64(), "{second}");
    let unknown = server.request(3, "no/such/method", json!({}));
    assert_eq!(unknown["error"]["code"], -32601);
    // A duplicate id: the first is unharmed.
    server.begin_call("twice", "sleep", json!({ "ms": 50 }));
    server.begin_call("twice", "ping", json!({}));
    let answers = [server.answer_to("twice"), server.answer_to("twice")];
    let refused = answers
        .iter()
        .filter(|answer| answer["error"]["code"] == -32600);
    assert_eq!(refused.count(), 1, "{answers:?}");
    let slept = answers
        .iter()
        .filter(|answer| answer["result"]["content"][0]["text"] == "slept");
    assert_eq!(slept.count(), 1, "{answers:?}");
    let ping = server.call("last", "ping", json!({}));
    assert_eq!(ping["result"]["content"][0]["text"], "pong");
    server.finish().assert_quiet();
}

/// FM-57: large answers to many calls, while requests trickle in.
#[test]
fn fm_57_large_answers_arrive_whole_and_in_number() {
    let mut server = Server::ready(&[]);
    let text = "é".repeat(40_000);
    for id in 0..60 {
        server.begin_call(id, "echo", json!({ "text": text }));
    }
    for id in 0..60 {
        assert_eq!(server.answer_to(id)["result"]["content"][0]["text"], text);
    }
    server.finish().assert_quiet();
}
