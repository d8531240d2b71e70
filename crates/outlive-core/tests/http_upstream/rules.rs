//! The rules one by one, at their millisecond and one before.

use std::time::Duration;

use bytes::Bytes;
use outlive_core::http_upstream::{
    Attempt, Config, DELETE_TIMEOUT, Failure, Foreign, Head, HttpUpstream, Input, Known, Location,
    Output, Transport,
};
use outlive_core::link::RequestFailure;
use outlive_core::{Id, LinkInput, Message, Time};

const INITIALIZE: &str = r#"{"jsonrpc":"2.0","id":0,"method":"initialize","params":{}}"#;
const INITIALIZED: &str = r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#;
const WELCOME: &str = r#"{"jsonrpc":"2.0","id":0,"result":{"protocolVersion":"2025-11-25"}}"#;
const NOTE: &str = r#"{"jsonrpc":"2.0","method":"notifications/x"}"#;
const NONE: [&str; 0] = [];

/// A link, and what it says in words. HTTP requests are known by their order, from 0.
struct Link {
    http: HttpUpstream,
    now: Time,
    attempts: Vec<Attempt>,
}

impl Link {
    fn with(change: impl FnOnce(&mut Config)) -> Link {
        let mut config = Config {
            limit: 1 << 20,
            stall: Duration::from_secs(60),
            transport: None,
            handshake: true,
            login: false,
            known: Known::default(),
        };
        change(&mut config);
        Link {
            http: HttpUpstream::new(config),
            now: Time::ZERO,
            attempts: Vec::new(),
        }
    }

    fn new() -> Link {
        Link::with(|_| {})
    }

    /// One with a session, and nothing else under way.
    fn begun() -> Link {
        Link::begun_with(|_| {})
    }

    fn begun_with(change: impl FnOnce(&mut Config)) -> Link {
        let mut link = Link::with(change);
        link.send(INITIALIZE);
        let head = Head {
            names_session: true,
            ..status(200)
        };
        link.respond(0, head);
        link.body(0, WELCOME);
        link.send(INITIALIZED);
        assert_eq!(
            link.respond(1, status(202)),
            ["abort 1", "initialized", "knows Streamable", "get 2"]
        );
        assert_eq!(link.respond(2, status(405)), ["abort 2"]);
        link
    }

    fn number(&self, attempt: Attempt) -> usize {
        self.attempts
            .iter()
            .position(|it| *it == attempt)
            .expect("it was made")
    }

    fn said(&mut self) -> Vec<String> {
        let mut said = Vec::new();
        while let Some(output) = self.http.poll() {
            said.push(match output {
                Output::Post { attempt, to, .. } => {
                    self.attempts.push(attempt);
                    let to = to.map(|to| format!(" to {to}")).unwrap_or_default();
                    format!("post {}{to}", self.number(attempt))
                }
                Output::Get {
                    attempt, cursor, ..
                } => {
                    self.attempts.push(attempt);
                    let cursor = cursor.map(|it| format!(" behind {it}")).unwrap_or_default();
                    format!("get {}{cursor}", self.number(attempt))
                }
                Output::Delete { attempt, .. } => {
                    self.attempts.push(attempt);
                    format!("delete {}", self.number(attempt))
                }
                Output::Leave { .. } => "leave".into(),
                Output::Abort(attempt) => format!("abort {}", self.number(attempt)),
                Output::Renew => "renew".into(),
                Output::Authenticate { turn, status, .. } => {
                    format!("authenticate {turn}: {status}")
                }
                Output::Compare { number, .. } => format!("compare {number}"),
                Output::Learn(_) => "learn".into(),
                Output::PassList(_) => "pass the list".into(),
                Output::Locate(address) => format!("locate {address}"),
                Output::Settle(address) => format!("settle at {address}"),
                Output::Named => "named".into(),
                Output::Version(version) => format!("version {version}"),
                Output::Know(known) if known.modern => "knows that it is modern".into(),
                Output::Know(known) => match known.transport {
                    Some(transport) => format!("knows {transport:?}"),
                    None => "knows none".into(),
                },
                Output::Link(input) => words(input),
                Output::Ended => "ended".into(),
            });
        }
        said
    }

    fn feed(&mut self, input: Input) -> Vec<String> {
        self.http.handle(self.now, input);
        self.said()
    }

    fn send(&mut self, line: &str) -> Vec<String> {
        self.feed(Input::Send(message(line)))
    }

    fn written(&mut self, attempt: usize) -> Vec<String> {
        self.feed(Input::Written(self.attempts[attempt]))
    }

    fn respond(&mut self, attempt: usize, head: Head) -> Vec<String> {
        self.feed(Input::Response(self.attempts[attempt], head))
    }

    fn chunk(&mut self, attempt: usize, text: &str) -> Vec<String> {
        self.feed(Input::Chunk(
            self.attempts[attempt],
            Bytes::from(text.to_owned()),
        ))
    }

    fn end(&mut self, attempt: usize) -> Vec<String> {
        self.feed(Input::End(self.attempts[attempt]))
    }

    fn fail(&mut self, attempt: usize, failure: Failure) -> Vec<String> {
        self.feed(Input::Failed(self.attempts[attempt], failure))
    }

    /// The whole of a response.
    fn body(&mut self, attempt: usize, text: &str) -> Vec<String> {
        let mut said = self.chunk(attempt, text);
        said.extend(self.end(attempt));
        said
    }

    fn decide(&mut self, id: i64, granted: bool) -> Vec<String> {
        self.feed(Input::Resend(Id::Int(id), granted))
    }

    fn advance(&mut self, ms: u64) -> Vec<String> {
        self.now = self.now + Duration::from_millis(ms);
        self.feed(Input::Tick)
    }
}

fn message(line: &str) -> Message {
    Message::read(line.to_owned().into()).expect("a message")
}

fn words(input: LinkInput) -> String {
    match input {
        LinkInput::Frame(frame) | LinkInput::FrameOf(_, frame) => match frame.message() {
            Some(message) if message.method().is_empty() => {
                format!("answer {}", String::from_utf8_lossy(message.id_json()))
            }
            Some(message) => message.method().into(),
            None => "junk".into(),
        },
        LinkInput::Unanswered { id, failure } => match failure {
            RequestFailure::Rejected { status, .. } => format!("{id} rejected with {status}"),
            RequestFailure::WrongEra(_) => format!("{id} of another era"),
            RequestFailure::Unsent(why) => format!("{id} unsent: {why}"),
            RequestFailure::Lost(why) => format!("{id} lost: {why}"),
            RequestFailure::Elsewhere { status, .. } => format!("{id} elsewhere: {status}"),
        },
        LinkInput::Unexecuted { id, why } => format!("{id} again? {why:?}"),
        LinkInput::Challenged { id } => format!("{id} waits for credentials"),
        LinkInput::Expired { id, status } => format!("expired {id:?} {status}"),
        LinkInput::MaybeExpired => "maybe expired".into(),
        LinkInput::Disconnected { error, sent } => format!("disconnected {error:?} {sent}"),
        LinkInput::Refused { why, .. } => format!("refused {why:?}"),
        LinkInput::Initialized => "initialized".into(),
        LinkInput::Alive => "alive".into(),
        other => format!("{other:?}"),
    }
}

fn status(status: u16) -> Head {
    Head {
        status,
        ..Head::default()
    }
}

fn stream() -> Head {
    Head {
        stream: true,
        ..status(200)
    }
}

fn moved(code: u16) -> Head {
    Head {
        location: Some(Location {
            to: "http://here/b".into(),
            other_origin: None,
        }),
        ..status(code)
    }
}

fn call(id: u64) -> String {
    format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/call","params":{{"name":"t"}}}}"#)
}

fn modern_call(id: u64) -> String {
    format!(
        r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/call","params":{{"name":"t","_meta":{{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}}}}}}"#
    )
}

fn cancel(id: u64) -> String {
    format!(
        r#"{{"jsonrpc":"2.0","method":"notifications/cancelled","params":{{"requestId":{id}}}}}"#
    )
}

fn result(id: u64) -> String {
    format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{}}}}"#)
}

#[test]
fn a_request_is_answered_in_its_response() {
    let mut link = Link::begun();
    assert_eq!(link.send(&call(1)), ["post 3"]);
    assert_eq!(link.written(3), NONE);
    assert_eq!(link.respond(3, status(200)), NONE);
    assert_eq!(link.body(3, &result(1)), ["answer 1"]);
    assert_eq!(link.http.deadline(), None);
    assert_eq!(link.http.under_way(), 0);
}

#[test]
fn a_redirect_is_followed_if_the_session_says_so_and_five_times() {
    let mut link = Link::begun();
    link.send(&call(1));
    for attempt in 3..8 {
        assert_eq!(
            link.respond(attempt, moved(307)),
            [format!("abort {attempt}"), "1 again? Redirected".into()]
        );
        let next = format!("post {} to http://here/b", attempt + 1);
        assert_eq!(link.decide(1, true), [next]);
    }
    assert_eq!(link.respond(8, moved(307)), ["1 elsewhere: 307", "abort 8"]);
    assert_eq!(link.decide(1, true), NONE, "nobody asked");
}

#[test]
fn what_the_session_does_not_send_again_fails_with_its_status() {
    let mut link = Link::begun();
    link.send(&call(1));
    link.respond(3, moved(308));
    assert_eq!(link.decide(1, false), ["1 rejected with 308"]);
    // 302 is said of what was executed: nobody is asked.
    link.send(&call(2));
    link.respond(4, moved(302));
    assert_eq!(link.end(4), ["2 lost: status 302"]);
}

#[test]
fn a_session_that_begins_elsewhere_stays_there_unless_that_was_for_once() {
    for (code, settles) in [(307, false), (308, true)] {
        let mut link = Link::new();
        link.send(INITIALIZE);
        link.respond(0, moved(code));
        link.decide(0, true);
        let said = link.respond(1, status(200));
        assert_eq!(
            said.contains(&"settle at http://here/b".to_owned()),
            settles,
            "{said:?}"
        );
    }
}

#[test]
fn a_request_that_waits_to_be_sent_again_is_cancelled_by_not_leaving() {
    let mut link = Link::begun();
    link.send(&call(1));
    link.written(3);
    link.respond(3, moved(307));
    assert_eq!(link.send(&cancel(1)), NONE);
    assert_eq!(link.decide(1, true), NONE);
    assert_eq!(link.http.under_way(), 0);
    assert_eq!(link.http.backlog(), 0);
}

#[test]
fn one_asks_for_credentials_and_the_others_wait() {
    let mut link = Link::begun_with(|config| config.login = true);
    link.send(&call(1));
    link.send(&call(2));
    let asks = ["authenticate 0: 401", "1 waits for credentials"];
    assert_eq!(link.respond(3, status(401)), asks);
    assert_eq!(link.respond(4, status(401)), ["2 waits for credentials"]);
    let asks = [
        "abort 3",
        "1 again? Credentials",
        "abort 4",
        "2 again? Credentials",
    ];
    assert_eq!(link.feed(Input::Authenticated(true)), asks);
    assert_eq!(link.decide(1, true), ["post 5"]);
    assert_eq!(link.decide(2, true), ["post 6"]);
    // Refused with the older ones, it need not ask.
    link.send(&call(3));
    assert_eq!(
        link.respond(7, status(401)),
        ["abort 7", "3 again? Credentials"]
    );
}

#[test]
fn credentials_are_asked_for_three_times() {
    let mut link = Link::begun_with(|config| config.login = true);
    link.send(&call(1));
    for turn in 0..3 {
        let attempt = 3 + turn as usize;
        let head = Head {
            turn,
            ..status(401)
        };
        assert_eq!(
            link.respond(attempt, head),
            [
                format!("authenticate {turn}: 401"),
                "1 waits for credentials".into()
            ]
        );
        link.feed(Input::Authenticated(true));
        link.decide(1, true);
    }
    assert_eq!(
        link.respond(
            6,
            Head {
                turn: 3,
                ..status(401)
            }
        ),
        NONE
    );
    assert_eq!(link.end(6), ["1 rejected with 401"]);
}

#[test]
fn without_other_credentials_the_refusal_is_told_with_its_words() {
    let mut link = Link::begun_with(|config| config.login = true);
    link.send(&call(1));
    link.respond(3, status(401));
    link.chunk(3, "Unauthorized: Session ");
    assert_eq!(
        link.feed(Input::Authenticated(false)),
        NONE,
        "there may be more words"
    );
    assert_eq!(link.body(3, "not found"), ["expired Some(Int(1)) 401"]);
}

#[test]
fn the_words_of_a_refusal_are_waited_for_five_seconds() {
    let mut link = Link::begun();
    link.send(&call(1));
    link.respond(3, status(400));
    link.chunk(3, "Session not found");
    assert_eq!(link.advance(4_999), NONE);
    assert_eq!(link.advance(1), ["abort 3", "expired Some(Int(1)) 400"]);
    // And as long as they are few.
    link.send(&call(2));
    link.respond(4, status(400));
    assert_eq!(
        link.chunk(4, &"x".repeat(64 << 10)),
        ["abort 4", "2 rejected with 400"]
    );
}

#[test]
fn what_needs_no_answer_is_given_up_after_half_a_minute() {
    let mut link = Link::begun();
    link.send(NOTE);
    assert_eq!(link.advance(29_999), NONE);
    assert!(link.http.backlog() > 0);
    assert_eq!(link.advance(1), ["abort 3"]);
    assert_eq!(link.http.backlog(), 0);
}

#[test]
fn an_answer_that_stops_is_given_up_after_the_stall() {
    let mut link = Link::begun();
    link.send(&call(1));
    link.respond(3, status(200));
    link.advance(59_999);
    link.chunk(3, "{");
    assert_eq!(link.advance(59_999), NONE);
    assert_eq!(
        link.advance(1),
        ["renew", "1 lost: its answer stopped for 60 s", "abort 3"]
    );
}

#[test]
fn a_body_that_can_be_no_answer_is_named() {
    for (foreign, body, words) in [
        (Foreign::Type("text/html".into()), "<html>", "text/html"),
        (Foreign::Type("text/html".into()), "", "text/html"),
        (Foreign::Encoding("br".into()), "\u{1}", "compressed (br)"),
    ] {
        let mut link = Link::begun();
        link.send(&call(1));
        let head = Head {
            foreign: Some(foreign.clone()),
            ..status(200)
        };
        link.respond(3, head.clone());
        let said = link.body(3, body).join("\n");
        assert!(said.contains("1 lost: ") && said.contains(words), "{said}");
        // Whatever it is called, an answer is one.
        link.send(&call(2));
        link.respond(4, head);
        let answer = r#"{"jsonrpc":"2.0","id":2,"result":{}}"#;
        assert!(link.body(4, answer).contains(&"answer 2".to_owned()));
    }
}

#[test]
fn after_a_break_nothing_leaves_for_a_tenth_of_a_second() {
    let mut link = Link::begun();
    link.send(&call(1));
    let broke = link.fail(3, Failure::Broken("reset".into()));
    assert_eq!(broke, ["renew", "1 lost: reset"]);
    assert_eq!(link.send(&call(2)), NONE);
    assert_eq!(link.send(&call(3)), NONE);
    assert_eq!(link.send(&cancel(3)), NONE, "neither leaves");
    assert_eq!(link.advance(99), NONE);
    assert_eq!(link.advance(1), ["post 4"]);
}

#[test]
fn where_nobody_is_the_link_ends_and_nothing_leaves() {
    let mut link = Link::begun();
    link.send(&call(1));
    assert_eq!(
        link.fail(3, Failure::Unsent("refused".into())),
        ["1 unsent: refused"]
    );
    assert_eq!(link.send(&call(2)), ["2 unsent: its session had ended"]);
    assert_eq!(
        link.feed(Input::Close),
        ["ended"],
        "there is nobody to tell"
    );
}

#[test]
fn a_stream_with_ids_is_resumed_four_times_and_one_without_is_lost() {
    let mut link = Link::begun();
    link.send(&call(1));
    link.respond(3, stream());
    assert_eq!(
        link.end(3),
        ["renew", "1 lost: its stream ended without an answer"]
    );
    link.advance(100);
    link.send(&call(2));
    link.respond(4, stream());
    link.chunk(4, "id: 7\nretry: 1000\ndata:\n\n");
    assert_eq!(link.end(4), ["renew"]);
    assert_eq!(link.advance(999), NONE);
    for (attempt, pause) in [(5, 2_000), (6, 4_000), (7, 5_000)] {
        assert_eq!(link.advance(1), [format!("get {attempt} behind 7")]);
        assert_eq!(
            link.respond(attempt, status(503)),
            [format!("abort {attempt}")]
        );
        assert_eq!(link.advance(pause - 1), NONE);
    }
    assert_eq!(link.advance(1), ["get 8 behind 7"]);
    let given_up = "2 lost: its stream ended without an answer; resuming: status 503";
    assert_eq!(link.respond(8, status(503)), ["abort 8", given_up]);
}

#[test]
fn the_rest_of_a_stream_answers_its_request() {
    let mut link = Link::begun();
    link.send(&call(1));
    link.respond(3, stream());
    link.chunk(3, "id: 7\ndata:\n\n");
    link.end(3);
    assert_eq!(link.advance(1_000), ["get 4 behind 7"]);
    link.respond(4, stream());
    assert_eq!(
        link.chunk(4, &format!("data: {}\n\n", result(1))),
        ["answer 1"]
    );
    // The server may end the stream, so that its connection can be used again.
    assert_eq!(link.advance(199), NONE);
    assert_eq!(link.advance(1), ["abort 4"]);
    // A modern stream is not resumed.
    link.send(&modern_call(2));
    link.respond(5, stream());
    link.chunk(5, "id: 7\ndata:\n\n");
    assert_eq!(
        link.end(5),
        ["renew", "2 lost: its stream ended without an answer"]
    );
}

#[test]
fn a_rest_that_is_redirected_or_challenged_in_a_break_is_asked_for_after_it() {
    let mut link = Link::begun_with(|config| config.login = true);
    link.send(&call(1));
    link.respond(3, stream());
    link.chunk(3, "id: 7\ndata:\n\n");
    link.end(3);
    assert_eq!(link.advance(1_000), ["get 4 behind 7"]);
    let break_at = |link: &mut Link, id: u64, attempt: usize| {
        assert_eq!(link.send(&call(id)), [format!("post {attempt}")]);
        let broke = link.fail(attempt, Failure::Broken("reset".into()));
        assert_eq!(broke, ["renew".to_string(), format!("{id} lost: reset")]);
    };
    break_at(&mut link, 2, 5);
    assert_eq!(link.respond(4, moved(307)), ["abort 4"]);
    assert_eq!(link.advance(99), NONE);
    assert_eq!(link.advance(1), ["get 6 behind 7"]);
    let challenge = ["abort 6", "authenticate 0: 401"];
    assert_eq!(link.respond(6, status(401)), challenge);
    break_at(&mut link, 3, 7);
    assert_eq!(link.feed(Input::Authenticated(true)), NONE);
    assert_eq!(link.advance(99), NONE);
    assert_eq!(link.advance(1), ["get 8 behind 7"]);
    link.respond(8, stream());
    let answer = link.chunk(8, &format!("data: {}\n\n", result(1)));
    assert_eq!(answer, ["answer 1"]);
}

#[test]
fn only_a_stream_of_notifications_falls_silent() {
    let listen = r#"{"jsonrpc":"2.0","id":1,"method":"subscriptions/listen","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}}}"#;
    for (line, dies) in [(listen.to_owned(), true), (modern_call(1), false)] {
        let mut link = Link::new();
        link.send(&line);
        link.respond(0, stream());
        for _ in 0..3 {
            link.advance(1_000);
            link.chunk(0, ":\n\n");
        }
        assert_eq!(link.advance(4_999), NONE);
        let said = link.advance(1);
        assert_eq!(
            said == ["abort 0", "renew", "1 lost: it fell silent for 5 s"],
            dies,
            "{said:?}"
        );
    }
}

#[test]
fn the_stream_of_the_server_is_optional_and_opened_again() {
    let mut link = Link::new();
    link.send(INITIALIZE);
    link.respond(
        0,
        Head {
            names_session: true,
            ..status(200)
        },
    );
    link.body(0, WELCOME);
    link.send(INITIALIZED);
    link.respond(1, status(202));
    assert_eq!(link.send(&call(1)), NONE, "nobody listens yet");
    assert_eq!(link.respond(2, stream()), ["post 3"]);
    assert_eq!(link.end(2), NONE);
    assert_eq!(link.advance(999), NONE);
    assert_eq!(link.advance(1), ["get 4"]);
    // Another may not have been given up.
    assert_eq!(link.respond(4, status(409)), ["abort 4"]);
    assert_eq!(link.advance(2_000), ["get 5"]);
    // It had it, and says that there is no such session.
    assert_eq!(
        link.respond(5, status(404)),
        ["abort 5", "expired None 404"]
    );
    assert_eq!(
        link.feed(Input::Close),
        ["abort 3", "ended"],
        "it is not taken leave of"
    );
}

#[test]
fn an_http_sse_server_is_looked_for_behind_a_refusal() {
    let mut link = Link::new();
    link.send(INITIALIZE);
    link.respond(0, status(405));
    assert_eq!(link.end(0), ["0 again? OlderTransport"]);
    assert_eq!(link.decide(0, true), ["get 1"]);
    link.respond(1, stream());
    assert_eq!(
        link.chunk(1, "event: endpoint\ndata: /m\n\n"),
        ["locate /m"]
    );
    assert_eq!(link.feed(Input::Located(Ok(()))), ["knows Sse", "post 2"]);
    link.written(2);
    assert_eq!(link.respond(2, status(202)), ["abort 2"]);
    assert_eq!(link.chunk(1, &format!("data: {WELCOME}\n\n")), ["answer 0"]);
    assert_eq!(link.end(1), ["disconnected None 1"]);
    assert_eq!(link.send(&call(3)), ["3 unsent: its session had ended"]);
}

#[test]
fn an_http_sse_server_says_within_ten_seconds_where_messages_go() {
    let mut link = Link::with(|config| config.known.transport = Some(Transport::Sse));
    assert_eq!(link.said(), ["get 0"]);
    link.send(INITIALIZE);
    link.respond(0, stream());
    assert_eq!(link.advance(9_999), NONE);
    let said = link.advance(1);
    assert!(
        said.iter()
            .any(|it| it.contains("no `endpoint` event within 10 s")),
        "{said:?}"
    );
    assert!(
        said.contains(&"0 unsent: its session had ended".to_owned()),
        "{said:?}"
    );
}

#[test]
fn the_headers_of_a_call_are_looked_up_once() {
    let mismatch = r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32020,"message":"headers"}}"#;
    let mut link = Link::new();
    link.send(&modern_call(1));
    link.send(&modern_call(2));
    for attempt in 0..2 {
        link.respond(attempt, status(400));
    }
    assert_eq!(link.body(0, mismatch), ["compare 0"]);
    assert_eq!(link.body(1, mismatch), NONE, "one at a time");
    assert_eq!(link.feed(Input::Compared(0, false)), ["post 2"]);
    link.respond(2, status(200));
    let page = r#"{"jsonrpc":"2.0","id":"outlive-tools-1","result":{"tools":[],"nextCursor":"n"}}"#;
    assert_eq!(link.body(2, page), ["learn", "post 3"]);
    link.respond(3, status(200));
    let page = r#"{"jsonrpc":"2.0","id":"outlive-tools-2","result":{"tools":[{"name":"t"}]}}"#;
    assert_eq!(link.body(3, page), ["learn", "compare 0"]);
    assert_eq!(
        link.feed(Input::Compared(0, true)),
        ["1 again? Headers", "compare 1"]
    );
    assert_eq!(link.feed(Input::Compared(1, true)), ["2 again? Headers"]);
    assert_eq!(link.decide(1, true), ["post 4"]);
    link.respond(4, status(400));
    let told = ["knows that it is modern", "answer 1"];
    assert_eq!(link.body(4, mismatch), told, "once");
}

#[test]
fn tools_are_listed_for_half_a_minute() {
    let mismatch = r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32020,"message":"headers"}}"#;
    let mut link = Link::new();
    link.send(&modern_call(1));
    link.respond(0, status(400));
    link.body(0, mismatch);
    assert_eq!(link.feed(Input::Compared(0, false)), ["post 1"]);
    assert_eq!(link.advance(29_999), NONE);
    assert_eq!(link.advance(1), ["abort 1", "compare 0"]);
    let told = ["knows that it is modern", "answer 1"];
    assert_eq!(link.feed(Input::Compared(0, false)), told);
}

#[test]
fn a_host_that_needs_a_handshake_is_told_that_there_is_none() {
    let mut link = Link::with(|config| config.handshake = false);
    assert_eq!(link.send(INITIALIZE), ["answer 0"]);
    assert_eq!(link.send(&modern_call(1)), ["post 0"]);
}

#[test]
fn a_session_is_ended_on_the_server_too_and_not_waited_for_long() {
    let mut link = Link::begun();
    link.send(NOTE);
    assert_eq!(
        link.feed(Input::Close),
        NONE,
        "the notification leaves first"
    );
    assert_eq!(link.respond(3, status(202)), ["abort 3", "delete 4"]);
    assert_eq!(link.advance(DELETE_TIMEOUT.as_millis() as u64 - 1), NONE);
    assert_eq!(link.advance(1), ["abort 4", "ended"]);
    assert_eq!(link.send(NOTE), NONE);
    let mut link = Link::begun();
    link.send(&call(1));
    assert_eq!(link.feed(Input::Kill), ["leave", "abort 3", "ended"]);
    let mut link = Link::new();
    link.send(&modern_call(1));
    assert_eq!(
        link.feed(Input::Kill),
        ["abort 0", "ended"],
        "there is no session"
    );
}

#[test]
fn nothing_comes_of_an_http_request_that_was_given_up() {
    let mut link = Link::begun();
    link.send(&modern_call(1));
    assert_eq!(link.send(&cancel(1)), ["abort 3"]);
    assert_eq!(link.written(3), NONE);
    assert_eq!(link.respond(3, status(200)), NONE);
    assert_eq!(link.body(3, &result(1)), NONE);
}

#[test]
fn a_second_answer_on_a_stream_is_nobodys() {
    let mut link = Link::begun();
    link.send(&call(1));
    link.respond(3, stream());
    let answer = format!("data: {}\n\n", result(1));
    assert_eq!(link.chunk(3, &answer), ["answer 1"]);
    link.send(&call(1));
    assert_eq!(
        link.chunk(3, &answer),
        ["alive"],
        "it is not that of the other request"
    );
    let both = format!("{answer}{answer}");
    link.respond(4, stream());
    assert_eq!(link.chunk(4, &both), ["answer 1", "alive"]);
}
