//! A scripted host and a scripted server around one session, and a clock that stands still until
//! it is told to go on. Every accident is a few lines, and what came out is compared exactly.

use std::time::Duration;

use outlive_core::Frame;
use outlive_core::cause::{Exit, StartFailure};
use outlive_core::event::{Direction, DropReason, Software};
use outlive_core::framer::TooLong;
use outlive_core::policy::Policy;
use outlive_core::{Event, Generation, Id, Input, LinkInput, LinkOrder, Message, Output, Session};
use outlive_core::{Snapshot, State, Time};
use serde_json::Value;

use crate::known;

pub const INITIALIZE: &str = r#"{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"h","version":"1"}}}"#;
pub const INITIALIZED: &str = r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#;
pub const WELCOME: &str = r#"{"protocolVersion":"2025-06-18","capabilities":{"tools":{"listChanged":true}},"serverInfo":{"name":"s","version":"1"}}"#;
/// One tool that may be called twice and one that may not.
pub const TOOLS: &str =
    r#"{"tools":[{"name":"safe","annotations":{"idempotentHint":true}},{"name":"risky"}]}"#;
/// What a modern host says about itself on every request.
pub const META: &str = r#"{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"h","version":"1"},"io.modelcontextprotocol/clientCapabilities":{}}"#;

pub struct Pair {
    pub session: Session,
    now: Time,
    out: Vec<Output>,
    /// The newest link, and how many frames it has been sent.
    generation: Option<Generation>,
    frames: u64,
}

/// An error of ours, as the host reads it.
#[derive(Debug)]
pub struct Failure {
    pub id: Value,
    pub code: i64,
    pub message: String,
    /// `data.outlive`.
    pub about: Value,
}

impl Failure {
    pub fn kind(&self) -> &str {
        self.about["kind"].as_str().expect("a kind")
    }

    pub fn outcome(&self) -> &str {
        self.about["outcome"].as_str().expect("an outcome")
    }
}

impl Pair {
    /// A session that has begun and has ordered its first link.
    pub fn new(policy: Policy) -> Pair {
        Pair::seeded(policy, 1)
    }

    pub fn seeded(policy: Policy, seed: u64) -> Pair {
        let mut pair = Pair {
            session: Session::new(policy, seed),
            now: Time::ZERO,
            out: Vec::new(),
            generation: None,
            frames: 0,
        };
        pair.feed(Input::Start);
        assert_eq!(pair.orders(), ["connect 1"]);
        pair
    }

    /// The handshake is done, with the default policy.
    pub fn ready() -> Pair {
        Pair::ready_with(|_| ())
    }

    pub fn ready_with(change: impl FnOnce(&mut Policy)) -> Pair {
        let mut policy = Policy::default();
        change(&mut policy);
        let mut pair = Pair::new(policy);
        pair.up();
        pair.host(INITIALIZE);
        pair.result(0, WELCOME);
        pair.host(INITIALIZED);
        pair.forget();
        pair
    }

    /// As [`Pair::ready`], and the host has read the tool list.
    pub fn with_tools() -> Pair {
        Pair::with_tools_and(|_| ())
    }

    pub fn with_tools_and(change: impl FnOnce(&mut Policy)) -> Pair {
        let mut pair = Pair::ready_with(change);
        pair.request(1, "tools/list");
        pair.result(1, TOOLS);
        pair.forget();
        pair
    }

    /// A modern host has met a modern server.
    pub fn modern() -> Pair {
        Pair::modern_with(|_| ())
    }

    pub fn modern_with(change: impl FnOnce(&mut Policy)) -> Pair {
        let mut policy = Policy::default();
        change(&mut policy);
        let mut pair = Pair::new(policy);
        pair.up();
        pair.host(&modern_request(0, "server/discover", ""));
        pair.result(0, DISCOVERED);
        pair.forget();
        pair
    }

    /// Another process goes on with the session, from the bytes of a snapshot; its clock begins at zero.
    pub fn take_over(&mut self) {
        self.take_over_with(|_| ());
    }

    pub fn take_over_with(&mut self, change: impl FnOnce(&mut Policy)) {
        let mut policy = Policy::default();
        change(&mut policy);
        let bytes = self.snapshot();
        let snapshot = Snapshot::decode(&bytes).expect("a snapshot");
        assert_eq!(snapshot.encode(), bytes, "written and read");
        self.now = Time::ZERO;
        self.session = Session::resume(policy, 2, snapshot, self.now).expect("a session");
        self.forget();
        self.feed(Input::Start);
    }

    /// The bytes of a snapshot.
    pub fn snapshot(&self) -> Vec<u8> {
        let snapshot = self.session.snapshot(self.now);
        snapshot.expect("a snapshot").encode()
    }

    // What happens.

    pub fn feed(&mut self, input: Input) {
        self.session.handle(self.now, input);
        while let Some(output) = self.session.poll() {
            match &output {
                Output::Connect(generation) => {
                    self.generation = Some(*generation);
                    self.frames = 0;
                }
                Output::ToLink(generation, _) => {
                    assert_eq!(
                        Some(*generation),
                        self.generation,
                        "sent to the newest link"
                    );
                    self.frames += 1;
                }
                _ => {}
            }
            self.out.push(output);
        }
    }

    pub fn host(&mut self, line: &str) {
        self.feed(Input::Host(Frame::read(line.to_string().into())));
    }

    pub fn request(&mut self, id: u64, method: &str) {
        self.host(&request(id, method));
    }

    pub fn call(&mut self, id: u64, tool: &str) {
        self.host(&call(id, tool));
    }

    pub fn cancel(&mut self, id: u64) {
        self.host(&cancelled(id));
    }

    pub fn newest(&self) -> Generation {
        self.generation.expect("a link")
    }

    pub fn link(&mut self, input: LinkInput) {
        self.feed(Input::Link(self.newest(), input));
    }

    /// A link says something that may not be the newest.
    pub fn old_link(&mut self, generation: u64, input: LinkInput) {
        let mut of = Generation::FIRST;
        while of.number() < generation {
            of = of.next();
        }
        self.feed(Input::Link(of, input));
    }

    pub fn server(&mut self, line: &str) {
        self.link(LinkInput::Frame(Frame::read(line.to_string().into())));
    }

    /// The server answers the host's request of that id.
    pub fn result(&mut self, id: u64, result: &str) {
        self.server(&format!(
            r#"{{"jsonrpc":"2.0","id":{id},"result":{result}}}"#
        ));
    }

    /// The server answers the n-th of the names we have used on its link.
    pub fn own_result(&mut self, n: u64, result: &str) {
        let generation = self.newest();
        self.server(&format!(
            r#"{{"jsonrpc":"2.0","id":"outlive-{generation}-{n}","result":{result}}}"#
        ));
    }

    pub fn stderr(&mut self, line: &str) {
        self.link(LinkInput::Stderr(line.into()));
    }

    pub fn up(&mut self) {
        self.link(LinkInput::Up);
    }

    pub fn unmade(&mut self, why: StartFailure) {
        self.link(LinkInput::Unmade(why));
    }

    /// The server ends; all that was sent to it had been written.
    pub fn die(&mut self, exit: Exit) {
        let sent = self.frames;
        self.link(LinkInput::Exited { exit, sent });
    }

    /// The server ends; this many of the last frames had not been written.
    pub fn die_unread(&mut self, exit: Exit, unread: u64) {
        let sent = self.frames - unread;
        self.link(LinkInput::Exited { exit, sent });
    }

    pub fn eof(&mut self) {
        let sent = self.frames;
        self.link(LinkInput::Eof { sent });
    }

    /// The next server comes up and answers the handshake; nothing of it is kept.
    pub fn revive(&mut self) {
        self.up();
        let answer = match self.at_link().first() {
            Some(first) if first.contains("server/discover") => DISCOVERED,
            _ => WELCOME,
        };
        self.own_result(1, answer);
        self.forget();
    }

    /// Time passes, and every timer on the way is served when it is due.
    pub fn advance(&mut self, ms: u64) {
        let target = self.now + Duration::from_millis(ms);
        let mut stuck = 0;
        while let Some(deadline) = self.session.deadline().filter(|at| *at <= target) {
            stuck = if deadline > self.now { 0 } else { stuck + 1 };
            assert!(stuck < 10, "a timer that is never done: {deadline:?}");
            self.now = self.now.max(deadline);
            self.feed(Input::Tick);
        }
        self.now = target;
    }

    /// Time passes and nobody looks.
    pub fn sleep(&mut self, ms: u64) {
        self.now = self.now + Duration::from_millis(ms);
    }

    pub fn now_ms(&self) -> u64 {
        self.now.since_start().as_millis() as u64
    }

    // What came of it.

    pub fn forget(&mut self) {
        self.out.clear();
    }

    pub fn take<T>(&mut self, pick: impl Fn(&Output) -> Option<T>) -> Vec<T> {
        let mut taken = Vec::new();
        self.out.retain(|output| match pick(output) {
            Some(it) => {
                taken.push(it);
                false
            }
            None => true,
        });
        taken
    }

    pub fn at_host(&mut self) -> Vec<String> {
        self.take(|output| match output {
            Output::ToHost(message) | Output::ToHostOf(_, message) => Some(text(message)),
            Output::Refuse(refusal) => Some(text(&refusal.to_response())),
            _ => None,
        })
    }

    pub fn at_link(&mut self) -> Vec<String> {
        self.take(|output| match output {
            Output::ToLink(_, message) => Some(text(message)),
            _ => None,
        })
    }

    pub fn events(&mut self) -> Vec<Event> {
        self.take(|output| match output {
            Output::Event(event) => Some(event.clone()),
            _ => None,
        })
    }

    /// What was dropped on the way.
    pub fn drops(&mut self) -> Vec<(Direction, DropReason, String)> {
        self.take(|output| match output {
            Output::Event(Event::Dropped {
                direction,
                reason,
                detail,
            }) => Some((*direction, *reason, detail.clone())),
            _ => None,
        })
    }

    pub fn states(&mut self) -> Vec<State> {
        self.take(|output| match output {
            Output::Event(Event::State(state)) => Some(state.clone()),
            _ => None,
        })
    }

    /// Orders to the driver: `connect 2`, `kill 1`, …
    pub fn orders(&mut self) -> Vec<String> {
        self.take(|output| match output {
            Output::Connect(generation) => Some(format!("connect {generation}")),
            Output::Link(generation, order) => Some(format!("{} {generation}", word(*order))),
            Output::Closed => Some("closed".into()),
            _ => None,
        })
    }

    /// Everything, in order: messages as `host: …` and `link: …`, events by name, orders.
    pub fn all(&mut self) -> Vec<String> {
        self.take(|output| {
            Some(match output {
                Output::ToHostOf(_, message) | Output::ToHost(message) => {
                    format!("host: {}", text(message))
                }
                Output::Refuse(refusal) => format!("host: {}", text(&refusal.to_response())),
                Output::ToLink(_, message) => format!("link: {}", text(message)),
                Output::Connect(generation) => format!("connect {generation}"),
                Output::Link(generation, order) => format!("{} {generation}", word(*order)),
                Output::Closed => "closed".into(),
                Output::Initialized => return None,
                Output::Resend { id, granted, .. } => format!("resend {id}: {granted}"),
                Output::Over(_) => return None,
                Output::Event(Event::State(state)) => format!("state {}", state.name()),
                Output::Event(event) => event.name().into(),
            })
        })
    }

    /// The one message the host was sent, which is an error of ours.
    pub fn failure(&mut self) -> Failure {
        let mut failures = self.failures();
        assert_eq!(failures.len(), 1, "{failures:?}");
        failures.remove(0)
    }

    /// All that the host was sent, which are errors of ours.
    pub fn failures(&mut self) -> Vec<Failure> {
        self.at_host().iter().map(|line| failure(line)).collect()
    }
}

/// An error of ours in words and data.
pub fn failure(line: &str) -> Failure {
    let value: Value = serde_json::from_str(line).expect("JSON");
    let error = &value["error"];
    Failure {
        id: value["id"].clone(),
        code: error["code"].as_i64().unwrap_or_else(|| panic!("{line}")),
        message: error["message"].as_str().expect("a sentence").into(),
        about: error["data"]["outlive"].clone(),
    }
}

fn text(message: &Message) -> String {
    known::check(message).unwrap();
    String::from_utf8(message.bytes().to_vec()).expect("UTF-8")
}

fn word(order: LinkOrder) -> &'static str {
    match order {
        LinkOrder::CloseInput => "close input",
        LinkOrder::Terminate => "terminate",
        LinkOrder::Kill => "kill",
        LinkOrder::StopWriting => "stop writing",
        LinkOrder::Release => "release",
        LinkOrder::Inspect => "inspect",
        LinkOrder::DeclineLogin => "decline login",
    }
}

pub const DISCOVERED: &str = r#"{"supportedVersions":["2026-07-28"],"capabilities":{"tools":{"listChanged":true}},"_meta":{"io.modelcontextprotocol/serverInfo":{"name":"s","version":"1"}}}"#;

pub fn software(name: &str, version: Option<&str>) -> Software {
    Software {
        name: name.into(),
        version: version.map(str::to_string),
    }
}

pub fn request(id: u64, method: &str) -> String {
    format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"{method}"}}"#)
}

pub fn call(id: u64, tool: &str) -> String {
    format!(
        r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/call","params":{{"name":"{tool}","arguments":{{}}}}}}"#
    )
}

pub fn cancelled(id: u64) -> String {
    format!(
        r#"{{"jsonrpc":"2.0","method":"notifications/cancelled","params":{{"requestId":{id},"reason":"user"}}}}"#
    )
}

pub fn ping(generation: u64, n: u64) -> String {
    format!(r#"{{"jsonrpc":"2.0","id":"outlive-{generation}-{n}","method":"ping"}}"#)
}

pub fn list_tools(generation: u64, n: u64) -> String {
    format!(r#"{{"jsonrpc":"2.0","id":"outlive-{generation}-{n}","method":"tools/list"}}"#)
}

/// A request of a modern host; `more` goes into `params` before `_meta`.
pub fn modern_request(id: u64, method: &str, more: &str) -> String {
    format!(
        r#"{{"jsonrpc":"2.0","id":{id},"method":"{method}","params":{{{more}"_meta":{META}}}}}"#
    )
}

pub fn too_long(id: Option<&str>, has_method: bool, len: u64) -> Frame {
    Frame::TooLong(TooLong {
        id: id.and_then(|json| Id::read(json.as_bytes())),
        id_json: id.unwrap_or_default().to_string().into(),
        has_method,
        len,
    })
}
