//! Lines that are not as they should be, from either side.

use outlive_core::cause::Exit;
use outlive_core::event::{Direction, DropReason};
use outlive_core::{Frame, Input, LinkInput};
use serde_json::json;

use crate::pair::*;

fn host_bytes(p: &mut Pair, line: &'static [u8]) {
    p.feed(Input::Host(Frame::read(line.into())));
}

fn server_bytes(p: &mut Pair, line: &'static [u8]) {
    p.link(LinkInput::Frame(Frame::read(line.into())));
}

#[test]
fn payloads_pass_byte_for_byte() {
    let mut p = Pair::ready();
    let odd = r#"{ "params" : {"x":1.50,"y":"\u0041\/"},"id": 7 ,"method":"tools\/call","jsonrpc":"2.0" }"#;
    p.host(odd);
    assert_eq!(p.at_link(), [odd]);
    let answer = r#"{ "id": 7.0, "result" : {"big":12345678901234567890, "n":NaN} }"#;
    p.server(answer);
    assert_eq!(p.at_host(), [answer]);
    let note = r#"{"jsonrpc":"2.0","method":"notifications/message","params":{"data" : "é"}}"#;
    p.server(note);
    assert_eq!(p.at_host(), [note]);
}

#[test]
fn a_batch_is_taken_apart_in_order() {
    let mut p = Pair::ready();
    p.host(&format!(
        r#"[{},{{"jsonrpc":"2.0","id":8}},{}]"#,
        call(7, "any"),
        request(9, "ping")
    ));
    assert_eq!(p.at_link(), [call(7, "any"), request(9, "ping")]);
    assert_eq!(p.drops().len(), 1, "what is no request is not answered");
    p.forget();
    p.server(r#"[{"id":9,"result":{}},{"jsonrpc":"2.0","id":7}, 7]"#);
    let at_host = p.at_host();
    assert_eq!(at_host[0], r#"{"id":9,"result":{}}"#);
    let failure = failure(&at_host[1]);
    assert_eq!((failure.id.clone(), failure.kind()), (json!(7), "protocol"));
    assert_eq!(at_host.len(), 2);
}

#[test]
fn an_id_in_flight_cannot_be_used_again() {
    let mut p = Pair::ready();
    p.call(7, "any");
    p.forget();
    p.host(r#"{"jsonrpc":"2.0","id":7.0,"method":"ping"}"#);
    let failure = p.failure();
    assert_eq!(failure.code, -32600);
    assert_eq!(
        failure.message,
        "The request was not sent: a request with the same id is still in flight."
    );
    assert_eq!(failure.outcome(), "not_sent");
    assert_eq!(p.at_link(), [""; 0]);
    p.result(7, "{}");
    assert_eq!(p.at_host().len(), 1);
    p.call(7, "any");
    assert_eq!(p.at_link(), [call(7, "any")], "now it can");
}

#[test]
fn a_broken_request_is_answered_if_its_id_can_be_read() {
    let cases: [(&[u8], i64, &str); 3] = [
        (
            b"{\"jsonrpc\":\"2.0\",\"id\":7,\"method\":\"tools/call\",\"params\":{\"x\":\"\xff\"}}",
            -32700,
            "The request was not sent: not UTF-8 at byte 61.",
        ),
        (
            br#"{"jsonrpc":"2.0","id":7,"method":7}"#,
            -32600,
            "The request was not sent: the method is not a string.",
        ),
        (
            br#"{"jsonrpc":"2.0","id":7,"method":"ping","params":{"#,
            -32700,
            "The request was not sent: not JSON: cut off.",
        ),
    ];
    for (line, code, message) in cases {
        let mut p = Pair::ready();
        p.feed(Input::Host(Frame::read(line.to_vec().into())));
        let failure = p.failure();
        assert_eq!(failure.id, 7);
        assert_eq!((failure.code, failure.message.as_str()), (code, message));
        assert_eq!(failure.outcome(), "not_sent");
        assert_eq!(p.at_link(), [""; 0]);
    }
}

#[test]
fn what_is_no_request_is_dropped_with_a_reason() {
    let mut p = Pair::ready();
    host_bytes(&mut p, b"junk {");
    host_bytes(&mut p, br#"{"jsonrpc":"2.0","id":7}"#);
    host_bytes(&mut p, br#"{"jsonrpc":"2.0","method":7}"#);
    let drops = p.drops();
    assert_eq!(drops.len(), 3);
    assert_eq!(
        drops[0],
        (
            Direction::ToServer,
            DropReason::NotAMessage,
            "not a JSON object".into()
        )
    );
    assert_eq!(p.all(), [""; 0]);
}

#[test]
fn a_request_too_long_to_keep_is_answered_or_dropped() {
    let mut p = Pair::ready_with(|policy| policy.limits.message = 1000);
    p.feed(Input::Host(too_long(Some("7"), true, 1001)));
    let failure = p.failure();
    assert_eq!((failure.id.clone(), failure.code), (json!(7), -31008));
    assert_eq!(
        failure.message,
        "The request is longer than the limit of 1000 bytes and was not sent. Send less, or raise \
         --message-limit."
    );
    assert_eq!(
        failure.about,
        json!({"kind": "too_large", "outcome": "not_sent", "generation": 1, "retryable": false, "limit": 1000})
    );
    p.forget();
    let dropped = [(
        Direction::ToServer,
        DropReason::TooLarge,
        "1001 bytes".to_string(),
    )];
    p.feed(Input::Host(too_long(Some("7"), false, 1001)));
    assert_eq!(p.drops(), dropped, "an answer");
    p.feed(Input::Host(too_long(None, true, 1001)));
    assert_eq!(p.drops(), dropped, "a notification");
    assert_eq!(p.all(), [""; 0]);
}

#[test]
fn an_answer_too_long_to_keep_settles_its_request() {
    let mut p = Pair::ready_with(|policy| policy.limits.message = 1000);
    p.call(7, "any");
    p.forget();
    p.link(LinkInput::Frame(too_long(Some("7"), false, 5000)));
    let failure = p.failure();
    assert_eq!(
        failure.message,
        "The server's answer to tool \"any\" is longer than the limit of 1000 bytes and was \
         dropped. Ask for less, or raise --message-limit."
    );
    assert_eq!((failure.kind(), failure.outcome()), ("too_large", "done"));
    p.forget();
    let dropped = [(
        Direction::ToHost,
        DropReason::TooLarge,
        "5000 bytes".to_string(),
    )];
    p.link(LinkInput::Frame(too_long(Some("7"), false, 5000)));
    assert_eq!(p.drops(), dropped);
    p.link(LinkInput::Frame(too_long(None, true, 5000)));
    assert_eq!(p.drops(), dropped);
    assert_eq!(p.all(), [""; 0]);
    p.link(LinkInput::Frame(too_long(Some("3"), true, 5000)));
    assert_eq!(p.at_host(), [""; 0]);
    let told = crate::pair::failure(&p.at_link()[0]);
    assert_eq!((told.id.clone(), told.kind()), (json!(3), "too_large"));
}

#[test]
fn an_unusable_answer_settles_its_request() {
    let cases: [(&[u8], i64, &str); 3] = [
        (
            br#"{"jsonrpc":"2.0","id":7}"#,
            -32600,
            "The server's answer to tool \"any\" cannot be used: neither a method nor a result nor an error.",
        ),
        (
            br#"{"jsonrpc":"2.0","id":7,"result":{},"error":{}}"#,
            -32600,
            "The server's answer to tool \"any\" cannot be used: a response with both a result and an error.",
        ),
        (
            b"{\"jsonrpc\":\"2.0\",\"id\":7,\"result\":\"\xff\"}",
            -32700,
            "The server's answer to tool \"any\" cannot be used: not UTF-8 at byte 34.",
        ),
    ];
    for (line, code, message) in cases {
        let mut p = Pair::ready();
        p.call(7, "any");
        p.forget();
        server_bytes(&mut p, line);
        let failure = p.failure();
        assert_eq!((failure.code, failure.message.as_str()), (code, message));
        assert_eq!(failure.outcome(), "done");
        assert_eq!(p.session.sizes().ledger.0, 0);
        p.forget();
        server_bytes(&mut p, line);
        assert_eq!(p.drops().len(), 1, "nobody waits for it now");
        assert_eq!(p.at_host(), [""; 0]);
    }
}

#[test]
fn a_broken_request_of_the_server_is_answered() {
    let mut p = Pair::ready();
    server_bytes(&mut p, br#"{"jsonrpc":"2.0","id":3,"method":7}"#);
    assert_eq!(p.at_host(), [""; 0]);
    let told = failure(&p.at_link()[0]);
    assert_eq!((told.id.clone(), told.code), (json!(3), -32600));
}

#[test]
fn log_lines_among_the_messages_are_dropped_and_excerpted() {
    let mut p = Pair::ready();
    p.call(7, "any");
    p.forget();
    server_bytes(&mut p, "Listening\u{7} on stdio…".as_bytes());
    server_bytes(&mut p, br#"{"id":7,"level":"info"}"#);
    let long = "x".repeat(1025);
    p.server(&long);
    p.server(&long[1..]);
    let details: Vec<_> = p.drops().into_iter().map(|d| d.2).collect();
    assert_eq!(
        details,
        [
            "not a JSON object: Listening\u{7} on stdio…".to_string(),
            r#"JSON, but no JSON-RPC message: {"id":7,"level":"info"}"#.into(),
            format!("not a JSON object: {}", &long[1..]),
            format!("not a JSON object: {}", &long[1..]),
        ]
    );
    assert_eq!(p.at_host(), [""; 0]);
    p.result(7, "{}");
    assert_eq!(p.at_host().len(), 1);
}

#[test]
fn an_answer_under_an_id_of_the_other_type_is_for_its_request() {
    let mut p = Pair::ready();
    p.call(7, "any");
    p.host(r#"{"jsonrpc":"2.0","id":"8","method":"ping"}"#);
    p.forget();
    p.server(r#"{"id":"7","result":{}}"#);
    p.server(r#"{"id":8,"result":{}}"#);
    assert_eq!(
        p.at_host(),
        [r#"{"id":7,"result":{}}"#, r#"{"id":"8","result":{}}"#]
    );
}

#[test]
fn ids_that_differ_by_type_only_are_two() {
    let mut p = Pair::ready();
    p.call(7, "any");
    p.host(r#"{"jsonrpc":"2.0","id":"7","method":"ping"}"#);
    p.forget();
    p.server(r#"{"id":"7","result":"text"}"#);
    p.server(r#"{"id":7,"result":"number"}"#);
    assert_eq!(
        p.at_host(),
        [
            r#"{"id":"7","result":"text"}"#,
            r#"{"id":7,"result":"number"}"#
        ]
    );
}

#[test]
fn a_late_answer_is_not_taken_for_that_of_the_other_type() {
    let mut p = Pair::ready_with(|policy| policy.cancel = outlive_core::policy::Cancel::Absorb);
    p.call(7, "any");
    p.cancel(7);
    p.host(r#"{"jsonrpc":"2.0","id":"7","method":"ping"}"#);
    p.forget();
    p.server(r#"{"id":7,"result":{}}"#);
    assert_eq!(p.at_host(), [""; 0]);
}

#[test]
fn an_error_without_an_id_is_about_the_one_request_there_is() {
    for line in [
        r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"what?"}}"#,
        r#"{"jsonrpc":"2.0","error":{"code":-32700,"message":"what?"}}"#,
    ] {
        let mut p = Pair::ready();
        p.server(line);
        assert_eq!(p.drops().len(), 1, "there is none");
        p.call(7, "any");
        p.call(8, "any");
        p.forget();
        p.server(line);
        assert_eq!(p.drops().len(), 1, "there are two");
        p.result(8, "{}");
        p.forget();
        p.server(line);
        let at_host = p.at_host();
        assert!(at_host[0].contains(r#""id":7"#), "{at_host:?}");
        assert!(at_host[0].contains("what?"));
    }
    // A result without an id is nothing at all.
    let mut p = Pair::ready();
    p.call(7, "any");
    p.forget();
    p.server(r#"{"jsonrpc":"2.0","id":null,"result":{}}"#);
    assert_eq!(p.drops().len(), 1);
    assert_eq!(p.at_host(), [""; 0]);
}

#[test]
fn an_error_without_an_id_is_not_about_a_request_that_was_not_sent() {
    let mut p = Pair::ready();
    p.die(Exit::Signal(9));
    p.up();
    p.call(7, "any");
    p.forget();
    p.server(r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"what?"}}"#);
    assert_eq!(p.drops().len(), 1);
    assert_eq!(p.at_host(), [""; 0]);
}

#[test]
fn an_answer_nobody_waits_for_is_dropped() {
    let mut p = Pair::ready();
    p.result(7, "{}");
    let unknown = (
        Direction::ToHost,
        DropReason::UnknownAnswer,
        "id 7".to_string(),
    );
    assert_eq!(p.drops(), std::slice::from_ref(&unknown));
    // Not even if the request is there, but was not sent on this link.
    p.die(Exit::Signal(9));
    p.call(7, "any");
    p.up();
    p.forget();
    p.result(7, "{}");
    assert_eq!(p.drops(), [unknown]);
    assert_eq!(p.at_host(), [""; 0]);
}

#[test]
fn an_answer_under_the_id_of_a_request_that_has_another_name_here_is_not_its() {
    let mut p = Pair::ready_with(|policy| {
        policy.cancel = outlive_core::policy::Cancel::Absorb;
        policy.limits.tombstones = 1;
    });
    for id in [5, 6] {
        p.call(id, "slow");
        p.cancel(id);
    }
    p.call(7, "renamed");
    p.forget();
    p.result(7, "{}");
    assert_eq!(p.drops().len(), 1);
    assert_eq!(p.at_host(), [""; 0]);
    p.own_result(1, "{}");
    assert_eq!(p.at_host().len(), 1);
}

#[test]
fn progress_is_for_requests_that_are_waited_for() {
    let progress = |token: &str| {
        format!(
            r#"{{"jsonrpc":"2.0","method":"notifications/progress","params":{{"progressToken":{token},"progress":1}}}}"#
        )
    };
    let call = |id: u64, more: &str| {
        format!(
            r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/call","params":{{"name":"x"{more},"_meta":{{"progressToken":{id}}}}}}}"#
        )
    };
    let late = [(
        Direction::ToHost,
        DropReason::LateProgress,
        "no such request".to_string(),
    )];
    let mut p = Pair::ready();
    p.host(&call(7, ""));
    p.forget();
    p.server(&progress("7"));
    assert_eq!(p.at_host(), [progress("7")]);
    p.server(&progress("8"));
    assert_eq!(p.drops(), late);
    p.result(7, "{}");
    p.forget();
    p.server(&progress("7"));
    assert_eq!(p.drops(), late, "it is over");
    // A task goes on after the answer that created it.
    p.host(&call(9, r#","task":{}"#));
    p.result(9, r#"{"task":{"taskId":"t"}}"#);
    p.forget();
    p.server(&progress("9"));
    assert_eq!(p.at_host(), [progress("9")]);
    p.server(r#"{"jsonrpc":"2.0","method":"notifications/progress","params":{}}"#);
    assert_eq!(p.drops(), late);
    assert_eq!(p.at_host(), [""; 0]);
}

#[test]
fn a_token_that_is_used_again_belongs_to_the_newer_request() {
    let call = |id: u64| {
        format!(
            r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/call","params":{{"name":"x","_meta":{{"progressToken":"t"}}}}}}"#
        )
    };
    let mut p = Pair::ready();
    p.host(&call(7));
    p.host(&call(8));
    p.result(7, "{}");
    p.forget();
    let progress = r#"{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":"t","progress":1}}"#;
    p.server(progress);
    assert_eq!(p.at_host(), [progress]);
    p.result(8, "{}");
    p.forget();
    p.server(progress);
    assert_eq!(p.at_host(), [""; 0]);
}

#[test]
fn list_changed_is_promised_to_the_host_whatever_the_server_says() {
    let mut p = Pair::ready();
    p.host(&INITIALIZE.replace(r#""id":0"#, r#""id":5"#));
    p.forget();
    p.result(5, r#"{"protocolVersion":"2025-06-18","capabilities":{"prompts":{"listChanged":false},"resources":{"subscribe":true}}}"#);
    assert_eq!(
        p.at_host(),
        [
            r#"{"jsonrpc":"2.0","id":5,"result":{"protocolVersion":"2025-06-18","capabilities":{"prompts":{"listChanged":true},"resources":{"listChanged":true,"subscribe":true}}}}"#
        ]
    );
    p.request(6, "tools/list");
    p.forget();
    let other = r#"{"jsonrpc":"2.0","id":6,"result":{"capabilities":{"prompts":{}}}}"#;
    p.server(other);
    assert_eq!(p.at_host(), [other], "no other answer is touched");
}

#[test]
fn an_id_nobody_can_remember_is_refused() {
    let id = |len: usize| format!("\"{}\"", "x".repeat(len - 2));
    for (len, refused) in [(4096, false), (4097, true)] {
        let mut p = Pair::ready();
        p.host(&format!(
            r#"{{"jsonrpc":"2.0","id":{},"method":"ping"}}"#,
            id(len)
        ));
        assert_eq!(p.at_link().is_empty(), refused, "{len}");
        if refused {
            let failure = p.failure();
            assert_eq!(failure.code, -32600);
            assert_eq!(
                failure.message,
                "The request was not sent: its id is longer than 4096 bytes."
            );
        }
        p.forget();
        p.server(&format!(
            r#"{{"jsonrpc":"2.0","id":{},"method":"roots/list"}}"#,
            id(len)
        ));
        assert_eq!(p.at_host().is_empty(), refused, "{len}");
        assert_eq!(p.at_link().len(), usize::from(refused));
    }
}

#[test]
fn an_error_without_an_id_may_be_about_a_request_of_ours() {
    let mut p = Pair::ready();
    p.advance(30_000);
    p.call(7, "any");
    p.forget();
    p.server(r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"what?"}}"#);
    assert_eq!(p.drops().len(), 1);
    assert_eq!(p.at_host(), [""; 0]);
}

#[test]
fn a_batch_of_anything_is_a_batch() {
    let mut p = Pair::ready();
    p.host("[true,false,null,1]");
    assert_eq!(p.drops().len(), 4);
    p.host("[INFO]");
    assert_eq!(p.drops().len(), 1, "that is none");
}

/// A server that dies while it writes an answer (FM-05): the half of it settles nothing.
#[test]
fn what_a_death_cuts_off_is_part_of_the_death() {
    for (cut, whole) in [(22, false), (25, false), (40, false), (43, true)] {
        let mut p = Pair::ready();
        p.call(7, "any");
        p.forget();
        let line = &br#"{"jsonrpc":"2.0","id":7,"result":{"a":1234}}"#[..cut];
        let mut framer = outlive_core::Framer::new(1 << 20);
        framer.extend(line);
        framer.extend(if whole { b"}" } else { b"" });
        p.link(LinkInput::Frame(framer.finish().expect("a frame")));
        assert_eq!(p.at_host().len(), usize::from(whole), "{cut}");
        p.die(Exit::Code(9));
        match whole {
            true => assert!(p.failures().is_empty()),
            false => assert_eq!(p.failure().kind(), "connection_lost", "{cut}"),
        }
    }
}

#[test]
fn a_last_line_without_its_end_is_told_once_however_long_it_is() {
    for len in [10, 5 << 10, 300 << 10, 2 << 20] {
        let mut framer = outlive_core::Framer::new(1 << 20);
        framer.extend(&vec![b'x'; len]);
        assert_eq!(framer.next_frame(), None);
        assert!(framer.finish().is_some(), "{len}");
        assert_eq!(framer.finish().map(|_| len), None);
    }
}

/// A tool prints a dot without a line end, and its answer stands behind it (FM-11).
#[test]
fn an_answer_among_other_text_is_found() {
    let answer = r#"{"jsonrpc":"2.0","id":7,"result":{"a":{"b":"}"}}}"#;
    for (before, after) in [
        (".", ""),
        ("", "."),
        ("50% {done} ", ""),
        ("\u{1b}[0m", "\0"),
    ] {
        let mut p = Pair::ready();
        p.call(7, "any");
        p.forget();
        p.server(&format!("{before}{answer}{after}"));
        assert_eq!(p.at_host(), [answer]);
        let drops = p.drops();
        assert_eq!(drops.len(), 1, "it is counted");
        assert_eq!(drops[0].1, DropReason::NotAMessage);
        assert!(
            drops[0].2.starts_with("text beside an answer: "),
            "{drops:?}"
        );
    }
}

#[test]
fn two_answers_on_one_line_are_two_answers() {
    let mut p = Pair::ready();
    p.call(7, "any");
    p.call(8, "any");
    p.forget();
    let [one, two] = [7, 8].map(|id| format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{}}}}"#));
    p.server(&format!("{one}{two}"));
    assert_eq!(p.at_host(), [one, two]);
}

/// The line holds the id of a call, and nothing that could be passed on: the call must not wait for another answer.
#[test]
fn what_is_left_of_an_answer_behind_other_text_settles_its_call() {
    let mut p = Pair::ready();
    p.call(7, "any");
    p.forget();
    p.server(r#"..{"jsonrpc":"2.0","id":7,"result":{"a"#);
    let failure = p.failure();
    assert_eq!((failure.kind(), failure.outcome()), ("protocol", "done"));
}

/// Servers write what they were asked and what they say into their logs. Only an answer that is waited for is taken.
#[test]
fn a_log_line_with_a_message_in_it_stays_a_log_line() {
    for message in [
        call(7, "any"),
        call(9, "other"),
        r#"{"jsonrpc":"2.0","id":8,"result":{}}"#.into(),
        r#"{"jsonrpc":"2.0","id":1,"method":"elicitation/create","params":{}}"#.into(),
        r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":7}}"#.into(),
    ] {
        let mut p = Pair::ready();
        p.call(7, "any");
        p.forget();
        p.server(&format!("DEBUG got {message}"));
        assert_eq!(p.all(), ["dropped"], "{message}");
    }
}
