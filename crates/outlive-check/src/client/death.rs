//! The server dies: in a call, between calls, again and again (FM-01, FM-02, FM-05, FM-17, FM-21).

use std::time::Duration;

use crate::counted;
use crate::puppet::Habits;
use crate::scenario::{Over, Scenario};
use crate::stage::Stage;
use crate::verdict::{Finding, Held};

use super::client;

const TERMINATION: &str = "2026-07-28 basic/transports/stdio: Unexpected Termination";
const TIMEOUTS: &str = "2025-11-25 basic/lifecycle: Timeouts";

pub(super) const SCENARIOS: &[Scenario] = &[
client("death-in-call", |stage| Box::pin(in_call(stage)))
.says("A call in flight when the server dies ends with an error, long before any timeout.")
.over(Over::Stdio)
.fm(&[5])
.should(TIMEOUTS),
client("death-is-no-cancellation", |stage| Box::pin(no_cancellation(stage)))
.says("A call that ends because the server died is not reported as cancelled by the caller.")
.over(Over::Stdio)
.fm(&[21]),
client("death-when-idle", |stage| Box::pin(when_idle(stage)))
.says("A call after the server died unnoticed comes to an end, one way or the other.")
.over(Over::Stdio)
.fm(&[1])
.should(TIMEOUTS),
client("death-shows-in-state", |stage| Box::pin(shows_in_state(stage)))
.says("A client whose server died while nothing was asked does not go on calling itself connected to it.")
.over(Over::Stdio)
.fm(&[1]),
client("restart-after-death", |stage| Box::pin(restart(stage)))
.says("A server that died is started again, and calls go through once more.")
.over(Over::Stdio)
.fm(&[2])
.should(TERMINATION)
.seconds(60),
client("crash-loop", |stage| Box::pin(crash_loop(stage)))
.says("A server that exits after every handshake is not started again without a pause.")
.over(Over::Stdio)
.fm(&[17]),
];

async fn in_call(stage: &mut Stage) -> Held {
    let (mut driver, puppet, _puppets) = stage.connected().await?;
    let call = driver.call("slow", "").await;
    puppet.called("slow").await?;
    puppet.die();
    let outcome = driver.outcome(call, "The call in flight when the server was killed");
    match outcome.await? {
        crate::client::Outcome::Ok(value) => Finding::broken(format!(
            "A call that was never answered ended well, with {value}."
        )),
        _ => Ok(()),
    }
}

async fn no_cancellation(stage: &mut Stage) -> Held {
    let (mut driver, puppet, _puppets) = stage.connected().await?;
    let call = driver.call("slow", "").await;
    puppet.called("slow").await?;
    puppet.die();
    let what = "The call in flight when the server was killed";
    let outcome = driver.outcome(call, what).await?;
    match outcome.kind() {
        Some("cancelled") => {
            Finding::broken(format!("{what} {}; nobody cancelled it.", outcome.words()))
        }
        _ => Ok(()),
    }
}

async fn when_idle(stage: &mut Stage) -> Held {
    let (mut driver, mut puppet, _puppets) = stage.connected().await?;
    driver.works("at first").await?;
    puppet.die();
    puppet.gone(driver.timeout()).await;
    tokio::time::sleep(Duration::from_millis(500)).await;
    let call = driver.call("echo", "after").await;
    driver
        .outcome(call, "A call after the server's death")
        .await?;
    Ok(())
}

async fn shows_in_state(stage: &mut Stage) -> Held {
    let (mut driver, mut puppet, puppets) = stage.connected().await?;
    if !driver.is_connected().await? {
        return Finding::broken("The client does not call itself connected although it is.");
    }
    puppet.die();
    puppet.gone(driver.timeout()).await;
    let deadline = tokio::time::Instant::now() + driver.timeout();
    while tokio::time::Instant::now() < deadline {
        // Connected to the next one is as true.
        if puppets.starts() > 1 || !driver.is_connected().await? {
            return Ok(());
        }
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    Finding::broken(format!(
        "{:?} after the server's death the client still calls itself connected.",
        driver.timeout()
    ))
}

async fn restart(stage: &mut Stage) -> Held {
    let (mut driver, mut puppet, puppets) = stage.connected().await?;
    driver.works("at first").await?;
    puppet.die();
    puppet.gone(driver.timeout()).await;
    let timeout = driver.timeout();
    driver.recovers("after the server's death", timeout).await?;
    driver.note(format!(
        "the server was started {}",
        counted(puppets.starts(), "time")
    ));
    Ok(())
}

async fn crash_loop(stage: &mut Stage) -> Held {
    /// A start, an attempt at once, and ever longer pauses: half a dozen. Without pauses it is hundreds.
    const MOST: usize = 20;
    const TIME: Duration = Duration::from_secs(3);
    let habits = |_| Habits {
        dies_after_handshake: Some(1),
        ..Habits::default()
    };
    let (mut driver, puppets) = stage.driver(habits).await?;
    let command = super::subject::to_command(&puppets.command());
    let connect = driver.tell("connect", command).await;
    driver.outcome_within(connect, "connect", TIME).await;
    let call = driver.call("echo", "x").await;
    driver.outcome_within(call, "a call", TIME).await;
    tokio::time::sleep(TIME).await;
    let starts = puppets.starts();
    driver.note(format!(
        "the server was started {}",
        counted(starts, "time")
    ));
    match starts > MOST {
        true => Finding::broken(format!(
            "The server was started {starts} times within seconds."
        )),
        false => Ok(()),
    }
}
