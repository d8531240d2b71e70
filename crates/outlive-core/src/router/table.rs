//! The requests that are waited for.

use std::collections::BTreeMap;

use bytes::Bytes;
use rustc_hash::FxHashMap;

use crate::gateway::TargetId;
use crate::message::Id;
use crate::protocol::List;
use crate::server::Channel;

/// What a request is for, as far as its answer is treated in its own way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum What {
    /// The client's; its answer passes.
    Plain,
    /// The client's; it becomes a task, whose server is remembered.
    Task,
    /// The client's, to follow a resource: the URI that the server knows, and that of the client.
    Subscribe(Box<str>, Box<str>),
    /// The client's, to follow it no longer.
    Unsubscribe(Box<str>),
    /// Ours: the handshake of a leg.
    Initialize,
    /// Ours: what takes the place of it for a server that has none.
    Discover,
    /// Ours: a page of a list.
    Page(List),
    /// Ours: the level of log messages.
    Level,
    /// Ours: a subscription that the server is to have, to this resource, or no longer.
    Setting(Option<Box<str>>),
}

/// A request that is waited for.
#[derive(Clone, Debug)]
pub(super) struct Call {
    pub(super) target: TargetId,
    /// Where its client waits; a channel of ours if it is ours.
    pub(super) channel: Channel,
    /// The id as its client wrote it.
    pub(super) id_json: Bytes,
    pub(super) method: Box<str>,
    pub(super) token: Option<Id>,
    pub(super) what: What,
    /// It has left for its leg.
    pub(super) sent: bool,
    /// In the order in which they came.
    pub(super) order: u64,
}

impl Call {
    pub(super) fn is_of_client(&self) -> bool {
        !matches!(
            self.what,
            What::Initialize | What::Discover | What::Page(_) | What::Level | What::Setting(_)
        )
    }
}

/// Requests by the id that the server knows them by, which for those of the client is its own.
#[derive(Debug, Default)]
pub(super) struct Table {
    calls: FxHashMap<Id, Call>,
    /// By target, and there in the order in which they came.
    order: BTreeMap<(TargetId, u64), Id>,
    /// The client's, by target and progress token: a token that the client has given twice is told apart by the server.
    tokens: FxHashMap<(TargetId, Id), Id>,
    /// How many of the client's are at each target and channel.
    channels: FxHashMap<(TargetId, Channel), usize>,
    of_client: usize,
}

impl Table {
    pub(super) fn len(&self) -> usize {
        self.calls.len()
    }

    /// How many of them are the client's.
    pub(super) fn of_client(&self) -> usize {
        self.of_client
    }

    pub(super) fn get(&self, id: &Id) -> Option<&Call> {
        self.calls.get(id)
    }

    pub(super) fn get_mut(&mut self, id: &Id) -> Option<&mut Call> {
        self.calls.get_mut(id)
    }

    pub(super) fn insert(&mut self, id: Id, call: Call) {
        self.order.insert((call.target, call.order), id.clone());
        if let Some(token) = &call.token {
            let token = (call.target, token.clone());
            self.tokens.insert(token, id.clone());
        }
        if call.is_of_client() {
            self.of_client += 1;
            *self
                .channels
                .entry((call.target, call.channel))
                .or_default() += 1;
        }
        self.calls.insert(id, call);
    }

    pub(super) fn remove(&mut self, id: &Id) -> Option<Call> {
        let call = self.calls.remove(id)?;
        self.order.remove(&(call.target, call.order));
        if let Some(token) = &call.token {
            let token = (call.target, token.clone());
            if self.tokens.get(&token) == Some(id) {
                self.tokens.remove(&token);
            }
        }
        if call.is_of_client() {
            self.of_client -= 1;
            let place = (call.target, call.channel);
            if let Some(count) = self.channels.get_mut(&place) {
                *count -= 1;
                if *count == 0 {
                    self.channels.remove(&place);
                }
            }
        }
        Some(call)
    }

    /// Takes a request out that this target was sent; what it says about others' counts for nothing.
    pub(super) fn remove_of(&mut self, target: TargetId, id: &Id) -> Option<Call> {
        let is_its = |call: &Call| call.target == target && call.sent;
        self.get(id).is_some_and(is_its).then(|| self.remove(id))?
    }

    /// The request of this target that has this progress token.
    pub(super) fn by_token(&self, target: TargetId, token: &Id) -> Option<&Call> {
        self.get(self.tokens.get(&(target, token.clone()))?)
    }

    /// How many resources the client is about to follow.
    pub(super) fn subscribing(&self) -> usize {
        let calls = self.calls.values();
        calls
            .filter(|call| matches!(call.what, What::Subscribe(..)))
            .count()
    }

    /// Whether a request of the client's at this target came on this channel.
    pub(super) fn has_channel(&self, target: TargetId, channel: Channel) -> bool {
        self.channels.contains_key(&(target, channel))
    }

    /// The newest request of the client's at this target.
    pub(super) fn newest(&self, target: TargetId) -> Option<&Call> {
        let its = self.order.range((target, 0)..=(target, u64::MAX));
        let mut calls = its.rev().filter_map(|(_, id)| self.get(id));
        calls.find(|call| call.is_of_client())
    }

    /// Takes out all requests at this target, in the order in which they came.
    pub(super) fn take_of(&mut self, target: TargetId) -> Vec<Call> {
        let its = self.order.range((target, 0)..=(target, u64::MAX));
        let ids: Vec<Id> = its.map(|(_, id)| id.clone()).collect();
        ids.iter().filter_map(|id| self.remove(id)).collect()
    }

    /// Takes out everything, in the order in which it came.
    pub(super) fn take_all(&mut self) -> Vec<Call> {
        let mut all: Vec<Call> = self.calls.drain().map(|(_, call)| call).collect();
        all.sort_unstable_by_key(|call| call.order);
        *self = Table::default();
        all
    }
}
