//! Cancellations at every moment (FM-18, FM-19).
//!
//! A cancellation is a notification: nothing has to come of it, and nothing may come of it that was
//! not asked for. It can meet a call that has not begun, one that has ended, or the very answer.

use std::time::Duration;

use crate::scenario::{Level, Over, Scenario, Subject};
use crate::stage::Stage;
use crate::verdict::{Finding, Held};

use super::seconds;

const TIMING: Option<&str> = Some("2025-11-25 basic/utilities/cancellation: Timing Considerations");
const ERRORS: Option<&str> = Some("2025-11-25 basic/utilities/cancellation: Error Handling");

pub(super) const SCENARIOS: &[Scenario] = &[
    Scenario {
        name: "cancel-during-call",
        subject: Subject::Server,
        over: Over::Both,
        era: None,
        fm: &[19],
        level: Level::Must,
        statement: "A server whose call is cancelled while it runs serves the next one.",
        clause: TIMING,
        bound: seconds(30),
        run: |stage| Box::pin(during(stage)),
    },
    Scenario {
        name: "cancel-twice",
        subject: Subject::Server,
        over: Over::Both,
        era: None,
        fm: &[19],
        level: Level::Must,
        statement: "A call cancelled twice does no more harm than a call cancelled once.",
        clause: TIMING,
        bound: seconds(30),
        run: |stage| Box::pin(twice(stage)),
    },
    Scenario {
        name: "cancel-unknown-id",
        subject: Subject::Server,
        over: Over::Both,
        era: None,
        fm: &[19],
        level: Level::Should,
        statement: "A cancellation of a request that never was is ignored.",
        clause: ERRORS,
        bound: seconds(30),
        run: |stage| Box::pin(unknown(stage)),
    },
    Scenario {
        name: "cancel-races-answer",
        subject: Subject::Server,
        over: Over::Both,
        era: None,
        fm: &[19],
        level: Level::Must,
        statement: "Cancellations that meet the answer leave the server alive, and no call with two answers.",
        clause: TIMING,
        bound: seconds(60),
        run: |stage| Box::pin(races(stage)),
    },
];

async fn during(stage: &mut Stage) -> Held {
    let mut host = stage.ready().await?;
    let call = host.call(&stage.busy()?).await;
    host.linger(Duration::from_millis(100)).await;
    host.cancel(&call).await;
    host.linger(Duration::from_millis(500)).await;
    host.serves("after a cancelled call").await
}

async fn twice(stage: &mut Stage) -> Held {
    let mut host = stage.ready().await?;
    let call = host.call(&stage.busy()?).await;
    host.cancel(&call).await;
    host.cancel(&call).await;
    host.serves("after two cancellations of one call").await
}

async fn unknown(stage: &mut Stage) -> Held {
    let mut host = stage.ready().await?;
    for id in ["no such request", ""] {
        host.cancel(&crate::Id(id.into())).await;
    }
    host.cancel(&crate::Id(987_654_321.into())).await;
    host.serves("after cancellations of requests that never were")
        .await
}

async fn races(stage: &mut Stage) -> Held {
    const CALLS: usize = 60;
    let quick = stage.quick()?;
    let mut host = stage.ready().await?;
    let mut ids = Vec::new();
    for _ in 0..CALLS {
        let id = host.call(&quick).await;
        tokio::time::sleep(stage.random.moment(Duration::from_millis(4))).await;
        host.cancel(&id).await;
        ids.push(id);
    }
    host.serves(&format!("after {CALLS} calls and their cancellations"))
        .await?;
    match ids.iter().find(|id| host.responses(id) > 1) {
        Some(id) => Finding::broken(format!(
            "Request {id} was answered {} times.",
            host.responses(id)
        )),
        None => Ok(()),
    }
}
