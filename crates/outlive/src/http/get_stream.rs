//! The stream on which a legacy server speaks unasked.
//!
//! It is optional: a server that refuses it is used without it. One that cuts it now and then gets it back
//! at once, behind the last event; one that ends every stream as soon as it is opened is asked ever
//! more rarely (FM-25). Its end says nothing about the session.

use std::sync::Arc;
use std::time::{Duration, Instant};

use outlive_core::LinkInput;
use reqwest::Response;
use tokio::time::sleep;

use super::exchange::is_stream;
use super::report::{self, Report, Reports};
use super::rhythm::Rhythm;
use super::session::{Failure, Session};
use super::sse::Events;

/// The pause after a stream that was short, …
const FIRST_PAUSE: Duration = Duration::from_secs(1);
/// … and the longest.
const MOST_PAUSE: Duration = Duration::from_secs(60);
/// A stream open for this long was healthy.
const HEALTHY: Duration = Duration::from_secs(10);

/// Keeps the stream open for as long as the link lives.
pub(super) async fn run(session: Arc<Session>, reports: Reports) {
    let mut events = Events::new(session.limit);
    let mut pause = FIRST_PAUSE;
    let mut was_open = false;
    loop {
        let begun = Instant::now();
        match session.get(events.cursor()).await {
            Ok(response) if response.status().is_success() && is_stream(&response) => {
                was_open = true;
                events.resume(session.limit);
                read(&session, response, &mut events, &reports).await;
            }
            Ok(response) => {
                let status = response.status();
                if status.as_u16() == 404 && was_open && session.is_named() {
                    let (id, status) = (None, status.as_u16());
                    let expired = Report::Input(LinkInput::Expired { id, status });
                    let _ = reports.send(expired).await;
                    return;
                }
                // Another stream of ours may not have been given up yet (409).
                let passing = status.is_server_error() || matches!(status.as_u16(), 409 | 429);
                if !passing || status.as_u16() == 501 {
                    return;
                }
            }
            Err(Failure::Unsent(words)) if was_open => {
                let _ = reports.send(Report::Absent(words)).await;
            }
            Err(Failure::Unsent(_) | Failure::Broken(_)) => {}
            Err(Failure::Elsewhere(..)) => return,
        }
        if begun.elapsed() >= HEALTHY {
            pause = FIRST_PAUSE;
            sleep(events.retry().unwrap_or_default()).await;
        } else {
            sleep(events.retry().unwrap_or_default().max(pause)).await;
            pause = (pause * 2).min(MOST_PAUSE);
        }
    }
}

async fn read(session: &Session, mut response: Response, events: &mut Events, reports: &Reports) {
    let mut rhythm = Rhythm::new();
    while let Ok(Some(bytes)) = rhythm.chunk(session, &mut response).await {
        let read = events.read(&bytes);
        rhythm.note(&read);
        for event in read {
            report::pass_on(reports, event).await;
        }
    }
}
