//! Random schedules of everything that can happen to a router of modern clients: many clients with the same ids, modern
//! servers and legacy ones, channels that are closed at any time, streams, and a shutdown.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use outlive_core::gateway::TargetId;
use outlive_core::protocol::List;
use outlive_core::roster::{Entry, Naming, Roster, ToolFilter, View};
use outlive_core::router::RouterPolicy;
use outlive_core::router::modern::{ModernInput, ModernOutput, ModernRouter};
use outlive_core::server::{Channel, RpcError};
use outlive_core::{Message, Time};
use serde_json::{Value, json};

use crate::known;
use crate::random::{Dice, number, shrink};
use crate::rig::{CAPABILITIES, frame, offer};
use crate::seeds::check_all;

const SERVERS: [&str; 3] = ["a", "b", "c"];
const STEPS: usize = 50;
const ACKNOWLEDGED: &str = "notifications/subscriptions/acknowledged";

/// What happens, and three numbers that choose among what is there.
type Step = (u8, u8, u8, u8);
type Broken = (u8, String);

#[derive(Default)]
struct Server {
    modern: bool,
    /// It has a leg of the bridge; it has shaken hands.
    open: bool,
    ready: bool,
    handed: Vec<(Channel, Value)>,
    heard: Vec<(Channel, Value)>,
    /// What the router itself has asked of a modern server, and the stream on which the server tells of changes.
    asked: Vec<(Channel, Value)>,
    stream: Option<(Channel, Value)>,
    /// It has more tools than one.
    grown: bool,
}

impl Server {
    /// Nothing is asked of it, and nobody listens to it.
    fn is_left(&self) -> bool {
        !self.open && self.handed.is_empty() && self.asked.is_empty() && self.stream.is_none()
    }

    fn tools(&self) -> Value {
        match self.grown {
            true => json!({"tools": [{"name": "x"}, {"name": "y"}]}),
            false => json!({"tools": [{"name": "x"}]}),
        }
    }
}

struct Owed {
    id: Value,
    secret: String,
    call: bool,
}

struct World {
    router: ModernRouter,
    now: Time,
    servers: Vec<Server>,
    names: Vec<&'static str>,
    entries: Vec<Entry>,
    absent: BTreeSet<usize>,
    roster: Arc<Roster>,
    owed: BTreeMap<Channel, Owed>,
    /// Streams, and how often they were told of tools, and of a resource.
    streams: BTreeMap<Channel, (usize, usize)>,
    done: BTreeSet<Channel>,
    next: u64,
    lying: bool,
    closing: bool,
    log: Option<Vec<String>>,
    seen: BTreeMap<&'static str, usize>,
}

fn broken<T>(invariant: u8, how: impl Into<String>) -> Result<T, Broken> {
    Err((invariant, how.into()))
}

fn roster(entries: &[Entry], absent: &BTreeSet<usize>) -> Arc<Roster> {
    let present = entries
        .iter()
        .filter(|entry| !absent.contains(&entry.target.0));
    let present: Vec<Entry> = present.cloned().collect();
    Arc::new(Roster::new(&present, &Naming::default(), &View::default()))
}

impl World {
    fn new(dice: &mut Dice) -> World {
        let count = 1 + dice.below(3) as usize;
        let mut servers = Vec::new();
        let mut entries = Vec::new();
        for (at, name) in SERVERS.into_iter().enumerate().take(count) {
            let modern = dice.below(2) == 0;
            servers.push(Server {
                modern,
                ..Server::default()
            });
            let known = dice.below(4) > 0 || modern;
            entries.push(Entry {
                target: TargetId(at),
                name: name.into(),
                prefix: None,
                filter: ToolFilter::default(),
                eager: false,
                offer: known.then(|| Arc::new(offer(&["x"]))),
                pinned: None,
            });
        }
        let roster = roster(&entries, &BTreeSet::new());
        World {
            router: ModernRouter::new(RouterPolicy::default(), roster.clone()),
            now: Time::ZERO,
            names: SERVERS[..count].to_vec(),
            servers,
            entries,
            absent: BTreeSet::new(),
            roster,
            owed: BTreeMap::new(),
            streams: BTreeMap::new(),
            done: BTreeSet::new(),
            next: 0,
            lying: false,
            closing: false,
            log: None,
            seen: BTreeMap::new(),
        }
    }

    fn saw(&mut self, what: &'static str) {
        *self.seen.entry(what).or_default() += 1;
    }

    fn feed(&mut self, input: ModernInput) -> Result<(), Broken> {
        if let Some(log) = &mut self.log {
            log.push(format!("{:?}", input).chars().take(300).collect());
        }
        self.router.handle(self.now, input);
        let mut learned = Vec::new();
        while let Some(output) = self.router.poll() {
            if let Some(log) = &mut self.log {
                log.push(format!("    {output:?}").chars().take(300).collect());
            }
            if self.lying {
                return broken(4, format!("a lie was believed: {output:?}"));
            }
            self.on_output(output, &mut learned)?;
        }
        let expected = self.owed.len();
        if self.router.in_flight() != expected {
            return broken(
                5,
                format!("{} in flight, {expected} owed", self.router.in_flight()),
            );
        }
        for (target, offer) in learned {
            if let Some(entry) = self.entries.iter_mut().find(|it| it.target == target) {
                entry.offer = Some(Arc::new(offer));
                self.tell_roster()?;
            }
        }
        Ok(())
    }

    fn on_output(
        &mut self,
        output: ModernOutput,
        learned: &mut Vec<(TargetId, outlive_core::roster::Offer)>,
    ) -> Result<(), Broken> {
        match output {
            ModernOutput::Request(target, channel, message) => {
                let it = value(&message)?;
                if channel.0 >> 63 == 1 {
                    self.servers[target.0].asked.push((channel, it));
                    return Ok(());
                }
                match self.owed.get(&channel) {
                    Some(owed) if it["params"]["secret"] == owed.secret => {}
                    _ => return broken(4, format!("{it} is not what came on {channel:?}")),
                }
                if !self.roster.contains(target) {
                    return broken(8, format!("{target:?} is handed {it}, and is gone"));
                }
                self.servers[target.0].handed.push((channel, it));
            }
            ModernOutput::Leave(target, channel) => {
                let server = &mut self.servers[target.0];
                server.handed.retain(|it| it.0 != channel);
                server.asked.retain(|it| it.0 != channel);
                server.stream.take_if(|it| it.0 == channel);
            }
            ModernOutput::Open(target) => self.servers[target.0].open = true,
            ModernOutput::Close(target) => self.lose(target.0),
            ModernOutput::Hear(target, channel, message) => {
                let it = value(&message)?;
                let server = &mut self.servers[target.0];
                if !server.open || !server.ready && it["method"] != "initialize" {
                    return broken(4, format!("{target:?} is not there for {it}"));
                }
                if it.get("id").is_some() {
                    server.heard.push((channel, it));
                }
            }
            ModernOutput::Send(channel, message) => self.on_send(channel, &value(&message)?)?,
            ModernOutput::Done(channel) => {
                if !self.done.insert(channel)
                    || self.owed.contains_key(&channel)
                    || self.streams.contains_key(&channel)
                {
                    return broken(3, format!("{channel:?} is done twice, or too early"));
                }
            }
            ModernOutput::Learned(target, offer) => learned.push((target, *offer)),
        }
        Ok(())
    }

    fn on_send(&mut self, channel: Channel, it: &Value) -> Result<(), Broken> {
        if self.done.contains(&channel) {
            return broken(3, format!("{it} comes on {channel:?}, which is done"));
        }
        if it.get("method").is_some() {
            let method = it["method"].as_str().unwrap_or("");
            if method == "notifications/progress" {
                self.saw("progress");
                let owed = self.owed.get(&channel);
                let sound = owed.is_some_and(|owed| it["params"]["progressToken"] == owed.secret);
                return match sound {
                    true => Ok(()),
                    false => broken(4, format!("{it} is another's")),
                };
            }
            let Some((lists, resources)) = self.streams.get_mut(&channel) else {
                return broken(2, format!("nobody listens on {channel:?}: {it}"));
            };
            match method {
                "notifications/resources/updated" => *resources += 1,
                "notifications/tools/list_changed" => *lists += 1,
                _ => {}
            }
            return Ok(());
        }
        if self.streams.remove(&channel).is_some() {
            self.saw("streams ended");
            return Ok(());
        }
        let Some(owed) = self.owed.remove(&channel) else {
            return broken(1, format!("nobody waits for {it} on {channel:?}"));
        };
        let result = &it["result"];
        let right = it["id"] == owed.id
            && (it.get("error").is_some() || !owed.call || result["secret"] == owed.secret)
            && (it.get("error").is_some() || result["resultType"] == "complete");
        self.saw(match it.get("error").is_some() {
            true => "errors",
            false => "answers",
        });
        match right {
            true => Ok(()),
            false => broken(
                4,
                format!("{} on {channel:?} is answered with {it}", owed.secret),
            ),
        }
    }

    fn lose(&mut self, server: usize) {
        let server = &mut self.servers[server];
        (server.open, server.ready) = (false, false);
        server.heard.clear();
    }

    fn tell_roster(&mut self) -> Result<(), Broken> {
        let before = self.roster.digest(List::Tools);
        self.roster = roster(&self.entries, &self.absent);
        let told: Vec<(Channel, usize)> = self.streams.iter().map(|it| (*it.0, it.1.0)).collect();
        self.feed(ModernInput::Roster(self.roster.clone()))?;
        let changed = usize::from(before != self.roster.digest(List::Tools));
        for (channel, count) in told {
            if self
                .streams
                .get(&channel)
                .is_some_and(|it| it.0 < count + changed)
            {
                return broken(6, format!("{channel:?} is not told of a change"));
            }
        }
        Ok(())
    }

    fn request(&mut self, id: u8, method: &str, mut params: Value) -> Result<(), Broken> {
        self.next += 1;
        let channel = Channel(self.next);
        let (id, secret) = (json!(id % 3), format!("s{}", self.next));
        params["secret"] = json!(secret);
        params["_meta"] = json!({
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientInfo": {"name": "host", "version": "1"},
            "io.modelcontextprotocol/clientCapabilities": {},
            "progressToken": secret,
        });
        let message = json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params});
        match method == "subscriptions/listen" && !self.closing {
            true => drop(self.streams.insert(channel, (0, 0))),
            false => {
                let call = method == "tools/call";
                self.owed.insert(channel, Owed { id, secret, call });
            }
        }
        self.feed(ModernInput::Client(channel, frame(&message)))
    }

    /// A modern server, or the switch before a legacy one, answers what it was handed.
    fn hand_back(&mut self, server: usize, m: u8, how: u8) -> Result<(), Broken> {
        let it = &mut self.servers[server];
        let Some(at) = (m as usize).checked_rem(it.handed.len()) else {
            return Ok(());
        };
        let (channel, request) = it.handed[at].clone();
        let modern = it.modern;
        let error = |kind: &str| {
            let data = json!({"outlive": {"kind": kind, "outcome": "not_sent"}});
            json!({"jsonrpc": "2.0", "id": request["id"], "error": {"code": -32600, "message": "no", "data": data}})
        };
        let says = |message: &Value| Message::read(message.to_string().into()).expect("a message");
        if how.is_multiple_of(4) {
            let params = json!({"progressToken": request["params"]["_meta"]["progressToken"], "progress": 1});
            let progress =
                json!({"jsonrpc": "2.0", "method": "notifications/progress", "params": params});
            return self.feed(ModernInput::Modern(
                TargetId(server),
                channel,
                says(&progress),
            ));
        }
        if how % 4 == 1 {
            // An answer to somebody else, and of somebody else.
            let lie = json!({"jsonrpc": "2.0", "id": 77, "result": {"secret": "lie"}});
            self.lying = true;
            self.feed(ModernInput::Modern(TargetId(server), channel, says(&lie)))?;
            let lie = json!({"jsonrpc": "2.0", "id": request["id"], "result": {"secret": "lie"}});
            let other = TargetId((server + 1) % self.servers.len());
            if other.0 < self.servers.len() && other.0 != server {
                self.feed(ModernInput::Modern(other, channel, says(&lie)))?;
            }
            self.lying = false;
            self.saw("lies");
            return Ok(());
        }
        self.servers[server].handed.remove(at);
        let answer = match (modern, how % 16) {
            (_, 15) => error("unavailable"),
            (false, _) => error("unsupported"),
            (true, _) => {
                let result =
                    json!({"resultType": "complete", "secret": request["params"]["secret"]});
                json!({"jsonrpc": "2.0", "id": request["id"], "result": result})
            }
        };
        self.saw(if modern { "modern" } else { "unsupported" });
        self.feed(ModernInput::Modern(
            TargetId(server),
            channel,
            says(&answer),
        ))
    }

    /// A server of the bridge answers.
    fn answer(&mut self, server: usize, m: u8, fails: bool) -> Result<(), Broken> {
        let it = &mut self.servers[server];
        let Some(at) = (m as usize).checked_rem(it.heard.len()) else {
            return Ok(());
        };
        let (channel, request) = it.heard.remove(at);
        let method = request["method"].as_str().unwrap_or("");
        let capabilities: Value = serde_json::from_str(CAPABILITIES).expect("JSON");
        let result = match method {
            "initialize" => {
                it.ready = !fails;
                json!({"protocolVersion": "2025-11-25", "capabilities": capabilities,
                    "serverInfo": {"name": "s", "version": "1"}})
            }
            "tools/list" => it.tools(),
            "prompts/list" => json!({"prompts": []}),
            "resources/list" => json!({"resources": []}),
            "resources/templates/list" => json!({"resourceTemplates": []}),
            _ => json!({"secret": request["params"]["secret"], "content": []}),
        };
        let answer = match fails {
            true => {
                json!({"jsonrpc": "2.0", "id": request["id"], "error": {"code": 1, "message": "no"}})
            }
            false => json!({"jsonrpc": "2.0", "id": request["id"], "result": result}),
        };
        if request["method"] == "tools/call" {
            self.saw("bridged");
        }
        let message = Message::read(answer.to_string().into()).expect("a message");
        self.feed(ModernInput::Server(TargetId(server), channel, message))
    }

    /// A modern server, or the switch before a legacy one, answers what the router itself has asked.
    fn answer_own(&mut self, server: usize, m: u8) -> Result<(), Broken> {
        let it = &mut self.servers[server];
        let Some(at) = (m as usize).checked_rem(it.asked.len()) else {
            return Ok(());
        };
        let (channel, request) = it.asked.remove(at);
        let result = match request["method"].as_str().unwrap_or("") {
            "server/discover" => json!({"supportedVersions": ["2026-07-28"],
                "capabilities": serde_json::from_str::<Value>(CAPABILITIES).expect("JSON")}),
            "tools/list" => it.tools(),
            "prompts/list" => json!({"prompts": []}),
            "resources/list" => json!({"resources": []}),
            "resources/templates/list" => json!({"resourceTemplates": []}),
            "subscriptions/listen" if it.modern => {
                it.stream = Some((channel, request["id"].clone()));
                self.saw("listened to");
                let params = json!({"notifications": request["params"]["notifications"]});
                let ack = json!({"jsonrpc": "2.0", "method": ACKNOWLEDGED, "params": params});
                return self.modern_says(server, channel, &ack);
            }
            "subscriptions/listen" => Value::Null,
            // It was bridged while nobody knew better.
            _ => json!({"resultType": "complete", "secret": request["params"]["secret"]}),
        };
        let data = json!({"outlive": {"kind": "unsupported"}});
        let answer = match it.modern {
            true => json!({"jsonrpc": "2.0", "id": request["id"], "result": result}),
            false => json!({"jsonrpc": "2.0", "id": request["id"],
                "error": {"code": -32600, "message": "no", "data": data}}),
        };
        self.modern_says(server, channel, &answer)
    }

    fn modern_says(&mut self, server: usize, channel: Channel, it: &Value) -> Result<(), Broken> {
        let message = Message::read(it.to_string().into()).expect("a message");
        self.feed(ModernInput::Modern(TargetId(server), channel, message))
    }

    /// A modern server has other tools from now on, or ends the stream on which it would tell.
    fn change(&mut self, server: usize, ends: bool) -> Result<(), Broken> {
        let it = &mut self.servers[server];
        let Some((channel, id)) = it.stream.clone().filter(|_| it.modern) else {
            return Ok(());
        };
        if ends {
            it.stream = None;
            let end = json!({"jsonrpc": "2.0", "id": id, "result": {"resultType": "complete"}});
            return self.modern_says(server, channel, &end);
        }
        it.grown = !it.grown;
        self.saw("changes");
        let changed = json!({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"});
        self.modern_says(server, channel, &changed)
    }

    fn step(&mut self, (what, a, b, c): Step) -> Result<(), Broken> {
        let server = a as usize % self.servers.len();
        let name = self.names[server];
        match what % 32 {
            0..=7 => self.request(b, "tools/call", json!({"name": format!("{name}__x")})),
            8 => self.request(b, "tools/list", json!({})),
            9 => self.request(b, "server/discover", json!({})),
            10 => self.request(b, "tools/call", json!({"name": "nothing"})),
            11..=12 => {
                let uri = [format!("outlive:{name}:x://1"), "x://1".into()][c as usize % 2].clone();
                let filter = json!({"toolsListChanged": true, "resourceSubscriptions": [uri]});
                self.request(b, "subscriptions/listen", json!({"notifications": filter}))
            }
            13..=14 => {
                let all: Vec<Channel> = self
                    .owed
                    .keys()
                    .chain(self.streams.keys())
                    .copied()
                    .collect();
                let Some(at) = (b as usize).checked_rem(all.len()) else {
                    return Ok(());
                };
                let channel = all[at];
                if c % 4 == 0 {
                    self.saw("token withdrawn");
                    self.feed(ModernInput::Withdrawn(channel))?;
                    return match self.done.contains(&channel) {
                        true => Ok(()),
                        false => broken(1, format!("{channel:?} was not told")),
                    };
                }
                self.saw("left");
                self.owed.remove(&channel);
                self.streams.remove(&channel);
                self.done.insert(channel);
                self.feed(ModernInput::Left(channel))
            }
            15..=17 => self.hand_back(server, b, c),
            18 => (0..8).try_for_each(|_| self.answer_own(server, b)),
            19 => self.change(server, b % 8 == 0),
            20..=24 => self.answer(server, b, c % 16 == 0),
            25 if self.servers[server].open => {
                self.lose(server);
                match b % 2 {
                    0 => self.feed(ModernInput::LegEnded(TargetId(server))),
                    _ => self.feed(ModernInput::Refused(
                        TargetId(server),
                        RpcError::new(-31002, "no"),
                    )),
                }
            }
            26 => {
                // The switch of a modern server answers nobody whose server is gone.
                let was_absent = self.absent.remove(&server);
                if !was_absent && self.absent.len() + 1 < self.servers.len() {
                    self.absent.insert(server);
                }
                self.saw("rosters");
                self.tell_roster()
            }
            27 if self.servers[server].ready => {
                let updated = json!({"jsonrpc": "2.0", "method": "notifications/resources/updated",
                    "params": {"uri": "x://1"}});
                let message = Message::read(updated.to_string().into()).expect("a message");
                let told: usize = self.streams.values().map(|it| it.1).sum();
                self.feed(ModernInput::Server(
                    TargetId(server),
                    Channel::MAIN,
                    message,
                ))?;
                let now: usize = self.streams.values().map(|it| it.1).sum();
                if now > told {
                    self.saw("updates");
                }
                Ok(())
            }
            28 if b % 16 == 0 => {
                self.closing = true;
                self.feed(ModernInput::Shutdown)?;
                match self.streams.is_empty() {
                    true => Ok(()),
                    false => broken(6, "a stream outlives the shutdown"),
                }
            }
            29 => {
                self.servers[server].modern = !self.servers[server].modern;
                Ok(())
            }
            30 if b % 2 == 0 && !self.absent.contains(&server) => self.reload(server),
            30 => self.answer_own(server, b),
            _ => {
                self.now = self.now + Duration::from_millis(u64::from(b) * u64::from(c) / 8);
                self.feed(ModernInput::Tick)
            }
        }
    }

    /// A server is changed: another one has its name from now on.
    fn reload(&mut self, server: usize) -> Result<(), Broken> {
        let at = self.entries.iter().position(|it| it.target.0 == server);
        let Some(at) = at else {
            return Ok(());
        };
        let fresh = self.servers.len();
        let modern = self.servers[server].modern;
        self.servers.push(Server {
            modern,
            ..Server::default()
        });
        self.names.push(self.names[server]);
        self.entries[at].target = TargetId(fresh);
        self.saw("reloads");
        let handed: Vec<Channel> = self.servers[server].handed.iter().map(|it| it.0).collect();
        self.tell_roster()?;
        if !handed.is_empty() {
            self.saw("calls at changed servers");
        }
        match handed.iter().find(|channel| !self.done.contains(channel)) {
            Some(channel) => broken(8, format!("{channel:?} waits for a server that is gone")),
            None if self.servers[server].is_left() => Ok(()),
            None => broken(8, format!("server {server} is gone, and goes on")),
        }
    }

    /// Servers answer everything: nothing is owed in the end.
    fn end(&mut self) -> Result<(), Broken> {
        for _ in 0..50 {
            for server in 0..self.servers.len() {
                while !self.servers[server].handed.is_empty() {
                    self.hand_back(server, 0, 2)?;
                }
                while !self.servers[server].heard.is_empty() {
                    self.answer(server, 0, false)?;
                }
                while !self.servers[server].asked.is_empty() {
                    self.answer_own(server, 0)?;
                }
            }
            self.now = self.now + Duration::from_secs(1);
            self.feed(ModernInput::Tick)?;
        }
        if let Some(channel) = self.owed.keys().next() {
            return broken(1, format!("{channel:?} is never answered"));
        }
        for entry in &self.entries {
            let at = entry.target.0;
            let (server, offer) = (&self.servers[at], entry.offer.as_ref());
            let tools = offer
                .and_then(|offer| offer.list(List::Tools))
                .map(|it| it.len());
            let listened = server.modern && server.stream.is_some() && !self.absent.contains(&at);
            if listened && tools != Some(1 + usize::from(server.grown)) {
                return broken(
                    7,
                    format!("{at} has told of its tools, and {tools:?} are known"),
                );
            }
        }
        Ok(())
    }
}

fn value(message: &Message) -> Result<Value, Broken> {
    known::check(message).or_else(|how| broken(4, how))?;
    Ok(serde_json::from_slice(message.bytes()).expect("JSON"))
}

fn begin(seed: u64) -> (World, Vec<Step>) {
    let mut dice = Dice::new(seed ^ 0x6d6f_6465_726e);
    let world = World::new(&mut dice);
    let mut n = || dice.below(256) as u8;
    (world, (0..STEPS).map(|_| (n(), n(), n(), n())).collect())
}

fn run(world: &mut World, steps: &[Step]) -> Result<(), Broken> {
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
    let broken = BROKEN.get_or_init(|| check_all("the router of modern clients", 5, check, drop));
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
fn invariant_02_nothing_is_told_to_who_does_not_listen() {
    holds(2);
}

#[test]
fn invariant_03_a_channel_is_done_once_and_nothing_is_sent_on_it_afterwards() {
    holds(3);
}

#[test]
fn invariant_04_a_server_is_believed_only_about_what_it_was_sent() {
    holds(4);
}

#[test]
fn invariant_05_what_is_in_flight_is_what_clients_wait_for() {
    holds(5);
}

#[test]
fn invariant_06_streams_are_told_of_changes_and_end_with_the_shutdown() {
    holds(6);
}

#[test]
fn invariant_07_what_a_modern_server_tells_of_its_lists_is_learnt() {
    holds(7);
}

#[test]
fn invariant_08_nothing_is_left_at_a_server_that_was_changed_and_nothing_reaches_it() {
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
        "errors",
        "modern",
        "unsupported",
        "bridged",
        "progress",
        "lies",
        "left",
        "token withdrawn",
        "streams ended",
        "rosters",
        "reloads",
        "calls at changed servers",
        "updates",
        "listened to",
        "changes",
    ];
    for what in all {
        assert!(
            seen.get(what).is_some_and(|count| *count >= 10),
            "{what} in {seen:?}"
        );
    }
}
