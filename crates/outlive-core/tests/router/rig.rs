//! A router with a scripted client before it and scripted servers behind it, in virtual time.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use outlive_core::gateway::TargetId;
use outlive_core::roster::{Entry, Naming, Offer, Roster, ToolFilter, View};
use outlive_core::router::{Input, Output, Router, RouterPolicy};
use outlive_core::server::Channel;
use outlive_core::{Frame, Message, Time};
use serde_json::{Value, json};

/// What the router has ordered that is not about messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    Open(TargetId),
    Close(TargetId),
}

/// Everything around a router.
pub struct Rig {
    pub router: Router,
    pub now: Time,
    /// What servers offer, as the catalogue has it.
    pub entries: Vec<Entry>,
    pub naming: Naming,
    pub view: View,
    /// What the client was sent, with the channel.
    pub sent: Vec<(Channel, Value)>,
    /// Of these, what was offered to the main channel first.
    pub offered: Vec<(Channel, Value)>,
    pub done: Vec<Channel>,
    /// What each server was sent and has not been asked for yet.
    pub heard: BTreeMap<TargetId, Vec<(Channel, Value)>>,
    /// What modern servers were handed, and the channels that were left.
    pub handed: BTreeMap<TargetId, Vec<(Channel, Value)>>,
    pub left: Vec<Channel>,
    pub orders: Vec<Order>,
    pub learned: Vec<TargetId>,
    /// What is known of this server was told by another.
    pub doubtful: Option<TargetId>,
    next: u64,
}

pub const CAPABILITIES: &str =
    r#"{"tools":{"listChanged":true},"prompts":{},"resources":{"subscribe":true},"logging":{}}"#;

impl Rig {
    /// A rig with servers of these names, of which nothing is known.
    pub fn new(names: &[&str]) -> Rig {
        Rig::with(names, RouterPolicy::default())
    }

    pub fn with(names: &[&str], policy: RouterPolicy) -> Rig {
        let entry = |(n, name): (usize, &&str)| Entry {
            target: TargetId(n),
            name: (*name).into(),
            prefix: None,
            filter: ToolFilter::default(),
            eager: false,
            offer: None,
            pinned: None,
        };
        let entries: Vec<Entry> = names.iter().enumerate().map(entry).collect();
        let (naming, view) = (Naming::default(), View::default());
        let roster = Roster::new(&entries, &naming, &view);
        Rig {
            router: Router::new(policy, Arc::new(roster)),
            now: Time::ZERO,
            entries,
            naming,
            view,
            sent: Vec::new(),
            offered: Vec::new(),
            done: Vec::new(),
            heard: BTreeMap::new(),
            handed: BTreeMap::new(),
            left: Vec::new(),
            orders: Vec::new(),
            learned: Vec::new(),
            doubtful: None,
            next: 0,
        }
    }

    /// The same; each server is known to have these tools.
    pub fn known(servers: &[(&str, &[&str])]) -> Rig {
        Rig::known_with(servers, RouterPolicy::default())
    }

    pub fn known_with(servers: &[(&str, &[&str])], policy: RouterPolicy) -> Rig {
        let names: Vec<&str> = servers.iter().map(|(name, _)| *name).collect();
        let mut rig = Rig::with(&names, policy);
        for (n, (_, tools)) in servers.iter().enumerate() {
            rig.entries[n].offer = Some(Arc::new(offer(tools)));
        }
        rig.publish();
        rig
    }

    /// The catalogue tells the router what there is.
    pub fn publish(&mut self) {
        let roster = Roster::new(&self.entries, &self.naming, &self.view);
        let roster = roster.doubting(|target| self.doubtful == Some(target));
        self.feed(Input::Roster(Arc::new(roster)));
    }

    pub fn feed(&mut self, input: Input) {
        self.router.handle(self.now, input);
        self.drain();
    }

    fn drain(&mut self) {
        let mut learned = Vec::new();
        while let Some(output) = self.router.poll() {
            match output {
                Output::Open(target) => self.orders.push(Order::Open(target)),
                Output::Close(target) => self.orders.push(Order::Close(target)),
                Output::Hear(target, channel, message) => {
                    let heard = self.heard.entry(target).or_default();
                    heard.push((channel, value(&message)));
                }
                Output::Request(target, channel, message) => {
                    let handed = self.handed.entry(target).or_default();
                    handed.push((channel, value(&message)));
                }
                Output::Leave(_, channel) => self.left.push(channel),
                Output::Send(channel, message) => self.sent.push((channel, value(&message))),
                Output::Offer(channel, message) => {
                    self.offered.push((channel, value(&message)));
                    self.sent.push((channel, value(&message)));
                }
                Output::Done(channel) => self.done.push(channel),
                Output::Learned(target, offer) => learned.push((target, offer)),
            }
        }
        for (target, offer) in learned {
            self.learned.push(target);
            let doubted = self.doubtful.take_if(|it| *it == target).is_some();
            let entry = self.entries.iter_mut().find(|it| it.target == target);
            let Some(entry) = entry else {
                continue;
            };
            if doubted || entry.offer.as_deref() != Some(&*offer) {
                entry.offer = Some(Arc::from(offer));
                self.publish();
            }
        }
    }

    /// Lets time pass; every deadline is kept.
    pub fn pass(&mut self, time: Duration) {
        let end = self.now + time;
        while let Some(at) = self.router.deadline().filter(|at| *at <= end) {
            assert!(at > self.now || self.now == Time::ZERO || at == self.now);
            let before = self.router.deadline();
            self.now = self.now.max(at);
            self.feed(Input::Tick);
            assert_ne!(self.router.deadline(), before, "a deadline that stays");
        }
        self.now = end;
    }

    /// The client sends something on a channel of its own.
    pub fn say(&mut self, message: Value) -> Channel {
        self.next += 1;
        let channel = Channel(self.next);
        self.feed(Input::Client(channel, frame(&message)));
        channel
    }

    pub fn request(&mut self, id: u64, method: &str, params: Value) -> Channel {
        self.say(json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}))
    }

    pub fn call(&mut self, id: u64, tool: &str) -> Channel {
        self.request(
            id,
            "tools/call",
            json!({"name": tool, "arguments": {"n": id}}),
        )
    }

    /// The client shakes hands; what it is told.
    pub fn initialize(&mut self) -> Value {
        self.initialize_with(json!({"roots": {}, "sampling": {}, "elicitation": {}}))
    }

    pub fn initialize_with(&mut self, capabilities: Value) -> Value {
        let params = json!({"protocolVersion": "2025-11-25", "capabilities": capabilities,
            "clientInfo": {"name": "host", "version": "1"}});
        self.request(1000, "initialize", params);
        let answer = self.answer(1000);
        self.say(json!({"jsonrpc": "2.0", "method": "notifications/initialized"}));
        answer["result"].clone()
    }

    /// The answer to a request of the client's; there must be exactly one.
    pub fn answer(&mut self, id: u64) -> Value {
        let answers = self.answers(id);
        assert_eq!(answers.len(), 1, "answers to {id} in {:?}", self.sent);
        answers[0].clone()
    }

    pub fn answers(&self, id: u64) -> Vec<Value> {
        let is_it = |it: &&(Channel, Value)| it.1["id"] == id && it.1.get("method").is_none();
        self.sent
            .iter()
            .filter(is_it)
            .map(|it| it.1.clone())
            .collect()
    }

    /// What was told with this method, and forgets it.
    pub fn told(&mut self, method: &str) -> Vec<Value> {
        let is_it = |it: &mut (Channel, Value)| it.1["method"] == method;
        let told = self.sent.extract_if(.., is_it);
        told.map(|it| it.1).collect()
    }

    /// Takes what a server was sent.
    pub fn take(&mut self, server: usize) -> Vec<(Channel, Value)> {
        self.heard.remove(&TargetId(server)).unwrap_or_default()
    }

    /// A server says something on a channel.
    pub fn server_says(&mut self, server: usize, channel: Channel, message: Value) {
        let Frame::Message(message) = frame(&message) else {
            panic!("{message}");
        };
        self.feed(Input::Server(TargetId(server), channel, message));
    }

    /// A server for modern requests says something on a channel.
    pub fn modern_says(&mut self, server: usize, channel: Channel, message: Value) {
        let Frame::Message(message) = frame(&message) else {
            panic!("{message}");
        };
        self.feed(Input::Modern(TargetId(server), channel, message));
    }

    /// A server shakes hands and lists its tools. What it is sent beside that, with the channel.
    pub fn shake(&mut self, server: usize, tools: &[&str]) -> Vec<(Channel, Value)> {
        self.serve_but(server, tools, true)
    }

    /// A server does what servers do: shakes hands, lists its tools, echoes calls. What it does not know, it leaves.
    pub fn serve(&mut self, server: usize, tools: &[&str]) -> Vec<Value> {
        let rest = self.serve_but(server, tools, false);
        rest.into_iter().map(|(_, message)| message).collect()
    }

    fn serve_but(&mut self, server: usize, tools: &[&str], leave: bool) -> Vec<(Channel, Value)> {
        let mut rest = Vec::new();
        loop {
            let heard = self.take(server);
            if heard.is_empty() {
                return rest;
            }
            for (channel, message) in heard {
                let tool = |name: &&str| json!({"name": name, "inputSchema": {"type": "object"}});
                let result = match message["method"].as_str() {
                    Some("initialize") => json!({
                        "protocolVersion": "2025-11-25",
                        "capabilities": serde_json::from_str::<Value>(CAPABILITIES).expect("JSON"),
                        "serverInfo": {"name": "s", "version": "1"},
                    }),
                    Some("tools/list") => {
                        json!({"tools": tools.iter().map(tool).collect::<Vec<_>>()})
                    }
                    Some("prompts/list") => json!({"prompts": []}),
                    Some("resources/list") => json!({"resources": []}),
                    Some("resources/templates/list") => json!({"resourceTemplates": []}),
                    Some("tools/call") if !leave => json!({"content": [], "server": server,
                        "tool": message["params"]["name"]}),
                    Some("logging/setLevel" | "resources/subscribe" | "resources/unsubscribe") => {
                        json!({})
                    }
                    _ => {
                        rest.push((channel, message));
                        continue;
                    }
                };
                let answer = json!({"jsonrpc": "2.0", "id": message["id"], "result": result});
                self.server_says(server, channel, answer);
            }
        }
    }

    /// The names of the tools that the client is given.
    pub fn tools(&mut self, id: u64) -> Vec<String> {
        self.request(id, "tools/list", json!({}));
        names(&self.answer(id))
    }
}

/// The names of the tools in an answer.
pub fn names(answer: &Value) -> Vec<String> {
    let tools = answer["result"]["tools"].as_array().expect("tools");
    let name = |tool: &Value| tool["name"].as_str().expect("a name").to_owned();
    tools.iter().map(name).collect()
}

pub fn frame(message: &Value) -> Frame {
    Frame::read(message.to_string().into())
}

fn value(message: &Message) -> Value {
    serde_json::from_slice(message.bytes()).expect("JSON")
}

/// What a server with these tools offers.
pub fn offer(tools: &[&str]) -> Offer {
    use outlive_core::protocol::List;
    use outlive_core::roster::read_page;
    let hello = format!(
        r#"{{"protocolVersion":"2025-11-25","capabilities":{CAPABILITIES},"serverInfo":{{"name":"s","version":"1"}}}}"#
    );
    let mut offer = Offer::of_handshake(hello.as_bytes()).expect("an offer");
    let tool = |name: &&str| json!({"name": name, "inputSchema": {"type": "object"}});
    let result = json!({"tools": tools.iter().map(tool).collect::<Vec<_>>()}).to_string();
    let (items, _) = read_page(List::Tools, result.as_bytes()).expect("a page");
    offer.set_list(List::Tools, items);
    for list in [List::Prompts, List::Resources, List::Templates] {
        offer.set_list(list, Vec::new());
    }
    offer
}
