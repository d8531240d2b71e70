//! A caller gives up: the server is told, once, and nothing else happens.

use std::time::Duration;

use outlive::Error;
use outlive::client::{DropReason, Era, Event};
use outlive::error::Outcome;
use serde_json::{Value, json};

use crate::rig::{FOR_EVER, PATIENCE, Rig, event, ping, within};

#[tokio::test]
async fn fm_48_a_dropped_call_is_cancelled_once_in_both_eras() {
    for era in [Era::Legacy, Era::Modern] {
        let rig = Rig::both().era(era);
        let client = rig.connect().await;
        let server = ping(&client).await;
        let call = client.call("sleep", json!({ "ms": FOR_EVER })).start();
        let id = rig.received("tools/call", 2).await[1]["id"].clone();
        drop(call);
        // The handler at the server has noticed.
        assert_eq!(rig.noted("cancelled", 1).await[0]["data"], id);

        // Somebody else's clock is the same as dropping it.
        let call = client.call("sleep", json!({ "ms": FOR_EVER }));
        let clock = tokio::time::timeout(Duration::from_millis(50), call);
        assert!(clock.await.is_err());
        assert_eq!(rig.noted("cancelled", 2).await.len(), 2);

        // One that is over is not cancelled, nor is one that was never polled sent.
        let mut over = client.call("ping", json!({})).start();
        within(&mut over).await.unwrap();
        drop(over);
        drop(client.call("ping", json!({})));
        assert_eq!(ping(&client).await, server);
        let told = rig.tap().method("notifications/cancelled");
        assert_eq!(told.len(), 2, "{era:?}: {told:?}");
        assert_eq!(rig.tap().method("tools/call").len(), 5);
        within(client.close()).await;
    }
}

#[tokio::test]
async fn initialize_is_never_cancelled() {
    let rig = Rig::legacy().knobs(&["--hang-in-initialize"]);
    let builder = rig.client();
    let connecting = tokio::spawn(async move { builder.connect().await.map(drop) });
    rig.received("initialize", 1).await;
    connecting.abort();
    assert!(within(connecting).await.unwrap_err().is_cancelled());
    rig.deserted().await;
    rig.noted("eof", 1).await;
    assert_eq!(rig.tap().method("notifications/cancelled"), [0; 0]);
}

#[tokio::test]
async fn cancelling_never_waits_for_the_server() {
    let rig = Rig::legacy();
    let client = rig.connect().await;
    within(client.call("deaf", json!({}))).await.unwrap();
    // More than a pipe holds; the server reads none of it.
    let big = "x".repeat(300_000);
    let calls: Vec<_> = (0..8)
        .map(|_| client.call("echo", json!({ "text": big })).start())
        .collect();
    let last = client.call("ping", json!({})).start();
    // One runtime thread, and this is it: if dropping waited for anything, it would be for ever.
    tokio::task::yield_now().await;
    drop(calls);
    last.canceller().cancel("enough");
    assert_eq!(within(last).await.unwrap_err(), Error::CancelledByCaller);
    within(client.close()).await;
    rig.deserted().await;
}

/// Whoever waits for their turn because too much is in flight can give up, and so can those who
/// are in flight, although nothing is ever answered; and closing is not kept waiting.
#[tokio::test]
async fn a_call_that_waits_for_its_turn_can_be_cancelled() {
    let rig = Rig::legacy().policy(|policy| {
        policy.limits.in_flight = 1;
        policy.drain = Duration::from_millis(1);
    });
    let client = rig.connect().await;
    let sleep = || client.call("sleep", json!({ "ms": FOR_EVER })).start();
    let (first, second, third) = (sleep(), sleep(), sleep());
    rig.received("tools/call", 1).await;

    second.canceller().cancel("not needed");
    assert_eq!(within(second).await.unwrap_err(), Error::CancelledByCaller);
    first.canceller().cancel("make room");
    assert_eq!(within(first).await.unwrap_err(), Error::CancelledByCaller);
    rig.received("tools/call", 2).await;

    let fourth = sleep();
    let ended = within(async { tokio::join!(third, fourth, client.close()) }).await;
    let outcome = |ended: Result<_, Error>| match ended.map(|_: outlive::model::CallResult| ()) {
        Err(Error::ShuttingDown { outcome }) => outcome,
        other => panic!("{other:?}"),
    };
    assert_eq!(outcome(ended.0), Outcome::Unknown);
    assert_eq!(outcome(ended.1), Outcome::NotSent);
    let told = rig.tap().method("notifications/cancelled");
    assert_eq!(told.len(), 2, "the first and the third: {told:?}");
    assert_eq!(rig.tap().method("tools/call").len(), 2);
}

#[tokio::test]
async fn what_waits_for_its_turn_is_bounded() {
    let rig = Rig::legacy().policy(|policy| {
        policy.limits.in_flight = 1;
        policy.limits.held = 7;
    });
    let client = rig.connect().await;
    let sleep = || client.call("sleep", json!({ "ms": FOR_EVER })).start();
    let mut calls = vec![sleep()];
    rig.received("tools/call", 1).await;
    for _ in 0..30 {
        // The task that owns the connection takes in what it can before there is more.
        calls.extend((0..6).map(|_| sleep()));
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    let mut refused = 0;
    for call in &mut calls {
        tokio::select! {
            biased;
            ended = call => {
                let error = ended.unwrap_err();
                let Error::Overloaded { limit } = error else { panic!("{error}") };
                assert_eq!(limit.most(), 8, "{error}");
                assert!(error.to_string().contains("Limits::held"), "{error}");
                refused += 1;
            }
            () = tokio::task::yield_now() => {}
        }
    }
    assert!((150..180).contains(&refused), "{refused}");
    drop(calls);
    // There is room again once the cancellations have been seen to.
    within(async {
        while let Err(error) = client.call("ping", json!({})).await {
            assert!(matches!(error, Error::Overloaded { .. }), "{error}");
            tokio::task::yield_now().await;
        }
    })
    .await;
}

#[tokio::test]
async fn fm_18_late_answers_are_dropped_and_counted() {
    let rig = Rig::legacy();
    let client = rig.connect().await;
    let server = ping(&client).await;
    let mut events = client.events();
    for (n, how) in ["result", "error", "both"].into_iter().enumerate() {
        let call = client.call("stubborn", json!({ "how": how })).start();
        rig.received("tools/call", n + 2).await;
        drop(call);
        event(&mut events, |event| match event {
            Event::Dropped {
                reason: DropReason::LateAnswer,
                ..
            } => Some(()),
            _ => None,
        })
        .await;
    }
    assert_eq!(ping(&client).await, server);
    assert!(client.state().is_ready());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn fm_19_cancels_racing_answers() {
    let rig = Rig::legacy();
    let client = rig.connect().await;
    let server = ping(&client).await;
    let mut random = 0x9e37_79b9_u64;
    let mut below = |n: u64| {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        random % n
    };
    let (mut answered, mut dropped, mut cancelled) = (0, 0, 0);
    for _ in 0..40 {
        let calls: Vec<_> = (0..50)
            .map(|n| {
                let call = client.call("racy", json!({ "us": below(2000) })).start();
                let (after, by_hand) = (Duration::from_micros(below(2000)), below(2) == 0);
                // However busy the machine is, some are answered.
                let after = if n % 8 == 0 { PATIENCE } else { after };
                tokio::spawn(async move {
                    let canceller = call.canceller();
                    let ended = tokio::time::timeout(after, call).await;
                    // Too late, or twice, or both.
                    canceller.cancel("by hand");
                    if by_hand {
                        canceller.cancel("again");
                    }
                    ended
                })
            })
            .collect();
        for call in calls {
            match within(call).await.expect("nobody panics") {
                Ok(Ok(result)) => {
                    assert_eq!(result.text(), "raced");
                    answered += 1;
                }
                Ok(Err(Error::CancelledByCaller)) => cancelled += 1,
                Ok(Err(other)) => panic!("{other:?}"),
                Err(_) => dropped += 1,
            }
        }
    }
    assert_eq!(answered + dropped + cancelled, 2000);
    assert!(
        answered > 0 && dropped > 0,
        "{answered} answered, {dropped} dropped"
    );
    assert_eq!(ping(&client).await, server);
    let mut ids: Vec<String> = rig
        .tap()
        .method("notifications/cancelled")
        .iter()
        .map(|told| told["params"]["requestId"].to_string())
        .collect();
    let told = ids.len();
    ids.sort();
    ids.dedup();
    assert_eq!(ids.len(), told, "each is told once");
    assert!(told <= dropped + cancelled);
}

#[tokio::test]
async fn fm_49_cancelling_never_tears_a_frame() {
    let rig = Rig::legacy();
    let client = rig.connect().await;
    let server = ping(&client).await;
    let big = "x".repeat(200_000);
    for round in 0..10_u64 {
        // The server looks away, so that the pipe is full in the middle of a frame.
        let block = client.call("block", json!({ "ms": 5 * round })).start();
        let calls: Vec<_> = (0..5)
            .map(|_| client.call("echo", json!({ "text": big })).start())
            .collect();
        tokio::time::sleep(Duration::from_millis(round)).await;
        drop(calls);
        within(block).await.unwrap();
    }
    assert_eq!(
        ping(&client).await,
        server,
        "cancelling does not touch the process"
    );
    let records = rig.tap().records();
    let lines: Vec<&Value> = records.iter().filter(|r| r["rec"] == "recv").collect();
    assert!(
        lines.iter().all(|line| line["json"] == true),
        "only whole frames"
    );
    assert!(
        lines
            .iter()
            .any(|line| line["len"].as_u64() > Some(200_000))
    );
}
