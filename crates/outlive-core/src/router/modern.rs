//! Clients of 2026-07-28 before many servers: each request speaks for itself.
//!
//! # Theory
//!
//! A modern request has no session, and each has a channel of its own. What is about all servers is answered from the
//! roster. A request that is about one goes to that server as it is, name aside, if the server is a modern one. Most
//! servers are not: then it is *bridged*. The bridge is a [`Router`] whose only client is this one; it has shaken hands
//! once, declares no capabilities, and so is never asked anything. A request loses its modern metadata on the way
//! there, and its answer is given what 2026-07-28 wants of a result on the way back.
//!
//! ```text
//!  requests ──► ModernRouter ──► modern leg ──► pooled session, modern server
//!                    │
//!                    └──► Router (bridge) ──► leg ──► session, legacy server
//! ```
//!
//! - **Which era a server is of is found out by asking it**: the first request goes there as it is, and a server that
//!   knows legacy revisions only has it refused as *unsupported*, unexecuted. Then it is bridged, and all later ones
//!   are.
//! - **A server that takes modern requests is listened to in these as well**: the leg of the bridge to it is a modern
//!   one from then on, and holds the stream on which the server tells of changes.
//! - **A client that closes its channel cancels what is on it** (2026-07-28, cancellation).
//! - **`subscriptions/listen` is ours**: lists change when the roster does, and resources are followed over the bridge,
//!   each once for all who want to hear of it, under whatever name, and by every server that there will be.

mod streams;

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use bytes::Bytes;
use rustc_hash::FxHashMap;
use serde_json::{Map, Value};

use crate::error::Outcome;
use crate::frame::Frame;
use crate::gateway::TargetId;
use crate::message::{Id, Kind, Message};
use crate::protocol::meta;
use crate::protocol::{Era, List, method, version};
use crate::roster::{Offer, Roster};
use crate::server::handshake::Introduction;
use crate::server::refusal::ServerRefusal;
use crate::server::result::{self, Marks};
use crate::server::{Channel, RpcError};
use crate::time::Time;

use self::streams::{Resource, Stream};
use super::client::server_info;
use super::uplift::{is_ours, is_unsupported};
use super::{Input, Output, Router, RouterPolicy, is_own};

/// What happened.
#[derive(Clone, Debug)]
pub enum ModernInput {
    /// A client sent a frame on a channel that was not used before.
    Client(Channel, Frame),
    /// A client closed its channel.
    Left(Channel),
    /// The token was withdrawn that this channel was opened with.
    Withdrawn(Channel),
    /// A modern server said this on a channel.
    Modern(TargetId, Channel, Message),
    /// A server said this to the bridge.
    Server(TargetId, Channel, Message),
    /// A leg of the bridge cannot be opened.
    Refused(TargetId, RpcError),
    /// A leg of the bridge is no more.
    LegEnded(TargetId),
    /// Another client has no server of this target: a leg of the bridge gives way if it is
    /// [spare](ModernRouter::spare).
    GiveWay(TargetId),
    /// This is what servers offer from now on.
    Roster(Arc<Roster>),
    /// The gateway ends: streams of subscriptions end with their answer.
    Shutdown,
    /// The moment named by [`ModernRouter::deadline`] has come.
    Tick,
}

/// What is to be done.
#[derive(Clone, Debug)]
pub enum ModernOutput {
    /// A modern server is to be handed this message on this channel.
    Request(TargetId, Channel, Message),
    /// The client of a request that was handed to a modern server has closed its channel.
    Leave(TargetId, Channel),
    /// Open a leg of the bridge.
    Open(TargetId),
    /// Close a leg of the bridge.
    Close(TargetId),
    /// The server of a leg of the bridge is to hear this.
    Hear(TargetId, Channel, Message),
    /// Send this message to the client on this channel.
    Send(Channel, Message),
    /// Nothing more will be sent on this channel.
    Done(Channel),
    /// A server turned out to offer this.
    Learned(TargetId, Box<Offer>),
}

/// Where a request is.
#[derive(Clone, Debug)]
enum Way {
    /// At a modern server.
    Modern(TargetId),
    /// At a server of which the era is not known. If it knows legacy revisions only, this is bridged.
    Tried(TargetId, Message),
    /// On the bridge, under this id.
    Bridged(Id),
}

/// A request of a modern client.
#[derive(Clone, Debug)]
struct Call {
    id_json: Bytes,
    method: Box<str>,
    /// The progress token as its client wrote it.
    token: Option<Bytes>,
    way: Way,
}

impl Call {
    /// Whether a modern server has it.
    fn is_at(&self, target: TargetId) -> bool {
        matches!(self.way, Way::Modern(at) | Way::Tried(at, _) if at == target)
    }
}

/// Clients of 2026-07-28 before many servers. See the [module](self).
#[derive(Debug)]
pub struct ModernRouter {
    bridge: Router,
    now: Time,
    roster: Arc<Roster>,
    policy: RouterPolicy,
    out: VecDeque<ModernOutput>,
    calls: FxHashMap<Channel, Call>,
    /// Channels of requests on the bridge, by the number in their id there.
    bridged: FxHashMap<u64, Channel>,
    streams: BTreeMap<Channel, Stream>,
    /// Which era a server is of, once that is known.
    eras: BTreeMap<TargetId, Era>,
    /// How often each resource is followed.
    followed: BTreeMap<Resource, usize>,
    digests: [u64; 4],
    numbers: u64,
    /// No stream is opened any more.
    closing: bool,
}

impl ModernRouter {
    /// A router without requests.
    pub fn new(policy: RouterPolicy, roster: Arc<Roster>) -> ModernRouter {
        let mut router = ModernRouter {
            bridge: Router::new(policy.clone(), roster.clone()),
            now: Time::ZERO,
            roster: roster.clone(),
            policy,
            out: VecDeque::new(),
            calls: FxHashMap::default(),
            bridged: FxHashMap::default(),
            streams: BTreeMap::new(),
            eras: BTreeMap::new(),
            followed: BTreeMap::new(),
            digests: List::ALL.map(|list| roster.digest(list)),
            numbers: 0,
            closing: false,
        };
        router.bridge.introduce_ourselves();
        router
    }

    /// Takes note of what happened at this moment.
    pub fn handle(&mut self, now: Time, input: ModernInput) {
        self.now = self.now.max(now);
        match input {
            ModernInput::Client(channel, frame) => self.on_frame(channel, frame),
            ModernInput::Left(channel) => self.on_left(channel),
            ModernInput::Withdrawn(channel) => self.on_withdrawn(channel),
            ModernInput::Modern(target, channel, message) if is_own(channel) => {
                self.on_bridge(Input::Modern(target, channel, message));
            }
            ModernInput::Modern(target, channel, message) => {
                self.on_modern(target, channel, message);
            }
            ModernInput::Server(target, channel, message) => {
                self.on_bridge(Input::Server(target, channel, message));
            }
            ModernInput::Refused(target, why) => self.on_bridge(Input::Refused(target, why)),
            ModernInput::LegEnded(target) => self.on_bridge(Input::LegEnded(target)),
            ModernInput::GiveWay(target) => self.on_bridge(Input::GiveWay(target)),
            ModernInput::Roster(roster) => self.on_roster(roster),
            ModernInput::Shutdown => self.end_streams(),
            ModernInput::Tick => self.on_bridge(Input::Tick),
        }
    }

    /// The next thing to do, if there is one.
    pub fn poll(&mut self) -> Option<ModernOutput> {
        self.out.pop_front()
    }

    /// When [`ModernInput::Tick`] is due at the latest.
    pub fn deadline(&self) -> Option<Time> {
        self.bridge.deadline()
    }

    /// Requests that clients wait for.
    pub fn in_flight(&self) -> usize {
        self.calls.len()
    }

    /// When the leg of the bridge to this target was last used, if nobody has a use for it now.
    pub fn spare(&self, target: TargetId) -> Option<Time> {
        self.bridge.spare(target)
    }

    fn on_frame(&mut self, channel: Channel, frame: Frame) {
        let message = match frame {
            Frame::Message(message) => message,
            Frame::Defect(defect) => {
                let refusal = ServerRefusal::defect(&defect);
                let id_json: &[u8] = match defect.id_json.is_empty() {
                    true => b"null",
                    false => &defect.id_json,
                };
                return self.refuse(channel, id_json, &refusal);
            }
            Frame::TooLong(line) => {
                return match &line.id {
                    Some(id) => {
                        let refusal = ServerRefusal::too_long(line.len);
                        self.refuse(channel, id.to_json().as_bytes(), &refusal)
                    }
                    None => self.done(channel),
                };
            }
            // There are no batches in this revision, and so nothing that an answer could have the id of.
            Frame::Batch(_) => return self.refuse(channel, b"", &ServerRefusal::batch()),
        };
        match message.kind() {
            Kind::Request => self.on_request(channel, &message),
            // None of them is about anything that we have.
            Kind::Notification | Kind::Response => self.done(channel),
        }
    }

    fn on_request(&mut self, channel: Channel, message: &Message) {
        if let Some(refusal) = self.objection(message) {
            return self.refuse(channel, message.id_json(), &refusal);
        }
        match message.method() {
            "server/discover" => self.discover(channel, message),
            "subscriptions/listen" => self.listen(channel, message),
            name if List::of_method(name).is_some() => self.bridge_over(channel, message),
            _ => self.pass(channel, message),
        }
    }

    fn objection(&self, message: &Message) -> Option<ServerRefusal> {
        let introduction = match message.is_modern() {
            true => Introduction::read(message.meta().unwrap_or_default()).err(),
            false => Some(ServerRefusal::uninitialized(message.method())),
        };
        if introduction.is_some() {
            return introduction;
        }
        if method::is_legacy_request(message.method()) {
            return Some(ServerRefusal::method_not_found(message.method()));
        }
        if self.closing && message.is("subscriptions/listen") {
            return Some(ServerRefusal::shutting_down(message.method(), false));
        }
        let limits = &self.policy.limits;
        let streams = self.streams.len() >= limits.subscriptions;
        let full =
            self.calls.len() >= limits.calls || message.is("subscriptions/listen") && streams;
        full.then(|| ServerRefusal::overloaded(message.method()))
    }

    fn refuse(&mut self, channel: Channel, id_json: &[u8], refusal: &ServerRefusal) {
        let error = refusal.error.to_json();
        self.answer(channel, Message::failure(id_json, error.as_bytes()));
    }

    /// Sends the one answer that a channel is for.
    fn answer(&mut self, channel: Channel, message: Message) {
        self.out.push_back(ModernOutput::Send(channel, message));
        self.done(channel);
    }

    fn done(&mut self, channel: Channel) {
        self.out.push_back(ModernOutput::Done(channel));
    }

    fn discover(&mut self, channel: Channel, message: &Message) {
        let instructions = self
            .roster
            .instructions()
            .map_or_else(String::new, |words| {
                format!(r#","instructions":{}"#, Value::from(words))
            });
        // What it says may be different in a moment.
        let about = format!(
            r#"{{"resultType":"complete","supportedVersions":["{}"],"capabilities":{},"ttlMs":0,"cacheScope":"private","_meta":{{"{}":{}}}{instructions}}}"#,
            version::MODERN,
            String::from_utf8_lossy(&self.roster.capabilities().to_json()),
            meta::SERVER_INFO,
            server_info(),
        );
        self.answer(
            channel,
            Message::response(message.id_json(), about.as_bytes()),
        );
    }

    /// Passes a request to the server it is about, which may turn out to be a legacy one.
    fn pass(&mut self, channel: Channel, message: &Message) {
        let resolved = match self.bridge.resolve(message) {
            Ok(resolved) => resolved,
            // It may be something of a server that was never seen: the bridge waits for that, or says what is wrong.
            Err(_) => return self.bridge_over(channel, message),
        };
        let target = resolved.target;
        let way = match self.eras.get(&target) {
            Some(Era::Legacy) => return self.bridge_over(channel, message),
            Some(Era::Modern) => Way::Modern(target),
            None => Way::Tried(target, message.clone()),
        };
        self.enter(channel, message, way);
        self.out.push_back(ModernOutput::Request(
            target,
            channel,
            resolved.message(message.clone()),
        ));
    }

    fn enter(&mut self, channel: Channel, message: &Message, way: Way) {
        let call = Call {
            id_json: Bytes::copy_from_slice(message.id_json()),
            method: message.method().into(),
            token: message
                .meta_progress_token_json()
                .map(Bytes::copy_from_slice),
            way,
        };
        self.calls.insert(channel, call);
    }

    /// Sends a request over the bridge.
    fn bridge_over(&mut self, channel: Channel, message: &Message) {
        self.numbers += 1;
        let number = self.numbers;
        let id = Id::Int(number as i64);
        self.enter(channel, message, Way::Bridged(id));
        self.bridged.insert(number, channel);
        let has_token = message.meta_progress_token_json().is_some();
        let mut bridged = message
            .clone()
            .with_id(number.to_string().as_bytes())
            .with_meta(&legacy_meta(message));
        if has_token {
            bridged = bridged.with_meta_progress_token(number.to_string().as_bytes());
        }
        self.on_bridge(Input::Client(channel, Frame::Message(bridged)));
    }

    /// Tells the bridge something, and does what it says.
    fn on_bridge(&mut self, input: Input) {
        self.bridge.handle(self.now, input);
        while let Some(output) = self.bridge.poll() {
            let output = match output {
                Output::Open(target) => ModernOutput::Open(target),
                Output::Close(target) => ModernOutput::Close(target),
                Output::Hear(target, channel, message) => {
                    ModernOutput::Hear(target, channel, message)
                }
                Output::Request(target, channel, message) => {
                    ModernOutput::Request(target, channel, message)
                }
                Output::Leave(target, channel) => ModernOutput::Leave(target, channel),
                Output::Learned(target, offer) => ModernOutput::Learned(target, offer),
                Output::Send(_, message) | Output::Offer(_, message) => {
                    self.on_bridged(message);
                    continue;
                }
                // A request is done with its answer.
                Output::Done(_) => continue,
            };
            self.out.push_back(output);
        }
    }

    /// Something came back over the bridge.
    fn on_bridged(&mut self, message: Message) {
        let number = |id: Option<&Id>| match id {
            Some(Id::Int(number)) => u64::try_from(*number).ok(),
            _ => None,
        };
        match message.kind() {
            Kind::Response => {
                let channel = number(message.id()).and_then(|number| self.bridged.remove(&number));
                let Some(call) = channel.and_then(|channel| self.calls.remove(&channel)) else {
                    return;
                };
                let answer = match message.result() {
                    Some(result) => {
                        let marks = Marks::missing(&call.method, result);
                        let info = server_info().to_string();
                        result::response(&call.id_json, result, marks, info.as_bytes())
                    }
                    None => message.with_id(&call.id_json),
                };
                if let Some(channel) = channel {
                    self.answer(channel, answer);
                }
            }
            Kind::Notification if message.is("notifications/progress") => {
                let token = message.progress_token();
                let channel = number(token.as_ref()).and_then(|it| self.bridged.get(&it).copied());
                let token = channel.and_then(|it| self.calls.get(&it)?.token.clone());
                if let Some((channel, token)) = channel.zip(token) {
                    let message = message.with_progress_token(&token);
                    self.out.push_back(ModernOutput::Send(channel, message));
                }
            }
            Kind::Notification if message.is("notifications/resources/updated") => {
                // The bridge is given names that lead to one server, whatever others list.
                let uri = message.uri().unwrap_or_default().into_owned();
                if let Ok((target, uri)) = self.roster.resource(&uri) {
                    self.tell_updated(message.method(), &(target, uri.into()));
                }
            }
            // Changes of lists are told by the roster; log messages belong to a request, and nothing says to which.
            Kind::Notification | Kind::Request => {}
        }
    }

    /// A modern server said something on the channel of a request.
    fn on_modern(&mut self, target: TargetId, channel: Channel, message: Message) {
        let Some(call) = self.calls.get(&channel).filter(|call| call.is_at(target)) else {
            return;
        };
        match message.kind() {
            Kind::Response if *message.id_json() == *call.id_json => {}
            Kind::Response => return,
            Kind::Notification | Kind::Request => {
                return self.out.push_back(ModernOutput::Send(channel, message));
            }
        }
        let Some(call) = self.calls.remove(&channel) else {
            return;
        };
        let error = message.error().unwrap_or_default();
        match call.way {
            Way::Tried(_, original) if is_unsupported(error) => {
                self.set_era(target, Era::Legacy);
                return self.bridge_over(channel, &original);
            }
            Way::Tried(..) if !is_ours(error) => self.set_era(target, Era::Modern),
            // Another server is there than before: the next request is bridged.
            Way::Modern(_) if is_unsupported(error) => self.set_era(target, Era::Legacy),
            _ => {}
        }
        self.answer(channel, message);
    }

    /// It is known which era a server is of.
    fn set_era(&mut self, target: TargetId, era: Era) {
        self.eras.insert(target, era);
        self.bridge.set_modern(target, era == Era::Modern);
        self.on_bridge(Input::Tick);
    }

    /// A client closed its channel: what is on it is cancelled.
    fn on_left(&mut self, channel: Channel) {
        self.close_stream(channel);
        let Some(call) = self.calls.remove(&channel) else {
            return;
        };
        self.abandon(channel, call.way);
    }

    fn abandon(&mut self, channel: Channel, way: Way) {
        match way {
            Way::Modern(target) | Way::Tried(target, _) => {
                self.out.push_back(ModernOutput::Leave(target, channel));
            }
            Way::Bridged(id) => {
                if let Id::Int(number) = id {
                    self.bridged.remove(&(number as u64));
                }
                let params = format!(r#"{{"requestId":{}}}"#, id.to_json());
                let cancel = Message::notification("notifications/cancelled", params.as_bytes());
                self.on_bridge(Input::Client(Channel::MAIN, Frame::Message(cancel)));
            }
        }
    }

    fn on_withdrawn(&mut self, channel: Channel) {
        let refusal = |method: &str| ServerRefusal::token_withdrawn(method, Outcome::Unknown);
        if let Some(stream) = self.close_stream(channel) {
            self.refuse(channel, &stream.id_json, &refusal("subscriptions/listen"));
        }
        if let Some(call) = self.calls.remove(&channel) {
            self.refuse(channel, &call.id_json, &refusal(&call.method));
            self.abandon(channel, call.way);
        }
    }

    fn on_roster(&mut self, roster: Arc<Roster>) {
        let before = std::mem::replace(&mut self.roster, roster.clone());
        self.eras.retain(|target, _| roster.contains(*target));
        let successors = roster.successors(&before);
        self.hand_over_streams(&successors);
        self.end_foreign_calls(&before, &successors);
        self.on_bridge(Input::Roster(roster));
        self.follow_again();
        let digests = List::ALL.map(|list| self.roster.digest(list));
        let changed = |list: &List| digests[*list as usize] != self.digests[*list as usize];
        let changed: Vec<List> = List::ALL.into_iter().filter(changed).collect();
        self.digests = digests;
        let mut methods: Vec<&str> = changed.iter().map(|list| list.changed_method()).collect();
        methods.dedup();
        for method in methods {
            let same = |list: &List| list.changed_method() == method;
            self.tell_streams(method, |stream| stream.lists.iter().any(same));
        }
    }

    /// Answers what is at modern servers that clients may not see any more.
    fn end_foreign_calls(&mut self, before: &Roster, successors: &[(TargetId, TargetId)]) {
        let foreign = |call: &Call| match &call.way {
            Way::Modern(target) | Way::Tried(target, _) => {
                Some(*target).filter(|target| !self.roster.contains(*target))
            }
            Way::Bridged(_) => None,
        };
        let ended = self.calls.iter();
        let ended = ended.filter_map(|(channel, call)| Some((*channel, foreign(call)?)));
        let mut ended: Vec<(Channel, TargetId)> = ended.collect();
        ended.sort_unstable();
        for (channel, target) in ended {
            if let Some(call) = self.calls.remove(&channel) {
                let name = before.name(target).unwrap_or("?");
                let succeeded = successors.iter().any(|(old, _)| *old == target);
                let refusal = ServerRefusal::removed(&call.method, name, true, succeeded);
                self.refuse(channel, &call.id_json, &refusal);
                self.abandon(channel, call.way);
            }
        }
    }
}

/// The metadata of a modern request without what only this revision knows.
fn legacy_meta(message: &Message) -> Vec<u8> {
    let meta = message.meta().unwrap_or(b"{}");
    let mut meta: Map<String, Value> = serde_json::from_slice(meta).unwrap_or_default();
    meta.retain(|key, _| !key.starts_with(meta::PREFIX));
    Value::Object(meta).to_string().into_bytes()
}
