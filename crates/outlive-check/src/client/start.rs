//! Servers that start late, or not at all (FM-12, FM-14).

use std::time::Duration;

use crate::counted;
use crate::inbox::Letters;
use crate::puppet::{Habits, Start};
use crate::scenario::{Over, Scenario};
use crate::stage::Stage;
use crate::verdict::{Finding, Held};

use super::driver::Outcome;
use super::{client, subject};

const CANCELLATION: &str = "2025-11-25 basic/utilities/cancellation: Behavior Requirements 2";
const TIMEOUTS: &str = "2025-11-25 basic/lifecycle: Timeouts";
/// The status of a server that cannot start.
const STATUS: u8 = 17;
const WORDS: &str = "Error: DATABASE_URL is not set\n";

pub(super) const SCENARIOS: &[Scenario] = &[
    client("slow-start", |stage| Box::pin(slow_start(stage)))
        .says("A server that takes three seconds to read its first message is waited for.")
        .over(Over::Stdio)
        .fm(&[12]),
    client("initialize-is-not-cancelled", |stage| {
        Box::pin(not_cancelled(stage))
    })
    .says("initialize is not cancelled, however long it takes.")
    .over(Over::Stdio)
    .era(crate::Era::Legacy)
    .fm(&[12])
    .must(CANCELLATION),
    client("start-fails", |stage| Box::pin(start_fails(stage)))
        .says("Connecting to a server that exits at once comes to an end, with an error.")
        .over(Over::Stdio)
        .fm(&[14])
        .should(TIMEOUTS),
    client("start-failure-explained", |stage| {
        Box::pin(explained(stage))
    })
    .says("The error of a server that exits at once says how it exited, or what it said.")
    .over(Over::Stdio)
    .fm(&[14]),
];

async fn slow_start(stage: &mut Stage) -> Held {
    let habits = |_| Habits {
        start: Start::Late(Duration::from_secs(3)),
        ..Habits::default()
    };
    let (mut driver, _puppet, puppets) = stage.connected_to(habits).await?;
    driver.works("after a slow start").await?;
    let starts = puppets.starts();
    // Some start a server only to look which era it speaks, however fast it is.
    let (_driver, _puppet, puppets) = stage.connected().await?;
    match puppets.starts() {
        usual if starts <= usual => Ok(()),
        usual => Finding::broken(format!(
            "A server that starts slowly was started {}, a fast one {}.",
            counted(starts, "time"),
            counted(usual, "time"),
        )),
    }
}

async fn not_cancelled(stage: &mut Stage) -> Held {
    let habits = |_| Habits {
        leaves: &["initialize"],
        ..Habits::default()
    };
    let (mut driver, mut puppets) = stage.driver(habits).await?;
    let connect = driver
        .tell("connect", subject::to_command(&puppets.command()))
        .await;
    let (puppet, request) = puppets.asked("initialize").await?;
    let timeout = driver.timeout();
    // Whoever gives up early gives up in this time.
    driver
        .outcome_within(connect, "connect", timeout.min(Duration::from_secs(4)))
        .await;
    let cancelled = |letters: &Letters| {
        let cancels = letters.notifications.iter();
        let mut cancels = cancels.filter(|n| n["method"] == "notifications/cancelled");
        cancels
            .any(|n| n["params"]["requestId"] == request["id"])
            .then_some(())
    };
    let moment = Duration::from_millis(500);
    match puppet.wait("a cancellation", moment, cancelled).await {
        Some(()) => Finding::broken("initialize was cancelled."),
        None => Ok(()),
    }
}

fn failing(_: usize) -> Habits {
    Habits {
        start: Start::Fails(STATUS, WORDS),
        ..Habits::default()
    }
}

async fn failure(stage: &mut Stage) -> Result<String, Finding> {
    let (mut driver, puppets) = stage.driver(failing).await?;
    let connect = driver
        .tell("connect", subject::to_command(&puppets.command()))
        .await;
    let what = "Connecting to a server that exits at once";
    // Some wait a while for a server that may yet come.
    let timeout = 4 * driver.timeout();
    match driver.outcome_within(connect, what, timeout).await {
        Some(Outcome::Failed { message, .. }) => Ok(message),
        Some(outcome) => Finding::broken(format!("{what} {}.", outcome.words())),
        None => Finding::broken(format!(
            "{what} did not end within {timeout:?}; {}.",
            driver.whereabouts().await
        )),
    }
}

async fn start_fails(stage: &mut Stage) -> Held {
    failure(stage).await.map(drop)
}

async fn explained(stage: &mut Stage) -> Held {
    let message = failure(stage).await?;
    let told = message.contains(&STATUS.to_string()) || message.contains("DATABASE_URL");
    match told {
        true => Ok(()),
        false => Finding::broken(format!(
            "The server exited with status {STATUS} and said {:?}; the error says only {message:?}.",
            WORDS.trim()
        )),
    }
}
