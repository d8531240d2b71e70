//! Clients that choose the worst ids, a server that mixes everything up, and books on who may hear
//! what.
//!
//! Every request carries a secret. Whatever the server says about it carries the secret too; so whoever
//! reads a secret that is not its own has been told something about another client. The server goes on with
//! what was cancelled, asks and logs about it, and answers it late or never; it dies, and the next one gets what may be
//! sent again. It has one level of log messages and one set of subscriptions, and the books know what each client
//! chose.

use std::collections::{BTreeMap, BTreeSet};

use outlive_core::cause::{Cause, Phase, Reason};
use outlive_core::error::{Error, Outcome, Refusal};
use outlive_core::server::Channel;
use outlive_core::switch::{Client, Input, Output, Sharing, Switch, SwitchLimits};
use outlive_core::{AbandonReason, Frame, Generation, Id};
use serde_json::{Value, json};

use crate::known;
use crate::routes::read;

pub const LIMITS: SwitchLimits = SwitchLimits {
    calls: 12,
    bytes: 8 << 10,
    calls_each: 6,
    subscriptions: 4,
    abandoned: 6,
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
#[derive(Clone, Debug)]
pub struct Owed {
    pub client: Client,
    pub channel: Channel,
    pub id: Value,
    pub token: Option<Value>,
    pub secret: String,
    pub method: String,
    pub params: Value,
    /// What its client followed before it no longer wanted to.
    pub was: Option<Follow>,
}

/// A request the server has.
#[derive(Clone, Debug)]
pub struct Upstream {
    pub id: Id,
    pub frame: Value,
    /// The server answers it with an error, and has not done it.
    pub fails: bool,
}

impl Upstream {
    pub fn secret(&self) -> Option<String> {
        self.frame["params"]["secret"].as_str().map(str::to_owned)
    }
}

/// What a client has chosen, as far as it was answered.
#[derive(Clone, Copy, Debug, Default)]
pub struct Choice {
    /// Its place in [`LEVELS`].
    pub level: Option<usize>,
    /// The channel on which it chose it.
    pub at: u64,
    /// It is about to choose another.
    pub choosing: usize,
}

/// How a client has come to follow a resource.
#[derive(Clone, Copy, Debug)]
pub struct Follow {
    /// The channel of the first of its requests to.
    pub since: Channel,
    /// How many of them are not answered.
    pub pending: usize,
    /// The server has said yes to one of them.
    pub sure: bool,
}

/// Levels of log messages, least severe first.
pub const LEVELS: [&str; 4] = ["debug", "info", "warning", "emergency"];

/// What a client that has chosen no level is told, if anybody has.
pub const UNCHOSEN: usize = 1;

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
    /// What clients follow.
    pub followed: BTreeMap<(Client, String), Follow>,
    /// What the server tells of.
    pub subscribed: BTreeSet<String>,
    /// What a client has followed and stopped waiting for: the server may tell of it or not.
    pub doubtful: BTreeSet<String>,
    pub choices: BTreeMap<Client, Choice>,
    /// The level the server has.
    pub level: Option<usize>,
    /// A server has refused a level, so nobody knows which one it has.
    pub level_in_doubt: bool,
    /// What was cancelled, or took too long, and the server goes on with.
    pub abandoned: Vec<Upstream>,
    /// More was abandoned than is kept.
    pub overflowed: bool,
    /// Which server it is.
    pub generation: Generation,
    pub next: u64,
    /// What is being said now is about this secret, …
    about: Option<String>,
    /// … and on the stream of its request.
    named: bool,
    /// How many were told what is being said.
    told: usize,
    /// What the session says to what is being done.
    arisen: Vec<Input>,
    pub answers: usize,
    ended: bool,
    /// Whose each secret is.
    secrets: BTreeMap<String, Client>,
    /// Clients whose handshake was answered with a result.
    shaken: BTreeSet<Client>,
    /// The token of this client, or of this channel, is being withdrawn: it is told that and nothing else.
    withdrawing: Option<(Client, Option<Channel>)>,
    /// Who has used this server.
    users: BTreeSet<Client>,
    /// Print what happens.
    pub tells: bool,
    /// What the schedule came across.
    pub met: BTreeMap<&'static str, usize>,
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
            followed: BTreeMap::new(),
            subscribed: BTreeSet::new(),
            doubtful: BTreeSet::new(),
            choices: BTreeMap::new(),
            level: None,
            level_in_doubt: false,
            abandoned: Vec::new(),
            overflowed: false,
            generation: Generation::FIRST,
            next: 0,
            about: None,
            named: false,
            told: 0,
            arisen: Vec::new(),
            answers: 0,
            ended: false,
            secrets: BTreeMap::new(),
            shaken: BTreeSet::new(),
            withdrawing: None,
            users: BTreeSet::new(),
            tells: false,
            met: BTreeMap::new(),
        }
    }

    pub fn meet(&mut self, what: &'static str) {
        *self.met.entry(what).or_default() += 1;
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
        self.feed(Input::Frame(client, channel, Frame::read(line.into())));
        channel
    }

    /// A client sends a request, for which it will be owed one answer.
    pub fn request(&mut self, client: Client, id: Value, method: &str, params: Value) -> Channel {
        let secret = format!("secret-{}", self.fresh());
        let mut params = params;
        params["secret"] = json!(secret);
        self.secrets.insert(secret.clone(), client);
        let token = params["_meta"].get("progressToken").cloned();
        let channel = Channel(self.next + 1);
        let key = (
            client,
            params["uri"].as_str().unwrap_or_default().to_owned(),
        );
        let mut was = None;
        match method {
            "resources/subscribe" => {
                let follow = self.followed.entry(key).or_insert(Follow {
                    since: channel,
                    pending: 0,
                    sure: false,
                });
                follow.pending += 1;
            }
            "resources/unsubscribe" => was = self.followed.remove(&key),
            _ => {}
        }
        self.owed.push(Owed {
            was,
            client,
            channel,
            id: id.clone(),
            token,
            secret,
            method: method.into(),
            params: params.clone(),
        });
        let message = json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params});
        assert_eq!(self.send(client, &message), channel);
        channel
    }

    /// The server says something about a secret. Tells how many heard it.
    pub fn say(&mut self, message: &Value, about: Option<String>) -> usize {
        (self.about, self.named, self.told) = (about, false, 0);
        self.feed(Input::Said(read(message)));
        self.about = None;
        self.told
    }

    /// The server says something on the stream of this request, which nobody may wait for any more. Tells how many
    /// heard it.
    pub fn say_of(&mut self, upstream: &Upstream, live: bool, message: &Value) -> usize {
        (self.about, self.named, self.told) = (upstream.secret(), true, 0);
        let owner = live.then(|| upstream.id.clone());
        self.feed(Input::SaidOf(owner, read(message)));
        self.about = None;
        self.told
    }

    pub fn feed(&mut self, input: Input) {
        self.handle(input);
        while let Some(input) = self.arisen.pop() {
            self.handle(input);
        }
        let sizes = self.switch.sizes();
        // Beside clients' requests there are at most a few of our own.
        assert!(sizes.table.0 <= LIMITS.calls + 8, "{sizes:?}");
        assert!(sizes.table.1 <= LIMITS.bytes + 2048, "{sizes:?}");
        assert!(sizes.subscriptions <= LIMITS.subscriptions, "{sizes:?}");
        assert!(sizes.channels <= self.open.len(), "{sizes:?}");
        assert!(sizes.abandoned <= 2 * LIMITS.abandoned, "{sizes:?}");
        if self.sharing == Sharing::Shared && !self.ended {
            self.nobody_is_changed();
        }
    }

    fn handle(&mut self, input: Input) {
        if self.tells {
            println!("> {input:?}");
        }
        self.switch.handle(input);
        while let Some(output) = self.switch.poll() {
            if self.tells {
                println!("    {output:?}");
            }
            self.check(output);
        }
    }

    /// What one client chooses changes nothing for another: the server tells of all that anybody follows, and of
    /// nothing else; and it logs what anybody wants.
    fn nobody_is_changed(&self) {
        for ((client, uri), follow) in &self.followed {
            let told = self.subscribed.contains(uri) || self.doubtful.contains(uri);
            assert!(!follow.sure || told, "{client:?} is not told of {uri}");
        }
        for uri in self.subscribed.difference(&self.doubtful) {
            let wanted = self.followed.keys().any(|(_, known)| known == uri);
            assert!(wanted, "nobody wants to hear of {uri}");
        }
        let Some(level) = self.level.filter(|_| !self.level_in_doubt) else {
            return;
        };
        for client in &self.ready {
            let choice = self.choices.get(client).copied().unwrap_or_default();
            let wants = choice.level.unwrap_or(UNCHOSEN);
            let shaken = self.shaken.contains(client);
            assert!(
                choice.choosing > 0 || !shaken || level <= wants,
                "{client:?} wants {}, and the server has {}",
                LEVELS[wants],
                LEVELS[level]
            );
        }
    }

    fn check(&mut self, output: Output) {
        match &output {
            Output::Call(_, it)
            | Output::Cancel(_, it, _)
            | Output::Answer(it)
            | Output::Notify(_, _, it)
            | Output::Send(_, _, it)
            | Output::Offer(_, _, it) => known::check(it).unwrap(),
            Output::Done(..) => {}
        }
        match output {
            Output::Call(id, frame) => {
                let mut running = self.upstream.iter().chain(&self.abandoned);
                assert!(!running.any(|it| it.id == id), "{id} is in flight already");
                let frame: Value = serde_json::from_slice(frame.bytes()).expect("JSON");
                assert_eq!(frame["id"].to_string(), id.to_json());
                if let Some(token) = frame["params"]["_meta"].get("progressToken") {
                    let same =
                        |it: &Upstream| it.frame["params"]["_meta"]["progressToken"] == *token;
                    let taken = self.upstream.iter().chain(&self.abandoned).any(same);
                    assert!(!taken, "the token {token} is in use already");
                }
                let secret = frame["params"]["secret"].as_str().unwrap_or_default();
                if frame["method"] != "initialize" {
                    self.users.extend(self.secrets.get(secret));
                }
                let fails = self.dice.roll(8) == 0;
                self.reaches_server(&frame, fails);
                self.upstream.push(Upstream { id, frame, fails });
            }
            Output::Cancel(id, frame, reason) => {
                let expected = self.withdrawing.is_some();
                assert_eq!(reason == AbandonReason::TokenWithdrawn, expected);
                let at = self.upstream.iter().position(|it| it.id == id);
                let at = at.unwrap_or_else(|| panic!("{id} is not in flight"));
                let frame: Value = serde_json::from_slice(frame.bytes()).expect("JSON");
                assert_eq!(frame["params"]["requestId"].to_string(), id.to_json());
                assert_ne!(self.upstream[at].frame["method"], "initialize");
                let upstream = self.upstream.remove(at);
                match self.dice.roll(4) {
                    // It had not reached the server.
                    0 if !is_state(&upstream.frame) => {
                        self.meet("cancelled before it was sent");
                        self.arisen.push(Input::Over(id));
                    }
                    _ => self.abandon(upstream),
                }
            }
            Output::Answer(_) | Output::Notify(..) => {}
            Output::Send(client, channel, message) => {
                self.heard(client, channel, message.bytes());
            }
            Output::Offer(client, channel, message) => {
                let channel = match self.dice.roll(2) {
                    0 => Channel::MAIN,
                    _ => channel,
                };
                self.heard(client, channel, message.bytes());
            }
            Output::Done(client, channel) => {
                assert_eq!(
                    self.open.remove(&channel),
                    Some(client),
                    "{channel:?} is done"
                );
                assert!(self.closed.insert(channel));
                let owed = self.owed.iter().find(|it| it.channel == channel);
                assert!(owed.is_none(), "done, but owed: {owed:?}");
            }
        }
    }

    /// The server goes on with a request that nobody waits for.
    pub fn abandon(&mut self, upstream: Upstream) {
        if let Some(uri) = upstream.frame["params"]["uri"].as_str() {
            self.doubtful.insert(uri.into());
        }
        self.abandoned.push(upstream);
        self.overflowed |= self.abandoned.len() > LIMITS.abandoned;
    }

    /// The server does, or does not do, what a request says, in the order in which requests come.
    fn reaches_server(&mut self, frame: &Value, fails: bool) {
        let uri = frame["params"]["uri"].as_str().map(str::to_owned);
        match (frame["method"].as_str().unwrap_or_default(), uri) {
            ("resources/subscribe", Some(uri)) if !fails => drop(self.subscribed.insert(uri)),
            ("resources/unsubscribe", Some(uri)) if !fails => drop(self.subscribed.remove(&uri)),
            // It goes on telling of what nobody follows, and nobody may be told.
            ("resources/unsubscribe", Some(uri)) => drop(self.doubtful.insert(uri)),
            ("logging/setLevel", _) if !fails => {
                let level = frame["params"]["level"].as_str().expect("a level");
                self.level = LEVELS.iter().position(|it| *it == level);
                assert!(self.level.is_some(), "{level}");
            }
            ("logging/setLevel", _) => self.level_in_doubt = true,
            _ => {}
        }
    }

    fn heard(&mut self, client: Client, channel: Channel, line: &[u8]) {
        let message: Value = serde_json::from_slice(line).expect("JSON");
        self.told += 1;
        if let Some(which) = self.withdrawing {
            let gone = match which {
                (client, None) => self.owed.iter().all(|it| it.client != client),
                (_, Some(channel)) => self.owed.iter().all(|it| it.channel != channel),
            };
            let kind = &message["error"]["data"]["outlive"]["kind"];
            assert!(!gone && kind == "token_withdrawn", "{message}");
        }
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
                let mut known = self.followed.keys().filter(|it| it.0 == client);
                let its = known.any(|(_, whole)| is_below(whole, &uri));
                // Nobody else can have asked for it.
                let alone = self.sharing == Sharing::Dedicated;
                let alone = alone && self.users.iter().all(|user| *user == client);
                assert!(its || alone, "{client:?}: {message}");
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
                self.is_for(client, channel, &message);
                self.asked.push((message["id"].clone(), client));
            }
            "notifications/message" => {
                self.is_for(client, channel, &message);
                let level = message["params"]["level"].as_str().expect("a level");
                let level = LEVELS.iter().position(|it| *it == level).expect("a level");
                let choice = self.choices.get(&client).copied().unwrap_or_default();
                // Whoever has chosen nothing hears what it would hear without the others.
                let floor = choice.level.or(self.level.map(|_| UNCHOSEN));
                let sure = choice.choosing == 0 && self.sharing == Sharing::Shared;
                let sure = sure && !self.level_in_doubt;
                assert!(
                    !sure || floor.is_none_or(|floor| level >= floor),
                    "{client:?}: {message}"
                );
            }
            "notifications/custom" => self.is_for(client, channel, &message),
            "notifications/subscriptions/acknowledged" => {
                let its = |it: &Owed| it.channel == channel && Some(&*it.secret) == secret;
                assert!(self.owed.iter().any(its), "{message}");
            }
            _ => {}
        }
    }

    /// What is said about a request is said to whoever waits for it, and to nobody if nobody does.
    fn is_for(&self, client: Client, channel: Channel, message: &Value) {
        let Some(about) = &self.about else { return };
        let owed = self.owed.iter().find(|it| it.secret == *about);
        match owed {
            Some(owed) => {
                assert_eq!(owed.client, client, "said to somebody else: {message}");
                if self.named {
                    assert_eq!(owed.channel, channel, "{message}");
                }
            }
            // Nobody else is there.
            None if self.sharing == Sharing::Dedicated && !self.named => {}
            // It may be about what the same client waits for.
            None if self.sharing == Sharing::Shared && !self.named => {
                let waits = self.owed.iter().any(|it| it.client == client);
                let its = self.secrets.get(about) == Some(&client);
                assert!(
                    its && waits,
                    "{client:?} has nothing to do with it: {message}"
                );
            }
            None => panic!("nobody waits for what this is about: {message}"),
        }
    }

    fn answered(&mut self, client: Client, channel: Channel, message: &Value) {
        if message.get("id").is_none() {
            // A notification that is not passed on has no id to be refused under.
            assert!(
                self.sharing == Sharing::Pooled && message.get("error").is_some(),
                "{message}"
            );
            return;
        }
        let fits =
            |it: &Owed| (it.client, it.channel) == (client, channel) && it.id == message["id"];
        let at = self.owed.iter().position(fits);
        let owed = self
            .owed
            .remove(at.unwrap_or_else(|| panic!("nobody waits for {message}")));
        let refused = message.get("error").is_some();
        let uri = owed.params["uri"].as_str().unwrap_or_default();
        match &*owed.method {
            "resources/subscribe" => self.subscribed_to(&owed, !refused),
            "initialize" if !refused => drop(self.shaken.insert(client)),
            "resources/unsubscribe" => {
                // What did not reach the server has changed nothing.
                let ours = message["error"]["data"].get("outlive").is_some();
                let ours = ours && self.withdrawing.is_none();
                if let Some(was) = owed.was.filter(|_| ours) {
                    // (It may have asked for it again meanwhile.)
                    let key = (client, uri.to_owned());
                    self.followed.entry(key).or_insert(was);
                }
            }
            "logging/setLevel" => {
                let level = owed.params["level"].as_str();
                let choice = self.choices.entry(client).or_default();
                choice.choosing -= 1;
                if !refused && choice.at <= owed.channel.0 {
                    choice.at = owed.channel.0;
                    choice.level = LEVELS.iter().position(|it| Some(*it) == level);
                }
            }
            _ => {}
        }
        if let Some(secret) = message["result"]["secret"].as_str() {
            assert_eq!(secret, owed.secret, "an answer to somebody else");
            self.answers += 1;
        }
    }

    /// A client no longer waits for anything on this channel, or at all.
    pub fn forgive(&mut self, which: impl Fn(&Owed) -> bool) {
        let forgiven: Vec<Owed> = self
            .owed
            .iter()
            .filter(|owed| which(owed))
            .cloned()
            .collect();
        for owed in forgiven {
            let choice = self.choices.entry(owed.client).or_default();
            choice.choosing -= usize::from(owed.method == "logging/setLevel");
            if owed.method == "resources/subscribe" {
                self.subscribed_to(&owed, false);
            }
        }
        self.owed.retain(|owed| !which(owed));
    }

    /// A request to subscribe was answered, or nobody waits for its answer.
    fn subscribed_to(&mut self, owed: &Owed, accepted: bool) {
        let uri = owed.params["uri"].as_str().unwrap_or_default();
        let key = (owed.client, uri.to_owned());
        let follow = self.followed.get_mut(&key);
        let Some(follow) = follow.filter(|follow| follow.since <= owed.channel) else {
            return;
        };
        follow.pending -= 1;
        follow.sure |= accepted;
        if follow.pending == 0 && !follow.sure {
            self.followed.remove(&key);
        }
    }

    /// The token of a client is withdrawn, or the one that this channel was opened with: whatever was running is
    /// answered.
    pub fn withdraw(&mut self, client: Client, channel: Option<Channel>) {
        self.withdrawing = Some((client, channel));
        let at = channel.unwrap_or(Channel::MAIN);
        self.feed(Input::Withdrawn(client, at));
        self.withdrawing = None;
        let theirs = |it: &Owed| it.client == client && channel.is_none_or(|at| it.channel == at);
        assert!(
            !self.owed.iter().any(theirs),
            "left waiting: {:?}",
            self.owed
        );
        let open = |(at, owner): (&Channel, &Client)| match channel {
            Some(channel) => *at == channel,
            None => *owner == client,
        };
        // A notification may wait for the server to be known as a modern one.
        let waits = self.sharing == Sharing::Pooled;
        assert!(
            waits || !self.open.iter().any(open),
            "left open: {:?}",
            self.open
        );
    }

    /// The session refuses a request.
    pub fn refuse(&mut self, at: usize, error: Error) {
        let upstream = self.upstream.swap_remove(at);
        self.feed(Input::Refused(Box::new(Refusal {
            id_json: upstream.id.to_json().into(),
            what: "the request".into(),
            error,
            generation: self.generation,
        })));
    }

    /// The server dies: what may be sent again is, and the rest is refused.
    pub fn die(&mut self, retried: impl Fn(&Upstream) -> bool) {
        self.abandoned.clear();
        self.overflowed = false;
        // Only what is waited for can be sent to the next one.
        self.users = self.owed.iter().map(|owed| owed.client).collect();
        let generation = self.generation;
        self.feed(Input::Lost(generation));
        let lost: Vec<Upstream> = self
            .upstream
            .iter()
            .filter(|it| !retried(it))
            .cloned()
            .collect();
        for upstream in lost {
            let at = self.upstream.iter().position(|it| it.id == upstream.id);
            let cause = Cause::new(Reason::Eof, Phase::Service, "server");
            let outcome = Outcome::Unknown;
            let error = Error::ConnectionLost {
                cause,
                outcome,
                poison: false,
            };
            self.refuse(at.expect("it is in flight"), error);
        }
        self.generation = generation.next();
    }

    /// There is no session any more: everybody is answered.
    pub fn end(&mut self) {
        self.ended = true;
        self.feed(Input::Ended);
        assert!(self.owed.is_empty(), "left waiting: {:?}", self.owed);
        assert!(self.open.is_empty(), "left open: {:?}", self.open);
        let sizes = self.switch.sizes();
        assert_eq!((sizes.table, sizes.channels, sizes.asks), ((0, 0), 0, 0));
    }
}

/// Whether a request changes what the server has for all of its clients.
pub fn is_state(frame: &Value) -> bool {
    matches!(
        frame["method"].as_str(),
        Some("resources/subscribe" | "resources/unsubscribe" | "logging/setLevel")
    )
}

/// Whether a resource is another one or below it, segment by segment.
pub fn is_below(whole: &str, uri: &str) -> bool {
    let (whole, uri): (Vec<&str>, Vec<&str>) =
        (whole.split('/').collect(), uri.split('/').collect());
    whole == uri || whole.len() > 2 && uri.starts_with(&whole)
}

pub fn shutting_down() -> Error {
    Error::ShuttingDown {
        outcome: Outcome::Unknown,
    }
}
