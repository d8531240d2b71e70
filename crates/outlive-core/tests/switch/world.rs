//! Clients that choose the worst ids, a server that mixes everything up, and books on who may hear
//! what.
//!
//! Every request carries a secret. Whatever the server says about it carries the secret too; so whoever
//! reads a secret that is not its own has been told something about another client.

use std::collections::{BTreeMap, BTreeSet};

use outlive_core::error::{Error, Outcome, Refusal};
use outlive_core::server::Channel;
use outlive_core::switch::{Client, Input, Limits, Output, Sharing, Switch};
use outlive_core::{Frame, Generation, Id};
use serde_json::{Value, json};

pub const LIMITS: Limits = Limits {
    calls: 12,
    bytes: 8 << 10,
    calls_each: 6,
    subscriptions: 4,
};

/// A stream of numbers that look random.
pub struct Dice(u64);

impl Dice {
    pub fn new(seed: u64) -> Dice {
        Dice(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1)
    }

    pub fn roll(&mut self, sides: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) as usize % sides.max(1)
    }

    pub fn pick<'a, T>(&mut self, from: &'a [T]) -> Option<&'a T> {
        from.get(self.roll(from.len()))
    }
}

/// A request its client waits for.
#[derive(Clone, Debug, PartialEq)]
pub struct Owed {
    pub client: Client,
    pub channel: Channel,
    pub id: Value,
    pub token: Option<Value>,
    pub secret: String,
}

/// A request the server has.
#[derive(Clone, Debug)]
pub struct Upstream {
    pub id: Id,
    pub frame: Value,
}

/// Everything around a switch.
pub struct World {
    pub switch: Switch,
    pub sharing: Sharing,
    pub dice: Dice,
    pub clients: Vec<Client>,
    pub ready: BTreeSet<Client>,
    pub owed: Vec<Owed>,
    /// Channels that are open, and whose they are.
    pub open: BTreeMap<Channel, Client>,
    pub closed: BTreeSet<Channel>,
    pub upstream: Vec<Upstream>,
    /// What the server has asked, of whom, and for whose sake.
    pub asked: Vec<(Value, Client)>,
    pub followed: BTreeSet<(Client, String)>,
    pub next: u64,
    /// What is being said now is about this secret.
    about: Option<String>,
    pub answers: usize,
}

impl World {
    pub fn new(sharing: Sharing, seed: u64) -> World {
        World {
            switch: Switch::new(sharing, LIMITS),
            sharing,
            dice: Dice::new(seed),
            clients: Vec::new(),
            ready: BTreeSet::new(),
            owed: Vec::new(),
            open: BTreeMap::new(),
            closed: BTreeSet::new(),
            upstream: Vec::new(),
            asked: Vec::new(),
            followed: BTreeSet::new(),
            next: 0,
            about: None,
            answers: 0,
        }
    }

    pub fn fresh(&mut self) -> u64 {
        self.next += 1;
        self.next
    }

    /// A client sends a message on a channel of its own.
    pub fn send(&mut self, client: Client, message: &Value) -> Channel {
        let channel = Channel(self.fresh());
        self.open.insert(channel, client);
        let line = message.to_string();
        self.feed(Input::Frame(client, channel, Frame::Line(line.into())));
        channel
    }

    /// A client sends a request, for which it will be owed one answer.
    pub fn request(&mut self, client: Client, id: Value, method: &str, params: Value) -> Channel {
        let secret = format!("secret-{}", self.fresh());
        let mut params = params;
        params["secret"] = json!(secret);
        let token = params["_meta"].get("progressToken").cloned();
        let channel = Channel(self.next + 1);
        self.owed.push(Owed {
            client,
            channel,
            id: id.clone(),
            token,
            secret,
        });
        let message = json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params});
        assert_eq!(self.send(client, &message), channel);
        channel
    }

    /// The server says something about a secret.
    pub fn say(&mut self, message: &Value, about: Option<String>) {
        self.about = about;
        self.feed(Input::Said(message.to_string().into()));
        self.about = None;
    }

    pub fn feed(&mut self, input: Input) {
        self.switch.handle(input);
        while let Some(output) = self.switch.poll() {
            self.check(output);
        }
        let sizes = self.switch.sizes();
        // Beside clients' requests there are at most a few of our own.
        assert!(sizes.table.0 <= LIMITS.calls + 4, "{sizes:?}");
        assert!(sizes.table.1 <= LIMITS.bytes + 1024, "{sizes:?}");
        assert!(sizes.subscriptions <= LIMITS.subscriptions, "{sizes:?}");
        assert!(sizes.channels <= self.open.len(), "{sizes:?}");
    }

    fn check(&mut self, output: Output) {
        match output {
            Output::Call(id, frame) => {
                let known = self.upstream.iter().any(|it| it.id == id);
                assert!(!known, "{id} is in flight already");
                let frame: Value = serde_json::from_slice(&frame).expect("JSON");
                assert_eq!(frame["id"].to_string(), id.to_json());
                if let Some(token) = frame["params"]["_meta"].get("progressToken") {
                    let same =
                        |it: &Upstream| it.frame["params"]["_meta"]["progressToken"] == *token;
                    let taken = self.sharing != Sharing::Alone && self.upstream.iter().any(same);
                    assert!(!taken, "the token {token} is in use already");
                }
                self.upstream.push(Upstream { id, frame });
            }
            Output::Cancel(id, frame) => {
                let at = self.upstream.iter().position(|it| it.id == id);
                let at = at.unwrap_or_else(|| panic!("{id} is not in flight"));
                let frame: Value = serde_json::from_slice(&frame).expect("JSON");
                assert_eq!(frame["params"]["requestId"].to_string(), id.to_json());
                assert_ne!(self.upstream[at].frame["method"], "initialize");
                self.upstream.remove(at);
            }
            Output::Answer(line) | Output::Notify(line) => {
                serde_json::from_slice::<Value>(&line).expect("JSON");
            }
            Output::Send(client, channel, line) => self.heard(client, channel, &line),
            Output::Offer(client, channel, line) => {
                let channel = match self.dice.roll(2) {
                    0 => Channel::MAIN,
                    _ => channel,
                };
                self.heard(client, channel, &line);
            }
            Output::Done(client, channel) => {
                assert_eq!(
                    self.open.remove(&channel),
                    Some(client),
                    "{channel:?} is done"
                );
                assert!(self.closed.insert(channel));
                let owed = self.owed.iter().find(|it| it.channel == channel);
                assert_eq!(owed, None, "done, but owed");
            }
        }
    }

    fn heard(&mut self, client: Client, channel: Channel, line: &[u8]) {
        let message: Value = serde_json::from_slice(line).expect("JSON");
        assert!(
            self.clients.contains(&client),
            "{client:?} is gone: {message}"
        );
        if channel != Channel::MAIN {
            let owner = self.open.get(&channel);
            assert_eq!(owner, Some(&client), "{message}");
        }
        let secret = message["result"]["secret"]
            .as_str()
            .or(message["params"]["secret"].as_str());
        if message.get("method").is_none() {
            return self.answered(client, channel, &message);
        }
        match message["method"].as_str().unwrap_or_default() {
            "notifications/progress" => {
                let token = &message["params"]["progressToken"];
                let its = self.owed.iter().any(|it| {
                    (it.client, it.channel) == (client, channel)
                        && it.token.as_ref() == Some(token)
                        && Some(&*it.secret) == secret
                });
                assert!(its, "progress of somebody else: {message}");
            }
            "notifications/resources/updated" => {
                let uri = message["params"]["uri"].as_str().expect("a URI").to_owned();
                let alone = self.clients.len() == 1;
                assert!(alone || self.followed.contains(&(client, uri)), "{message}");
            }
            "notifications/cancelled" => {
                let id = &message["params"]["requestId"];
                let at = self
                    .asked
                    .iter()
                    .position(|it| it.0 == *id && it.1 == client);
                self.asked
                    .swap_remove(at.expect("what it was asked is taken back"));
            }
            "elicitation/create" => {
                self.is_for(client, &message);
                self.asked.push((message["id"].clone(), client));
            }
            "notifications/message" => self.is_for(client, &message),
            "notifications/subscriptions/acknowledged" => {
                let its = |it: &Owed| it.channel == channel && Some(&*it.secret) == secret;
                assert!(self.owed.iter().any(its), "{message}");
            }
            _ => {}
        }
    }

    /// What is said about a request that is waited for is said to whoever waits.
    fn is_for(&self, client: Client, message: &Value) {
        let about = self
            .owed
            .iter()
            .find(|it| Some(&it.secret) == self.about.as_ref());
        if let Some(owed) = about {
            assert_eq!(owed.client, client, "said to somebody else: {message}");
        }
    }

    fn answered(&mut self, client: Client, channel: Channel, message: &Value) {
        let fits =
            |it: &Owed| (it.client, it.channel) == (client, channel) && it.id == message["id"];
        let at = self.owed.iter().position(fits);
        let owed = self
            .owed
            .remove(at.unwrap_or_else(|| panic!("nobody waits for {message}")));
        if let Some(secret) = message["result"]["secret"].as_str() {
            assert_eq!(secret, owed.secret, "an answer to somebody else");
            self.answers += 1;
        }
    }

    /// A client no longer waits for anything on this channel, or at all.
    pub fn forgive(&mut self, which: impl Fn(&Owed) -> bool) {
        self.owed.retain(|owed| !which(owed));
    }

    /// The session refuses a request.
    pub fn refuse(&mut self, at: usize, error: Error) {
        let upstream = self.upstream.swap_remove(at);
        self.feed(Input::Refused(Box::new(Refusal {
            id_json: upstream.id.to_json().into(),
            what: "the request".into(),
            error,
            generation: Generation::FIRST,
        })));
    }

    /// There is no session any more: everybody is answered.
    pub fn end(&mut self) {
        self.feed(Input::Ended);
        assert_eq!(self.owed, [], "left waiting");
        assert!(self.open.is_empty(), "left open: {:?}", self.open);
        let sizes = self.switch.sizes();
        assert_eq!((sizes.table, sizes.channels, sizes.asks), ((0, 0), 0, 0));
    }
}

pub fn shutting_down() -> Error {
    Error::ShuttingDown {
        outcome: Outcome::Unknown,
    }
}
