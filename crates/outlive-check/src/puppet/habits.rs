//! What a scripted server does by itself.

use std::sync::Arc;
use std::time::Duration;

use outlive_core::protocol::{meta, version};
use serde_json::{Value, json};
use tokio::sync::mpsc;

use crate::Era;
use crate::inbox::Inbox;
use crate::journal::Leg;
use crate::lines::Lines;

use super::frames::Order;

/// What a scripted server does by itself. The default is a good server of both eras.
#[derive(Clone, Debug, Default)]
pub struct Habits {
    /// The only era it speaks.
    pub era: Option<Era>,
    /// How it starts.
    pub start: Start,
    /// How it takes the end of its input.
    pub end: End,
    /// Exits with this status as soon as the handshake is over.
    pub dies_after_handshake: Option<u8>,
    /// Tools beside the usual ones.
    pub more_tools: Vec<&'static str>,
    /// Has resources to subscribe to.
    pub resources: bool,
    /// Asks that are left for the scenario to answer.
    pub leaves: &'static [&'static str],
}

/// How a server starts.
#[derive(Clone, Debug, Default)]
pub enum Start {
    /// At once.
    #[default]
    AtOnce,
    /// Hears nothing at first.
    Late(Duration),
    /// Says something on standard error and exits.
    Fails(u8, &'static str),
}

/// How a server takes the end of its input.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum End {
    /// Exits.
    #[default]
    Polite,
    /// Goes on, and does not die of SIGTERM.
    Stubborn,
}

impl Habits {
    pub(super) fn mind(
        self,
        inbox: Arc<Inbox>,
        orders: mpsc::UnboundedSender<Order>,
        leg: Leg,
    ) -> Mind {
        Mind {
            habits: self,
            inbox,
            orders,
            leg,
            lines: Lines::default(),
        }
    }
}

/// A server's habits at work.
pub(super) struct Mind {
    habits: Habits,
    inbox: Arc<Inbox>,
    orders: mpsc::UnboundedSender<Order>,
    leg: Leg,
    lines: Lines,
}

impl Mind {
    pub(super) async fn start(&mut self) {
        if self.habits.end == End::Stubborn {
            let _ = self.orders.send(Order::IgnoreTerm);
        }
        match self.habits.start {
            Start::AtOnce => {}
            Start::Late(time) => tokio::time::sleep(time).await,
            Start::Fails(status, words) => {
                let _ = self.orders.send(Order::Err(words.into()));
                self.exit(status);
            }
        }
    }

    pub(super) fn hear(&mut self, bytes: &[u8]) {
        self.lines.push(bytes);
        while let Some(line) = self.lines.next() {
            self.leg.received(&line);
            self.inbox.take(&line);
            self.consider(&line);
        }
    }

    pub(super) fn eof(&mut self) {
        match self.habits.end {
            End::Polite => self.exit(0),
            End::Stubborn => {}
        }
    }

    pub(super) fn over(&self) {
        self.inbox.end();
    }

    fn exit(&self, status: u8) {
        self.leg
            .note(format!("the server exits with status {status}"));
        let _ = self.orders.send(Order::Exit(status));
    }

    fn consider(&mut self, line: &[u8]) {
        let Ok(message) = serde_json::from_slice::<Value>(line) else {
            return;
        };
        let Some(method) = message["method"].as_str() else {
            return;
        };
        if self.habits.leaves.contains(&method) {
            return;
        }
        if message.get("id").is_some()
            && let Some(answer) = self.answer(method, &message)
        {
            let line = format!("{answer}\n").into_bytes();
            self.leg.sent(&line);
            let _ = self.orders.send(Order::Out(line));
        }
        let shaken = matches!(method, "notifications/initialized")
            || (method == "server/discover" && self.habits.era != Some(Era::Legacy));
        if let Some(status) = self.habits.dies_after_handshake.filter(|_| shaken) {
            self.exit(status);
        }
    }

    fn answer(&self, method: &str, request: &Value) -> Option<Value> {
        let id = &request["id"];
        let result = match outcome(&self.habits, method, request)? {
            Ok(result) => json!({ "jsonrpc": "2.0", "id": id, "result": result }),
            Err((code, message, data)) => {
                let error = json!({ "code": code, "message": message, "data": data });
                json!({ "jsonrpc": "2.0", "id": id, "error": error })
            }
        };
        Some(result)
    }
}

/// Whether a request is one of the modern era.
pub(crate) fn is_modern(request: &Value) -> bool {
    request["params"]["_meta"][meta::PROTOCOL_VERSION] == Era::Modern.newest()
}

pub(crate) type Failure = (i64, &'static str, Value);

/// The usual answer; `None` for a call that a scenario answers.
pub(crate) fn outcome(
    habits: &Habits,
    method: &str,
    request: &Value,
) -> Option<Result<Value, Failure>> {
    let params = &request["params"];
    let modern = is_modern(request);
    let unknown = Err((-32601, "Method not found", Value::Null));
    if modern && habits.era == Some(Era::Legacy) {
        return Some(unknown);
    }
    let mut result = match method {
        "initialize" if habits.era == Some(Era::Modern) => {
            let data = json!({ "supported": [Era::Modern.newest()], "requested": params["protocolVersion"] });
            return Some(Err((-32022, "Unsupported protocol version", data)));
        }
        "initialize" => {
            let asked = params["protocolVersion"].as_str().unwrap_or_default();
            let known = version::LEGACY.iter().find(|known| **known == asked);
            let mut capabilities = json!({ "tools": { "listChanged": true } });
            if habits.resources {
                capabilities["resources"] = json!({ "subscribe": true });
            }
            json!({
                "protocolVersion": known.unwrap_or(&Era::Legacy.newest()),
                "capabilities": capabilities,
                "serverInfo": info(),
            })
        }
        "server/discover" if modern => json!({
            "supportedVersions": [Era::Modern.newest()],
            "capabilities": { "tools": {} },
            "serverInfo": info(),
            "ttlMs": 0,
            "cacheScope": "private",
        }),
        "ping" if !modern => json!({}),
        "tools/list" => tools(habits, modern),
        "resources/subscribe" if habits.resources && !modern => json!({}),
        "tools/call" => match params["name"].as_str() {
            Some("echo") => {
                json!({ "content": [{ "type": "text", "text": params["arguments"]["text"] }] })
            }
            _ => return None,
        },
        _ => return Some(unknown),
    };
    if modern {
        result["resultType"] = "complete".into();
    }
    Some(Ok(result))
}

fn info() -> Value {
    json!({ "name": "outlive check", "version": env!("CARGO_PKG_VERSION") })
}

fn tools(habits: &Habits, modern: bool) -> Value {
    let text = json!({ "type": "object", "properties": { "text": { "type": "string" } } });
    let named = |name: &str, words: &str| json!({ "name": name, "description": words, "inputSchema": text });
    let mut tools = vec![
        named("echo", "Repeats a text."),
        named("slow", "Is answered whenever the check likes."),
    ];
    tools.extend(
        habits
            .more_tools
            .iter()
            .map(|name| named(name, "One more.")),
    );
    let mut list = json!({ "tools": tools });
    if modern {
        list["ttlMs"] = 0.into();
        list["cacheScope"] = "private".into();
    }
    list
}
