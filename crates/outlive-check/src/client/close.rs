//! The client leaves (FM-09, FM-30, FM-67).

use std::time::Duration;

use serde_json::json;

use crate::puppet::{End, Habits};
use crate::scenario::{Over, Scenario};
use crate::stage::Stage;
use crate::verdict::{Finding, Held};

use super::client;

const SHUTDOWN: &str = "2025-11-25 basic/lifecycle: Shutdown, stdio";

pub(super) const SCENARIOS: &[Scenario] = &[
    client("close-ends-input-first", |stage| Box::pin(input_first(stage)))
        .says("A client that leaves closes the server's input and lets it exit by itself.")
        .over(Over::Stdio)
        .fm(&[67])
        .should(SHUTDOWN),
    client("close-ends-stubborn-server", |stage| Box::pin(stubborn(stage)))
        .says("A server that ignores the end of its input, and SIGTERM, is gone when the client has left.")
        .over(Over::Stdio)
        .fm(&[9, 67])
        .should(SHUTDOWN)
        .seconds(90),
    client("close-in-call", |stage| Box::pin(in_call(stage)))
        .says("Closing with a call in flight ends both, the closing and the call.")
        .over(Over::Stdio)
        .fm(&[67]),
    client("close-when-unread", |stage| Box::pin(unread(stage)))
        .says("Closing comes to an end with a server that has stopped reading.")
        .over(Over::Stdio)
        .fm(&[30, 67]),
];

async fn input_first(stage: &mut Stage) -> Held {
    let (mut driver, mut puppet, _puppets) = stage.connected().await?;
    driver.works("at first").await?;
    let close = driver.tell("close", json!({})).await;
    let timeout = 2 * driver.timeout();
    let ended = puppet.input_ended(timeout).await;
    let gone = puppet.gone(timeout).await;
    driver.outcome_within(close, "close", timeout).await;
    match (ended, gone) {
        (true, true) => Ok(()),
        (_, false) => Finding::broken("The server still runs after the client was closed."),
        (false, true) => Finding::broken("The server was killed before its input was closed."),
    }
}

async fn stubborn(stage: &mut Stage) -> Held {
    let habits = |_| Habits {
        end: End::Stubborn,
        ..Habits::default()
    };
    let (mut driver, mut puppet, _puppets) = stage.connected_to(habits).await?;
    driver.works("at first").await?;
    let close = driver.tell("close", json!({})).await;
    // The end of input, SIGTERM and SIGKILL, with a pause before each.
    let timeout = 3 * driver.timeout();
    if driver
        .outcome_within(close, "close", timeout)
        .await
        .is_none()
    {
        return Finding::broken(format!("Closing did not end within {timeout:?}."));
    }
    match puppet.gone(driver.timeout()).await {
        true => Ok(()),
        false => Finding::broken("The server still runs after the client was closed."),
    }
}

async fn in_call(stage: &mut Stage) -> Held {
    let (mut driver, puppet, _puppets) = stage.connected().await?;
    let call = driver.call("slow", "").await;
    puppet.called("slow").await?;
    let close = driver.tell("close", json!({})).await;
    let timeout = 2 * driver.timeout();
    if driver
        .outcome_within(close, "close", timeout)
        .await
        .is_none()
    {
        return Finding::broken(format!("Closing did not end within {timeout:?}."));
    }
    driver
        .outcome(call, "The call in flight when the client was closed")
        .await?;
    Ok(())
}

async fn unread(stage: &mut Stage) -> Held {
    let (mut driver, puppet, _puppets) = stage.connected().await?;
    driver.works("at first").await?;
    puppet.stop_reading();
    tokio::time::sleep(Duration::from_millis(200)).await;
    // Far more than a pipe holds.
    driver.call("slow", &"x".repeat(1 << 20)).await;
    tokio::time::sleep(Duration::from_millis(300)).await;
    let close = driver.tell("close", json!({})).await;
    let timeout = 3 * driver.timeout();
    match driver.outcome_within(close, "close", timeout).await {
        Some(_) => Ok(()),
        None => Finding::broken(format!(
            "Closing did not end within {timeout:?}; {}.",
            driver.whereabouts().await
        )),
    }
}
