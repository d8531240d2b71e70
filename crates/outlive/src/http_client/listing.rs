//! A server says that the headers of a call are wrong: its tools are listed again.
//!
//! Which arguments are mirrored stands in the list of tools, and that may have changed since anybody asked
//! for it; or the host knows its tools from elsewhere and has never asked. So the client is to look,
//! and to send the call again with the headers it should have had (2026-07-28, Client Behavior).

use std::time::Duration;

use bytes::BytesMut;
use outlive_core::message::Kind;
use outlive_core::{Frame, Message};
use reqwest::Response;
use reqwest::header::HeaderMap;
use serde_json::{Value, json};
use tokio::time::timeout;

use super::exchange::is_stream;
use super::session::{HttpSession, Written};
use outlive_core::sse::{Event, Events};

/// Longer than a list takes.
const PATIENCE: Duration = Duration::from_secs(30);
/// No list has more pages.
const PAGES: usize = 100;
/// The metadata that belongs to the call, not to us.
const PROGRESS: &str = "progressToken";

/// The headers this call should have had; none if there are no better ones than those it had.
pub(super) async fn better_headers(
    session: &HttpSession,
    call: &Message,
    had: &HeaderMap,
) -> Option<HeaderMap> {
    let better = || Some(session.known.mirror().headers(call)).filter(|headers| headers != had);
    // One at a time: whoever waited may find that another has looked already.
    let _alone = session.listing.lock().await;
    if let Some(headers) = better() {
        return Some(headers);
    }
    // Whatever it has learnt until then helps.
    let _ = timeout(PATIENCE, pages(session, call)).await;
    better()
}

async fn pages(session: &HttpSession, call: &Message) -> Option<()> {
    let mut meta: Value = serde_json::from_slice(call.meta()?).ok()?;
    meta.as_object_mut()?.remove(PROGRESS);
    let wanted = call.name()?;
    let mut params = json!({ "_meta": meta });
    for page in 1..=PAGES {
        let id = format!("outlive-tools-{page}");
        let (id, params_json) = (json!(id).to_string(), params.to_string());
        let request = Message::request(id.as_bytes(), "tools/list", params_json.as_bytes());
        let headers = session.known.mirror().headers(&request);
        let posted = session.post(&request, headers, Written::unmarked());
        let response = posted.await.ok()?;
        let answer = answer(session, response).await?;
        session.known.mirror().learn(&answer);
        let result: Value = serde_json::from_slice(answer.result()?).ok()?;
        let tools = result["tools"].as_array()?;
        if tools.iter().any(|tool| tool["name"] == *wanted) {
            return Some(());
        }
        params["cursor"] = result.get("nextCursor")?.clone();
    }
    None
}

/// The message in a response.
async fn answer(session: &HttpSession, mut response: Response) -> Option<Message> {
    if is_stream(&response) {
        let mut events = Events::new(session.limit);
        while let Ok(Some(bytes)) = session.chunk(&mut response).await {
            for event in events.read(&bytes) {
                if let Event::Message(Frame::Message(message)) = event
                    && message.kind() == Kind::Response
                {
                    return Some(message);
                }
            }
        }
        return None;
    }
    let mut body = BytesMut::new();
    while let Some(bytes) = session.chunk(&mut response).await.ok()? {
        if body.len() + bytes.len() > session.limit {
            return None;
        }
        body.extend_from_slice(&bytes);
    }
    match Frame::read_body(body.freeze()) {
        Frame::Message(message) => Some(message),
        _ => None,
    }
}
