//! Bytes that are not what they should be, in both directions.

use std::thread;
use std::time::Duration;

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::rig::{Host, Setup, tree, until};

const MIB: usize = 1 << 20;

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// FM-11: banners, colours, half a message and a log object between the frames. The handshake
/// and the calls pass, each junk line is counted in the log, none reaches the host, and nothing
/// is sent back because of them.
#[test]
fn fm_11_junk_on_stdout_is_skipped_and_counted() {
    let banner = "Welcome to the server!\nlistening on stdio";
    let mut host = Host::ready(Setup::new().knobs(&["--banner", banner]));
    let sent_before = host.tap().received(1).len();
    let junk = [
        "\u{1b}[32minfo\u{1b}[0m started",
        "{\"jsonrpc\":\"2.0\",\"id\":",
        "{\"level\":\"info\",\"msg\":\"a log line\"}",
        "Error: something {",
        "[]",
        "42",
        "null",
        "\"text\"",
    ];
    let lines: Vec<String> = junk.iter().map(|line| hex(line.as_bytes())).collect();
    assert_eq!(host.ask("junk", json!({ "hex": lines })).text(), "printed");
    host.ping();
    for message in host.received() {
        assert_eq!(message["jsonrpc"], "2.0", "{message}");
    }
    let dropped = host.dropped(2 + junk.len(), "not_a_message");
    assert!(dropped.iter().all(|event| event["direction"] == "to_host"));
    assert_eq!(
        host.tap().received(1).len(),
        sent_before + 2,
        "two calls and nothing else"
    );
    assert_eq!(host.tap().pids().len(), 1);
}

/// FM-11: a server that prints without end, in lines as short as lines can be. Calls are answered, the log stays
/// short, and a signal ends it.
#[test]
fn fm_11_endless_junk_keeps_nobody_from_anything() {
    let setup = Setup::new().no_log();
    let log = setup.path("short.jsonl");
    let flags = ["--log-format", "json", "--log-file", &log];
    let mut host = Host::ready(setup.flags(&flags));
    assert_eq!(host.ask("babble", json!({})).text(), "babbling");
    for _ in 0..5 {
        host.ping();
    }
    host.signal(Signal::TERM);
    assert_eq!(host.exit().code(), Some(0));
    host.wait_for_empty_tree();
    let log = std::fs::read_to_string(log).expect("a log");
    let events: Vec<Value> = log
        .lines()
        .map(|line| serde_json::from_str(line).expect("an event"))
        .collect();
    let count = |name: &str| {
        let named = events.iter().filter(|event| event["event"] == name);
        named
            .map(|event| event["count"].as_u64().unwrap_or(1))
            .sum()
    };
    let (told, counted): (u64, u64) = (count("dropped"), count("more_dropped"));
    assert!(told > 0 && told < counted, "{told} told, {counted} counted");
    assert!(told <= 5, "{told} lines about what is all the same");
    let sums = events
        .iter()
        .filter(|event| event["event"] == "more_dropped");
    assert!(sums.count() <= 5, "{log}");
}

/// What a burst of large messages took is given back when it is quiet, though some of it is kept while they come.
#[test]
fn memory_is_given_back_when_it_is_quiet() {
    let mut host = Host::ready(Setup::new().flags(&["--probe-interval", "3s"]));
    host.ping();
    let resident = |host: &Host| tree::resident(host.pid()).expect("outlive lives");
    let before = resident(&host);
    let text = "x".repeat(MIB / 100);
    let blocked = host.call("block", json!({ "ms": 3000 }));
    let ids: Vec<i64> = (0..700)
        .map(|_| host.call("echo", json!({ "text": text })))
        .collect();
    until("it holds them", || {
        (resident(&host) > before + 4 * MIB as u64).then_some(())
    });
    host.answer(blocked).result();
    for id in ids {
        host.answer(id).result();
    }
    until("it is given back", || {
        (resident(&host) < before + 3 * MIB as u64).then_some(())
    });
    host.ping();
}

/// FM-57: two hundred concurrent answers of 16 KiB, written in pieces of one to seven bytes: all
/// arrive whole.
#[test]
fn fm_57_trickled_answers_arrive_whole() {
    let mut host = Host::ready(Setup::new().knobs(&["--trickle"]));
    let ids: Vec<i64> = (0..200)
        .map(|_| host.call("huge", json!({ "bytes": 16 << 10 })))
        .collect();
    let last = *ids.last().expect("ids");
    host.answer(last);
    for id in ids {
        assert_eq!(host.answer(id).text().len(), 16 << 10);
    }
    host.received();
}

/// FM-58: lines from the server that are not UTF-8 end nothing and reach nobody; an answer with
/// bad bytes inside still settles its call.
#[test]
fn fm_58_bad_utf8_from_the_server_is_survived() {
    let mut host = Host::ready(Setup::new());
    let lines: Vec<String> = [
        &b"\xff\xfe"[..],
        b"{\"jsonrpc\":\"2.0\",\"method\":\"notifications/message\",\"params\":{\"data\":\"\xc3\x28\"}}",
        b"{\"jsonrpc\":\"2.0\",\"method\":\"notifications/message\",\"params\":{\"data\":\"\xc0\xaf\"}}",
        b"\0\0\0",
        b"\xed\xa0\x80",
    ]
    .iter()
    .map(|line| hex(line))
    .collect();
    assert_eq!(host.ask("junk", json!({ "hex": lines })).text(), "printed");
    host.dropped(lines.len(), "not_a_message");
    assert!(host.notified("notifications/message").is_empty());
    host.ask("answer_as", json!({ "as": "bad-utf8" }))
        .refused("protocol");
    assert_eq!(
        host.ask("echo", json!({ "text": "ünï 🦀" })).text(),
        "ünï 🦀"
    );
    assert_eq!(host.ping(), host.server(1));
    host.received();
}

/// FM-58: bad bytes from the host. A request whose id can be read is answered; the rest is
/// ignored; a character split across two writes is whole; the server sees only valid lines.
#[test]
fn fm_58_bad_utf8_from_the_host_is_survived() {
    let mut host = Host::ready(Setup::new());
    host.send_raw(*b"\xff\xfe\n\0\0\n");
    host.send_raw(*b"{\"jsonrpc\":\"2.0\",\"id\":\"bad\",\"method\":\"tools/call\",\"params\":{\"name\":\"\xff\"}}\n");
    let answer = host.answer("bad");
    answer.refused("protocol");
    assert_eq!(answer.error()["code"], -32700);
    let whole = json!({
        "jsonrpc": "2.0", "id": "split", "method": "tools/call",
        "params": { "name": "echo", "arguments": { "text": "🦀" } },
    });
    let whole = format!("{whole}\n").into_bytes();
    let middle = whole
        .iter()
        .position(|byte| *byte == 0xf0)
        .expect("the crab")
        + 2;
    host.send_raw(&whole[..middle]);
    thread::sleep(Duration::from_millis(50));
    host.send_raw(&whole[middle..]);
    assert_eq!(host.answer("split").text(), "🦀");
    host.ping();
    assert!(
        host.tap()
            .received(1)
            .iter()
            .all(|record| record["json"] == true)
    );
}

/// FM-59: CR LF, a byte order mark, blank lines and a last line without its end are accepted
/// from the host; headers as in the Language Server Protocol are named in the log.
#[test]
fn fm_59_framings_from_the_host() {
    let mut host = Setup::new().flags(&["--drain", "30s"]).start();
    host.send_raw("\u{feff}");
    host.initialize();
    let ping = |id: &str| json!({ "jsonrpc": "2.0", "id": id, "method": "ping" }).to_string();
    host.send_raw(format!("{}\r\n", ping("crlf")));
    host.send_raw(format!("\n\r\n  \n{}\n\n", ping("blank")));
    host.send_raw(format!("  {}  \n", ping("padded")));
    for id in ["crlf", "blank", "padded"] {
        host.answer(id).result();
    }

    let body = ping("lsp");
    host.send_raw(format!("Content-Length: {}\r\n\r\n{body}\n", body.len()));
    host.answer("lsp").result();
    // The header is the only thing that was not taken: a blank line is not junk.
    let dropped = host.dropped(1, "not_a_message").remove(0);
    assert_eq!(dropped["direction"], "to_server");
    assert!(
        dropped["detail"].to_string().contains("Content-Length"),
        "{dropped}"
    );

    host.send_raw(ping("unterminated"));
    host.hang_up();
    host.answer("unterminated").result();
    assert_eq!(host.exit().code(), Some(0));
    for record in host.tap().received(1) {
        assert_eq!(record["json"], true, "{record}");
    }
}

/// FM-59: the same from the server; the host gets clean lines.
#[test]
fn fm_59_framings_from_the_server() {
    for framing in ["crlf", "bom", "blank", "content-length"] {
        let mut host = Host::ready(Setup::new().knobs(&["--framing", framing]));
        assert_eq!(host.ask("echo", json!({ "text": framing })).text(), framing);
        for line in host.lines() {
            assert!(
                line.starts_with(b"{") && line.ends_with(b"}\n"),
                "{framing}: {line:?}"
            );
        }
        let headers = if framing == "content-length" { 3 } else { 0 };
        for event in host.dropped(headers, "not_a_message") {
            assert!(
                event["detail"].to_string().contains("Content-Length"),
                "{event}"
            );
        }
    }
}

/// FM-60: messages up to the limit pass, longer ones are refused under their own id, wherever in
/// the line the id stands and however the bytes arrive; others are not disturbed.
#[test]
fn fm_60_limit_from_the_host() {
    let mut host = Host::ready(Setup::new().flags(&["--message-limit", "1MiB"]));
    let line = |id: &str, size: usize, id_last: bool| {
        let call = |pad: &str| {
            let params = json!({ "name": "echo", "arguments": { "text": pad } });
            if id_last {
                format!(
                    r#"{{"jsonrpc":"2.0","method":"tools/call","params":{params},"id":"{id}"}}"#
                )
            } else {
                format!(
                    r#"{{"jsonrpc":"2.0","id":"{id}","method":"tools/call","params":{params}}}"#
                )
            }
        };
        call(&"x".repeat(size - call("").len()))
    };
    for (id, size, id_last, fits) in [
        ("a", MIB, false, true),
        ("b", MIB, true, true),
        ("c", MIB + 1, false, false),
        ("d", MIB + 1, true, false),
        ("e", 5 * MIB, true, false),
    ] {
        let text = line(id, size, id_last);
        assert_eq!(text.len(), size);
        host.send_raw(format!("{text}\n"));
        let answer = host.answer(id);
        if fits {
            answer.result();
        } else {
            assert_eq!(answer.refused("too_large")["limit"], MIB);
            assert_eq!(answer.refused("too_large")["outcome"], "not_sent");
        }
    }
    // In small pieces, with a call of another kind right behind.
    for (id, size) in [("p", MIB), ("q", MIB + 1)] {
        for piece in format!("{}\n", line(id, size, false)).as_bytes().chunks(61) {
            host.send_raw(piece);
        }
        host.ping();
    }
    host.answer("p").result();
    host.answer("q").refused("too_large");
}

/// FM-60: a line that never ends is not kept in memory, and what follows it is served.
#[test]
fn fm_60_endless_line_is_not_kept() {
    let mut host = Host::ready(Setup::new().flags(&["--message-limit", "1MiB"]));
    let piece = vec![b'x'; MIB];
    for _ in 0..64 {
        host.send_raw(piece.clone());
    }
    host.send_raw(*b"\n");
    host.ping();
    let resident = tree::resident(host.pid()).expect("outlive lives");
    assert!(resident < 40 << 20, "{resident} bytes resident");
    host.event("the drop", |e| {
        e["event"] == "dropped" && e["reason"] == "too_large"
    });
}

/// FM-60: an answer over the limit fails its own call with a clear error, and only that.
#[test]
fn fm_60_limit_from_the_server() {
    let mut host = Host::ready(Setup::new().flags(&["--message-limit", "1MiB"]));
    assert_eq!(
        host.ask("huge", json!({ "bytes": MIB - 1000 }))
            .text()
            .len(),
        MIB - 1000
    );
    let other = host.call("sleep", json!({ "ms": 300 }));
    let answer = host.ask("huge", json!({ "bytes": 8 * MIB }));
    assert_eq!(answer.refused("too_large")["outcome"], "done");
    assert!(
        answer.message().contains("--message-limit"),
        "{}",
        answer.message()
    );
    assert_eq!(host.answer(other).text(), "slept");
    assert_eq!(host.ping(), host.server(1));
}

/// FM-60: five megabytes each way are nothing special by default.
#[test]
fn fm_60_large_messages_pass_by_default() {
    let mut host = Host::ready(Setup::new());
    let text = "y".repeat(5 * MIB);
    assert_eq!(host.ask("echo", json!({ "text": text })).text(), text);
}

/// FM-61: an answer whose id has the wrong type is given to the call it can only mean.
#[test]
fn fm_61_id_of_the_wrong_type_is_matched() {
    let mut host = Host::ready(Setup::new());
    let call = |id: Value, how: &str| {
        let params = json!({ "name": "answer_as", "arguments": { "as": how } });
        json!({ "jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params })
    };
    for (id, how) in [
        (json!(71), "string"),
        (json!("72"), "number"),
        (json!(0), "string"),
    ] {
        host.send(&call(id.clone(), how));
        assert_eq!(host.answer(id.clone()).text(), how);
        host.ping();
        assert_eq!(host.answers(id), 1);
    }
}

/// FM-61: answers that can be matched to nothing (null, missing, "server-error", never asked) are
/// dropped and counted; they harm no other call, and with a timeout set nothing waits for ever.
#[test]
fn fm_61_unmatched_answers_harm_nobody() {
    let mut host = Host::ready(Setup::new().flags(&["--request-timeout", "3s"]));
    let other = host.call("tick", json!({ "ticks": 1, "ms": 1000 }));
    let ids: Vec<i64> = ["null", "missing", "server-error", "other"]
        .iter()
        .map(|how| host.call("answer_as", json!({ "as": how })))
        .collect();
    assert_eq!(host.answer(other).text(), "ticked");
    for id in &ids {
        host.answer(*id).error();
    }
    host.ping();
    for id in &ids {
        assert_eq!(host.answers(*id), 1);
    }
    let known: Vec<Value> = ids
        .iter()
        .map(|id| json!(id))
        .chain([json!(other)])
        .collect();
    for message in host.received().iter().filter(|m| m.get("method").is_none()) {
        let id = &message["id"];
        assert!(
            id.as_i64().is_some_and(|id| id <= 10) || known.contains(id),
            "{message}"
        );
    }
    assert_eq!(host.tap().pids().len(), 1);
}

/// FM-61: a second and a third answer to the same request are dropped; so is one with both a
/// result and an error settled as one.
#[test]
fn fm_61_one_answer_per_request() {
    let mut host = Host::ready(Setup::new());
    let id = host.call("twice", json!({}));
    assert_eq!(host.answer(id).result()["structuredContent"]["n"], 1);
    host.ping();
    assert_eq!(host.answers(id), 1);
    host.dropped(2, "unknown_answer");

    let both = host.call("answer_as", json!({ "as": "both" }));
    host.answer(both);
    host.ping();
    assert_eq!(host.answers(both), 1);
    let answer = host.answer(both).0;
    assert!(
        answer.get("result").is_none() || answer.get("error").is_none(),
        "{answer}"
    );
}

/// A request with a readable id is always answered: nested too deep.
#[test]
fn deeply_nested_request_is_answered() {
    let mut host = Host::ready(Setup::new());
    let deep = format!("{}{}", "[".repeat(200_000), "]".repeat(200_000));
    host.send_raw(format!(
        r#"{{"jsonrpc":"2.0","id":"deep","method":"tools/call","params":{{"name":"echo","arguments":{deep}}}}}"#
    ));
    host.send_raw(*b"\n");
    host.answer("deep");
    host.ping();
    assert_eq!(host.answers("deep"), 1);
    assert_eq!(host.tap().pids().len(), 1);
}

/// A request with a readable id is always answered: the id of one that is still in flight. The
/// first keeps its answer.
#[test]
fn duplicate_id_in_flight_is_refused() {
    let mut host = Host::ready(Setup::new());
    let call = |ms: u64| {
        let params = json!({ "name": "sleep", "arguments": { "ms": ms } });
        json!({ "jsonrpc": "2.0", "id": "twin", "method": "tools/call", "params": params })
    };
    host.send(&call(500));
    host.send(&call(0));
    let refusal = host.answer("twin");
    assert_eq!(refusal.refused("protocol")["outcome"], "not_sent");
    assert_eq!(refusal.error()["code"], -32600);
    let result = host.wait_for("the first one's result", |m| {
        m["id"] == "twin" && m.get("result").is_some()
    });
    assert_eq!(result["result"]["content"][0]["text"], "slept");
    host.ping();
    assert_eq!(host.answers("twin"), 2);
    let sent = host
        .tap()
        .method("tools/call")
        .iter()
        .filter(|r| r["id"] == "twin")
        .count();
    assert_eq!(sent, 1, "the second never reached the server");
}

/// A request from the host that breaks JSON or JSON-RPC where its structure can be seen is
/// answered, and the server does not see it. (Scalars and what lies deeper are the server's to
/// judge: they pass through unread.)
#[test]
fn broken_requests_are_answered() {
    let mut host = Host::ready(Setup::new());
    let broken = [
        r#"{"jsonrpc":"2.0","id":"b0","method":7}"#,
        r#"{"jsonrpc":"2.0","id":"b1","method":"ping","params":{"x":1,}}"#,
        r#"{"jsonrpc":"2.0","id":"b2","method":"ping","params":{"x" 1}}"#,
        r#"{"jsonrpc":"2.0","id":"b3","method":"ping","params":{"x":}"#,
        r#"{"jsonrpc":"2.0","id":"b4","method":"ping","params":{"x":"abc}}"#,
        r#"{"jsonrpc":"2.0","id":"b5","method":"ping","params":{"x":[1}}"#,
    ];
    for (n, line) in broken.iter().enumerate() {
        host.send_raw(format!("{line}\n"));
        host.answer(format!("b{n}")).refused("protocol");
    }
    host.ping();
    let received = host.tap().received(1);
    assert!(received.iter().all(|record| record["json"] == true));
}

/// FM-11: a tool prints something without a line end, and its answer stands behind it on the same line.
#[test]
fn fm_11_an_answer_behind_other_text_is_found() {
    let mut host = Host::ready(Setup::new());
    assert_eq!(
        host.ask("answer_as", json!({ "as": "behind" })).text(),
        "behind"
    );
    let dropped = host.dropped(1, "not_a_message");
    let detail = dropped[0]["detail"].as_str().unwrap_or_default();
    assert!(detail.starts_with("text beside an answer: ..{"), "{detail}");
    host.ping();
}
