//! Handlers ask a legacy client: as a request of ours, with exactly one end (FM-50, FM-51).

use std::time::Duration;

use outlive_core::error::{Error, Limit, Outcome};
use outlive_core::event::DropReason;
use outlive_core::server::{AskId, Input};

use crate::pair::*;

const ROOTS: &str = r#"{"jsonrpc":"2.0","id":"outlive-ask-1","method":"roots/list"}"#;
const CANCELLED: &str = r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"outlive-ask-1"}}"#;

fn answer(result: &str) -> String {
    format!(r#"{{"jsonrpc":"2.0","id":"outlive-ask-1","result":{result}}}"#)
}

#[test]
fn a_question_is_a_request_and_its_answer_comes_back() {
    let mut p = Pair::ready();
    let ticket = p.call(1, "a");
    p.forget();
    p.ask_for(
        Some(ticket),
        &[
            (1, "roots/list", ""),
            (2, "sampling/createMessage", r#"{"maxTokens":9}"#),
        ],
    );
    assert_eq!(
        p.sent(),
        [
            ROOTS,
            r#"{"jsonrpc":"2.0","id":"outlive-ask-2","method":"sampling/createMessage","params":{"maxTokens":9}}"#
        ]
    );
    p.client(r#"{"jsonrpc":"2.0","id":"outlive-ask-2","error":{"code":-1,"message":"no"}}"#);
    p.client(&answer(r#"{"roots":[ ]}"#));
    assert_eq!(
        p.asked(),
        [
            (2, Err(Error::remote(br#"{"code":-1,"message":"no"}"#))),
            (1, Ok(r#"{"roots":[ ]}"#.into()))
        ]
    );
    p.client(&answer("{}"));
    assert_eq!(p.all(), ["dropped unknown_answer"]);
}

#[test]
fn what_the_client_has_not_declared_is_not_asked() {
    let declare = |capabilities: &str| {
        let mut p = Pair::new(policy());
        p.client(&initialize(0, "2025-11-25").replace(ABLE, capabilities));
        p.forget();
        p
    };
    let elicit_url = (3, "elicitation/create", r#"{"mode":"url"}"#);
    let elicit_form = (3, "elicitation/create", r#"{"mode":"form"}"#);
    let elicit = (3, "elicitation/create", r#"{"message":"?"}"#);
    let sample = (3, "sampling/createMessage", "{}");
    let sample_tools = (3, "sampling/createMessage", r#"{"tools":[]}"#);
    let roots = (3, "roots/list", "{}");
    for (capabilities, ask, required) in [
        ("{}", roots, r#"{"roots":{}}"#),
        (r#"{"roots":null}"#, roots, r#"{"roots":{}}"#),
        (r#"{"roots":{}}"#, roots, ""),
        ("{}", sample, r#"{"sampling":{}}"#),
        (r#"{"sampling":{}}"#, sample, ""),
        ("{}", sample_tools, r#"{"sampling":{"tools":{}}}"#),
        (
            r#"{"sampling":{}}"#,
            sample_tools,
            r#"{"sampling":{"tools":{}}}"#,
        ),
        (r#"{"sampling":{"tools":{}}}"#, sample_tools, ""),
        ("{}", elicit, r#"{"elicitation":{}}"#),
        (r#"{"elicitation":{}}"#, elicit, ""),
        (r#"{"elicitation":{}}"#, elicit_form, ""),
        (r#"{"elicitation":{"form":{}}}"#, elicit, ""),
        (
            r#"{"elicitation":{"url":{}}}"#,
            elicit,
            r#"{"elicitation":{"form":{}}}"#,
        ),
        (r#"{"elicitation":{"url":{}}}"#, elicit_url, ""),
        (
            r#"{"elicitation":{}}"#,
            elicit_url,
            r#"{"elicitation":{"url":{}}}"#,
        ),
        ("{}", elicit_url, r#"{"elicitation":{"url":{}}}"#),
        ("{}", (3, "ping", ""), ""),
    ] {
        let mut p = declare(capabilities);
        p.ask_for(None, &[ask]);
        if required.is_empty() {
            assert_eq!(p.sent().len(), 1, "{capabilities} {ask:?}");
        } else {
            let why = format!("The client has not declared the capability {required}.");
            assert_eq!(p.asked(), [(3, Err(Error::Unsupported { why }))]);
            assert_eq!(p.all(), [""; 0]);
        }
    }
}

#[test]
fn without_a_legacy_client_nobody_can_be_asked_out_of_the_blue() {
    let mut p = Pair::modern();
    p.modern_call(1, "a");
    p.forget();
    p.ask(None, 1);
    let why = "There is no client that takes requests.".into();
    assert_eq!(p.asked(), [(1, Err(Error::Unsupported { why }))]);
    assert_eq!(p.all(), [""; 0]);
}

#[test]
fn an_asker_that_no_longer_waits_takes_its_question_back_once() {
    let mut p = Pair::ready();
    let ticket = p.call(1, "a");
    p.ask(Some(ticket), 1);
    p.forget();
    p.feed(Input::Unask(AskId(1)));
    assert_eq!(p.all(), [format!("send {CANCELLED}")]);
    p.feed(Input::Unask(AskId(1)));
    p.feed(Input::Unask(AskId(7)));
    assert_eq!(p.all(), [""; 0]);
    p.client(&answer("{}"));
    assert_eq!(
        p.drops(),
        [(DropReason::LateAnswer, r#"id "outlive-ask-1""#.into())]
    );
    assert_eq!(p.all(), [""; 0]);
}

#[test]
fn a_question_ends_with_the_request_it_was_asked_for() {
    let mut p = Pair::ready();
    let ticket = p.call(1, "a");
    p.ask(Some(ticket), 1);
    p.forget();
    p.cancel(1);
    assert_eq!(
        p.all(),
        [
            format!("cancel {ticket} client"),
            format!("send {CANCELLED}"),
            "asked 1 cancelled_by_caller".into()
        ]
    );
    p.ask(Some(ticket), 2);
    assert_eq!(p.asked(), [(2, Err(Error::CancelledByCaller))]);

    let mut p = Pair::ready();
    let ticket = p.call(1, "a");
    p.ask(Some(ticket), 1);
    p.forget();
    p.answer(ticket, "{}");
    assert_eq!(
        p.all(),
        [
            format!("send {CANCELLED}"),
            "asked 1 cancelled_by_caller".into(),
            format!("send {}", result(1, "{}"))
        ]
    );
    p.ask(Some(ticket), 2);
    assert_eq!(p.asked(), [(2, Err(Error::CancelledByCaller))]);
}

#[test]
fn a_question_that_is_not_answered_in_time_is_given_up() {
    let mut p = Pair::ready_with(|policy| {
        policy.ask_timeout = Some(Duration::from_millis(300));
    });
    p.ask(None, 1);
    p.forget();
    p.advance(299);
    assert_eq!(p.all(), [""; 0]);
    p.advance(1);
    assert_eq!(p.sent(), [CANCELLED]);
    let [(1, Err(Error::Timeout { after, .. }))] = p.asked()[..] else {
        panic!("no timeout");
    };
    assert_eq!(after, Duration::from_millis(300));
    p.client(&answer("{}"));
    assert_eq!(p.all(), ["dropped late_answer"]);
}

/// FM-50: the time in which a person thinks is not the handler's.
#[test]
fn the_clock_of_a_handler_stands_still_while_it_waits_for_the_client() {
    let mut p = Pair::ready_with(|policy| policy.deadline = Some(Duration::from_millis(100)));
    let ticket = p.call(1, "a");
    p.advance(40);
    p.ask(Some(ticket), 1);
    p.ask(Some(ticket), 2);
    p.forget();
    p.advance(60_000);
    p.client(&answer("{}"));
    p.advance(60_000);
    assert_eq!(p.orders(), ["asked 1 ok"]);
    p.client(r#"{"jsonrpc":"2.0","id":"outlive-ask-2","result":{}}"#);
    p.advance(59);
    assert_eq!(p.orders(), ["asked 2 ok"]);
    p.advance(1);
    assert_eq!(p.orders(), [format!("cancel {ticket} deadline")]);
}

#[test]
fn a_broken_answer_is_an_answer() {
    let mut p = Pair::ready_with(|policy| policy.message = 1000);
    p.ask(None, 1);
    p.forget();
    p.client(r#"{"jsonrpc":"2.0","id":"outlive-ask-1","result":{},"error":{}}"#);
    assert_eq!(
        p.asked(),
        [(
            1,
            Err(Error::Protocol {
                what: "a response with both a result and an error".into(),
                unreadable: false,
                outcome: Outcome::Done
            })
        )]
    );
    p.ask(None, 2);
    p.forget();
    p.feed(too_long(Some(r#""outlive-ask-2""#), false, 5000));
    assert_eq!(
        p.asked(),
        [(
            2,
            Err(Error::TooLarge {
                limit: 1000,
                answer: true
            })
        )]
    );
    p.ask(None, 3);
    p.forget();
    p.client(r#"{"jsonrpc":"2.0","id":"outlive-ask-3","result":{"#);
    let [
        (
            3,
            Err(Error::Protocol {
                unreadable: true, ..
            }),
        ),
    ] = p.asked()[..]
    else {
        panic!("not unreadable");
    };
    assert_eq!(p.all(), [""; 0]);
}

#[test]
fn questions_are_bounded() {
    let mut p = Pair::ready_with(|policy| policy.asks = 2);
    for id in 1..=3 {
        p.ask(None, id);
    }
    let limit = Limit::questions(2);
    assert_eq!(p.asked(), [(3, Err(Error::Overloaded { limit }))]);
    assert_eq!(p.sent().len(), 2);
    p.client(&answer("{}"));
    p.ask(None, 4);
    assert_eq!(p.sent().len(), 1);
}

#[test]
fn a_number_used_twice_at_once_is_asked_once() {
    let mut p = Pair::ready();
    p.ask(None, 1);
    p.ask(None, 1);
    assert_eq!(p.sent(), [ROOTS]);
    p.client(&answer("{}"));
    assert_eq!(p.asked().len(), 1);
}

#[test]
fn late_answers_are_known_as_far_back_as_we_remember() {
    let mut p = Pair::ready_with(|policy| policy.tombstones = 1);
    for id in 1..=2 {
        p.ask(None, id);
        p.feed(Input::Unask(AskId(id)));
    }
    p.forget();
    p.client(&answer("{}"));
    p.client(r#"{"jsonrpc":"2.0","id":"outlive-ask-2","result":{}}"#);
    assert_eq!(p.all(), ["dropped unknown_answer", "dropped late_answer"]);
}
