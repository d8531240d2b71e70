//! Other credentials: one asks for them, and the others wait for what it gets.
//!
//! How one comes by a token (a browser and a person, a vault, a file) is the program's business; when it is needed is
//! known here. A request that was refused for want of it was not executed, so it can be sent again. The credentials of
//! a server are counted in turns; what was refused with those of an earlier turn than the last asks for none.

use super::exchange::State;
use super::{Head, HttpUpstream, Output, Slot};
use crate::link::{LinkInput, RequestFailure, Resend};
use crate::time::Time;

/// Who waits for other credentials.
#[derive(Debug, Default)]
pub(super) struct Login {
    /// Others than those of this turn have been asked for.
    asked: Option<u64>,
    /// There are credentials of this turn.
    turn: u64,
    waiting: Vec<Slot>,
    /// Why there are no others, in words for those who waited.
    obstacle: Option<String>,
}

impl Login {
    /// This does not wait any more: it was cancelled.
    pub(super) fn forget(&mut self, slot: Slot) {
        self.waiting.retain(|waiting| *waiting != slot);
    }
}

impl HttpUpstream {
    /// Something was refused for its credentials.
    pub(super) fn challenged(&mut self, now: Time, slot: Slot, head: &Head) {
        if head.turn < self.login.turn {
            return self.login_over(now, slot, true);
        }
        self.login.waiting.push(slot);
        if self.login.asked.is_none() {
            self.login.asked = Some(head.turn);
            self.out.push_back(Output::Authenticate {
                turn: head.turn,
                status: head.status,
                authenticate: head.authenticate.clone(),
            });
        }
    }

    /// Tells the session that a request waits here, unless it is on its way again already.
    pub(super) fn tell_challenged(&mut self, slot: Slot) {
        if let Slot::Message(_) = slot
            && let Some(it) = self.exchanges.get(&slot)
            && it.is_request()
            && matches!(it.state, State::Challenged(_))
        {
            let id = it.id.clone();
            self.tell(LinkInput::Challenged { id });
        }
    }

    /// There are other credentials, or there are none to be had.
    pub(super) fn authenticated(&mut self, now: Time, renewed: bool) {
        let Some(turn) = self.login.asked.take() else {
            return;
        };
        if renewed {
            self.login.turn = self.login.turn.max(turn + 1);
        }
        for slot in std::mem::take(&mut self.login.waiting) {
            self.login_over(now, slot, renewed);
        }
    }

    /// There are no other credentials to be had, for this reason.
    pub(super) fn unauthenticated(&mut self, now: Time, why: String) {
        self.login.obstacle = Some(why);
        self.authenticated(now, false);
        self.login.obstacle = None;
    }

    fn login_over(&mut self, now: Time, slot: Slot, renewed: bool) {
        match slot {
            Slot::Message(_) | Slot::Listing => self.exchange_login(now, slot, renewed),
            Slot::ServerStream => self.server_stream_login(now, renewed),
            Slot::Channel => self.channel_login(now, renewed),
            Slot::Delete => {}
        }
    }

    fn exchange_login(&mut self, now: Time, slot: Slot, renewed: bool) {
        let Some(mut it) = self.take(slot) else {
            return;
        };
        match (std::mem::replace(&mut it.state, State::Quiet), renewed) {
            (State::Challenged(refused), true) => {
                let otherwise = it.rejected(refused.head.status);
                self.ask(now, slot, it, Resend::Credentials, otherwise);
            }
            (State::Challenged(refused), false) => match self.login.obstacle.clone() {
                Some(why) if it.is_request() => {
                    self.abort(it.attempt.take());
                    let status = refused.head.status;
                    let failure = RequestFailure::Elsewhere { status, why };
                    let told = it.failed(failure).into();
                    self.conclude(now, slot, &it, told);
                }
                _ => self.read_refusal(now, slot, it, refused),
            },
            (State::Barred(broken), true) => self.resume(now, slot, it, broken),
            (State::Barred(broken), false) => {
                self.resume_given_up(now, slot, &it, &broken.why, "status 401");
            }
            (state, _) => {
                it.state = state;
                self.keep(slot, it, None);
            }
        }
    }
}
