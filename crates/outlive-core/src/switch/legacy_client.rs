//! What is known about a legacy client.

use std::collections::BTreeMap;

use bytes::Bytes;

use crate::message::{Id, Message};
use crate::server::handshake::lacking;
use crate::server::refusal::ServerRefusal;
use crate::server::{Channel, Level};
use crate::session::AbandonReason;

use super::table::{Call, Scope, What};
use super::{Client, Sharing, Switch};

/// A legacy client.
#[derive(Debug, Default)]
pub(super) struct LegacyClient {
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
    /// When it chose that, in the order of requests.
    pub(super) chosen: u64,
    /// The resources it wants to hear of.
    pub(super) resources: BTreeMap<Box<str>, Follow>,
}

/// How a client has come to follow a resource. It does from its request on, since the first update may come with the
/// answer, and until the last of these requests is refused.
#[derive(Debug)]
pub(super) struct Follow {
    /// The order of the first of its requests; an answer to an earlier one is none to these.
    since: u64,
    /// How many of them are not answered.
    pending: usize,
    /// One was answered with a result.
    sure: bool,
}

impl LegacyClient {
    /// Whether it can be asked this.
    pub(super) fn can(&self, ask: &Message) -> bool {
        let params = ask.params().unwrap_or(b"{}");
        lacking(&self.capabilities, ask.method(), params).is_none()
    }

    /// Whether it wants to hear of this resource: it or what it is a part of was subscribed to.
    pub(super) fn follows(&self, uri: &str) -> bool {
        self.resources.keys().any(|known| is_part_of(known, uri))
    }
}

/// Whether a resource is another one or a part of it. The server may tell of a part of what was subscribed to
/// (2025-11-25, schema, `ResourceUpdatedNotificationParams`) and does not say whose it is. A part lies below the whole,
/// behind a slash: `x://u` does not get what is of `x://user`. Nothing lies below a scheme or a root: whoever
/// subscribes to that would be told the names of all that others follow. And a path that climbs is not below where it
/// starts.
fn is_part_of(whole: &str, uri: &str) -> bool {
    if whole == uri {
        return true;
    }
    let stem = whole.trim_end_matches('/');
    let named = stem
        .split_once(':')
        .is_some_and(|(_, rest)| !rest.is_empty());
    let below = uri.strip_prefix(stem).filter(|rest| rest.starts_with('/'));
    let climbs = |path: &str| path.split(['/', '?', '#']).any(is_dots);
    named && below.is_some_and(|path| !climbs(path))
}

/// Whether a segment of a path leads to the one above, however it is spelled.
fn is_dots(segment: &str) -> bool {
    segment.to_ascii_lowercase().replace("%2e", ".") == ".."
}

impl Switch {
    pub(super) fn subscriptions(&self) -> usize {
        self.legacy_clients
            .values()
            .map(|it| it.resources.len())
            .sum()
    }

    pub(super) fn subscribe(&mut self, client: Client, channel: Channel, message: &Message) {
        let Some(uri) = message.uri().map(|uri| Box::from(&*uri)) else {
            return self.forward(client, channel, message, What::Plain);
        };
        if self.subscriptions() >= self.limits.subscriptions {
            let refusal = ServerRefusal::overloaded(message.method());
            return self.refuse(client, channel, message.id_json(), &refusal);
        }
        let since = self.table.next();
        if let Some(legacy) = self.legacy_clients.get_mut(&client) {
            let follow = legacy.resources.entry(Box::clone(&uri)).or_insert(Follow {
                since,
                pending: 0,
                sure: false,
            });
            follow.pending += 1;
        }
        self.forward(client, channel, message, What::Subscribe(uri));
    }

    /// The server is told only if nobody else wants to hear of it.
    pub(super) fn unsubscribe(&mut self, client: Client, channel: Channel, message: &Message) {
        if let Some(uri) = message.uri() {
            if let Some(legacy) = self.legacy_clients.get_mut(&client) {
                legacy.resources.remove(&*uri);
            }
            if self.is_followed(&uri) {
                return self.answer_plainly(client, channel, message);
            }
            self.standing.remove(&*uri);
        }
        self.forward(client, channel, message, What::Unsubscribe);
    }

    /// A request to subscribe to this resource was answered, or nobody waits for its answer.
    pub(super) fn subscribed(&mut self, call: &Call, uri: &str, accepted: bool) {
        if accepted && self.is_followed(uri) {
            // Whoever asked for it: the server tells of it now.
            self.standing.insert(uri.into());
        }
        if call.orphan {
            // What its client wanted was seen to when it stopped waiting.
            return;
        }
        let Some(legacy) = self.legacy_clients.get_mut(&call.client) else {
            return;
        };
        let follow = legacy.resources.get_mut(uri);
        let Some(follow) = follow.filter(|follow| follow.since < call.order) else {
            return;
        };
        follow.pending -= 1;
        follow.sure |= accepted;
        if !accepted && follow.pending == 0 && !follow.sure {
            legacy.resources.remove(uri);
            // Another client may have given it up because this one was about to follow it.
            if self.standing.contains(uri) && !self.is_followed(uri) {
                self.unfollow(uri);
            }
        }
    }

    pub(super) fn is_followed(&self, uri: &str) -> bool {
        let follows = |legacy: &super::LegacyClient| legacy.resources.contains_key(uri);
        self.legacy_clients.values().any(follows)
    }

    /// A client is gone for good: nothing is done for it any more. If its token was withdrawn, it reads the answers to
    /// what was running, which say so.
    pub(super) fn on_gone(&mut self, client: Client, reason: AbandonReason) {
        let reads = reason == AbandonReason::TokenWithdrawn;
        let mut abandoned = Vec::new();
        for id in self
            .table
            .ids_of(|call| call.client == client && !call.orphan)
        {
            let Some(call) = self.take(&id) else { continue };
            match reads {
                true => self.tell_withdrawn(&id, &call),
                false => drop(self.held.remove(&(client, call.channel))),
            }
            match call.what {
                // `initialize` must not be cancelled (2025-11-25), and its answer is good for the next.
                What::Initialize if !self.is_waiting_here(&id) => self.orphan(id, call),
                _ => abandoned.push((id, call)),
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
        let its = |(owner, _): &mut (Client, Channel)| *owner == client;
        let unconfirmed: Vec<_> = self.unconfirmed.extract_if(.., its).collect();
        for (_, channel) in unconfirmed {
            match reads {
                true => self.release(client, channel),
                false => drop(self.held.remove(&(client, channel))),
            }
        }
        self.tasks.retain(|(owner, _)| *owner != client);
        let legacy = self.legacy_clients.remove(&client);
        for (id, call) in abandoned {
            self.abandon(&id, &call, None, reason);
        }
        let Some(legacy) = legacy else {
            return;
        };
        // Also if nobody is left: whoever comes next must not be told what it has not asked for, not even by the next
        // server, which is told what this one was. A server of its own ends with its client.
        let ends = self.sharing == Sharing::Dedicated && !self.is_shaking_hands();
        for uri in legacy.resources.keys().filter(|_| !ends) {
            if self.is_followed(uri) {
                // The server tells of it, or is about to: also if whoever else asked for it is refused.
                self.standing.insert(uri.clone());
            } else {
                self.unfollow(uri);
            }
        }
        self.align_level();
    }

    /// Nobody is left who wants to hear of this resource.
    pub(super) fn unfollow(&mut self, uri: &str) {
        self.standing.remove(uri);
        let params = serde_json::json!({ "uri": uri }).to_string();
        self.send_own("resources/unsubscribe", &params, What::Plain);
    }

    /// Its client no longer waits for it, but we have to.
    pub(super) fn orphan(&mut self, id: Id, call: Call) {
        let call = Call {
            orphan: true,
            channel: Channel::MAIN,
            // The client may use the id again.
            name: (Scope::Own, id.clone()),
            ..call
        };
        self.table.insert(id, call);
    }
}

#[cfg(test)]
mod tests {
    use super::is_part_of;

    #[test]
    fn a_part_lies_below_the_whole() {
        for (whole, uri) in [
            ("x://u", "x://u"),
            ("x://u", "x://u/a"),
            ("x://u/", "x://u/a"),
            ("file:///dir", "file:///dir/a/b"),
            ("urn:a", "urn:a/b"),
            ("", ""),
            ("x://", "x://"),
        ] {
            assert!(is_part_of(whole, uri), "{uri} is of {whole}");
        }
        for (whole, uri) in [
            ("x://u", "x://user-B/secret"),
            ("x://u", "x://u?b"),
            ("x://u/a", "x://u"),
            ("", "x://u"),
            ("", "/a"),
            ("x:", "x://u"),
            ("x:/", "x://u"),
            ("x://", "x://u"),
            ("file:///", "file:///a"),
            ("x://u", "x://u/../v"),
            ("x://u", "x://u/a/%2E%2e/../v"),
            ("x://u", "x://u/.."),
            ("x://u", "y://u/a"),
        ] {
            assert!(!is_part_of(whole, uri), "{uri} is not of {whole}");
        }
    }
}
