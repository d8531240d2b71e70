//! Random schedules of a legacy client before servers of 2026-07-28: calls, rounds of questions, streams,
//! cancellations, servers that lie, and servers that are replaced by ones of the other era.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use outlive_core::gateway::TargetId;
use outlive_core::protocol::List;
use outlive_core::roster::{Entry, Naming, Roster, ToolFilter, View};
use outlive_core::router::{Input, Output, Router, RouterPolicy};
use outlive_core::server::Channel;
use outlive_core::{Message, Time};
use serde_json::{Value, json};

use crate::known;
use crate::random::{Dice, number, shrink};
use crate::rig::{CAPABILITIES, frame};
use crate::seeds::check_all;

const SERVERS: [&str; 2] = ["a", "b"];
const STEPS: usize = 60;
const ACKNOWLEDGED: &str = "notifications/subscriptions/acknowledged";
/// A request is handed to a server once, and once more for each of its rounds.
const MOST_SENT: usize = 9;

/// What happens, and three numbers that choose among what is there.
type Step = (u8, u8, u8, u8);
type Broken = (u8, String);

/// A request that a modern server has.
struct Handed {
    channel: Channel,
    message: Value,
}

#[derive(Default)]
struct Server {
    legacy: bool,
    /// There is a leg to it, and what it was sent there.
    open: bool,
    heard: Vec<(Channel, Value)>,
    handed: Vec<Handed>,
    /// Channels on which it has said all there is to say.
    over: Vec<(Channel, Value)>,
    streams: BTreeMap<Channel, (Value, BTreeSet<String>)>,
    tools: usize,
}

/// A request that the client waits for.
struct Owed {
    channel: Channel,
    secret: String,
    server: usize,
    sent: usize,
    /// What the next try has to bring: the answers so far, and the state.
    answers: Value,
    state: Value,
}

struct World {
    router: Router,
    now: Time,
    declared: Value,
    servers: Vec<Server>,
    entries: Vec<Entry>,
    owed: BTreeMap<u64, Owed>,
    /// Questions that the client was asked: the secret of the request that they are about, and the server's key.
    asked: BTreeMap<String, (String, String, Value)>,
    done: BTreeSet<Channel>,
    level: Option<&'static str>,
    next: u64,
    lying: bool,
    gone: bool,
    /// What servers offer is known when the schedule begins.
    begun: bool,
    log: Option<Vec<String>>,
    seen: BTreeMap<&'static str, usize>,
}

fn broken<T>(invariant: u8, how: impl Into<String>) -> Result<T, Broken> {
    Err((invariant, how.into()))
}

fn roster(entries: &[Entry]) -> Arc<Roster> {
    Arc::new(Roster::new(entries, &Naming::default(), &View::default()))
}

impl World {
    fn new(dice: &mut Dice) -> World {
        let entry = |(at, name): (usize, &&str)| Entry {
            target: TargetId(at),
            name: (*name).into(),
            prefix: None,
            filter: ToolFilter::default(),
            eager: false,
            offer: None,
            pinned: None,
        };
        let entries: Vec<Entry> = SERVERS.iter().enumerate().map(entry).collect();
        let policy = RouterPolicy {
            idle_stop: (dice.below(3) == 0).then_some(Duration::from_secs(60)),
            ..RouterPolicy::default()
        };
        let declared = match dice.below(2) {
            0 => json!({"roots": {}, "elicitation": {}}),
            _ => json!({"roots": {}}),
        };
        let server = |_| Server {
            legacy: dice.below(6) == 0,
            ..Server::default()
        };
        World {
            router: Router::new(policy, roster(&entries)),
            now: Time::ZERO,
            declared,
            servers: SERVERS.iter().map(server).collect(),
            entries,
            owed: BTreeMap::new(),
            asked: BTreeMap::new(),
            done: BTreeSet::new(),
            level: None,
            next: 0,
            lying: false,
            gone: false,
            begun: dice.below(4) > 0,
            log: None,
            seen: BTreeMap::new(),
        }
    }

    fn saw(&mut self, what: &'static str) {
        *self.seen.entry(what).or_default() += 1;
    }

    fn feed(&mut self, input: Input) -> Result<(), Broken> {
        if let Some(log) = &mut self.log {
            log.push(format!("{input:?}").chars().take(400).collect());
        }
        self.router.handle(self.now, input);
        let mut learned = Vec::new();
        while let Some(output) = self.router.poll() {
            if let Some(log) = &mut self.log {
                log.push(format!("    {output:?}").chars().take(400).collect());
            }
            if self.lying {
                return broken(4, format!("a lie was believed: {output:?}"));
            }
            match output {
                Output::Learned(target, offer) => learned.push((target, *offer)),
                output => self.on_output(output)?,
            }
        }
        for (target, offer) in learned {
            self.entries[target.0].offer = Some(Arc::new(offer));
            self.feed(Input::Roster(roster(&self.entries)))?;
        }
        self.check()
    }

    /// What holds after each step.
    fn check(&self) -> Result<(), Broken> {
        if self.router.in_flight() != self.owed.len() {
            let counted = self.router.in_flight();
            return broken(7, format!("{counted} in flight, {} owed", self.owed.len()));
        }
        for (at, server) in self.servers.iter().enumerate() {
            let is_stream = |it: &&Handed| it.message["method"] == "subscriptions/listen";
            let opening = server.handed.iter().filter(is_stream).count();
            if server.streams.len() > 1 || opening > 1 {
                return broken(6, format!("{at} has several streams"));
            }
        }
        let forgotten =
            |it: &&(String, String, Value)| !self.owed.values().any(|owed| owed.secret == it.0);
        match self.asked.values().find(forgotten) {
            Some(it) => broken(5, format!("the client is still asked about {}", it.0)),
            None => Ok(()),
        }
    }

    fn on_output(&mut self, output: Output) -> Result<(), Broken> {
        match output {
            Output::Open(target) => {
                let server = &mut self.servers[target.0];
                match std::mem::replace(&mut server.open, true) {
                    true => broken(4, format!("{target:?} is opened twice")),
                    false => Ok(()),
                }
            }
            Output::Close(target) => {
                let server = &mut self.servers[target.0];
                server.heard.clear();
                match std::mem::replace(&mut server.open, false) {
                    true => Ok(()),
                    false => broken(4, format!("{target:?} is closed twice")),
                }
            }
            Output::Hear(target, channel, message) => {
                let it = value(&message)?;
                let server = &mut self.servers[target.0];
                if !server.open {
                    return broken(4, format!("{target:?} has no leg for {it}"));
                }
                if it.get("id").is_some() {
                    server.heard.push((channel, it));
                }
                Ok(())
            }
            Output::Request(target, channel, message) => {
                self.on_handed(target.0, channel, &message)
            }
            Output::Leave(target, channel) => {
                let server = &mut self.servers[target.0];
                let handed = server.handed.extract_if(.., |it| it.channel == channel);
                let handed: Vec<Handed> = handed.collect();
                let stream = server.streams.remove(&channel);
                server.over.push((channel, json!(0)));
                match handed.len() + usize::from(stream.is_some()) {
                    1 => Ok(()),
                    n => broken(4, format!("{channel:?} is left, and {n} are on it")),
                }
            }
            Output::Send(channel, message) => self.on_send(channel, &value(&message)?),
            Output::Offer(channel, message) => {
                let channel = if self.done.contains(&channel) {
                    Channel::MAIN
                } else {
                    channel
                };
                self.on_send(channel, &value(&message)?)
            }
            Output::Done(channel) => {
                let waits = self.owed.values().any(|it| it.channel == channel);
                match self.done.insert(channel) && !waits {
                    true => Ok(()),
                    false => broken(3, format!("{channel:?} is done twice, or too early")),
                }
            }
            Output::Learned(..) => Ok(()),
        }
    }

    /// A modern server is handed a request: it says who it is from, and brings what the server wanted to know.
    fn on_handed(
        &mut self,
        server: usize,
        channel: Channel,
        message: &Message,
    ) -> Result<(), Broken> {
        let it = value(message)?;
        let meta = &it["params"]["_meta"];
        let field = |name: &str| &meta[format!("io.modelcontextprotocol/{name}")];
        let told = field("protocolVersion") == "2026-07-28"
            && *field("clientCapabilities") == self.declared
            && field("clientInfo")["name"] == "host";
        if !told {
            return broken(3, format!("{it} does not say who it is from"));
        }
        if let Some(secret) = it["params"]["secret"].as_str() {
            let level = field("logLevel").as_str();
            let twice = self.servers.iter().flat_map(|it| &it.handed);
            let twice = twice
                .filter(|other| other.message["params"]["secret"] == secret)
                .count();
            let owed = self.owed.values_mut().find(|it| it.secret == secret);
            let Some(owed) = owed.filter(|it| it.server == server && twice == 0) else {
                return broken(2, format!("{it} is not to be sent"));
            };
            owed.sent += 1;
            let params = &it["params"];
            let given = |name: &str| params.get(name).cloned().unwrap_or(Value::Null);
            if given("inputResponses") != owed.answers || given("requestState") != owed.state {
                return broken(
                    5,
                    format!("{it} does not bring {} {}", owed.answers, owed.state),
                );
            }
            if owed.sent > MOST_SENT {
                return broken(7, format!("{secret} is sent again and again"));
            }
            if level != self.level {
                return broken(3, format!("{it} names the level {level:?}"));
            }
        }
        self.servers[server].handed.push(Handed {
            channel,
            message: it,
        });
        Ok(())
    }

    fn on_send(&mut self, channel: Channel, it: &Value) -> Result<(), Broken> {
        if self.gone || self.done.contains(&channel) {
            return broken(3, format!("{it} comes on {channel:?}, which is done"));
        }
        let params = &it["params"];
        match it["method"].as_str() {
            Some("roots/list" | "elicitation/create") => {
                let form = it["method"] == "elicitation/create";
                if form && self.declared.get("elicitation").is_none() {
                    return broken(5, format!("the client cannot be asked {it}"));
                }
                let about = (
                    text(&params["about"]),
                    text(&params["key"]),
                    it["id"].clone(),
                );
                self.asked.insert(it["id"].to_string(), about);
                self.saw("questions");
                Ok(())
            }
            Some("notifications/cancelled") => {
                self.saw("withdrawn");
                match self.asked.remove(&params["requestId"].to_string()) {
                    Some(_) => Ok(()),
                    None => broken(5, format!("{it} is about nothing")),
                }
            }
            Some("notifications/progress") => {
                self.saw("progress");
                let owed = self
                    .owed
                    .values()
                    .find(|it| params["progressToken"] == it.secret);
                match owed.is_some_and(|owed| owed.channel == channel) {
                    true => Ok(()),
                    false => broken(2, format!("{it} is another's")),
                }
            }
            Some("notifications/resources/updated") => {
                self.saw("updates");
                Ok(())
            }
            Some(_) => Ok(()),
            None => {
                let owed = it["id"].as_u64().and_then(|id| self.owed.remove(&id));
                let Some(owed) = owed.filter(|owed| owed.channel == channel) else {
                    return broken(1, format!("nobody waits for {it}"));
                };
                self.asked
                    .retain(|_, about| about.0 != owed.secret || it.get("error").is_some());
                let secret = it["result"].get("secret");
                self.saw(if secret.is_some() {
                    "answers"
                } else {
                    "other answers"
                });
                match secret.is_none_or(|secret| *secret == owed.secret) {
                    true => Ok(()),
                    false => broken(1, format!("{} is answered with {it}", owed.secret)),
                }
            }
        }
    }

    fn say(&mut self, message: &Value) -> Result<(), Broken> {
        self.next += 1;
        self.feed(Input::Client(Channel(self.next), frame(message)))
    }

    fn request(&mut self, server: usize, method: &str, mut params: Value) -> Result<(), Broken> {
        let id = self.next + 1;
        let secret = format!("s{id}");
        params["secret"] = json!(secret);
        params["_meta"] = json!({"progressToken": secret});
        let owed = Owed {
            channel: Channel(id),
            secret,
            server,
            sent: 0,
            answers: Value::Null,
            state: Value::Null,
        };
        self.owed.insert(id, owed);
        self.say(&json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}))
    }

    fn says(&mut self, server: usize, channel: Channel, it: &Value) -> Result<(), Broken> {
        let message = Message::read(it.to_string().into()).expect("a message");
        self.feed(Input::Modern(TargetId(server), channel, message))
    }

    /// A modern server, or the switch before a legacy one, answers.
    fn answer(&mut self, server: usize, m: u8, how: u8) -> Result<(), Broken> {
        let it = &mut self.servers[server];
        let Some(at) = (m as usize).checked_rem(it.handed.len()) else {
            return Ok(());
        };
        let Handed {
            channel,
            message: request,
        } = it.handed.remove(at);
        let id = request["id"].clone();
        let error = |error: Value| json!({"jsonrpc": "2.0", "id": id, "error": error});
        if it.legacy {
            let data = json!({"outlive": {"kind": "unsupported"}});
            it.over.push((channel, id.clone()));
            self.saw("unsupported");
            return self.says(
                server,
                channel,
                &error(json!({"code": -32600, "message": "no", "data": data})),
            );
        }
        let params = &request["params"];
        let method = request["method"].as_str().unwrap_or_default();
        if method == "subscriptions/listen" && how % 8 > 1 {
            let filter = params["notifications"].clone();
            let uris = filter["resourceSubscriptions"]
                .as_array()
                .cloned()
                .unwrap_or_default();
            let uris = uris.iter().map(text).collect();
            it.streams.insert(channel, (id, uris));
            self.saw("streams");
            let told = json!({"jsonrpc": "2.0", "method": ACKNOWLEDGED, "params": {"notifications": filter}});
            // The one before is left as soon as this one is there.
            let older: Vec<Channel> = self.servers[server]
                .streams
                .keys()
                .copied()
                .filter(|it| *it != channel)
                .collect();
            let kept = older.into_iter().next().and_then(|older| {
                let stream = self.servers[server].streams.remove(&older)?;
                Some((older, stream))
            });
            if let Some((older, (id, _))) = kept {
                self.servers[server].handed.push(Handed {
                    channel: older,
                    message: json!({"id": id}),
                });
            }
            return self.says(server, channel, &told);
        }
        it.over.push((channel, id.clone()));
        let secret = params["secret"].as_str().map(str::to_owned);
        let round = secret.clone().filter(|_| how % 4 == 1);
        if let Some(secret) = round {
            return self.ask(server, channel, &request, &secret, how);
        }
        if how % 16 == 15 {
            return self.says(
                server,
                channel,
                &error(json!({"code": -32603, "message": "no"})),
            );
        }
        let tools: Vec<Value> = (0..=it.tools)
            .map(|n| json!({"name": format!("x{n}")}))
            .collect();
        let result = match method {
            "server/discover" => json!({"supportedVersions": ["2026-07-28"],
                "capabilities": serde_json::from_str::<Value>(CAPABILITIES).expect("JSON")}),
            "tools/list" => json!({"tools": tools}),
            "prompts/list" => json!({"prompts": []}),
            "resources/list" => json!({"resources": []}),
            "resources/templates/list" => json!({"resourceTemplates": []}),
            _ => json!({"resultType": "complete", "secret": secret}),
        };
        self.says(
            server,
            channel,
            &json!({"jsonrpc": "2.0", "id": id, "result": result}),
        )
    }

    /// A server wants to know something first.
    fn ask(
        &mut self,
        server: usize,
        channel: Channel,
        request: &Value,
        secret: &str,
        how: u8,
    ) -> Result<(), Broken> {
        self.next += 1;
        let state = json!(format!("state{}", self.next));
        let mut questions = json!({});
        for n in 0..how / 4 % 3 {
            let method = ["roots/list", "elicitation/create"][(how / 16 + n) as usize % 2];
            let key = format!("q{n}");
            questions[&key] = json!({"method": method, "params": {"about": secret, "key": key}});
        }
        let owed = self.owed.values_mut().find(|it| it.secret == secret);
        let Some(owed) = owed else {
            return broken(2, format!("nobody waits for {secret}"));
        };
        owed.state = state.clone();
        owed.answers = Value::Null;
        self.saw("rounds");
        let result = json!({"resultType": "input_required", "inputRequests": questions, "requestState": state});
        self.says(
            server,
            channel,
            &json!({"jsonrpc": "2.0", "id": request["id"], "result": result}),
        )
    }

    /// A legacy server answers what came over its leg; a modern one refuses the handshake.
    fn answer_leg(&mut self, server: usize, m: u8) -> Result<(), Broken> {
        let it = &mut self.servers[server];
        let Some(at) = (m as usize).checked_rem(it.heard.len()) else {
            return Ok(());
        };
        let (channel, request) = it.heard.remove(at);
        let tools: Vec<Value> = (0..=it.tools)
            .map(|n| json!({"name": format!("x{n}")}))
            .collect();
        let result = match request["method"].as_str().unwrap_or_default() {
            "initialize" => json!({"protocolVersion": "2025-11-25", "serverInfo": {},
                "capabilities": serde_json::from_str::<Value>(CAPABILITIES).expect("JSON")}),
            "tools/list" => json!({"tools": tools}),
            "prompts/list" => json!({"prompts": []}),
            "resources/list" => json!({"resources": []}),
            "resources/templates/list" => json!({"resourceTemplates": []}),
            _ => json!({"secret": request["params"]["secret"]}),
        };
        let answer = match it.legacy || request["method"] != "initialize" {
            true => json!({"jsonrpc": "2.0", "id": request["id"], "result": result}),
            false => {
                json!({"jsonrpc": "2.0", "id": request["id"], "error": {"code": -32601, "message": "no"}})
            }
        };
        let message = Message::read(answer.to_string().into()).expect("a message");
        self.feed(Input::Server(TargetId(server), channel, message))
    }

    fn reply(&mut self, m: u8, refuses: bool) -> Result<(), Broken> {
        let all: Vec<String> = self.asked.keys().cloned().collect();
        let Some(at) = (m as usize).checked_rem(all.len()) else {
            return Ok(());
        };
        let Some((secret, key, id)) = self.asked.remove(&all[at]) else {
            return Ok(());
        };
        let result = json!({"given": self.next, "key": key});
        if refuses {
            self.saw("refusals");
            return self
                .say(&json!({"jsonrpc": "2.0", "id": id, "error": {"code": 1, "message": "no"}}));
        }
        if let Some(owed) = self.owed.values_mut().find(|it| it.secret == secret) {
            owed.answers[&key] = result.clone();
        }
        self.say(&json!({"jsonrpc": "2.0", "id": id, "result": result}))
    }

    fn cancel(&mut self, m: u8) -> Result<(), Broken> {
        let all: Vec<u64> = self.owed.keys().copied().collect();
        let Some(at) = (m as usize).checked_rem(all.len()) else {
            return Ok(());
        };
        let owed = self.owed.remove(&all[at]).expect("it is owed");
        self.saw("cancelled");
        self.say(&json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": all[at]}}))?;
        let mut handed = self.servers.iter().flat_map(|it| &it.handed);
        match handed.any(|it| it.message["params"]["secret"] == owed.secret) {
            true => broken(
                2,
                format!("{} is cancelled, and its server goes on", owed.secret),
            ),
            false => Ok(()),
        }
    }

    fn lie(&mut self, server: usize, m: u8) -> Result<(), Broken> {
        let it = &self.servers[server];
        let lie = |id: &Value| json!({"jsonrpc": "2.0", "id": id, "result": {"secret": "lie"}});
        let other = &self.servers[1 - server];
        let said = match m % 3 {
            // On a channel on which everything was said, or which was left.
            0 => it.over.last().map(|(channel, id)| (*channel, lie(id))),
            // Under another id.
            1 => it
                .handed
                .last()
                .filter(|it| it.message["method"] != "subscriptions/listen")
                .map(|it| (it.channel, lie(&json!("other")))),
            // To somebody else's request.
            _ => other
                .handed
                .last()
                .map(|it| (it.channel, lie(&it.message["id"]))),
        };
        let Some((channel, said)) = said else {
            return Ok(());
        };
        // Two routers' worth of channels: a number of one server is not one of the other's.
        let is_its = self.servers[server]
            .handed
            .iter()
            .any(|it| it.channel == channel)
            || self.servers[server].streams.contains_key(&channel);
        if m % 3 != 1 && is_its {
            return Ok(());
        }
        self.saw("lies");
        self.lying = true;
        let result = self.says(server, channel, &said);
        self.lying = false;
        result
    }

    fn change(&mut self, server: usize, m: u8) -> Result<(), Broken> {
        let it = &mut self.servers[server];
        let Some((channel, (id, uris))) = it.streams.iter().next().map(|it| (*it.0, it.1.clone()))
        else {
            return Ok(());
        };
        let told = match m % 8 {
            0 => {
                it.streams.remove(&channel);
                it.over.push((channel, id.clone()));
                self.saw("streams ended");
                json!({"jsonrpc": "2.0", "id": id, "result": {"resultType": "complete"}})
            }
            1..=3 if !uris.is_empty() => {
                let uri = uris.iter().next();
                json!({"jsonrpc": "2.0", "method": "notifications/resources/updated", "params": {"uri": uri}})
            }
            _ => {
                it.tools = (it.tools + 1) % 3;
                self.saw("changes");
                json!({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"})
            }
        };
        self.says(server, channel, &told)
    }

    fn progress(&mut self, server: usize, m: u8) -> Result<(), Broken> {
        let it = &self.servers[server];
        let Some(at) = (m as usize).checked_rem(it.handed.len()) else {
            return Ok(());
        };
        let token = &it.handed[at].message["params"]["_meta"]["progressToken"];
        if token.is_null() {
            return Ok(());
        }
        let params = json!({"progressToken": token, "progress": 1});
        let told = json!({"jsonrpc": "2.0", "method": "notifications/progress", "params": params});
        let channel = it.handed[at].channel;
        self.says(server, channel, &told)
    }

    fn step(&mut self, (what, a, b, c): Step) -> Result<(), Broken> {
        let server = a as usize % SERVERS.len();
        let name = SERVERS[server];
        if self.gone {
            return Ok(());
        }
        match what % 32 {
            0..=6 => self.request(server, "tools/call", json!({"name": format!("{name}__x0")})),
            7 => {
                let method = ["resources/subscribe", "resources/unsubscribe"][b as usize % 2];
                self.request(
                    server,
                    method,
                    json!({"uri": format!("outlive:{name}:x://{}", c % 3)}),
                )
            }
            8 => {
                self.level = Some(["error", "debug"][b as usize % 2]);
                self.request(server, "logging/setLevel", json!({"level": self.level}))
            }
            9 => self.request(server, "tools/list", json!({})),
            10..=12 => self.reply(b, c % 8 == 0),
            13 => self.cancel(b),
            14..=22 => self.answer(server, b, c),
            23..=25 => self.answer_leg(server, b),
            26 => self.lie(server, b),
            27 => self.change(server, b),
            28 => self.progress(server, b),
            29 if b % 8 == 0 => {
                // Another server is there than before; what the one before had is lost with it.
                self.servers[server].legacy = !self.servers[server].legacy;
                let streams = std::mem::take(&mut self.servers[server].streams);
                for (channel, (id, _)) in streams {
                    self.servers[server].handed.push(Handed {
                        channel,
                        message: json!({"id": id}),
                    });
                }
                self.saw("replaced");
                Ok(())
            }
            29 if b % 64 == 1 => {
                self.gone = true;
                self.owed.clear();
                self.asked.clear();
                self.feed(Input::Gone)?;
                let left = self
                    .servers
                    .iter()
                    .all(|it| it.handed.is_empty() && it.streams.is_empty() && !it.open);
                match left && self.router.sizes().lifted == 0 {
                    true => Ok(()),
                    false => broken(8, "something is left of a client that is gone"),
                }
            }
            _ => {
                self.now = self.now + Duration::from_millis(u64::from(b) * u64::from(c));
                self.feed(Input::Tick)
            }
        }
    }

    /// Servers answer whatever they have.
    fn serve_all(&mut self) -> Result<(), Broken> {
        for server in 0..SERVERS.len() {
            while !self.servers[server].handed.is_empty() {
                self.answer(server, 0, 2)?;
            }
            while !self.servers[server].heard.is_empty() {
                self.answer_leg(server, 0)?;
            }
        }
        Ok(())
    }

    /// Everybody answers: nothing is owed in the end, and what servers have told is known.
    fn end(&mut self) -> Result<(), Broken> {
        for _ in 0..60 {
            if self.gone {
                return Ok(());
            }
            self.serve_all()?;
            while !self.asked.is_empty() {
                self.reply(0, false)?;
            }
            self.now = self.now + Duration::from_secs(5);
            self.feed(Input::Tick)?;
        }
        if let Some(owed) = self.owed.values().next() {
            return broken(1, format!("{} is never answered", owed.secret));
        }
        for (at, server) in self.servers.iter().enumerate() {
            let offer = self.entries[at].offer.as_ref();
            let tools = offer
                .and_then(|offer| offer.list(List::Tools))
                .map(|it| it.len());
            if !server.streams.is_empty() && tools != Some(server.tools + 1) {
                return broken(
                    8,
                    format!("{at} has told of its tools, and {tools:?} are known"),
                );
            }
        }
        Ok(())
    }
}

fn text(json: &Value) -> String {
    json.as_str().unwrap_or_default().to_owned()
}

fn value(message: &Message) -> Result<Value, Broken> {
    known::check(message).or_else(|how| broken(4, how))?;
    Ok(serde_json::from_slice(message.bytes()).expect("JSON"))
}

fn begin(seed: u64) -> (World, Vec<Step>) {
    let mut dice = Dice::new(seed ^ 0x7570_6c69_6674);
    let world = World::new(&mut dice);
    let mut n = || dice.below(256) as u8;
    (world, (0..STEPS).map(|_| (n(), n(), n(), n())).collect())
}

fn run(world: &mut World, steps: &[Step]) -> Result<(), Broken> {
    let params = json!({"protocolVersion": "2025-11-25", "capabilities": world.declared,
        "clientInfo": {"name": "host", "version": "1"}});
    let owed = Owed {
        channel: Channel(1),
        secret: "initialize".into(),
        server: 0,
        sent: 0,
        answers: Value::Null,
        state: Value::Null,
    };
    world.owed.insert(1, owed);
    world.say(&json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params}))?;
    if world.begun {
        for _ in 0..4 {
            world.serve_all()?;
        }
    }
    for step in steps {
        world.step(*step)?;
    }
    world.end()
}

fn check(seed: u64) -> Result<BTreeMap<&'static str, usize>, Broken> {
    let (mut world, steps) = begin(seed);
    let Err((invariant, _)) = run(&mut world, &steps) else {
        return Ok(world.seen);
    };
    let again = |steps: &[Step]| {
        let (mut world, _) = begin(seed);
        world.log = Some(Vec::new());
        let result = run(&mut world, steps);
        (world, result)
    };
    let small = shrink(steps, |steps| {
        again(steps).1.is_err_and(|it| it.0 == invariant)
    });
    let (world, result) = again(&small);
    let (_, how) = result.expect_err("it still fails");
    let log = world.log.unwrap_or_default().join("\n");
    broken(
        invariant,
        format!("invariant {invariant}: {how}\nseed {seed}: {small:?}\n{log}"),
    )
}

fn holds(invariant: u8) {
    static BROKEN: OnceLock<BTreeMap<u8, String>> = OnceLock::new();
    let broken =
        BROKEN.get_or_init(|| check_all("legacy clients of modern servers", 5, check, drop));
    if let Some(story) = broken.get(&invariant) {
        panic!("{story}");
    }
}

#[test]
fn one_seed_tells_its_story() {
    let seed = number("OUTLIVE_SEED").unwrap_or(1);
    check(seed).unwrap_or_else(|(_, story)| panic!("{story}"));
}

#[test]
fn invariant_01_each_request_is_answered_once_on_its_channel() {
    holds(1);
}

#[test]
fn invariant_02_nothing_is_done_for_a_request_that_nobody_waits_for() {
    holds(2);
}

#[test]
fn invariant_03_each_request_says_who_it_is_from_and_each_channel_is_done_once() {
    holds(3);
}

#[test]
fn invariant_04_a_server_is_believed_only_about_what_it_was_handed() {
    holds(4);
}

#[test]
fn invariant_05_questions_are_put_to_who_can_be_asked_and_their_answers_brought_back() {
    holds(5);
}

#[test]
fn invariant_06_there_is_one_stream_for_each_server() {
    holds(6);
}

#[test]
fn invariant_07_everything_is_bounded() {
    holds(7);
}

#[test]
fn invariant_08_what_servers_tell_is_learnt_and_nothing_is_left_of_a_client_that_is_gone() {
    holds(8);
}

/// Schedules that come across nothing show nothing.
#[test]
fn the_schedules_come_across_everything() {
    let mut seen: BTreeMap<&str, usize> = BTreeMap::new();
    for seed in 0..1000 {
        let all = check(seed).unwrap_or_else(|(_, story)| panic!("{story}"));
        all.into_iter()
            .for_each(|(what, count)| *seen.entry(what).or_default() += count);
    }
    let all = [
        "answers",
        "other answers",
        "questions",
        "withdrawn",
        "rounds",
        "refusals",
        "cancelled",
        "progress",
        "streams",
        "streams ended",
        "changes",
        "updates",
        "lies",
        "unsupported",
        "replaced",
    ];
    for what in all {
        assert!(
            seen.get(what).is_some_and(|count| *count >= 10),
            "{what} in {seen:?}"
        );
    }
}
