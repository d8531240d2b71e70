//! The stream on which a legacy server speaks unasked.
//!
//! It is optional: a server that refuses it is used without it. One that cuts it now and then gets it back
//! at once, behind the last event; one that ends every stream as soon as it is opened is asked ever
//! more rarely (FM-25). Its end says nothing about the session.

use std::sync::Arc;
use std::time::Instant;

use outlive_core::LinkInput;
use outlive_core::reconnect::Reconnect;
use reqwest::Response;
use tokio::time::sleep;

use super::exchange::is_stream;
use super::heartbeat::Heartbeat;
use super::report::{self, Mark, Marks, Report, Reports};
use super::session::{Failure, HttpSession};
use outlive_core::sse::Events;

/// Keeps the stream open for as long as the link lives. Whoever waits to send is told when the server listens: see
/// [`outlive_core::dispatch`].
pub(super) async fn run(session: Arc<HttpSession>, reports: Reports, marks: Marks) {
    let listened = Listened(&marks);
    keep_open(&session, &reports, &listened).await;
}

/// However it ends, nobody waits for it.
struct Listened<'a>(&'a Marks);

impl Listened<'_> {
    fn is(&self, mark: Mark) {
        // Without a link there is nobody to tell.
        let _ = self.0.send(mark);
    }
}

impl Drop for Listened<'_> {
    fn drop(&mut self) {
        self.is(Mark::Listened);
    }
}

async fn keep_open(session: &HttpSession, reports: &Reports, listened: &Listened<'_>) {
    let mut events = Events::new(session.limit);
    let mut pauses = Reconnect::of_the_server();
    let mut was_open = false;
    loop {
        let begun = Instant::now();
        let answer = session.get(events.cursor()).await;
        listened.is(Mark::Listened);
        match answer {
            Ok(response) if response.status().is_success() && is_stream(&response) => {
                was_open = true;
                events.resume(session.limit);
                read(session, response, &mut events, reports).await;
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
        let healthy = pauses.ended(begun.elapsed());
        let pause = pauses.next(events.retry());
        // A stream that broke is opened again before anybody calls, unless that takes long.
        if healthy && was_open {
            listened.is(Mark::Listening);
        }
        sleep(pause).await;
        if !healthy && was_open {
            listened.is(Mark::Listening);
        }
    }
}

async fn read(
    session: &HttpSession,
    mut response: Response,
    events: &mut Events,
    reports: &Reports,
) {
    let mut heartbeat = Heartbeat::new();
    while let Ok(Some(bytes)) = heartbeat.chunk(session, &mut response).await {
        let read = events.read(&bytes);
        heartbeat.note(&read);
        for event in read {
            report::pass_on(reports, event).await;
        }
    }
}
