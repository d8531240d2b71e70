//! The stream on which a legacy server speaks unasked.
//!
//! It is optional: a server that refuses it is used without it. One that cuts it now and then gets it back at once,
//! behind the last event; one that ends every stream as soon as it is opened is asked ever more rarely (FM-25). Its end
//! says nothing about the session. Whoever waits to send is told when the server listens: see
//! [`dispatch`](crate::dispatch).

use super::heartbeat::Heartbeat;
use super::redirect::{NextStep, Redirects};
use super::{Attempt, Failure, Head, HttpUpstream, Output, Slot, Transport};
use crate::dispatch;
use crate::link::LinkInput;
use crate::reconnect::Reconnect;
use crate::sse::{Event, Events};
use crate::time::Time;

/// How far the stream has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Waits before it asks again.
    Paused {
        /// Calls wait for the stream once it is asked for.
        announce: bool,
    },
    Opening,
    /// The server wants other credentials.
    Challenged,
    Open,
}

/// The stream on which a legacy server speaks unasked.
#[derive(Debug)]
pub(super) struct ServerStream {
    state: State,
    events: Events,
    pauses: Reconnect,
    heartbeat: Heartbeat,
    redirects: Redirects,
    /// It has been open before.
    was_open: bool,
    /// When it was asked for.
    begun: Time,
    attempt: Option<Attempt>,
    due: Option<Time>,
}

impl HttpUpstream {
    /// `notifications/initialized` was taken: the server is listened to.
    pub(super) fn listen(&mut self, now: Time) {
        self.know(|known| known.transport = Some(Transport::Streamable));
        let stream = ServerStream {
            state: State::Opening,
            events: Events::new(self.config.limit),
            pauses: Reconnect::of_the_server(),
            heartbeat: Heartbeat::new(now),
            redirects: Redirects::default(),
            was_open: false,
            begun: now,
            attempt: None,
            due: None,
        };
        self.open_server_stream(now, stream);
    }

    fn open_server_stream(&mut self, now: Time, mut stream: ServerStream) {
        if self.over {
            return self.forget_server_stream(now, stream);
        }
        if now < self.quiet_until {
            stream.state = State::Paused { announce: false };
            let until = self.quiet_until;
            return self.keep_server_stream(stream, Some(until));
        }
        let attempt = self.attempt(Slot::ServerStream);
        stream.state = State::Opening;
        stream.attempt = Some(attempt);
        self.out.push_back(Output::Get {
            attempt,
            cursor: stream.events.cursor().map(str::to_string),
            to: stream.redirects.to.clone(),
        });
        self.keep_server_stream(stream, None);
    }

    fn keep_server_stream(&mut self, mut stream: ServerStream, at: Option<Time>) {
        let mut due = stream.due;
        self.set_due(Slot::ServerStream, &mut due, at);
        stream.due = due;
        self.server_stream = Some(stream);
    }

    /// The server is not listened to any more.
    pub(super) fn drop_server_stream(&mut self, now: Time) {
        if let Some(stream) = self.server_stream.take() {
            self.forget_server_stream(now, stream);
        }
    }

    fn forget_server_stream(&mut self, now: Time, mut stream: ServerStream) {
        self.abort(stream.attempt);
        self.set_due(Slot::ServerStream, &mut stream.due, None);
        self.dispatch(now, dispatch::Input::Listened);
    }

    pub(super) fn server_stream_responded(&mut self, now: Time, head: Head) {
        let Some(mut stream) = self.server_stream.take() else {
            return;
        };
        match stream.redirects.follow(&head, true, self.config.login) {
            NextStep::Moved => {
                self.abort(stream.attempt.take());
                return self.open_server_stream(now, stream);
            }
            NextStep::Elsewhere(_) => return self.forget_server_stream(now, stream),
            NextStep::Challenged => {
                self.abort(stream.attempt.take());
                stream.state = State::Challenged;
                self.keep_server_stream(stream, None);
                return self.challenged(now, Slot::ServerStream, &head);
            }
            NextStep::Here => {}
        }
        self.server_stream_answered(now, stream, &head);
    }

    fn server_stream_answered(&mut self, now: Time, mut stream: ServerStream, head: &Head) {
        if head.is_stream() {
            stream.state = State::Open;
            stream.was_open = true;
            stream.events.resume(self.config.limit);
            stream.heartbeat = Heartbeat::new(now);
            self.keep_server_stream(stream, None);
            return self.dispatch(now, dispatch::Input::Listened);
        }
        if head.status == 404 && stream.was_open && self.named {
            self.forget_server_stream(now, stream);
            return self.pass(
                now,
                LinkInput::Expired {
                    id: None,
                    status: 404,
                },
            );
        }
        // Another stream of ours may not have been given up yet (409).
        let passing = head.is_server_error() || matches!(head.status, 409 | 429);
        if !passing || head.status == 501 {
            return self.forget_server_stream(now, stream);
        }
        self.abort(stream.attempt.take());
        self.dispatch(now, dispatch::Input::Listened);
        self.pause_server_stream(now, stream);
    }

    /// There are other credentials for the GET, or there are none.
    pub(super) fn server_stream_login(&mut self, now: Time, renewed: bool) {
        let Some(stream) = self.server_stream.take() else {
            return;
        };
        match (stream.state, renewed) {
            (State::Challenged, true) => self.open_server_stream(now, stream),
            (State::Challenged, false) => self.forget_server_stream(now, stream),
            _ => self.server_stream = Some(stream),
        }
    }

    pub(super) fn server_stream_chunk(&mut self, now: Time, bytes: &[u8]) {
        let Some(mut stream) = self.server_stream.take() else {
            return;
        };
        if stream.state != State::Open {
            return self.server_stream = Some(stream);
        }
        let events = stream.events.read(bytes);
        let comment = events.first() == Some(&Event::Comment);
        stream.heartbeat.note(now, comment);
        let silent_at = stream.heartbeat.until();
        self.keep_server_stream(stream, silent_at);
        for event in events {
            self.pass_event(now, event);
        }
    }

    pub(super) fn server_stream_ended(&mut self, now: Time, end: Result<(), Failure>) {
        let Some(mut stream) = self.server_stream.take() else {
            return;
        };
        stream.attempt = None;
        let opening = stream.state == State::Opening;
        match end {
            Ok(()) => {}
            Err(Failure::Unsent(words)) if opening => {
                self.dispatch(now, dispatch::Input::Listened);
                if stream.was_open {
                    self.absent(now, words);
                }
            }
            Err(_) => {
                self.note_break(now);
                if opening {
                    self.dispatch(now, dispatch::Input::Listened);
                }
            }
        }
        self.pause_server_stream(now, stream);
    }

    fn pause_server_stream(&mut self, now: Time, mut stream: ServerStream) {
        if self.over {
            return self.forget_server_stream(now, stream);
        }
        let healthy = stream.pauses.ended(now - stream.begun);
        let pause = stream.pauses.next(stream.events.retry());
        let was_open = stream.was_open;
        stream.state = State::Paused {
            announce: was_open && !healthy,
        };
        stream.redirects = Redirects::default();
        self.keep_server_stream(stream, Some(now + pause));
        // A stream that broke is opened again before anybody calls, unless that takes long.
        if healthy && was_open {
            self.dispatch(now, dispatch::Input::Listening);
        }
    }

    pub(super) fn server_stream_due(&mut self, now: Time) {
        let Some(mut stream) = self.server_stream.take() else {
            return;
        };
        stream.due = None;
        match stream.state {
            State::Paused { announce } => {
                stream.begun = now;
                self.open_server_stream(now, stream);
                if announce {
                    self.dispatch(now, dispatch::Input::Listening);
                }
            }
            State::Open => {
                // It fell silent.
                self.abort(stream.attempt.take());
                self.out.push_back(Output::Renew);
                self.pause_server_stream(now, stream);
            }
            State::Opening | State::Challenged => self.server_stream = Some(stream),
        }
    }

    /// Passes on what the server says on a stream that answers no request of its own.
    pub(super) fn pass_event(&mut self, now: Time, event: Event) {
        match event {
            Event::Message(frame) => {
                self.note_answer(now, &frame);
                self.pass(now, LinkInput::Frame(frame));
            }
            Event::Comment => self.pass(now, LinkInput::Alive),
            Event::Endpoint(_) => {}
        }
    }
}
