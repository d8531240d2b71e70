//! A person is asked, and the clocks wait.
//!
//! A server that asks the user something (`elicitation/create`) cannot go on with its call before
//! the user has answered. That time is not the server's, so it does not count: the clocks of all that
//! is in flight stand still, because nothing on the wire says which call the question belongs to.
//! But not for ever: [`Policy::elicitation`](crate::Policy::elicitation) is the most a question may stop them.

use crate::message::Id;
use crate::time::Time;

use super::Session;

impl Session {
    /// Stops the clocks when a question comes up and lets them run when none is left.
    #[inline]
    pub(super) fn pause_or_resume(&mut self, now: Time) {
        if !self.is_person_asked() {
            self.pause_spent = false;
            return self.end_pause(now);
        }
        match self.pause_until() {
            Some(until) if until <= now => {
                self.end_pause(now);
                self.pause_spent = true;
            }
            None if !self.pause_spent => {
                self.pause = Some(now);
                for id in self.running() {
                    self.ledger.freeze(&id, now);
                }
            }
            _ => {}
        }
    }

    /// Lets the clocks run on, if they stand.
    pub(super) fn end_pause(&mut self, now: Time) {
        if self.pause.take().is_some() {
            for id in self.running() {
                self.ledger.thaw(&id, now);
            }
        }
    }

    /// When the clocks run on whether or not the person has answered.
    pub(super) fn pause_until(&self) -> Option<Time> {
        self.pause.map(|since| since + self.policy.elicitation)
    }

    fn is_person_asked(&self) -> bool {
        // Nothing is asked most of the time, and this is looked at for each message.
        self.link.as_ref().is_some_and(|link| {
            let asks = &link.asks;
            link.login.is_some() || !asks.is_empty() && asks.values().any(|ask| ask.of_a_person)
        })
    }

    /// What has a clock that a person can stop.
    fn running(&self) -> Vec<Id> {
        self.ledger.in_order(|entry| !entry.is_held())
    }
}
