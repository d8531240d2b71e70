//! From one step to the next: read, lock, read again, then refresh or log in, keep, give the lock back.

use super::{Grant, LONGEST_PAUSE, Login, NoToken, Output, Refreshed, Ticket, Want};
use crate::time::Time;

/// What is under way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Step {
    Idle,
    /// The store is read, without the lock.
    Reading,
    /// The lock is waited for.
    Locking,
    /// The store is read, under the lock.
    Checking,
    /// The grant is marked, before its refresh token is sent. `doubted`: it was marked already.
    Marking {
        doubted: bool,
    },
    /// The refresh token is on its way.
    Refreshing {
        doubted: bool,
    },
    /// What came of it is kept.
    Keeping,
    /// A person is asked.
    LoggingIn {
        until: Time,
    },
}

/// What somebody who waits is in need of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Need {
    Nothing,
    Refresh,
    Login,
    /// Neither would help.
    Hopeless(NoToken),
}

impl Login {
    /// Begins what is due, if nothing is under way; stops what nobody needs any more.
    pub(super) fn go_on(&mut self) {
        let wanted = !self.waiting.is_empty();
        match self.step {
            Step::Idle if wanted && self.may_begin() || self.is_idle_and_due() => {
                self.step = Step::Reading;
                self.out.push_back(Output::Load);
            }
            Step::Locking if !wanted && !self.is_renewal_due() => self.unlock(),
            _ => {}
        }
    }

    fn is_idle_and_due(&self) -> bool {
        self.step == Step::Idle && self.is_renewal_due()
    }

    /// A token is in use that somebody else has read: from now on it is renewed in time.
    pub(super) fn look_after(&mut self) {
        if self.step == Step::Idle && self.known.is_none() && self.leaving.is_none() {
            self.step = Step::Reading;
            self.out.push_back(Output::Load);
        }
    }

    /// Whether it is worth reading the store: somebody is new, or the pause after a failure is over.
    fn may_begin(&self) -> bool {
        self.retry_at <= self.now.time || self.fresh_ticket()
    }

    /// Whether somebody waits who came after the last look into the store.
    fn fresh_ticket(&self) -> bool {
        let newest = self.waiting.keys().next_back();
        newest.is_some_and(|ticket| self.looked_for.is_none_or(|seen| *ticket > seen))
    }

    /// The store was read.
    pub(super) fn loaded(&mut self, grant: Option<Grant>) {
        self.stored = grant.as_ref().map(|it| it.id);
        let stored = self.stored;
        self.unkept.take_if(|(_, before)| *before != stored);
        self.known = match (&self.unkept, grant) {
            // That it was refused is known here; what others have done with it since, the store knows.
            (Some((unkept, _)), Some(stored)) if unkept.id == stored.id => Some(Grant {
                renewable: unkept.renewable && stored.renewable,
                ..stored
            }),
            (Some((unkept, _)), _) => Some(unkept.clone()),
            (None, grant) => grant,
        };
        self.looked_for = self.waiting.keys().next_back().copied();
        match self.step {
            Step::Reading => {
                self.settle();
                let refresh = self.is_renewal_due() || self.someone(Need::Refresh);
                let can_refresh = refresh && self.retry_at <= self.now.time;
                match can_refresh || self.someone(Need::Login) {
                    true => {
                        self.step = Step::Locking;
                        self.locked = true;
                        self.out.push_back(Output::Lock);
                    }
                    false => self.step = Step::Idle,
                }
            }
            Step::Checking => self.decide(),
            _ => {}
        }
    }

    pub(super) fn lock_is_ours(&mut self) {
        if self.step == Step::Locking {
            self.step = Step::Checking;
            self.out.push_back(Output::Load);
        }
    }

    /// Under the lock, with what the store holds: what is to be done next.
    fn decide(&mut self) {
        self.settle();
        if self.leaving.is_some() {
            return self.unlock();
        }
        let refresh = self.is_renewal_due() || self.someone(Need::Refresh);
        if refresh
            && self.retry_at <= self.now.time
            && let Some(known) = &mut self.known
        {
            let doubted = std::mem::replace(&mut known.in_doubt, true);
            let marked = known.clone();
            self.step = Step::Marking { doubted };
            return self.out.push_back(Output::Save(marked));
        }
        if self.someone(Need::Login) {
            return self.begin_login();
        }
        self.unlock();
    }

    fn begin_login(&mut self) {
        let mut scopes: Vec<String> = Vec::new();
        let granted = self.known.iter().flat_map(|grant| &grant.scopes);
        let wanted = self.waiting.values().flat_map(|it| &it.want.scopes);
        for scope in granted.chain(wanted) {
            if !scopes.contains(scope) {
                scopes.push(scope.clone());
            }
        }
        let refused = |grant: &Grant| {
            self.waiting
                .values()
                .any(|it| self.is_fruitless(&it.want, grant))
        };
        self.fruitless = match self.known.as_ref().is_some_and(refused) {
            true => self.fruitless.saturating_add(1),
            false => 0,
        };
        self.step = Step::LoggingIn {
            until: self.now.time + self.policy.login,
        };
        self.out.push_back(Output::LogIn(scopes));
    }

    pub(super) fn saved(&mut self) {
        self.stored = self.grant();
        self.unkept = None;
        self.after_saving();
    }

    /// What was to be kept could not be. If the store holds it, other processes may use it and would not know.
    pub(super) fn unsaved(&mut self) {
        let shared = self.stored.is_some() && self.stored == self.grant();
        if let (Step::Marking { doubted }, true) = (&self.step, shared) {
            let doubted = *doubted;
            if let Some(known) = &mut self.known {
                known.in_doubt = doubted;
            }
            self.put_off();
            return self.unlock();
        }
        self.unkept = self.known.clone().map(|known| (known, self.stored));
        self.after_saving();
    }

    fn after_saving(&mut self) {
        match (&self.step, &self.known) {
            // Whoever would have risked it has left meanwhile.
            (Step::Marking { doubted: true }, _) if !self.someone(Need::Refresh) => self.decide(),
            // It was not sent, so there is no doubt that was not there before.
            (Step::Marking { doubted }, Some(grant)) if self.leaving.is_some() => {
                let unmarked = Grant {
                    in_doubt: *doubted,
                    ..grant.clone()
                };
                self.keep(unmarked);
            }
            (Step::Marking { doubted }, Some(grant)) => {
                self.out.push_back(Output::Refresh(grant.id));
                self.step = Step::Refreshing { doubted: *doubted };
            }
            (Step::Keeping, _) => self.decide(),
            _ => {}
        }
    }

    pub(super) fn refreshed(&mut self, how: Refreshed) {
        let (Step::Refreshing { doubted }, Some(mut grant)) = (&self.step, self.known.clone())
        else {
            return;
        };
        let doubted = *doubted;
        match how {
            Refreshed::Granted(new) => {
                self.failures = 0;
                self.retry_at = self.now.time;
                return self.keep(new);
            }
            Refreshed::Refused => {
                grant.renewable = false;
                grant.in_doubt = false;
                return self.keep(grant);
            }
            Refreshed::Unsent => grant.in_doubt = doubted,
            Refreshed::Unknown => {}
        }
        self.put_off();
        self.keep(grant);
    }

    /// A refresh has failed for a moment: the next one begins after a pause.
    fn put_off(&mut self) {
        let pause = self.policy.backoff * 2u32.saturating_pow(self.failures.min(16));
        let pause = pause.min(self.policy.backoff_cap);
        self.failures += 1;
        // At least half of it: a crowd is spread, and nobody asks again at once.
        self.retry_at = self.now.time + pause / 2 + self.rng.up_to(pause / 2);
    }

    /// Somebody does not want to log in: it is stopped, and those who wait are told so.
    pub(super) fn declined(&mut self) {
        if self.is_asking() {
            self.out.push_back(Output::StopLogin);
            self.login_failed(NoToken::Declined);
        }
    }

    /// The process leaves: what was sent is waited for, and all else ends here.
    pub(super) fn leave(&mut self) {
        if self.leaving.is_some() {
            return;
        }
        self.leaving = Some(self.now.time + self.policy.farewell);
        match self.step {
            Step::Marking { .. } | Step::Refreshing { .. } | Step::Keeping => {}
            Step::LoggingIn { .. } => {
                self.out.push_back(Output::StopLogin);
                self.unlock();
            }
            Step::Idle | Step::Reading | Step::Locking | Step::Checking => self.unlock(),
        }
    }

    /// Tells everybody who waits that the process leaves.
    pub(super) fn dismiss(&mut self) {
        let waiting: Vec<Ticket> = self.waiting.keys().copied().collect();
        for ticket in waiting {
            self.answer(ticket, Err(NoToken::Leaving));
        }
    }

    pub(super) fn logged_in(&mut self, grant: Option<Grant>) {
        if !self.is_asking() {
            return;
        }
        match grant {
            Some(grant) => {
                self.failures = 0;
                self.retry_at = self.now.time;
                self.failed_logins = 0;
                self.paused_until = Time::ZERO;
                let pause = self.policy.pause * 2u32.pow(self.fruitless.min(10));
                self.fruitless_until = self.now.time + pause.min(LONGEST_PAUSE);
                self.keep(grant);
            }
            None => self.login_failed(NoToken::LoginFailed),
        }
    }

    /// The login that is under way brings nothing.
    pub(super) fn login_failed(&mut self, why: NoToken) {
        let pause = self.policy.pause * 2u32.pow(self.failed_logins.min(10));
        self.failed_logins += 1;
        self.failure = why;
        self.paused_until = self.now.time + pause.min(LONGEST_PAUSE);
        self.settle();
        self.unlock();
    }

    fn keep(&mut self, grant: Grant) {
        self.known = Some(grant.clone());
        self.step = Step::Keeping;
        self.out.push_back(Output::Save(grant));
    }

    pub(super) fn unlock(&mut self) {
        self.step = Step::Idle;
        if std::mem::take(&mut self.locked) {
            self.out.push_back(Output::Unlock);
        }
    }

    /// Answers all whom the grant there is will do, and those whom nothing would help.
    fn settle(&mut self) {
        let settled: Vec<(Ticket, Need)> = self
            .waiting
            .iter()
            .map(|(ticket, it)| (*ticket, self.need(&it.want)))
            .collect();
        for (ticket, need) in settled {
            match (need, &self.known) {
                (Need::Nothing, Some(grant)) => {
                    let id = grant.id;
                    self.answer(ticket, Ok(id));
                }
                (Need::Hopeless(why), _) => self.answer(ticket, Err(why)),
                _ => {}
            }
        }
    }

    fn someone(&self, need: Need) -> bool {
        let mut waiting = self.waiting.values();
        waiting.any(|it| self.need(&it.want) == need)
    }

    fn need(&self, want: &Want) -> Need {
        let login = match self.now.time < self.paused_until {
            true => Need::Hopeless(self.failure),
            false => Need::Login,
        };
        let Some(grant) = &self.known else {
            return login;
        };
        let wall = self.now.wall;
        let refused = want.refused == Some(grant.id);
        let expired = grant.is_expired(wall);
        if want.step_up && !expired {
            return match (refused, grant.covers(&want.scopes)) {
                (true, true) => Need::Hopeless(NoToken::ScopeRefused),
                (false, true) => Need::Nothing,
                (_, false) => login,
            };
        }
        if !refused && !expired {
            return Need::Nothing;
        }
        match (
            self.was_never_good(want, grant),
            grant.by_login,
            grant.renewable,
        ) {
            (true, true, _) => Need::Hopeless(NoToken::StillRefused),
            (true, false, _) if self.now.time < self.fruitless_until => {
                Need::Hopeless(NoToken::StillRefused)
            }
            (true, false, _) | (false, _, false) => login,
            (false, _, true) => Need::Refresh,
        }
    }

    /// Whether the token was refused right after it was issued.
    fn was_never_good(&self, want: &Want, grant: &Grant) -> bool {
        let wall = self.now.wall;
        let refused = want.refused == Some(grant.id) && self.accepted != Some(grant.id);
        refused && grant.is_fresh(wall) && !grant.is_expired(wall)
    }

    /// Whether a refresh has not helped, as the login before it had not.
    fn is_fruitless(&self, want: &Want, grant: &Grant) -> bool {
        !grant.by_login && self.was_never_good(want, grant)
    }
}
