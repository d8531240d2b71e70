//! A leg: the client's way to one server.
//!
//! It is opened with the first message that needs it, and shakes hands with the client's own words. What the client
//! sends meanwhile waits in its queue, in order. If the handshake fails, what waits fails with the same reason; the leg
//! stays, and the next message tries again: how often a server is started is decided by its session, not here. What the
//! client wants of a server (a level, resources it follows) outlives the leg, and the next server is told.

use std::collections::{BTreeSet, VecDeque};

use bytes::Bytes;
use serde::Deserialize;
use serde_json::Value;

use crate::gateway::TargetId;
use crate::message::{Id, Message};
use crate::protocol::version;
use crate::roster::Roster;
use crate::server::refusal::ServerRefusal;
use crate::server::{Channel, RpcError};
use crate::time::Time;

use super::learning::Reading;
use super::table::{Call, What};
use super::uplift::{Uplift, is_ours, is_unsupported};
use super::{Output, Router, gives_way};

/// How far a leg has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    /// There is none. It is opened with the next message.
    Closed,
    /// It is open, and the handshake has failed.
    Idle,
    /// The server is to answer the handshake.
    Handshake,
    /// The server is in service.
    Ready,
}

/// The client's way to one server.
#[derive(Debug)]
pub(super) struct Leg {
    pub(super) stage: Stage,
    /// What waits for the handshake, in order.
    queue: VecDeque<(Channel, Message)>,
    pub(super) queued_bytes: usize,
    /// What is being read of the server.
    pub(super) reading: Option<Reading>,
    /// What stands between the leg and a server of 2026-07-28.
    pub(super) uplift: Option<Uplift>,
    /// The other era was not tried since the handshake was begun.
    may_fall_back: bool,
    /// What a server said to `initialize` that is asked `server/discover` since.
    refusal: Option<RpcError>,
    /// The level of log messages that the server was asked for, as JSON.
    level: Option<Bytes>,
    /// It has not answered that yet.
    is_leveling: bool,
    /// The resources that the server was asked to tell of.
    pub(super) told: BTreeSet<Box<str>>,
    /// How many of our own requests about them it has not answered.
    pub(super) settings: usize,
    /// When it was last used.
    used: Time,
    /// When the handshake was begun.
    began: Time,
    /// The server could not be reached since it was last in service; it is tried again at this moment, if that is not
    /// left to the next message.
    retry_at: Option<Time>,
    /// How often that was so in a row.
    failures: u32,
}

impl Leg {
    fn new(now: Time) -> Leg {
        Leg {
            stage: Stage::Closed,
            queue: VecDeque::new(),
            queued_bytes: 0,
            reading: None,
            uplift: None,
            may_fall_back: false,
            refusal: None,
            level: None,
            is_leveling: false,
            told: BTreeSet::new(),
            settings: 0,
            used: now,
            began: now,
            retry_at: None,
            failures: 0,
        }
    }

    /// Nothing is left of what was said.
    fn reset(&mut self, stage: Stage) {
        let (used, began) = (self.used, self.began);
        let (retry_at, failures) = (self.retry_at, self.failures);
        *self = Leg {
            stage,
            began,
            retry_at,
            failures,
            ..Leg::new(used)
        };
    }

    fn is_reading(&self) -> bool {
        let reading = self.reading.as_ref();
        reading.is_some_and(|it| it.is_underway() || it.doubts())
    }

    pub(super) fn is_open(&self) -> bool {
        self.stage != Stage::Closed
    }

    /// Whether it was opened: one to a modern server is not.
    fn is_opened(&self) -> bool {
        self.is_open() && self.uplift.is_none()
    }

    /// Whether there is a server that could say something.
    pub(super) fn is_spoken_to(&self) -> bool {
        matches!(self.stage, Stage::Handshake | Stage::Ready)
    }

    /// Whether the server may soon tell what it offers, or the catalogue what it has told.
    fn is_telling(&self) -> bool {
        let told = self.stage == Stage::Ready && self.reading.is_some();
        self.failures == 0 && (self.stage == Stage::Handshake || told)
    }
}

impl Router {
    /// Opens a leg if there is none, and begins the handshake if that has not been done.
    pub(super) fn reach(&mut self, target: TargetId) {
        let Some(introduction) = &self.introduction else {
            return;
        };
        let params = introduction.params.clone();
        let is_modern = self.is_modern(target);
        let now = self.now;
        let leg = self.legs.entry(target).or_insert_with(|| Leg::new(now));
        leg.used = now;
        if leg.stage == Stage::Closed {
            leg.stage = Stage::Idle;
            match is_modern {
                true => leg.uplift = Some(Uplift::default()),
                false => self.out.push_back(Output::Open(target)),
            }
        }
        if leg.stage == Stage::Idle {
            leg.stage = Stage::Handshake;
            leg.began = now;
            leg.retry_at = None;
            leg.may_fall_back = true;
            match leg.uplift.is_some() {
                true => self.ask(target, "server/discover", b"", What::Discover),
                false => self.ask(target, "initialize", &params, What::Initialize),
            }
        }
    }

    /// Whether a server is spoken to in modern requests, as far as is known.
    fn is_modern(&self, target: TargetId) -> bool {
        let is_modern = self.roster.offer(target).is_some_and(|it| it.is_modern());
        is_modern || self.modern.contains(&target)
    }

    /// A server turned out to take modern requests, or no longer. If it does, it is spoken to in these from now on, and
    /// tells of changes.
    pub(super) fn set_modern(&mut self, target: TargetId, is_modern: bool) {
        match is_modern {
            true => self.modern.insert(target),
            false => self.modern.remove(&target),
        };
        let leg = self.legs.get(&target);
        let is_lifted = leg.is_some_and(|leg| leg.uplift.is_some());
        if !is_modern || is_lifted {
            return;
        }
        if self.is_idle(target) {
            self.close_leg(target);
        }
        self.reach(target);
    }

    /// Sends a request of our own.
    pub(super) fn ask(&mut self, target: TargetId, method: &str, params: &[u8], what: What) {
        let (id, channel) = (self.own_id(), self.own_channel());
        let message = Message::request(id.to_json().as_bytes(), method, params);
        let call = Call {
            target,
            channel,
            id_json: Bytes::new(),
            method: method.into(),
            token: None,
            what,
            sent: true,
            order: self.number(),
        };
        self.table.insert(id, call);
        self.hear(target, channel, message);
    }

    /// Sends an answer to a question to the server that asked.
    pub(super) fn reply(&mut self, target: TargetId, message: Message) {
        if self.legs.get(&target).is_some_and(Leg::is_spoken_to) {
            let channel = self.own_channel();
            self.hear(target, channel, message);
        }
    }

    /// Sends a notification to a server that is in service.
    pub(super) fn tell(&mut self, target: TargetId, message: Message) {
        let is_ready = |leg: &Leg| leg.stage == Stage::Ready;
        if self.legs.get(&target).is_some_and(is_ready) {
            let channel = self.own_channel();
            self.hear(target, channel, message);
        }
    }

    /// Passes a request of the client's on to a server, as soon as there is one.
    pub(super) fn call(
        &mut self,
        target: TargetId,
        channel: Channel,
        message: Message,
        what: What,
    ) {
        let Some(id) = message.id().cloned() else {
            return;
        };
        self.reach(target);
        let queued: usize = self.legs.values().map(|leg| leg.queued_bytes).sum();
        let Some(leg) = self.legs.get_mut(&target) else {
            return;
        };
        let ready = leg.stage == Stage::Ready;
        let size = message.bytes().len();
        let full = queued > 0 && queued + size > self.policy.limits.queued_bytes;
        if !ready && full {
            let refusal = ServerRefusal::overloaded(message.method());
            return self.refuse(channel, message.id_json(), &refusal);
        }
        if !ready {
            leg.queue.push_back((channel, message.clone()));
            leg.queued_bytes += size;
        }
        let call = Call {
            target,
            channel,
            id_json: Bytes::copy_from_slice(message.id_json()),
            method: message.method().into(),
            token: message.meta_progress_token(),
            what,
            sent: ready,
            order: self.number(),
        };
        self.hold(channel);
        self.table.insert(id, call);
        if ready {
            self.hear(target, channel, message);
        }
    }

    /// Takes back a request that its server has not been sent.
    pub(super) fn unqueue(&mut self, target: TargetId, id: &Id) {
        if let Some(leg) = self.legs.get_mut(&target) {
            leg.queue.retain(|(_, message)| message.id() != Some(id));
            leg.queued_bytes = leg.queue.iter().map(|(_, it)| it.bytes().len()).sum();
        }
    }

    /// The server has answered the handshake.
    pub(super) fn on_handshake(&mut self, target: TargetId, answer: &Message) {
        let Some(result) = answer.result() else {
            let error = answer.error().unwrap_or(b"{}");
            let may_fall_back = self.legs.get(&target).is_some_and(|leg| leg.may_fall_back);
            let why = error_of(error);
            // Servers without a handshake refuse it with whatever error they like (2026-07-28, versioning).
            if may_fall_back && !is_ours(error) {
                return self.discover(target, why);
            }
            self.fail_calls(target, &why);
            return self.lose(target, Stage::Idle);
        };
        self.enter_service(target, Reading::of_handshake(result));
    }

    /// A server has refused the handshake: it may be one that has none.
    fn discover(&mut self, target: TargetId, refusal: RpcError) {
        self.withdraw_asks(target);
        self.out.push_back(Output::Close(target));
        if let Some(leg) = self.legs.get_mut(&target) {
            leg.uplift = Some(Uplift::default());
            leg.may_fall_back = false;
            leg.refusal = Some(refusal);
        }
        self.ask(target, "server/discover", b"", What::Discover);
    }

    /// A server has answered `server/discover`.
    pub(super) fn on_discovered(&mut self, target: TargetId, answer: &Message) {
        let Some(leg) = self.legs.get_mut(&target) else {
            return;
        };
        let refusal = leg.refusal.take();
        let known = self.roster.offer(target).filter(|_| refusal.is_none());
        let known = known.map(|it| &**it);
        let result = answer.result().filter(|it| supports_modern(it));
        let reading = result.and_then(|it| Reading::of_discovery(it, known));
        if reading.is_some() {
            self.enter_service(target, reading);
            return self.begin_listening(target);
        }
        let error = answer.error().unwrap_or_default();
        let is_legacy = answer.error().is_none() || is_unsupported(error);
        if is_legacy && leg.may_fall_back {
            // Another server is there than before.
            leg.may_fall_back = false;
            leg.uplift = None;
            self.modern.remove(&target);
            self.out.push_back(Output::Open(target));
            let params = self.introduction.as_ref().map(|it| it.params.clone());
            let params = params.unwrap_or_default();
            return self.ask(target, "initialize", &params, What::Initialize);
        }
        let why = match refusal.filter(|_| is_legacy) {
            Some(refusal) => refusal,
            None => error_of(error),
        };
        self.fail_calls(target, &why);
        self.lose(target, Stage::Closed);
    }

    /// A server is in service: it is told what the client wants of it, and sent what waits.
    fn enter_service(&mut self, target: TargetId, reading: Option<Reading>) {
        let Some(leg) = self.legs.get_mut(&target) else {
            return;
        };
        leg.stage = Stage::Ready;
        leg.failures = 0;
        leg.retry_at = None;
        leg.used = self.now;
        leg.reading = reading;
        let queue = std::mem::take(&mut leg.queue);
        leg.queued_bytes = 0;
        self.tell(
            target,
            Message::notification("notifications/initialized", b""),
        );
        self.align_level(target);
        self.align_follows(target);
        for (channel, message) in queue {
            if let Some(call) = message.id().and_then(|id| self.table.get_mut(id)) {
                call.sent = true;
                self.hear(target, channel, message);
            }
        }
        self.read_all(target);
    }

    /// Asks a server for the level of log messages that the client wants, one request at a time.
    pub(super) fn align_level(&mut self, target: TargetId) {
        let wanted = self.level.clone();
        let Some((leg, level)) = self.legs.get_mut(&target).zip(wanted) else {
            return;
        };
        let ready = leg.stage == Stage::Ready && leg.reading.as_ref().is_some_and(Reading::logs);
        if !ready || leg.is_leveling || leg.level.as_ref() == Some(&level) {
            return;
        }
        leg.is_leveling = true;
        leg.level = Some(level.clone());
        let params = [b"{\"level\":", &level[..], b"}"].concat();
        self.ask(target, "logging/setLevel", &params, What::Level);
    }

    /// The server has answered that. If the client has changed its mind meanwhile, it is asked again.
    pub(super) fn on_leveled(&mut self, target: TargetId) {
        if let Some(leg) = self.legs.get_mut(&target) {
            leg.is_leveling = false;
        }
        self.align_level(target);
    }

    /// Whether a server is wanted also if the client has nothing to ask of it.
    fn is_wanted(&self, target: TargetId) -> bool {
        self.roster.offer(target).is_none() || !self.follows_of(target).is_empty()
    }

    /// A server cannot be reached, or no longer. Its leg waits for the next message; if the server is wanted without
    /// one, it is tried again by itself.
    fn lose(&mut self, target: TargetId, stage: Stage) {
        let wanted = self.is_wanted(target);
        self.ground(target);
        let (first, most) = (self.policy.retry, self.policy.longest_retry);
        if let Some(leg) = self.legs.get_mut(&target) {
            let wait = first.saturating_mul(1 << leg.failures.min(16)).min(most);
            leg.failures = leg.failures.saturating_add(1);
            leg.retry_at = wanted.then_some(self.now + wait);
            leg.reset(stage);
        }
        self.withdraw_asks(target);
    }

    /// Answers whatever is in the table for a server with an error.
    fn fail_calls(&mut self, target: TargetId, why: &RpcError) {
        let name = self.roster.name(target).unwrap_or("?").to_owned();
        let error = RpcError {
            code: why.code,
            message: format!("The server {name:?} could not be reached. {}", why.message).into(),
            data: why.data.clone(),
        };
        let error = error.to_json();
        for call in self.table.take_of(target) {
            self.settle(&call, Message::failure(&call.id_json, error.as_bytes()));
        }
    }

    /// A leg could not be opened. The next message opens another.
    pub(super) fn on_refused(&mut self, target: TargetId, why: &RpcError) {
        if self.legs.get(&target).is_some_and(Leg::is_opened) {
            self.fail_calls(target, why);
            self.lose(target, Stage::Closed);
        }
    }

    /// A leg is no more: its server was stopped, or everything is being shut down.
    pub(super) fn on_leg_ended(&mut self, target: TargetId) {
        if self.legs.get(&target).is_some_and(Leg::is_opened) {
            self.end_calls(target);
            self.lose(target, Stage::Closed);
        }
    }

    /// Answers whatever a server is no longer there to answer.
    fn end_calls(&mut self, target: TargetId) {
        for call in self.table.take_of(target) {
            let refusal = ServerRefusal::shutting_down(&call.method, call.sent);
            self.settle_refused(&call, &refusal);
        }
    }

    /// Nobody waits for what a server has asked any more.
    fn withdraw_asks(&mut self, target: TargetId) {
        for id in self.asks_of(target) {
            self.withdraw_ask(&id);
        }
    }

    /// A leg that nobody needs is closed; its server is started again with the next message.
    pub(super) fn close_leg(&mut self, target: TargetId) {
        self.withdraw_asks(target);
        // What is left there is ours.
        drop(self.table.take_of(target));
        self.hang_up(target);
        if let Some(leg) = self.legs.get_mut(&target) {
            leg.reset(Stage::Closed);
        }
    }

    /// Nothing more is said to a server, or heard of it.
    pub(super) fn hang_up(&mut self, target: TargetId) {
        if self.legs.get(&target).is_some_and(Leg::is_opened) {
            self.out.push_back(Output::Close(target));
        }
        self.ground(target);
    }

    fn is_idle(&self, target: TargetId) -> bool {
        let Some(leg) = self.legs.get(&target) else {
            return false;
        };
        leg.stage == Stage::Ready
            && self.follows_of(target).is_empty()
            && !leg.is_reading()
            && self.table.newest(target).is_none()
            && self.asks.values().all(|ask| ask.target != target)
    }

    /// When a leg was last used, if nobody has a use for it now: no request or question is open, nothing is followed,
    /// no task runs there, and what it offers has been read.
    pub fn spare(&self, target: TargetId) -> Option<Time> {
        let leg = self.legs.get(&target).filter(|leg| leg.is_opened())?;
        let has_task = self.tasks.iter().any(|task| task.target == target);
        (self.is_idle(target) && !has_task).then_some(leg.used)
    }

    /// Another client needs the server of a leg more.
    pub(super) fn on_give_way(&mut self, target: TargetId) {
        let chosen = gives_way(self.now, [(target, self.spare(target))]);
        if let Some(target) = chosen {
            self.close_leg(target);
        }
    }

    pub(super) fn leg_deadline(&self, leg: &Leg) -> Option<Time> {
        let idle = self.policy.idle_stop.filter(|_| leg.stage == Stage::Ready);
        let idle = idle.map(|after| leg.used + after);
        let doubt = leg.reading.as_ref().and_then(Reading::deadline);
        let uplift = leg.uplift.as_ref().and_then(Uplift::deadline);
        let all = leg.retry_at.into_iter().chain(idle).chain(doubt);
        all.chain(uplift).min()
    }

    /// Closes legs that were not used for long, and tries again what could not be reached.
    pub(super) fn tick_legs(&mut self) {
        let now = self.now;
        let due = |leg: &Leg| self.leg_deadline(leg).is_some_and(|at| at <= now);
        let due: Vec<TargetId> = self
            .legs
            .iter()
            .filter(|(_, leg)| due(leg))
            .map(|(target, _)| *target)
            .collect();
        for target in due {
            self.read_doubted(target);
            self.tick_uplift(target);
            let wanted = self.is_wanted(target);
            let Some(leg) = self.legs.get_mut(&target) else {
                continue;
            };
            let retry = leg.retry_at.take_if(|at| *at <= now).is_some();
            let unused = self
                .policy
                .idle_stop
                .is_some_and(|after| leg.used + after <= now);
            if retry && wanted {
                self.reach(target);
            } else if unused && self.is_idle(target) {
                self.close_leg(target);
            } else if let Some(leg) = self.legs.get_mut(&target).filter(|_| unused) {
                // It is in use.
                leg.used = now;
            }
        }
    }

    /// What the client wants of servers that were changed is wanted of their successors. Tells which of these are
    /// wanted at once, because the client uses the server or follows a resource of it.
    pub(super) fn hand_over(&mut self, successors: &[(TargetId, TargetId)]) -> Vec<TargetId> {
        let mut wanted = Vec::new();
        for (old, new) in successors {
            let follows = self.follows_of(*old);
            for uri in &follows {
                if let Some(exposed) = self.follows.remove(&(*old, uri.clone())) {
                    self.follows.insert((*new, uri.clone()), exposed);
                }
            }
            if !follows.is_empty() || self.legs.get(old).is_some_and(Leg::is_open) {
                wanted.push(*new);
            }
        }
        wanted
    }

    /// Forgets the servers that this client may not see any more, and closes the legs to them.
    pub(super) fn drop_foreign_legs(
        &mut self,
        before: &Roster,
        successors: &[(TargetId, TargetId)],
    ) {
        let foreign = self.legs.keys().filter(|it| !self.roster.contains(**it));
        let foreign: Vec<TargetId> = foreign.copied().collect();
        for target in foreign {
            let name = before.name(target).unwrap_or("?");
            let succeeded = successors.iter().any(|(old, _)| *old == target);
            for call in self.table.take_of(target) {
                let refusal = ServerRefusal::removed(&call.method, name, call.sent, succeeded);
                self.settle_refused(&call, &refusal);
            }
            self.close_leg(target);
            self.legs.remove(&target);
            self.follows.retain(|(at, _), _| *at != target);
            self.tasks.retain(|task| task.target != target);
        }
    }

    /// Whether a server may soon tell what it offers.
    pub(super) fn is_awaited(&self, target: TargetId) -> bool {
        self.awaited_until(target).is_some_and(|at| self.now < at)
    }

    /// For how long a server is waited for, if it may tell what it offers.
    pub(super) fn awaited_until(&self, target: TargetId) -> Option<Time> {
        let leg = self.legs.get(&target).filter(|leg| leg.is_telling())?;
        Some(leg.began + self.policy.list_wait)
    }
}

/// Whether the answer to `server/discover` names the version that we speak.
fn supports_modern(result: &[u8]) -> bool {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Discovered {
        supported_versions: Vec<String>,
    }
    let read = serde_json::from_slice::<Discovered>(result);
    read.is_ok_and(|it| it.supported_versions.iter().any(|it| it == version::MODERN))
}

/// An error object of a server's.
fn error_of(json: &[u8]) -> RpcError {
    let error: Value = serde_json::from_slice(json).unwrap_or_default();
    let data = error.get("data").map(|data| data.to_string().into());
    RpcError {
        code: error["code"].as_i64().unwrap_or(-32603),
        message: error["message"].as_str().unwrap_or("").to_owned().into(),
        data,
    }
}
