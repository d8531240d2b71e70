//! Streams that are cut, and what they look like (FM-06, FM-08, FM-21, FM-26, FM-57, FM-59).

use std::time::Duration;

use tokio::time::{Instant, sleep};

use crate::Era;
use crate::client::{Driver, Errand, Outcome};
use crate::scenario::Scenario;
use crate::site::{Act, Answer, Site, Visit};
use crate::stage::Stage;
use crate::verdict::{Finding, Held};

use super::{SENDING, web};

const RESUMABILITY: &str = "2025-11-25 basic/transports: Resumability and Redelivery";

pub(super) const SCENARIOS: &[Scenario] = &[
    web("stream-cut-is-resumed", |stage| Box::pin(resumed(stage)))
        .says("A stream with event ids that is cut before the answer is resumed with Last-Event-ID.")
        .era(Era::Legacy)
        .fm(&[26])
        .should(RESUMABILITY),
    web("stream-cut-again", |stage| Box::pin(again(stage)))
        .says("A stream that is cut again before it brought anything is resumed behind the same event.")
        .era(Era::Legacy)
        .fm(&[26])
        .should(RESUMABILITY),
    web("retry-is-respected", |stage| Box::pin(retry(stage)))
        .says("A stream that names a pause and ends is asked for again, and not before the pause is over.")
        .era(Era::Legacy)
        .fm(&[25, 26])
        .must(SENDING),
    web("stream-cut-ends-call", |stage| Box::pin(cut(stage)))
        .says("A call whose stream ends without an answer, or in the middle, and cannot be resumed ends with an error.")
        .fm(&[6]),
    web("connection-reset-ends-call", |stage| Box::pin(reset(stage)))
        .says("A call whose connection is reset ends with an error, whatever had come before.")
        .fm(&[6]),
    web("cut-is-no-cancellation", |stage| Box::pin(no_cancellation(stage)))
        .says("A call whose connection broke is not reported as cancelled by the caller.")
        .fm(&[21]),
    web("cut-call-is-not-sent-again", |stage| Box::pin(not_sent_again(stage)))
        .says("A call that may have been executed is not sent again: its tool does not say that it may be.")
        .fm(&[8]),
    web("stream-odd-shapes", |stage| Box::pin(odd_shapes(stage)))
        .says("Comments, CR LF, unknown fields, events of several lines and in several pieces are understood.")
        .fm(&[57, 59]),
];

/// A call that is not answered yet. Later ones are answered at once, so that what is sent again ends, too.
async fn waiting(driver: &mut Driver, site: &Site) -> Result<(Errand, Visit), Finding> {
    site.script(|_| Act::Usual);
    let call = driver.call("slow", "").await;
    let visit = site.slow_call().await?;
    site.script(|seen| match seen.calls("slow") {
        true => Act::answer(seen, "again"),
        false if seen.cursor().is_some() => Act::Leave,
        false => Act::Usual,
    });
    Ok((call, visit))
}

/// A call whose stream has begun.
async fn streaming(
    driver: &mut Driver,
    site: &Site,
    id: Option<&str>,
) -> Result<(Errand, Visit), Finding> {
    let (call, mut visit) = waiting(driver, site).await?;
    visit.open_stream(id).await;
    Ok((call, visit))
}

/// The GET that asks for the rest of a stream.
async fn resumption(site: &Site, behind: &str) -> Result<Visit, Finding> {
    let rest = site
        .visited("A GET with Last-Event-ID", |seen| seen.cursor().is_some())
        .await?;
    match rest.seen.cursor() {
        Some(cursor) if cursor == behind => Ok(rest),
        cursor => Finding::broken(format!(
            "The rest was asked for behind event {:?}; the last was {behind:?}.",
            cursor.unwrap_or_default()
        )),
    }
}

async fn delivered(
    driver: &mut Driver,
    call: Errand,
    mut rest: Visit,
    answer: &serde_json::Value,
) -> Held {
    rest.open_stream(None).await;
    rest.event(Some("stream-1/9"), answer).await;
    rest.end().await;
    driver
        .succeeds(call, "A call whose stream was resumed")
        .await?;
    driver.works("after a stream was resumed").await
}

async fn resumed(stage: &mut Stage) -> Held {
    let (mut driver, site) = stage.visiting().await?;
    let (call, visit) = streaming(&mut driver, &site, Some("stream-1/0")).await?;
    let answer = visit.result("resumed");
    visit.cut();
    let rest = resumption(&site, "stream-1/0").await?;
    delivered(&mut driver, call, rest, &answer).await
}

async fn again(stage: &mut Stage) -> Held {
    let (mut driver, site) = stage.visiting().await?;
    let (call, visit) = streaming(&mut driver, &site, Some("stream-1/0")).await?;
    let answer = visit.result("resumed");
    visit.cut();
    let mut rest = resumption(&site, "stream-1/0").await?;
    rest.open_stream(None).await;
    rest.end().await;
    let what = "A second GET, after the first brought nothing,";
    let rest = site
        .visited(what, |seen| seen.gets() && seen.cursor().is_some())
        .await?;
    delivered(&mut driver, call, rest, &answer).await
}

async fn retry(stage: &mut Stage) -> Held {
    const PAUSE: Duration = Duration::from_secs(2);
    /// Clocks that tick in milliseconds.
    const COARSE: Duration = Duration::from_millis(20);
    let (mut driver, site) = stage.visiting().await?;
    let (call, mut visit) = streaming(&mut driver, &site, Some("stream-1/0")).await?;
    let answer = visit.result("resumed");
    let pause = format!("retry: {}\nid: stream-1/1\ndata:\n\n", PAUSE.as_millis());
    visit.piece(&pause).await;
    let ended = Instant::now();
    visit.end().await;
    let rest = resumption(&site, "stream-1/1").await?;
    let waited = rest.seen.at - ended;
    if waited + COARSE < PAUSE {
        return Finding::broken(format!(
            "The rest was asked for after {waited:.1?}; the server had said {PAUSE:?}."
        ));
    }
    delivered(&mut driver, call, rest, &answer).await
}

/// The call ends, and not well.
async fn ends_badly(driver: &mut Driver, call: Errand, what: &str) -> Held {
    match driver.outcome(call, what).await? {
        Outcome::Ok(value) if value != "again" => {
            Finding::broken(format!("{what} ended well, with {value}."))
        }
        _ => driver.works("on another connection").await,
    }
}

async fn cut(stage: &mut Stage) -> Held {
    let (mut driver, site) = stage.visiting().await?;
    let (call, visit) = streaming(&mut driver, &site, None).await?;
    visit.end().await;
    ends_badly(
        &mut driver,
        call,
        "A call whose stream ended without an answer",
    )
    .await?;
    let (call, mut visit) = streaming(&mut driver, &site, None).await?;
    visit.piece("data: {\"jsonrpc\"").await;
    visit.cut();
    ends_badly(
        &mut driver,
        call,
        "A call whose stream was cut in the middle",
    )
    .await?;
    let (call, mut visit) = waiting(&mut driver, &site).await?;
    let head = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 1000\r\n\r\n";
    visit.raw(format!("{head}{{\"jsonrpc\"").as_bytes()).await;
    visit.cut();
    ends_badly(
        &mut driver,
        call,
        "A call whose answer was cut in the middle",
    )
    .await
}

async fn reset(stage: &mut Stage) -> Held {
    let (mut driver, site) = stage.visiting().await?;
    let (call, visit) = streaming(&mut driver, &site, None).await?;
    sleep(Duration::from_millis(100)).await;
    visit.reset();
    ends_badly(&mut driver, call, "A call whose stream was reset").await?;
    let (call, visit) = waiting(&mut driver, &site).await?;
    visit.reset();
    ends_badly(&mut driver, call, "A call whose connection was reset").await
}

async fn no_cancellation(stage: &mut Stage) -> Held {
    let (mut driver, site) = stage.visiting().await?;
    let (call, visit) = streaming(&mut driver, &site, None).await?;
    sleep(Duration::from_millis(100)).await;
    visit.reset();
    let what = "The call whose connection broke";
    let timeout = driver.timeout();
    let Some(outcome) = driver.outcome_within(call, what, timeout).await else {
        return Finding::not_applicable("a call whose connection broke does not end at all");
    };
    match outcome.kind() {
        Some("cancelled") => {
            Finding::broken(format!("{what} {}; nobody cancelled it.", outcome.words()))
        }
        _ => Ok(()),
    }
}

async fn not_sent_again(stage: &mut Stage) -> Held {
    let (mut driver, site) = stage.visiting().await?;
    let (call, visit) = streaming(&mut driver, &site, None).await?;
    sleep(Duration::from_millis(100)).await;
    visit.reset();
    once(&mut driver, &site, call, 1, "a reset").await?;
    let (call, visit) = waiting(&mut driver, &site).await?;
    let page = "<h1>Bad Gateway</h1>";
    visit.say(Answer::text(502, "text/html", page)).await;
    once(&mut driver, &site, call, 2, "status 502").await
}

/// So many calls were made, and so many came.
async fn once(
    driver: &mut Driver,
    site: &Site,
    call: Errand,
    calls: usize,
    accident: &str,
) -> Held {
    // Whether a call that is forgotten ends is another question.
    let timeout = driver.timeout();
    driver.outcome_within(call, "the call", timeout).await;
    match site.count(|seen| seen.calls("slow")) == calls {
        true => Ok(()),
        false => Finding::broken(format!(
            "A call that may have been executed before {accident} was sent again."
        )),
    }
}

async fn odd_shapes(stage: &mut Stage) -> Held {
    let (mut driver, site) = stage.visiting().await?;
    let (call, mut visit) = streaming(&mut driver, &site, None).await?;
    let answer = visit.result("h\u{e9} \u{1f980}").to_string();
    let (head, tail) = answer.split_at(answer.find(',').unwrap_or(0));
    visit.piece(": a comment\r\n\r\n:\r\n").await;
    visit.piece("event:message\r\ndata:").await;
    sleep(Duration::from_millis(20)).await;
    visit.piece(&format!("{head}\r")).await;
    visit
        .piece(&format!("\ndata: {tail}\r\nunknown: field\r\n"))
        .await;
    visit.piece("\r\n").await;
    visit.end().await;
    let said = driver
        .succeeds(call, "A call whose answer came in an odd shape")
        .await?;
    match said == "h\u{e9} \u{1f980}" {
        true => Ok(()),
        false => Finding::broken(format!("An answer in an odd shape became {said}.")),
    }
}
