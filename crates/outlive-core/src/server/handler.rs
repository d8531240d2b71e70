//! What happens to a handler: it is started when its turn comes, answers, is cancelled, runs out
//! of time, is dropped.

use std::sync::Arc;

use crate::bounded::escape;
use crate::error::{Error, Limit};
use crate::event::DropReason;
use crate::message::Message;
use crate::protocol::Era;
use crate::time::Time;

use super::close::ended;
use super::refusal::ServerRefusal;
use super::request::{CancelReason, Peer, Request, Ticket};
use super::result::{self, Marks};
use super::table::{Entry, Place};
use super::timers::Due;
use super::{Answer, Level, Output, STALL, Server, ServerEvent};

impl Server {
    /// A request for which there is a handler.
    pub(super) fn accept(
        &mut self,
        now: Time,
        message: Message,
        era: Era,
        peer: Arc<Peer>,
        log_level: Option<Level>,
    ) {
        if self.is_crowded() {
            let limit = match self.table.queued().0 >= self.policy.queue {
                true => Limit::queued(self.policy.queue),
                false => Limit::queued_bytes(self.policy.queue_bytes),
            };
            let refusal = ServerRefusal::beyond(limit, message.method());
            return self.refuse(&message, &refusal);
        }
        self.table
            .accept(message, self.current, era, peer, log_level);
        self.start_waiting(now);
        if self.is_crowded() {
            self.stalls_at = now + STALL;
        }
    }

    /// Whether no more requests may wait. One more may come than there are bytes for.
    pub(super) fn is_crowded(&self) -> bool {
        let (queued, bytes) = self.table.queued();
        queued > 0 && (queued >= self.policy.queue || bytes >= self.policy.queue_bytes)
    }

    /// Starts what waits, in order, as far as there is room. One handler always may run.
    pub(super) fn start_waiting(&mut self, now: Time) {
        while let Some((ticket, size)) = self.table.first_queued() {
            let busy = self.table.busy();
            let fits = busy < self.policy.concurrency
                && self.table.bytes() + size <= self.policy.running_bytes;
            if busy > 0 && !fits {
                return;
            }
            let due = self.policy.deadline.map(|deadline| now + deadline);
            let Some(entry) = self.table.start(ticket) else {
                return;
            };
            entry.due = due;
            let request = Request {
                message: entry.message.clone(),
                channel: entry.channel,
                era: entry.era,
                peer: entry.peer.clone(),
                log_level: entry.log_level,
            };
            self.timers.shift(Due::Ticket(ticket), None, due);
            self.stalls_at = now + STALL;
            self.out.push_back(Output::Start(ticket, request.into()));
        }
    }

    /// Moves the time of a ticket.
    pub(super) fn set_due(&mut self, ticket: Ticket, due: Option<Time>) {
        if let Some(entry) = self.table.get_mut(ticket) {
            let before = std::mem::replace(&mut entry.due, due);
            self.timers.shift(Due::Ticket(ticket), before, due);
        }
    }

    /// Takes a ticket out for good, with all that hangs on it.
    fn release(&mut self, now: Time, ticket: Ticket) -> Option<Entry> {
        self.set_due(ticket, None);
        let entry = self.table.remove(ticket)?;
        self.give_up_asks(now, ticket, &Error::CancelledByCaller);
        Some(entry)
    }

    /// A handler is done.
    pub(super) fn on_answer(&mut self, now: Time, ticket: Ticket, answer: Answer) {
        let running = |entry: &Entry| entry.place != Place::Queued;
        if !self.table.get(ticket).is_some_and(running) {
            let detail = format!("ticket {ticket}");
            return self.dropped(DropReason::LateAnswer, detail);
        }
        let Some(entry) = self.release(now, ticket) else {
            return;
        };
        match entry.place {
            Place::Running => self.answer(&entry, answer),
            _ => {
                let detail = format!("{} (ticket {ticket})", entry.what());
                self.dropped(DropReason::LateAnswer, detail);
            }
        }
        self.start_waiting(now);
    }

    /// Sends the answer to a request that has been taken out of the table.
    fn answer(&mut self, entry: &Entry, answer: Answer) {
        let id_json = entry.message.id_json();
        let (how, words) = match answer {
            Answer::Result(json) if json.starts_with(b"{") => {
                let marks = match entry.era {
                    Era::Legacy => Marks::default(),
                    Era::Modern => Marks::missing(entry.message.method(), &json),
                };
                let line = result::response(id_json, &json, marks, &self.policy.info);
                return self.send(entry.channel, line);
            }
            Answer::Error(error) => {
                let line = Message::failure(id_json, error.to_json().as_bytes());
                return self.send(entry.channel, line);
            }
            Answer::Result(_) => ("gave a result that is no object", None),
            Answer::Dropped => ("ended without an answer", None),
            Answer::Panicked(words) => ("panicked", Some(words)),
        };
        // What a panic says may be a secret: it is for our log, and not for the client.
        self.emit(ServerEvent::Faulted {
            method: entry.message.method().to_string(),
            words: match words {
                Some(words) => format!("{how}: {}", escape(&words)),
                None => how.to_string(),
            },
        });
        let refusal = ServerRefusal::fault(&entry.what(), how);
        let line = Message::failure(id_json, refusal.error.to_json().as_bytes());
        self.send(entry.channel, line);
    }

    /// The client no longer waits for a live request, or must not: its handler is told and has
    /// its grace to leave.
    pub(super) fn cancel(&mut self, now: Time, ticket: Ticket, reason: CancelReason) {
        let Some(entry) = self.table.get(ticket) else {
            return;
        };
        if entry.place == Place::Queued {
            self.table.remove(ticket);
            return;
        }
        // One that was told before has its grace already.
        let told = entry.due.filter(|_| entry.told);
        let due = told.unwrap_or(now + self.policy.grace);
        self.table.leave(ticket);
        self.set_due(ticket, Some(due));
        let error = match reason {
            CancelReason::Client(_) | CancelReason::Deadline => Error::CancelledByCaller,
            CancelReason::TransportClosed | CancelReason::Shutdown => ended(),
        };
        self.tell(ticket, reason);
        self.give_up_asks(now, ticket, &error);
    }

    /// Tells a handler that nobody waits for it, once.
    pub(super) fn tell(&mut self, ticket: Ticket, reason: CancelReason) {
        if let Some(entry) = self.table.get_mut(ticket)
            && !std::mem::replace(&mut entry.told, true)
        {
            self.out.push_back(Output::Cancel(ticket, reason));
        }
    }

    /// The time of a ticket has come.
    pub(super) fn ticket_due(&mut self, now: Time, ticket: Ticket) {
        let Some(entry) = self.table.get(ticket) else {
            return;
        };
        match entry.place {
            Place::Running if entry.told => self.finish(now, ticket),
            Place::Running => {
                let after = self.policy.deadline.unwrap_or_default();
                let refusal = ServerRefusal::timeout(&entry.what(), after);
                let (message, channel) = (entry.message.clone(), entry.channel);
                self.refuse_on(channel, &message, &refusal);
                self.cancel(now, ticket, CancelReason::Deadline);
            }
            Place::Parked { .. } => self.cancel(now, ticket, CancelReason::Deadline),
            Place::Leaving | Place::Queued => self.drop_handler(now, ticket),
        }
    }

    /// Orders a handler to be dropped; nobody waits for it.
    pub(super) fn drop_handler(&mut self, now: Time, ticket: Ticket) {
        if self.release(now, ticket).is_some() {
            self.out.push_back(Output::Drop(ticket));
            self.start_waiting(now);
        }
    }

    /// Stops the clock of a handler while it waits for the client, and lets it go on (FM-50).
    pub(super) fn count_asks(&mut self, now: Time, ticket: Ticket, change: isize) {
        let Some(entry) = self.table.get_mut(ticket) else {
            return;
        };
        let before = entry.asks;
        entry.asks = before.saturating_add_signed(change);
        let due = match (before, entry.asks) {
            (0, 1..) if entry.place == Place::Running => {
                entry.left = entry.due.map(|due| due - now);
                None
            }
            (1.., 0) if entry.place == Place::Running => match entry.left.take() {
                Some(left) => Some(now + left),
                None => return,
            },
            _ => return,
        };
        self.set_due(ticket, due);
    }
}
