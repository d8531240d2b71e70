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
