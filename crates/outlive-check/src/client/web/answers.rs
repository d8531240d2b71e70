//! Answers of either kind, of no kind, for somebody else, too late or never (FM-06, FM-07, FM-18, FM-22, FM-24,
//! FM-34, FM-48, FM-61).

use serde_json::{Value, json};

use crate::Era;
use crate::client::Outcome;
use crate::scenario::Scenario;
use crate::site::Answer;
use crate::stage::Stage;
use crate::verdict::{Finding, Held};

use super::{SENDING, web};

const PING: &str = "2025-11-25 basic/utilities/ping: Behavior Requirements";
const TIMING: &str = "2025-11-25 basic/utilities/cancellation: Timing Considerations";
const CLOSING: &str = "2026-07-28 basic/patterns/cancellation: Transport-Specific Cancellation";

pub(super) const SCENARIOS: &[Scenario] = &[
    web("answered-either-way", |stage| Box::pin(either(stage)))
        .says("An answer is understood as JSON and at the end of a stream.")
        .fm(&[61])
        .must(SENDING),
    web("answer-is-none", |stage| Box::pin(none(stage)))
        .says("A call that is answered with a page, with half a message, with nothing or with 202 ends with an error.")
        .fm(&[6, 61]),
    web("answer-for-another", |stage| Box::pin(another(stage)))
        .says("An answer for another request that comes first on the stream of a call is not taken for the call's.")
        .fm(&[34, 61]),
    web("stream-asks", |stage| Box::pin(asks(stage)))
        .says("A ping on the stream of a call is answered, and the call gets its own answer.")
        .era(Era::Legacy)
        .fm(&[22, 64])
        .must(PING),
    web("cancel-is-posted", |stage| Box::pin(posted(stage)))
        .says("A call that is cancelled is cancelled with the server, by its id.")
        .era(Era::Legacy)
        .fm(&[48])
        .should(SENDING),
    web("cancel-closes-stream", |stage| Box::pin(closes(stage)))
        .says("A call that is cancelled is cancelled with the server: its stream is closed.")
        .era(Era::Modern)
        .fm(&[48])
        .should(CLOSING),
    web("late-answer-on-stream", |stage| Box::pin(late(stage)))
        .says("The answer that comes on the stream of a cancelled call does no harm.")
        .era(Era::Legacy)
        .fm(&[18])
        .must(TIMING),
    web("silent-call", |stage| Box::pin(silent(stage)))
        .says("A call to which not a byte is answered stalls no other, and ends when it is cancelled.")
        .fm(&[7, 24]),
];

async fn either(stage: &mut Stage) -> Held {
    let (mut driver, site) = stage.visiting().await?;
    let call = driver.call("slow", "").await;
    site.slow_call().await?.answer("as JSON").await;
    driver.succeeds(call, "A call answered with JSON").await?;
    let call = driver.call("slow", "").await;
    let mut visit = site.slow_call().await?;
    visit.open_stream(None).await;
    visit.event(None, &visit.result("on a stream")).await;
    visit.end().await;
    let said = driver.succeeds(call, "A call answered on a stream").await?;
    match said == "on a stream" {
        true => Ok(()),
        false => Finding::broken(format!("An answer on a stream became {said}.")),
    }
}

async fn none(stage: &mut Stage) -> Held {
    let (mut driver, site) = stage.visiting().await?;
    let page = "<html><body>Please log in.</body></html>";
    for (what, answer) in [
        ("a page", Answer::text(200, "text/html", page)),
        (
            "half a message",
            Answer::text(200, "application/json", "{\"jsonrpc\":\"2.0\","),
        ),
        (
            "an empty object",
            Answer::text(200, "application/json", "{}"),
        ),
        ("nothing", Answer::text(200, "application/json", "")),
        ("202", Answer::status(202)),
    ] {
        let call = driver.call("slow", "").await;
        site.slow_call().await?.say(answer).await;
        let what = format!("A call that was answered with {what}");
        if let Outcome::Ok(value) = driver.outcome(call, &what).await? {
            return Finding::broken(format!("{what} ended well, with {value}."));
        }
    }
    driver.works("after answers that were none").await
}

async fn another(stage: &mut Stage) -> Held {
    let (mut driver, site) = stage.visiting().await?;
    let call = driver.call("slow", "").await;
    let mut visit = site.slow_call().await?;
    visit.open_stream(None).await;
    let mut wrong = visit.result("not yours");
    for id in [json!(987_654_321), json!("nobody asked")] {
        wrong["id"] = id;
        visit.event(None, &wrong).await;
    }
    visit.event(None, &visit.result("yours")).await;
    visit.end().await;
    let said = driver
        .succeeds(call, "A call amid answers for others")
        .await?;
    match said == "yours" {
        true => driver.works("after answers for others").await,
        false => Finding::broken(format!(
            "The call ended with {said}, an answer for another."
        )),
    }
}

async fn asks(stage: &mut Stage) -> Held {
    let (mut driver, site) = stage.visiting().await?;
    let call = driver.call("slow", "").await;
    let mut visit = site.slow_call().await?;
    visit.open_stream(None).await;
    visit.asks("a ping", "ping").await;
    let what = "The answer to a ping on the stream of a call";
    let answer = site.wait_for(what, |all| {
        let mut answers = all.iter().filter(|seen| seen.answers("a ping"));
        answers.next().map(|seen| seen.message.clone())
    });
    let answer = answer.await?;
    if answer.get("result").is_none() {
        return Finding::broken(format!("A ping was answered with {answer}."));
    }
    visit.event(None, &visit.result("done")).await;
    visit.end().await;
    driver
        .succeeds(call, "A call on whose stream the server asked something")
        .await?;
    Ok(())
}

async fn posted(stage: &mut Stage) -> Held {
    let (mut driver, site) = stage.visiting().await?;
    let call = driver.call("slow", "").await;
    let mut visit = site.slow_call().await?;
    visit.open_stream(None).await;
    let cancel = driver.cancel(call).await;
    driver.outcome(cancel, "cancel").await?;
    let cancelled: Value = site
        .wait_for("The cancellation", |all| {
            let mut all = all.iter();
            let cancel = all.find(|seen| seen.says("notifications/cancelled"))?;
            Some(cancel.message["params"]["requestId"].clone())
        })
        .await?;
    match cancelled == *visit.id() {
        true => driver.works("after a cancellation").await,
        false => Finding::broken(format!(
            "Request {} was to be cancelled; cancelled was {cancelled}.",
            visit.id()
        )),
    }
}

async fn closes(stage: &mut Stage) -> Held {
    let (mut driver, site) = stage.visiting().await?;
    let call = driver.call("slow", "").await;
    let mut visit = site.slow_call().await?;
    visit.open_stream(None).await;
    let cancel = driver.cancel(call).await;
    driver.outcome(cancel, "cancel").await?;
    let timeout = driver.timeout();
    match visit.closed(timeout).await {
        true => driver.works("after a cancellation").await,
        false => Finding::broken(format!(
            "The stream of a call that was cancelled was still open after {timeout:?}."
        )),
    }
}

async fn late(stage: &mut Stage) -> Held {
    let (mut driver, site) = stage.visiting().await?;
    let call = driver.call("slow", "").await;
    let mut visit = site.slow_call().await?;
    visit.open_stream(None).await;
    let cancel = driver.cancel(call).await;
    driver.outcome(cancel, "cancel").await?;
    tokio::time::sleep(std::time::Duration::from_millis(300)).await;
    visit.event(None, &visit.result("too late")).await;
    visit.end().await;
    driver.works("after a late answer").await
}

async fn silent(stage: &mut Stage) -> Held {
    let (mut driver, site) = stage.visiting().await?;
    let call = driver.call("slow", "").await;
    let _visit = site.slow_call().await?;
    driver.works("while another is not answered").await?;
    let cancel = driver.cancel(call).await;
    driver.outcome(cancel, "cancel").await?;
    driver
        .outcome(
            call,
            "A call that was never answered, once it was cancelled,",
        )
        .await?;
    driver.works("after a call that was never answered").await
}
