//! Requests of ours to the client.
//!
//! A legacy client is sent a request and answers it. A modern one must not be sent any: what a
//! handler asks for is the answer to the request it handles, and the client comes back with the
//! input (see `round`). Either way each [`Ask`] has one end.

use std::borrow::Cow;
use std::collections::BTreeMap;

use bytes::Bytes;

use crate::bounded::RecentSet;
use crate::error::{Bound, Error, Limit, Outcome};
use crate::event::DropReason;
use crate::message::{Id, Message};
use crate::protocol::Era;
use crate::time::Time;

use super::channel::Channel;
use super::close::{Ending, ended};
use super::handshake::lacking;
use super::request::Ticket;
use super::timers::Due;
use super::{Output, Server, ServerPolicy};

/// One request of ours to the client. The driver chooses the number and never uses it twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AskId(pub u64);

impl AskId {
    /// Its id on the wire.
    fn to_wire(self) -> String {
        format!("outlive-ask-{}", self.0)
    }

    fn from_wire(id: &Id) -> Option<AskId> {
        let Id::Text(text) = id else { return None };
        let ask = AskId(text.strip_prefix("outlive-ask-")?.parse().ok()?);
        (*ask.to_wire() == **text).then_some(ask)
    }
}

/// Something to ask the client for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ask {
    /// What its answer will be known by.
    pub id: AskId,
    /// `sampling/createMessage`, `elicitation/create`, `roots/list`, or any other (legacy).
    pub method: Cow<'static, str>,
    /// Its parameters, a JSON object.
    pub params: Bytes,
    /// What a modern client sees it named (a key of `inputRequests`); `None`: we make one up.
    pub key: Option<Cow<'static, str>>,
}

/// A request of ours that has not ended.
#[derive(Clone, Debug)]
pub(super) struct Pending {
    pub(super) within: Option<Ticket>,
    /// Where it was sent. The handler that asks lasts no longer than its channel.
    channel: Channel,
    pub(super) how: How,
    due: Option<Time>,
}

#[derive(Clone, Debug)]
pub(super) enum How {
    /// It was sent as a request.
    Sent,
    /// It is part of a round, or of the next one if it was not `told` yet.
    Round {
        key: Box<str>,
        method: Cow<'static, str>,
        params: Bytes,
        told: bool,
    },
}

impl How {
    fn size(&self) -> usize {
        match self {
            How::Sent => 0,
            How::Round { key, params, .. } => key.len() + params.len(),
        }
    }
}

#[derive(Clone, Debug)]
pub(super) struct Asks {
    pending: BTreeMap<AskId, Pending>,
    /// Bytes of what has to be kept to ask again.
    bytes: usize,
    /// Requests that were sent and are no longer waited for.
    tombstones: RecentSet<AskId>,
}

impl Asks {
    pub(super) fn new(tombstones: usize) -> Asks {
        Asks {
            pending: BTreeMap::new(),
            bytes: 0,
            tombstones: RecentSet::new(tombstones),
        }
    }

    pub(super) fn len(&self) -> usize {
        self.pending.len()
    }

    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    pub(super) fn remembered(&self) -> usize {
        self.tombstones.len()
    }

    /// Whether the client owes us an answer to a request.
    pub(super) fn any_sent(&self) -> bool {
        let sent = |ask: &Pending| matches!(ask.how, How::Sent);
        self.pending.values().any(sent)
    }

    /// What this handler is waiting for, in the order it asked.
    pub(super) fn of(&mut self, ticket: Ticket) -> impl Iterator<Item = (AskId, &mut Pending)> {
        let of = move |(_, ask): &(&AskId, &mut Pending)| ask.within == Some(ticket);
        self.pending
            .iter_mut()
            .filter(of)
            .map(|(id, ask)| (*id, ask))
    }

    fn insert(&mut self, id: AskId, ask: Pending) {
        self.bytes += ask.how.size();
        self.pending.insert(id, ask);
    }

    fn remove(&mut self, id: AskId) -> Option<Pending> {
        let ask = self.pending.remove(&id)?;
        self.bytes -= ask.how.size();
        Some(ask)
    }
}

impl Server {
    pub(super) fn on_ask(&mut self, now: Time, within: Option<Ticket>, asks: Vec<Ask>) {
        for ask in asks {
            let id = ask.id;
            if self.asks.pending.contains_key(&id) {
                continue;
            }
            if let Err(error) = self.ask(now, within, ask) {
                self.out.push_back(Output::Asked(id, Err(error)));
            }
        }
        if let Some(ticket) = within {
            self.next_round(now, ticket);
        }
    }

    fn ask(&mut self, now: Time, within: Option<Ticket>, ask: Ask) -> Result<(), Error> {
        if self.ending != Ending::No {
            return Err(Error::ShuttingDown {
                outcome: Outcome::NotSent,
            });
        }
        let ServerPolicy {
            asks, queue_bytes, ..
        } = self.policy;
        if self.asks.len() >= asks {
            let limit = Limit::questions(asks);
            return Err(Error::Overloaded { limit });
        }
        if self.asks.bytes() >= queue_bytes {
            let limit = Limit::question_bytes(queue_bytes);
            return Err(Error::Overloaded { limit });
        }
        let (era, peer, channel) = match within {
            Some(ticket) => {
                let entry = self.table.get(ticket).filter(|entry| entry.may_ask());
                let entry = entry.ok_or(Error::CancelledByCaller)?;
                (entry.era, entry.peer.clone(), entry.channel)
            }
            None => {
                let why = "There is no client that takes requests.".to_string();
                let peer = self.peer.clone();
                let peer = peer.ok_or(Error::Unsupported { why })?;
                (Era::Legacy, peer, Channel::MAIN)
            }
        };
        if let Some(required) = lacking(&peer.capabilities, &ask.method, &ask.params) {
            let why = format!("The client has not declared the capability {required}.");
            return Err(Error::Unsupported { why });
        }
        let (how, due) = match (era, within) {
            (Era::Modern, Some(ticket)) => (self.in_round(ticket, &ask)?, None),
            _ => {
                let id = format!("\"{}\"", ask.id.to_wire());
                let line = Message::request(id.as_bytes(), &ask.method, &ask.params);
                self.send(channel, line);
                (How::Sent, self.policy.ask_timeout.map(|after| now + after))
            }
        };
        self.timers.shift(Due::Ask(ask.id), None, due);
        let pending = Pending {
            within,
            channel,
            how,
            due,
        };
        self.asks.insert(ask.id, pending);
        if let Some(ticket) = within {
            self.count_asks(now, ticket, 1);
        }
        Ok(())
    }

    /// Takes a request of ours out: the one way in which it ends.
    pub(super) fn end_ask(&mut self, now: Time, id: AskId) -> Option<Pending> {
        let ask = self.asks.remove(id)?;
        self.timers.shift(Due::Ask(id), ask.due, None);
        if let Some(ticket) = ask.within {
            self.count_asks(now, ticket, -1);
        }
        Some(ask)
    }

    /// Nobody waits for a request of ours any more: if it was sent, the client is told.
    fn abandon(&mut self, now: Time, id: AskId) -> bool {
        let Some(ask) = self.end_ask(now, id) else {
            return false;
        };
        if matches!(ask.how, How::Sent) {
            self.asks.tombstones.insert(id);
            // One that has closed its side can answer nothing and need not be told.
            if self.hearing {
                let params = format!(r#"{{"requestId":"{}"}}"#, id.to_wire());
                let line = Message::notification("notifications/cancelled", params.as_bytes());
                self.send(ask.channel, line);
            }
        }
        true
    }

    pub(super) fn unask(&mut self, now: Time, id: AskId) {
        self.abandon(now, id);
    }

    /// All that a handler asked for ends with this error.
    pub(super) fn give_up_asks(&mut self, now: Time, ticket: Ticket, error: &Error) {
        let ids: Vec<AskId> = self.asks.of(ticket).map(|(id, _)| id).collect();
        for id in ids {
            self.fail_ask(now, id, error.clone());
        }
    }

    fn fail_ask(&mut self, now: Time, id: AskId, error: Error) {
        if self.abandon(now, id) {
            self.out.push_back(Output::Asked(id, Err(error)));
        }
    }

    /// The time of a request of ours is up.
    pub(super) fn ask_due(&mut self, now: Time, id: AskId) {
        let after = self.policy.ask_timeout.unwrap_or_default();
        let bound = Bound::Total;
        self.fail_ask(now, id, Error::Timeout { after, bound });
    }

    /// The client answers a request of ours.
    pub(super) fn client_answer(&mut self, now: Time, message: &Message) {
        let id = message.id().cloned().unwrap_or(Id::Null);
        let answer = match (message.result(), message.error()) {
            (Some(result), _) => Ok(Bytes::copy_from_slice(result)),
            (None, error) => Err(Error::remote(error.unwrap_or_default())),
        };
        if !self.answered(now, &id, answer) {
            let known = AskId::from_wire(&id).is_some_and(|id| self.asks.tombstones.contains(&id));
            let reason = match known {
                true => DropReason::LateAnswer,
                false => DropReason::UnknownAnswer,
            };
            self.dropped(reason, format!("id {id}"));
        }
    }

    /// Ends the request of ours that has this id on the wire; `false` if there is none.
    pub(super) fn answered(&mut self, now: Time, id: &Id, answer: Result<Bytes, Error>) -> bool {
        let sent = |ask: &Pending| matches!(ask.how, How::Sent);
        let ask = AskId::from_wire(id).filter(|id| self.asks.pending.get(id).is_some_and(sent));
        let Some(ask) = ask else { return false };
        self.end_ask(now, ask);
        self.out.push_back(Output::Asked(ask, answer));
        true
    }

    /// The client can answer nothing any more.
    pub(super) fn close_asks(&mut self, now: Time) {
        let ids: Vec<AskId> = self.asks.pending.keys().copied().collect();
        for id in ids {
            self.fail_ask(now, id, ended());
        }
    }
}
