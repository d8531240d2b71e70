//! One handshake for all legacy clients; and which era the server is of.

use bytes::Bytes;
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::error::{Error, Refusal as SessionRefusal};
use crate::message::{Id, Message};
use crate::protocol::{code, meta, version};
use crate::server::Channel;
use crate::server::refusal::ServerRefusal;

use super::table::{Call, What};
use super::{Client, Output, Switch};

/// What clients can be asked.
const EVERYTHING: &str = concat!(
    r#"{"elicitation":{"form":{},"url":{}},"roots":{"listChanged":true},"#,
    r#""sampling":{"context":{},"tools":{}}}"#
);

/// What has become of the handshake with the server.
#[derive(Debug)]
pub(super) enum SharedHandshake {
    None,
    /// This request is on its way; these wait for its answer.
    Underway {
        id: Id,
        waiting: Vec<(Id, Message)>,
    },
    /// The server's answer, a JSON object.
    Done(Bytes),
}

/// Whether modern requests may be sent to the server.
#[derive(Debug)]
pub(super) enum ServerEra {
    /// Nobody has asked.
    Open,
    /// It is being asked; these wait.
    Probing(Vec<Waiting>),
    Modern,
    /// They may not, for this reason: the server itself has said so.
    Legacy(String),
    /// It has not answered, or has ended over it. The next request asks again.
    Doubted,
}

/// What waits for the server to be known as a modern one.
#[derive(Debug)]
pub(super) enum Waiting {
    Request(Id, Message),
    /// A notification, and where it came from.
    Notification(Client, Channel, Message),
}

impl Switch {
    /// A legacy client shakes hands.
    pub(super) fn initialize(&mut self, client: Client, channel: Channel, message: &Message) {
        #[derive(Default, Deserialize)]
        struct Params<'a> {
            #[serde(borrow)]
            capabilities: Option<&'a RawValue>,
        }
        let params = message.params().unwrap_or(b"{}");
        let params: Params<'_> = serde_json::from_slice(params).unwrap_or_default();
        let legacy = self.legacy_clients.entry(client).or_default();
        if std::mem::replace(&mut legacy.introduced, true) {
            let refusal = ServerRefusal::initialized_before();
            return self.refuse(client, channel, message.id_json(), &refusal);
        }
        legacy.capabilities = params.capabilities.map_or(Bytes::new(), |it| {
            Bytes::copy_from_slice(it.get().as_bytes())
        });
        match &mut self.shared_handshake {
            SharedHandshake::None => {
                let message = self.introducing_all(message);
                let (id, call) = self.accept(client, channel, &message, What::Initialize, None);
                self.shake(id, call, Vec::new());
            }
            SharedHandshake::Underway { .. } => {
                let message = self.introducing_all(message);
                self.wait_for_welcome(client, channel, &message);
            }
            SharedHandshake::Done(answer) => {
                legacy.ready = true;
                let answer = Message::response(message.id_json(), answer);
                self.send(client, channel, answer);
                self.align_level();
            }
        }
    }

    /// What the server is told about clients that share it: that they can be asked everything. Who cannot
    /// is not asked; what a client can do must not depend on who came first.
    fn introducing_all(&self, message: &Message) -> Message {
        match self.renames() {
            true => message.clone().with_capabilities(EVERYTHING.as_bytes()),
            false => message.clone(),
        }
    }

    fn shake(&mut self, id: Id, call: Message, waiting: Vec<(Id, Message)>) {
        self.shared_handshake = SharedHandshake::Underway {
            id: id.clone(),
            waiting,
        };
        self.out.push_back(Output::Call(id, call));
    }

    /// Another client's handshake is under way: its answer will do for this one too.
    fn wait_for_welcome(&mut self, client: Client, channel: Channel, message: &Message) {
        let waiter = self.accept(client, channel, message, What::Initialize, None);
        if let SharedHandshake::Underway { waiting, .. } = &mut self.shared_handshake {
            waiting.push(waiter);
        }
    }

    /// Whether this request waits here and has not reached the session.
    pub(super) fn is_waiting_here(&self, id: &Id) -> bool {
        let is_it =
            |waiting: &Waiting| matches!(waiting, Waiting::Request(known, _) if known == id);
        match (&self.shared_handshake, &self.server_era) {
            (SharedHandshake::Underway { waiting, .. }, _) => {
                waiting.iter().any(|(known, _)| known == id)
            }
            (_, ServerEra::Probing(waiting)) => waiting.iter().any(is_it),
            _ => false,
        }
    }

    /// The server has taken the handshake. Whoever waits for the same gets the same.
    pub(super) fn handshake_done(&mut self, client: Client, answer: &[u8]) {
        self.welcome(client);
        let answer = Bytes::copy_from_slice(answer);
        let shared_handshake = std::mem::replace(
            &mut self.shared_handshake,
            SharedHandshake::Done(answer.clone()),
        );
        let SharedHandshake::Underway { waiting, .. } = shared_handshake else {
            return;
        };
        for (id, _) in waiting {
            if let Some(call) = self.take(&id) {
                self.welcome(call.client);
                self.settle(&call, Message::response(&call.id_json, &answer));
            }
        }
    }

    fn welcome(&mut self, client: Client) {
        if let Some(legacy) = self.legacy_clients.get_mut(&client) {
            legacy.ready = true;
        }
        self.align_level();
    }

    /// The server has not taken this handshake: the next client tries its own.
    pub(super) fn handshake_failed(&mut self, failed: &Id) {
        let is_it = |shared_handshake: &SharedHandshake| matches!(shared_handshake, SharedHandshake::Underway { id, .. } if id == failed);
        if !is_it(&self.shared_handshake) {
            return;
        }
        let SharedHandshake::Underway { mut waiting, .. } =
            std::mem::replace(&mut self.shared_handshake, SharedHandshake::None)
        else {
            return;
        };
        waiting.retain(|(id, _)| self.table.get(id).is_some());
        if !waiting.is_empty() {
            let (id, call) = waiting.remove(0);
            self.shake(id, call, waiting);
        }
    }

    /// Sends a modern request if the server is known to be a modern one; if that is not known, finds out
    /// first.
    pub(super) fn call_if_modern(&mut self, id: Id, call: Message) {
        match &mut self.server_era {
            ServerEra::Modern | ServerEra::Legacy(_) => self.out.push_back(Output::Call(id, call)),
            ServerEra::Probing(waiting) => waiting.push(Waiting::Request(id, call)),
            ServerEra::Open | ServerEra::Doubted => {
                let identity = identity(&call);
                self.probe(Waiting::Request(id, call), &identity);
            }
        }
    }

    /// Passes on a notification of an extension if the server is known to be a modern one; if that is not known, finds
    /// out first. Its channel is held meanwhile: what becomes of it is its status.
    pub(super) fn notify_if_modern(&mut self, client: Client, channel: Channel, message: Message) {
        let most = self.limits.calls;
        if matches!(self.server_era, ServerEra::Modern | ServerEra::Legacy(_)) {
            return self.notify(client, channel, message);
        }
        if matches!(&self.server_era, ServerEra::Probing(waiting) if waiting.len() >= most) {
            let refusal = ServerRefusal::overloaded(message.method());
            return self.refuse_notification(client, channel, &refusal);
        }
        self.hold(client, channel);
        let identity = match message.is_modern() {
            true => identity(&message),
            // Only its header has told the revision.
            false => anybody(),
        };
        let waiting = Waiting::Notification(client, channel, message);
        match &mut self.server_era {
            ServerEra::Probing(others) => others.push(waiting),
            _ => self.probe(waiting, &identity),
        }
    }

    /// Asks the server whether it is a modern one.
    fn probe(&mut self, waiting: Waiting, identity: &str) {
        self.server_era = ServerEra::Probing(vec![waiting]);
        let params = format!(r#"{{"_meta":{identity}}}"#);
        self.send_own("server/discover", &params, What::Probe);
    }

    /// The refusal of a modern request if the server is a legacy one.
    pub(super) fn legacy_refusal(&self, method: &str) -> Option<ServerRefusal> {
        match &self.server_era {
            ServerEra::Legacy(why) => Some(legacy_only(method, why)),
            _ => None,
        }
    }

    /// The server has answered the probe. Any result, and an error that only a modern server knows, is
    /// a modern server's (2026-07-28, stdio, backward compatibility).
    pub(super) fn probe_answered(&mut self, answer: &Message) {
        #[derive(Deserialize)]
        struct Coded {
            code: i64,
        }
        let coded = answer
            .error()
            .map(|error| serde_json::from_slice::<Coded>(error).ok());
        let modern = match &coded {
            None => true,
            Some(Some(error)) => code::is_modern_only(error.code),
            Some(None) => false,
        };
        if !modern {
            let code = coded.flatten().map_or(0, |error| error.code);
            if code == code::CYCLIC {
                // No server has seen it: the next one who asks may have come another way.
                let error = answer.error().unwrap_or_default();
                return self.settle_probing(|call| Message::failure(&call.id_json, error));
            }
            return self.is_legacy(format!(
                "The server does not take `server/discover` (it answered with error {code})"
            ));
        }
        for waiting in self.take_probing(ServerEra::Modern) {
            match waiting {
                Waiting::Request(id, call) => {
                    if self.table.get(&id).is_some() {
                        self.out.push_back(Output::Call(id, call));
                    }
                }
                Waiting::Notification(client, channel, message) => {
                    self.notify(client, channel, message);
                    self.release(client, channel);
                }
            }
        }
    }

    fn is_legacy(&mut self, why: String) {
        self.refuse_probing(ServerEra::Legacy(why.clone()), &why);
    }

    /// Refuses what waits to know the era of the server in words that make a client fall back.
    fn refuse_probing(&mut self, server_era: ServerEra, why: &str) {
        for waiting in self.take_probing(server_era) {
            match waiting {
                Waiting::Request(id, _) => {
                    if let Some(call) = self.take(&id) {
                        self.fail(&call, &legacy_only("the request", why));
                    }
                }
                Waiting::Notification(client, channel, _) => {
                    let refusal = legacy_only("the notification", why);
                    self.give_back(client, channel, &refusal);
                }
            }
        }
    }

    /// A notification that waited is not passed on. Its client may have left meanwhile.
    fn give_back(&mut self, client: Client, channel: Channel, refusal: &ServerRefusal) {
        if self.held.contains_key(&(client, channel)) {
            self.refuse_notification(client, channel, refusal);
            self.release(client, channel);
        }
    }

    /// The session has answered the probe for the server.
    pub(super) fn probe_refused(&mut self, refusal: &SessionRefusal) {
        if let Error::Unsupported { why } = &refusal.error {
            let why = format!("The server does not answer `server/discover` ({why})");
            return self.refuse_probing(ServerEra::Doubted, &why);
        }
        self.settle_probing(|call| {
            let refusal = SessionRefusal {
                id_json: call.id_json.clone(),
                what: "the request".into(),
                ..refusal.clone()
            };
            refusal.to_response()
        });
    }

    /// There is no server for what waits to know its era, which is answered with this; whoever needs one next asks
    /// again.
    fn settle_probing(&mut self, answer: impl Fn(&Call) -> Message) {
        for waiting in self.take_probing(ServerEra::Open) {
            match waiting {
                Waiting::Request(id, _) => {
                    if let Some(call) = self.take(&id) {
                        self.settle(&call, answer(&call));
                    }
                }
                Waiting::Notification(client, channel, _) => {
                    self.give_back(
                        client,
                        channel,
                        &ServerRefusal::overloaded("the notification"),
                    );
                }
            }
        }
    }

    /// Whatever waits for the server is told that there will be none.
    pub(super) fn end_probing(&mut self) {
        for waiting in self.take_probing(ServerEra::Open) {
            if let Waiting::Notification(client, channel, _) = waiting {
                let refusal = ServerRefusal::shutting_down("the notification", false);
                self.give_back(client, channel, &refusal);
            }
        }
    }

    fn take_probing(&mut self, server_era: ServerEra) -> Vec<Waiting> {
        match std::mem::replace(&mut self.server_era, server_era) {
            ServerEra::Probing(waiting) => waiting,
            _ => Vec::new(),
        }
    }
}

/// Who a modern request says it is from, as a `_meta` object.
fn identity(message: &Message) -> String {
    meta::identity(message).unwrap_or_else(|| "{}".into())
}

/// What a client is introduced with that has not introduced itself, a `_meta` object.
fn anybody() -> String {
    format!(
        r#"{{"{}":"{}","{}":{{"name":"outlive","version":"0"}},"{}":{{}}}}"#,
        meta::PROTOCOL_VERSION,
        version::MODERN,
        meta::CLIENT_INFO,
        meta::CLIENT_CAPABILITIES
    )
}

/// In words that make a client which knows both eras fall back to `initialize`.
fn legacy_only(method: &str, why: &str) -> ServerRefusal {
    ServerRefusal::unsupported(format!(
        "{method} was not executed. {why}: it speaks revisions of the protocol before 2026-07-28 only. \
         Send `initialize`, and no protocol version in `_meta`."
    ))
}
