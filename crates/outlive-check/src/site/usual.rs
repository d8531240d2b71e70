//! What a good server does.

use std::collections::HashSet;

use serde_json::{Value, json};

use crate::Era;
use crate::puppet::{self, Habits};

use super::{Act, Answer, Register, Seen, locked};

/// The sessions a server knows.
#[derive(Debug, Default)]
pub(super) struct Sessions {
    known: HashSet<String>,
    given: usize,
}

impl Sessions {
    pub(super) fn forget(&mut self) {
        self.known.clear();
    }

    fn new_one(&mut self) -> String {
        self.given += 1;
        let name = format!("check-session-{}", self.given);
        self.known.insert(name.clone());
        name
    }
}

impl Register {
    /// What a good server does about a request.
    pub(super) fn usual(&self, seen: &Seen) -> Act {
        match (self.era, seen.verb.as_str()) {
            (Era::Legacy, "POST") => self.legacy(seen),
            (Era::Modern, "POST") => self.modern(seen),
            (Era::Legacy, "GET") => match self.refusal(seen) {
                Some(refusal) => Act::Say(refusal),
                None => Act::Listen,
            },
            (Era::Legacy, "DELETE") => match self.refusal(seen) {
                Some(refusal) => Act::Say(refusal),
                None => {
                    let session = seen.session().unwrap_or_default();
                    locked(&self.sessions).known.remove(session);
                    Act::Say(Answer::status(200))
                }
            },
            _ => Act::Say(Answer::status(405)),
        }
    }

    fn legacy(&self, seen: &Seen) -> Act {
        let version = seen.header("MCP-Protocol-Version");
        if puppet::is_modern(&seen.message) || version == Some(Era::Modern.newest()) {
            let words = "Bad Request: Unsupported protocol version";
            return Act::Say(refused(400, &Value::Null, -32000, words));
        }
        if seen.says("initialize") {
            let session = locked(&self.sessions).new_one();
            return match self.outcome(seen) {
                Act::Say(answer) => Act::Say(answer.header("Mcp-Session-Id", session)),
                act => act,
            };
        }
        match self.refusal(seen) {
            Some(refusal) => Act::Say(refusal),
            None => self.outcome(seen),
        }
    }

    fn modern(&self, seen: &Seen) -> Act {
        if puppet::is_modern(&seen.message) || !seen.says("initialize") {
            return self.outcome(seen);
        }
        let error = json!({
            "code": -32022,
            "message": "Unsupported protocol version",
            "data": { "supported": [Era::Modern.newest()] },
        });
        let id = &seen.message["id"];
        Act::Say(Answer::json(
            400,
            &json!({ "jsonrpc": "2.0", "id": id, "error": error }),
        ))
    }

    /// Why a request is none of a session.
    fn refusal(&self, seen: &Seen) -> Option<Answer> {
        let words = "Bad Request: Mcp-Session-Id header is required";
        let Some(session) = seen.session() else {
            return Some(refused(400, &Value::Null, -32000, words));
        };
        let known = locked(&self.sessions).known.contains(session);
        (!known).then(|| refused(404, &Value::Null, -32001, "Session not found"))
    }

    fn outcome(&self, seen: &Seen) -> Act {
        let message = &seen.message;
        let (Some(method), Some(id)) = (message["method"].as_str(), message.get("id")) else {
            return Act::Say(Answer::status(202));
        };
        let habits = Habits {
            era: Some(self.era),
            ..Habits::default()
        };
        match puppet::outcome(&habits, method, message) {
            None => Act::Leave,
            Some(Ok(result)) => Act::Say(Answer::json(
                200,
                &json!({ "jsonrpc": "2.0", "id": id, "result": result }),
            )),
            Some(Err((code, words, _))) => {
                let modern = self.era == Era::Modern;
                let status = if modern && code == -32601 { 404 } else { 200 };
                Act::Say(refused(status, id, code, words))
            }
        }
    }
}

fn refused(status: u16, id: &Value, code: i64, words: &str) -> Answer {
    let error = json!({ "code": code, "message": words });
    Answer::json(
        status,
        &json!({ "jsonrpc": "2.0", "id": id, "error": error }),
    )
}
