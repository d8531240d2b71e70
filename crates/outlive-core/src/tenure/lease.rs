//! The lease of an owner, by its own clock.

use std::time::Duration;

use crate::time::Time;

/// How long leases are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LeasePolicy {
    /// How long the store keeps others away after it has heard from an owner. A successor waits for it.
    pub length: Duration,
    /// By how much the owner counts it shorter. The clocks of owner and store may differ by that share.
    pub margin: Duration,
    /// How long after one question the next is asked.
    pub renew: Duration,
    /// How long after a question that failed the next is asked.
    pub retry: Duration,
}

impl LeasePolicy {
    /// Leases of this length, with the usual parts of it: a fifth of margin, renewed after a third.
    pub fn of(length: Duration) -> LeasePolicy {
        LeasePolicy {
            length,
            margin: length / 5,
            renew: length / 3,
            retry: length / 15,
        }
    }
}

impl Default for LeasePolicy {
    fn default() -> LeasePolicy {
        LeasePolicy::of(Duration::from_secs(15))
    }
}

/// What the store has said to a question.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Renewal {
    /// The lease goes on.
    Granted,
    /// There is none any more.
    Refused,
    /// Nothing, or that it cannot answer.
    Failed,
}

/// What the driver is to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LeaseOrder {
    /// Ask the store for the lease, the first time if `begins`; then tell what it [said](Lease::answered).
    Ask {
        /// There has been no lease yet.
        begins: bool,
    },
    /// Stop acting at once, for good: end servers and streams, and begin anew under another name.
    StandDown,
}

/// The lease of one [`Owner`](super::Owner). The driver does what [`poll`](Lease::poll) orders after every call, calls
/// [`tick`](Lease::tick) no later than [`deadline`](Lease::deadline), and asks [`may_act`](Lease::may_act) before
/// whatever it does for a session.
#[derive(Clone, Debug)]
pub struct Lease {
    policy: LeasePolicy,
    /// Until when it lasts, if there has been one.
    until: Option<Time>,
    /// When the store is asked next.
    ask_at: Time,
    /// When it was asked what it has not answered.
    asked: Option<Time>,
    is_over: bool,
    stand_down: bool,
}

impl Lease {
    /// An owner that has no lease yet.
    pub fn new(policy: LeasePolicy) -> Lease {
        Lease {
            policy,
            until: None,
            ask_at: Time::ZERO,
            asked: None,
            is_over: false,
            stand_down: false,
        }
    }

    /// Whether the owner may act.
    pub fn may_act(&self, now: Time) -> bool {
        !self.is_over && self.until.is_some_and(|until| now < until)
    }

    /// Until when the owner may act, if it may.
    pub fn until(&self) -> Option<Time> {
        self.until.filter(|_| !self.is_over)
    }

    /// Whether it is over: nothing it does will ever count again.
    pub fn is_over(&self) -> bool {
        self.is_over
    }

    /// The moment named by [`deadline`](Lease::deadline) may have come.
    pub fn tick(&mut self, now: Time) {
        if self.until.is_some_and(|until| until <= now) {
            self.end();
        }
    }

    /// What to do next, if there is anything.
    pub fn poll(&mut self, now: Time) -> Option<LeaseOrder> {
        self.tick(now);
        if std::mem::take(&mut self.stand_down) {
            return Some(LeaseOrder::StandDown);
        }
        if self.is_over || self.asked.is_some() || now < self.ask_at {
            return None;
        }
        self.asked = Some(now);
        Some(LeaseOrder::Ask {
            begins: self.until.is_none(),
        })
    }

    /// What has become of the question.
    pub fn answered(&mut self, now: Time, renewal: Renewal) {
        let Some(asked) = self.asked.take() else {
            return;
        };
        self.tick(now);
        if self.is_over {
            return;
        }
        match renewal {
            Renewal::Granted => {
                let until = asked + (self.policy.length - self.policy.margin);
                if until <= now && self.until.is_none() {
                    // It was over before it was known. Nothing was done under it.
                    self.ask_at = now;
                    return;
                }
                self.until = self.until.max(Some(until));
                self.ask_at = (asked + self.policy.renew).max(now);
            }
            Renewal::Failed => self.ask_at = now + self.policy.retry,
            Renewal::Refused => match self.until {
                Some(_) => self.end(),
                None => self.ask_at = now + self.policy.retry,
            },
        }
        self.tick(now);
    }

    /// When something is to be done if nothing happens.
    pub fn deadline(&self) -> Option<Time> {
        if self.is_over {
            return self.stand_down.then_some(Time::ZERO);
        }
        let ask = self.asked.is_none().then_some(self.ask_at);
        [ask, self.until].into_iter().flatten().min()
    }

    fn end(&mut self) {
        if !self.is_over {
            self.is_over = true;
            self.stand_down = true;
        }
    }
}
