//! The server wants other credentials (401), or forbids what is asked (403).
//!
//! Either may be one request's own affair: a tool that wants a login of its own, a scope that is missing. So the
//! request fails with the status, and as soon as nothing else runs the server is asked for a sign of life. If that is
//! refused too, everything is: the link ends, and the next one is made with credentials that are read again.
//!
//! What is in flight was let in. It has no bound but its own, and the link is not given up under it; what the server
//! refuses meanwhile is told so at once and waits for nothing.

use crate::cause::Reason;
use crate::error::Error;
use crate::ledger::Place;
use crate::message::Id;
use crate::time::Time;

use super::Session;
use super::link::Own;

impl Session {
    /// A request was refused unexecuted for who asks (401), or for what is asked (403).
    pub(super) fn unauthorized(&mut self, now: Time, id: &Id, status: u16) {
        self.note_rejected(id, status);
        let Some(link) = &self.link else { return };
        let own = link.own.get(id).cloned();
        let served = link.served.is_some();
        let forbidden = link.forbidden.is_some();
        let host_id = self.request_on_link(id);
        let of_everything = match own {
            Some(Own::Handshake) => true,
            // Some servers forbid `ping`, and nothing that matters.
            Some(Own::Probe | Own::SessionCheck) => status == 401 || forbidden,
            Some(Own::Replay | Own::List { .. }) => false,
            // There is no session yet, or nobody to ask.
            None => host_id.is_some() && (!served || self.no_ping && status == 401),
        };
        if of_everything && !self.is_at_stake() {
            return self.end_by_refusal(now, Reason::Unauthorized(status));
        }
        self.own_answer_is_lost(now, id, &format!("status {status}"));
        if let Some(link) = &mut self.link
            && (of_everything || host_id.is_some() || status == 401)
        {
            link.forbidden = Some(link.frames);
            link.liveness.urgent = true;
        }
        if let Some(host_id) = host_id {
            self.refuse_unexecuted(&host_id, Error::Rejected { status, why: None });
        }
    }

    /// A request had a result. If it was sent after a refusal, the credentials will do.
    pub(super) fn note_accepted(&mut self, place: &Place) {
        let (Some(link), Place::InFlight { frame, .. }) = (&mut self.link, place) else {
            return;
        };
        link.forbidden = link.forbidden.filter(|since| frame < since);
    }
}
