//! The server wants other credentials.
//!
//! 401 is about who asks: a new link is made, for which credentials are read again. What is in flight was let in with the old
//! ones and may finish first. 403 is about what is asked: it is the request's own affair, unless everything is forbidden.

use std::time::Duration;

use crate::cause::Reason;
use crate::error::Error;
use crate::ledger::Place;
use crate::message::Id;
use crate::time::Time;

use super::Session;
use super::link::{Own, Unauthorized};

/// How long what is in flight may take to finish on a link whose credentials are no longer taken.
const FINISH: Duration = Duration::from_secs(30);

impl Session {
    /// A request was refused unexecuted for who asks (401), or for what is asked (403).
    pub(super) fn unauthorized(&mut self, now: Time, id: &Id, status: u16) {
        self.note_rejected(id);
        let link = self.link.as_ref();
        let own = link.and_then(|link| link.own.get(id)).cloned();
        let served = link.is_some_and(|link| link.served.is_some());
        let forbidden = link.is_some_and(|link| link.forbidden);
        let host_id = self.request_on_link(id);
        let greets = match &host_id {
            Some(id) => self.ledger.get(id).is_some_and(|e| self.is_greeting(e)) && !served,
            None => own == Some(Own::Handshake),
        };
        let at_stake = self.is_at_stake();
        if greets && !at_stake {
            return self.end_by_refusal(now, Reason::Unauthorized(status));
        }
        let probes = matches!(own, Some(Own::Probe | Own::SessionCheck));
        let its_own = status == 403
            && match host_id {
                Some(_) => served || at_stake,
                None => !(probes && forbidden),
            };
        if !its_own && !at_stake {
            return self.end_by_refusal(now, Reason::Unauthorized(status));
        }
        if !its_own {
            self.finish_unauthorized(now, status);
        }
        self.own_answer_is_lost(now, id, &format!("status {status}"));
        let Some(host_id) = host_id else { return };
        if its_own {
            if let Some(link) = &mut self.link {
                // If even that is forbidden, everything is.
                link.forbidden = true;
                link.pulse.urgent = true;
            }
            return self.refuse_unexecuted(&host_id, Error::Rejected { status });
        }
        let cause = self.cause(now, Reason::Unauthorized(status));
        self.refuse_unexecuted(
            &host_id,
            Error::Unavailable {
                cause: Some(cause),
                held: Duration::ZERO,
                retry_after: None,
            },
        );
    }

    /// The link ends when what is in flight on it has finished.
    fn finish_unauthorized(&mut self, now: Time, status: u16) {
        if let Some(link) = &mut self.link {
            link.unauthorized.get_or_insert(Unauthorized {
                status,
                frame: link.frames,
                until: now + FINISH,
            });
        }
    }

    /// A request had a result.
    pub(super) fn note_accepted(&mut self, place: &Place) {
        let (Some(link), Place::InFlight { frame, .. }) = (&mut self.link, place) else {
            return;
        };
        link.forbidden = false;
        link.unauthorized = link.unauthorized.filter(|refused| *frame < refused.frame);
    }

    pub(super) fn credentials_on_time(&mut self, now: Time) {
        let link = self.link.as_ref().filter(|link| link.is_alive());
        let Some(refused) = link.and_then(|link| link.unauthorized) else {
            return;
        };
        if refused.until <= now || !self.is_at_stake() {
            self.end_by_refusal(now, Reason::Unauthorized(refused.status));
        }
    }
}
