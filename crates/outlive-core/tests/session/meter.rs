//! What a session counts.

use std::sync::Arc;
use std::time::Duration;

use outlive_core::cause::{CauseKind, Exit};

use outlive_core::event::{Direction, DropReason, StateKind};
use outlive_core::meter::BUCKETS;
use outlive_core::{AbandonReason, Input, Message, Meter};

use crate::pair::*;

/// A session in service that counts.
fn metered() -> (Pair, Arc<Meter>) {
    let mut p = Pair::with_tools();
    let meter = Arc::new(Meter::new());
    p.session.count_into(meter.clone());
    (p, meter)
}

fn ended(meter: &Meter) -> Vec<(&'static str, &'static str, u64)> {
    let all = meter.requests();
    all.map(|(method, ending, count)| (method.as_str(), ending.as_str(), count))
        .collect()
}

#[test]
fn answers_are_counted_with_the_time_they_took() {
    let (mut p, meter) = metered();
    p.call(7, "any");
    assert_eq!((meter.in_flight(), meter.held()), (1, 0));
    p.advance(30);
    p.result(7, "{}");
    p.call(8, "any");
    p.server(r#"{"jsonrpc":"2.0","id":8,"error":{"code":-32602,"message":"no"}}"#);
    p.call(9, "any");
    p.cancel(9);
    assert_eq!(
        ended(&meter),
        [
            ("tools/call", "ok", 1),
            ("tools/call", "error", 1),
            ("tools/call", "cancelled_by_caller", 1),
        ]
    );
    assert_eq!(meter.in_flight(), 0);
    let latency: Vec<_> = meter.latency().collect();
    assert_eq!(latency.len(), 1);
    let histogram = &latency[0].1;
    assert_eq!(histogram.total, Duration::from_millis(30));
    for (bound, count) in BUCKETS.iter().zip(histogram.up_to) {
        let expected = if *bound >= Duration::from_millis(30) {
            2
        } else {
            1
        };
        assert_eq!(count, expected, "{bound:?}");
    }
    let bytes: Vec<_> = meter.bytes().collect();
    let ways: Vec<_> = bytes.iter().map(|(way, _)| *way).collect();
    assert_eq!(ways, [Direction::ToServer, Direction::ToHost]);
    assert!(bytes.iter().all(|(_, count)| *count > 0), "{bytes:?}");
}

#[test]
fn what_is_abandoned_is_counted_by_its_reason() {
    let (mut p, meter) = metered();
    for (id, reason) in [
        (7, AbandonReason::Cancelled),
        (8, AbandonReason::ClientLeft),
        (9, AbandonReason::TokenWithdrawn),
    ] {
        p.call(id, "any");
        let params = format!(r#"{{"requestId":{id}}}"#);
        let line =
            format!(r#"{{"jsonrpc":"2.0","method":"notifications/cancelled","params":{params}}}"#);
        let cancel = Message::read(line.into()).expect("a message");
        p.feed(Input::Abandon(cancel, reason));
    }
    assert_eq!(
        ended(&meter),
        [
            ("tools/call", "abandoned", 1),
            ("tools/call", "cancelled_by_caller", 1),
            ("tools/call", "token_withdrawn", 1),
        ]
    );
    assert_eq!(meter.in_flight(), 0);
}

#[test]
fn a_death_is_counted_by_its_cause_and_so_is_what_it_did() {
    let (mut p, meter) = metered();
    assert_eq!((meter.retried(), meter.connected()), (0, 0));
    p.call(7, "risky");
    p.request(8, "resources/read");
    p.die(Exit::Code(1));
    assert_eq!(ended(&meter), [("tools/call", "connection_lost", 1)]);
    assert_eq!(meter.lost().collect::<Vec<_>>(), [(CauseKind::Exited, 1)]);
    assert_eq!((meter.in_flight(), meter.held()), (0, 1));
    assert!(meter.states().all(|state| state != (StateKind::Ready, 1)));
    p.revive();
    assert_eq!((meter.in_flight(), meter.held()), (1, 0));
    assert_eq!((meter.retried(), meter.connected()), (1, 1));
    let states: Vec<_> = meter.states().filter(|(_, count)| *count > 0).collect();
    assert_eq!(states, [(StateKind::Ready, 1)]);
    p.server("this is no message");
    assert_eq!(
        meter.dropped().collect::<Vec<_>>(),
        [(Direction::ToHost, DropReason::NotAMessage, 1)]
    );
    // What it counted stays, what there is goes.
    drop(p);
    assert_eq!(meter.in_flight(), 0);
    assert!(meter.states().all(|(_, count)| count == 0));
    assert_eq!(meter.lost().count(), 1);
}
