//! A message from a server.
//!
//! A server may say anything, at any time. It counts only for what this server was sent: an answer to somebody else's
//! request, progress of it, a withdrawal of somebody else's question are dropped.

use crate::gateway::TargetId;
use crate::message::{Id, Kind, Message};
use crate::protocol::{List, code};
use crate::server::handshake::lacking;
use crate::server::{Channel, RpcError};

use super::leg::{Leg, Stage};
use super::resolve::task_id;
use super::table::What;
use super::{Ask, Output, Router, Task};

impl Router {
    pub(super) fn on_server(&mut self, target: TargetId, channel: Channel, message: Message) {
        // Before the handshake and after it has failed there is nobody to speak.
        if !self.legs.get(&target).is_some_and(Leg::is_spoken_to) {
            return;
        }
        match message.kind() {
            Kind::Response => self.on_response(target, message),
            Kind::Request => self.on_ask(target, channel, message),
            Kind::Notification => self.on_said(target, channel, message),
        }
    }

    fn on_response(&mut self, target: TargetId, message: Message) {
        let call = message.id().and_then(|id| self.table.remove_of(target, id));
        let Some(call) = call else {
            return;
        };
        match &call.what {
            What::Initialize => return self.on_handshake(target, &message),
            What::Discover => return self.on_discovered(target, &message),
            What::Page(list) => return self.on_page(target, *list, &message),
            What::Level => return self.on_leveled(target),
            What::Setting(uri) => {
                let followed = uri.as_deref().filter(|_| !message.is_error());
                return self.on_set(target, followed);
            }
            What::Subscribe(uri, exposed) if !message.is_error() => {
                self.on_subscribed(target, uri, exposed);
            }
            What::Unsubscribe(uri) if !message.is_error() => self.on_unsubscribed(target, uri),
            What::Task => {
                if let Some(result) = message.result() {
                    self.remember_task(target, call.token.clone(), result);
                }
            }
            What::Plain | What::Subscribe(..) | What::Unsubscribe(_) => {}
        }
        self.settle(&call, message);
    }

    fn on_said(&mut self, target: TargetId, channel: Channel, message: Message) {
        match message.method() {
            "notifications/progress" => {
                let Some(token) = message.progress_token() else {
                    return;
                };
                let call = self.table.by_token(target, &token);
                let token = Some(token);
                let is_its = |task: &Task| task.target == target && task.token == token;
                match call.filter(|call| call.sent).map(|call| call.channel) {
                    Some(channel) => self.send(channel, message),
                    // That of a task goes on after its request is answered.
                    None if self.tasks.iter().any(is_its) => self.offer(target, channel, message),
                    None => {}
                }
            }
            "notifications/cancelled" => self.on_withdrawal(target, channel, message),
            "notifications/tools/list_changed" => self.reread(target, &[List::Tools]),
            "notifications/prompts/list_changed" => self.reread(target, &[List::Prompts]),
            "notifications/resources/list_changed" => {
                self.reread(target, &[List::Resources, List::Templates]);
            }
            "notifications/resources/updated" => {
                let uri = message.uri().unwrap_or_default().into_owned();
                let exposed = match self.follows.get(&(target, uri.as_str().into())) {
                    Some(exposed) => exposed.to_string(),
                    None => self.roster.exposed_uri(target, &uri).into_owned(),
                };
                if !self.roster.shows_resource(target, &uri) {
                    return;
                }
                let message = match exposed == uri {
                    true => message,
                    false => {
                        let json = serde_json::Value::from(exposed).to_string();
                        message.with_uri(json.as_bytes())
                    }
                };
                self.offer(target, channel, message);
            }
            "notifications/tasks/status" => {
                let task = task_id(message.params().unwrap_or_default());
                let owner = task.and_then(|task| self.task_owner(&task));
                if owner.is_none_or(|owner| owner == target) {
                    self.offer(target, channel, message);
                }
            }
            _ => self.offer(target, channel, message),
        }
    }

    fn reread(&mut self, target: TargetId, lists: &[List]) {
        let is_ready = self
            .legs
            .get(&target)
            .is_some_and(|leg| leg.stage == Stage::Ready);
        for list in lists.iter().filter(|_| is_ready) {
            self.read(target, *list);
        }
    }

    /// Tells the client something that a server said: on the channel of the request that it is about, if that is known.
    fn offer(&mut self, target: TargetId, channel: Channel, message: Message) {
        match self.place(target, channel) {
            Ok(channel) => self.send(channel, message),
            Err(newest) => self.out.push_back(Output::Offer(newest, message)),
        }
    }

    /// The channel of the client's that a server speaks on. If it speaks on none, the channel of the newest request
    /// that it was sent will do where nobody reads the main one.
    fn place(&self, target: TargetId, channel: Channel) -> Result<Channel, Channel> {
        let open = channel != Channel::MAIN && self.held.contains_key(&channel);
        if open && self.table.has_channel(target, channel) {
            return Ok(channel);
        }
        let newest = self.table.newest(target).filter(|call| call.sent);
        Err(newest.map_or(Channel::MAIN, |call| call.channel))
    }

    /// The channel of the newest request of the client's, for what is about none in particular.
    pub(super) fn newest_channel(&self) -> Channel {
        let newest = self.legs.keys().filter_map(|it| self.table.newest(*it));
        let newest = newest.filter(|call| call.sent);
        newest
            .max_by_key(|call| call.order)
            .map_or(Channel::MAIN, |call| call.channel)
    }

    /// A server asks something of the client.
    fn on_ask(&mut self, target: TargetId, channel: Channel, message: Message) {
        if message.is("ping") {
            return self.reply(target, Message::response(message.id_json(), b"{}"));
        }
        let capabilities = self.introduction.as_ref().map(|it| it.capabilities.clone());
        let params = message.params().unwrap_or(b"{}");
        let lacks = lacking(&capabilities.unwrap_or_default(), message.method(), params).is_some();
        let asked = self.asks.values().filter(|ask| ask.target == target);
        let asked = asked.count();
        let why = match () {
            () if lacks => "The client has not declared that it can be asked this.",
            () if asked >= self.policy.limits.asks => "Too many questions wait for the client.",
            () => {
                let id = self.fresh_ask();
                let ask = Ask {
                    target,
                    id_json: bytes::Bytes::copy_from_slice(message.id_json()),
                    id: message.id().cloned().unwrap_or(Id::Null),
                    token_json: message
                        .meta_progress_token_json()
                        .map(bytes::Bytes::copy_from_slice),
                };
                let id_json = id.to_json();
                let mut message = message.with_id(id_json.as_bytes());
                // Two servers may have chosen the same token, as they may have the same id.
                if ask.token_json.is_some() {
                    message = message.with_meta_progress_token(id_json.as_bytes());
                }
                self.asks.insert(id, ask);
                return self.offer(target, channel, message);
            }
        };
        let error = RpcError::new(code::METHOD_NOT_FOUND, why).to_json();
        self.reply(
            target,
            Message::failure(message.id_json(), error.as_bytes()),
        );
    }

    fn fresh_ask(&mut self) -> Id {
        Id::Int(i64::try_from(self.number()).unwrap_or(i64::MAX))
    }

    pub(super) fn asks_of(&self, target: TargetId) -> Vec<Id> {
        let its = self.asks.iter().filter(|(_, ask)| ask.target == target);
        let mut ids: Vec<Id> = its.map(|(id, _)| id.clone()).collect();
        ids.sort_unstable_by_key(Id::to_json);
        ids
    }

    /// A server takes back what it asked.
    fn on_withdrawal(&mut self, target: TargetId, channel: Channel, message: Message) {
        let Some(id) = message.request_id() else {
            return;
        };
        let mut asks = self.asks.iter();
        let ours = asks.find(|(_, ask)| ask.target == target && ask.id == id);
        let Some(ours) = ours.map(|(ours, _)| ours.clone()) else {
            return;
        };
        self.asks.remove(&ours);
        let message = message.with_request_id(ours.to_json().as_bytes());
        self.offer(target, channel, message);
    }

    /// Nobody waits for the answer to this question any more: its server is gone.
    pub(super) fn withdraw_ask(&mut self, id: &Id) {
        if self.asks.remove(id).is_none() {
            return;
        }
        let params = format!(
            r#"{{"requestId":{},"reason":"The server that asked is gone."}}"#,
            id.to_json()
        );
        let message = Message::notification("notifications/cancelled", params.as_bytes());
        let newest = self.newest_channel();
        self.out.push_back(Output::Offer(newest, message));
    }
}
