//! The rest of a stream that broke before the answer.
//!
//! Streams of the modern era are not resumed: with the stream the request is gone. Before, a server that has given its
//! events ids keeps the rest for whoever asks for it with the last of them. That is no second request: nothing is
//! executed again.

use super::exchange::{Broken, Exchange, State, Streaming};
use super::heartbeat::Heartbeat;
use super::redirect::{NextStep, Redirects};
use super::{Head, HttpUpstream, Output, SESSION_ENDED, Slot};
use crate::time::Time;

/// Attempts to resume that may fail in a row.
const MOST_ATTEMPTS: u32 = 4;

impl HttpUpstream {
    /// The stream of a request ended without the answer.
    pub(super) fn stream_broke(
        &mut self,
        now: Time,
        slot: Slot,
        it: Box<Exchange>,
        mut streaming: Box<Streaming>,
        why: String,
    ) {
        if it.message.is_modern() || streaming.events.cursor().is_none() {
            return self.lose(now, slot, &it, why);
        }
        streaming.pauses.ended(now - streaming.since);
        streaming.failures = 0;
        self.pause(now, slot, it, Broken { streaming, why });
    }

    fn pause(&mut self, now: Time, slot: Slot, mut it: Box<Exchange>, mut broken: Broken) {
        let streaming = &mut broken.streaming;
        let at = now + streaming.pauses.next(streaming.events.retry());
        it.state = State::Paused(broken);
        it.redirects = Redirects::default();
        self.keep(slot, it, Some(at));
    }

    /// Asks for the rest, or sees to it that it is asked for when it is quiet.
    pub(super) fn resume(&mut self, now: Time, slot: Slot, mut it: Box<Exchange>, broken: Broken) {
        if self.over {
            return self.resume_given_up(now, slot, &it, &broken.why, SESSION_ENDED);
        }
        if now < self.quiet_until {
            let until = self.quiet_until;
            it.state = State::Paused(broken);
            return self.keep(slot, it, Some(until));
        }
        let attempt = self.attempt(slot);
        it.attempt = Some(attempt);
        let cursor = broken.streaming.events.cursor();
        self.out.push_back(Output::Get {
            attempt,
            cursor: cursor.map(str::to_string),
            to: it.redirects.to.clone(),
        });
        it.state = State::Resuming(broken);
        self.keep(slot, it, None);
    }

    pub(super) fn resume_responded(
        &mut self,
        now: Time,
        slot: Slot,
        mut it: Box<Exchange>,
        mut broken: Broken,
        head: Head,
    ) {
        match it.redirects.follow(&head, true, self.config.login) {
            NextStep::Moved => {
                self.abort(it.attempt.take());
                self.resume(now, slot, it, broken);
            }
            NextStep::Elsewhere(_) => {
                self.resume_given_up(now, slot, &it, &broken.why, "it has moved");
            }
            NextStep::Challenged => {
                self.abort(it.attempt.take());
                it.state = State::Barred(broken);
                self.keep(slot, it, None);
                self.challenged(now, slot, &head);
            }
            NextStep::Here if head.is_stream() => {
                let streaming = &mut broken.streaming;
                streaming.events.resume(self.config.limit);
                streaming.since = now;
                streaming.heartbeat = Heartbeat::new(now);
                it.state = State::Stream(broken.streaming);
                self.keep(slot, it, None);
            }
            NextStep::Here => {
                let words = format!("status {}", head.status);
                self.abort(it.attempt.take());
                match head.is_server_error() || head.status == 429 {
                    true => self.resume_failed(now, slot, it, broken, words),
                    false => self.resume_given_up(now, slot, &it, &broken.why, &words),
                }
            }
        }
    }

    /// An attempt to resume failed; there may be another one.
    pub(super) fn resume_failed(
        &mut self,
        now: Time,
        slot: Slot,
        it: Box<Exchange>,
        mut broken: Broken,
        words: String,
    ) {
        broken.streaming.failures += 1;
        match broken.streaming.failures == MOST_ATTEMPTS {
            true => self.resume_given_up(now, slot, &it, &broken.why, &words),
            false => self.pause(now, slot, it, broken),
        }
    }

    /// The answer to a request will not come: its stream broke for one reason, and is not resumed for another.
    pub(super) fn resume_given_up(
        &mut self,
        now: Time,
        slot: Slot,
        it: &Exchange,
        why: &str,
        words: &str,
    ) {
        self.lose(now, slot, it, format!("{why}; resuming: {words}"));
    }
}
