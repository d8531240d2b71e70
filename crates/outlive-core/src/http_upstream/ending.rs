//! How a link ends.
//!
//! A session that the server knows by a name is ended there too (DELETE), once all has left that was to; unless the
//! server has denied it, or is not there. Whether it cares is its business, so it is not waited for longer than
//! [`DELETE_TIMEOUT`].

use std::time::Duration;

use super::{HttpUpstream, Output, Slot};
use crate::dispatch;
use crate::link::{LinkInput, RequestFailure};
use crate::time::Time;

/// How long a server may take to hear that its session is not needed any more.
pub const DELETE_TIMEOUT: Duration = Duration::from_secs(2);

/// How far the end has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ending {
    No,
    /// What is queued leaves, then the session is ended.
    Asked,
    /// The server is being told.
    Leaving,
    Ended,
}

impl HttpUpstream {
    pub(super) fn close(&mut self, _now: Time) {
        if self.ending == Ending::No {
            self.ending = Ending::Asked;
        }
    }

    /// Once all has left that was to, the server is told that the session is over.
    pub(super) fn leave_if_idle(&mut self, now: Time) {
        if self.ending != Ending::Asked || !self.dispatch.is_idle() {
            return;
        }
        self.clear();
        if !self.is_to_be_left() {
            return self.end();
        }
        self.ending = Ending::Leaving;
        let attempt = self.attempt(Slot::Delete);
        self.due.insert((now + DELETE_TIMEOUT, Slot::Delete));
        let to = self.begun_at.clone();
        self.out.push_back(Output::Delete { attempt, to });
    }

    /// Whether there may be a session on the server that nobody has ended.
    fn is_to_be_left(&self) -> bool {
        self.named && !self.over && !self.denied
    }

    /// Ends everything now. A session that may still exist is ended without us.
    pub(super) fn kill(&mut self, now: Time) {
        if self.ending == Ending::No && self.is_to_be_left() {
            let to = self.begun_at.clone();
            self.out.push_back(Output::Leave { to });
        }
        self.dispatch(now, dispatch::Input::End);
        self.end();
    }

    /// The server was told, or does not care.
    pub(super) fn deleted(&mut self) {
        self.end();
    }

    fn end(&mut self) {
        self.clear();
        self.ending = Ending::Ended;
        self.out.push_back(Output::Ended);
    }

    /// Gives up all that is under way.
    fn clear(&mut self) {
        let mut attempts: Vec<_> = self.attempts.drain().map(|(attempt, _)| attempt).collect();
        attempts.sort_unstable();
        self.out.extend(attempts.into_iter().map(Output::Abort));
        self.exchanges.clear();
        self.undecided.clear();
        self.server_stream = None;
        self.channel = None;
        self.due.clear();
    }

    /// The connection to the server is over as a whole.
    pub(super) fn disconnected(&mut self, now: Time, error: Option<String>) {
        let sent = self.sent();
        self.pass(now, LinkInput::Disconnected { error, sent });
    }

    /// Something else than a request found nobody there. While requests are under way, they tell what the matter is.
    pub(super) fn absent(&mut self, now: Time, words: String) {
        if !self.dispatch.has_requests() {
            self.pass_absence(now, words);
        }
    }

    /// Nobody was there, and no request in flight can tell.
    pub(super) fn pass_absence(&mut self, now: Time, words: String) {
        match self.dispatch.waiting().cloned() {
            Some(id) => {
                self.absence_of = Some(id.clone());
                let failure = RequestFailure::Unsent(words);
                self.pass(now, LinkInput::Unanswered { id, failure });
            }
            None => self.disconnected(now, Some(words)),
        }
    }
}
