//! Cancellations at every moment (FM-18, FM-19).
//!
//! A cancellation is a notification: nothing has to come of it, and nothing may come of it that was
//! not asked for. It can meet a call that has not begun, one that has ended, or the very answer.

use std::time::Duration;

use serde_json::{Value, json};

use crate::Era;
use crate::counted;
use crate::host::{Id, initialize};
use crate::inbox::Letters;
use crate::race::race;
use crate::scenario::{Over, Scenario};
use crate::stage::Stage;
use crate::verdict::{Finding, Held};

use super::server;

const TIMING: &str = "2025-11-25 basic/utilities/cancellation: Timing Considerations";
const ERRORS: &str = "2025-11-25 basic/utilities/cancellation: Error Handling";
const BEHAVIOUR: &str = "2025-11-25 basic/utilities/cancellation: Behavior Requirements";

pub(super) const SCENARIOS: &[Scenario] = &[
    server("cancel-before-request", |stage| Box::pin(before(stage)))
        .says("A cancellation that comes before its request is ignored: the request is answered.")
        .should(ERRORS)
        .fm(&[19]),
    server("cancel-during-call", |stage| Box::pin(during(stage)))
        .says("A server whose call is cancelled while it runs serves the next one.")
        .must(TIMING)
        .fm(&[19]),
    server("cancel-races-answer", |stage| Box::pin(races(stage)))
        .says("Cancellations that meet the answer leave the server alive, and no call with two answers.")
        .must(TIMING)
        .fm(&[19])
        .seconds(60),
    server("cancel-after-answer", |stage| Box::pin(after(stage)))
        .says("A cancellation of a call answered long ago is ignored.")
        .must(TIMING)
        .fm(&[19]),
    server("cancel-twice", |stage| Box::pin(twice(stage)))
        .says("A call cancelled twice does no more harm than a call cancelled once.")
        .must(TIMING)
        .fm(&[19]),
    server("cancelled-work-ends", |stage| Box::pin(work_ends(stage)))
        .says("A server goes on when the work of a cancelled call comes to its end.")
        .must(TIMING)
        .fm(&[19])
        .seconds(90),
    server("cancel-unknown-id", |stage| Box::pin(unknown(stage)))
        .says("A cancellation of a request that never was is ignored.")
        .should(ERRORS)
        .fm(&[19]),
    server("cancel-malformed", |stage| Box::pin(malformed(stage)))
        .says("A cancellation that makes no sense is ignored.")
        .should(ERRORS)
        .fm(&[19]),
    server("cancel-initialize", |stage| Box::pin(cancelled_initialize(stage)))
        .says("A cancellation of initialize is ignored.")
        .over(Over::Stdio)
        .era(Era::Legacy)
        .fm(&[19]),
    server("cancelled-is-not-answered", |stage| Box::pin(not_answered(stage)))
        .says("Nothing is sent for a call once it was cancelled.")
        .should(BEHAVIOUR)
        .over(Over::Stdio)
        .fm(&[18]),
];

async fn before(stage: &mut Stage) -> Held {
    let mut host = stage.ready().await?;
    let id = host.next_id();
    let message = host.message(&id, host.cheapest(), json!({}));
    let cancellation = host.cancellation(&id);
    if host.has_pipes() {
        // In one piece, so that the order in which both are dealt with is the server's own doing.
        let _ = host.raw(format!("{cancellation}\n{message}\n")).await;
    } else {
        host.cancel(&id).await;
        host.send(&message).await;
    }
    host.answer(
        &id,
        "a request under an id that was cancelled before it was used",
    )
    .await?;
    host.serves("after a cancellation that came before its request")
        .await
}

async fn during(stage: &mut Stage) -> Held {
    let busy = stage.busy()?;
    let mut host = stage.ready().await?;
    let call = host.call(&busy).await;
    host.linger(Duration::from_millis(100)).await;
    host.cancel(&call).await;
    host.linger(Duration::from_millis(500)).await;
    // A server that dies of it may look alive until the next line arrives, which it swallows.
    host.serves("after a cancelled call").await?;
    host.serves("a moment after a cancelled call").await
}

async fn races(stage: &mut Stage) -> Held {
    let quick = stage.quick()?;
    let mut host = stage.ready().await?;
    race(&mut host, &quick, &mut stage.random).await
}

async fn after(stage: &mut Stage) -> Held {
    let quick = stage.quick()?;
    let mut host = stage.ready().await?;
    let call = host.call(&quick).await;
    host.answer(&call, "a call").await?;
    host.linger(Duration::from_millis(300)).await;
    host.cancel(&call).await;
    host.linger(Duration::from_millis(100)).await;
    host.serves("after a cancellation that came too late")
        .await?;
    match host.responses(&call) {
        1 => Ok(()),
        n => Finding::broken(format!(
            "The call that was cancelled too late had {}.",
            counted(n, "answer")
        )),
    }
}

/// Work that a cancellation does not reach ends when it ends, and then there is nobody to answer.
async fn work_ends(stage: &mut Stage) -> Held {
    let slow = stage.slow()?;
    let mut host = stage.ready().await?;
    let begun = std::time::Instant::now();
    let call = host.call(&slow).await;
    let answered = |letters: &Letters| (!letters.responses(&call.0).is_empty()).then_some(());
    let timeout = host.timeout();
    if host.wait("a slow call", timeout, answered).await.is_none() {
        return Finding::not_applicable("the slow tool does not come to an end");
    }
    let usual = begun.elapsed();
    let call = host.call(&slow).await;
    host.linger(usual.mul_f64(0.1)).await;
    host.cancel(&call).await;
    host.linger(usual.mul_f64(1.2)).await;
    // A server that died of it may look alive until the next line arrives, which it swallows.
    host.serves("after the work of a cancelled call has ended")
        .await?;
    host.serves("a moment after the work of a cancelled call has ended")
        .await
}

async fn twice(stage: &mut Stage) -> Held {
    let busy = stage.busy()?;
    let mut host = stage.ready().await?;
    let call = host.call(&busy).await;
    host.linger(Duration::from_millis(50)).await;
    host.cancel(&call).await;
    host.cancel(&call).await;
    host.linger(Duration::from_millis(200)).await;
    host.cancel(&call).await;
    host.serves("after three cancellations of one call").await
}

async fn unknown(stage: &mut Stage) -> Held {
    let mut host = stage.ready().await?;
    for id in [json!("no such request"), json!(""), json!(987_654_321)] {
        host.cancel(&Id(id)).await;
    }
    host.serves("after cancellations of requests that never were")
        .await
}

async fn malformed(stage: &mut Stage) -> Held {
    let mut host = stage.ready().await?;
    let method = "notifications/cancelled";
    host.send(&json!({ "jsonrpc": "2.0", "method": method }))
        .await;
    for params in [
        json!({}),
        json!({ "requestId": Value::Null }),
        json!({ "requestId": { "a": 1 } }),
        json!({ "requestId": [1] }),
        json!({ "requestId": true }),
        json!({ "requestId": 1.5, "reason": 7 }),
    ] {
        host.notify(method, params).await;
    }
    host.serves("after cancellations that make no sense").await
}

async fn cancelled_initialize(stage: &mut Stage) -> Held {
    let mut host = stage.start().await?;
    let id = host.next_id();
    let message = host.message(&id, "initialize", initialize(Era::Legacy.newest()));
    let cancellation = host.cancellation(&id);
    let _ = host.raw(format!("{message}\n{cancellation}\n")).await;
    let answer = host.answer(&id, "a cancelled initialize").await?;
    if answer.get("result").is_none() {
        return Finding::broken(format!("A cancelled initialize was answered with {answer}"));
    }
    host.notify("notifications/initialized", json!({})).await;
    host.serves("after a cancelled initialize").await
}

async fn not_answered(stage: &mut Stage) -> Held {
    let slow = stage.slow()?;
    let mut host = stage.ready().await?;
    let id = host.next_id();
    let mut params = slow.params();
    params["_meta"] = json!({ "progressToken": "cancelled" });
    let message = host.message(&id, "tools/call", params);
    host.send(&message).await;
    host.linger(Duration::from_millis(300)).await;
    if host.responses(&id) > 0 {
        return Finding::not_applicable("the slow tool was done before it could be cancelled");
    }
    host.cancel(&id).await;
    // What was on its way may still come; what was cancelled may take a moment to stop.
    host.serves("after a cancelled call").await?;
    host.linger(Duration::from_millis(500)).await;
    let said = host.look(|letters| letters.notifications.len());
    host.linger(Duration::from_secs(3)).await;
    if host.responses(&id) > 0 {
        let answer = host.answer(&id, "a cancelled call").await?;
        return Finding::broken(format!("The cancelled call was answered: {answer}"));
    }
    let more = host.look(|letters| letters.notifications.get(said).cloned());
    match more {
        Some(more) if more["params"]["progressToken"] == "cancelled" => {
            Finding::broken(format!("The cancelled call went on to tell: {more}"))
        }
        _ => Ok(()),
    }
}
