//! Sessions over HTTP: unknown, missing, ended, side by side, and streams that are cut (FM-03, FM-04,
//! FM-26, FM-34, FM-39).

use std::time::Duration;

use serde_json::json;

use crate::Era;
use crate::host::{Host, initialize};
use crate::scenario::{Over, Scenario};
use crate::stage::Stage;
use crate::verdict::{Finding, Held};
use crate::web::{Headers, Piece};

use super::http::{cheap, exchange};
use super::{RESPONSES, server};

const SESSIONS: &str = "2025-11-25 basic/transports: Session Management";
const RESUMING: &str = "2025-11-25 basic/transports: Resumability and Redelivery";

pub(super) const SCENARIOS: &[Scenario] = &[
    server("session-unknown", |stage| Box::pin(unknown(stage)))
        .says("A request of a session that is not there is refused with 404.")
        .must(SESSIONS)
        .over(Over::Http)
        .era(Era::Legacy)
        .fm(&[3, 4]),
    server("session-missing", |stage| Box::pin(missing(stage)))
        .says("A request without the session it needs is refused with 400.")
        .should(SESSIONS)
        .over(Over::Http)
        .era(Era::Legacy)
        .fm(&[4]),
    server("session-deleted", |stage| Box::pin(deleted(stage)))
        .says("A session that was deleted is gone: its requests are refused with 404.")
        .must(SESSIONS)
        .over(Over::Http)
        .era(Era::Legacy)
        .fm(&[3, 39]),
    server("session-stale-at-initialize", |stage| {
        Box::pin(stale(stage))
    })
    .says("An initialize that carries a stale session begins a new one.")
    .over(Over::Http)
    .era(Era::Legacy)
    .fm(&[4]),
    server("sessions-side-by-side", |stage| {
        Box::pin(side_by_side(stage))
    })
    .says("Clients that use the same ids at the same time each get their own answers.")
    .must(RESPONSES)
    .over(Over::Http)
    .fm(&[34]),
    server("stream-cut-and-resumed", |stage| Box::pin(resumed(stage)))
        .says("An answer whose stream was cut after an event id can be fetched with Last-Event-ID.")
        .should(RESUMING)
        .over(Over::Http)
        .era(Era::Legacy)
        .fm(&[26, 46]),
];

/// A host whose server gave it a session.
async fn with_session(stage: &mut Stage) -> Result<(Host, String), Finding> {
    let mut host = stage.ready().await?;
    match host.web().session() {
        Some(session) => Ok((host, session)),
        None => Finding::not_applicable("the server has no sessions"),
    }
}

/// The same headers with another session, or none.
fn in_session(headers: &Headers, session: Option<&str>) -> Headers {
    let others = headers
        .iter()
        .filter(|(name, _)| name != "Mcp-Session-Id")
        .cloned();
    let session = session.map(|session| ("Mcp-Session-Id".to_owned(), session.to_owned()));
    others.chain(session).collect()
}

/// A cheap request in a session, or in none, comes to this status.
async fn comes_to(host: &mut Host, session: Option<&str>, status: u16, what: &str) -> Held {
    let (message, headers) = cheap(host);
    let headers = in_session(&headers, session);
    let body = message.to_string();
    let reply = exchange(host, "POST", &headers, body.as_bytes(), what).await?;
    match reply.status == status {
        true => Ok(()),
        false => Finding::broken(format!("{what} was answered with status {}.", reply.status)),
    }
}

async fn unknown(stage: &mut Stage) -> Held {
    let (mut host, session) = with_session(stage).await?;
    // Of the same kind as a real one, so that it is not refused for its looks.
    let other: String = session.chars().rev().collect();
    let other = if other == session {
        format!("{session}0")
    } else {
        other
    };
    comes_to(
        &mut host,
        Some(&other),
        404,
        "A request of an unknown session",
    )
    .await?;
    host.serves("after a request of an unknown session").await
}

async fn missing(stage: &mut Stage) -> Held {
    let (mut host, _) = with_session(stage).await?;
    comes_to(&mut host, None, 400, "A request without its session").await?;
    host.serves("after a request without its session").await
}

async fn deleted(stage: &mut Stage) -> Held {
    let (mut host, session) = with_session(stage).await?;
    host.serves("at first").await?;
    let (_, headers) = cheap(&mut host);
    let reply = exchange(&mut host, "DELETE", &headers, b"", "DELETE").await?;
    match reply.status {
        405 => return Finding::not_applicable("the server does not let clients delete sessions"),
        200..300 => {}
        status => return Finding::broken(format!("DELETE was answered with status {status}.")),
    }
    comes_to(
        &mut host,
        Some(&session),
        404,
        "A request of a deleted session",
    )
    .await?;
    let mut other = stage.ready().await?;
    other.serves("after another session was deleted").await
}

async fn stale(stage: &mut Stage) -> Held {
    let (mut host, session) = with_session(stage).await?;
    let id = host.next_id();
    let message = host.message(&id, "initialize", initialize(Era::Legacy.newest()));
    let other: String = session.chars().rev().collect();
    let headers = in_session(&host.web().headers(&message), Some(&other));
    let body = message.to_string();
    let what = "An initialize with a stale session";
    let reply = exchange(&mut host, "POST", &headers, body.as_bytes(), what).await?;
    match (reply.status, reply.header("Mcp-Session-Id")) {
        (200, Some(fresh)) if fresh != other => Ok(()),
        (200, _) => Finding::broken(format!("{what} got no session of its own.")),
        (status, _) => Finding::broken(format!("{what} was refused with status {status}.")),
    }
}

async fn side_by_side(stage: &mut Stage) -> Held {
    const ROUNDS: usize = 10;
    let (mut one, mut other) = (stage.ready().await?, stage.ready().await?);
    if let (Some(one), Some(other)) = (one.web().session(), other.web().session())
        && one == other
    {
        return Finding::broken("Two clients were given the same session.");
    }
    for round in 1..=ROUNDS {
        // Answers that tell whose they are.
        let listed = one.request("tools/list", json!({})).await;
        let cheap = other.request(other.cheapest(), json!({})).await;
        let what = format!("tools/list of the first client, round {round} of {ROUNDS},");
        let list = one.answer(&listed, &what).await?;
        let what = format!("the request of the second client, round {round} of {ROUNDS},");
        let answer = other.answer(&cheap, &what).await?;
        if list["result"].get("tools").is_none() || answer["result"].get("tools").is_some() {
            let seen = format!("{listed} and {cheap} were answered with {list} and {answer}");
            return Finding::broken(format!("The clients got each other's answers: {seen}"));
        }
    }
    Ok(())
}

async fn resumed(stage: &mut Stage) -> Held {
    let slow = stage.slow()?;
    let (mut host, _) = with_session(stage).await?;
    let timeout = host.timeout();
    let id = host.next_id();
    let mut params = slow.params();
    params["_meta"] = json!({ "progressToken": "cut" });
    let message = host.message(&id, "tools/call", params);
    let headers = host.web().headers(&message);
    let body = message.to_string();
    let mut reply = exchange(&mut host, "POST", &headers, body.as_bytes(), "A slow call").await?;
    let first = tokio::time::timeout(timeout, reply.piece()).await;
    let Ok(Ok(Some(Piece::Event(event)))) = first else {
        return Finding::not_applicable("the server answered without a stream");
    };
    let Some(cursor) = event.id else {
        return Finding::not_applicable("the server's events have no ids");
    };
    host.note(format!("the stream is cut after the event {cursor}"));
    drop(reply);
    host.linger(Duration::from_millis(200)).await;
    let mut headers = headers;
    headers.retain(|(name, _)| !name.starts_with("Accept") && !name.starts_with("Content"));
    headers.push(("Accept".into(), "text/event-stream".into()));
    headers.push(("Last-Event-ID".into(), cursor));
    let what = "GET with Last-Event-ID";
    let mut reply = exchange(&mut host, "GET", &headers, b"", what).await?;
    if reply.status != 200 {
        return Finding::broken(format!("{what} was answered with status {}.", reply.status));
    }
    let answered = tokio::time::timeout(timeout, async {
        while let Ok(Some(piece)) = reply.piece().await {
            let Piece::Event(event) = piece else { continue };
            let message =
                serde_json::from_str::<serde_json::Value>(&event.data).unwrap_or_default();
            if message["id"] == id.0 && message.get("result").is_some() {
                return true;
            }
        }
        false
    });
    match answered.await {
        Ok(true) => Ok(()),
        Ok(false) => Finding::broken("The resumed stream ended without the answer."),
        Err(_) => Finding::broken(format!(
            "The resumed stream had no answer within {timeout:?}."
        )),
    }
}
