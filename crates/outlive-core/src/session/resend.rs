//! A server has not executed a request and would take it in another way: at another address, with other credentials or
//! headers, by the older transport.
//!
//! The transport knows how, and asks here whether. A request is sent again while somebody waits for it, on the link it
//! was sent on, and no more than [`MOST_RESENDS`] times in all. [`Retry::Never`](crate::policy::Retry) is no reason
//! against it: a redirect, a challenge and a mismatch of headers are said of nothing that was executed, and where a
//! server begins with one, nothing could be sent at all.

use crate::event::{Event, Unexecuted};
use crate::link::{Generation, Resend};
use crate::message::Id;
use crate::request::{Again, Step};

use super::{Output, Session};

/// How often a request is sent again for such reasons. It is the transport that bounds each of them; this bounds the
/// transport.
pub(super) const MOST_RESENDS: u32 = 10;

impl Session {
    /// This request, by its id on the link in service, was not executed.
    pub(super) fn unexecuted(&mut self, id: Id, why: Resend) {
        let Some(link) = &self.link else { return };
        let (generation, alive) = (link.generation, link.is_alive());
        let granted = alive && (link.own.contains_key(&id) || self.resend(generation, &id, why));
        self.decide_resend(generation, id, granted);
    }

    /// Tells a link whether it may send a request again.
    pub(super) fn decide_resend(&mut self, generation: Generation, id: Id, granted: bool) {
        self.out.push_back(Output::Resend {
            generation,
            id,
            granted,
        });
    }

    /// Whether a request of the host is sent again. One that was cancelled or has expired is not on the link any more.
    fn resend(&mut self, generation: Generation, id: &Id, why: Resend) -> bool {
        let Some(host_id) = self.request_on_link(id) else {
            return false;
        };
        let Some(entry) = self.ledger.get(&host_id).cloned() else {
            return false;
        };
        if entry.superseded {
            // It would undo a later one.
            self.forget_on_link(&host_id, &entry);
            self.answer_superseded(&host_id);
            return false;
        }
        if entry.resends == MOST_RESENDS {
            return false;
        }
        self.ledger.resent(&host_id);
        // Where a server's endpoint is, it says of every request.
        if why != Resend::Redirected {
            let again = Some(Again::Unexecuted(Unexecuted::Refused));
            self.observed_step(&entry, Step::Sent { generation, again });
            self.emit(Event::Resent {
                id: String::from_utf8_lossy(entry.message.id_json()).into_owned(),
                method: entry.message.method().into(),
                generation,
                why: Unexecuted::Refused,
            });
        }
        true
    }
}
