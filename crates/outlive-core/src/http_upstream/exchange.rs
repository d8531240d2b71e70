//! One message: its POSTs, and what comes back.
//!
//! A request is answered in the response, as JSON or at the end of a stream of events. If the stream ends without the
//! answer, the request is lost, at once (FM-06), unless the server has given its events ids: then it keeps the rest for
//! whoever asks for it with the last of them (FM-26).

use std::time::Duration;

use bytes::{Bytes, BytesMut};

use super::answer::is_answer;
use super::heartbeat::Heartbeat;
use super::redirect::{NextStep, Redirects};
use super::refusal::{HttpRefusal, changes_nothing};
use super::{Attempt, Failure, Foreign, Head, HttpUpstream, Output, SESSION_ENDED, Slot, era};
use crate::dispatch;
use crate::frame::Frame;
use crate::framer::Framer;
use crate::link::{LinkInput, RequestFailure, Resend};
use crate::message::{Id, Kind, Message, put_on_one_line};
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
const MODERN_ONLY: &str = concat!(
    r#"{"code":-32022,"message":"This server is used in the modern era only, as was asked for; "#,
    r#"a host that needs a handshake cannot use it so.","data":{"supported":["2026-07-28"]}}"#
);

/// How far an exchange has come.
#[derive(Debug)]
pub(super) enum State {
    /// It leaves when it is clear what a break meant.
    Quiet,
    /// It has left, and there is no response.
    Posted,
    /// It was refused; the words are being read.
    Refused(Box<Refused>),
    /// It was refused for its credentials, and there may be others.
    Challenged(Box<Refused>),
    /// It was refused for its headers, and there may be others.
    Mismatched(Box<Refused>),
    /// It was refused and would now be taken; the session is asked. What is told if it says no.
    Undecided(Resend, Box<Conclusion>),
    /// The answer is being read.
    Body(Framer),
    /// The answer is to come on a stream.
    Stream(Box<Streaming>),
    /// The answer has come; the rest of the stream is being read.
    Tail(Box<Streaming>),
    /// The stream broke, and is asked for again in a moment.
    Paused(Broken),
    /// The stream broke, and has been asked for again.
    Resuming(Broken),
    /// The stream broke, and the server wants other credentials before it goes on.
    Barred(Broken),
}

/// A stream that broke, and why.
#[derive(Debug)]
pub(super) struct Broken {
    pub(super) streaming: Box<Streaming>,
    pub(super) why: String,
}

/// What is told of a request that is not answered.
#[derive(Debug)]
pub(super) struct Conclusion {
    pub(super) input: LinkInput,
    /// Whether the session is to be asked if it is still known.
    pub(super) doubtful: bool,
}

impl From<LinkInput> for Conclusion {
    fn from(input: LinkInput) -> Conclusion {
        let doubtful = false;
        Conclusion { input, doubtful }
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
    pub(super) redirects: Redirects,
    /// The server may be one that speaks HTTP+SSE.
    may_be_sse: bool,
    /// Its headers were found wrong before.
    mismatched: bool,
    /// The mirrored headers it had.
    pub(super) mirrored: u64,
    /// It named a session.
    in_session: bool,
    /// What its response is instead of an answer, if its headers say so.
    foreign: Option<Foreign>,
    /// The dispatch takes it for not sent.
    home: bool,
    due: Option<Time>,
    /// It is given up then, wherever it is.
    pub(super) bound: Option<Time>,
}

/// A refusal as it is read.
#[derive(Debug)]
pub(super) struct Refused {
    pub(super) head: Head,
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
            redirects: Redirects::default(),
            may_be_sse: false,
            mismatched: false,
            mirrored: 0,
            in_session: false,
            foreign: None,
            home: false,
            due: None,
            bound: None,
        }
    }

    /// Why a response is no answer: what its headers say about that, if they do.
    fn unanswered(&self, otherwise: &str) -> String {
        let foreign = self.foreign.as_ref().map(Foreign::why);
        foreign.unwrap_or_else(|| otherwise.into())
    }

    pub(super) fn is_request(&self) -> bool {
        self.message.kind() == Kind::Request
    }

    /// Why the server refused it, as far as it has said.
    pub(super) fn refusal(&self, refused: &Refused) -> HttpRefusal {
        HttpRefusal::new(
            refused.head.status,
            refused.head.retry_after,
            refused.body.clone().freeze(),
            self.in_session,
        )
    }

    /// The request fails with this status.
    pub(super) fn rejected(&self, status: u16) -> Conclusion {
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
            to: it.redirects.to.clone(),
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
            State::Challenged(_) | State::Barred(_) => self.login.forget(slot),
            State::Mismatched(_) => self.listing.forget(slot),
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
    pub(super) fn conclude(
        &mut self,
        now: Time,
        slot: Slot,
        it: &Exchange,
        conclusion: Conclusion,
    ) {
        if slot != Slot::Listing {
            self.pass(now, conclusion.input);
            if conclusion.doubtful {
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
        match std::mem::replace(&mut it.state, State::Posted) {
            State::Resuming(broken) => return self.resume_responded(now, slot, it, broken, head),
            State::Posted => {}
            state => {
                it.state = state;
                return self.keep(slot, it, None);
            }
        }
        it.mirrored = head.mirrored;
        let status = head.status;
        match it
            .redirects
            .follow(&head, changes_nothing(&it.message), self.config.login)
        {
            NextStep::Moved => {
                let otherwise = it.rejected(status);
                self.ask(now, slot, it, Resend::Redirected, otherwise);
            }
            NextStep::Elsewhere(why) if it.is_request() => {
                let elsewhere = it.failed(RequestFailure::Elsewhere { status, why });
                self.conclude(now, slot, &it, elsewhere.into());
            }
            NextStep::Elsewhere(_) => self.over(now, slot, &it),
            NextStep::Challenged => {
                it.state = State::Challenged(Refused::new(head.clone()));
                self.keep(slot, it, None);
                self.call_home(now, slot);
                self.challenged(now, slot, &head);
                self.tell_challenged(slot);
            }
            NextStep::Here if head.is_success() => self.accepted(now, slot, it, &head),
            NextStep::Here => {
                self.read_refusal(now, slot, it, Refused::new(head));
            }
        }
    }

    /// The server takes a message. Its answer may follow.
    fn accepted(&mut self, now: Time, slot: Slot, mut it: Box<Exchange>, head: &Head) {
        if !it.is_request() {
            return self.over(now, slot, &it);
        }
        if it.message.is("initialize") {
            self.begun_at = it.redirects.to.clone();
            if let Some(to) = it.redirects.to.clone().filter(|_| it.redirects.stays) {
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
            it.foreign = head.foreign.clone();
            it.state = State::Body(Framer::new(self.config.limit));
            return self.keep(slot, it, Some(now + self.config.stall));
        }
        it.state = State::Stream(Box::new(Streaming {
            events: Events::new(self.config.limit),
            pauses: Reconnect::of_a_call(),
            heartbeat: Heartbeat::new(now),
            since: now,
            failures: 0,
        }));
        self.keep(slot, it, None);
    }

    /// Reads why a message was refused.
    pub(super) fn read_refusal(
        &mut self,
        now: Time,
        slot: Slot,
        mut it: Box<Exchange>,
        refused: Box<Refused>,
    ) {
        it.bound = None;
        if refused.whole {
            return self.refused(now, slot, it, refused);
        }
        it.state = State::Refused(refused);
        self.keep(slot, it, Some(now + REFUSAL));
    }

    /// A message was refused, in words that are known now.
    fn refused(&mut self, now: Time, slot: Slot, mut it: Box<Exchange>, refused: Box<Refused>) {
        self.abort(it.attempt.take());
        let refusal = it.refusal(&refused);
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
            it.state = State::Mismatched(refused);
            self.keep(slot, it, None);
            self.call_home(now, slot);
            return self.list_for(now, number);
        }
        if it.may_be_sse && refusal.may_be_sse() {
            self.refused = Some(status);
            let otherwise = self.conclusion(&it, refusal);
            return self.ask(now, slot, it, Resend::OlderTransport, otherwise);
        }
        let conclusion = self.conclusion(&it, refusal);
        self.conclude(now, slot, &it, conclusion);
    }

    /// There are no better headers for a call than those it had.
    pub(super) fn keep_refused(
        &mut self,
        now: Time,
        slot: Slot,
        it: &Exchange,
        refusal: HttpRefusal,
    ) {
        let conclusion = self.conclusion(it, refusal);
        self.conclude(now, slot, it, conclusion);
    }

    /// What a refusal means for its request, and what it tells about the server.
    fn conclusion(&mut self, it: &Exchange, refusal: HttpRefusal) -> Conclusion {
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
        match refusal.conclusion(&it.message) {
            (LinkInput::Frame(Frame::Message(answer)), _) if it.message.is("initialize") => {
                LinkInput::Frame(Frame::Message(era::explain(answer))).into()
            }
            (input, doubtful) => Conclusion { input, doubtful },
        }
    }

    pub(super) fn exchange_chunk(&mut self, now: Time, slot: Slot, bytes: &Bytes) {
        let Some(mut it) = self.take(slot) else {
            return;
        };
        match it.state {
            State::Refused(mut refused) => {
                let whole = refused.read(bytes);
                it.state = State::Posted;
                if whole {
                    return self.refused(now, slot, it, refused);
                }
                it.state = State::Refused(refused);
                self.stay(slot, it);
            }
            State::Challenged(ref mut refused) => {
                refused.read(bytes);
                self.stay(slot, it);
            }
            State::Body(ref mut framer) => {
                put_on_one_line(framer.spare(), bytes);
                let whole = framer.next_line();
                debug_assert!(whole.is_none(), "there are no line ends");
                self.keep(slot, it, Some(now + self.config.stall));
            }
            State::Stream(ref mut streaming) | State::Tail(ref mut streaming) => {
                let (events, silent_at) = streaming.read(now, bytes);
                self.read_stream(now, slot, it, events, silent_at);
            }
            _ => self.stay(slot, it),
        }
    }

    /// Keeps an exchange as it is.
    fn stay(&mut self, slot: Slot, it: Box<Exchange>) {
        self.exchanges.insert(slot, it);
    }

    /// Reads a stream to the answer.
    fn read_stream(
        &mut self,
        now: Time,
        slot: Slot,
        mut it: Box<Exchange>,
        events: Vec<Event>,
        silent_at: Option<Time>,
    ) {
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
        if is_answered(&it, answered) {
            it.state = match it.state {
                State::Stream(streaming) => State::Tail(streaming),
                state => state,
            };
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
        let reads = was_body || matches!(it.state, State::Stream(_) | State::Tail(_));
        let broken = matches!(&end, Err(Failure::Broken(_))) || reads && end.is_err();
        match &mut it.state {
            State::Challenged(refused) => {
                refused.whole = true;
                return self.stay(slot, it);
            }
            State::Refused(_) => {}
            _ if broken => self.note_break(now),
            State::Stream(_) => self.note_break(now),
            _ => {}
        }
        match (std::mem::replace(&mut it.state, State::Posted), end) {
            (State::Refused(refused), _) => self.refused(now, slot, it, refused),
            (State::Tail(_), _) => self.over(now, slot, &it),
            (State::Stream(streaming), end) => {
                let without = |()| "its stream ended without an answer".into();
                let why = end.map_or_else(Failure::into_words, without);
                self.stream_broke(now, slot, it, streaming, why);
            }
            (State::Body(framer), Ok(())) => self.body_ended(now, slot, it, framer),
            (State::Resuming(broken), end) => {
                let words = end.map_or_else(Failure::into_words, |()| "no response".into());
                self.resume_failed(now, slot, it, broken, words);
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
            (state, _) => {
                it.state = state;
                self.stay(slot, it);
            }
        }
    }

    /// The answer is the body.
    fn body_ended(&mut self, now: Time, slot: Slot, it: Box<Exchange>, mut framer: Framer) {
        framer.spare().extend_from_slice(b"\n");
        let Some(frame) = framer.next_frame() else {
            let why = it.unanswered("its response has no answer in it");
            return self.lose(now, slot, &it, why);
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
            (false, _) => {
                let why = it.unanswered("its response was no answer");
                self.lose(now, slot, &it, why);
            }
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
        match std::mem::replace(&mut it.state, State::Posted) {
            State::Quiet => self.post(now, slot, it),
            State::Refused(refused) => self.refused(now, slot, it, refused),
            State::Body(_) => {
                self.note_break(now);
                let stall = self.config.stall.as_secs();
                self.lose(now, slot, &it, format!("its answer stopped for {stall} s"));
            }
            State::Stream(streaming) => {
                let patience = streaming.heartbeat.patience();
                let seconds = patience.unwrap_or_default().as_secs();
                self.abort(it.attempt.take());
                self.out.push_back(Output::Renew);
                let why = format!("it fell silent for {seconds} s");
                self.stream_broke(now, slot, it, streaming, why);
            }
            State::Tail(_) => self.over(now, slot, &it),
            State::Paused(broken) => self.resume(now, slot, it, broken),
            state => {
                it.state = state;
                self.keep(slot, it, None);
            }
        }
    }
}

/// Whether the answer has come.
fn is_answered(it: &Exchange, now: bool) -> bool {
    now || matches!(it.state, State::Tail(_))
}

impl Refused {
    fn new(head: Head) -> Box<Refused> {
        Box::new(Refused {
            head,
            body: BytesMut::new(),
            whole: false,
        })
    }

    /// Reads on, as far as it is of interest. True if that is all.
    fn read(&mut self, bytes: &[u8]) -> bool {
        let room = REFUSAL_BYTES.saturating_sub(self.body.len());
        self.body.extend_from_slice(&bytes[..bytes.len().min(room)]);
        self.whole |= bytes.len() >= room;
        self.whole
    }
}

impl Streaming {
    /// The events in these bytes, and when the stream counts as dead if nothing follows.
    fn read(&mut self, now: Time, bytes: &[u8]) -> (Vec<Event>, Option<Time>) {
        let events = self.events.read(bytes);
        let comment = events.first() == Some(&Event::Comment);
        self.heartbeat.note(now, comment);
        (events, self.heartbeat.until())
    }
}
