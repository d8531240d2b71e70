//! A message from the server.

use bytes::Bytes;
use serde::Deserialize;

use crate::message::{Id, Kind, Message};
use crate::server::{Channel, Level, RpcError, result};

use super::table::{Call, What};
use super::{Ask, Client, Output, Sharing, Switch};

/// Tokens of tasks that are remembered.
const TASKS: usize = 1024;

impl Switch {
    pub(super) fn on_said(&mut self, line: Bytes) {
        // The session has read it before; it cannot be junk.
        let Ok(message) = Message::read(line) else {
            return;
        };
        match message.kind() {
            Kind::Response => self.on_response(message),
            Kind::Request => self.on_ask(&message),
            Kind::Notification => self.on_notification(message),
        }
    }

    fn on_response(&mut self, message: Message) {
        let Some((id, call)) = message
            .id()
            .and_then(|id| Some((id.clone(), self.take(id)?)))
        else {
            return;
        };
        let line = match &call.what {
            What::Probe => return self.probe_answered(&message),
            What::Initialize => match message.result() {
                Some(answer) => {
                    self.handshake_done(call.client, answer);
                    renamed(&call, message)
                }
                None => {
                    self.handshake_failed(&id);
                    unwelcome(&call, message)
                }
            },
            What::Level(level) if !message.is_error() => {
                self.level = Some(*level);
                if let Some(guest) = self.guests.get_mut(&call.client) {
                    guest.level = Some(*level);
                }
                renamed(&call, message)
            }
            What::Subscribe(uri) if message.is_error() => {
                self.forget_subscription(call.client, &uri.clone());
                renamed(&call, message)
            }
            What::Task if !message.is_error() => {
                self.remember_task(&id, &call);
                renamed(&call, message)
            }
            What::Listen => renamed(&call, message.with_subscription_id(&call.id_json)),
            _ => renamed(&call, message),
        };
        self.settle(&call, line);
    }

    /// Progress of a task goes on after its request is answered.
    fn remember_task(&mut self, id: &Id, call: &Call) {
        let Some((token, token_json)) = &call.token else {
            return;
        };
        let token = match self.renames() {
            true => id.clone(),
            false => token.clone(),
        };
        self.tasks
            .push_back((token, call.client, token_json.clone()));
        if self.tasks.len() > TASKS {
            self.tasks.pop_front();
        }
    }

    fn on_notification(&mut self, message: Message) {
        match message.method() {
            "notifications/progress" => self.on_server_progress(&message),
            "notifications/cancelled" => self.on_withdrawal(&message),
            "notifications/message" => self.on_log(message),
            _ if self.sharing == Sharing::Modern => self.on_subscribed(&message),
            "notifications/resources/updated" => self.on_updated(message),
            "notifications/tools/list_changed"
            | "notifications/prompts/list_changed"
            | "notifications/resources/list_changed" => self.tell_guests(&message, |_| true),
            // Nobody but its owner may hear what is in it.
            _ => {
                if let Some(client) = self.only_guest() {
                    self.send(client, Channel::MAIN, message.into_bytes());
                }
            }
        }
    }

    fn tell_guests(&mut self, message: &Message, wants: impl Fn(&super::Guest) -> bool) {
        let told: Vec<Client> = self
            .guests
            .iter()
            .filter(|(_, guest)| guest.ready && wants(guest))
            .map(|(client, _)| *client)
            .collect();
        for client in told {
            self.send(client, Channel::MAIN, message.bytes().clone());
        }
    }

    fn on_server_progress(&mut self, message: &Message) {
        let Some(token) = message.progress_token() else {
            return;
        };
        if let Some(call) = self.table.by_token(&token).filter(|call| !call.orphan) {
            let (client, channel) = (call.client, call.channel);
            let line = self.with_token(message, call.token.as_ref().map(|(_, json)| json));
            return self.send(client, channel, line);
        }
        let task = self.tasks.iter().find(|(known, ..)| *known == token);
        if let Some((_, client, token_json)) = task {
            let client = *client;
            let line = self.with_token(message, Some(token_json));
            self.send(client, Channel::MAIN, line);
        }
    }

    fn with_token(&self, message: &Message, token_json: Option<&Bytes>) -> Bytes {
        match token_json.filter(|_| self.renames()) {
            Some(token) => message.with_progress_token(token).into_bytes(),
            None => message.bytes().clone(),
        }
    }

    /// A message of a modern subscription goes to whoever opened it.
    fn on_subscribed(&mut self, message: &Message) {
        let call = message.subscription_id().and_then(|id| self.table.get(&id));
        let Some(call) = call.filter(|call| call.what == What::Listen) else {
            return;
        };
        let line = message.with_subscription_id(&call.id_json).into_bytes();
        let (client, channel) = (call.client, call.channel);
        self.send(client, channel, line);
    }

    fn on_updated(&mut self, message: Message) {
        // A lone client has asked for whatever it gets.
        if let Some(client) = self.only_guest() {
            return self.send(client, Channel::MAIN, message.into_bytes());
        }
        let uri = message.uri().unwrap_or_default().into_owned();
        self.tell_guests(&message, |guest| guest.follows(&uri));
    }

    /// A log message. Which request it is about is not said; it may tell of one client what another
    /// must not know.
    fn on_log(&mut self, message: Message) {
        let level = message.level().as_deref().and_then(Level::of);
        let wanted = |floor: Option<Level>| match (level, floor) {
            (Some(level), Some(floor)) => level >= floor,
            _ => true,
        };
        if self.sharing == Sharing::Modern {
            // Only requests that ask for log messages get them (2026-07-28, logging).
            if let Some((client, channel)) = self.only_curious(wanted) {
                self.send(client, channel, message.into_bytes());
            }
            return;
        }
        let busy = self.guests.values().any(|guest| guest.calls > 0);
        match self.only_candidate() {
            Some(client) if !self.guests.get(&client).is_some_and(|it| wanted(it.level)) => {}
            Some(client) => {
                let channel = self.only_channel(client).unwrap_or(Channel::MAIN);
                self.send(client, channel, message.into_bytes());
            }
            None if busy => {}
            None => self.tell_guests(&message, |guest| wanted(guest.level)),
        }
    }

    /// Where the only modern request is that asks for log messages, if this one is among them.
    fn only_curious(&self, wanted: impl Fn(Option<Level>) -> bool) -> Option<(Client, Channel)> {
        let mut asking = self.table.iter().filter(|(_, call)| call.log.is_some());
        let (_, only) = asking.next().filter(|_| asking.next().is_none())?;
        wanted(only.log).then_some((only.client, only.channel))
    }

    /// The channel of the only request a client waits for.
    fn only_channel(&self, client: Client) -> Option<Channel> {
        match self.channels_of(client)[..] {
            [only] => Some(only),
            _ => None,
        }
    }

    /// The server asks something. The specification wants that on the stream of the request it is
    /// about (2025-11-25, transports), which on a pipe nothing tells.
    fn on_ask(&mut self, message: &Message) {
        let id = message.id().cloned().unwrap_or(Id::Null);
        if self.sharing == Sharing::Modern {
            return self.answer_ask(&id, "A modern server asks in its results.");
        }
        let Some(client) = self.only_candidate() else {
            return match message.is("ping") {
                true => self.answer_ping(message),
                false => self.answer_ask(
                    &id,
                    "Several clients share this server, and nothing says which of them is asked.",
                ),
            };
        };
        let can = self.guests.get(&client).is_some_and(|it| it.can(message));
        if self.renames() && !can {
            return self.answer_ask(
                &id,
                "The client has not declared that it can be asked this.",
            );
        }
        let line = message.bytes().clone();
        let channel = match self.channels_of(client)[..] {
            [] => Channel::MAIN,
            [only] => only,
            [.., newest] => newest,
        };
        let sure = self.only_channel(client).is_some() || channel == Channel::MAIN;
        let ask = Ask {
            client,
            channel: if sure { channel } else { Channel::MAIN },
            token: message.meta_progress_token(),
        };
        self.asks.insert(id, ask);
        self.out.push_back(match sure {
            true => Output::Send(client, channel, line),
            false => Output::Offer(client, channel, line),
        });
    }

    fn answer_ping(&mut self, message: &Message) {
        let id = String::from_utf8_lossy(message.id_json());
        self.answer(format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{}}}}"#));
    }

    /// Answers a request of the server's that no client can.
    pub(super) fn answer_ask(&mut self, id: &Id, sentence: &'static str) {
        let error = RpcError::new(RpcError::METHOD_NOT_FOUND, sentence);
        let line = result::failure(id.to_json().as_bytes(), &error.to_json());
        self.answer(line);
    }

    /// The server takes back what it asked, or ends a subscription.
    fn on_withdrawal(&mut self, message: &Message) {
        let Some(id) = message.request_id() else {
            return;
        };
        if let Some(ask) = self.asks.remove(&id) {
            let open = self.held.contains_key(&ask.channel);
            let channel = if open { ask.channel } else { Channel::MAIN };
            return self.send(ask.client, channel, message.bytes().clone());
        }
        let listens = |call: &Call| call.what == What::Listen;
        if self.table.get(&id).is_some_and(listens)
            && let Some(call) = self.take(&id)
        {
            // That is how a pipe says it; a stream of its own ends with the response.
            self.end_stream(&call);
        }
    }
}

/// An answer under the id its client knows.
fn renamed(call: &Call, message: Message) -> Bytes {
    match message.id_json() == &*call.id_json {
        true => message.into_bytes(),
        false => message.with_id(&call.id_json).into_bytes(),
    }
}

/// A legacy client has been turned away. A server that does not even know `initialize` is a modern one,
/// and legacy clients have nothing to tell their users but what stands here (2026-07-28, versioning).
fn unwelcome(call: &Call, message: Message) -> Bytes {
    #[derive(Deserialize)]
    struct Coded {
        code: i64,
    }
    let error = message
        .error()
        .and_then(|error| serde_json::from_slice::<Coded>(error).ok());
    if error.is_none_or(|error| error.code != i64::from(RpcError::METHOD_NOT_FOUND)) {
        return renamed(call, message);
    }
    let error = RpcError::new(
        RpcError::METHOD_NOT_FOUND,
        "The server does not know `initialize`: it speaks the protocol from 2026-07-28 on, and this \
         client an earlier revision. Use a newer client.",
    );
    result::failure(&call.id_json, &error.to_json())
}
