//! How it ends, and what it leaves behind.

use rustix::process::Signal;
use serde_json::json;

use crate::gateway::Gateway;
use crate::rig::{Setup, tree, until};
use crate::wire;

#[test]
fn fm_54_what_is_in_flight_is_finished_and_nothing_is_left() {
    let mut gateway = Gateway::new(&["--share"]);
    let session = gateway.session();
    let mut news = gateway.get("/mcp", &[("Mcp-Session-Id", &session)]);
    std::thread::scope(|scope| {
        let calls: Vec<_> = (1..=10)
            .map(|id| {
                let (gateway, session) = (&gateway, &session);
                scope.spawn(move || {
                    gateway
                        .call(session, id, "sleep", json!({"ms": 1500}))
                        .answer()
                })
            })
            .collect();
        until("all are in flight", || {
            (gateway.metric("outlive_requests_in_flight")[0].1 == 10.0).then_some(())
        });
        gateway.signal(Signal::TERM);
        for call in calls {
            let answer = call.join().expect("an answer");
            assert_eq!(answer["result"]["content"][0]["text"], "slept", "{answer}");
        }
    });
    while news.next_message().expect("a clean end").is_some() {}
    assert_eq!(gateway.join().code(), Some(0));
    assert_eq!(tree::marked(&gateway.setup.mark), [0; 0]);
}

#[test]
fn fm_54_a_second_signal_does_not_wait() {
    let mut gateway = Gateway::new(&["--drain", "10m"]);
    let session = gateway.session();
    std::thread::scope(|scope| {
        let call = scope.spawn(|| {
            gateway
                .call(&session, 1, "sleep", json!({"ms": 600_000}))
                .answer()
        });
        until("it is in flight", || {
            (gateway.metric("outlive_requests_in_flight")[0].1 == 1.0).then_some(())
        });
        gateway.signal(Signal::TERM);
        // Nobody new is let in, and whoever asks is told.
        until("it says so", || {
            let told = http_peer::send(gateway.address, "GET", "/ready", &[], "").ok()?;
            (told.status == 503).then_some(())
        });
        gateway.signal(Signal::INT);
        let answer = call.join().expect("an answer");
        assert_eq!(answer["error"]["data"]["outlive"]["kind"], "shutting_down");
    });
    assert_eq!(gateway.join().code(), Some(0));
    assert_eq!(tree::marked(&gateway.setup.mark), [0; 0]);
}

#[test]
fn a_server_that_keeps_failing_can_be_a_reason_to_leave() {
    let setup = Setup::new().knobs(&["--exit-at-start", "1"]).flags(&[
        "--exit-on-failed",
        "--breaker-failures",
        "2",
    ]);
    let mut gateway = Gateway::with(setup);
    let answer = gateway.post(&[], &wire::initialize()).json();
    assert!(answer["error"].is_object(), "{answer}");
    assert_eq!(gateway.join().code(), Some(3));
}
