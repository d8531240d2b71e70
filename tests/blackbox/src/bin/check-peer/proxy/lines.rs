//! What the proxy does to the lines that pass.

use std::collections::VecDeque;

use serde_json::{Value, json};

use crate::defects::Defects;

/// Methods every proxy knows.
const KNOWN: &[&str] = &[
    "initialize",
    "ping",
    "server/discover",
    "tools/call",
    "tools/list",
];

/// Lines on their way, and what is known from those that passed.
pub struct Lines {
    defects: Defects,
    /// Requests of the host's that are not answered yet, in order.
    asked: VecDeque<Value>,
    /// A notification that lets the next one pass.
    held: Option<Vec<u8>>,
    handshake: Vec<u8>,
}

impl Lines {
    pub fn new(defects: Defects) -> Lines {
        Lines {
            defects,
            asked: VecDeque::new(),
            held: None,
            handshake: Vec::new(),
        }
    }

    /// Requests that are not answered yet; they count as answered from now on.
    pub fn pending(&mut self) -> Vec<Value> {
        self.asked.drain(..).collect()
    }

    /// The host's handshake, again.
    pub fn handshake(&self) -> Vec<u8> {
        self.handshake.clone()
    }

    /// What becomes of a line of the host's.
    pub fn host_says(&mut self, line: Vec<u8>) -> Vec<Vec<u8>> {
        if self.has("small-buffer") && line.len() > 64 << 10 {
            std::process::exit(1);
        }
        let Ok(mut message) = serde_json::from_slice::<Value>(&line) else {
            return vec![line];
        };
        let method = message["method"].as_str().unwrap_or_default().to_owned();
        if matches!(
            method.as_str(),
            "initialize" | "notifications/initialized" | "server/discover"
        ) {
            self.handshake.extend(&line);
            self.handshake.push(b'\n');
        }
        if self.has("drops-cancellations") && method == "notifications/cancelled" {
            return Vec::new();
        }
        if self.has("answers-cancellations") && method == "notifications/cancelled" {
            let error = json!({ "code": 0, "message": "Request cancelled" });
            let id = &message["params"]["requestId"];
            println!("{}", json!({ "jsonrpc": "2.0", "id": id, "error": error }));
        }
        if message.get("id").is_some() && !method.is_empty() {
            let busy = !self.asked.is_empty();
            self.asked.push_back(message["id"].clone());
            if self.has("drops-unknown-methods") && !KNOWN.contains(&method.as_str()) {
                return Vec::new();
            }
            if self.has("drops-when-busy") && busy {
                return Vec::new();
            }
        }
        if self.has("drops-unknown-members")
            && let Some(params) = message["params"].as_object_mut()
        {
            params.retain(|key, _| !key.starts_with("x-"));
            return vec![message.to_string().into_bytes()];
        }
        if self.has("rewrites-json") {
            return vec![message.to_string().into_bytes()];
        }
        vec![line]
    }

    /// What becomes of a line of the server's.
    pub fn server_says(&mut self, line: Vec<u8>) -> Vec<Vec<u8>> {
        let Ok(message) = serde_json::from_slice::<Value>(&line) else {
            while self.has("silent-after-junk") {
                std::thread::park();
            }
            return vec![line];
        };
        let method = message["method"].as_str().unwrap_or_default().to_owned();
        let answers = method.is_empty() && message.get("id").is_some();
        if answers {
            return self.answer(line, message);
        }
        if self.has("drops-questions") && message.get("id").is_some() {
            return Vec::new();
        }
        if self.has("drops-progress") && method == "notifications/progress" {
            return Vec::new();
        }
        if self.has("reorders") && method.starts_with("notifications/") {
            return match self.held.take() {
                Some(held) => vec![line, held],
                None => {
                    self.held = Some(line);
                    Vec::new()
                }
            };
        }
        vec![line]
    }

    fn answer(&mut self, line: Vec<u8>, mut message: Value) -> Vec<Vec<u8>> {
        if self.has("answers-in-order") {
            // As if every server answered in the order it was asked in.
            if let Some(id) = self.asked.pop_front() {
                message["id"] = id;
            }
            return vec![message.to_string().into_bytes()];
        }
        self.asked.retain(|id| *id != message["id"]);
        let mut onward = Vec::new();
        if self.has("turns-texts-into-numbers")
            && let Some(number) = message["id"].as_str().and_then(|id| id.parse::<i64>().ok())
        {
            message["id"] = number.into();
            onward.push(message.to_string().into_bytes());
        } else if self.has("flattens-errors") && message.get("error").is_some() {
            message["error"] = json!({ "code": -32603, "message": "Internal error" });
            onward.push(message.to_string().into_bytes());
        } else if self.has("knows-results") && message.get("result").is_some() {
            if let Some(result) = message["result"].as_object_mut() {
                result.remove("requestState");
                result.remove("x-unknown");
            }
            onward.push(message.to_string().into_bytes());
        } else {
            onward.push(line);
        }
        onward
    }

    fn has(&self, defect: &str) -> bool {
        self.defects.has(defect)
    }
}
