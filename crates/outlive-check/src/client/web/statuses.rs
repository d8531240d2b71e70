//! Statuses that are no answer, and servers that start late (FM-12, FM-14, FM-27, FM-52).

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::time::{Instant, sleep};

use crate::Era;
use crate::client::{Driver, Outcome};
use crate::counted;
use crate::scenario::Scenario;
use crate::site::{Act, Answer, Site};
use crate::stage::Stage;
use crate::verdict::{Finding, Held};

use super::web;

pub(super) const SCENARIOS: &[Scenario] = &[
    web("gateway-statuses", |stage| Box::pin(gateway(stage)))
        .says("A call that is answered with 500, 502 or 504 ends with an error, and the next one works.")
        .fm(&[52]),
    web("status-is-told", |stage| Box::pin(told(stage)))
        .says("The error of a call that was answered with 502 says so.")
        .fm(&[14, 52]),
    web("retry-after", |stage| Box::pin(retry_after(stage)))
        .says("A call that is refused with 429 or 503 and Retry-After fails, or is sent again no earlier than that.")
        .fm(&[52])
        .seconds(60),
    web("unauthorized", |stage| Box::pin(unauthorized(stage)))
        .says("A call that is refused with 401 ends with an error that says so, after a few attempts at most.")
        .fm(&[27]),
    web("start-refused", |stage| Box::pin(start_refused(stage)))
        .says("Connecting to a server that answers everything with 500 ends, with an error that says so.")
        .fm(&[14])
        .seconds(90),
    web("slow-answer-to-handshake", |stage| Box::pin(slow_start(stage)))
        .says("A server that takes three seconds to answer its first message is waited for.")
        .fm(&[12]),
];

/// Calls are answered so from now on.
fn answers_calls_with(site: &Site, answer: Answer) {
    site.script(move |seen| match seen.says("tools/call") {
        true => Act::Say(answer.clone()),
        false => Act::Usual,
    });
}

fn page(status: u16) -> Answer {
    Answer::text(status, "text/html", "<html><body>Sorry.</body></html>")
}

/// What a call that is answered so came to.
async fn refusal(
    driver: &mut Driver,
    site: &Site,
    answer: Answer,
    status: u16,
) -> Result<String, Finding> {
    answers_calls_with(site, answer);
    let call = driver.call("echo", "x").await;
    let what = format!("A call that was answered with {status}");
    match driver.outcome(call, &what).await? {
        Outcome::Failed { message, .. } => Ok(message),
        outcome => Finding::broken(format!("{what} {}.", outcome.words())),
    }
}

async fn gateway(stage: &mut Stage) -> Held {
    let (mut driver, site) = stage.visiting().await?;
    for status in [500, 502, 504] {
        refusal(&mut driver, &site, page(status), status).await?;
        site.script(|_| Act::Usual);
        driver
            .works(&format!("after one that was answered with {status}"))
            .await?;
    }
    Ok(())
}

/// Whether a message has one of these words in it.
fn says(message: &str, words: &[&str]) -> bool {
    let message = message.to_lowercase();
    words.iter().any(|word| message.contains(word))
}

async fn told(stage: &mut Stage) -> Held {
    let (mut driver, site) = stage.visiting().await?;
    let message = refusal(&mut driver, &site, page(502), 502).await?;
    match says(&message, &["502", "bad gateway"]) {
        true => Ok(()),
        false => Finding::broken(format!(
            "The server answered with status 502; the error says only {message:?}."
        )),
    }
}

async fn retry_after(stage: &mut Stage) -> Held {
    const PAUSE: Duration = Duration::from_secs(2);
    /// Clocks that tick in milliseconds.
    const COARSE: Duration = Duration::from_millis(20);
    let (mut driver, site) = stage.visiting().await?;
    for status in [429, 503] {
        let before = site.count(|seen| seen.calls("echo"));
        let refused = AtomicBool::new(false);
        site.script(move |seen| {
            match seen.calls("echo") && !refused.swap(true, Ordering::SeqCst) {
                true => Act::Say(page(status).header("Retry-After", PAUSE.as_secs().to_string())),
                false => Act::Usual,
            }
        });
        let call = driver.call("echo", "x").await;
        let timeout = driver.timeout() + PAUSE;
        let what = "A call that is to be made later";
        let ended = driver.outcome_within(call, what, timeout).await;
        if ended.is_none() {
            return Finding::broken(format!("{what} did not end within {timeout:?}."));
        }
        let times: Vec<Instant> = site.look(|all| {
            let calls = all.iter().filter(|seen| seen.calls("echo"));
            calls.skip(before).map(|seen| seen.at).collect()
        });
        if let [first, second, ..] = times[..]
            && second - first + COARSE < PAUSE
        {
            return Finding::broken(format!(
                "A call that was refused with {status} for {PAUSE:?} was sent again after {:.1?}.",
                second - first
            ));
        }
        sleep(PAUSE).await;
        driver
            .works(&format!("after one that was refused with {status}"))
            .await?;
    }
    Ok(())
}

async fn unauthorized(stage: &mut Stage) -> Held {
    const MOST: usize = 8;
    let (mut driver, site) = stage.visiting().await?;
    let refused = Answer::status(401).header("WWW-Authenticate", "Bearer");
    let message = refusal(&mut driver, &site, refused, 401).await?;
    sleep(Duration::from_secs(1)).await;
    let times = site.count(|seen| seen.says("tools/call"));
    if times > MOST {
        return Finding::broken(format!(
            "A call that was refused with 401 was sent {}.",
            counted(times, "time")
        ));
    }
    match says(&message, &["401", "auth", "credential"]) {
        true => Ok(()),
        false => Finding::broken(format!(
            "The server wanted credentials (status 401); the error says only {message:?}."
        )),
    }
}

async fn start_refused(stage: &mut Stage) -> Held {
    let (mut driver, site) = stage.visitor().await?;
    site.script(|_| Act::Say(page(500)));
    let connect = Stage::connect(&mut driver, &site).await;
    let what = "Connecting to a server that answers everything with 500";
    // Some wait a while for a server that may yet come.
    let timeout = 4 * driver.timeout();
    match driver.outcome_within(connect, what, timeout).await {
        Some(Outcome::Failed { message, .. }) if says(&message, &["500", "internal server"]) => {
            Ok(())
        }
        Some(outcome) => Finding::broken(format!("{what} {}.", outcome.words())),
        None => Finding::broken(format!(
            "{what} did not end within {timeout:?}; {}.",
            driver.whereabouts().await
        )),
    }
}

async fn slow_start(stage: &mut Stage) -> Held {
    const TIME: Duration = Duration::from_secs(3);
    let first = match stage.era() {
        Era::Legacy => "initialize",
        Era::Modern => "server/discover",
    };
    let (mut driver, site) = stage.visitor().await?;
    site.script(move |seen| match seen.says(first) {
        true => Act::Late(TIME),
        false => Act::Usual,
    });
    let connect = Stage::connect(&mut driver, &site).await;
    let timeout = driver.timeout() + TIME;
    match driver.outcome_within(connect, "connect", timeout).await {
        Some(Outcome::Ok(_)) => driver.works("after a slow start").await,
        Some(failed) => Finding::broken(format!("connect {}.", failed.words())),
        None => Finding::broken(format!("connect did not end within {timeout:?}.")),
    }
}
