//! A leg: the client's way to one server.
//!
//! It is opened with the first message that needs it, and shakes hands with the client's own words. What the client
//! sends meanwhile waits in its queue, in order. If the handshake fails, what waits fails with the same reason; the leg
//! stays, and the next message tries again: how often a server is started is decided by its session, not here.

use std::collections::{BTreeMap, VecDeque};

use bytes::Bytes;
use serde_json::Value;

use crate::gateway::TargetId;
use crate::message::{Id, Message};
use crate::server::refusal::ServerRefusal;
use crate::server::{Channel, RpcError};
use crate::time::Time;

use super::learning::Reading;
use super::table::{Call, What};
use super::{Output, Router};

/// How far a leg has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    /// The handshake has not been begun, or has failed.
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
    /// The level of log messages that the server was asked for, as JSON.
    level: Option<Bytes>,
    /// It has not answered that yet.
    is_leveling: bool,
    /// The resources that the client follows: as the server calls them, and as the client does.
    pub(super) subscriptions: BTreeMap<Box<str>, Box<str>>,
    /// When it was last used.
    used: Time,
    /// The handshake has failed since the server was last in service; it is tried again at this moment, if that is not
    /// left to the next message.
    retry_at: Option<Time>,
    /// How often it has failed in a row.
    failures: u32,
}

impl Leg {
    fn new(now: Time) -> Leg {
        Leg {
            stage: Stage::Idle,
            queue: VecDeque::new(),
            queued_bytes: 0,
            reading: None,
            level: None,
            is_leveling: false,
            subscriptions: BTreeMap::new(),
            used: now,
            retry_at: None,
            failures: 0,
        }
    }

    fn is_reading(&self) -> bool {
        self.reading.as_ref().is_some_and(Reading::is_underway)
    }

    /// Whether the server may soon tell what it offers.
    pub(super) fn is_awaited(&self) -> bool {
        let first = self.stage == Stage::Handshake && self.failures == 0;
        first || self.stage == Stage::Ready && self.is_reading()
    }
}

impl Router {
    /// Opens a leg if there is none, and begins the handshake if that has not been done.
    pub(super) fn reach(&mut self, target: TargetId) {
        let Some(introduction) = &self.introduction else {
            return;
        };
        let params = introduction.params.clone();
        let now = self.now;
        let leg = self.legs.entry(target).or_insert_with(|| {
            self.out.push_back(Output::Open(target));
            Leg::new(now)
        });
        leg.used = now;
        if leg.stage == Stage::Idle {
            leg.stage = Stage::Handshake;
            leg.retry_at = None;
            self.ask(target, "initialize", &params, What::Initialize);
        }
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

    /// Sends a notification, or an answer to a question, to a server that is there to hear it.
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
            let error = error_of(error);
            return self.unreachable(target, &error);
        };
        let reading = Reading::of_handshake(result);
        let Some(leg) = self.legs.get_mut(&target) else {
            return;
        };
        leg.stage = Stage::Ready;
        leg.failures = 0;
        leg.retry_at = None;
        leg.used = self.now;
        leg.reading = reading;
        leg.level = None;
        leg.is_leveling = false;
        let queue = std::mem::take(&mut leg.queue);
        leg.queued_bytes = 0;
        // What waits says so itself.
        let waits = |uri: &str| {
            let mut waiting = queue.iter().filter_map(|(_, message)| message.uri());
            waiting.any(|it| *it == *uri)
        };
        let followed = leg.subscriptions.keys().filter(|uri| !waits(uri));
        let followed: Vec<Box<str>> = followed.cloned().collect();
        self.tell(
            target,
            Message::notification("notifications/initialized", b""),
        );
        self.align_level(target);
        for uri in followed {
            let params = serde_json::json!({ "uri": uri }).to_string();
            self.ask(
                target,
                "resources/subscribe",
                params.as_bytes(),
                What::Setting,
            );
        }
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

    /// A server cannot be reached: whatever waits for it is told why. Its leg waits for the next message, or, if nothing
    /// is known of the server, tries again by itself.
    fn unreachable(&mut self, target: TargetId, why: &RpcError) {
        let known = self.roster.offer(target).is_some();
        let (first, most) = (self.policy.retry, self.policy.longest_retry);
        let Some(leg) = self.legs.get_mut(&target) else {
            return;
        };
        leg.stage = Stage::Idle;
        leg.queue.clear();
        leg.queued_bytes = 0;
        let wait = first.saturating_mul(1 << leg.failures.min(16)).min(most);
        leg.failures = leg.failures.saturating_add(1);
        leg.retry_at = (!known).then_some(self.now + wait);
        self.fail_calls(target, why);
        self.resume_waiting();
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

    /// A leg could not be opened.
    pub(super) fn on_refused(&mut self, target: TargetId, why: &RpcError) {
        if self.legs.contains_key(&target) {
            self.unreachable(target, why);
            // The next message opens another.
            self.forget_leg(target);
        }
    }

    /// A leg is no more: its server was stopped, or everything is being shut down.
    pub(super) fn on_leg_ended(&mut self, target: TargetId) {
        if !self.legs.contains_key(&target) {
            return;
        }
        for call in self.table.take_of(target) {
            let refusal = ServerRefusal::shutting_down(&call.method, call.sent);
            self.settle_refused(&call, &refusal);
        }
        self.forget_leg(target);
        self.resume_waiting();
    }

    fn forget_leg(&mut self, target: TargetId) {
        self.legs.remove(&target);
        let its: Vec<Id> = self.asks_of(target);
        for id in its {
            self.withdraw_ask(&id);
        }
    }

    /// A leg that nobody needs is closed; its server is started again with the next message.
    fn close_leg(&mut self, target: TargetId) {
        self.forget_leg(target);
        // What is left there is ours.
        drop(self.table.take_of(target));
        self.out.push_back(Output::Close(target));
    }

    fn is_idle(&self, target: TargetId, leg: &Leg) -> bool {
        leg.stage == Stage::Ready
            && leg.subscriptions.is_empty()
            && !leg.is_reading()
            && self.table.newest(target).is_none()
            && self.asks.values().all(|ask| ask.target != target)
    }

    pub(super) fn leg_deadline(&self, leg: &Leg) -> Option<Time> {
        let idle = self.policy.idle_stop.filter(|_| leg.stage == Stage::Ready);
        let idle = idle.map(|after| leg.used + after);
        leg.retry_at.into_iter().chain(idle).min()
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
            let Some(leg) = self.legs.get(&target) else {
                continue;
            };
            if leg.retry_at.is_some_and(|at| at <= now) {
                self.reach(target);
            } else if self.is_idle(target, leg) {
                self.close_leg(target);
            } else if let Some(leg) = self.legs.get_mut(&target) {
                // It is in use.
                leg.used = now;
            }
        }
    }

    /// Closes the legs to servers that this client may not see any more.
    pub(super) fn drop_foreign_legs(&mut self) {
        let foreign = self.legs.keys().filter(|it| !self.roster.contains(**it));
        let foreign: Vec<TargetId> = foreign.copied().collect();
        for target in foreign {
            for call in self.table.take_of(target) {
                let refusal = ServerRefusal::shutting_down(&call.method, call.sent);
                self.settle_refused(&call, &refusal);
            }
            self.close_leg(target);
        }
    }

    /// Whether a server may soon tell what it offers.
    pub(super) fn is_awaited(&self, target: TargetId) -> bool {
        self.legs.get(&target).is_some_and(Leg::is_awaited)
    }

    pub(super) fn subscriptions(&self) -> usize {
        self.legs.values().map(|leg| leg.subscriptions.len()).sum()
    }
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
