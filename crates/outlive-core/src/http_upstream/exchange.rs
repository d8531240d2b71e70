//! One message: its POSTs, and what comes back.
//!
//! A request is answered in the response, as JSON or at the end of a stream of events. If the stream ends without the
//! answer, the request is lost, at once (FM-06), unless the server has given its events ids: then it keeps the rest for
//! whoever asks for it with the last of them (FM-26).

use std::time::Duration;

use bytes::{Bytes, BytesMut};

use super::answer::is_answer;
use super::course::{Course, Led};
use super::heartbeat::Heartbeat;
use super::refusal::{Refusal, changes_nothing, one_line};
use super::{Attempt, Failure, Head, HttpUpstream, Output, SESSION_ENDED, Slot, era};
use crate::dispatch;
use crate::frame::Frame;
use crate::framer::Framer;
use crate::link::{LinkInput, RequestFailure, Resend};
use crate::message::{Id, Kind, Message};
use crate::protocol::code;
use crate::reconnect::Reconnect;
use crate::sse::{Event, Events};
use crate::time::Time;

/// How long the body of a refusal is read.
const REFUSAL: Duration = Duration::from_secs(5);
/// How much of it is read.
const REFUSAL_BYTES: usize = 64 << 10;
/// How long a server may take to accept what needs no answer.
const ACCEPT: Duration = Duration::from_secs(30);
/// How long a server may take to end a stream after the answer, so that the connection can be used again.
const TAIL: Duration = Duration::from_millis(200);

/// The answer to a host that speaks only the era that is not wanted.
const MODERN_ONLY: &str = r#"{"code":-32022,"message":"This server is used in the modern era only, as was asked for; a host that needs a handshake cannot use it so.","data":{"supported":["2026-07-28"]}}"#;

/// How far an exchange has come.
#[derive(Debug)]
pub(super) enum State {
    /// It leaves when it is clear what a break meant.
    Quiet,
    /// It has left, and there is no response.
    Posted,
    /// It was refused; the words are being read.
    Refused,
    /// It was refused for its credentials, and there may be others.
    Challenged,
    /// It was refused for its headers, and there may be others.
    Mismatched,
    /// It was refused and would now be taken; the session is asked. What is told if it says no.
    Undecided(Resend, Box<Verdict>),
    /// The answer is being read.
    Body(Framer),
    /// The answer is to come on a stream.
    Stream,
    /// The answer has come; the rest of the stream is being read.
    Tail,
    /// The stream broke, for this reason, and is asked for again in a moment.
    Paused(String),
    /// The stream broke, for this reason, and has been asked for again.
    Resuming(String),
    /// The stream broke, for this reason, and the server wants other credentials before it goes on.
    Barred(String),
}

/// What is told of a request that is not answered.
#[derive(Debug)]
pub(super) struct Verdict {
    pub(super) input: LinkInput,
    /// Whether the session is to be asked if it is still known.
    pub(super) doubtful: bool,
}

impl From<LinkInput> for Verdict {
    fn from(input: LinkInput) -> Verdict {
        let doubtful = false;
        Verdict { input, doubtful }
    }
}

/// The stream on which a request is answered.
#[derive(Debug)]
pub(super) struct Streaming {
    pub(super) events: Events,
    pub(super) pauses: Reconnect,
    pub(super) heartbeat: Heartbeat,
    /// Since when it is open.
    pub(super) since: Time,
    /// Attempts to open it again that have failed in a row.
    pub(super) failures: u32,
}

/// One message and what has become of it.
#[derive(Debug)]
pub(super) struct Exchange {
    pub(super) message: Message,
    pub(super) id: Id,
    pub(super) state: State,
    /// The HTTP request that is under way.
    pub(super) attempt: Option<Attempt>,
    pub(super) course: Course,
    pub(super) streaming: Option<Streaming>,
    /// What the server said to refuse it.
    refused: Option<Refused>,
    /// The server may be one that speaks HTTP+SSE.
    may_be_sse: bool,
    /// Its headers were found wrong before.
    mismatched: bool,
    /// The mirrored headers it had.
    pub(super) mirrored: u64,
    /// It named a session.
    in_session: bool,
    /// The dispatch takes it for not sent.
    home: bool,
    due: Option<Time>,
    /// It is given up then, wherever it is.
    pub(super) bound: Option<Time>,
}

/// A refusal as it is read.
#[derive(Debug)]
struct Refused {
    head: Head,
    body: BytesMut,
    /// There is no more of it.
    whole: bool,
}

impl Exchange {
    pub(super) fn new(message: Message) -> Exchange {
        Exchange {
            id: message.id().cloned().unwrap_or(Id::Null),
            message,
            state: State::Posted,
            attempt: None,
            course: Course::default(),
            streaming: None,
            refused: None,
            may_be_sse: false,
            mismatched: false,
            mirrored: 0,
            in_session: false,
            home: false,
            due: None,
            bound: None,
        }
    }

    pub(super) fn is_request(&self) -> bool {
        self.message.kind() == Kind::Request
    }

    /// Why the server refused it, as far as it has said.
    fn refusal(&self) -> Option<Refusal> {
        let refused = self.refused.as_ref()?;
        Some(Refusal::new(
            refused.head.status,
            refused.head.retry_after,
            refused.body.clone().freeze(),
            self.in_session,
        ))
    }

    /// The status it was refused with.
    pub(super) fn refused_with(&self) -> u16 {
        self.refused
            .as_ref()
            .map_or(0, |refused| refused.head.status)
    }

    /// The request fails with this status.
    pub(super) fn rejected(&self, status: u16) -> Verdict {
        let retry_after = None;
        let failure = RequestFailure::Rejected {
            status,
            retry_after,
        };
        self.failed(failure).into()
    }

    pub(super) fn failed(&self, failure: RequestFailure) -> LinkInput {
        let id = self.id.clone();
        LinkInput::Unanswered { id, failure }
    }
}

impl HttpUpstream {
    /// A message leaves.
    pub(super) fn begin(&mut self, now: Time, number: u64, message: Message) {
        let mut it = Box::new(Exchange::new(message));
        let initialize = it.is_request() && it.message.is("initialize");
        if initialize && !self.config.handshake {
            let refusal = Message::failure(it.message.id_json(), MODERN_ONLY.as_bytes());
            self.pass(now, LinkInput::Frame(Frame::Message(refusal)));
            return self.dispatch(now, dispatch::Input::Over(number));
        }
        // A session that has begun does not begin again: whatever becomes of another `initialize` is its own affair.
        it.may_be_sse = initialize
            && !self.named
            && !self.agreed
            && self.config.transport.is_none()
            && !self.aside
            && !self.exchanges.values().any(|other| other.is_request());
        if !it.is_request() {
            it.bound = Some(now + ACCEPT);
        }
        self.post(now, Slot::Message(number), it);
    }

    /// Sends a message, or sees to it that it is sent when it is quiet.
    pub(super) fn post(&mut self, now: Time, slot: Slot, mut it: Box<Exchange>) {
        it.refused = None;
        if self.over {
            let unsent = it.failed(RequestFailure::Unsent(SESSION_ENDED.into()));
            return match it.is_request() {
                true => self.conclude(now, slot, &it, unsent.into()),
                false => self.over(now, slot, &it),
            };
        }
        if now < self.quiet_until {
            it.state = State::Quiet;
            let until = self.quiet_until;
            self.keep(slot, it, Some(until));
            return self.call_home(now, slot);
        }
        let attempt = self.attempt(slot);
        it.state = State::Posted;
        it.attempt = Some(attempt);
        it.in_session = self.named;
        let left = std::mem::take(&mut it.home);
        self.out.push_back(Output::Post {
            attempt,
            message: it.message.clone(),
            to: it.course.to.clone(),
        });
        self.keep(slot, it, None);
        if let (true, Slot::Message(number)) = (left, slot) {
            self.dispatch(now, dispatch::Input::Left(number));
        }
    }

    /// Keeps an exchange that goes on at this moment, or when something happens.
    pub(super) fn keep(&mut self, slot: Slot, mut it: Box<Exchange>, at: Option<Time>) {
        let at = crate::ledger::sooner(at, it.bound);
        let mut due = it.due;
        self.set_due(slot, &mut due, at);
        it.due = due;
        self.exchanges.insert(slot, it);
    }

    /// The server does not have this request, and nobody has it but us.
    pub(super) fn call_home(&mut self, now: Time, slot: Slot) {
        if let Slot::Message(number) = slot
            && let Some(it) = self.exchanges.get_mut(&slot)
            && it.is_request()
        {
            it.home = true;
            self.dispatch(now, dispatch::Input::Home(number));
        }
    }

    /// Takes an exchange out, to do something with it.
    pub(super) fn take(&mut self, slot: Slot) -> Option<Box<Exchange>> {
        self.exchanges.remove(&slot)
    }

    /// Forgets an exchange, and gives up what is under way for it.
    pub(super) fn drop_exchange(&mut self, slot: Slot) {
        if let Some(it) = self.take(slot) {
            self.put_away(slot, &it);
        }
    }

    pub(super) fn put_away(&mut self, slot: Slot, it: &Exchange) {
        self.abort(it.attempt);
        if let Some(at) = it.due {
            self.due.remove(&(at, slot));
        }
        match it.state {
            State::Undecided(..) => drop(self.undecided.remove(&it.id)),
            State::Challenged | State::Barred(_) => self.login.forget(slot),
            State::Mismatched => self.listing.forget(slot),
            _ => {}
        }
    }

    /// An exchange is over: all that was to be told of it has been.
    pub(super) fn over(&mut self, now: Time, slot: Slot, it: &Exchange) {
        self.put_away(slot, it);
        match slot {
            Slot::Message(number) if it.is_request() => {
                self.dispatch(now, dispatch::Input::Over(number));
            }
            Slot::Message(number) => self.dispatch(now, dispatch::Input::Taken(number)),
            Slot::Listing => self.page_read(now, None),
            Slot::ServerStream | Slot::Channel | Slot::Delete => {}
        }
    }

    /// An exchange is over without an answer.
    pub(super) fn conclude(&mut self, now: Time, slot: Slot, it: &Exchange, verdict: Verdict) {
        if slot != Slot::Listing {
            self.pass(now, verdict.input);
            if verdict.doubtful {
                self.pass(now, LinkInput::MaybeExpired);
            }
        }
        self.over(now, slot, it);
    }

    /// The answer to a request will not come.
    pub(super) fn lose(&mut self, now: Time, slot: Slot, it: &Exchange, why: String) {
        let lost = it.failed(RequestFailure::Lost(why));
        self.conclude(now, slot, it, lost.into());
    }

    pub(super) fn written(&mut self, now: Time, attempt: Attempt) {
        // An HTTP+SSE server answers elsewhere: the exchange is over with its status, and not before.
        if self.aside {
            return;
        }
        if let Some(slot @ Slot::Message(number)) = self.attempts.get(&attempt).copied()
            && let Some(it) = self.exchanges.get(&slot)
            && it.is_request()
            && matches!(it.state, State::Posted)
        {
            self.dispatch(now, dispatch::Input::Taken(number));
        }
    }

    pub(super) fn exchange_responded(&mut self, now: Time, slot: Slot, head: Head) {
        let Some(mut it) = self.take(slot) else {
            return;
        };
        match it.state {
            State::Resuming(_) => return self.resume_responded(now, slot, it, head),
            State::Posted => {}
            _ => return self.keep(slot, it, None),
        }
        it.mirrored = head.mirrored;
        let status = head.status;
        match it
            .course
            .follow(&head, changes_nothing(&it.message), self.config.login)
        {
            Led::Moved => {
                let otherwise = it.rejected(status);
                self.ask(now, slot, it, Resend::Redirected, otherwise);
            }
            Led::Elsewhere(why) if it.is_request() => {
                let elsewhere = it.failed(RequestFailure::Elsewhere { status, why });
                self.conclude(now, slot, &it, elsewhere.into());
            }
            Led::Elsewhere(_) => self.over(now, slot, &it),
            Led::Challenged => {
                it.refused = Some(Refused::new(head.clone()));
                it.state = State::Challenged;
                self.keep(slot, it, None);
                self.call_home(now, slot);
                self.challenged(now, slot, &head);
            }
            Led::Here if head.is_success() => self.accepted(now, slot, it, &head),
            Led::Here => {
                it.refused = Some(Refused::new(head));
                self.read_refusal(now, slot, it);
            }
        }
    }

    /// The server takes a message. Its answer may follow.
    fn accepted(&mut self, now: Time, slot: Slot, mut it: Box<Exchange>, head: &Head) {
        if !it.is_request() {
            return self.over(now, slot, &it);
        }
        if it.message.is("initialize") {
            self.begun_at = it.course.to.clone();
            if let Some(to) = it.course.to.clone().filter(|_| it.course.stays) {
                self.out.push_back(Output::Settle(to));
            }
            // An `initialize` within a session need not name it again.
            if head.names_session && !self.aside {
                self.named = true;
                self.out.push_back(Output::Named);
            }
        }
        if let (true, Slot::Message(number)) = (self.aside, slot) {
            self.put_away(slot, &it);
            return self.dispatch(now, dispatch::Input::Taken(number));
        }
        if !head.stream {
            it.state = State::Body(Framer::new(self.config.limit));
            return self.keep(slot, it, Some(now + self.config.stall));
        }
        it.streaming = Some(Streaming {
            events: Events::new(self.config.limit),
            pauses: Reconnect::of_a_call(),
            heartbeat: Heartbeat::new(now),
            since: now,
            failures: 0,
        });
        it.state = State::Stream;
        self.keep(slot, it, None);
    }

    /// Reads why a message was refused.
    pub(super) fn read_refusal(&mut self, now: Time, slot: Slot, mut it: Box<Exchange>) {
        it.state = State::Refused;
        it.bound = None;
        match it.refused.as_ref().is_none_or(|refused| refused.whole) {
            true => self.refused(now, slot, it),
            false => self.keep(slot, it, Some(now + REFUSAL)),
        }
    }

    /// A message was refused, in words that are known now.
    fn refused(&mut self, now: Time, slot: Slot, mut it: Box<Exchange>) {
        self.abort(it.attempt.take());
        let Some(refusal) = it.refusal() else {
            return self.over(now, slot, &it);
        };
        let status = refusal.status;
        if !it.is_request() || slot == Slot::Listing {
            if refusal.is_session_lost() && slot != Slot::Listing {
                self.pass(now, LinkInput::Expired { id: None, status });
            }
            return self.over(now, slot, &it);
        }
        // It was not executed, so it can be sent again.
        if let Slot::Message(number) = slot
            && refusal.code() == Some(code::HEADER_MISMATCH)
            && it.message.is_modern()
            && it.message.is("tools/call")
            && !std::mem::replace(&mut it.mismatched, true)
        {
            it.state = State::Mismatched;
            self.keep(slot, it, None);
            self.call_home(now, slot);
            return self.list_for(now, number);
        }
        if it.may_be_sse && refusal.may_be_sse() {
            self.refused = Some(status);
            let otherwise = self.verdict(&it, refusal);
            return self.ask(now, slot, it, Resend::OlderTransport, otherwise);
        }
        let verdict = self.verdict(&it, refusal);
        self.conclude(now, slot, &it, verdict);
    }

    /// There are no better headers for a call than those it had.
    pub(super) fn keep_refused(&mut self, now: Time, slot: Slot, it: &Exchange) {
        let Some(refusal) = it.refusal() else {
            return self.over(now, slot, it);
        };
        let verdict = self.verdict(it, refusal);
        self.conclude(now, slot, it, verdict);
    }

    /// What a refusal means for its request, and what it tells about the server.
    fn verdict(&mut self, it: &Exchange, refusal: Refusal) -> Verdict {
        if it.message.is_modern() && refusal.code().is_some_and(code::is_modern_only) {
            self.know(|known| known.modern = true);
        } else if it.message.is_modern() && refusal.is_of_legacy() {
            // A modern server has to answer this one.
            if it.message.is("server/discover") {
                self.know(|known| known.modern = false);
            }
            if !self.known.modern {
                return it.failed(era::legacy_only(&refusal)).into();
            }
        }
        match refusal.verdict(&it.message) {
            (LinkInput::Frame(Frame::Message(answer)), _) if it.message.is("initialize") => {
                LinkInput::Frame(Frame::Message(era::explain(answer))).into()
            }
            (input, doubtful) => Verdict { input, doubtful },
        }
    }

    pub(super) fn exchange_chunk(&mut self, now: Time, slot: Slot, bytes: &Bytes) {
        let Some(mut it) = self.take(slot) else {
            return;
        };
        match &mut it.state {
            State::Refused | State::Challenged => {
                let Some(refused) = &mut it.refused else {
                    return;
                };
                let room = REFUSAL_BYTES.saturating_sub(refused.body.len());
                refused
                    .body
                    .extend_from_slice(&bytes[..bytes.len().min(room)]);
                refused.whole |= bytes.len() >= room;
                match (&it.state, refused.whole) {
                    (State::Refused, true) => self.refused(now, slot, it),
                    _ => self.stay(slot, it),
                }
            }
            State::Body(framer) => {
                framer.spare().extend_from_slice(&one_line(bytes));
                let whole = framer.next_line();
                debug_assert!(whole.is_none(), "there are no line ends");
                self.keep(slot, it, Some(now + self.config.stall));
            }
            State::Stream | State::Tail => self.read_stream(now, slot, it, bytes),
            _ => self.stay(slot, it),
        }
    }

    /// Keeps an exchange as it is.
    fn stay(&mut self, slot: Slot, it: Box<Exchange>) {
        self.exchanges.insert(slot, it);
    }

    /// Reads a stream to the answer.
    fn read_stream(&mut self, now: Time, slot: Slot, mut it: Box<Exchange>, bytes: &[u8]) {
        let Some(streaming) = &mut it.streaming else {
            return;
        };
        let events = streaming.events.read(bytes);
        let comment = events.first() == Some(&Event::Comment);
        streaming.heartbeat.note(now, comment);
        let silent_at = streaming.heartbeat.until();
        let mut said = false;
        let mut answered = false;
        for event in events {
            match event {
                // Who answers twice may mean a later request of the same id, and does not.
                Event::Message(frame)
                    if is_answered(&it, answered) && is_answer(&frame, &it.id) =>
                {
                    self.pass(now, LinkInput::Alive);
                }
                Event::Message(frame) => {
                    said = true;
                    answered |= self.deliver(now, slot, &it, frame, false);
                    if answered && slot == Slot::Listing {
                        return;
                    }
                }
                Event::Comment => self.pass(now, LinkInput::Alive),
                Event::Endpoint(_) => {}
            }
        }
        let was_answered = matches!(it.state, State::Tail);
        if answered || was_answered {
            it.state = State::Tail;
            return match said {
                true => self.keep(slot, it, Some(now + TAIL)),
                false => self.stay(slot, it),
            };
        }
        // A server that is busy with a call may have no time for a heartbeat.
        let listens = it.message.is("subscriptions/listen");
        self.keep(slot, it, silent_at.filter(|_| listens));
    }

    /// A response is complete, or broke off.
    pub(super) fn exchange_ended(&mut self, now: Time, slot: Slot, end: Result<(), Failure>) {
        let Some(mut it) = self.take(slot) else {
            return;
        };
        it.attempt = None;
        let was_body = matches!(it.state, State::Body(_));
        let reads = was_body || matches!(it.state, State::Stream | State::Tail);
        let broken = matches!(&end, Err(Failure::Broken(_))) || reads && end.is_err();
        match it.state {
            State::Refused => return self.refused(now, slot, it),
            State::Challenged => {
                if let Some(refused) = &mut it.refused {
                    refused.whole = true;
                }
                return self.stay(slot, it);
            }
            _ if broken => self.note_break(now),
            State::Stream => self.note_break(now),
            _ => {}
        }
        match (&it.state, end) {
            (State::Tail, _) => self.over(now, slot, &it),
            (State::Stream, Ok(())) => {
                self.stream_broke(now, slot, it, "its stream ended without an answer".into());
            }
            (State::Stream, Err(failure)) => {
                self.stream_broke(now, slot, it, failure.into_words());
            }
            (State::Body(_), Ok(())) => self.body_ended(now, slot, it),
            (State::Resuming(_), end) => {
                let words = end.map_or_else(Failure::into_words, |()| "no response".into());
                self.resume_failed(now, slot, it, words);
            }
            (State::Posted, Err(Failure::Unsent(words))) if it.is_request() => {
                let unsent = it.failed(RequestFailure::Unsent(words));
                self.conclude(now, slot, &it, unsent.into());
            }
            (State::Posted, Err(Failure::Unsent(words))) => {
                self.absent(now, words);
                self.over(now, slot, &it);
            }
            (State::Posted | State::Body(_), end) if it.is_request() => {
                let words = end.map_or_else(Failure::into_words, |()| "no response".into());
                self.lose(now, slot, &it, words);
            }
            (State::Posted, _) => self.over(now, slot, &it),
            _ => self.stay(slot, it),
        }
    }

    /// The answer is the body.
    fn body_ended(&mut self, now: Time, slot: Slot, mut it: Box<Exchange>) {
        let State::Body(framer) = &mut it.state else {
            return;
        };
        framer.spare().extend_from_slice(b"\n");
        let Some(frame) = framer.next_frame() else {
            return self.lose(now, slot, &it, "its response has no answer in it".into());
        };
        // Whose it is instead, nobody knows: the other has an exchange of its own.
        if self.answers_another(&it, &frame) && slot != Slot::Listing {
            return self.lose(
                now,
                slot,
                &it,
                "its response was no answer to this request".into(),
            );
        }
        match (self.deliver(now, slot, &it, frame, true), slot) {
            (true, Slot::Listing) => {}
            (true, _) => self.over(now, slot, &it),
            (false, _) => self.lose(now, slot, &it, "its response was no answer".into()),
        }
    }

    /// The moment of an exchange has come.
    pub(super) fn exchange_due(&mut self, now: Time, slot: Slot) {
        let Some(mut it) = self.take(slot) else {
            return;
        };
        it.due = None;
        if it.bound.is_some_and(|bound| bound <= now) {
            return self.over(now, slot, &it);
        }
        match &it.state {
            State::Quiet => self.post(now, slot, it),
            State::Refused => self.refused(now, slot, it),
            State::Body(_) => {
                self.note_break(now);
                let stall = self.config.stall.as_secs();
                self.lose(now, slot, &it, format!("its answer stopped for {stall} s"));
            }
            State::Stream => {
                let patience = it.streaming.as_ref().and_then(|it| it.heartbeat.patience());
                let seconds = patience.unwrap_or_default().as_secs();
                self.abort(it.attempt.take());
                self.out.push_back(Output::Renew);
                self.stream_broke(now, slot, it, format!("it fell silent for {seconds} s"));
            }
            State::Tail => self.over(now, slot, &it),
            State::Paused(_) => self.resume(now, slot, it),
            _ => self.keep(slot, it, None),
        }
    }
}

/// Whether the answer has come.
fn is_answered(it: &Exchange, now: bool) -> bool {
    now || matches!(it.state, State::Tail)
}

impl Refused {
    fn new(head: Head) -> Refused {
        Refused {
            head,
            body: BytesMut::new(),
            whole: false,
        }
    }
}
