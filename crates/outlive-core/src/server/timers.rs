//! What is due when.

use std::collections::BTreeSet;

use crate::time::Time;

use super::ask::AskId;
use super::request::Ticket;

/// Something that has a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Due {
    Ticket(Ticket),
    Ask(AskId),
}

#[derive(Clone, Debug, Default)]
pub(super) struct Timers(BTreeSet<(Time, Due)>);

impl Timers {
    /// Moves the time of `what` from one moment to another; either may be never.
    pub(super) fn shift(&mut self, what: Due, from: Option<Time>, to: Option<Time>) {
        if let Some(at) = from {
            self.0.remove(&(at, what));
        }
        if let Some(at) = to {
            self.0.insert((at, what));
        }
    }

    pub(super) fn earliest(&self) -> Option<Time> {
        self.0.first().map(|(at, _)| *at)
    }

    /// The next thing that is due by `now`. Whoever deals with it moves its time.
    pub(super) fn due(&self, now: Time) -> Option<Due> {
        let (at, what) = self.0.first()?;
        (*at <= now).then_some(*what)
    }

    pub(super) fn len(&self) -> usize {
        self.0.len()
    }
}
