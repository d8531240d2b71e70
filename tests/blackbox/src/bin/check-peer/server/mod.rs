//! A small server of both eras on standard input and output.
//!
//! Good as it is: what it cannot read it leaves alone, what it accepted before the end of its input it
//! finishes, nothing is answered twice or after a cancellation.

mod calls;
mod input;
pub mod output;
mod start;

use std::collections::HashSet;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use serde_json::{Value, json};

use crate::defects::Defects;
use calls::Calls;
use input::{Input, Line};
use output::Output;

pub const VERSION_KEY: &str = "io.modelcontextprotocol/protocolVersion";
pub const LEGACY: [&str; 4] = ["2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"];
pub const MODERN: &str = "2026-07-28";
/// What was accepted may take this long after the end of input.
const DRAIN: Duration = Duration::from_secs(1);

/// The server.
pub struct Server {
    pub defects: Arc<Defects>,
    pub calls: Calls,
    initialized: AtomicBool,
    ready: AtomicBool,
    requests: AtomicUsize,
    past: Mutex<Past>,
}

/// What a good server need not remember.
#[derive(Default)]
struct Past {
    ids: HashSet<String>,
    cancelled: HashSet<String>,
    initialize: Option<Value>,
}

/// Serves until the input ends.
pub fn main(defects: Defects) -> ExitCode {
    start::before(&defects);
    let mut input = Input::new(&defects);
    let server = Server::new(Arc::new(defects));
    let output = Output::Stdout(Arc::default(), server.defects.clone());
    while let Some(line) = input.next() {
        if let Line::Message(message) = line {
            server.take(&message, &output);
        }
    }
    let busy = server.calls.are_running();
    server.defects.dies("crashes-on-eof-mid-call", busy);
    while server.has("ignores-eof") || server.has("survives-its-host") {
        std::thread::park();
    }
    if !server.has("forgets-at-eof") {
        server.calls.finish(DRAIN);
    }
    ExitCode::SUCCESS
}

impl Server {
    /// A server that has heard nothing yet.
    pub fn new(defects: Arc<Defects>) -> Arc<Server> {
        Arc::new(Server {
            calls: Calls::default(),
            initialized: AtomicBool::new(false),
            ready: AtomicBool::new(false),
            requests: AtomicUsize::new(0),
            past: Mutex::default(),
            defects,
        })
    }

    /// Whether it has a defect.
    pub fn has(&self, defect: &str) -> bool {
        self.defects.has(defect)
    }

    /// Takes a message; what is answered at once or later goes to the output.
    pub fn take(self: &Arc<Self>, message: &Value, output: &Output) {
        let id = message.get("id").filter(|id| id.is_string() || id.is_i64());
        let sound = message.is_object() && message["jsonrpc"] == "2.0" && message.get("id") == id;
        self.defects.dies("dies-on-wrong-shape", !sound);
        match (message["method"].as_str(), id) {
            (Some(method), Some(id)) => self.request(method, id, &message["params"], output),
            (Some("notifications/cancelled"), None) => {
                self.cancel(&message["params"]["requestId"], output)
            }
            (Some("notifications/initialized"), None) => self.ready.store(true, Ordering::SeqCst),
            (Some(_), None) => self.defects.dies("dies-on-stray", true),
            (None, Some(id)) => {
                let known = self.calls.answered(id, message);
                self.defects.dies("dies-on-second-answer", !known);
            }
            _ => {}
        }
    }

    fn request(self: &Arc<Self>, method: &str, id: &Value, params: &Value, output: &Output) {
        if self.is_lost(method, id) {
            return;
        }
        let id = &match id.as_str().and_then(|text| text.parse::<i64>().ok()) {
            Some(number) if self.has("turns-ids-into-numbers") => json!(number),
            _ => id.clone(),
        };
        let version = params["_meta"][VERSION_KEY].as_str();
        if let Some(asked) = version.filter(|version| *version != MODERN)
            && !self.has("accepts-any-version")
        {
            let data = json!({ "supported": [MODERN], "requested": asked });
            let message = "Unsupported protocol version";
            let error = json!({ "code": -32022, "message": message, "data": data });
            return output.send(&json!({ "jsonrpc": "2.0", "id": id, "error": error }));
        }
        let modern = version.is_some();
        let early = !modern && !self.initialized.load(Ordering::SeqCst);
        let unready = !modern && !self.ready.load(Ordering::SeqCst);
        match method {
            "initialize" => self.initialize(id, params, output),
            "ping" => output.result(id, json!({})),
            "server/discover" if self.has("dies-on-discover") => std::process::exit(1),
            "server/discover" if modern => output.result(id, about_modern()),
            "tools/list" | "tools/call" if early => {
                if !self.has("silent-before-handshake") {
                    output.error(id, -32602, "not initialized yet");
                }
            }
            "tools/list" | "tools/call" if unready && self.has("silent-before-initialized") => {}
            "tools/list" => {
                let tools = json!({ "tools": calls::tools() });
                output.result(id, complete(tools, modern));
            }
            "tools/call" => calls::call(self, id, params, modern, output),
            _ if self.has("ignores-unknown-methods") => {}
            _ if self.has("answers-everything") => output.result(id, json!({})),
            _ => output.error(id, -32601, "unknown method"),
        }
    }

    /// What happens to a request before it is looked at. Whether it is lost.
    fn is_lost(&self, method: &str, id: &Value) -> bool {
        if self.has("logs-a-lot") {
            eprintln!("a request: {}", "x".repeat(200));
        }
        if self.has("leaks-descriptors") {
            std::mem::forget(std::fs::File::open("/dev/null"));
        }
        let running = self.calls.is_running(id);
        self.defects.dies("dies-on-id-in-use", running);
        let count = self.requests.fetch_add(1, Ordering::SeqCst);
        let mut past = lock(&self.past);
        if method == "initialize" {
            past.initialize = Some(id.clone());
        }
        let fresh = past.ids.insert(id.to_string());
        let cancelled = past.cancelled.contains(&id.to_string());
        (self.has("never-uses-an-id-again") && !fresh)
            || (self.has("remembers-early-cancels") && cancelled)
            || (self.has("loses-requests") && count % 300 == 299)
    }

    fn initialize(&self, id: &Value, params: &Value, output: &Output) {
        let Some(asked) = params["protocolVersion"].as_str() else {
            self.defects.dies("dies-on-bad-initialize", true);
            return output.error(id, -32602, "there is no protocolVersion");
        };
        let again = self.initialized.swap(true, Ordering::SeqCst);
        self.defects.dies("dies-on-second-initialize", again);
        let known = LEGACY.iter().find(|known| **known == asked);
        let version = match self.has("echoes-version") {
            true => asked,
            false => known.unwrap_or(&LEGACY[0]),
        };
        output.result(
            id,
            json!({
                "protocolVersion": version,
                "capabilities": { "tools": {} },
                "serverInfo": { "name": "check-peer", "version": "1.0" },
            }),
        );
    }

    fn cancel(self: &Arc<Self>, id: &Value, output: &Output) {
        let sound = id.is_string() || id.is_i64();
        self.defects.dies("dies-on-malformed-cancel", !sound);
        let deaf = self.has("answers-cancelled") || self.has("dies-when-cancelled-work-ends");
        let known = match deaf {
            true => self.calls.is_running(id),
            false => self.calls.cancel(id),
        };
        let mut past = lock(&self.past);
        let first = past.cancelled.insert(id.to_string());
        let of_initialize = past.initialize.as_ref() == Some(id);
        self.defects.dies("dies-on-cancel", true);
        self.defects.dies("dies-on-second-cancel", !first);
        self.defects.dies("dies-on-unknown-cancel", !known);
        self.defects
            .dies("dies-on-cancelled-initialize", of_initialize);
        if self.has("answers-cancelled-twice") {
            output.error(id, 0, "Request cancelled");
            output.error(id, 0, "Request cancelled");
        }
    }
}

fn about_modern() -> Value {
    json!({
        "resultType": "complete",
        "supportedVersions": [MODERN],
        "capabilities": { "tools": {} },
        "serverInfo": { "name": "check-peer", "version": "1.0" },
        "ttlMs": 0,
        "cacheScope": "private",
    })
}

/// A result of the modern era says that it is whole.
pub fn complete(mut result: Value, modern: bool) -> Value {
    if modern {
        result["resultType"] = json!("complete");
    }
    result
}

pub fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(|broken| broken.into_inner())
}
