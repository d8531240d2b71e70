//! Sessions that expire, servers that are deployed anew, and clients that leave (FM-03, FM-37, FM-38, FM-39,
//! FM-67, FM-70).

use std::time::Duration;

use serde_json::json;
use tokio::time::sleep;

use crate::Era;
use crate::scenario::Scenario;
use crate::site::{Act, Answer, Site};
use crate::stage::Stage;
use crate::verdict::{Finding, Held};

use super::{SESSIONS, web};

pub(super) const SCENARIOS: &[Scenario] = &[
    web("session-expired", |stage| Box::pin(expired(stage)))
        .says("A client that is told that its session is gone begins a new one, and calls go through again.")
        .era(Era::Legacy)
        .fm(&[3])
        .must(SESSIONS),
    web("session-expired-unnoticed", |stage| Box::pin(unnoticed(stage)))
        .says("The call that found the session gone was not executed: it is sent again in the new one.")
        .era(Era::Legacy)
        .fm(&[3, 8]),
    web("session-expired-for-all", |stage| Box::pin(for_all(stage)))
        .says("Of several calls that find the session gone at once, all end, and one new session is begun.")
        .era(Era::Legacy)
        .fm(&[37]),
    web("session-expired-in-call", |stage| Box::pin(in_call(stage)))
        .says("A call that waits for its answer while another finds the session gone ends, too.")
        .era(Era::Legacy)
        .fm(&[38]),
    web("session-ended-at-close", |stage| Box::pin(ended(stage)))
        .says("A client that leaves ends its session with DELETE.")
        .era(Era::Legacy)
        .fm(&[39])
        .should(SESSIONS),
    web("redeploy", |stage| Box::pin(redeploy(stage)))
        .says("A server that is away for a while, and then knows no session, costs calls but not the connection.")
        .fm(&[3, 70])
        .seconds(90),
    web("close-with-open-call", |stage| Box::pin(open_call(stage)))
        .says("Closing while a call waits for its answer ends both, the closing and the call.")
        .fm(&[67]),
    web("close-unanswered", |stage| Box::pin(unanswered(stage)))
        .says("Closing comes to an end with a server that does not answer the farewell.")
        .era(Era::Legacy)
        .fm(&[67]),
];

fn initializes(site: &Site) -> usize {
    site.count(|seen| seen.says("initialize"))
}

async fn expired(stage: &mut Stage) -> Held {
    let (mut driver, site) = stage.visiting().await?;
    driver.works("at first").await?;
    let before = initializes(&site);
    site.forget_sessions();
    let timeout = driver.timeout();
    driver
        .recovers("after the session expired", timeout)
        .await?;
    let named = site.look(|all| {
        let mut new = all
            .iter()
            .filter(|seen| seen.says("initialize"))
            .skip(before);
        new.find_map(|seen| seen.session().map(str::to_owned))
    });
    match named {
        Some(session) => Finding::broken(format!(
            "The initialize after the session expired named a session, {session}."
        )),
        None => Ok(()),
    }
}

async fn unnoticed(stage: &mut Stage) -> Held {
    let (mut driver, site) = stage.visiting().await?;
    driver.works("at first").await?;
    site.forget_sessions();
    driver.works("that found its session gone").await
}

async fn for_all(stage: &mut Stage) -> Held {
    const CALLS: usize = 8;
    let (mut driver, site) = stage.visiting().await?;
    driver.works("at first").await?;
    let before = initializes(&site);
    site.script(|seen| match seen.calls("echo") {
        true => Act::Leave,
        false => Act::Usual,
    });
    let mut calls = Vec::new();
    for n in 0..CALLS {
        calls.push(driver.call("echo", &n.to_string()).await);
    }
    let mut visits = Vec::new();
    // Some have only so many connections at a time.
    while visits.len() < CALLS
        && let Some(visit) = site
            .visited_within("a call", Duration::from_secs(1), |seen| seen.calls("echo"))
            .await
    {
        visits.push(visit);
    }
    site.script(|_| Act::Usual);
    site.forget_sessions();
    let error = json!({ "code": -32001, "message": "Session not found" });
    let gone = json!({ "jsonrpc": "2.0", "id": null, "error": error });
    for visit in visits {
        visit.say(Answer::json(404, &gone)).await;
    }
    for call in calls {
        driver
            .outcome(call, "One of several calls that found their session gone")
            .await?;
    }
    let timeout = driver.timeout();
    driver
        .recovers("after the session expired", timeout)
        .await?;
    match initializes(&site) - before {
        1 => Ok(()),
        n => Finding::broken(format!(
            "{CALLS} calls found their session gone, and {n} new ones were begun."
        )),
    }
}

async fn in_call(stage: &mut Stage) -> Held {
    let (mut driver, site) = stage.visiting().await?;
    let call = driver.call("slow", "").await;
    let mut visit = site.slow_call().await?;
    visit.open_stream(None).await;
    // Whoever sends it again gets an answer.
    site.script(|seen| match seen.calls("slow") {
        true => Act::answer(seen, "again"),
        false => Act::Usual,
    });
    site.forget_sessions();
    let timeout = driver.timeout();
    driver
        .recovers("after the session expired", timeout)
        .await?;
    // Whoever still listens on the old stream gets it there.
    visit.event(None, &visit.result("late")).await;
    visit.end().await;
    driver
        .outcome(call, "The call that waited while the session expired")
        .await?;
    Ok(())
}

async fn ended(stage: &mut Stage) -> Held {
    let (mut driver, site) = stage.visiting().await?;
    driver.works("at first").await?;
    driver.tell("close", json!({})).await;
    let farewell = site.wait_for("A DELETE of the session", |all| {
        let mut deletes = all.iter().filter(|seen| seen.verb == "DELETE");
        deletes.find_map(|seen| seen.session().map(drop))
    });
    farewell.await
}

async fn redeploy(stage: &mut Stage) -> Held {
    const AWAY: Duration = Duration::from_millis(1500);
    let (mut driver, mut site) = stage.visiting().await?;
    driver.works("at first").await?;
    site.goes_down().await?;
    let call = driver.call("echo", "to nobody").await;
    sleep(AWAY).await;
    site.comes_up()?;
    // Nobody knows when it will be back, so whoever waits does so ever longer.
    let timeout = 2 * driver.timeout();
    if driver
        .outcome_within(call, "a call", timeout)
        .await
        .is_none()
    {
        return Finding::broken(format!(
            "A call while nobody listened did not end within {timeout:?}; {}.",
            driver.whereabouts().await
        ));
    }
    driver.recovers("after a redeploy", timeout).await
}

async fn open_call(stage: &mut Stage) -> Held {
    let (mut driver, site) = stage.visiting().await?;
    let call = driver.call("slow", "").await;
    let _visit = site.slow_call().await?;
    closes(&mut driver).await?;
    driver
        .outcome(call, "The call in flight when the client was closed")
        .await?;
    Ok(())
}

async fn unanswered(stage: &mut Stage) -> Held {
    let (mut driver, site) = stage.visiting().await?;
    driver.works("at first").await?;
    site.script(|seen| match seen.verb == "DELETE" {
        true => Act::Leave,
        false => Act::Usual,
    });
    closes(&mut driver).await
}

async fn closes(driver: &mut crate::client::Driver) -> Held {
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
