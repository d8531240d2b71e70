//! One message, one POST, and what comes back.
//!
//! A request is answered in the response, as JSON or at the end of a stream of events. If the stream
//! ends without the answer, the request is lost, at once (FM-06), unless the server has given its
//! events ids: then it keeps the rest for whoever asks for it with the last of them (FM-26).

use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use bytes::BytesMut;
use outlive_core::link::RequestFailure;
use outlive_core::message::Kind;
use outlive_core::protocol::code;
use outlive_core::reconnect::Reconnect;
use outlive_core::{Frame, Framer, Id, LinkInput, Message};
use reqwest::Response;
use reqwest::header::{CONTENT_TYPE, HeaderMap, RETRY_AFTER};
use serde::Deserialize;
use tokio::time::{sleep, timeout};

use super::heartbeat::Heartbeat;
use super::report::{self, Mark, Marks, Report, Reports};
use super::session::{Failure, HttpSession, Written};
use super::verdict::{Refusal, has_error, is_own, one_line, retry_after, sounds_lost};
use super::{era, listing};
use outlive_core::sse::{Event, Events};

/// How long the words of a refusal are waited for, and how many of them are read.
const REFUSAL: Duration = Duration::from_secs(5);
const REFUSAL_BYTES: usize = 64 << 10;
/// How long a server may take to accept what needs no answer.
const ACCEPT: Duration = Duration::from_secs(30);
/// How long a server may take to end a stream after the answer, so that the connection can be used again.
const TAIL: Duration = Duration::from_millis(200);
/// Attempts to resume that may fail in a row.
const MOST_ATTEMPTS: u32 = 4;

/// A request and where it goes.
pub(super) struct Exchange {
    pub(super) session: Arc<HttpSession>,
    /// Its place in the order of sending.
    pub(super) number: u64,
    pub(super) message: Message,
    /// Answers come on another stream (HTTP+SSE).
    pub(super) aside: bool,
    /// The server may be one that speaks HTTP+SSE.
    pub(super) may_be_sse: bool,
    pub(super) reports: Reports,
    pub(super) marks: Marks,
}

/// How an exchange ended.
enum End {
    Answered,
    /// Accepted; the answer comes on another stream.
    Aside,
    /// Not answered.
    Without(LinkInput),
    /// Answered with a refusal that may be about the session.
    Doubtful(LinkInput),
    /// Refused as by a server that speaks HTTP+SSE.
    Refused(u16),
}

/// What an answer to `initialize` or `server/discover` says.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Welcome {
    protocol_version: Option<String>,
    #[serde(default)]
    supported_versions: Vec<String>,
}

impl Exchange {
    /// Has the request answered, or tells why not.
    pub(super) async fn run(self) {
        let id = self.message.id().cloned().unwrap_or(Id::Null);
        match self.answer(&id).await {
            End::Answered => {}
            End::Aside => return,
            End::Without(input) => self.report(Report::Input(input)).await,
            End::Doubtful(input) => {
                self.report(Report::Input(input)).await;
                self.report(Report::Input(LinkInput::MaybeExpired)).await;
            }
            End::Refused(status) => {
                let message = Box::new(self.message.clone());
                return self
                    .report(Report::Refused(self.number, message, status))
                    .await;
            }
        }
        self.report(Report::Over(self.number)).await;
    }

    async fn report(&self, report: Report) {
        // Without a link there is nobody to tell.
        let _ = self.reports.send(report).await;
    }

    async fn answer(&self, id: &Id) -> End {
        let in_session = self.session.is_named();
        let mut headers = headers(&self.session, &self.message);
        let mut once = self.message.is_modern() && self.message.is("tools/call");
        let response = loop {
            let written = Written::new(self.number, &self.marks);
            let posted = self.session.post(&self.message, headers.clone(), written);
            let response = match posted.await {
                Ok(response) => response,
                Err(failure) => return End::Without(self.failed(id, failure)),
            };
            if response.status().is_success() {
                break response;
            }
            let refusal = refusal(response, in_session).await;
            // It was not executed, so it can be sent again.
            if refusal.code() == Some(code::HEADER_MISMATCH)
                && std::mem::take(&mut once)
                && let Some(better) =
                    listing::better_headers(&self.session, &self.message, &headers).await
            {
                headers = better;
                continue;
            }
            return self.refused(id, refusal);
        };
        if self.message.is("initialize") && !self.aside {
            self.session.note_name(&response);
        }
        if self.aside {
            return End::Aside;
        }
        match is_stream(&response) {
            true => self.stream(id, response).await,
            false => self.body(id, response).await,
        }
    }

    /// What becomes of a request that was refused.
    fn refused(&self, id: &Id, refusal: Refusal) -> End {
        if self.may_be_sse && refusal.may_be_sse() {
            return End::Refused(refusal.status);
        }
        let known = &self.session.known;
        if self.message.is_modern() && refusal.code().is_some_and(code::is_modern_only) {
            known.set_modern(true);
        } else if self.message.is_modern() && refusal.is_of_legacy() {
            // A modern server has to answer this one.
            if self.message.is("server/discover") {
                known.set_modern(false);
            }
            if !known.is_modern() {
                return End::Without(LinkInput::Unanswered {
                    id: id.clone(),
                    failure: era::legacy_only(&refusal),
                });
            }
        }
        match refusal.verdict(&self.message) {
            (LinkInput::Frame(Frame::Message(answer)), _) if self.message.is("initialize") => {
                End::Without(LinkInput::Frame(Frame::Message(era::explain(answer))))
            }
            (input, true) => End::Doubtful(input),
            (input, false) => End::Without(input),
        }
    }

    fn failed(&self, id: &Id, failure: Failure) -> LinkInput {
        let failure = match failure {
            Failure::Unsent(words) => RequestFailure::Unsent(words),
            Failure::Broken(words) => RequestFailure::Lost(words),
            Failure::Elsewhere(status, why) => RequestFailure::Elsewhere { status, why },
        };
        LinkInput::Unanswered {
            id: id.clone(),
            failure,
        }
    }

    /// The answer is the body.
    async fn body(&self, id: &Id, mut response: Response) -> End {
        let mut framer = Framer::new(self.session.limit);
        let stall = self.session.stall();
        loop {
            let chunk = match timeout(stall, self.session.chunk(&mut response)).await {
                Ok(Ok(Some(chunk))) => chunk,
                Ok(Ok(None)) => break,
                Ok(Err(words)) => return lost(id, words),
                Err(_) => {
                    self.session.note_break();
                    return lost(id, format!("its answer stopped for {} s", stall.as_secs()));
                }
            };
            framer.spare().extend_from_slice(&one_line(&chunk));
            let whole = framer.next_line();
            debug_assert!(whole.is_none(), "there are no line ends");
        }
        framer.spare().extend_from_slice(b"\n");
        let Some(frame) = framer.next_frame() else {
            return lost(
                id,
                format!("status {} without an answer", response.status().as_u16()),
            );
        };
        // Whose it is instead, nobody knows: the other has an exchange of its own.
        if let Some(message) = frame.message()
            && message.kind() == Kind::Response
            && !(is_answer(message, id) && (message.error().is_none() || has_error(message)))
        {
            return lost(id, "its response was no answer to this request".into());
        }
        match self.deliver(id, frame, true).await {
            true => End::Answered,
            false => lost(id, "its response was no answer".into()),
        }
    }

    /// The answer ends a stream.
    async fn stream(&self, id: &Id, mut response: Response) -> End {
        let mut events = Events::new(self.session.limit);
        let mut pauses = Reconnect::of_a_call();
        loop {
            let begun = Instant::now();
            let why = match self.read(id, &mut response, &mut events).await {
                Ok(()) => return End::Answered,
                Err(why) => why,
            };
            // Streams of the modern era are not resumed: with the stream the request is gone.
            if self.message.is_modern() || events.cursor().is_none() {
                return lost(id, why);
            }
            pauses.ended(begun.elapsed());
            response = match self.resume(&mut events, &mut pauses).await {
                Ok(response) => response,
                Err(also) => return lost(id, format!("{why}; resuming: {also}")),
            };
        }
    }

    /// Reads a stream to the answer; why it ended without.
    async fn read(
        &self,
        id: &Id,
        response: &mut Response,
        events: &mut Events,
    ) -> Result<(), String> {
        let mut answered = false;
        let listens = self.message.is("subscriptions/listen");
        let mut heartbeat = Heartbeat::new();
        loop {
            let chunk = match (answered, listens) {
                (false, false) => self.session.chunk(response).await,
                (false, true) => heartbeat.chunk(&self.session, response).await,
                (true, _) => match timeout(TAIL, self.session.chunk(response)).await {
                    Ok(chunk) => chunk,
                    Err(_) => return Ok(()),
                },
            };
            match chunk {
                Ok(Some(bytes)) => {
                    let read = events.read(&bytes);
                    heartbeat.note(&read);
                    for event in read {
                        match event {
                            Event::Message(frame) => {
                                answered |= self.deliver(id, frame, false).await;
                            }
                            other => report::pass_on(&self.reports, other).await,
                        }
                    }
                }
                _ if answered => return Ok(()),
                Ok(None) => {
                    self.session.note_break();
                    return Err("its stream ended without an answer".into());
                }
                Err(words) => return Err(words),
            }
        }
    }

    /// Asks for the rest of a stream.
    async fn resume(
        &self,
        events: &mut Events,
        pauses: &mut Reconnect,
    ) -> Result<Response, String> {
        let mut failures = 0;
        loop {
            sleep(pauses.next(events.retry())).await;
            let why = match self.session.get(events.cursor()).await {
                Ok(response) if response.status().is_success() && is_stream(&response) => {
                    events.resume(self.session.limit);
                    return Ok(response);
                }
                Ok(response) => {
                    let status = response.status();
                    let why = format!("status {}", status.as_u16());
                    if !status.is_server_error() && status.as_u16() != 429 {
                        return Err(why);
                    }
                    why
                }
                Err(Failure::Unsent(words) | Failure::Broken(words)) => words,
                Err(Failure::Elsewhere(..)) => return Err("it has moved".into()),
            };
            failures += 1;
            if failures == MOST_ATTEMPTS {
                return Err(why);
            }
        }
    }

    /// Passes on what the server says; tells whether that answers the request. `alone`: it is all
    /// the server says, so if it cannot be read, it is the answer all the same.
    async fn deliver(&self, id: &Id, frame: Frame, alone: bool) -> bool {
        let answers = match &frame {
            Frame::Message(message) => is_answer(message, id),
            Frame::Batch(all) => all.iter().flatten().any(|message| is_answer(message, id)),
            // One that is broken is an answer all the same, if it is for this request.
            Frame::Defect(defect) => defect.id.as_ref().is_some_and(|it| alone || it == id),
            Frame::TooLong(too_long) => too_long.id.as_ref() == Some(id),
        };
        let message = match frame {
            Frame::Message(message) if answers => message,
            // The stream of a request names whom the server means.
            frame => {
                let input = LinkInput::FrameOf(id.clone(), frame);
                self.report(Report::Input(input)).await;
                return answers;
            }
        };
        let sounds_lost = self.session.is_named() && sounds_lost(&message);
        if sounds_lost && self.message.is("ping") {
            // No tool is behind it, so it can only be about the session.
            let (id, status) = (Some(id.clone()), 200);
            let expired = LinkInput::Expired { id, status };
            self.report(Report::Input(expired)).await;
            return true;
        }
        self.learn(&message);
        let answer = match self.message.method() {
            "initialize" => era::explain(message),
            "tools/list" if self.message.is_modern() => self.listed(message).await,
            _ => message,
        };
        let answer = match answer.id_json() == self.message.id_json() {
            true => answer,
            false => answer.with_id(self.message.id_json()),
        };
        let input = LinkInput::Frame(Frame::Message(answer));
        self.report(Report::Input(input)).await;
        if sounds_lost {
            self.report(Report::Input(LinkInput::MaybeExpired)).await;
        }
        true
    }

    /// What an answer says about the rest of the session.
    fn learn(&self, answer: &Message) {
        let greets = self.message.is("initialize") || self.message.is("server/discover");
        let Some(result) = answer.result().filter(|_| greets) else {
            return;
        };
        let welcome: Welcome = serde_json::from_slice(result).unwrap_or_default();
        if let Some(version) = welcome.protocol_version {
            self.session.note_version(&version);
        }
        if !welcome.supported_versions.is_empty() {
            self.session.known.set_modern(true);
        }
    }

    /// A list of tools, without those whose headers would be invalid.
    async fn listed(&self, answer: Message) -> Message {
        let learnt = self.session.known.mirror().learn(&answer);
        let Some((result, refused)) = learnt else {
            return answer;
        };
        for why in refused {
            let warning = format!("outlive: left out of the list: {why}");
            self.report(Report::Warning(warning)).await;
        }
        answer.with_result(result.as_bytes())
    }
}

/// Whether a message answers the request of this id.
fn is_answer(message: &Message, id: &Id) -> bool {
    message.kind() == Kind::Response && (is_own(message, id) || message.id() == Some(&Id::Null))
}

fn lost(id: &Id, why: String) -> End {
    End::Without(LinkInput::Unanswered {
        id: id.clone(),
        failure: RequestFailure::Lost(why),
    })
}

/// Sends what needs no answer: a notification, or the host's answer to the server.
pub(super) async fn tell(
    session: Arc<HttpSession>,
    number: u64,
    message: Message,
    reports: Reports,
    marks: Marks,
) {
    let in_session = session.is_named();
    let headers = headers(&session, &message);
    let posted = session.post(&message, headers, Written::unmarked());
    let report = match timeout(ACCEPT, posted).await {
        Ok(Ok(response)) if !response.status().is_success() => {
            let refusal = refusal(response, in_session).await;
            let (id, status) = (None, refusal.status);
            let expired = Report::Input(LinkInput::Expired { id, status });
            refusal.is_session_lost().then_some(expired)
        }
        Ok(Err(Failure::Unsent(words))) => Some(Report::Absent(words)),
        _ => None,
    };
    if let Some(report) = report {
        let _ = reports.send(report).await;
    }
    let _ = marks.send(Mark::Taken(number));
}

/// What a message says in its headers.
fn headers(session: &HttpSession, message: &Message) -> HeaderMap {
    match message.is_modern() {
        true => session.known.mirror().headers(message),
        false => HeaderMap::new(),
    }
}

/// Whether a response is a stream of events.
pub(super) fn is_stream(response: &Response) -> bool {
    let kind = response.headers().get(CONTENT_TYPE);
    let kind = kind.and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    kind.trim_start()
        .to_ascii_lowercase()
        .starts_with("text/event-stream")
}

/// What a response says that is no answer.
async fn refusal(mut response: Response, in_session: bool) -> Refusal {
    let later = response.headers().get(RETRY_AFTER);
    let later = later.and_then(|later| later.to_str().ok());
    let retry_after = later.and_then(|later| retry_after(later, SystemTime::now()));
    let mut body = BytesMut::new();
    let read = async {
        while let Ok(Some(chunk)) = response.chunk().await {
            body.extend_from_slice(&chunk);
            if body.len() > REFUSAL_BYTES {
                break;
            }
        }
    };
    let _ = timeout(REFUSAL, read).await;
    let status = response.status().as_u16();
    Refusal::new(status, retry_after, body.freeze(), in_session)
}
