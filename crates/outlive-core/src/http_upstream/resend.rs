//! Whether a request may be sent again.
//!
//! The server has not executed it, and would take it in another way. Whether it is sent again is not for the transport
//! to say: the session knows if the host still waits for it, and how often it has been sent.

use super::exchange::{Conclusion, Exchange, State};
use super::{HttpUpstream, Slot};
use crate::dispatch;
use crate::link::{LinkInput, Resend};
use crate::message::Id;
use crate::time::Time;

impl HttpUpstream {
    /// Asks the session whether this request may be sent again; what is told if not. What is no request of the
    /// session's (a notification, a list of tools) has no entry in the ledger, does no harm twice, and is sent again as
    /// often as a [redirect](super::redirect) lets it.
    pub(super) fn ask(
        &mut self,
        now: Time,
        slot: Slot,
        mut it: Box<Exchange>,
        why: Resend,
        otherwise: Conclusion,
    ) {
        self.abort(it.attempt.take());
        let Slot::Message(number) = slot else {
            return self.post(now, slot, it);
        };
        if !it.is_request() {
            return self.post(now, slot, it);
        }
        let id = it.id.clone();
        it.state = State::Undecided(why, Box::new(otherwise));
        self.undecided.insert(id.clone(), number);
        self.keep(slot, it, None);
        self.call_home(now, slot);
        // If it was cancelled on its way, it is gone now.
        if self.exchanges.contains_key(&slot) {
            self.pass(now, LinkInput::Unexecuted { id, why });
        }
    }

    /// The session has decided.
    pub(super) fn decided(&mut self, now: Time, id: &Id, granted: bool) {
        let Some(number) = self.undecided.remove(id) else {
            return;
        };
        let slot = Slot::Message(number);
        let Some(mut it) = self.take(slot) else {
            return;
        };
        let State::Undecided(why, otherwise) = std::mem::replace(&mut it.state, State::Quiet)
        else {
            return;
        };
        match (granted && !self.over, why) {
            (false, _) => self.conclude(now, slot, &it, *otherwise),
            (true, Resend::OlderTransport) => {
                let message = it.message.clone();
                self.put_away(slot, &it);
                self.dispatch(now, dispatch::Input::Again(number, message));
                self.open_channel(now);
            }
            (true, _) => self.post(now, slot, it),
        }
    }
}
