//! Channels: what comes on one is answered on it, and its end is told once.

use outlive_core::Frame;
use outlive_core::server::{Channel, Input, Level, Output};

use crate::pair::*;

fn say(p: &mut Pair, channel: u64, line: &str) {
    let frame = Frame::read(line.to_string().into());
    p.feed(Input::Frame(Channel(channel), frame));
}

/// What was sent and ended where: `1 {…}`, `1 done`.
fn told(p: &mut Pair) -> Vec<String> {
    let word = |output: &Output| match output {
        Output::Send(channel, message) => {
            let line = message.bytes();
            Some(format!("{} {}", channel.0, String::from_utf8_lossy(line)))
        }
        Output::Done(channel) => Some(format!("{} done", channel.0)),
        _ => None,
    };
    let told = p.server_outputs().iter().filter_map(word).collect();
    p.forget();
    told
}

/// The channels and the beginning of what follows `"id":` or `"method":`.
fn briefly(p: &mut Pair) -> Vec<String> {
    let brief = |line: String| {
        let (channel, rest) = line.split_once(' ').expect("a channel");
        let rest = rest.trim_start_matches(r#"{"jsonrpc":"2.0","#);
        let end = rest.find(',').unwrap_or(rest.len());
        format!("{channel} {}", &rest[..end])
    };
    told(p).into_iter().map(brief).collect()
}

fn listen(id: u64) -> String {
    modern_request(
        id,
        "subscriptions/listen",
        r#""notifications":{"toolsListChanged":true},"#,
    )
}

#[test]
fn an_answer_goes_where_the_request_came_from() {
    let mut p = Pair::modern();
    say(
        &mut p,
        1,
        &modern_request(7, "tools/call", r#""name":"a","#),
    );
    let first = p.newest();
    say(
        &mut p,
        2,
        &modern_request(7, "tools/call", r#""name":"b","#),
    );
    let second = p.newest();
    assert_eq!(
        told(&mut p),
        [""; 0],
        "the same id on two channels is two requests"
    );
    assert_eq!((p.server.in_flight(), p.server.sizes().channels), (2, 2));
    p.answer(second, "{}");
    assert_eq!(briefly(&mut p), [r#"2 "id":7"#, "2 done"]);
    p.answer(first, "{}");
    assert_eq!(briefly(&mut p), [r#"1 "id":7"#, "1 done"]);
    assert_eq!((p.server.in_flight(), p.server.sizes().channels), (0, 0));
}

#[test]
fn a_legacy_client_has_one_set_of_ids() {
    let mut p = Pair::ready();
    say(&mut p, 1, &call(7, "a"));
    let ticket = p.newest();
    say(&mut p, 2, &call(7, "b"));
    let refused = told(&mut p);
    assert!(
        refused[0].starts_with("2 ") && refused[0].contains("same id"),
        "{refused:?}"
    );
    assert_eq!(refused[1..], ["2 done"]);
    p.ask(Some(ticket), 1);
    assert_eq!(briefly(&mut p), [r#"1 "id":"outlive-ask-1""#]);
    say(&mut p, 3, &cancelled(7));
    assert_eq!(
        briefly(&mut p),
        [
            r#"1 "method":"notifications/cancelled""#,
            "1 done",
            "3 done"
        ],
        "cancelled from another channel"
    );
}

#[test]
fn what_needs_no_answer_is_done_at_once() {
    let mut p = Pair::ready();
    say(
        &mut p,
        1,
        r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#,
    );
    assert_eq!(told(&mut p), ["1 done"]);
    say(&mut p, 2, "no message");
    assert_eq!(told(&mut p), ["2 done"]);
    say(&mut p, 3, &request(1, "ping"));
    assert_eq!(briefly(&mut p), [r#"3 "id":1"#, "3 done"]);
    let batch = format!("[{},{}]", request(2, "ping"), call(3, "a"));
    say(&mut p, 4, &batch);
    assert_eq!(briefly(&mut p), [r#"4 "id":2"#]);
    p.answer(p.newest(), "{}");
    assert_eq!(briefly(&mut p), [r#"4 "id":3"#, "4 done"]);
    assert_eq!(p.server.sizes().channels, 0);
}

#[test]
fn closing_a_channel_cancels_what_is_modern() {
    let mut p = Pair::ready();
    say(
        &mut p,
        1,
        &modern_request(1, "tools/call", r#""name":"a","#),
    );
    say(&mut p, 2, &call(2, "b"));
    say(&mut p, 3, &listen(3));
    p.forget();
    for channel in 1..=3 {
        p.feed(Input::Left(Channel(channel)));
    }
    p.feed(Input::Left(Channel::MAIN));
    p.feed(Input::Left(Channel(99)));
    assert_eq!(p.all(), ["cancel 0 client", "done 1", "done 3"]);
    assert_eq!(p.server.sizes().subscriptions, (0, 0));
    p.answer(p.newest(), "{}");
    assert_eq!(
        briefly(&mut p),
        [r#"2 "id":2"#, "2 done"],
        "the legacy one goes on"
    );
}

#[test]
fn a_stream_ends_alone() {
    let mut p = Pair::modern();
    say(&mut p, 1, &listen(1));
    say(&mut p, 2, &listen(2));
    p.forget();
    p.feed(Input::Left(Channel(1)));
    assert_eq!(p.all(), ["done 1"]);
    assert_eq!(p.server.sizes().subscriptions.0, 1);

    let mut p = Pair::modern();
    p.client(&listen(1));
    p.client(&listen(2));
    p.cancel(1);
    assert_eq!(p.server.sizes().subscriptions.0, 1);
}

#[test]
fn a_question_ends_its_channel_and_the_answer_comes_on_the_next() {
    let mut p = Pair::modern();
    say(
        &mut p,
        1,
        &modern_request(1, "tools/call", r#""name":"a","#),
    );
    let ticket = p.newest();
    p.ask(Some(ticket), 1);
    let asked = told(&mut p);
    assert!(asked[0].starts_with("1 ") && asked[0].contains("input_required"));
    assert_eq!(asked[1..], ["1 done"]);
    let state = asked[0]
        .split(r#""requestState":""#)
        .nth(1)
        .expect("a state");
    let state = &state[..state.find('"').expect("its end")];
    let more = format!(
        r#""name":"a","requestState":"{state}","inputResponses":{{"ask-1":{{"roots":[]}}}},"#
    );
    say(&mut p, 2, &modern_request(2, "tools/call", &more));
    p.feed(Input::Left(Channel(1)));
    p.answer(ticket, "{}");
    assert_eq!(briefly(&mut p), [r#"2 "id":2"#, "2 done"]);
}

#[test]
fn news_of_a_request_go_with_it_and_other_news_to_the_main_channel() {
    let mut p = Pair::ready();
    say(&mut p, 1, &call(1, "a"));
    let ticket = p.newest();
    for within in [Some(ticket), None] {
        p.feed(Input::Log {
            within,
            level: Level::Error,
            logger: None,
            data: "1".into(),
        });
        p.feed(Input::Notify {
            within,
            method: "x".into(),
            params: "{}".into(),
        });
    }
    assert_eq!(
        briefly(&mut p),
        [
            r#"1 "method":"notifications/message""#,
            r#"1 "method":"x""#,
            r#"0 "method":"notifications/message""#,
            r#"0 "method":"x""#,
        ]
    );
}

#[test]
fn a_shutdown_ends_streams_with_their_response_alone() {
    let mut p = Pair::modern();
    say(&mut p, 1, &listen(1));
    say(
        &mut p,
        2,
        &modern_request(2, "tools/call", r#""name":"a","#),
    );
    p.forget();
    p.shutdown();
    assert_eq!(briefly(&mut p), [r#"1 "id":1"#, "1 done"]);
    p.shutdown();
    let told = told(&mut p);
    assert!(
        told[0].starts_with("2 ") && told[0].contains("-31005"),
        "{told:?}"
    );
    assert_eq!(told[1..], ["2 done"]);
}

#[test]
fn without_handshakes_every_request_speaks_for_itself() {
    let mut p = Pair::modern_with(|policy| policy.handshake = false);
    for method in ["initialize", "ping", "tools/list"] {
        say(&mut p, 1, &request(1, method));
        let told = told(&mut p);
        assert!(told[0].contains("-32602"), "{told:?}");
    }
}
