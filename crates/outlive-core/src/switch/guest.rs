//! What is known about a legacy client.

use std::collections::BTreeSet;

use bytes::Bytes;

use crate::message::{Id, Message};
use crate::server::handshake::lacking;
use crate::server::refusal::Refusal;
use crate::server::{Channel, Level};

use super::table::{Call, What};
use super::{Client, Switch};

/// A legacy client.
#[derive(Debug, Default)]
pub(super) struct Guest {
    /// Requests it waits for.
    pub(super) calls: usize,
    /// It has sent `initialize`.
    pub(super) introduced: bool,
    /// Its handshake has been answered.
    pub(super) ready: bool,
    /// What it says it can do, a JSON object.
    pub(super) capabilities: Bytes,
    /// The least severe log messages it wants.
    pub(super) level: Option<Level>,
    /// The resources it wants to hear of.
    pub(super) resources: BTreeSet<Box<str>>,
}

impl Guest {
    /// Whether it can be asked this.
    pub(super) fn can(&self, ask: &Message) -> bool {
        let params = ask.params().unwrap_or(b"{}");
        lacking(&self.capabilities, ask.method(), params).is_none()
    }

    /// Whether it wants to hear of this resource: it or what it is a part of was subscribed to.
    pub(super) fn follows(&self, uri: &str) -> bool {
        let part_of = |whole: &str| uri.starts_with(whole);
        self.resources.iter().any(|known| part_of(known))
    }
}

impl Switch {
    pub(super) fn subscriptions(&self) -> usize {
        self.guests.values().map(|it| it.resources.len()).sum()
    }

    /// The only client there is.
    pub(super) fn only_guest(&self) -> Option<Client> {
        let mut clients = self.guests.keys();
        clients.next().copied().filter(|_| clients.next().is_none())
    }

    /// The only client that waits for something, or the only one there is.
    pub(super) fn only_candidate(&self) -> Option<Client> {
        let mut busy = self.guests.iter().filter(|(_, guest)| guest.calls > 0);
        match busy.next() {
            Some((client, _)) => busy.next().is_none().then_some(*client),
            None => self.only_guest(),
        }
    }

    /// The channels of this client's requests, newest last.
    pub(super) fn channels_of(&self, client: Client) -> Vec<Channel> {
        let mut found: Vec<(u64, Channel)> = self
            .table
            .iter()
            .map(|(_, call)| call)
            .filter(|call| call.client == client && call.channel != Channel::MAIN)
            .map(|call| (call.order, call.channel))
            .collect();
        found.sort_unstable();
        found.into_iter().map(|(_, channel)| channel).collect()
    }

    /// `logging/setLevel`: the server is asked for what the most curious client wants.
    pub(super) fn set_level(&mut self, client: Client, channel: Channel, message: &Message) {
        let level = message.level().as_deref().and_then(Level::of);
        let alone = self.only_guest() == Some(client);
        match level {
            Some(level) if !alone && self.level.is_some_and(|it| it <= level) => {
                if let Some(guest) = self.guests.get_mut(&client) {
                    guest.level = Some(level);
                }
                self.answer_plainly(client, channel, message);
            }
            Some(level) => self.forward(client, channel, message, What::Level(level)),
            // The server says what is wrong with it.
            None => self.forward(client, channel, message, What::Plain),
        }
    }

    pub(super) fn subscribe(&mut self, client: Client, channel: Channel, message: &Message) {
        let Some(uri) = message.uri().map(|uri| Box::from(&*uri)) else {
            return self.forward(client, channel, message, What::Plain);
        };
        if self.subscriptions() >= self.limits.subscriptions {
            let refusal = Refusal::overloaded(message.method());
            return self.refuse(client, channel, message.id_json(), &refusal);
        }
        // Before the answer: the first update may come with it.
        if let Some(guest) = self.guests.get_mut(&client) {
            guest.resources.insert(Box::clone(&uri));
        }
        self.forward(client, channel, message, What::Subscribe(uri));
    }

    /// The server is told only if nobody else wants to hear of it.
    pub(super) fn unsubscribe(&mut self, client: Client, channel: Channel, message: &Message) {
        if let Some(uri) = message.uri() {
            self.forget_subscription(client, &uri);
            if self.is_followed(&uri) {
                return self.answer_plainly(client, channel, message);
            }
        }
        self.forward(client, channel, message, What::Plain);
    }

    pub(super) fn forget_subscription(&mut self, client: Client, uri: &str) {
        if let Some(guest) = self.guests.get_mut(&client) {
            guest.resources.remove(uri);
        }
    }

    fn is_followed(&self, uri: &str) -> bool {
        let follows = |guest: &super::Guest| guest.resources.contains(uri);
        self.guests.values().any(follows)
    }

    /// A client is gone for good: nothing is done for it any more.
    pub(super) fn on_gone(&mut self, client: Client) {
        for id in self.table.ids_of(|call| call.client == client) {
            let Some(call) = self.take(&id) else { continue };
            self.held.remove(&call.channel);
            match call.what {
                // `initialize` must not be cancelled (2025-11-25), and its answer is good for the next.
                What::Initialize if !self.is_waiting_here(&id) => self.orphan(id, call),
                _ => self.abandon(&id, &call, None),
            }
        }
        let asked: Vec<_> = self
            .asks
            .iter()
            .filter(|(_, ask)| ask.client == client)
            .map(|(id, _)| id.clone())
            .collect();
        for id in asked {
            self.asks.remove(&id);
            self.answer_ask(&id, "The client has left.");
        }
        for (_, channel) in self
            .unconfirmed
            .extract_if(.., |(owner, _)| *owner == client)
        {
            self.held.remove(&channel);
        }
        self.tasks.retain(|(_, owner, _)| *owner != client);
        let Some(guest) = self.guests.remove(&client) else {
            return;
        };
        for uri in &guest.resources {
            if !self.is_followed(uri) && self.guests.values().any(|guest| guest.ready) {
                self.unfollow(uri);
            }
        }
    }

    /// Nobody is left who wants to hear of this resource.
    fn unfollow(&mut self, uri: &str) {
        let params = serde_json::json!({ "uri": uri }).to_string();
        self.send_own("resources/unsubscribe", &params, What::Plain);
    }

    /// Its client is gone, but it has to be waited for.
    fn orphan(&mut self, id: Id, call: Call) {
        let call = Call {
            orphan: true,
            ..call
        };
        self.table.insert(id, call);
    }
}
