//! One stream of `subscriptions/listen` for a leg: changes of lists, and of the resources that the client follows.
//!
//! What a stream tells is said when it is opened. When the client follows something else, another stream is opened, and
//! the one before is left when the server has acknowledged the new one, so that nothing is missed between them. A
//! stream that ended is opened again after a pause; since nobody told of changes meanwhile, all lists are read again.

use std::collections::BTreeSet;
use std::time::Duration;

use bytes::Bytes;
use serde_json::{Map, Value, json};

use crate::gateway::TargetId;
use crate::memory::Filter;
use crate::message::{Kind, Message};
use crate::protocol::{List, code};
use crate::router::leg::Stage;
use crate::router::{Output, Router};
use crate::server::{Channel, RpcError};
use crate::time::Time;

/// A stream that ended is opened again after this time, then twice as long each time.
const AGAIN: Duration = Duration::from_secs(1);
/// No longer than this many times doubled.
const MOST_DOUBLINGS: u32 = 8;
/// Unless it was there for this long.
const STEADY: Duration = Duration::from_secs(60);

/// A request to be told of changes.
#[derive(Debug)]
struct Stream {
    channel: Channel,
    /// Its id as written: whatever has another one is no answer to it.
    id_json: Bytes,
}

/// The stream that a server tells of changes on.
#[derive(Debug, Default)]
pub(super) struct Listening {
    /// The stream there is.
    open: Option<Stream>,
    /// Since when.
    opened: Time,
    /// The stream that the server has not acknowledged yet.
    opening: Option<Stream>,
    /// The resources that the client follows.
    wanted: BTreeSet<Box<str>>,
    /// Those of them that the newest stream was opened with.
    asked: BTreeSet<Box<str>>,
    /// Requests to follow a resource that wait for an acknowledgement: channel, id as written, URI.
    waiting: Vec<(Channel, Bytes, Box<str>)>,
    /// When a stream is to be opened.
    due: Option<Time>,
    /// How many have ended or were refused in a row.
    failures: u32,
    /// There was a stream, and then none: changes may have been missed.
    has_lapsed: bool,
    /// The server has no streams.
    is_absent: bool,
}

impl Listening {
    pub(super) fn is_on(&self, channel: Channel) -> bool {
        self.channels().any(|it| it == channel)
    }

    pub(super) fn channels(&self) -> impl Iterator<Item = Channel> + use<> {
        let channel = |it: &Option<Stream>| it.as_ref().map(|it| it.channel);
        let (open, opening) = (channel(&self.open), channel(&self.opening));
        open.into_iter().chain(opening)
    }

    /// Whether this is the answer to the request on this channel.
    fn is_answer(&self, channel: Channel, answer: &Message) -> bool {
        let streams = self.open.iter().chain(&self.opening);
        let mut those = streams.filter(|it| it.channel == channel);
        those.any(|it| *it.id_json == *answer.id_json())
    }

    /// When a stream is opened. One that is being opened is waited for.
    pub(super) fn deadline(&self) -> Option<Time> {
        self.due.filter(|_| self.opening.is_none())
    }
}

impl Router {
    fn listening(&mut self, target: TargetId) -> Option<&mut Listening> {
        Some(&mut self.uplift(target)?.listening)
    }

    /// The server is in service: it is to tell of changes.
    pub(in crate::router) fn begin_listening(&mut self, target: TargetId) {
        let now = self.now;
        if let Some(listening) = self.listening(target) {
            listening.due = Some(now);
        }
    }

    /// The client follows a resource; it is told so when the server has acknowledged that.
    pub(super) fn lift_subscription(
        &mut self,
        target: TargetId,
        channel: Channel,
        message: &Message,
    ) {
        let now = self.now;
        let uri: Box<str> = message.uri().unwrap_or_default().into();
        let Some(listening) = self.listening(target) else {
            return;
        };
        if listening.is_absent {
            let why = no_updates(&uri);
            return self.lower_failure(target, channel, message, &why);
        }
        let is_told = listening.open.is_some()
            && listening.opening.is_none()
            && listening.wanted.contains(&uri)
            && listening.asked.contains(&uri);
        listening.wanted.insert(uri.clone());
        if is_told {
            return self.lower_answer(target, channel, message);
        }
        let id_json = Bytes::copy_from_slice(message.id_json());
        listening.waiting.push((channel, id_json, uri));
        // Also if a stream is being opened again after a pause: this one may be welcome.
        listening.due = Some(now);
    }

    /// It follows it no longer. The stream stays as it is, and what it tells of this resource is dropped. Whoever still
    /// waits to follow it has what it wanted for a moment.
    pub(super) fn drop_subscription(&mut self, target: TargetId, message: &Message) {
        let uri = message.uri().unwrap_or_default().into_owned();
        let Some(listening) = self.listening(target) else {
            return;
        };
        listening.wanted.remove(&*uri);
        let of_it = |it: &mut (Channel, Bytes, Box<str>)| *it.2 == *uri;
        let answered: Vec<_> = listening.waiting.extract_if(.., of_it).collect();
        for (channel, id_json, _) in answered {
            self.lower(target, channel, Message::response(&id_json, b"{}"));
        }
    }

    /// Opens the streams that are due.
    pub(super) fn open_streams(&mut self) {
        let now = self.now;
        let due = self.legs.iter().filter(|(_, leg)| {
            let uplift = leg.uplift.as_ref().filter(|_| leg.stage == Stage::Ready);
            let due = uplift.and_then(|it| it.listening.deadline());
            due.is_some_and(|at| at <= now)
        });
        let due: Vec<TargetId> = due.map(|(target, _)| *target).collect();
        for target in due {
            self.open_stream(target);
        }
    }

    fn open_stream(&mut self, target: TargetId) {
        let leg = self.legs.get(&target);
        let reading = leg.and_then(|leg| leg.reading.as_ref());
        let lists = [List::Tools, List::Prompts, List::Resources];
        let lists = lists
            .into_iter()
            .filter(|list| reading.is_some_and(|it| it.offers(*list)));
        let mut filter: Map<String, Value> = lists
            .map(|list| (list.filter_field().to_owned(), Value::Bool(true)))
            .collect();
        let id = self.own_id();
        let channel = self.own_channel();
        let Some(listening) = self.listening(target) else {
            return;
        };
        listening.due = None;
        if !listening.wanted.is_empty() {
            filter.insert("resourceSubscriptions".into(), json!(listening.wanted));
        }
        if filter.is_empty() || listening.is_absent {
            return;
        }
        listening.asked = listening.wanted.clone();
        let id_json = Bytes::from(id.to_json());
        listening.opening = Some(Stream {
            channel,
            id_json: id_json.clone(),
        });
        let params = json!({ "notifications": filter }).to_string();
        let request = Message::request(&id_json, "subscriptions/listen", params.as_bytes());
        let request = self.lifted(target, &request, b"");
        self.out
            .push_back(Output::Request(target, channel, request));
    }

    /// The server says something on a stream.
    pub(super) fn on_listened(&mut self, target: TargetId, channel: Channel, message: &Message) {
        match (message.kind(), message.method()) {
            (Kind::Response, _) => {
                let is_answer = |it: &mut Listening| it.is_answer(channel, message);
                if self.listening(target).is_some_and(is_answer) {
                    self.on_stream_ended(target, channel, message);
                }
            }
            (Kind::Notification, "notifications/subscriptions/acknowledged") => {
                self.on_acknowledged(target, channel, message);
            }
            (Kind::Notification, "notifications/resources/updated") => {
                let uri = message.uri().unwrap_or_default();
                let follows = |it: &mut Listening| !it.wanted.is_empty();
                if self.listening(target).is_some_and(follows) {
                    let params = json!({ "uri": uri }).to_string();
                    let told = Message::notification(message.method(), params.as_bytes());
                    self.lower(target, Channel::MAIN, told);
                }
            }
            (Kind::Notification, method) if method.ends_with("/list_changed") => {
                self.lower(target, Channel::MAIN, Message::notification(method, b""));
            }
            _ => {}
        }
    }

    /// The server has opened a stream, and tells what it will say there.
    fn on_acknowledged(&mut self, target: TargetId, channel: Channel, message: &Message) {
        let now = self.now;
        let agreed = Filter::read(message.params().unwrap_or_default());
        let Some(listening) = self.listening(target) else {
            return;
        };
        let Some(opened) = listening.opening.take_if(|it| it.channel == channel) else {
            return;
        };
        listening.opened = now;
        let before = listening.open.replace(opened);
        let lapsed = std::mem::take(&mut listening.has_lapsed);
        let answered: Vec<_> = listening.take_answered();
        let is_agreed = |uri: &str| agreed.resources.iter().any(|it| it.as_str() == uri);
        for (_, _, uri) in &answered {
            if !is_agreed(uri) {
                listening.wanted.remove(uri);
            }
        }
        listening.due = (!listening.waiting.is_empty()).then_some(now);
        if let Some(before) = before {
            self.out.push_back(Output::Leave(target, before.channel));
        }
        for (channel, id_json, uri) in answered {
            let answer = match is_agreed(&uri) {
                true => Message::response(&id_json, b"{}"),
                false => Message::failure(&id_json, no_updates(&uri).to_json().as_bytes()),
            };
            self.lower(target, channel, answer);
        }
        if lapsed {
            self.read_all(target);
        }
    }

    /// A stream has ended, or was refused.
    fn on_stream_ended(&mut self, target: TargetId, channel: Channel, answer: &Message) {
        let now = self.now;
        let error = answer.error().unwrap_or_default();
        let error: Value = serde_json::from_slice(error).unwrap_or_default();
        let Some(listening) = self.listening(target) else {
            return;
        };
        let was_open = listening.open.take_if(|it| it.channel == channel);
        if was_open.is_some() {
            listening.has_lapsed = true;
            if now >= listening.opened + STEADY {
                listening.failures = 0;
            }
        } else {
            listening.opening = None;
        }
        listening.is_absent |= error["code"] == code::METHOD_NOT_FOUND;
        let answered: Vec<_> = match (&listening.opening, listening.is_absent) {
            // The next one is on its way.
            (Some(_), _) => Vec::new(),
            (None, true) => std::mem::take(&mut listening.waiting),
            (None, false) => listening.take_answered(),
        };
        for (_, _, uri) in &answered {
            listening.wanted.remove(uri);
        }
        let pause = AGAIN * (1 << listening.failures.min(MOST_DOUBLINGS));
        listening.failures = listening.failures.saturating_add(1);
        listening.due = (!listening.is_absent).then_some(now + pause);
        for (channel, id_json, uri) in answered {
            let why = no_updates(&uri).to_json();
            let answer = Message::failure(&id_json, why.as_bytes());
            self.lower(target, channel, answer);
        }
    }
}

impl Listening {
    /// Takes out the requests that the newest stream was opened with.
    fn take_answered(&mut self) -> Vec<(Channel, Bytes, Box<str>)> {
        let asked = &self.asked;
        let is_of_it = |it: &mut (Channel, Bytes, Box<str>)| asked.contains(&it.2);
        self.waiting.extract_if(.., is_of_it).collect()
    }
}

fn no_updates(uri: &str) -> RpcError {
    let shown = &uri[..uri.floor_char_boundary(200)];
    RpcError::new(
        code::INVALID_PARAMS,
        format!("The server does not tell when {shown:?} changes. Read it again instead."),
    )
}
