//! How long a call may take.
//!
//! Bounds are compared with each other, never with a clock: what must end at a bound is told apart
//! from what must not by which of two bounds it names.

use std::time::Duration;

use outlive::Error;
use outlive::cause::Reason;
use outlive::client::Event;
use outlive::error::Bound;
use rustix::process::Signal;
use serde_json::json;

use crate::rig::{FOR_EVER, Rig, event, ping, ready, within};

const SHORT: Duration = Duration::from_millis(100);
const LONG: Duration = Duration::from_secs(3600);

fn bound(error: Error) -> (Duration, Bound) {
    match error {
        Error::Timeout { after, bound } => (after, bound),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn the_bound_that_is_reached_first_is_named() {
    let rig = Rig::legacy();
    let client = rig.connect().await;
    let server = ping(&client).await;
    let sleep = || client.call("sleep", json!({ "ms": FOR_EVER }));
    let idle = within(sleep().idle(SHORT).timeout(LONG)).await.unwrap_err();
    assert_eq!(bound(idle), (SHORT, Bound::Idle));
    let total = within(sleep().idle(LONG).timeout(SHORT)).await.unwrap_err();
    assert_eq!(bound(total), (SHORT, Bound::Total));
    assert_eq!(
        rig.noted("cancelled", 2).await.len(),
        2,
        "the server is told of both"
    );
    assert_eq!(ping(&client).await, server);
}

#[tokio::test]
async fn a_call_may_ask_for_more_or_less_than_its_client() {
    let rig = Rig::legacy();
    let client = within(rig.client().idle_timeout(SHORT).timeout(LONG).connect())
        .await
        .unwrap();
    let sleep = |ms: u64| client.call("sleep", json!({ "ms": ms }));
    let idle = within(sleep(FOR_EVER)).await.unwrap_err();
    assert_eq!(bound(idle), (SHORT, Bound::Idle));
    let patient = within(sleep(300).idle(LONG)).await.unwrap();
    assert_eq!(patient.text(), "slept");
    let total = within(sleep(FOR_EVER).idle(LONG).timeout(SHORT))
        .await
        .unwrap_err();
    assert_eq!(bound(total), (SHORT, Bound::Total));
}

#[tokio::test]
async fn fm_13_progress_rearms_the_idle_clock_and_the_total_holds() {
    let rig = Rig::legacy();
    let client = rig.connect().await;
    let idle = Duration::from_millis(1000);
    // Three times its bound, with progress at a tenth of it.
    let tick = |ticks: u64| client.call("tick", json!({ "ticks": ticks, "ms": 100 }));
    let done = within(tick(30).progress().idle(idle)).await.unwrap();
    assert_eq!(done.text(), "ticked");
    let total = within(tick(FOR_EVER).progress().idle(idle).timeout(3 * SHORT))
        .await
        .unwrap_err();
    assert_eq!(bound(total), (3 * SHORT, Bound::Total));
    // Without progress the same call is silent.
    let silent = within(tick(30).idle(idle)).await.unwrap_err();
    assert_eq!(bound(silent), (idle, Bound::Idle));
}

#[tokio::test]
async fn fm_07_a_stopped_server_times_out_and_is_replaced() {
    let rig = Rig::legacy().policy(|policy| {
        policy.liveness.stopped_patience = SHORT;
        policy.liveness.interval = Some(SHORT);
    });
    let client = rig.connect().await;
    let first = ping(&client).await;
    let mut events = client.events();
    let call = client
        .call("sleep", json!({ "ms": FOR_EVER }))
        .timeout(SHORT)
        .start();
    rig.received("tools/call", 2).await;
    rig.signal(Signal::STOP);
    assert_eq!(
        bound(within(call).await.unwrap_err()),
        (SHORT, Bound::Total)
    );
    let (cause, _) = event(&mut events, |event| match event {
        Event::Lost { cause, .. } => Some(cause.clone()),
        _ => None,
    })
    .await;
    assert_eq!(cause.reason, Reason::Stopped);
    assert_ne!(ping(&client).await, first);
    assert!(!rig.processes().contains(&first));
}

#[tokio::test]
async fn fm_07_a_mute_server_times_out_and_is_replaced() {
    let rig = Rig::legacy().policy(|policy| policy.liveness.patience = SHORT);
    let client = rig.connect().await;
    let first = ping(&client).await;
    let mut events = client.events();
    let mute = within(client.call("mute", json!({})).timeout(SHORT))
        .await
        .unwrap_err();
    assert_eq!(bound(mute), (SHORT, Bound::Total));
    let (cause, _) = event(&mut events, |event| match event {
        Event::Lost { cause, .. } => Some(cause.clone()),
        _ => None,
    })
    .await;
    assert!(matches!(cause.reason, Reason::Unresponsive(_)), "{cause:?}");
    ready(&client, 2).await;
    assert_ne!(ping(&client).await, first);
    assert_eq!(rig.tap().method("notifications/cancelled").len(), 1);
}

/// A server that does not read for a while stops neither clocks nor cancellations, and is not
/// killed for it (FM-64).
#[tokio::test]
async fn fm_64_a_blocked_server_stalls_nobody_but_its_own_calls() {
    let rig = Rig::legacy();
    let client = rig.connect().await;
    let first = ping(&client).await;
    let block = client.call("block", json!({ "ms": 500 })).start();
    rig.received("tools/call", 2).await;
    let big = "x".repeat(300_000);
    let timed = client.call("echo", json!({ "text": big })).timeout(SHORT);
    assert_eq!(
        bound(within(timed).await.unwrap_err()),
        (SHORT, Bound::Total)
    );
    let cancelled = client.call("echo", json!({ "text": big })).start();
    cancelled.canceller().cancel("enough");
    assert_eq!(
        within(cancelled).await.unwrap_err(),
        Error::CancelledByCaller
    );
    assert_eq!(within(block).await.unwrap().text(), "unblocked");
    assert_eq!(ping(&client).await, first);
}
