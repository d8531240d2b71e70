//! Who wants to hear of changes: a legacy client by subscribing to resources, a modern one by
//! keeping `subscriptions/listen` requests open (2026-07-28, subscriptions).

use std::collections::BTreeSet;

use bytes::Bytes;
use serde_json::{Map, Value, json};

use crate::memory::Filter;
use crate::message::{Id, Message};
use crate::protocol::List;
use crate::protocol::meta::of_subscription;

use super::Server;
use super::channel::Channel;
use super::refusal::ServerRefusal;

/// An open `subscriptions/listen`.
#[derive(Clone, Debug)]
struct Stream {
    channel: Channel,
    id: Id,
    /// Its id as the client wrote it, which is also the subscription's.
    id_json: Bytes,
    lists: Vec<List>,
    resources: Vec<String>,
}

#[derive(Clone, Debug, Default)]
pub(super) struct Subscriptions {
    /// What the legacy client has subscribed to.
    resources: BTreeSet<String>,
    /// In the order they were opened.
    streams: Vec<Stream>,
}

impl Subscriptions {
    /// Everything that counts against the bound.
    pub(super) fn len(&self) -> usize {
        let named: usize = self.streams.iter().map(|s| s.resources.len()).sum();
        self.resources.len() + self.streams.len() + named
    }

    pub(super) fn bytes(&self) -> usize {
        let of = |uri: &String| uri.len();
        let named: usize = self
            .streams
            .iter()
            .flat_map(|stream| stream.resources.iter().map(of))
            .sum();
        self.resources.iter().map(of).sum::<usize>() + named
    }

    pub(super) fn is_open(&self, channel: Channel, id: &Id) -> bool {
        let same = |stream: &Stream| stream.channel == channel && stream.id == *id;
        self.streams.iter().any(same)
    }
}

/// The metadata that ties a message to its subscription.
fn meta(id_json: &[u8]) -> String {
    of_subscription(String::from_utf8_lossy(id_json))
}

impl Server {
    fn has_room_for(&self, count: usize, bytes: usize) -> bool {
        self.subscriptions.len() + count <= self.policy.subscriptions
            && self.subscriptions.bytes() + bytes <= self.policy.queue_bytes
    }

    /// `resources/subscribe` and `resources/unsubscribe` (legacy).
    pub(super) fn subscribe(&mut self, message: &Message) {
        let Some(uri) = message.uri() else {
            let sentence = "`uri` must be a string.".to_string();
            return self.refuse(message, &ServerRefusal::invalid_params(sentence));
        };
        if message.is("resources/unsubscribe") {
            self.subscriptions.resources.remove(&*uri);
        } else if !self.subscriptions.resources.contains(&*uri) {
            if !self.has_room_for(1, uri.len()) {
                let refusal = ServerRefusal::overloaded(message.method());
                return self.refuse(message, &refusal);
            }
            self.subscriptions.resources.insert(uri.into_owned());
        }
        self.answer_plainly(message, "{}");
    }

    /// `subscriptions/listen` (modern): acknowledged with what we agree to, then kept open.
    pub(super) fn listen(&mut self, message: &Message) {
        if !self.features.announces_anything() {
            let refusal = ServerRefusal::method_not_found(message.method());
            return self.refuse(message, &refusal);
        }
        let mut wanted = Filter::read(message.params().unwrap_or_default());
        wanted.resources.sort_unstable();
        wanted.resources.dedup();
        let resources = match self.features.subscribe {
            true => std::mem::take(&mut wanted.resources),
            false => Vec::new(),
        };
        let bytes = resources.iter().map(String::len).sum();
        if !self.has_room_for(1 + resources.len(), bytes) {
            let refusal = ServerRefusal::overloaded(message.method());
            return self.refuse(message, &refusal);
        }
        let lists: Vec<List> = [List::Tools, List::Prompts, List::Resources]
            .into_iter()
            .filter(|list| wanted.wants(*list) && self.features.announces(*list))
            .collect();
        let mut agreed: Map<String, Value> = lists
            .iter()
            .map(|list| (list.filter_field().to_string(), Value::Bool(true)))
            .collect();
        if !resources.is_empty() {
            agreed.insert("resourceSubscriptions".into(), json!(resources));
        }
        let id_json = Bytes::copy_from_slice(message.id_json());
        let params = format!(
            r#"{{{},"notifications":{}}}"#,
            meta(&id_json),
            Value::Object(agreed)
        );
        let method = "notifications/subscriptions/acknowledged";
        let channel = self.current;
        self.send(channel, Message::notification(method, params.as_bytes()));
        self.table.channels.hold(channel);
        self.subscriptions.streams.push(Stream {
            channel,
            id: message.id().cloned().unwrap_or(Id::Null),
            id_json,
            lists,
            resources,
        });
    }

    /// A list has changed.
    pub(super) fn changed(&mut self, list: List) {
        if !self.features.announces(list) {
            return;
        }
        let method = list.changed_method();
        let same = |other: &List| other.changed_method() == method;
        if self.peer.is_some() {
            self.send(Channel::MAIN, Message::notification(method, b""));
        }
        self.tell_streams(method, "", |stream| stream.lists.iter().any(same));
    }

    /// A resource has changed.
    pub(super) fn updated(&mut self, uri: &str) {
        let method = "notifications/resources/updated";
        let member = format!(r#""uri":{}"#, json!(uri));
        if self.subscriptions.resources.contains(uri) {
            let params = format!("{{{member}}}");
            let line = Message::notification(method, params.as_bytes());
            self.send(Channel::MAIN, line);
        }
        let named = |stream: &Stream| stream.resources.iter().any(|named| named == uri);
        self.tell_streams(method, &format!(",{member}"), named);
    }

    fn tell_streams(&mut self, method: &str, more: &str, wants: impl Fn(&Stream) -> bool) {
        let told: Vec<(Channel, String)> = self
            .subscriptions
            .streams
            .iter()
            .filter(|stream| wants(stream))
            .map(|stream| {
                let params = format!("{{{}{more}}}", meta(&stream.id_json));
                (stream.channel, params)
            })
            .collect();
        for (channel, params) in told {
            self.send(channel, Message::notification(method, params.as_bytes()));
        }
    }

    /// The client cancels a stream; `false` if there is none of that id.
    pub(super) fn cancel_stream(&mut self, channel: Channel, id: &Id) -> bool {
        self.close_streams(|stream| stream.channel == channel && stream.id == *id)
    }

    /// The client closes all streams of a channel.
    pub(super) fn leave_streams(&mut self, channel: Channel) {
        self.close_streams(|stream| stream.channel == channel);
    }

    /// Nobody listens any more.
    pub(super) fn clear_subscriptions(&mut self) {
        self.subscriptions.resources.clear();
        self.close_streams(|_| true);
    }

    fn close_streams(&mut self, which: impl Fn(&Stream) -> bool) -> bool {
        let closed: Vec<Stream> = self
            .subscriptions
            .streams
            .extract_if(.., |stream| which(stream))
            .collect();
        for stream in &closed {
            self.table.channels.release(stream.channel);
        }
        !closed.is_empty()
    }

    /// Ends all streams from our side: each with its one response, which says that it ended
    /// gracefully, and on a shared channel with the notification that closes a stream there
    /// (2026-07-28, subscriptions and cancellation).
    pub(super) fn end_streams(&mut self) {
        let streams = std::mem::take(&mut self.subscriptions.streams);
        for Stream {
            channel, id_json, ..
        } in streams
        {
            let result = format!(r#"{{"resultType":"complete",{}}}"#, meta(&id_json));
            self.send(channel, Message::response(&id_json, result.as_bytes()));
            self.table.channels.release(channel);
            if channel != Channel::MAIN {
                continue;
            }
            let id = String::from_utf8_lossy(&id_json);
            let params = format!(r#"{{"requestId":{id},"reason":"the server is shutting down"}}"#);
            let line = Message::notification("notifications/cancelled", params.as_bytes());
            self.send(channel, line);
        }
    }
}
