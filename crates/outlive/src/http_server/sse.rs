//! HTTP+SSE, the transport of 2024-11-05: a stream to read, and an address to write to.
//!
//! The stream is the session. Its first event names the address for messages, which carries an id
//! nobody can guess; everything the server says comes on the stream, and a message that was posted
//! is answered with 202 and nothing else. When the stream ends, so does the session: this transport
//! has no way to take it up again, and a client that comes back shakes hands anew.

use std::sync::Arc;

use hyper::{Method, StatusCode};
use outlive_core::replay_buffer::Delivery;

use super::arrival::Arrival;
use super::body::Unread;
use super::endpoint::Caller;
use super::listener::HttpListener;
use super::reader::Reader;
use super::refusal::{Refused, accepts, malformed, must_be_json};
use super::replay_buffer::ReplayBuffer;
use super::reply::{self, Reply};
use super::session::{ClientSession, ExchangeGuard};

/// Where the stream is.
pub(super) const STREAM: &str = "/sse";

/// Where messages are posted.
pub(super) const MESSAGES: &str = "/messages";

/// What the session's id is called there.
const SESSION: &str = "session_id";

impl HttpListener {
    /// A client comes.
    pub(super) async fn sse_stream(
        self: &Arc<HttpListener>,
        arrival: &Arrival,
        caller: &Caller<'_>,
    ) -> Refused<Reply> {
        if *arrival.method() != Method::GET {
            return Ok(reply::only("GET"));
        }
        if !accepts(arrival.headers(), "text/event-stream") {
            let sentence = "The client must accept text/event-stream.";
            return Ok(reply::refusal(StatusCode::NOT_ACCEPTABLE, sentence));
        }
        let place = self.stream_place()?;
        let session = self
            .open_session(ReplayBuffer::new(Delivery::OneStream), None, caller)
            .await?;
        let bound = (Bound(self.clone(), session.clone()), place);
        let lease = session.replay.listen();
        let (replay, route) = (session.replay.clone(), session.route.clone());
        // Relative to the stream, if it may be anywhere.
        let messages = match self.mounted {
            true => MESSAGES.trim_start_matches('/'),
            false => MESSAGES,
        };
        let address = format!("{messages}?{SESSION}={}", session.id);
        let reader = Reader::new(replay, route, lease, self.limits.keep_alive);
        let reader = reader.until(&caller.identity);
        Ok(reply::stream(reader.endpoint(&address).binding(bound)))
    }

    /// A message of a client.
    pub(super) async fn sse_message(
        &self,
        arrival: &Arc<Arrival>,
        body: Unread,
        caller: &Caller<'_>,
    ) -> Refused<Reply> {
        if *arrival.method() != Method::POST {
            return Ok(reply::only("POST"));
        }
        must_be_json(arrival.headers())?;
        let Some(id) = session_of(arrival.uri().query().unwrap_or_default()) else {
            let sentence = format!(
                "The message belongs to no session. Open {STREAM} and post to the address that \
                 its first event names."
            );
            return Ok(reply::refusal(StatusCode::BAD_REQUEST, sentence));
        };
        let session = self.find_session(id, true, caller)?;
        let _guard = ExchangeGuard::of(&session);
        let frame = self.read(body, caller).await?;
        if let Some(defect) = frame.defect().filter(|it| it.id_json.is_empty()) {
            return Ok(malformed(defect));
        }
        // What else is wrong with it is said on the stream, as everything is.
        session.route.hear(self.fresh_channel(), frame, arrival);
        Ok(reply::bare(StatusCode::ACCEPTED))
    }
}

/// A session that ends with its stream.
struct Bound(Arc<HttpListener>, Arc<ClientSession>);

impl Drop for Bound {
    fn drop(&mut self) {
        self.0.sessions.end(&self.1.id);
    }
}

fn session_of(query: &str) -> Option<&str> {
    let pairs = query.split('&').filter_map(|pair| pair.split_once('='));
    let id = pairs.into_iter().find(|(name, _)| *name == SESSION)?.1;
    (!id.is_empty()).then_some(id)
}
