//! The stream of an HTTP+SSE server (2024-11-05): everything the server says comes on it.

use std::sync::Arc;
use std::time::Duration;

use outlive_core::LinkInput;
use reqwest::Response;
use tokio::time::timeout;

use super::exchange::is_stream;
use super::report::{self, Report, Reports};
use super::session::{Failure, HttpSession};
use outlive_core::sse::{Event, Events};

/// How long a server may take to say where messages go.
const PATIENCE: Duration = Duration::from_secs(10);

/// A stream that has told where messages go.
#[derive(Debug)]
pub(super) struct Channel {
    response: Response,
    events: Events,
    /// What came with the address.
    begun: Vec<Event>,
}

/// Opens the stream and waits for the address; why there is none.
pub(super) async fn open(session: Arc<HttpSession>, reports: Reports) {
    let opened = match timeout(PATIENCE, opening(&session)).await {
        Ok(opened) => opened,
        Err(_) => Err((
            format!("no `endpoint` event within {} s", PATIENCE.as_secs()),
            false,
        )),
    };
    let report = match opened {
        Ok(channel) => Report::Opened(Box::new(channel)),
        Err((why, absent)) => Report::Unopened(why, absent),
    };
    let _ = reports.send(report).await;
}

async fn opening(session: &HttpSession) -> Result<Channel, (String, bool)> {
    let response = match session.get(None).await {
        Ok(response) => response,
        Err(Failure::Unsent(words) | Failure::Broken(words)) => return Err((words, true)),
        Err(Failure::Elsewhere(_, why)) => return Err((why, false)),
    };
    let passing = response.status().is_server_error();
    address(session, response)
        .await
        .map_err(|why| (why, passing))
}

/// Waits for the event that says where messages go.
async fn address(session: &HttpSession, mut response: Response) -> Result<Channel, String> {
    let status = response.status();
    if !status.is_success() {
        return Err(format!("status {}", status.as_u16()));
    }
    if !is_stream(&response) {
        return Err("what came was no stream of events".into());
    }
    let mut events = Events::new(session.limit);
    while let Some(bytes) = session.chunk(&mut response).await? {
        let mut begun = events.read(&bytes);
        begun.retain(|event| *event != Event::Comment);
        let mut begun = begun.into_iter();
        let Some(event) = begun.next() else { continue };
        let Event::Endpoint(address) = event else {
            return Err("the first event was no `endpoint`".into());
        };
        let url = session.url();
        let endpoint = url.join(&address).map_err(|error| error.to_string())?;
        // Whoever names another origin may only want our credentials.
        if endpoint.origin() != url.origin() {
            return Err("the `endpoint` is at another origin".into());
        }
        session.set_url(endpoint);
        return Ok(Channel {
            response,
            events,
            begun: begun.collect(),
        });
    }
    Err("the stream ended without an `endpoint` event".into())
}

impl Channel {
    /// Passes on what the server says until the stream ends, and with it the link.
    pub(super) async fn run(mut self, session: Arc<HttpSession>, reports: Reports) {
        let mut events = std::mem::take(&mut self.begun);
        let error = loop {
            for event in events.drain(..) {
                report::pass_on(&reports, event).await;
            }
            match session.chunk(&mut self.response).await {
                Ok(Some(bytes)) => events = self.events.read(&bytes),
                Ok(None) => break None,
                Err(words) => break Some(words),
            }
        };
        let over = LinkInput::Disconnected {
            error,
            sent: u64::MAX,
        };
        let _ = reports.send(Report::Input(over)).await;
    }
}
