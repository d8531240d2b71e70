//! The rules one by one, at their millisecond and one before.

use std::time::Duration;

use outlive_core::dispatch::{Dispatch, Input, OVERHEAD, Output, Timing};
use outlive_core::{Message, Time};

const INITIALIZE: &str = r#"{"jsonrpc":"2.0","id":0,"method":"initialize","params":{}}"#;
const INITIALIZED: &str = r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#;
const NOTE: &str = r#"{"jsonrpc":"2.0","method":"notifications/x"}"#;
const ANSWER: &str = r#"{"jsonrpc":"2.0","id":"s","result":{}}"#;

struct Link {
    dispatch: Dispatch,
    now: Time,
    out: Vec<String>,
}

impl Link {
    fn new() -> Link {
        Link {
            dispatch: Dispatch::new(Timing::default()),
            now: Time::ZERO,
            out: Vec::new(),
        }
    }

    fn feed(&mut self, input: Input) -> Vec<String> {
        self.dispatch.handle(self.now, input);
        while let Some(output) = self.dispatch.poll() {
            self.out.push(match output {
                Output::Post(number, _) => format!("post {number}"),
                Output::Listen => "listen".into(),
                Output::Unlistened => "unlistened".into(),
                Output::Initialized => "initialized".into(),
                Output::Abort(number) => format!("abort {number}"),
                Output::Renew => "renew".into(),
                Output::Unsent(id) => format!("unsent {id}"),
            });
        }
        std::mem::take(&mut self.out)
    }

    fn send(&mut self, line: &str) -> Vec<String> {
        let message = Message::read(line.to_owned().into()).expect("a message");
        self.feed(Input::Send(message))
    }

    fn advance(&mut self, ms: u64) -> Vec<String> {
        self.now = self.now + Duration::from_millis(ms);
        self.feed(Input::Tick)
    }
}

fn call(id: u64) -> String {
    format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/call","params":{{"name":"t"}}}}"#)
}

fn cancel(id: u64) -> String {
    format!(
        r#"{{"jsonrpc":"2.0","method":"notifications/cancelled","params":{{"requestId":{id}}}}}"#
    )
}

const NONE: [&str; 0] = [];

#[test]
fn a_handshake_then_the_stream_then_everything() {
    let mut link = Link::new();
    assert_eq!(link.send(INITIALIZE), ["post 0"]);
    assert_eq!(link.send(INITIALIZED), NONE);
    assert_eq!(link.send(&call(1)), NONE);
    assert_eq!(link.send(&call(2)), NONE);
    assert_eq!(link.dispatch.sent(), 1);
    assert_eq!(link.feed(Input::Over(0)), ["post 1"]);
    assert_eq!(link.feed(Input::Taken(1)), ["initialized", "listen"]);
    assert_eq!(link.feed(Input::Listened), ["post 2", "post 3"]);
    // What has begun is not begun again.
    assert_eq!(link.send(INITIALIZE), ["post 4"]);
    assert_eq!(link.send(&call(3)), ["post 5"]);
    assert_eq!(link.dispatch.sent(), 6);
}

#[test]
fn a_stream_that_is_not_answered_is_waited_for_two_seconds() {
    let mut link = Link::new();
    link.send(INITIALIZED);
    assert_eq!(link.feed(Input::Taken(0)), ["initialized", "listen"]);
    assert_eq!(link.send(&call(1)), NONE);
    assert_eq!(link.advance(1_999), NONE);
    assert_eq!(link.advance(1), ["unlistened", "post 1"]);
    // It breaks: the same again.
    assert_eq!(link.feed(Input::Listening), NONE);
    assert_eq!(link.send(&call(2)), NONE);
    assert_eq!(
        link.send(&cancel(1)),
        NONE,
        "it waits until its call was written"
    );
    assert_eq!(
        link.feed(Input::Taken(1)),
        ["post 3"],
        "and for nothing else"
    );
    // The cancellation is on its way: the call waits for that too.
    assert_eq!(link.feed(Input::Listened), NONE);
    assert_eq!(link.feed(Input::Taken(3)), ["post 2"]);
    assert_eq!(link.advance(999), NONE);
    assert_eq!(link.advance(1), ["abort 1"]);
}

#[test]
fn order_is_kept_for_five_seconds_and_then_for_half_a_second() {
    let mut link = Link::new();
    assert_eq!(link.send(NOTE), ["post 0"]);
    assert_eq!(link.send(ANSWER), NONE);
    assert_eq!(link.send(&call(1)), NONE);
    assert_eq!(link.advance(4_999), NONE);
    assert_eq!(link.advance(1), ["post 1"]);
    assert_eq!(link.advance(499), NONE);
    assert_eq!(link.advance(1), ["post 2"]);
    // What was given up on still counts, until it is known to be over.
    assert_eq!(
        link.dispatch.backlog(),
        NOTE.len() + ANSWER.len() + 2 * OVERHEAD
    );
    assert!(!link.dispatch.is_idle());
    link.feed(Input::Taken(0));
    link.feed(Input::Taken(1));
    assert_eq!(link.dispatch.backlog(), 0);
    assert!(link.dispatch.is_idle());
}

#[test]
fn a_call_that_has_not_left_is_cancelled_by_not_leaving() {
    let mut link = Link::new();
    link.send(NOTE);
    assert_eq!(link.send(&call(1)), NONE);
    assert_eq!(link.send(&cancel(1)), NONE);
    assert_eq!(link.send(&call(2)), NONE);
    assert_eq!(link.feed(Input::Taken(0)), ["post 3"]);
}

#[test]
fn connections_are_suspected_after_a_second_of_silence() {
    for (waited, heard, renews) in [
        (999, false, false),
        (1_000, false, true),
        (5_000, true, false),
    ] {
        let mut link = Link::new();
        link.send(&call(1));
        link.feed(Input::Taken(0));
        if heard {
            link.advance(1);
            link.feed(Input::Heard);
        }
        link.advance(waited);
        let said = link.send(&cancel(1));
        assert_eq!(
            said.contains(&"renew".to_owned()),
            renews,
            "{waited} {heard}: {said:?}"
        );
    }
}

#[test]
fn the_end_tells_what_never_left() {
    let mut link = Link::new();
    link.send(NOTE);
    link.send(&call(1));
    link.send(ANSWER);
    assert_eq!(link.feed(Input::End), ["unsent 1"]);
    assert_eq!(link.send(&call(2)), ["unsent 2"]);
    assert_eq!(link.dispatch.sent(), 1);
    assert_eq!(link.dispatch.deadline(), None);
}

#[test]
fn a_server_of_http_sse_is_sent_the_handshake_again_when_its_stream_is_open() {
    let mut link = Link::new();
    link.send(INITIALIZE);
    link.send(INITIALIZED);
    let again = Message::read(INITIALIZE.into()).expect("a message");
    assert_eq!(link.feed(Input::Again(0, again)), NONE);
    assert_eq!(link.feed(Input::Opened), ["post 0"]);
    assert_eq!(link.feed(Input::Taken(0)), NONE);
    assert_eq!(
        link.feed(Input::Answered(outlive_core::Id::Int(0))),
        ["post 1"]
    );
    assert_eq!(link.send(&call(1)), NONE);
    assert_eq!(
        link.feed(Input::Taken(1)),
        ["initialized", "post 2"],
        "there is no other stream"
    );
    link.feed(Input::Taken(2));
    assert_eq!(link.send(&cancel(1)), ["post 3"]);
}
