//! Streams of `subscriptions/listen`.

use std::collections::BTreeMap;

use bytes::Bytes;
use serde_json::{Map, Value, json};

use crate::gateway::TargetId;
use crate::memory::Filter;
use crate::message::Message;
use crate::protocol::List;
use crate::protocol::meta::of_subscription;
use crate::router::Input;
use crate::server::Channel;
use crate::server::refusal::ServerRefusal;

use super::{ModernOutput, ModernRouter};

/// A resource, by its server and the URI it has there.
pub(super) type Resource = (TargetId, Box<str>);

/// An open `subscriptions/listen`.
#[derive(Clone, Debug)]
pub(super) struct Stream {
    pub(super) id_json: Bytes,
    pub(super) lists: Vec<List>,
    /// What its client follows, and the names it has for that.
    resources: BTreeMap<Resource, Vec<Box<str>>>,
}

impl ModernRouter {
    /// Acknowledges a stream with what it will tell, and keeps it open (2026-07-28, subscriptions).
    pub(super) fn listen(&mut self, channel: Channel, message: &Message) {
        let wanted = Filter::read(message.params().unwrap_or_default());
        let lists: Vec<List> = [List::Tools, List::Prompts, List::Resources]
            .into_iter()
            .filter(|list| wanted.wants(*list))
            .collect();
        let mut resources: BTreeMap<Resource, Vec<Box<str>>> = BTreeMap::new();
        let mut names: Vec<&str> = Vec::new();
        for uri in &wanted.resources {
            if let Ok((target, original)) = self.roster.resource(uri) {
                let known = resources.entry((target, original.into())).or_default();
                if !known.iter().any(|it| **it == **uri) {
                    known.push(uri.as_str().into());
                    names.push(uri);
                }
            }
        }
        let known: usize = self.streams.values().map(|it| it.resources.len()).sum();
        if known + names.len() > self.policy.limits.subscriptions {
            let refusal = ServerRefusal::overloaded(message.method());
            return self.refuse(channel, message.id_json(), &refusal);
        }
        let mut agreed: Map<String, Value> = lists
            .iter()
            .map(|list| (list.filter_field().to_owned(), Value::Bool(true)))
            .collect();
        if !names.is_empty() {
            agreed.insert("resourceSubscriptions".into(), json!(names));
        }
        let id_json = Bytes::copy_from_slice(message.id_json());
        let meta = of_subscription(String::from_utf8_lossy(&id_json));
        let params = format!(r#"{{{meta},"notifications":{}}}"#, Value::Object(agreed));
        let method = "notifications/subscriptions/acknowledged";
        let told = Message::notification(method, params.as_bytes());
        self.out.push_back(ModernOutput::Send(channel, told));
        for resource in resources.keys() {
            let count = self.followed.entry(resource.clone()).or_default();
            *count += 1;
            if *count == 1 {
                self.follow(resource);
            }
        }
        let stream = Stream {
            id_json,
            lists,
            resources,
        };
        self.streams.insert(channel, stream);
    }

    /// Follows a resource over the bridge.
    fn follow(&mut self, (target, uri): &Resource) {
        if let Some(name) = self.roster.explicit_uri(*target, uri) {
            self.bridge.follow(*target, uri, &name);
            self.on_bridge(Input::Tick);
        }
    }

    pub(super) fn close_stream(&mut self, channel: Channel) -> Option<Stream> {
        let stream = self.streams.remove(&channel)?;
        for resource in stream.resources.keys() {
            let Some(count) = self.followed.get_mut(resource) else {
                continue;
            };
            *count -= 1;
            if *count == 0 {
                self.followed.remove(resource);
                self.bridge.unfollow(resource.0, &resource.1);
                self.on_bridge(Input::Tick);
            }
        }
        Some(stream)
    }

    /// Tells those who follow a resource that it has changed, under their names for it.
    pub(super) fn tell_updated(&mut self, method: &str, resource: &Resource) {
        for (channel, stream) in &self.streams {
            for name in stream.resources.get(resource).into_iter().flatten() {
                let meta = of_subscription(String::from_utf8_lossy(&stream.id_json));
                let params = format!(r#"{{{meta},"uri":{}}}"#, json!(name));
                let message = Message::notification(method, params.as_bytes());
                self.out.push_back(ModernOutput::Send(*channel, message));
            }
        }
    }

    pub(super) fn tell_streams(&mut self, method: &str, wants: impl Fn(&Stream) -> bool) {
        for (channel, stream) in self.streams.iter().filter(|(_, stream)| wants(stream)) {
            let meta = of_subscription(String::from_utf8_lossy(&stream.id_json));
            let params = format!("{{{meta}}}");
            let message = Message::notification(method, params.as_bytes());
            self.out.push_back(ModernOutput::Send(*channel, message));
        }
    }

    /// Each stream ends with its answer, which says that it ended gracefully.
    pub(super) fn end_streams(&mut self) {
        for (channel, stream) in std::mem::take(&mut self.streams) {
            let meta = of_subscription(String::from_utf8_lossy(&stream.id_json));
            let result = format!(r#"{{"resultType":"complete",{meta}}}"#);
            self.answer(
                channel,
                Message::response(&stream.id_json, result.as_bytes()),
            );
        }
        self.followed.clear();
        self.closing = true;
    }

    /// What streams want of servers that were changed is wanted of their successors. The bridge does so by itself.
    pub(super) fn hand_over_streams(&mut self, successors: &[(TargetId, TargetId)]) {
        let moved = |resource: &Resource| {
            let successor = successors.iter().find(|(old, _)| *old == resource.0);
            successor.map(|(_, new)| (*new, resource.1.clone()))
        };
        let old: Vec<Resource> = self.followed.keys().cloned().collect();
        for resource in old {
            if let Some(to) = moved(&resource)
                && let Some(count) = self.followed.remove(&resource)
            {
                self.followed.insert(to, count);
            }
        }
        for stream in self.streams.values_mut() {
            let resources = std::mem::take(&mut stream.resources).into_iter();
            stream.resources = resources
                .map(|(resource, names)| (moved(&resource).unwrap_or(resource), names))
                .collect();
        }
    }

    /// Follows what streams want of servers that were gone for a while.
    pub(super) fn follow_again(&mut self) {
        let lost = |(target, uri): &&Resource| {
            self.roster.contains(*target) && !self.bridge.follows(*target, uri)
        };
        let lost: Vec<Resource> = self.followed.keys().filter(lost).cloned().collect();
        for resource in lost {
            self.follow(&resource);
        }
    }
}
