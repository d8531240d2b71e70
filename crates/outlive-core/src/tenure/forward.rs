//! A request for a session that somebody else answers for: when it is forwarded, waits, is answered here, or is given
//! up.
//!
//! Whoever gets a request for a session that it does not own asks the store whose it is, and sends it there. Four
//! things may go wrong, and each has one rule:
//!
//! - **The owner says that the session is not its own.** Nothing was done: the store is asked again. If it names the
//!   same owner once more, that one is no more, as after a restart in the same place, or about to give the session
//!   back: it is waited for as one that cannot be reached.
//! - **The owner cannot be reached.** Nothing was done: the store is asked again, until the lease of that owner is
//!   over and the session is ours, or patience ends.
//! - **The connection is lost after the owner may have read the request.** What is not safe to repeat is settled:
//!   nobody knows whether it was done. What is safe is sent once more.
//! - **The owner is silent.** It may work, or stand still. The store is asked meanwhile: when the lease is over, the
//!   owner does not act any more, and the request is settled as if the connection was lost.
//!
//! Two more have to do with waiting. Clients do not repeat what was refused (no SDK does), so a request waits rather
//! than being refused wherever waiting may help:
//!
//! - **The owner has told nobody where it is.** The request waits for the end of its lease, as for one that cannot be
//!   reached.
//! - **The store does not answer.** It may have been started again just now: it is asked for a moment longer.
//!
//! A request that was forwarded is not forwarded again: whoever gets it answers for the session, or says that it does
//! not.

use std::time::Duration;

use super::{LeasePolicy, Owner};
use crate::time::Time;

/// How long a request waits for the owner of its session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ForwardPolicy {
    /// How long it waits at all: longer than a lease, so that a session whose owner has died is taken over meanwhile.
    pub patience: Duration,
    /// How long after one look at the store the next is taken.
    pub retry: Duration,
    /// How long an owner may be silent before the store is asked about it.
    pub silence: Duration,
    /// How often the session may turn out to be another owner's than the store has just said.
    pub detours: u32,
    /// How long the store may fail: long enough to start it again. A load balancer may know a replica that reaches it.
    pub outage: Duration,
}

impl ForwardPolicy {
    /// The bounds that go with leases of this length.
    pub fn of(lease: Duration) -> ForwardPolicy {
        let LeasePolicy { renew, retry, .. } = LeasePolicy::of(lease);
        let patience = lease + renew;
        ForwardPolicy {
            patience,
            retry: retry.min(Duration::from_millis(250)),
            silence: renew,
            detours: 8,
            outage: patience.min(Duration::from_secs(3)),
        }
    }
}

/// What the store has said about a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Found {
    /// It is ours now.
    Granted,
    /// It is somebody else's; whether that one has told where it is.
    Held(Owner, bool),
    /// There is none, or it is another principal's.
    Absent,
    /// Nothing.
    Failed,
    /// It was not asked, or in vain: this process takes no session over, or not this one.
    Declined,
}

/// What has become of a request that was sent to an owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sent {
    /// Its answer has begun.
    Answered,
    /// The owner says that the session is not its own, and has done nothing.
    Elsewhere,
    /// The owner has not read it.
    Unreached,
    /// The owner may have read it, and nothing more is heard.
    Lost,
}

/// What the driver is to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ForwardOrder {
    /// Ask the store for the session; then tell what it [said](Forward::found).
    Claim,
    /// Send the request to this owner; then tell what has [become](Forward::sent) of it.
    Send(Owner),
    /// The session is ours: answer the request.
    Serve,
    /// Stop waiting for the owner, if it is waited for, and answer the request with an error: it was lost, and nobody
    /// knows whether it was carried out.
    Settle,
    /// The same with a refusal: nothing was done.
    Refuse(NotForwarded),
}

/// Why nothing was done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotForwarded {
    /// There is no such session.
    Absent,
    /// Its owner lives, and cannot be reached.
    Held,
    /// The store does not answer.
    Unkept,
    /// This process does not take it over, for a reason that the driver knows.
    Declined,
}

/// What a request waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// The moment to look at the store.
    Resting(Time),
    /// The store.
    Looking,
    /// To be sent.
    Sending(Owner),
    /// The owner. The store is asked about it at a time, or is being asked.
    Waiting(Owner, Option<Time>),
    /// Its end is to be ordered.
    Ending(ForwardOrder),
    Over,
}

/// One request on its way. The driver does what [`poll`](Forward::poll) orders after every call, and polls no later
/// than [`deadline`](Forward::deadline).
#[derive(Clone, Debug)]
pub struct Forward {
    policy: ForwardPolicy,
    until: Time,
    /// It may be done more than once.
    repeatable: bool,
    /// How often an owner may have got it.
    heard: u32,
    detours: u32,
    /// Since when the store has said nothing.
    failing: Option<Time>,
    /// Who has said last that the session is not its own.
    denied: Option<Owner>,
    state: State,
}

impl Forward {
    /// A request that may be `repeatable`, and whose owner may be known.
    pub fn new(
        now: Time,
        policy: ForwardPolicy,
        repeatable: bool,
        known: Option<Owner>,
    ) -> Forward {
        Forward {
            policy,
            until: now + policy.patience,
            repeatable,
            heard: 0,
            detours: 0,
            failing: None,
            denied: None,
            state: known.map_or(State::Resting(now), State::Sending),
        }
    }

    /// What to do next, if there is anything.
    pub fn poll(&mut self, now: Time) -> Option<ForwardOrder> {
        match self.state {
            State::Ending(order) => {
                self.state = State::Over;
                Some(order)
            }
            State::Over => None,
            _ if self.until <= now => {
                // An owner that was asked may have done it.
                self.heard += u32::from(matches!(self.state, State::Waiting(..)));
                self.state = State::Over;
                Some(self.given_up(match self.failing {
                    None => NotForwarded::Held,
                    Some(_) => NotForwarded::Unkept,
                }))
            }
            State::Resting(at) if at <= now => {
                self.state = State::Looking;
                Some(ForwardOrder::Claim)
            }
            State::Sending(owner) => {
                self.state = State::Waiting(owner, Some(now + self.policy.silence));
                Some(ForwardOrder::Send(owner))
            }
            State::Waiting(owner, Some(at)) if at <= now => {
                self.state = State::Waiting(owner, None);
                Some(ForwardOrder::Claim)
            }
            State::Resting(_) | State::Looking | State::Waiting(..) => None,
        }
    }

    /// When it is to be polled if nothing happens.
    pub fn deadline(&self) -> Option<Time> {
        let next = match self.state {
            State::Over => return None,
            State::Ending(_) | State::Sending(_) => Some(Time::ZERO),
            State::Resting(at) | State::Waiting(_, Some(at)) => Some(at),
            State::Looking | State::Waiting(_, None) => None,
        };
        next.into_iter().chain([self.until]).min()
    }

    /// Whether an owner is waited for.
    pub fn is_sent(&self) -> bool {
        matches!(self.state, State::Waiting(..))
    }

    /// The store has answered a claim.
    pub fn found(&mut self, now: Time, found: Found) {
        self.failing = match found {
            Found::Failed => self.failing.or(Some(now)),
            _ => None,
        };
        match (self.state, found) {
            (State::Looking, Found::Granted) => self.end(ForwardOrder::Serve),
            (State::Looking, Found::Held(owner, true)) => self.state = State::Sending(owner),
            (State::Looking, Found::Held(_, false)) => self.rest(now),
            (State::Looking, Found::Absent) => self.give_up(NotForwarded::Absent),
            (State::Looking, Found::Failed) => match self.failing {
                Some(since) if since + self.policy.outage <= now => {
                    self.give_up(NotForwarded::Unkept);
                }
                _ => self.rest(now),
            },
            (State::Looking, Found::Declined) => self.give_up(NotForwarded::Declined),
            // The owner that was asked has lost the session: it says nothing more, and nobody knows what it did.
            (State::Waiting(..), Found::Granted) => {
                self.heard += 1;
                match self.may_repeat() {
                    true => self.end(ForwardOrder::Serve),
                    false => self.end(ForwardOrder::Settle),
                }
            }
            (State::Waiting(asked, None), Found::Held(owner, _)) if owner != asked => {
                self.lost(now);
            }
            (State::Waiting(_, None), Found::Absent) => {
                self.heard += 1;
                self.give_up(NotForwarded::Absent);
            }
            (State::Waiting(asked, None), Found::Held(..) | Found::Failed | Found::Declined) => {
                self.state = State::Waiting(asked, Some(now + self.policy.silence));
            }
            _ => {}
        }
    }

    /// The owner has answered, or not.
    pub fn sent(&mut self, now: Time, sent: Sent) {
        let State::Waiting(asked, _) = self.state else {
            return;
        };
        match sent {
            Sent::Answered => self.state = State::Over,
            // The store has not noticed yet that this owner is no more.
            Sent::Elsewhere if self.denied == Some(asked) => self.rest(now),
            Sent::Elsewhere if self.detours >= self.policy.detours => {
                self.give_up(NotForwarded::Held);
            }
            Sent::Elsewhere => {
                // Once at once: whoever is on its way elsewhere has just changed.
                let rest = match self.detours {
                    0 => Duration::ZERO,
                    _ => self.policy.retry,
                };
                self.detours += 1;
                self.denied = Some(asked);
                self.state = State::Resting(now + rest);
            }
            Sent::Unreached => self.rest(now),
            Sent::Lost => self.lost(now),
        }
    }

    /// An owner may have done it, and says nothing more.
    fn lost(&mut self, now: Time) {
        self.heard += 1;
        match self.may_repeat() {
            true => self.rest(now),
            false => self.end(ForwardOrder::Settle),
        }
    }

    /// The store is asked again a little later.
    fn rest(&mut self, now: Time) {
        self.state = State::Resting(now + self.policy.retry);
    }

    /// Whether it may be done although it may have been.
    fn may_repeat(&self) -> bool {
        self.repeatable && self.heard < 2
    }

    /// Nobody will answer it.
    fn give_up(&mut self, why: NotForwarded) {
        let order = self.given_up(why);
        self.end(order);
    }

    fn given_up(&self, why: NotForwarded) -> ForwardOrder {
        match self.heard {
            0 => ForwardOrder::Refuse(why),
            _ => ForwardOrder::Settle,
        }
    }

    fn end(&mut self, order: ForwardOrder) {
        self.state = State::Ending(order);
    }
}
