//! The rest of a stream that broke before the answer.
//!
//! Streams of the modern era are not resumed: with the stream the request is gone. Before, a server that has given its
//! events ids keeps the rest for whoever asks for it with the last of them. That is no second request: nothing is
//! executed again.

use super::course::{Course, Led};
use super::exchange::{Exchange, State};
use super::heartbeat::Heartbeat;
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
        mut it: Box<Exchange>,
        why: String,
    ) {
        let modern = it.message.is_modern();
        match &mut it.streaming {
            Some(streaming) if !modern && streaming.events.cursor().is_some() => {
                streaming.pauses.ended(now - streaming.since);
                streaming.failures = 0;
            }
            _ => return self.lose(now, slot, &it, why),
        }
        self.pause(now, slot, it, why);
    }

    fn pause(&mut self, now: Time, slot: Slot, mut it: Box<Exchange>, why: String) {
        let Some(streaming) = &mut it.streaming else {
            return;
        };
        let at = now + streaming.pauses.next(streaming.events.retry());
        it.state = State::Paused(why);
        it.course = Course::default();
        self.keep(slot, it, Some(at));
    }

    /// Asks for the rest.
    pub(super) fn resume(&mut self, now: Time, slot: Slot, mut it: Box<Exchange>) {
        if self.over {
            return self.resume_given_up(now, slot, &it, SESSION_ENDED);
        }
        if now < self.quiet_until {
            let until = self.quiet_until;
            return self.keep(slot, it, Some(until));
        }
        let why = broke(&it);
        let attempt = self.attempt(slot);
        it.state = State::Resuming(why);
        it.attempt = Some(attempt);
        let cursor = it.streaming.as_ref().and_then(|it| it.events.cursor());
        self.out.push_back(Output::Get {
            attempt,
            cursor: cursor.map(str::to_string),
            to: it.course.to.clone(),
        });
        self.keep(slot, it, None);
    }

    pub(super) fn resume_responded(
        &mut self,
        now: Time,
        slot: Slot,
        mut it: Box<Exchange>,
        head: Head,
    ) {
        match it.course.follow(&head, true, self.config.login) {
            Led::Moved => {
                self.abort(it.attempt.take());
                self.resume(now, slot, it);
            }
            Led::Elsewhere(_) => self.resume_given_up(now, slot, &it, "it has moved"),
            Led::Challenged => {
                self.abort(it.attempt.take());
                it.state = State::Barred(broke(&it));
                self.keep(slot, it, None);
                self.challenged(now, slot, &head);
            }
            Led::Here if head.is_stream() => {
                if let Some(streaming) = &mut it.streaming {
                    streaming.events.resume(self.config.limit);
                    streaming.since = now;
                    streaming.heartbeat = Heartbeat::new(now);
                }
                it.state = State::Stream;
                self.keep(slot, it, None);
            }
            Led::Here => {
                let words = format!("status {}", head.status);
                self.abort(it.attempt.take());
                match head.is_server_error() || head.status == 429 {
                    true => self.resume_failed(now, slot, it, words),
                    false => self.resume_given_up(now, slot, &it, &words),
                }
            }
        }
    }

    /// An attempt to resume failed; there may be another one.
    pub(super) fn resume_failed(
        &mut self,
        now: Time,
        slot: Slot,
        mut it: Box<Exchange>,
        words: String,
    ) {
        let Some(streaming) = &mut it.streaming else {
            return;
        };
        streaming.failures += 1;
        if streaming.failures == MOST_ATTEMPTS {
            return self.resume_given_up(now, slot, &it, &words);
        }
        let why = broke(&it);
        self.pause(now, slot, it, why);
    }

    pub(super) fn resume_given_up(&mut self, now: Time, slot: Slot, it: &Exchange, words: &str) {
        let why = broke(it);
        self.lose(now, slot, it, format!("{why}; resuming: {words}"));
    }
}

/// Why a stream broke that is to be resumed.
fn broke(it: &Exchange) -> String {
    match &it.state {
        State::Paused(why) | State::Resuming(why) | State::Barred(why) => why.clone(),
        _ => String::new(),
    }
}
