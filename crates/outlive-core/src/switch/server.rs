//! A message from the server.

use serde::Deserialize;

use crate::message::{Id, Kind, Message};
use crate::protocol::{code, method};
use crate::replacement::is_server_replaced;
use crate::server::{Channel, Level, RpcError};

use super::candidate::Candidate;
use super::table::{Call, Token, What};
use super::{Ask, Client, Output, Owner, Sharing, Switch};

/// Tokens of tasks that are remembered.
const TASKS: usize = 1024;

impl Switch {
    pub(super) fn on_said(&mut self, message: Message, owner: Owner) {
        match message.kind() {
            Kind::Response => self.on_response(message),
            Kind::Request => self.on_ask(message, owner),
            Kind::Notification => self.on_notification(message, owner),
        }
    }

    fn on_response(&mut self, message: Message) {
        let Some((id, call)) = message.id().and_then(|id| {
            // It may have been abandoned while this was on its way.
            self.abandoned.over(id);
            Some((id.clone(), self.take(id)?))
        }) else {
            return;
        };
        let answer = match &call.what {
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
            What::Level(choice) => {
                match message.is_error() {
                    true => self.level_refused(&call, *choice),
                    false => self.leveled = true,
                }
                renamed(&call, message)
            }
            What::Subscribe(uri) => {
                self.subscribed(&call, uri, !message.is_error());
                renamed(&call, message)
            }
            What::Task if !message.is_error() => {
                self.remember_task(&call);
                if self.renames() {
                    self.abandoned.add_task(call.client);
                }
                renamed(&call, message)
            }
            What::Listen => renamed(&call, message.with_subscription_id(&call.id_json)),
            _ => renamed(&call, message),
        };
        self.settle(&call, answer);
    }

    /// Progress of a task goes on after its request is answered.
    fn remember_task(&mut self, call: &Call) {
        if let Some(token) = &call.token {
            self.tasks.push_back((call.client, token.clone()));
        }
        if self.tasks.len() > TASKS {
            self.tasks.pop_front();
        }
    }

    fn on_notification(&mut self, message: Message, owner: Owner) {
        match message.method() {
            "notifications/progress" => self.on_server_progress(&message),
            "notifications/cancelled" => self.on_withdrawal(&message),
            "notifications/message" => self.on_log(message, owner),
            _ if self.sharing == Sharing::Pooled => self.on_modern_notification(&message, owner),
            "notifications/resources/updated" => self.on_updated(&message, &owner),
            "notifications/tools/list_changed"
            | "notifications/prompts/list_changed"
            | "notifications/resources/list_changed" => {
                self.tell_legacy_clients(&message, &owner, |legacy| legacy.ready);
            }
            _ => self.on_custom(message, owner),
        }
    }

    /// The client and the channel of the request that a message is about, as far as the stream it came on tells.
    fn place_of(&self, owner: &Owner) -> Option<(Client, Channel)> {
        let Owner::Request(id) = owner else {
            return None;
        };
        let call = self.table.get(id).filter(|call| !call.orphan)?;
        Some((call.client, call.channel))
    }

    /// Tells something to all clients that want it: to the one on whose stream it came there, to the others on
    /// their main channels, or, where nobody reads those, on the stream of their newest request.
    fn tell_legacy_clients(
        &mut self,
        message: &Message,
        owner: &Owner,
        wants: impl Fn(&super::LegacyClient) -> bool,
    ) {
        let place = self.place_of(owner);
        let wanting = self
            .legacy_clients
            .iter()
            .filter(|(_, legacy)| wants(legacy));
        let told: Vec<Client> = wanting.map(|(client, _)| *client).collect();
        for client in told {
            match place.filter(|(owner, _)| *owner == client) {
                Some((_, channel)) => self.send(client, channel, message.clone()),
                None => self.tell(client, message.clone()),
            }
        }
    }

    /// Tells a client something that is about none of its requests in particular.
    fn tell(&mut self, client: Client, message: Message) {
        match self.channels_of(client).last() {
            Some(newest) => self.out.push_back(Output::Offer(client, *newest, message)),
            None => self.send(client, Channel::MAIN, message),
        }
    }

    /// Something we do not know. Nobody but its owner may hear what is in it.
    fn on_custom(&mut self, message: Message, owner: Owner) {
        if owner != Owner::Unnamed {
            if let Some((client, channel)) = self.place_of(&owner) {
                self.send(client, channel, message);
            }
            return;
        }
        let client = match self.candidate() {
            Candidate::Only(client) => Some(client),
            Candidate::Nobody => self.only_user(),
            Candidate::Unclear => None,
        };
        let Some(client) = client else { return };
        match self.only_channel(client) {
            Some(channel) => self.send(client, channel, message),
            None => self.tell(client, message),
        }
    }

    /// What is of a subscription goes to whoever opened it; anything else to the request it is about.
    fn on_modern_notification(&mut self, message: &Message, owner: Owner) {
        if message.subscription_id().is_some() {
            return self.on_subscribed(message);
        }
        let place = match owner {
            Owner::Unnamed
                if self.abandoned.is_empty() && !method::is_of_subscriptions(message.method()) =>
            {
                let only = self.only_request(|_| true);
                only.map(|call| (call.client, call.channel))
            }
            owner => self.place_of(&owner),
        };
        if let Some((client, channel)) = place {
            self.send(client, channel, message.clone());
        }
    }

    fn on_server_progress(&mut self, message: &Message) {
        let Some(token) = message.progress_token() else {
            return;
        };
        if let Some(call) = self.table.by_token(&token).filter(|call| !call.orphan) {
            let (client, channel) = (call.client, call.channel);
            let message = with_token(message, call.token.as_ref());
            return self.send(client, channel, message);
        }
        let task = self.tasks.iter().find(|(_, task)| task.known == token);
        if let Some((client, token)) = task {
            let (client, message) = (*client, with_token(message, Some(token)));
            self.send(client, Channel::MAIN, message);
        }
    }

    /// A message of a modern subscription goes to whoever opened it.
    fn on_subscribed(&mut self, message: &Message) {
        let call = message.subscription_id().and_then(|id| self.table.get(&id));
        let Some(call) = call.filter(|call| call.what == What::Listen) else {
            return;
        };
        let message = message.clone().with_subscription_id(&call.id_json);
        let (client, channel) = (call.client, call.channel);
        self.send(client, channel, message);
    }

    fn on_updated(&mut self, message: &Message, owner: &Owner) {
        if self.sharing == Sharing::Dedicated && self.only_user().is_some() {
            // It has asked for whatever it gets.
            return self.tell_legacy_clients(message, owner, |_| true);
        }
        let uri = message.uri().unwrap_or_default().into_owned();
        self.tell_legacy_clients(message, owner, |legacy| {
            legacy.ready && legacy.follows(&uri)
        });
    }

    /// A log message. Which request it is about is said by its stream, if by anything; it may tell of one client what
    /// another must not know.
    fn on_log(&mut self, message: Message, owner: Owner) {
        let level = message.level().as_deref().and_then(Level::of);
        if self.sharing == Sharing::Pooled {
            if let Some((client, channel)) = self.modern_log_place(level, owner) {
                self.send(client, channel, message);
            }
            return;
        }
        if is_server_replaced(&message) {
            // It is about all of them (FM-74).
            return self.tell_legacy_clients(&message, &owner, |legacy| {
                legacy.ready
                    && legacy
                        .level
                        .zip(level)
                        .is_some_and(|(floor, level)| level >= floor)
            });
        }
        let wants = |switch: &Switch, client: &Client| {
            let legacy = switch.legacy_clients.get(client);
            legacy.is_some_and(|legacy| switch.is_wanted(level, legacy.level))
        };
        let place = match owner {
            Owner::Unnamed => match self.candidate() {
                Candidate::Only(client) => {
                    let channel = self.only_channel(client).unwrap_or(Channel::MAIN);
                    Some((client, channel))
                }
                Candidate::Unclear => None,
                Candidate::Nobody => {
                    let legacy_clients = self
                        .legacy_clients
                        .iter()
                        .filter(|(_, legacy)| legacy.ready);
                    let clients = legacy_clients.map(|(client, _)| *client);
                    let all: Vec<Client> = clients.filter(|client| wants(self, client)).collect();
                    for client in all {
                        self.send(client, Channel::MAIN, message.clone());
                    }
                    None
                }
            },
            owner => self.place_of(&owner),
        };
        if let Some((client, channel)) = place.filter(|(client, _)| wants(self, client)) {
            self.send(client, channel, message);
        }
    }

    /// Where the modern request is that a log message is for: the one on whose stream it came, or the only one that
    /// asks for log messages (2026-07-28, logging), if it asks for this one.
    fn modern_log_place(&self, level: Option<Level>, owner: Owner) -> Option<(Client, Channel)> {
        let call = match owner {
            Owner::Unnamed if self.abandoned.may_log() => None,
            Owner::Unnamed => self.only_request(|call| call.log.is_some()),
            Owner::Request(id) => self.table.get(&id).filter(|call| !call.orphan),
            Owner::Gone => None,
        };
        let wanted = |call: &&Call| {
            level
                .zip(call.log)
                .is_none_or(|(level, floor)| level >= floor)
        };
        call.filter(wanted).map(|call| (call.client, call.channel))
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
    fn on_ask(&mut self, message: Message, owner: Owner) {
        let id = message.id().cloned().unwrap_or(Id::Null);
        if self.sharing == Sharing::Pooled {
            return self.answer_ask(&id, "A modern server asks in its results.");
        }
        let (asked, otherwise) = match owner {
            Owner::Unnamed if self.legacy_clients.is_empty() => (None, "No client is connected."),
            Owner::Unnamed => (
                self.only_asked(),
                "Several clients share this server, and nothing says which of them is asked.",
            ),
            owner => (
                self.place_of(&owner)
                    .map(|(client, channel)| (client, channel, true)),
                "Nobody waits any more for the call that this is about.",
            ),
        };
        let Some((client, channel, sure)) = asked else {
            return match message.is("ping") {
                true => self.answer_ping(&message),
                false => self.answer_ask(&id, otherwise),
            };
        };
        let can = self
            .legacy_clients
            .get(&client)
            .is_some_and(|it| it.can(&message));
        if self.renames() && !can {
            return self.answer_ask(
                &id,
                "The client has not declared that it can be asked this.",
            );
        }
        let ask = Ask {
            client,
            channel: if sure { channel } else { Channel::MAIN },
            token: message.meta_progress_token(),
        };
        self.asks.insert(id, ask);
        self.out.push_back(match sure {
            true => Output::Send(client, channel, message),
            false => Output::Offer(client, channel, message),
        });
    }

    /// The only client that can be asked something without an owner, on which channel, and whether it must be that one.
    fn only_asked(&self) -> Option<(Client, Channel, bool)> {
        let client = match self.candidate() {
            Candidate::Only(client) => client,
            Candidate::Nobody => self.only_user()?,
            Candidate::Unclear => return None,
        };
        Some(match self.channels_of(client)[..] {
            [] => (client, Channel::MAIN, true),
            [only] => (client, only, true),
            [.., newest] => (client, newest, false),
        })
    }

    fn answer_ping(&mut self, message: &Message) {
        self.answer(Message::response(message.id_json(), b"{}"));
    }

    /// Answers a request of the server's that no client can.
    pub(super) fn answer_ask(&mut self, id: &Id, sentence: &'static str) {
        let error = RpcError::new(code::METHOD_NOT_FOUND, sentence);
        let (id_json, error) = (id.to_json(), error.to_json());
        self.answer(Message::failure(id_json.as_bytes(), error.as_bytes()));
    }

    /// The server takes back what it asked, or ends a subscription.
    fn on_withdrawal(&mut self, message: &Message) {
        let Some(id) = message.request_id() else {
            return;
        };
        if let Some(ask) = self.asks.remove(&id) {
            let open = self.held.contains_key(&(ask.client, ask.channel));
            let channel = if open { ask.channel } else { Channel::MAIN };
            return self.send(ask.client, channel, message.clone());
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

/// Progress under the token its client knows.
fn with_token(message: &Message, token: Option<&Token>) -> Message {
    match token.and_then(|token| token.json.as_ref()) {
        Some(json) => message.clone().with_progress_token(json),
        None => message.clone(),
    }
}

/// An answer under the id its client knows.
fn renamed(call: &Call, message: Message) -> Message {
    match message.id_json() == &*call.id_json {
        true => message,
        false => message.with_id(&call.id_json),
    }
}

/// A legacy client has been turned away. A server that does not even know `initialize` is a modern one,
/// and legacy clients have nothing to tell their users but what stands here (2026-07-28, versioning).
fn unwelcome(call: &Call, message: Message) -> Message {
    #[derive(Deserialize)]
    struct Coded {
        code: i64,
    }
    let error = message
        .error()
        .and_then(|error| serde_json::from_slice::<Coded>(error).ok());
    if error.is_none_or(|error| error.code != code::METHOD_NOT_FOUND) {
        return renamed(call, message);
    }
    let error = RpcError::new(
        code::METHOD_NOT_FOUND,
        "The server does not know `initialize`: it speaks the protocol from 2026-07-28 on, and this \
         client an earlier revision. Use a newer client.",
    );
    Message::failure(&call.id_json, error.to_json().as_bytes())
}
