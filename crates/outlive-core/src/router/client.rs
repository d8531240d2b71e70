//! A message from the client.

use bytes::Bytes;
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use crate::frame::Frame;
use crate::gateway::TargetId;
use crate::message::{Defect, Id, Kind, Message};
use crate::protocol::{Era, List, version};
use crate::server::Channel;
use crate::server::refusal::ServerRefusal;
use crate::session::LONGEST_ID;

use super::{Introduction, Router};

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Opening<'a> {
    protocol_version: String,
    #[serde(borrow)]
    capabilities: Option<&'a RawValue>,
    #[serde(borrow)]
    client_info: Option<&'a RawValue>,
}

impl Router {
    pub(super) fn on_frame(&mut self, channel: Channel, frame: Frame) {
        // What came last may be done with before this is.
        self.hold(channel);
        match frame {
            Frame::Message(message) => self.on_message(channel, message),
            Frame::Batch(messages) => {
                for message in messages {
                    match message {
                        Ok(message) => self.on_message(channel, message),
                        Err(defect) => self.on_defect(channel, &defect),
                    }
                }
            }
            Frame::Defect(defect) => self.on_defect(channel, &defect),
            Frame::TooLong(line) => {
                if let Some(id) = &line.id {
                    let refusal = ServerRefusal::too_long(line.len);
                    self.refuse(channel, id.to_json().as_bytes(), &refusal);
                }
            }
        }
        self.release(channel);
    }

    fn on_defect(&mut self, channel: Channel, defect: &Defect) {
        if defect.id.is_some() && defect.has_method {
            let refusal = ServerRefusal::defect(defect);
            self.refuse(channel, &defect.id_json, &refusal);
        }
    }

    fn on_message(&mut self, channel: Channel, message: Message) {
        match message.kind() {
            Kind::Request => self.on_request(channel, message),
            Kind::Notification => self.on_notification(&message),
            Kind::Response => self.on_answer(message),
        }
    }

    fn on_request(&mut self, channel: Channel, message: Message) {
        if let Some(refusal) = self.objection(&message) {
            return self.refuse(channel, message.id_json(), &refusal);
        }
        self.arriving = message.id().cloned();
        match message.method() {
            "initialize" => self.initialize(channel, &message),
            "ping" => self.answer_plainly(channel, &message),
            method if self.introduction.is_none() => {
                let refusal = ServerRefusal::uninitialized(method);
                self.refuse(channel, message.id_json(), &refusal);
            }
            "logging/setLevel" => self.set_level(channel, &message),
            method => match List::of_method(method) {
                Some(list) => self.list(channel, list, &message),
                None => self.route(channel, message, true),
            },
        }
    }

    /// Why a request cannot be accepted, if it cannot.
    fn objection(&self, message: &Message) -> Option<ServerRefusal> {
        if message.id_json().len() > LONGEST_ID {
            return Some(ServerRefusal::long_id());
        }
        let id = message.id()?;
        if self.table.get(id).is_some() || self.listing.has(id) {
            return Some(ServerRefusal::duplicate_id());
        }
        (self.in_flight() >= self.policy.limits.calls)
            .then(|| ServerRefusal::overloaded(message.method()))
    }

    fn answer_plainly(&mut self, channel: Channel, message: &Message) {
        self.send(channel, Message::response(message.id_json(), b"{}"));
    }

    /// The client shakes hands. It waits for no server.
    fn initialize(&mut self, channel: Channel, message: &Message) {
        if self.introduction.is_some() {
            let refusal = ServerRefusal::initialized_before();
            return self.refuse(channel, message.id_json(), &refusal);
        }
        let params = message.params().unwrap_or(b"{}");
        let Ok(opening) = serde_json::from_slice::<Opening<'_>>(params) else {
            let refusal = ServerRefusal::invalid_params(
                "`initialize` was refused: `protocolVersion` must be a string, and `capabilities` an object.".into(),
            );
            return self.refuse(channel, message.id_json(), &refusal);
        };
        let wanted = opening.protocol_version.as_str();
        let version = match version::LEGACY.contains(&wanted) {
            true => wanted,
            false => Era::Legacy.newest(),
        };
        let capabilities = opening.capabilities.map_or("{}", RawValue::get);
        let capabilities = Bytes::copy_from_slice(capabilities.as_bytes());
        let info = opening.client_info.map_or("{}", RawValue::get);
        let info = Bytes::copy_from_slice(info.as_bytes());
        let instructions = self
            .roster
            .instructions()
            .map_or_else(String::new, |words| {
                format!(r#","instructions":{}"#, Value::from(words))
            });
        let result = format!(
            r#"{{"protocolVersion":"{version}","capabilities":{},"serverInfo":{}{instructions}}}"#,
            String::from_utf8_lossy(&self.roster.capabilities().to_json()),
            server_info(),
        );
        self.introduction = Some(Introduction {
            params: Bytes::copy_from_slice(params),
            capabilities,
            info,
        });
        let answer = Message::response(message.id_json(), result.as_bytes());
        self.send(channel, answer);
        self.reach_unknown();
        self.reach_eager();
    }

    /// Speaks for clients that do not shake hands, and can be asked nothing.
    pub(super) fn introduce_ourselves(&mut self) {
        let params = json!({
            "protocolVersion": Era::Legacy.newest(),
            "capabilities": {},
            "clientInfo": { "name": "outlive", "version": env!("CARGO_PKG_VERSION") },
        });
        self.introduction = Some(Introduction {
            params: params.to_string().into(),
            capabilities: Bytes::from_static(b"{}"),
            info: params["clientInfo"].to_string().into(),
        });
    }

    /// Reaches out for the servers that are to run before they are needed.
    pub(super) fn reach_eager(&mut self) {
        // Each once: one that was stopped since is started again when it is needed.
        let new = self.roster.eager();
        let new: Vec<TargetId> = new.filter(|it| !self.legs.contains_key(it)).collect();
        for target in new {
            self.reach(target);
        }
    }

    /// Every server that knows levels is told, now or when there is one.
    fn set_level(&mut self, channel: Channel, message: &Message) {
        let Some(level) = message.level() else {
            let refusal = ServerRefusal::invalid_params("`params.level` must be a level.".into());
            return self.refuse(channel, message.id_json(), &refusal);
        };
        self.level = Some(Value::from(&*level).to_string().into());
        let targets: Vec<TargetId> = self.legs.keys().copied().collect();
        for target in targets {
            self.align_level(target);
        }
        self.answer_plainly(channel, message);
    }

    fn on_notification(&mut self, message: &Message) {
        match message.method() {
            "notifications/cancelled" => self.on_cancel(message),
            // Each leg has its own.
            "notifications/initialized" => {}
            "notifications/progress" => self.on_progress(message),
            _ => {
                // Roots that have changed, and whatever extensions there are, concern every server that runs.
                let targets: Vec<TargetId> = self.legs.keys().copied().collect();
                for target in targets {
                    self.tell(target, message.clone());
                }
            }
        }
    }

    /// The client no longer waits for a request. What it names may be unknown, finished or cancelled before.
    fn on_cancel(&mut self, message: &Message) {
        if let Some(waiting) = self.listing.take(message) {
            return self.release(waiting.channel);
        }
        let Some(id) = message.request_id() else {
            return;
        };
        let is_its = |id: &Id| self.table.get(id).is_some_and(|call| call.is_of_client());
        if !is_its(&id) {
            return;
        }
        let Some(call) = self.table.remove(&id) else {
            return;
        };
        match call.sent {
            true => self.tell(call.target, message.clone()),
            false => self.unqueue(call.target, &id),
        }
        self.release(call.channel);
    }

    /// The client tells how far it is with what a server asked.
    fn on_progress(&mut self, message: &Message) {
        let ask = message
            .progress_token()
            .and_then(|token| self.asks.get(&token));
        let owner = ask.and_then(|ask| Some((ask.target, ask.token_json.clone()?)));
        if let Some((target, token)) = owner {
            self.reply(target, message.clone().with_progress_token(&token));
        }
    }

    /// The client answers what a server asked.
    fn on_answer(&mut self, message: Message) {
        if let Some(ask) = message.id().and_then(|id| self.asks.remove(id)) {
            self.reply(ask.target, message.with_id(&ask.id_json));
        }
    }
}

/// What we call ourselves.
pub(super) fn server_info() -> Value {
    json!({ "name": "outlive", "version": env!("CARGO_PKG_VERSION") })
}
