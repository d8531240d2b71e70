//! The end: the client leaves, or the server is shut down.
//!
//! | what happened | what is sent | handlers |
//! |---|---|---|
//! | the client closed its side | answers, until all are given or the drain is over | go on, then as below |
//! | the connection broke | nothing | told, dropped after their grace |
//! | a shutdown | answers, until the grace is over, then errors | told, dropped after their grace |

use crate::error::{Error, Outcome};
use crate::time::Time;

use super::refusal::ServerRefusal;
use super::request::{CancelReason, Ticket};
use super::table::Place;
use super::{CloseKind, Output, Server, ServerEvent};

/// How the server is ending, if it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ending {
    No,
    /// The client sends no more; what was accepted may finish until then.
    Drain {
        until: Time,
    },
    /// Handlers have been told to finish within their grace.
    Shutdown,
    /// Nothing is sent any more; the last handlers are leaving.
    Gone,
    Closed,
}

/// What becomes of requests of ours when the client can no longer answer.
pub(super) fn ended() -> Error {
    Error::ShuttingDown {
        outcome: Outcome::Unknown,
    }
}

impl Server {
    pub(super) fn on_closed(&mut self, now: Time, kind: &CloseKind) {
        self.hearing = false;
        if self.ending == Ending::No {
            self.draining(kind.to_string());
        }
        match (kind, self.ending) {
            (CloseKind::Eof, Ending::No) => {
                let until = now + self.policy.drain;
                self.ending = Ending::Drain { until };
                self.clear_subscriptions();
                self.close_asks(now);
                // Nobody can come back to them.
                let parked = self
                    .table
                    .tickets(|e| matches!(e.place, Place::Parked { .. }));
                for ticket in parked {
                    self.cancel(now, ticket, CancelReason::TransportClosed);
                }
            }
            (CloseKind::Eof, _) => {}
            _ => self.gone(now),
        }
    }

    fn draining(&mut self, why: String) {
        let in_flight = self.table.in_flight();
        self.emit(ServerEvent::Draining { why, in_flight });
    }

    /// Nobody is there to be told anything.
    fn gone(&mut self, now: Time) {
        self.ending = Ending::Gone;
        self.clear_subscriptions();
        for ticket in self.table.tickets(|entry| entry.place != Place::Leaving) {
            self.cancel(now, ticket, CancelReason::TransportClosed);
        }
        self.close_asks(now);
    }

    pub(super) fn shutdown(&mut self, now: Time) {
        if std::mem::replace(&mut self.stop_asked, true) {
            return self.end_at_once(now);
        }
        match self.ending {
            Ending::No => self.draining("shutdown".into()),
            Ending::Drain { .. } => {}
            Ending::Shutdown | Ending::Gone | Ending::Closed => return,
        }
        self.ending = Ending::Shutdown;
        self.end_streams();
        self.clear_subscriptions();
        for ticket in self.table.tickets(|entry| entry.place == Place::Queued) {
            if let Some(entry) = self.table.remove(ticket) {
                let refusal = ServerRefusal::shutting_down(&entry.what(), false);
                self.refuse_on(entry.channel, &entry.message, &refusal);
            }
        }
        for ticket in self
            .table
            .tickets(|e| matches!(e.place, Place::Parked { .. }))
        {
            self.cancel(now, ticket, CancelReason::Shutdown);
        }
        let running = self.table.tickets(|entry| entry.place == Place::Running);
        for ticket in &running {
            self.tell(*ticket, CancelReason::Shutdown);
        }
        // With their questions over, their clocks would go on; but they have their grace and no more.
        self.close_asks(now);
        for ticket in running {
            self.set_due(ticket, Some(now + self.policy.grace));
        }
    }

    /// Every handler is dropped now; whoever still waits is told so.
    fn end_at_once(&mut self, now: Time) {
        for ticket in self.table.tickets(|_| true) {
            self.finish(now, ticket);
        }
        self.end_streams();
        self.close_asks(now);
        self.ending = Ending::Gone;
    }

    /// Drops a handler at the end of everything.
    pub(super) fn finish(&mut self, now: Time, ticket: Ticket) {
        if let Some(entry) = self.table.get(ticket).filter(|entry| entry.is_live()) {
            let refusal = ServerRefusal::shutting_down(&entry.what(), true);
            let (message, channel) = (entry.message.clone(), entry.channel);
            self.refuse_on(channel, &message, &refusal);
        }
        self.drop_handler(now, ticket);
    }

    /// When the end comes closer, if nothing else does.
    pub(super) fn ending_due(&self) -> Option<Time> {
        match self.ending {
            Ending::Drain { until } => Some(until),
            Ending::No | Ending::Shutdown | Ending::Gone | Ending::Closed => None,
        }
    }

    pub(super) fn drain_on_time(&mut self, now: Time) {
        if let Ending::Drain { until } = self.ending
            && (until <= now || self.table.in_flight() == 0)
        {
            self.gone(now);
        }
    }

    pub(super) fn close_on_time(&mut self) {
        let over = !matches!(self.ending, Ending::No | Ending::Closed);
        if over && self.table.is_empty() {
            self.ending = Ending::Closed;
            self.hearing = false;
            self.out.push_back(Output::Closed);
        }
    }
}
