//! A session goes on with another owner.

mod encoding;
mod requests;

use std::time::Duration;

use outlive_core::cause::{Exit, Reason};
use outlive_core::event::{Direction, DropReason};
use outlive_core::link::RequestFailure;
use outlive_core::policy::{Policy, Retry, Terms};
use outlive_core::snapshot::{ResumeError, SnapshotError};
use outlive_core::{
    Event, Frame, Generation, Id, Input, LinkInput, Session, Snapshot, State, Time,
};

use crate::pair::*;

const LEVEL: &str =
    r#"{"jsonrpc":"2.0","id":2,"method":"logging/setLevel","params":{"level":"info"}}"#;
const SUBSCRIBE: &str =
    r#"{"jsonrpc":"2.0","id":3,"method":"resources/subscribe","params":{"uri":"a:"}}"#;
const UNSUBSCRIBE: &str =
    r#"{"jsonrpc":"2.0","id":4,"method":"resources/unsubscribe","params":{"uri":"a:"}}"#;
const ASKED: &str = r#"{"jsonrpc":"2.0","id":1,"method":"elicitation/create","params":{}}"#;
const SAID: &str = r#"{"jsonrpc":"2.0","method":"notifications/roots/list_changed"}"#;
const CHANGED: &str = r#"{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}"#;

fn own(generation: u64, n: u64, request: &str, id: &str) -> String {
    let name = format!(r#""id":"outlive-{generation}-{n}""#);
    request.replace(&format!(r#""id":{id}"#), &name)
}

/// The host has all it can have: tools, a log level, a subscription.
fn settled() -> Pair {
    settled_with(|_| ())
}

fn settled_with(change: impl FnOnce(&mut Policy)) -> Pair {
    let mut p = Pair::with_tools_and(change);
    p.host(LEVEL);
    p.result(2, "{}");
    p.host(SUBSCRIBE);
    p.result(3, "{}");
    p.forget();
    p
}

/// The next server has answered the handshake.
fn shaken(p: &mut Pair) {
    p.up();
    p.own_result(1, WELCOME);
}

fn unanswered(p: &mut Pair, id: i64, failure: RequestFailure) {
    let id = Id::Int(id);
    p.link(LinkInput::Unanswered { id, failure });
}

fn rejected(status: u16, seconds: Option<u64>) -> RequestFailure {
    RequestFailure::Rejected {
        status,
        retry_after: seconds.map(Duration::from_secs),
    }
}

fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

fn generation(number: u64) -> Generation {
    let mut generation = Generation::FIRST;
    while generation.number() < number {
        generation = generation.next();
    }
    generation
}

#[test]
fn the_next_server_is_told_what_the_host_has_before_anything_else() {
    let mut p = settled();
    p.take_over();
    assert_eq!(p.orders(), ["connect 2"], "and nobody is told to end");
    p.call(7, "risky");
    p.up();
    assert_eq!(p.at_link(), [own(2, 1, INITIALIZE, "0")]);
    p.own_result(1, WELCOME);
    assert_eq!(
        p.at_link(),
        [
            INITIALIZED.to_string(),
            own(2, 2, LEVEL, "2"),
            own(2, 3, SUBSCRIBE, "3"),
            call(7, "risky"),
            list_tools(2, 4),
        ]
    );
    let updated =
        r#"{"jsonrpc":"2.0","method":"notifications/resources/updated","params":{"uri":"a:"}}"#;
    assert_eq!(p.at_host(), [updated]);
    p.own_result(4, TOOLS);
    assert_eq!(p.at_host(), [""; 0], "the list is what it was");
}

#[test]
fn the_host_is_told_of_a_list_that_has_changed_meanwhile() {
    let mut p = Pair::with_tools();
    p.take_over();
    shaken(&mut p);
    p.forget();
    p.own_result(2, r#"{"tools":[{"name":"safe"},{"name":"new"}]}"#);
    assert_eq!(p.at_host(), [CHANGED]);
    let Some(Event::ListChanged {
        added,
        removed,
        changed,
        ..
    }) = p.events().pop()
    else {
        panic!("nothing changed");
    };
    assert_eq!(
        (added, removed, changed),
        (
            vec!["new".into()],
            vec!["risky".into()],
            vec!["safe".into()]
        )
    );
}

#[test]
fn a_list_that_the_host_was_reading_is_compared_when_it_is_read() {
    let page = |name: &str, next: &str| format!(r#"{{"tools":[{{"name":"{name}"}}]{next}}}"#);
    let more =
        r#"{"jsonrpc":"2.0","id":5,"method":"tools/list","params":{"cursor":"2"}}"#.to_string();
    for (next, told) in [("b", [""; 0].as_slice()), ("c", &[CHANGED])] {
        let mut p = Pair::ready();
        p.request(1, "tools/list");
        p.result(1, &page("a", r#","nextCursor":"2""#));
        p.take_over();
        shaken(&mut p);
        p.host(&more);
        p.forget();
        p.result(5, &page("b", ""));
        assert_eq!(p.at_link(), [list_tools(2, 2)], "of two servers");
        p.forget();
        p.own_result(
            2,
            &format!(r#"{{"tools":[{{"name":"a"}},{{"name":"{next}"}}]}}"#),
        );
        assert_eq!(p.at_host(), told);
    }
}

#[test]
fn the_predecessors_end_is_told_as_the_end_of_its_link() {
    let mut p = Pair::with_tools();
    p.call(7, "risky");
    p.take_over();
    let failure = p.failure();
    assert_eq!(
        (failure.kind(), failure.outcome()),
        ("connection_lost", "unknown")
    );
    assert_eq!(failure.about["cause"]["kind"], "owner_ended");
    assert_eq!(failure.about["cause"]["phase"], "service");
    assert_eq!(failure.about["generation"], 1);
    assert!(
        failure.message.starts_with(
            "The server was lost with the process that had started it while running tool \"risky\""
        ),
        "{}",
        failure.message
    );
    let events = p.events();
    let lost = events.iter().find_map(|event| match event {
        Event::Lost {
            generation,
            cause,
            in_flight,
        } => Some((*generation, &cause.reason, *in_flight)),
        _ => None,
    });
    assert_eq!(lost, Some((Generation::FIRST, &Reason::OwnerEnded, 1)));
    assert_eq!(*p.session.state(), State::Connecting { attempt: 1 });
}

#[test]
fn a_link_that_had_not_shaken_hands_ends_while_it_did() {
    let mut p = Pair::with_tools();
    p.die(Exit::Code(1));
    p.up();
    p.take_over();
    let lost = p.events().into_iter().find_map(|event| match event {
        Event::Lost { cause, .. } => Some(cause.phase.as_str()),
        _ => None,
    });
    assert_eq!(lost, Some("handshake"));
    assert_eq!(p.orders(), ["connect 3"]);
}

#[test]
fn what_the_server_has_asked_is_void_and_answers_go_nowhere() {
    let mut p = Pair::ready();
    p.server(ASKED);
    p.take_over();
    assert_eq!(
        p.at_host(),
        [
            r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1,"reason":"The server was lost with the process that had started it."}}"#
        ]
    );
    shaken(&mut p);
    p.forget();
    p.host(r#"{"jsonrpc":"2.0","id":1,"result":{"action":"accept"}}"#);
    assert_eq!(p.at_link(), [""; 0]);
    let unknown = (
        Direction::ToServer,
        DropReason::UnknownAnswer,
        "id 1".to_string(),
    );
    assert_eq!(p.drops(), [unknown]);
    // The same id of the next server is another question.
    p.server(ASKED);
    assert_eq!(p.at_host(), [own(2, 2, ASKED, "1")]);
}

#[test]
fn an_answer_that_comes_before_the_session_goes_on_goes_nowhere() {
    let mut p = Pair::ready();
    p.server(ASKED);
    let snapshot = Snapshot::decode(&p.snapshot()).expect("a snapshot");
    p.session = Session::resume(Policy::default(), 1, snapshot, Time::ZERO).expect("a session");
    p.forget();
    p.host(r#"{"jsonrpc":"2.0","id":1,"result":{"action":"accept"}}"#);
    assert_eq!(p.at_link(), [""; 0]);
    assert_eq!(p.drops().len(), 1);
}

#[test]
fn a_server_may_not_speak_for_a_link_of_the_former_owner() {
    let mut p = Pair::ready();
    p.call(7, "risky");
    p.take_over();
    p.forget();
    p.old_link(
        1,
        LinkInput::Frame(Frame::read(
            r#"{"jsonrpc":"2.0","id":7,"result":{}}"#.into(),
        )),
    );
    assert_eq!(p.at_host(), [""; 0]);
    assert_eq!(p.drops()[0].1, DropReason::StaleGeneration);
}

#[test]
fn progress_goes_on_and_never_back() {
    let progress = |n: u64| {
        format!(
            r#"{{"jsonrpc":"2.0","method":"notifications/progress","params":{{"progressToken":9,"progress":{n}}}}}"#
        )
    };
    let read = r#"{"jsonrpc":"2.0","id":7,"method":"resources/read","params":{"uri":"a:","_meta":{"progressToken":9}}}"#;
    let mut p = Pair::ready();
    p.host(read);
    p.server(&progress(3));
    p.take_over();
    shaken(&mut p);
    p.forget();
    for n in [2, 3] {
        p.server(&progress(n));
    }
    assert_eq!(p.at_host(), [""; 0]);
    p.server(&progress(4));
    assert_eq!(p.at_host(), [progress(4)]);
}

#[test]
fn a_later_wish_is_not_undone_by_an_earlier_one() {
    let mut p = settled();
    p.host(UNSUBSCRIBE);
    p.host(&SUBSCRIBE.replace(r#""id":3"#, r#""id":5"#));
    p.result(5, "{}");
    p.forget();
    p.take_over();
    assert_eq!(p.at_host(), [r#"{"jsonrpc":"2.0","id":4,"result":{}}"#]);
    shaken(&mut p);
    let sent = p.at_link();
    let again = SUBSCRIBE.replace(r#""id":3"#, r#""id":5"#);
    assert_eq!(sent[3], own(2, 3, &again, "5"));
    assert!(
        !sent.iter().any(|line| line.contains("unsubscribe")),
        "{sent:?}"
    );
}

#[test]
fn a_handshake_that_is_under_way_goes_on() {
    let mut p = Pair::new(Policy::default());
    p.up();
    p.host(INITIALIZE);
    p.host(INITIALIZED);
    p.take_over();
    assert_eq!(p.at_host(), [""; 0]);
    p.up();
    assert_eq!(p.at_link(), [INITIALIZE, INITIALIZED]);
    p.result(0, WELCOME);
    assert_eq!(
        *p.session.state(),
        State::Ready {
            generation: generation(2)
        }
    );
}

#[test]
fn a_session_that_has_not_begun_can_be_resumed() {
    let mut p = Pair::new(Policy::default());
    p.session = Session::new(Policy::default(), 1);
    p.take_over();
    assert_eq!(p.orders(), ["connect 1"]);
    p.up();
    p.host(INITIALIZE);
    p.result(0, WELCOME);
    assert_eq!(
        *p.session.state(),
        State::Ready {
            generation: Generation::FIRST
        }
    );
}

#[test]
fn a_session_that_was_resumed_and_has_not_begun_can_be_resumed() {
    let mut p = settled();
    p.call(7, "risky");
    p.call(8, "safe");
    p.server(ASKED);
    p.call(9, "risky");
    let bytes = p.snapshot();
    let mut again = bytes.clone();
    for _ in 0..3 {
        let snapshot = Snapshot::decode(&again).expect("a snapshot");
        let session = Session::resume(Policy::default(), 1, snapshot, Time::ZERO);
        again = session
            .expect("a session")
            .snapshot(Time::ZERO)
            .expect("a snapshot")
            .encode();
    }
    assert_eq!(again, bytes);
}

#[test]
fn generations_and_numbers_go_on() {
    let mut p = Pair::ready();
    for next in 2..=4 {
        p.take_over();
        assert_eq!(p.orders(), [format!("connect {next}")]);
        shaken(&mut p);
        assert_eq!(
            *p.session.state(),
            State::Ready {
                generation: generation(next)
            }
        );
    }
}

#[test]
fn the_supervisor_begins_anew() {
    let mut p = Pair::ready_with(|policy| policy.breaker.failures = 2);
    p.die(Exit::Code(1));
    p.up();
    p.die(Exit::Code(1));
    assert!(matches!(p.session.state(), State::Failed { .. }));
    p.take_over_with(|policy| policy.breaker.failures = 2);
    assert_eq!(p.orders(), ["connect 3"], "at once");
    p.call(7, "risky");
    p.forget();
    p.up();
    p.die(Exit::Code(1));
    assert_eq!(p.at_host(), [""; 0], "calls are held");
    assert_eq!(
        p.orders(),
        ["kill 3", "connect 4"],
        "and this is the first failure"
    );
}

#[test]
fn an_owners_end_is_no_failure_of_the_server() {
    let mut p = Pair::ready();
    for _ in 0..20 {
        p.take_over();
        p.forget();
        shaken(&mut p);
    }
    p.die(Exit::Code(1));
    assert_eq!(p.orders().last().map(String::as_str), Some("connect 22"));
}

#[test]
fn what_a_server_does_not_bear_is_remembered() {
    // It died of a cancellation.
    let mut p = Pair::with_tools();
    p.call(7, "risky");
    p.cancel(7);
    p.die(Exit::Code(1));
    shaken(&mut p);
    p.take_over();
    shaken(&mut p);
    p.call(8, "risky");
    p.forget();
    p.cancel(8);
    assert_eq!(p.at_link(), [""; 0]);
    assert_eq!(p.drops()[0].1, DropReason::AbsorbedCancel);

    // It answers no `ping`, and is not asked.
    let mut p = Pair::ready();
    p.advance(60_000);
    p.own_result(2, r#"{"tools":[]}"#);
    p.take_over();
    shaken(&mut p);
    p.forget();
    p.advance(200_000);
    assert_eq!(p.at_link(), [""; 0]);

    // It ends when asked `server/discover`.
    let mut p = Pair::new(Policy::default());
    p.up();
    p.host(&modern_request(0, "server/discover", ""));
    p.die(Exit::Code(1));
    p.up();
    p.host(&INITIALIZE.replace(r#""id":0"#, r#""id":1"#));
    p.result(1, WELCOME);
    p.take_over();
    shaken(&mut p);
    p.forget();
    p.host(&modern_request(2, "server/discover", ""));
    assert_eq!(p.at_link(), [""; 0]);
    assert_eq!(p.failure().kind(), "unsupported");
}

#[test]
fn a_second_death_beside_a_cancellation_is_blamed_on_it() {
    let mut p = Pair::ready();
    for (id, pong) in [(7, 1), (8, 2)] {
        p.call(id, "risky");
        p.cancel(id);
        p.own_result(pong, "{}");
        p.call(id + 10, "risky");
        p.forget();
        // A suspect is asked whether it lives before it is given more.
        p.own_result(pong + 1, "{}");
        assert_eq!(p.at_link(), [call(id + 10, "risky")]);
        p.die(Exit::Code(1));
        let absorbs = |event: &Event| matches!(event, Event::AbsorbingCancels { .. });
        assert_eq!(
            p.events().iter().any(absorbs),
            id == 8,
            "something else ran as well"
        );
        p.take_over();
        shaken(&mut p);
    }
}

fn listen() -> String {
    let wanted = r#""notifications":{"toolsListChanged":true},"#;
    modern_request(4, "subscriptions/listen", wanted)
}

const STANDS: &str = r#"{"jsonrpc":"2.0","method":"notifications/subscriptions/acknowledged","params":{"_meta":{"io.modelcontextprotocol/subscriptionId":4}}}"#;

#[test]
fn a_modern_host_is_known_to_the_next_server_and_its_stream_is_opened_again() {
    let mut p = Pair::modern();
    p.host(&modern_request(1, "tools/list", ""));
    p.result(1, TOOLS);
    p.host(&listen());
    p.server(STANDS);
    p.forget();
    p.take_over();
    p.up();
    let meta: serde_json::Value = serde_json::from_str(META).expect("JSON");
    let ask = |n: u64, method: &str| {
        format!(
            r#"{{"jsonrpc":"2.0","id":"outlive-2-{n}","method":"{method}","params":{{"_meta":{meta}}}}}"#
        )
    };
    assert_eq!(p.at_link(), [ask(1, "server/discover")]);
    p.own_result(1, DISCOVERED);
    assert_eq!(p.at_link(), [listen(), ask(2, "tools/list")]);
    p.server(STANDS);
    assert_eq!(p.at_host(), [""; 0], "that it stands the host knows");
    p.own_result(2, r#"{"tools":[]}"#);
    let told = p.at_host();
    assert_eq!(told.len(), 1);
    assert!(told[0].contains("tools/list_changed") && told[0].contains(r#"subscriptionId":4"#));
}

#[test]
fn a_server_of_another_version_is_refused_by_the_successor_too() {
    let mut p = Pair::ready();
    p.take_over();
    p.up();
    p.own_result(1, &WELCOME.replace("2025-06-18", "2024-11-05"));
    let failed = |state: &State| matches!(state, State::Failed { cause, .. } if cause.kind() == "version_changed");
    assert!(failed(p.session.state()), "{:?}", p.session.state());
}

#[test]
fn a_task_is_heard_of_by_the_successor() {
    let task = r#"{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"risky","task":{},"_meta":{"progressToken":"t"}}}"#;
    let progress = r#"{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":"t","progress":1}}"#;
    let mut p = Pair::ready();
    p.host(task);
    p.result(7, "{}");
    p.take_over();
    shaken(&mut p);
    p.forget();
    p.server(progress);
    assert_eq!(p.at_host(), [progress]);
}

#[test]
fn callers_that_are_gone_are_left_out_and_streams_are_not() {
    let mut p = Pair::modern();
    p.host(&listen());
    p.server(STANDS);
    p.call(7, "risky");
    p.server(ASKED);
    p.die(Exit::Code(1));
    p.request(8, "resources/read");
    p.up();
    p.own_result(1, DISCOVERED);
    p.request(9, "resources/read");
    unanswered(&mut p, 9, rejected(503, Some(12)));
    p.server(ASKED);
    let snapshot = p
        .session
        .snapshot(Time::ZERO)
        .expect("a snapshot")
        .without_callers();
    p.session = Session::resume(Policy::default(), 1, snapshot, Time::ZERO).expect("a session");
    p.forget();
    p.feed(Input::Start);
    assert_eq!(p.session.sizes().ledger.0, 1);
    p.up();
    p.own_result(1, DISCOVERED);
    assert_eq!(p.at_link()[1..], [listen()]);
    p.advance(60_000);
    assert_eq!(p.at_host(), [""; 0], "nobody is told anything");
}

#[test]
fn a_subscription_that_nobody_waits_to_be_rid_of_is_gone() {
    for superseded in [false, true] {
        let mut p = settled();
        p.host(UNSUBSCRIBE);
        if superseded {
            p.host(&SUBSCRIBE.replace(r#""id":3"#, r#""id":5"#));
            p.result(5, "{}");
        }
        let snapshot = p
            .session
            .snapshot(Time::ZERO)
            .expect("a snapshot")
            .without_callers();
        p.session = Session::resume(Policy::default(), 1, snapshot, Time::ZERO).expect("a session");
        p.forget();
        p.feed(Input::Start);
        shaken(&mut p);
        let told = p
            .at_link()
            .iter()
            .any(|line| line.contains("resources/subscribe"));
        assert_eq!(told, superseded, "only a later wish is kept");
    }
}
