//! A legacy client before a server that speaks 2026-07-28 only.
//!
//! # Theory
//!
//! Such a server knows no handshake and no session: each request tells who it is from. So a leg to it is not opened;
//! its requests go where modern requests go, each on a channel of ours. What the router says to the leg is *lifted* to
//! 2026-07-28, and what the server says is *lowered*; the rest of the router knows one era.
//!
//! ```text
//!  Router ──── lift ────► Request, Leave ────► pooled session, modern server
//!         ◄─── lower ──── Modern ◄─────────────
//! ```
//!
//! | a legacy leg | here |
//! |---|---|
//! | `initialize` | `server/discover` |
//! | a request | the same; `_meta` has the version, the client and what it can do, and the level of log messages |
//! | the server asks the client | it answers `input_required`: the client is asked, the request sent again (`rounds`) |
//! | `notifications/cancelled` | the channel is left |
//! | `resources/subscribe`, changes of lists | one stream of `subscriptions/listen` (`listening`) |
//! | `logging/setLevel` | answered here; later requests name the level |
//! | `tasks/list`, `tasks/result` | refused: 2026-07-28 is without them |
//! | other notifications of the client | dropped: they are about a session |
//!
//! Results pass byte for byte: what 2026-07-28 has added to them, a legacy client does not look at.

mod listening;
mod rounds;

use std::collections::BTreeMap;

use bytes::Bytes;
use memchr::memmem;
use serde_json::value::RawValue;
use serde_json::{Map, Value};

use crate::gateway::TargetId;
use crate::message::{Id, Kind, Message, value};
use crate::protocol::{meta, version};
use crate::server::refusal::ServerRefusal;
use crate::server::{Channel, RpcError};
use crate::time::Time;

use self::listening::Listening;
use self::rounds::{InputRequired, Round};
use super::{Introduction, Output, Router};

/// What a legacy client may have declared that modern servers know.
const CAPABILITIES: [&str; 5] = [
    "elicitation",
    "experimental",
    "extensions",
    "roots",
    "sampling",
];

/// What stands between a leg and a server of 2026-07-28.
#[derive(Debug, Default)]
pub(super) struct Uplift {
    /// Requests that the server has, by the channel of ours that each is on.
    calls: BTreeMap<Channel, Lifted>,
    /// Requests that wait for the client to tell what the server wants to know.
    rounds: Vec<Round>,
    listening: Listening,
    /// The level of log messages that the client wants, as JSON.
    level: Option<Bytes>,
}

/// A request of the router that a modern server has, or will have again.
#[derive(Debug)]
struct Lifted {
    /// The request as the router said it.
    request: Message,
    /// The channel that the router said it on.
    channel: Channel,
    /// How often the server wanted to know more.
    rounds: u32,
}

impl Uplift {
    /// When something is to be done, whoever says something.
    pub(super) fn deadline(&self) -> Option<Time> {
        let rounds = self.rounds.iter().map(|round| round.due);
        rounds.chain(self.listening.deadline()).min()
    }

    /// The requests, and the streams, that are at the server or will be.
    pub(super) fn size(&self) -> usize {
        self.calls.len() + self.rounds.len() + self.listening.channels().count()
    }
}

impl Router {
    fn uplift(&mut self, target: TargetId) -> Option<&mut Uplift> {
        self.legs.get_mut(&target)?.uplift.as_mut()
    }

    /// Says to a modern server what the router says to a leg.
    pub(super) fn lift(&mut self, target: TargetId, channel: Channel, message: Message) {
        match message.kind() {
            Kind::Request => match message.method() {
                "logging/setLevel" => {
                    let level = message.level().map(|it| Value::from(&*it).to_string());
                    if let Some(uplift) = self.uplift(target) {
                        uplift.level = level.map(Bytes::from);
                    }
                    self.lower_answer(target, channel, &message);
                }
                "resources/subscribe" => self.lift_subscription(target, channel, &message),
                "resources/unsubscribe" => {
                    self.drop_subscription(target, &message);
                    self.lower_answer(target, channel, &message);
                }
                "tasks/list" | "tasks/result" => {
                    let why = ServerRefusal::unsupported(format!(
                        "{} was not executed: the server speaks 2026-07-28, which is without it. Ask for one task with \
                         `tasks/get`.",
                        message.method()
                    ));
                    self.lower_failure(target, channel, &message, &why.error);
                }
                _ => {
                    let lifted = Lifted {
                        request: message,
                        channel,
                        rounds: 0,
                    };
                    self.send_lifted(target, lifted, b"");
                }
            },
            Kind::Response => self.on_input(target, &message),
            Kind::Notification if message.is("notifications/cancelled") => {
                self.lift_cancel(target, &message);
            }
            Kind::Notification => {}
        }
    }

    /// Hands a request to the server, with more members of `params`, each before a comma.
    fn send_lifted(&mut self, target: TargetId, lifted: Lifted, more: &[u8]) {
        let message = self.lifted(target, &lifted.request, more);
        let channel = self.own_channel();
        if let Some(uplift) = self.uplift(target) {
            uplift.calls.insert(channel, lifted);
            self.out
                .push_back(Output::Request(target, channel, message));
        }
    }

    /// A request as a modern server wants it.
    fn lifted(&mut self, target: TargetId, request: &Message, more: &[u8]) -> Message {
        let level = self.uplift(target).and_then(|it| it.level.clone());
        let introduction = self.introduction.as_ref();
        let meta = introduction.map_or_else(String::new, |it| {
            modern_meta(it, request.meta(), level.as_deref())
        });
        let params = request.params().unwrap_or(b"{}");
        let params = with_members(params, meta.as_bytes(), more);
        Message::request(request.id_json(), request.method(), &params)
    }

    /// The router hears this of the server, when it is done with what it is at.
    fn lower(&mut self, target: TargetId, channel: Channel, message: Message) {
        self.lowered.push_back((target, channel, message));
    }

    fn lower_answer(&mut self, target: TargetId, channel: Channel, request: &Message) {
        let answer = Message::response(request.id_json(), b"{}");
        self.lower(target, channel, answer);
    }

    fn lower_failure(
        &mut self,
        target: TargetId,
        channel: Channel,
        request: &Message,
        why: &RpcError,
    ) {
        let error = why.to_json();
        let answer = Message::failure(request.id_json(), error.as_bytes());
        self.lower(target, channel, answer);
    }

    /// Hears what was lowered, and opens streams that are due.
    pub(super) fn hear_lowered(&mut self) {
        loop {
            while let Some((target, channel, message)) = self.lowered.pop_front() {
                self.on_server(target, channel, message);
            }
            self.open_streams();
            if self.lowered.is_empty() {
                return;
            }
        }
    }

    /// A modern server said something on a channel of ours.
    pub(super) fn on_modern(&mut self, target: TargetId, channel: Channel, message: Message) {
        let Some(uplift) = self.uplift(target) else {
            return;
        };
        if uplift.listening.is_on(channel) {
            return self.on_listened(target, channel, &message);
        }
        let Some(lifted) = uplift.calls.get(&channel) else {
            return;
        };
        match message.kind() {
            Kind::Response if message.id() == lifted.request.id() => {}
            // It has asked nothing that it could take back.
            Kind::Notification if !message.is("notifications/cancelled") => {
                let channel = lifted.channel;
                return self.on_server(target, channel, message);
            }
            _ => return,
        }
        let Some(lifted) = uplift.calls.remove(&channel) else {
            return;
        };
        let wanted = message.result().and_then(InputRequired::read);
        let is_legacy = is_unsupported(message.error().unwrap_or_default());
        match wanted {
            Some(wanted) => self.begin_round(target, lifted, wanted),
            None => self.on_server(target, lifted.channel, message),
        }
        if is_legacy && self.table.newest(target).is_none() {
            // Another server is there than before: the next message finds out what it speaks.
            self.close_leg(target);
        }
    }

    /// Nobody waits for a request any more.
    fn lift_cancel(&mut self, target: TargetId, message: &Message) {
        let Some((uplift, id)) = self.uplift(target).zip(message.request_id()) else {
            return;
        };
        let is_it = |lifted: &Lifted| lifted.request.id() == Some(&id);
        let call = uplift.calls.iter().find(|(_, lifted)| is_it(lifted));
        if let Some(channel) = call.map(|(channel, _)| *channel) {
            uplift.calls.remove(&channel);
            return self.out.push_back(Output::Leave(target, channel));
        }
        let round = uplift.rounds.iter().position(|it| is_it(&it.lifted));
        if let Some(at) = round {
            let round = uplift.rounds.remove(at);
            self.withdraw_questions(target, &round);
        }
    }

    /// Nothing is heard of a modern server any more.
    pub(super) fn ground(&mut self, target: TargetId) {
        let leg = self.legs.get_mut(&target);
        let Some(uplift) = leg.and_then(|leg| leg.uplift.take()) else {
            return;
        };
        let streams = uplift.listening.channels();
        let calls = uplift.calls.into_keys();
        for channel in calls.chain(streams) {
            self.out.push_back(Output::Leave(target, channel));
        }
    }

    /// Does what has its time.
    pub(super) fn tick_uplift(&mut self, target: TargetId) {
        let now = self.now;
        let Some(uplift) = self.uplift(target) else {
            return;
        };
        let due = |round: &mut Round| round.due <= now;
        let due: Vec<Round> = uplift.rounds.extract_if(.., due).collect();
        for round in due {
            self.end_round(target, round);
        }
    }
}

/// The `_meta` of a request that speaks for itself, from what its client has said once.
fn modern_meta(client: &Introduction, given: Option<&[u8]>, level: Option<&[u8]>) -> String {
    let given = given.and_then(|given| serde_json::from_slice(given).ok());
    let mut all: Map<String, Value> = given.unwrap_or_default();
    let read = |json: &[u8]| serde_json::from_slice::<Value>(json).unwrap_or_default();
    let mut capabilities = match read(&client.capabilities) {
        Value::Object(declared) => declared,
        _ => Map::new(),
    };
    capabilities.retain(|name, _| CAPABILITIES.contains(&name.as_str()));
    all.insert(meta::PROTOCOL_VERSION.into(), version::MODERN.into());
    all.insert(meta::CLIENT_INFO.into(), read(&client.info));
    all.insert(meta::CLIENT_CAPABILITIES.into(), capabilities.into());
    if let Some(level) = level {
        all.insert(meta::LOG_LEVEL.into(), read(level));
    }
    Value::Object(all).to_string()
}

/// Parameters with this `_meta`, and more members, each before a comma. No other byte changes.
fn with_members(params: &[u8], meta: &[u8], more: &[u8]) -> Vec<u8> {
    let meta_at = value::member(params, "_meta");
    let Some(open) = params.iter().position(|byte| *byte == b'{') else {
        return params.to_vec();
    };
    let (before, after) = params.split_at(open + 1);
    match meta_at {
        Some(at) => [
            before,
            more,
            &params[open + 1..at.start],
            meta,
            &params[at.end..],
        ]
        .concat(),
        None => {
            let is_empty = after.trim_ascii().starts_with(b"}");
            let comma: &[u8] = if is_empty { b"" } else { b"," };
            [before, more, b"\"_meta\":", meta, comma, after].concat()
        }
    }
}

/// Whether an error says that the server knows legacy revisions only. The request was not sent there.
pub(super) fn is_unsupported(error: &[u8]) -> bool {
    memmem::find(error, br#""outlive":{"kind":"unsupported""#).is_some()
}

/// Whether an error is one of ours, and so tells nothing about the server.
pub(super) fn is_ours(error: &[u8]) -> bool {
    memmem::find(error, br#""outlive":{"kind""#).is_some()
}

/// JSON as it was written.
type Json = Box<RawValue>;

/// The id of a question of ours to the client, which stands for one of the server's.
fn question_id(number: u64) -> Id {
    Id::text(format!("outlive-uplift-{number}"))
}
