//! What was in flight when the gateway died.

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::replica::Replica;
use crate::rig::until;
use crate::wire::Reply;

/// The id of the next event of a stream.
fn event_id(stream: &mut Reply) -> String {
    let event = stream.event().expect("an event");
    event.id.expect("an id")
}

/// How often the tool was called, by what servers have recorded.
fn calls_of(replica: &Replica, tool: &str) -> usize {
    let all = std::fs::read_to_string(replica.setup.path("tap.jsonl")).unwrap_or_default();
    let lines = all.lines().filter(|line| line.contains("tools/call"));
    lines
        .filter(|line| line.contains(&format!("\"{tool}\"")))
        .count()
}

/// The next answer of a stream.
fn answer(stream: &mut Reply) -> Value {
    loop {
        let message = stream.message();
        if message.get("result").is_some() || message.get("error").is_some() {
            return message;
        }
    }
}

#[test]
fn fm_53_a_call_that_is_not_safe_is_settled_once_and_not_repeated() {
    let mut replica = Replica::new(&[]);
    let session = replica.session();
    let mut stream = replica.call(&session, 7, "sleep", json!({"ms": 600_000}));
    assert!(stream.is_stream());
    let last = event_id(&mut stream);
    until("the server has it", || {
        (calls_of(&replica, "sleep") == 1).then_some(())
    });
    replica.restart(Signal::KILL);
    let mut rest = replica.listen(&session, Some(&last));
    assert_eq!(rest.status, 200);
    let lost = answer(&mut rest);
    assert_eq!(lost["id"], 7, "{lost}");
    let about = &lost["error"]["data"]["outlive"];
    assert_eq!(about["kind"], "connection_lost", "{lost}");
    assert_eq!(about["outcome"], "unknown", "{lost}");
    assert_eq!(about["cause"]["kind"], "owner_ended", "{lost}");
    assert!(rest.next_message().expect("a clean end").is_none());
    // The same can be read again, also after the next death, and nothing is run.
    replica.restart(Signal::KILL);
    let mut again = replica.listen(&session, Some(&last));
    assert_eq!(answer(&mut again), lost);
    assert_eq!(replica.echo(&session, 8), "hi");
    assert_eq!(calls_of(&replica, "sleep"), 1);
}

#[test]
fn fm_53_a_safe_call_is_repeated_and_answered_on_its_stream() {
    let mut replica = Replica::new(&[]);
    let session = replica.session();
    let mut stream = replica.call(&session, 7, "sleep_read", json!({"ms": 1500}));
    assert!(stream.is_stream());
    let last = event_id(&mut stream);
    until("the server has it", || {
        (calls_of(&replica, "sleep_read") == 1).then_some(())
    });
    replica.restart(Signal::KILL);
    let mut rest = replica.listen(&session, Some(&last));
    let answered = answer(&mut rest);
    assert_eq!(answered["id"], 7, "{answered}");
    assert_eq!(
        answered["result"]["content"][0]["text"], "slept",
        "{answered}"
    );
    assert!(rest.next_message().expect("a clean end").is_none());
    assert_eq!(calls_of(&replica, "sleep_read"), 2);
}

#[test]
fn fm_53_a_call_that_ends_within_the_drain_is_answered_when_its_gateway_is_stopped() {
    let mut replica = Replica::new(&["--drain", "20s"]);
    let session = replica.session();
    let mut stream = replica.call(&session, 7, "sleep", json!({"ms": 1500}));
    assert!(stream.is_stream());
    event_id(&mut stream);
    until("the server has it", || {
        (calls_of(&replica, "sleep") == 1).then_some(())
    });
    replica.restart(Signal::TERM);
    let answered = answer(&mut stream);
    let text = &answered["result"]["content"][0]["text"];
    assert_eq!(text, "slept", "{answered}");
    assert_eq!(replica.echo(&session, 8), "hi");
    assert_eq!(calls_of(&replica, "sleep"), 1);
}

#[test]
fn fm_53_a_call_that_outlasts_the_drain_is_handed_over_and_not_answered_by_the_old_process() {
    let mut replica = Replica::new(&["--drain", "1s"]);
    let session = replica.session();
    let mut streams = ["sleep", "sleep_read"].map(|tool| {
        let id = if tool == "sleep" { 7 } else { 8 };
        let mut stream = replica.call(&session, id, tool, json!({"ms": 5000}));
        assert!(stream.is_stream());
        let last = event_id(&mut stream);
        until("the server has it", || {
            (calls_of(&replica, tool) == 1).then_some(())
        });
        (stream, last)
    });
    replica.restart(Signal::TERM);
    for (stream, _) in &mut streams {
        while let Ok(Some(event)) = stream.try_event() {
            assert!(event.data.is_empty(), "it was answered: {event:?}");
        }
    }
    let rest = |last: &str| answer(&mut replica.listen(&session, Some(last)));
    let lost = rest(&streams[0].1);
    assert_eq!(lost["id"], 7, "{lost}");
    let about = &lost["error"]["data"]["outlive"];
    assert_eq!(about["kind"], "connection_lost", "{lost}");
    assert_eq!(about["outcome"], "unknown", "{lost}");
    // What is safe runs once more.
    let slept = rest(&streams[1].1);
    assert_eq!(slept["id"], 8, "{slept}");
    assert_eq!(slept["result"]["content"][0]["text"], "slept", "{slept}");
    assert_eq!(calls_of(&replica, "sleep"), 1);
    assert_eq!(calls_of(&replica, "sleep_read"), 2);
}

#[test]
fn what_was_open_at_two_deaths_is_not_tried_again() {
    let mut replica = Replica::new(&[]);
    let session = replica.session();
    let mut stream = replica.call(&session, 7, "sleep_read", json!({"ms": 600_000}));
    let last = event_id(&mut stream);
    for calls in [1, 2] {
        until("the server has it", || {
            (calls_of(&replica, "sleep_read") == calls).then_some(())
        });
        replica.restart(Signal::KILL);
        stream = replica.listen(&session, Some(&last));
    }
    let lost = answer(&mut stream);
    assert_eq!(
        lost["error"]["data"]["outlive"]["kind"], "connection_lost",
        "{lost}"
    );
    assert_eq!(calls_of(&replica, "sleep_read"), 2);
}

#[test]
fn events_that_were_sent_can_be_read_again() {
    let mut replica = Replica::new(&[]);
    let session = replica.session();
    let mut stream = replica.call(&session, 7, "tick", json!({"ticks": 4, "ms": 200}));
    assert!(stream.is_stream());
    let first = event_id(&mut stream);
    let mut sent = Vec::new();
    while let Some(message) = stream.next_message().expect("a whole stream") {
        sent.push(message);
    }
    assert!(sent.len() > 1, "{sent:?}");
    replica.restart(Signal::KILL);
    let again = replica.listen(&session, Some(&first)).messages();
    assert_eq!(again, sent);
    assert_eq!(calls_of(&replica, "tick"), 1);
}
