//! The stream on which a server speaks unasked (FM-22, FM-25).

use std::time::Duration;

use tokio::time::sleep;

use crate::Era;
use crate::client::Driver;
use crate::counted;
use crate::scenario::Scenario;
use crate::site::{Act, Answer, Site};
use crate::stage::Stage;
use crate::verdict::{Finding, Held};

use super::web;

const PING: &str = "2025-11-25 basic/utilities/ping: Behavior Requirements";
const UNLISTENED: &str = "the client opens no stream of its own with GET";

pub(super) const SCENARIOS: &[Scenario] = &[
    web("get-refused", |stage| Box::pin(refused(stage)))
        .says("A server that offers no stream, and says so with 405, is used without it.")
        .era(Era::Legacy)
        .fm(&[25]),
    web("get-refused-oddly", |stage| Box::pin(refused_oddly(stage)))
        .says("A server that refuses the stream with 404, 406 or 500 is used without it, in one session or a few.")
        .era(Era::Legacy)
        .fm(&[25])
        .seconds(60),
    web("get-stream-ends", |stage| Box::pin(ends(stage)))
        .says("A server that ends its stream as soon as it is opened is not asked for it without a pause.")
        .era(Era::Legacy)
        .fm(&[25]),
    web("get-stream-asks", |stage| Box::pin(asks(stage)))
        .says("A ping on the stream that was opened with GET is answered.")
        .era(Era::Legacy)
        .fm(&[22])
        .must(PING),
];

/// A client that is connected to a server which answers GET so.
async fn connected(stage: &mut Stage, answer: Answer) -> Result<(Driver, Site), Finding> {
    let (mut driver, site) = stage.visitor().await?;
    site.script(move |seen| match seen.gets() {
        true => Act::Say(answer.clone()),
        false => Act::Usual,
    });
    let connect = Stage::connect(&mut driver, &site).await;
    driver.succeeds(connect, "connect").await?;
    Ok((driver, site))
}

async fn listens(site: &Site) -> Held {
    let get = site.wait("a GET", Duration::from_secs(2), |all| {
        all.iter().find(|seen| seen.gets()).map(drop)
    });
    match get.await {
        Some(()) => Ok(()),
        None => Finding::not_applicable(UNLISTENED),
    }
}

async fn refused(stage: &mut Stage) -> Held {
    let (mut driver, site) = connected(stage, Answer::status(405)).await?;
    listens(&site).await?;
    sleep(Duration::from_millis(500)).await;
    driver.works("after GET was refused with 405").await
}

async fn refused_oddly(stage: &mut Stage) -> Held {
    /// To take 404 for the end of the session is right, and once is enough.
    const MOST: usize = 5;
    for status in [404, 406, 500] {
        let (mut driver, site) = connected(stage, Answer::status(status)).await?;
        listens(&site).await?;
        sleep(Duration::from_secs(2)).await;
        driver
            .works(&format!("after GET was refused with {status}"))
            .await?;
        let sessions = site.count(|seen| seen.says("initialize"));
        if sessions > MOST {
            return Finding::broken(format!(
                "GET was refused with {status}, and {sessions} sessions were begun within seconds."
            ));
        }
    }
    Ok(())
}

async fn ends(stage: &mut Stage) -> Held {
    /// An attempt at once, and ever longer pauses. Without pauses it is hundreds.
    const MOST: usize = 12;
    const TIME: Duration = Duration::from_secs(4);
    let empty = Answer::text(200, "text/event-stream", "");
    let (mut driver, site) = connected(stage, empty).await?;
    listens(&site).await?;
    sleep(TIME).await;
    let times = site.count(|seen| seen.gets());
    site.note(format!(
        "the stream was asked for {}",
        counted(times, "time")
    ));
    if times > MOST {
        return Finding::broken(format!(
            "The stream was asked for {times} times within {TIME:?}."
        ));
    }
    driver.works("while the stream is not to be had").await
}

async fn asks(stage: &mut Stage) -> Held {
    let (mut driver, site) = stage.visitor().await?;
    site.script(|seen| match seen.gets() {
        true => Act::Leave,
        false => Act::Usual,
    });
    let connect = Stage::connect(&mut driver, &site).await;
    driver.succeeds(connect, "connect").await?;
    listens(&site).await?;
    let mut visit = site.visited("a GET", |seen| seen.gets()).await?;
    visit.open_stream(None).await;
    visit.asks("a ping", "ping").await;
    let what = "The answer to a ping on the stream of a GET";
    site.wait_for(what, |all| {
        all.iter().find(|seen| seen.answers("a ping")).map(drop)
    })
    .await
}
