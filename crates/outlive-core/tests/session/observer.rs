//! What an observer is told of requests.

use std::sync::{Arc, Mutex};

use outlive_core::Time;
use outlive_core::cause::Exit;
use outlive_core::request::{Observer, Request, Step};

use crate::pair::*;

/// Writes down each step.
#[derive(Debug, Default)]
struct Notes(Mutex<Vec<String>>);

impl Observer for Notes {
    fn request(&self, _now: Time, request: Request<'_>, step: Step<'_>) {
        let step = match step {
            Step::Accepted => "accepted".to_owned(),
            Step::Sent { generation, again } => format!("sent on {generation}, again: {again:?}"),
            Step::Settled { how, took } => {
                format!("{} after {} ms", how.ending(), took.as_millis())
            }
            step => format!("{step:?}"),
        };
        let id = String::from_utf8_lossy(request.id);
        let line = format!("{} {id} {step}", request.method);
        self.0.lock().expect("the notes").push(line);
    }
}

impl Notes {
    fn take(&self) -> Vec<String> {
        std::mem::take(&mut self.0.lock().expect("the notes"))
    }
}

fn observed() -> (Pair, Arc<Notes>) {
    let mut p = Pair::with_tools();
    let notes = Arc::new(Notes::default());
    p.session.observe(notes.clone());
    (p, notes)
}

#[test]
fn an_observer_is_told_each_step_of_a_request_that_survives_a_death() {
    let (mut p, notes) = observed();
    p.request(8, "resources/read");
    p.die(Exit::Code(1));
    p.revive();
    p.advance(30);
    p.server(r#"{"jsonrpc":"2.0","id":8,"result":{}}"#);
    assert_eq!(
        notes.take(),
        [
            "resources/read 8 accepted",
            "resources/read 8 sent on 1, again: None",
            "resources/read 8 sent on 2, again: Some(Safe)",
            "resources/read 8 ok after 30 ms",
        ]
    );
}

#[test]
fn an_observer_is_told_of_every_way_to_end() {
    let (mut p, notes) = observed();
    p.call(7, "risky");
    p.die(Exit::Code(1));
    assert_eq!(
        notes.take().last().map(String::as_str),
        Some("tools/call 7 connection_lost after 0 ms")
    );
    p.revive();
    p.call(8, "any");
    p.host(r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":8}}"#);
    assert_eq!(
        notes.take().last().map(String::as_str),
        Some("tools/call 8 cancelled_by_caller after 0 ms")
    );
}

#[test]
fn a_request_that_is_not_accepted_is_settled_at_once() {
    let (mut p, notes) = observed();
    p.call(9, "any");
    notes.take();
    // The id is taken.
    p.call(9, "any");
    assert_eq!(notes.take(), ["tools/call 9 protocol after 0 ms"]);
}
