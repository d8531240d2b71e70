//! Has the server forgotten the session?
//!
//! A server says so by refusing a message with a status that means it (404, or 400 and 410 in such words). But it may
//! refuse one message so in every session: an address that a proxy does not know, a tool that is not there. So:
//!
//! - A request that was refused is sent again in a new session, once. If that refuses it too, the matter is the
//!   request, which fails with the status. If nothing is to be sent twice, the session is asked at once, and the
//!   request fails.
//! - Nothing that may be executing is given up for the refusal of another message. If there is something, or if the
//!   message was no request of the host, the session itself is asked, with a `ping`. Only if that is refused likewise,
//!   the session is forgotten. Any other answer shows that it is not, and so does none: a session that is gone is
//!   denied at once, while a server at work may take its time.
//! - Words in an answer prove nothing. It is passed on, since the request may have been executed, and the session is
//!   asked.

use std::time::Duration;

use crate::cause::Reason;
use crate::error::Error;
use crate::message::Id;
use crate::policy::Retry;
use crate::protocol::Era;
use crate::time::Time;

use super::Session;
use super::handover::is_on;
use super::link::{Own, SessionCheck};

/// How long the server may take to say whether it knows the session.
const CHECK_PATIENCE: Duration = Duration::from_secs(5);

impl Session {
    /// A message was refused as if the session were forgotten. It was not executed.
    pub(super) fn expired(&mut self, now: Time, id: Option<Id>, status: u16) {
        let Some(link) = &self.link else { return };
        let own = id.as_ref().and_then(|id| link.own.get(id)).cloned();
        match (own, id) {
            (Some(Own::Handshake | Own::Probe | Own::SessionCheck), _) => {
                self.end_by_refusal(now, Reason::SessionExpired);
            }
            (Some(Own::Replay | Own::List { .. }), Some(id)) => {
                self.check_session(now);
                self.own_answer_is_lost(now, &id, &format!("status {status}"));
            }
            (_, id) => match id.and_then(|id| self.request_on_link(&id)) {
                Some(host_id) => self.refused_as_forgotten(now, host_id, status),
                None => self.check_session(now),
            },
        }
    }

    fn refused_as_forgotten(&mut self, now: Time, host_id: Id, status: u16) {
        let before = self.ledger.get(&host_id).is_some_and(|e| e.disowned);
        if before {
            self.refuse_unexecuted(&host_id, Error::Rejected { status, why: None });
            return self.check_session(now);
        }
        self.ledger.disown(&host_id, status);
        let entry = self.ledger.get(&host_id);
        let never = entry.is_some_and(|entry| self.retry_of(entry) == Retry::Never);
        let Some(link) = &mut self.link else { return };
        link.rejected.insert(host_id.clone());
        link.doubted.insert(host_id, status);
        if self.is_at_stake() || never {
            return self.check_session(now);
        }
        if let Some(link) = self.link.as_mut().filter(|link| link.is_alive()) {
            link.disowned = true;
        }
        self.end_by_refusal(now, Reason::SessionExpired);
    }

    /// Asks the server whether it knows the session, unless it is being asked.
    pub(super) fn check_session(&mut self, now: Time) {
        let unasked = |link: &super::Link| link.is_alive() && link.check.is_none();
        if !self.link.as_ref().is_some_and(unasked) {
            return;
        }
        let method = match self.memory.era {
            Some(Era::Modern) => "server/discover",
            _ => "ping",
        };
        let id = self.send_own(now, Own::SessionCheck, |session, id| {
            session.memory.request(id, method, None)
        });
        if let (Some(id), Some(link)) = (id, &mut self.link) {
            let until = now + CHECK_PATIENCE;
            link.check = Some(SessionCheck { id, until });
        }
    }

    /// The server knows the session: what it refused as if it did not is those requests' own affair.
    pub(super) fn session_lives(&mut self, now: Time) {
        let Some(link) = &mut self.link else { return };
        if let Some(check) = link.check.take() {
            link.own.remove(&check.id);
        }
        let doubted = std::mem::take(&mut link.doubted);
        let generation = link.generation;
        for id in self.ledger.in_order(|e| is_on(e, generation)) {
            if let Some(&status) = doubted.get(&id) {
                self.refuse_unexecuted(&id, Error::Rejected { status, why: None });
            }
        }
        self.flush(now);
    }

    pub(super) fn check_on_time(&mut self, now: Time) {
        let link = self.link.as_ref().filter(|link| link.is_alive());
        let check = link.and_then(|link| link.check.as_ref());
        if check.is_some_and(|check| check.until <= now) {
            self.session_lives(now);
        }
    }
}
