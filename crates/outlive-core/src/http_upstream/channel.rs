//! The stream of an HTTP+SSE server (2024-11-05): everything the server says comes on it, first of all where messages
//! go. Its end is the end of the link.

use std::time::Duration;

use super::redirect::{NextStep, Redirects};
use super::{Attempt, Failure, Head, HttpUpstream, Output, Slot, Transport};
use crate::cause::StartFailure;
use crate::dispatch;
use crate::frame::Frame;
use crate::link::LinkInput;
use crate::message::Kind;
use crate::sse::{Event, Events};
use crate::time::Time;

/// How long a server may take to say where messages go.
const PATIENCE: Duration = Duration::from_secs(10);

/// How far the stream has come.
#[derive(Debug)]
enum State {
    /// It was asked for.
    Opening,
    /// The server wants other credentials.
    Challenged,
    /// It has begun, and has not said where messages go.
    Begun,
    /// It has said that, and this after it.
    Locating(Vec<Event>),
    Open,
}

/// The stream of an HTTP+SSE server.
#[derive(Debug)]
pub(super) struct Channel {
    state: State,
    events: Events,
    redirects: Redirects,
    attempt: Option<Attempt>,
    due: Option<Time>,
}

impl HttpUpstream {
    /// Opens the stream of an HTTP+SSE server: nothing leaves before it is.
    pub(super) fn open_channel(&mut self, now: Time) {
        self.dispatch(now, dispatch::Input::Opening);
        let mut channel = Channel {
            state: State::Opening,
            events: Events::new(self.config.limit),
            redirects: Redirects::default(),
            attempt: None,
            due: None,
        };
        self.set_due(Slot::Channel, &mut channel.due, Some(now + PATIENCE));
        self.get_channel(channel);
    }

    fn get_channel(&mut self, mut channel: Channel) {
        let attempt = self.attempt(Slot::Channel);
        channel.state = State::Opening;
        channel.attempt = Some(attempt);
        self.out.push_back(Output::Get {
            attempt,
            cursor: None,
            to: channel.redirects.to.clone(),
        });
        self.channel = Some(channel);
    }

    pub(super) fn channel_responded(&mut self, now: Time, head: Head) {
        let Some(mut channel) = self.channel.take() else {
            return;
        };
        match channel.redirects.follow(&head, true, self.config.login) {
            NextStep::Moved => {
                self.abort(channel.attempt.take());
                self.get_channel(channel);
            }
            NextStep::Elsewhere(why) => self.unopened(now, channel, why, false),
            NextStep::Challenged => {
                self.abort(channel.attempt.take());
                channel.state = State::Challenged;
                self.channel = Some(channel);
                self.challenged(now, Slot::Channel, &head);
            }
            NextStep::Here if !head.is_success() => {
                let why = format!("status {}", head.status);
                self.unopened(now, channel, why, head.is_server_error());
            }
            NextStep::Here if !head.stream => {
                self.unopened(
                    now,
                    channel,
                    "what came was no stream of events".into(),
                    false,
                );
            }
            NextStep::Here => {
                channel.state = State::Begun;
                self.channel = Some(channel);
            }
        }
    }

    /// There are other credentials for the GET, or there are none.
    pub(super) fn channel_login(&mut self, now: Time, renewed: bool) {
        let Some(channel) = self.channel.take() else {
            return;
        };
        match (&channel.state, renewed) {
            (State::Challenged, true) => self.get_channel(channel),
            (State::Challenged, false) => self.unopened(now, channel, "status 401".into(), false),
            _ => self.channel = Some(channel),
        }
    }

    pub(super) fn channel_chunk(&mut self, now: Time, bytes: &[u8]) {
        let Some(channel) = &mut self.channel else {
            return;
        };
        let events = channel.events.read(bytes);
        match &mut channel.state {
            State::Open => {
                for event in events {
                    self.pass_event(now, event);
                }
            }
            State::Begun => {
                let mut rest = events
                    .into_iter()
                    .skip_while(|event| *event == Event::Comment);
                match rest.next() {
                    None => {}
                    Some(Event::Endpoint(address)) => {
                        channel.state = State::Locating(rest.collect());
                        self.out.push_back(Output::Locate(address));
                    }
                    Some(_) => {
                        let why = "the first event was no `endpoint`".into();
                        if let Some(channel) = self.channel.take() {
                            self.unopened(now, channel, why, false);
                        }
                    }
                }
            }
            State::Locating(rest) => rest.extend(events),
            State::Opening | State::Challenged => {}
        }
    }

    /// Messages go where the server said, or not.
    pub(super) fn located(&mut self, now: Time, located: Result<(), String>) {
        let Some(mut channel) = self.channel.take() else {
            return;
        };
        let State::Locating(events) = std::mem::replace(&mut channel.state, State::Open) else {
            return;
        };
        if let Err(why) = located {
            return self.unopened(now, channel, why, false);
        }
        self.set_due(Slot::Channel, &mut channel.due, None);
        self.channel = Some(channel);
        self.aside = true;
        self.know(|known| known.transport = Some(Transport::Sse));
        self.dispatch(now, dispatch::Input::Opened);
        for event in events {
            self.pass_event(now, event);
        }
    }

    pub(super) fn channel_ended(&mut self, now: Time, end: Result<(), Failure>) {
        let Some(mut channel) = self.channel.take() else {
            return;
        };
        channel.attempt = None;
        if matches!(end, Err(Failure::Broken(_))) {
            self.note_break(now);
        }
        let error = end.err().map(Failure::into_words);
        match (channel.state, error) {
            (State::Open, error) => self.disconnected(now, error),
            (State::Opening, Some(words)) => {
                channel.state = State::Opening;
                self.unopened(now, channel, words, true);
            }
            (state, error) => {
                channel.state = state;
                let why = error.unwrap_or("the stream ended without an `endpoint` event".into());
                self.unopened(now, channel, why, false);
            }
        }
    }

    pub(super) fn channel_due(&mut self, now: Time) {
        if let Some(mut channel) = self.channel.take() {
            channel.due = None;
            let why = format!("no `endpoint` event within {} s", PATIENCE.as_secs());
            self.unopened(now, channel, why, false);
        }
    }

    /// There is no such stream, for this reason. `absent`: nobody is there at all.
    fn unopened(&mut self, now: Time, mut channel: Channel, why: String, absent: bool) {
        self.abort(channel.attempt);
        self.set_due(Slot::Channel, &mut channel.due, None);
        if absent {
            return self.pass_absence(now, why);
        }
        self.know(|known| known.transport = None);
        let words = match self.refused {
            Some(status) => format!(
                "it speaks neither Streamable HTTP (POST: status {status}) nor HTTP+SSE (GET: {why})"
            ),
            None => format!("its HTTP+SSE stream could not be opened: {why}"),
        };
        let (why, sent) = (StartFailure::Other(words), self.sent());
        self.pass(now, LinkInput::Refused { why, sent });
    }

    /// On a stream beside, the answer to `initialize` comes like any other message.
    pub(super) fn note_answer(&mut self, now: Time, frame: &Frame) {
        if self.aside
            && let Some(awaited) = self.dispatch.handshake().cloned()
            && let Some(message) = frame.message()
            && message.kind() == Kind::Response
            && message.id() == Some(&awaited)
        {
            self.dispatch(now, dispatch::Input::Answered(awaited));
        }
    }
}
