//! A message from a client.

use bytes::Bytes;

use crate::error::Outcome;
use crate::frame::Frame;
use crate::message::{Defect, Id, Kind, Message};
use crate::protocol::method;
use crate::server::handshake::Introduction;
use crate::server::refusal::ServerRefusal;
use crate::server::{Channel, Level};
use crate::session::{AbandonReason, LONGEST_ID};

use super::table::{Call, Scope, Token, What};
use super::{Client, Output, Sharing, Switch};

impl Switch {
    pub(super) fn on_frame(&mut self, client: Client, channel: Channel, frame: Frame) {
        // Held while it is looked at, so that it is done once, whatever is in it.
        self.hold(client, channel);
        match frame {
            Frame::Message(message) => self.on_message(client, channel, message),
            Frame::Batch(elements) => {
                for element in elements {
                    match element {
                        Ok(message) => self.on_message(client, channel, message),
                        Err(defect) => self.on_defect(client, channel, &defect),
                    }
                }
            }
            Frame::Defect(defect) => self.on_defect(client, channel, &defect),
            Frame::TooLong(line) => {
                if line.id.is_some() && line.has_method {
                    self.refuse(
                        client,
                        channel,
                        &line.id_json,
                        &ServerRefusal::too_long(line.len),
                    );
                }
            }
        }
        self.release(client, channel);
    }

    /// A request whose id can be read is always answered, whatever is wrong with it; and what was
    /// meant as an answer is one.
    fn on_defect(&mut self, client: Client, channel: Channel, defect: &Defect) {
        let Some(id) = &defect.id else { return };
        if defect.has_method {
            self.refuse(
                client,
                channel,
                &defect.id_json,
                &ServerRefusal::defect(defect),
            );
        } else if self.asks.get(id).is_some_and(|ask| ask.client == client) {
            self.asks.remove(id);
            self.answer_ask(id, "The client's answer cannot be read.");
        }
    }

    fn on_message(&mut self, client: Client, channel: Channel, message: Message) {
        if self.sharing != Sharing::Pooled {
            self.legacy_clients.entry(client).or_default();
        }
        match message.kind() {
            Kind::Request => self.on_request(client, channel, message),
            Kind::Response => self.on_answer(client, message),
            Kind::Notification if self.sharing == Sharing::Pooled => {
                self.modern_notification(client, channel, message);
            }
            Kind::Notification => match message.method() {
                "notifications/cancelled" => self.on_cancel(client, message),
                "notifications/progress" => self.on_progress(client, channel, message),
                "notifications/initialized" => {
                    if !std::mem::replace(&mut self.initialized, true) {
                        self.notify(client, channel, message);
                    }
                    self.await_confirmation(client, channel);
                }
                _ => {
                    self.spoken.note(client);
                    self.notify(client, channel, message);
                }
            },
        }
    }

    pub(super) fn notify(&mut self, client: Client, channel: Channel, message: Message) {
        self.out.push_back(Output::Notify(client, channel, message));
    }

    /// 2026-07-28 itself has no notifications of clients over HTTP, but an extension may: the server is told. What it
    /// cannot be told is refused, so that nobody takes it for heard.
    fn modern_notification(&mut self, client: Client, channel: Channel, message: Message) {
        let refusal = match message.method() {
            // Closing the stream has cancelled the request, or will; there is nobody to tell it to a second time.
            "notifications/cancelled" => return,
            method if self.ended => ServerRefusal::shutting_down(method, false),
            method if method::is_legacy_notification(method) => of_a_session(method),
            method => match self.legacy_refusal(method) {
                Some(refusal) => refusal,
                None => return self.notify_if_modern(client, channel, message),
            },
        };
        self.refuse_notification(client, channel, &refusal);
    }

    /// Tells a client that its notification is not passed on, with an error that has no id (2026-07-28, transports).
    pub(super) fn refuse_notification(
        &mut self,
        client: Client,
        channel: Channel,
        refusal: &ServerRefusal,
    ) {
        self.send(client, channel, unheard(refusal));
    }

    fn on_request(&mut self, client: Client, channel: Channel, message: Message) {
        if let Some(refusal) = self.objection(client, channel, &message) {
            return self.refuse(client, channel, message.id_json(), &refusal);
        }
        if self.sharing == Sharing::Pooled {
            return self.modern_request(client, channel, &message);
        }
        let introduced = |legacy: &super::LegacyClient| legacy.introduced;
        match message.method() {
            "initialize" => self.initialize(client, channel, &message),
            "ping" => self.forward(client, channel, &message, What::Plain),
            method if !self.legacy_clients.get(&client).is_some_and(introduced) => {
                let refusal = ServerRefusal::uninitialized(method);
                self.refuse(client, channel, message.id_json(), &refusal);
            }
            "logging/setLevel" => self.set_level(client, channel, &message),
            "resources/subscribe" => self.subscribe(client, channel, &message),
            "resources/unsubscribe" => self.unsubscribe(client, channel, &message),
            _ => {
                let what = match message.has_task() {
                    true => What::Task,
                    false => What::Plain,
                };
                self.forward(client, channel, &message, what);
            }
        }
    }

    /// Why a request cannot be accepted, if it cannot.
    fn objection(
        &self,
        client: Client,
        channel: Channel,
        message: &Message,
    ) -> Option<ServerRefusal> {
        if self.ended {
            return Some(ServerRefusal::shutting_down(message.method(), false));
        }
        if message.id_json().len() > LONGEST_ID
            || message
                .meta_progress_token_json()
                .is_some_and(|it| it.len() > LONGEST_ID)
        {
            return Some(ServerRefusal::long_id());
        }
        let id = message.id()?;
        if self.table.named(self.scope(client, channel), id).is_some() {
            return Some(ServerRefusal::duplicate_id());
        }
        let size = message.bytes().len();
        let full = self.table.len() >= self.limits.calls
            || self.in_flight_of(client) >= self.limits.calls_each
            || self.table.len() > 0 && self.table.bytes() + size > self.limits.bytes;
        full.then(|| ServerRefusal::overloaded(message.method()))
    }

    fn scope(&self, client: Client, channel: Channel) -> Scope {
        match self.sharing {
            Sharing::Pooled => Scope::Channel(client, channel),
            _ => Scope::Client(client),
        }
    }

    fn modern_request(&mut self, client: Client, channel: Channel, message: &Message) {
        let introduction = match message.is_modern() {
            true => Introduction::read(message.meta().unwrap_or_default()),
            false => Err(ServerRefusal::uninitialized(message.method())),
        };
        let log = match introduction {
            Ok(introduction) => introduction.log_level,
            Err(refusal) => return self.refuse(client, channel, message.id_json(), &refusal),
        };
        if let Some(refusal) = self.legacy_refusal(message.method()) {
            return self.refuse(client, channel, message.id_json(), &refusal);
        }
        let what = match message.is("subscriptions/listen") {
            true => What::Listen,
            false => What::Plain,
        };
        let (id, call) = self.accept(client, channel, message, what, log);
        self.call_if_modern(id, call);
    }

    /// Passes a request on.
    pub(super) fn forward(
        &mut self,
        client: Client,
        channel: Channel,
        message: &Message,
        what: What,
    ) {
        self.spoken.note(client);
        let (id, call) = self.accept(client, channel, message, what, None);
        self.out.push_back(Output::Call(id, call));
    }

    /// Enters a request, under the id and with the token that the session is to know.
    pub(super) fn accept(
        &mut self,
        client: Client,
        channel: Channel,
        message: &Message,
        what: What,
        log: Option<Level>,
    ) -> (Id, Message) {
        let order = self.table.next();
        let own_id = message.id().cloned().unwrap_or(Id::Null);
        let (id, token, renamed) = match self.renames() {
            true => {
                let number = order.to_string();
                let mut renamed = message.clone().with_id(number.as_bytes());
                let token = message.meta_progress_token_json().map(|json| Token {
                    known: Id::Int(order as i64),
                    json: Some(Bytes::copy_from_slice(json)),
                });
                if token.is_some() {
                    renamed = renamed.with_meta_progress_token(number.as_bytes());
                }
                (Id::Int(order as i64), token, renamed)
            }
            false => self.kept_as_it_is(&own_id, message),
        };
        let call = Call {
            client,
            channel,
            name: (self.scope(client, channel), own_id),
            id_json: match self.renames() {
                // The message under its own id is needed no more.
                true => Bytes::copy_from_slice(message.id_json()),
                false => message.id_bytes(),
            },
            token,
            what,
            log,
            orphan: false,
            bytes: renamed.bytes().len(),
            order,
        };
        self.enter(id.clone(), call);
        (id, renamed)
    }

    /// The id, the token and the message of a request of the only client there is: its own, unless the server may still
    /// be at work on another request that has them.
    fn kept_as_it_is(&mut self, own_id: &Id, message: &Message) -> (Id, Option<Token>, Message) {
        let mut id = own_id.clone();
        let mut kept = message.clone();
        if self.table.get(&id).is_some() || self.abandoned.may_have(&id) {
            id = self.fresh_name();
            kept = kept.with_id(id.to_json().as_bytes());
        }
        let own_token = message
            .meta_progress_token()
            .zip(message.meta_progress_token_json());
        let token = own_token.map(|(own, json)| match self.is_token_used(&own) {
            false => Token {
                known: own,
                json: None,
            },
            true => Token {
                known: self.fresh_name(),
                json: Some(Bytes::copy_from_slice(json)),
            },
        });
        if let Some(Token {
            known,
            json: Some(_),
        }) = &token
        {
            kept = kept.with_meta_progress_token(known.to_json().as_bytes());
        }
        (id, token, kept)
    }

    /// Whether the server may tell how far it is with another request under this token.
    fn is_token_used(&self, token: &Id) -> bool {
        self.table.by_token(token).is_some()
            || self.abandoned.may_use(token)
            || self.tasks.iter().any(|(_, task)| task.known == *token)
    }

    /// An id that no request in the table has.
    fn fresh_name(&mut self) -> Id {
        loop {
            let id = Id::text(format!("outlive-switch-{}", self.table.next()));
            if self.table.get(&id).is_none() {
                return id;
            }
        }
    }

    /// Sends a request of our own. It has no client to send the answer to.
    pub(super) fn send_own(&mut self, method: &str, params: &str, what: What) {
        let id = self.fresh_name();
        let order = self.table.next();
        let id_json = id.to_json();
        let message = Message::request(id_json.as_bytes(), method, params.as_bytes());
        let call = Call {
            client: Client(u64::MAX),
            channel: Channel::MAIN,
            name: (Scope::Own, id.clone()),
            id_json: Bytes::new(),
            token: None,
            what,
            log: None,
            orphan: true,
            bytes: message.bytes().len(),
            order,
        };
        self.enter(id.clone(), call);
        self.out.push_back(Output::Call(id, message));
    }

    pub(super) fn refuse(
        &mut self,
        client: Client,
        channel: Channel,
        id_json: &[u8],
        refusal: &ServerRefusal,
    ) {
        let error = refusal.error.to_json();
        self.send(client, channel, Message::failure(id_json, error.as_bytes()));
    }

    /// Answers a request of legacy times with the empty result.
    pub(super) fn answer_plainly(&mut self, client: Client, channel: Channel, message: &Message) {
        self.send(client, channel, Message::response(message.id_json(), b"{}"));
    }

    /// A client answers a request of the server's: only if it was the one who was asked.
    fn on_answer(&mut self, client: Client, message: Message) {
        let id = message.id().cloned().unwrap_or(Id::Null);
        let asked = |id: &Id| self.asks.get(id).is_some_and(|ask| ask.client == client);
        let known = match asked(&id) {
            true => Some(id),
            // FM-61: some answer 7 with "7".
            false => id.other_type().filter(asked),
        };
        if let Some(known) = known {
            self.asks.remove(&known);
            self.answer(message);
        }
    }

    /// A client tells how far it is with what the server asked.
    fn on_progress(&mut self, client: Client, channel: Channel, message: Message) {
        let token = message.progress_token();
        let mut asks = self.asks.values();
        if token.is_some() && asks.any(|ask| ask.client == client && ask.token == token) {
            self.notify(client, channel, message);
        }
    }

    /// A legacy client no longer waits for a request. What it names may be unknown, finished or
    /// cancelled before; all that is harmless.
    fn on_cancel(&mut self, client: Client, message: Message) {
        let Some(id) = message.request_id() else {
            return;
        };
        let Some(known) = self.table.named(Scope::Client(client), &id).cloned() else {
            return;
        };
        let cancellable = |call: &Call| call.what != What::Initialize;
        if !self.table.get(&known).is_some_and(cancellable) {
            return;
        }
        if let Some(call) = self.take(&known) {
            self.abandon(&known, &call, Some(message), AbandonReason::Cancelled);
            self.release(call.client, call.channel);
        }
    }

    /// A client closed a channel: what is modern on it is cancelled.
    pub(super) fn on_left(&mut self, client: Client, channel: Channel) {
        if self.sharing != Sharing::Pooled || channel == Channel::MAIN {
            return;
        }
        let is_its = |call: &Call| call.client == client && call.channel == channel;
        for id in self.table.ids_of(is_its) {
            if let Some(call) = self.take(&id) {
                self.abandon(&id, &call, None, AbandonReason::Cancelled);
            }
        }
        // Nobody reads it any more, so nobody is told that it is done.
        self.held.remove(&(client, channel));
    }

    /// The token was withdrawn that a channel was opened with: what is modern on it is cancelled, and its client told
    /// why. A legacy client is gone.
    pub(super) fn on_withdrawn(&mut self, client: Client, channel: Channel) {
        let reason = AbandonReason::TokenWithdrawn;
        if self.sharing != Sharing::Pooled {
            return self.on_gone(client, reason);
        }
        for id in self
            .table
            .ids_of(|call| call.client == client && call.channel == channel && !call.orphan)
        {
            if let Some(call) = self.take(&id) {
                self.tell_withdrawn(&id, &call);
                self.abandon(&id, &call, None, reason);
            }
        }
    }

    /// Answers a request whose client may hear nothing else any more.
    pub(super) fn tell_withdrawn(&mut self, id: &Id, call: &Call) {
        let outcome = match self.is_waiting_here(id) {
            true => Outcome::NotSent,
            false => Outcome::Unknown,
        };
        self.fail(
            call,
            &ServerRefusal::token_withdrawn("the request", outcome),
        );
    }

    /// The session is told that nobody waits for a request any more, in its client's words or ours.
    pub(super) fn abandon(
        &mut self,
        id: &Id,
        call: &Call,
        words: Option<Message>,
        reason: AbandonReason,
    ) {
        if self.is_waiting_here(id) {
            return;
        }
        match &call.what {
            What::Subscribe(uri) => {
                self.orphan(id.clone(), call.clone());
                if self.legacy_clients.contains_key(&call.client) {
                    // The server tells of it, or is about to.
                    self.standing.insert(uri.clone());
                    self.subscribed(call, uri, false);
                }
            }
            What::Level(choice) => {
                self.orphan(id.clone(), call.clone());
                self.level_abandoned(call, *choice);
            }
            What::Unsubscribe => self.orphan(id.clone(), call.clone()),
            _ => {}
        }
        if call.what.is_state() {
            return;
        }
        self.leave_running(id, call);
        let id_json = id.to_json();
        let message = match words {
            Some(words) if *id == call.name.1 => words,
            Some(words) => words.with_request_id(id_json.as_bytes()),
            None => {
                let why = match reason {
                    AbandonReason::TokenWithdrawn => "the token of the client was withdrawn",
                    _ => "the client has left",
                };
                let params = format!(r#"{{"requestId":{id_json},"reason":"{why}"}}"#);
                Message::notification("notifications/cancelled", params.as_bytes())
            }
        };
        self.out
            .push_back(Output::Cancel(id.clone(), message, reason));
    }
}

/// The answer to a request that reaches no session any more because everything ends; `None` for all else.
pub fn shutting_down(message: &Message) -> Option<Message> {
    let refusal = ServerRefusal::shutting_down(message.method(), false);
    let is_request = message.kind() == Kind::Request;
    is_request.then(|| Message::failure(message.id_json(), refusal.error.to_json().as_bytes()))
}

/// The answer to a request that reaches no session because there is no room for it; `None` for all else.
pub fn overloaded(message: &Message) -> Option<Message> {
    let refusal = ServerRefusal::overloaded(message.method());
    let is_request = message.kind() == Kind::Request;
    is_request.then(|| Message::failure(message.id_json(), refusal.error.to_json().as_bytes()))
}

/// What tells a client that its notification is not passed on: there was no room for it.
pub fn overloaded_notification() -> Message {
    unheard(&ServerRefusal::overloaded("the notification"))
}

/// An error that has no id (2026-07-28, transports).
fn unheard(refusal: &ServerRefusal) -> Message {
    Message::failure(b"", refusal.error.to_json().as_bytes())
}

/// The refusal of a notification that only means something in a session.
fn of_a_session(method: &str) -> ServerRefusal {
    ServerRefusal::unsupported(format!(
        "{method} was not passed on: it is about a session, and requests of 2026-07-28 have none. Leave it out, or \
         send `initialize` and the Mcp-Session-Id of its answer."
    ))
}
