//! A message on its way to a route, and what becomes of the answer.

use std::sync::Arc;
use std::time::Duration;

use hyper::StatusCode;
use memchr::memmem;
use outlive_core::message::Kind as MessageKind;
use outlive_core::protocol::code;
use outlive_core::{Frame, Id, Message};
use serde::Deserialize;

use super::Route;
use super::arrival::Arrival;
use super::durable::{Durable, requests_of};
use super::endpoint::Caller;
use super::forward::{self, elsewhere};
use super::listener::HttpListener;
use super::reader::Reader;
use super::refusal::{lost, malformed};
use super::replay_buffer::{Beginning, ReplayBuffer};
use super::reply::{self, Reply};

/// An answer that comes this soon is a plain response; for a later one a stream is opened, so
/// that everybody on the way sees that something is going on.
const PROMPT: Duration = Duration::from_millis(250);

/// A message on its way to a route, and what comes back.
pub(super) struct HttpExchange<'a> {
    pub(super) http_listener: &'a HttpListener,
    pub(super) replay: &'a Arc<ReplayBuffer>,
    pub(super) route: &'a Arc<dyn Route>,
    /// What is kept of its session elsewhere, if anything is.
    pub(super) durable: Option<&'a Arc<Durable>>,
    /// The client knows events without a message.
    pub(super) primed: bool,
    pub(super) caller: &'a Caller<'a>,
}

impl HttpExchange<'_> {
    /// The head of the request is let go of as soon as the route has it, and with it the buffer that it came in.
    pub(super) async fn run(&self, frame: Frame, arrival: Arc<Arrival>) -> Reply {
        let (defect, message) = (frame.defect().cloned(), frame.message());
        let asked = message.filter(|message| message.kind() == MessageKind::Request);
        // What is no request has no answer that could come on a stream: it is accepted when the route has it.
        let told = asked.is_none() && message.is_some();
        let asked = asked.cloned();
        if self.replay.is_sealed() {
            return match self.caller.check() {
                Ok(()) => reply::busy("The server is shutting down."),
                Err(refusal) => *refusal,
            };
        }
        let requests = self.durable.map(|_| requests_of(&frame));
        if let Some(durable) = self.durable
            && (durable.note(&frame).await.is_err() || !durable.may_act())
        {
            return match self.caller.is_forwarded {
                true => elsewhere(),
                false => lost(),
            };
        }
        let (mut reader, at_once) = self.hear(frame, arrival);
        let prompt = (!told).then_some((self.caller.deadline, PROMPT));
        match reader.beginning(prompt).await {
            // Whoever has the session by now knows nothing of this; so it is settled here.
            Beginning::Silence | Beginning::Answer(_)
                if asked.is_some() && self.durable.is_some_and(|it| !it.may_act()) =>
            {
                self.settled(asked.as_ref())
            }
            Beginning::Silence => match (&defect, &asked) {
                (Some(defect), _) => malformed(defect),
                (None, Some(asked)) if self.replay.is_sealed() || reader.is_withdrawn() => {
                    reply::json(StatusCode::OK, reader.unfinished(asked).into_bytes())
                }
                (None, _) => reply::bare(StatusCode::ACCEPTED),
            },
            Beginning::Answer(_) if self.durable.is_some_and(|it| !it.may_act()) => {
                self.settled(asked.as_ref())
            }
            Beginning::Answer(answer) => {
                let refused = told.then(|| refused_notification(&answer)).flatten();
                let status = match (refused, self.replay.is_resumable()) {
                    (Some(code::INVALID_REQUEST), _) => StatusCode::BAD_REQUEST,
                    (Some(_), _) => return reply::later(answer.into_bytes()),
                    (None, true) if defect.is_some() => StatusCode::BAD_REQUEST,
                    (None, true) => StatusCode::OK,
                    (None, false) => modern_status(&answer, at_once),
                };
                reply::json(status, answer.into_bytes())
            }
            Beginning::Stream => {
                let reader = match self.durable {
                    // If this process ends, another answers on this stream.
                    Some(durable) => {
                        let requests = requests.unwrap_or_default();
                        let promise = durable.promise(self.replay, reader.lease(), requests);
                        if promise.await.is_err() {
                            return self.settled(asked.as_ref());
                        }
                        reader
                    }
                    None => reader.answering(asked.as_ref()),
                };
                reply::stream(match self.primed {
                    true => reader.primed(),
                    false => reader,
                })
            }
        }
    }

    /// The answer when the session was lost after the message was handed on: nobody knows whether it was carried out.
    fn settled(&self, asked: Option<&Message>) -> Reply {
        match asked {
            Some(asked) => {
                let answer = forward::lost(asked, &self.route.label());
                reply::json(StatusCode::OK, answer.into_bytes())
            }
            None => reply::refusal(
                StatusCode::BAD_GATEWAY,
                "Another process answers for this session by now, and it is not known what became of this.",
            ),
        }
    }

    /// As [`Exchange::run`]; with the answer, if it is a result.
    pub(super) async fn handshake(
        &self,
        opening: Message,
        arrival: Arc<Arrival>,
    ) -> (Reply, Option<Message>) {
        let (mut reader, _) = self.hear(Frame::Message(opening), arrival);
        // However long the route takes: there is no stream before there is a session.
        match reader.beginning(None).await {
            Beginning::Answer(answer) => {
                let shaken = error_code(&answer).is_none().then(|| answer.clone());
                (reply::json(StatusCode::OK, answer.into_bytes()), shaken)
            }
            Beginning::Silence | Beginning::Stream => {
                let sentence = match self.replay.is_sealed() {
                    true => "The server is shutting down.",
                    false => "The server has not answered.",
                };
                (reply::busy(sentence), None)
            }
        }
    }

    /// Hands a frame on. True if the route was done with it at once.
    fn hear(&self, frame: Frame, arrival: Arc<Arrival>) -> (Reader, bool) {
        let channel = self.http_listener.fresh_channel();
        let lease = self.replay.open(channel);
        let keep_alive = self.http_listener.limits.keep_alive;
        let mut reader = Reader::new(self.replay.clone(), self.route.clone(), lease, keep_alive)
            .until(&self.caller.identity);
        if frame
            .message()
            .is_some_and(|it| it.is("subscriptions/listen"))
        {
            reader = reader.expiring(&self.caller.identity);
        }
        let at_once = self.route.hear(channel, frame, &arrival);
        (reader, at_once)
    }
}

/// The code of the error that this message is.
pub(super) fn error_code(answer: &Message) -> Option<i64> {
    #[derive(Deserialize)]
    struct Coded {
        code: i64,
    }
    let error: Coded = serde_json::from_slice(answer.error()?).ok()?;
    Some(error.code)
}

/// The code of an error without an id: it refuses a notification (2026-07-28, transports).
pub(super) fn refused_notification(answer: &Message) -> Option<i64> {
    let nobodys = answer.id() == Some(&Id::Null);
    nobodys.then(|| error_code(answer)).flatten()
}

/// Whether this error says that the server knows no modern requests: then a client that knows both
/// eras has to see a status that makes it fall back (2026-07-28, versioning).
pub(super) fn is_unsupported(answer: &Message) -> bool {
    let error = answer.error().unwrap_or_default();
    memmem::find(error, br#""outlive":{"kind":"unsupported""#).is_some()
}

/// The status that 2026-07-28 wants for an answer. What the request itself got wrong is found out
/// before anything runs, so those errors are there at once; the same code from a handler is a
/// matter between it and its caller.
pub(super) fn modern_status(answer: &Message, at_once: bool) -> StatusCode {
    match error_code(answer) {
        Some(code::METHOD_NOT_FOUND) => StatusCode::NOT_FOUND,
        Some(code) if code::is_modern_only(code) => StatusCode::BAD_REQUEST,
        Some(code::INVALID_PARAMS | code::INVALID_REQUEST | code::PARSE_ERROR) if at_once => {
            StatusCode::BAD_REQUEST
        }
        Some(code::INVALID_REQUEST) if is_unsupported(answer) => StatusCode::BAD_REQUEST,
        _ => StatusCode::OK,
    }
}
