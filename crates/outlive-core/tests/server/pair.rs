//! A scripted client and scripted handlers around one server machine, and a clock that stands
//! still until it is told to go on.

use std::time::Duration;

use bytes::Bytes;
use outlive_core::Frame;
use outlive_core::error::Error;
use outlive_core::event::DropReason;
use outlive_core::framer::TooLong;
use outlive_core::server::{
    Answer, Ask, AskId, Channel, CloseKind, Input, Output, Request, RpcError, Server, ServerEvent,
    ServerPolicy, Ticket,
};
use outlive_core::{Id, Message, Time};
use serde_json::Value;

use crate::known;

pub const INFO: &str = r#"{"name":"s","version":"1"}"#;
pub const CAPABILITIES: &str = r#"{"logging":{},"prompts":{"listChanged":true},"resources":{"listChanged":true,"subscribe":true},"tools":{"listChanged":true}}"#;
pub const INITIALIZED: &str = r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#;
/// What a client can do that can do everything.
pub const ABLE: &str = r#"{"elicitation":{"form":{},"url":{}},"roots":{},"sampling":{"tools":{}}}"#;
/// What a modern client says about itself on every request.
pub const META: &str = r#"{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"c","version":"1"},"io.modelcontextprotocol/clientCapabilities":{"elicitation":{},"roots":{},"sampling":{}}}"#;

pub struct Pair {
    pub server: Server,
    now: Time,
    out: Vec<Output>,
    /// The newest handler that was started.
    newest: Option<Ticket>,
}

/// An error of ours, as the client reads it.
#[derive(Debug, PartialEq)]
pub struct Failure {
    pub id: Value,
    pub code: i64,
    pub message: String,
    pub data: Value,
}

impl Failure {
    pub fn kind(&self) -> &str {
        self.data["outlive"]["kind"].as_str().expect("a kind")
    }

    pub fn outcome(&self) -> &str {
        self.data["outlive"]["outcome"]
            .as_str()
            .expect("an outcome")
    }
}

pub fn policy() -> ServerPolicy {
    ServerPolicy {
        info: INFO.into(),
        capabilities: CAPABILITIES.into(),
        methods: ["tools/call", "tools/list", "prompts/get", "resources/read"]
            .map(Into::into)
            .into(),
        ..ServerPolicy::default()
    }
}

impl Pair {
    pub fn new(policy: ServerPolicy) -> Pair {
        Pair {
            server: Server::new(policy, [7; 16]),
            now: Time::ZERO,
            out: Vec::new(),
            newest: None,
        }
    }

    /// A legacy client has shaken hands.
    pub fn ready() -> Pair {
        Pair::ready_with(|_| ())
    }

    pub fn ready_with(change: impl FnOnce(&mut ServerPolicy)) -> Pair {
        let mut policy = policy();
        change(&mut policy);
        let mut pair = Pair::new(policy);
        pair.client(&initialize(0, "2025-11-25"));
        pair.client(INITIALIZED);
        pair.forget();
        pair
    }

    /// Nobody has said anything yet; a modern client need not.
    pub fn modern() -> Pair {
        Pair::modern_with(|_| ())
    }

    pub fn modern_with(change: impl FnOnce(&mut ServerPolicy)) -> Pair {
        let mut policy = policy();
        change(&mut policy);
        Pair::new(policy)
    }

    // What happens.

    pub fn feed(&mut self, input: Input) {
        self.server.handle(self.now, input);
        while let Some(output) = self.server.poll() {
            if let Output::Start(ticket, _) = &output {
                self.newest = Some(*ticket);
            }
            self.out.push(output);
        }
    }

    pub fn client(&mut self, line: &str) {
        self.feed(Input::Frame(
            Channel::MAIN,
            Frame::read(line.to_string().into()),
        ));
    }

    pub fn call(&mut self, id: u64, tool: &str) -> Ticket {
        self.client(&call(id, tool));
        self.newest.expect("a handler")
    }

    /// A modern call.
    pub fn modern_call(&mut self, id: u64, tool: &str) -> Ticket {
        self.client(&modern_request(
            id,
            "tools/call",
            &format!(r#""name":"{tool}","#),
        ));
        self.newest.expect("a handler")
    }

    /// The handler that was started last.
    pub fn newest(&self) -> Ticket {
        self.newest.expect("a handler")
    }

    pub fn cancel(&mut self, id: u64) {
        self.client(&cancelled(id));
    }

    pub fn answer(&mut self, ticket: Ticket, result: &str) {
        self.feed(Input::Answer(
            ticket,
            Answer::Result(result.to_string().into()),
        ));
    }

    pub fn fail(&mut self, ticket: Ticket, error: RpcError) {
        self.feed(Input::Answer(ticket, Answer::Error(error)));
    }

    /// A handler asks for the roots.
    pub fn ask(&mut self, within: Option<Ticket>, id: u64) {
        self.ask_for(within, &[(id, "roots/list", "")]);
    }

    pub fn ask_for(&mut self, within: Option<Ticket>, asks: &[(u64, &'static str, &str)]) {
        let asks = asks
            .iter()
            .map(|(id, method, params)| Ask {
                id: AskId(*id),
                method: (*method).into(),
                params: params.to_string().into(),
                key: None,
            })
            .collect();
        self.feed(Input::Ask { within, asks });
    }

    pub fn close(&mut self, kind: CloseKind) {
        self.feed(Input::Closed(kind));
    }

    pub fn shutdown(&mut self) {
        self.feed(Input::Shutdown);
    }

    /// Time passes, and every timer on the way is served when it is due.
    pub fn advance(&mut self, ms: u64) {
        let target = self.now + Duration::from_millis(ms);
        let mut stuck = 0;
        while let Some(deadline) = self.server.deadline().filter(|at| *at <= target) {
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

    // What came of it.

    pub fn forget(&mut self) {
        self.out.clear();
    }

    fn take<T>(&mut self, pick: impl Fn(&Output) -> Option<T>) -> Vec<T> {
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

    /// All that was ordered and not taken yet.
    pub fn server_outputs(&self) -> &[Output] {
        &self.out
    }

    /// What the client was sent.
    pub fn sent(&mut self) -> Vec<String> {
        self.take(|output| match output {
            Output::Send(_, message) => Some(text(message)),
            _ => None,
        })
    }

    /// The one line the client was sent, as JSON.
    pub fn reply(&mut self) -> Value {
        let sent = self.sent();
        assert_eq!(sent.len(), 1, "{sent:?}");
        serde_json::from_str(&sent[0]).expect("JSON")
    }

    /// The one line the client was sent, which is an error.
    pub fn failure(&mut self) -> Failure {
        let sent = self.sent();
        assert_eq!(sent.len(), 1, "{sent:?}");
        failure(&sent[0])
    }

    pub fn started(&mut self) -> Vec<(Ticket, Request)> {
        self.take(|output| match output {
            Output::Start(ticket, request) => Some((*ticket, (**request).clone())),
            _ => None,
        })
    }

    pub fn asked(&mut self) -> Vec<(u64, Result<Bytes, Error>)> {
        self.take(|output| match output {
            Output::Asked(id, answer) => Some((id.0, answer.clone())),
            _ => None,
        })
    }

    pub fn events(&mut self) -> Vec<ServerEvent> {
        self.take(|output| match output {
            Output::Event(event) => Some(event.clone()),
            _ => None,
        })
    }

    pub fn drops(&mut self) -> Vec<(DropReason, String)> {
        self.take(|output| match output {
            Output::Event(ServerEvent::Dropped { reason, detail }) => {
                Some((*reason, detail.clone()))
            }
            _ => None,
        })
    }

    /// Everything, in order: messages as `send …`, orders as `start 0`, `cancel 0 client`,
    /// `drop 0`, `asked 1 ok`, events by name.
    pub fn all(&mut self) -> Vec<String> {
        self.take(|output| {
            Some(match output {
                Output::Send(_, message) => format!("send {}", text(message)),
                Output::Start(ticket, _) => format!("start {ticket}"),
                Output::Cancel(ticket, reason) => format!("cancel {ticket} {}", reason.as_str()),
                Output::Drop(ticket) => format!("drop {ticket}"),
                Output::Asked(id, Ok(_)) => format!("asked {} ok", id.0),
                Output::Asked(id, Err(error)) => format!("asked {} {}", id.0, error.kind()),
                Output::Notified(message) => format!("notified {}", message.method()),
                Output::Event(ServerEvent::Dropped { reason, .. }) => {
                    format!("dropped {}", reason.as_str())
                }
                Output::Event(event) => event.name().into(),
                Output::Done(channel) => format!("done {}", channel.0),
                Output::Closed => "closed".into(),
            })
        })
    }

    /// As [`Pair::all`], without messages and events.
    pub fn orders(&mut self) -> Vec<String> {
        let mut all = self.all();
        let is_order = |line: &String| {
            ["start", "cancel", "drop ", "asked", "closed"]
                .iter()
                .any(|word| line.starts_with(word))
        };
        all.retain(is_order);
        all
    }
}

pub fn failure(line: &str) -> Failure {
    let value: Value = serde_json::from_str(line).expect("JSON");
    let error = &value["error"];
    Failure {
        id: value["id"].clone(),
        code: error["code"].as_i64().unwrap_or_else(|| panic!("{line}")),
        message: error["message"].as_str().expect("a sentence").into(),
        data: error["data"].clone(),
    }
}

fn text(message: &Message) -> String {
    known::check(message).unwrap();
    let line = String::from_utf8(message.bytes().to_vec()).expect("UTF-8");
    serde_json::from_str::<Value>(&line).unwrap_or_else(|e| panic!("{e}: {line}"));
    line
}

pub fn initialize(id: u64, version: &str) -> String {
    format!(
        r#"{{"jsonrpc":"2.0","id":{id},"method":"initialize","params":{{"protocolVersion":"{version}","capabilities":{ABLE},"clientInfo":{{"name":"c","version":"1"}}}}}}"#
    )
}

pub fn request(id: u64, method: &str) -> String {
    format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"{method}"}}"#)
}

pub fn call(id: u64, tool: &str) -> String {
    format!(
        r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/call","params":{{"name":"{tool}","arguments":{{}}}}}}"#
    )
}

/// A request of a modern client; `more` goes into `params` before `_meta`.
pub fn modern_request(id: u64, method: &str, more: &str) -> String {
    format!(
        r#"{{"jsonrpc":"2.0","id":{id},"method":"{method}","params":{{{more}"_meta":{META}}}}}"#
    )
}

pub fn cancelled(id: u64) -> String {
    format!(
        r#"{{"jsonrpc":"2.0","method":"notifications/cancelled","params":{{"requestId":{id},"reason":"user"}}}}"#
    )
}

/// An answer with this result.
pub fn result(id: u64, result: &str) -> String {
    format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{result}}}"#)
}

pub fn too_long(id: Option<&str>, has_method: bool, len: u64) -> Input {
    Input::Frame(
        Channel::MAIN,
        Frame::TooLong(TooLong {
            id: id.and_then(|json| Id::read(json.as_bytes())),
            id_json: id.unwrap_or_default().to_string().into(),
            has_method,
            len,
        }),
    )
}
