//! The protocol: what is answered, when, and what is remembered.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::thread;
use std::time::Duration;

use serde_json::{Value, json};

use crate::knobs::{Knobs, OnCancel};
use crate::output::Output;
use crate::tap::Tap;
use crate::tools;

/// The `_meta` key by which a modern request names its protocol version.
const VERSION_KEY: &str = "io.modelcontextprotocol/protocolVersion";
/// The `_meta` key by which a notification names the subscription it belongs to.
const SUBSCRIPTION_KEY: &str = "io.modelcontextprotocol/subscriptionId";
const LEGACY_VERSIONS: [&str; 4] = ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"];

/// A call in progress.
pub struct Call {
    /// The id of the request, as it came.
    pub id: Value,
    /// The token for its progress, if one was given.
    pub progress_token: Option<Value>,
    /// Whether it came with the metadata of the modern era.
    pub modern: bool,
    /// What the caller answers to an earlier `input_required`, and the state it gives back.
    pub given: Value,
    cancelled: Mutex<bool>,
    change: Condvar,
}

impl Call {
    /// Waits for `time`, or until the call is cancelled; tells whether it was.
    pub fn cancelled_within(&self, time: Duration) -> bool {
        let guard = lock(&self.cancelled);
        *self
            .change
            .wait_timeout_while(guard, time, |cancelled| !*cancelled)
            .unwrap_or_else(|e| e.into_inner())
            .0
    }
}

/// What the host has told a server so far.
#[derive(Default)]
pub struct Memory {
    /// Whether `initialize` was answered.
    pub initialized: bool,
    /// Whether `notifications/initialized` came.
    pub ready: bool,
    /// The last `logging/setLevel`.
    pub level: Option<String>,
    /// The resources subscribed to.
    pub subscriptions: Vec<String>,
    /// The ids of open `subscriptions/listen` requests.
    pub listeners: Vec<Value>,
    /// What each of them listens to, by its id as JSON.
    pub filters: HashMap<String, Value>,
    discover: Option<Value>,
    /// A `resources/unsubscribe` that is answered after the next `resources/subscribe`.
    unsubscribed: Option<Value>,
}

/// The server.
pub struct Server {
    /// How it misbehaves.
    pub knobs: Knobs,
    /// Where it records.
    pub tap: Tap,
    /// Where it answers.
    pub output: Output,
    /// What it was told.
    pub memory: Mutex<Memory>,
    /// Reads no more.
    pub deaf: AtomicBool,
    /// Answers no more.
    pub mute: AtomicBool,
    dying: AtomicBool,
    /// The next ping is the last line it reads alive.
    doomed: AtomicBool,
    calls: Mutex<HashMap<String, Arc<Call>>>,
    asks: Mutex<HashMap<String, Sender<Value>>>,
    next_ask: AtomicU64,
}

impl Server {
    /// A server that has been told nothing.
    pub fn new(knobs: Knobs) -> std::io::Result<Server> {
        Ok(Server {
            tap: Tap::open(knobs.state.as_deref())?,
            output: Output::new(knobs.trickle, knobs.framing),
            knobs,
            memory: Mutex::default(),
            deaf: AtomicBool::new(false),
            mute: AtomicBool::new(false),
            dying: AtomicBool::new(false),
            doomed: AtomicBool::new(false),
            calls: Mutex::default(),
            asks: Mutex::default(),
            next_ask: AtomicU64::new(1),
        })
    }

    /// Whether standard input is left alone.
    pub fn is_deaf(&self) -> bool {
        self.deaf.load(Ordering::SeqCst)
    }

    /// Takes one line from standard input.
    pub fn take(self: &Arc<Self>, line: &[u8]) {
        let line = line.strip_suffix(b"\n").unwrap_or(line);
        let message = serde_json::from_slice::<Value>(line).ok();
        self.tap.received(line, message.as_ref());
        if self.dying.load(Ordering::SeqCst) {
            // The line that finds out that the server died is lost with it.
            std::process::exit(1);
        }
        let Some(message) = message else { return };
        if message["method"] == "ping" && self.doomed.load(Ordering::SeqCst) {
            self.dying.store(true, Ordering::SeqCst);
            return;
        }
        let id = message.get("id").cloned();
        match (message["method"].as_str(), id) {
            (Some(method), Some(id)) => self.request(method, id, &message["params"]),
            (Some(method), None) => self.notified(method, &message["params"]),
            (None, Some(id)) => {
                if let Some(waiting) = lock(&self.asks).remove(&id.to_string()) {
                    let _ = waiting.send(message);
                }
            }
            (None, None) => {}
        }
    }

    /// Answers a request with a result.
    pub fn reply(&self, id: &Value, result: Value) {
        self.send(json!({ "jsonrpc": "2.0", "id": id, "result": result }));
    }

    /// Answers a request with an error.
    pub fn fail(&self, id: &Value, code: i64, message: &str) {
        let error = json!({ "code": code, "message": message });
        self.send(json!({ "jsonrpc": "2.0", "id": id, "error": error }));
    }

    /// Sends a notification.
    pub fn notify(&self, method: &str, params: Value) {
        self.send(json!({ "jsonrpc": "2.0", "method": method, "params": params }));
    }

    /// Sends a request to the host; the answer comes through the channel.
    pub fn ask(&self, method: &str, params: Value) -> Receiver<Value> {
        let id = json!(self.next_ask.fetch_add(1, Ordering::SeqCst));
        let (answer, waiting) = mpsc::channel();
        lock(&self.asks).insert(id.to_string(), answer);
        self.send(json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params }));
        waiting
    }

    /// Tells every open subscription that the tools changed.
    pub fn notify_listeners(&self) {
        for id in lock(&self.memory).listeners.clone() {
            let meta = json!({ SUBSCRIPTION_KEY: id });
            self.notify("notifications/tools/list_changed", json!({ "_meta": meta }));
        }
    }

    /// Tells everybody who subscribed to a resource that it changed.
    pub fn notify_subscribers(&self, uri: &str) {
        let memory = lock(&self.memory);
        let legacy = memory.subscriptions.iter().any(|known| known == uri);
        let listens = |id: &&Value| {
            let filter = memory.filters.get(&id.to_string());
            let uris = filter.and_then(|filter| filter["resourceSubscriptions"].as_array());
            uris.is_some_and(|uris| uris.iter().any(|known| known == uri))
        };
        let modern: Vec<Value> = memory.listeners.iter().filter(listens).cloned().collect();
        drop(memory);
        let method = "notifications/resources/updated";
        if legacy {
            self.notify(method, json!({ "uri": uri }));
        }
        for id in modern {
            let meta = json!({ SUBSCRIPTION_KEY: id });
            self.notify(method, json!({ "_meta": meta, "uri": uri }));
        }
    }

    /// Sends anything, unless the server has fallen silent.
    pub fn send(&self, message: Value) {
        if !self.mute.load(Ordering::SeqCst) && !self.dying.load(Ordering::SeqCst) {
            self.output.send(&message);
        }
    }

    fn notified(self: &Arc<Self>, method: &str, params: &Value) {
        match method {
            "notifications/initialized" => {
                lock(&self.memory).ready = true;
                if let Some(after) = self.knobs.exit_after_ready
                    && self.knobs.faulty()
                {
                    thread::spawn(move || {
                        thread::sleep(after);
                        std::process::exit(1);
                    });
                }
            }
            "notifications/cancelled" => self.cancelled(&params["requestId"]),
            _ => {}
        }
    }

    fn cancelled(&self, id: &Value) {
        lock(&self.memory)
            .listeners
            .retain(|listener| listener != id);
        let Some(call) = lock(&self.calls).get(&id.to_string()).cloned() else {
            return;
        };
        match self.knobs.on_cancel {
            OnCancel::Stop => {
                *lock(&call.cancelled) = true;
                call.change.notify_all();
            }
            OnCancel::Die => {
                eprintln!("AssertionError: Request already responded to");
                std::process::exit(1);
            }
            OnCancel::AnswerTwice => self.fail(&call.id, 0, "Request cancelled"),
            OnCancel::LookAlive => self.dying.store(true, Ordering::SeqCst),
            OnCancel::DieLater => {
                self.fail(&call.id, 0, "Request cancelled");
                self.doomed.store(true, Ordering::SeqCst);
            }
        }
    }

    fn request(self: &Arc<Self>, method: &str, id: Value, params: &Value) {
        let modern = params["_meta"].get(VERSION_KEY).is_some();
        if !modern && !matches!(method, "initialize" | "ping" | "server/discover") {
            let memory = lock(&self.memory);
            if !memory.initialized || !memory.ready {
                drop(memory);
                let words = "Received request before initialization was complete";
                return self.fail(&id, -32602, words);
            }
        }
        let complete = |mut result: Value| {
            if modern {
                result["resultType"] = json!("complete");
            }
            self.reply(&id, result);
        };
        let uri = params["uri"].as_str().unwrap_or_default().to_owned();
        match method {
            "initialize" => self.initialize(&id, params),
            "server/discover" => self.discover(&id),
            "ping" if self.knobs.ignore_ping => {}
            "ping" if self.knobs.ping_error => self.fail(&id, -32601, "Method not found: ping"),
            "ping" => complete(json!({})),
            "logging/setLevel" => {
                lock(&self.memory).level = params["level"].as_str().map(str::to_owned);
                complete(json!({}));
            }
            "tools/list" => complete(self.page_of_tools(params)),
            "prompts/list" => complete(json!({ "prompts": [{ "name": "greet" }] })),
            "prompts/get" => {
                let words = &params["arguments"]["words"];
                let content = json!({ "type": "text", "text": words.as_str().unwrap_or_default() });
                let message = json!({ "role": "user", "content": content });
                complete(json!({ "messages": [message] }));
            }
            "completion/complete" => {
                let begun = params["argument"]["value"].as_str().unwrap_or_default();
                let values = [format!("{begun}land"), format!("{begun}wig")];
                complete(json!({ "completion": { "values": values } }));
            }
            "resources/list" => {
                complete(json!({ "resources": [{ "uri": "mem://a", "name": "a" }] }))
            }
            "resources/templates/list" => complete(
                json!({ "resourceTemplates": [{ "uriTemplate": "mem://{name}", "name": "mem" }] }),
            ),
            "resources/read" => {
                complete(json!({ "contents": [{ "uri": uri, "text": "content" }] }))
            }
            "resources/subscribe" => {
                lock(&self.memory).subscriptions.push(uri);
                complete(json!({}));
                if let Some(late) = lock(&self.memory).unsubscribed.take() {
                    self.reply(&late, json!({}));
                }
            }
            "resources/unsubscribe" => {
                lock(&self.memory)
                    .subscriptions
                    .retain(|known| *known != uri);
                match self.knobs.late_unsubscribe {
                    true => lock(&self.memory).unsubscribed = Some(id),
                    false => complete(json!({})),
                }
            }
            "subscriptions/listen" => {
                let meta = json!({ SUBSCRIPTION_KEY: id });
                let honoured = &params["notifications"];
                let mut memory = lock(&self.memory);
                memory.listeners.push(id.clone());
                memory.filters.insert(id.to_string(), honoured.clone());
                drop(memory);
                self.notify(
                    "notifications/subscriptions/acknowledged",
                    json!({ "_meta": meta, "notifications": honoured }),
                );
            }
            "tools/call" => self.call(id, params, modern),
            other => self.fail(&id, -32601, &format!("Method not found: {other}")),
        }
    }

    fn page_of_tools(&self, params: &Value) -> Value {
        let set = self.knobs.tool_set();
        if set == "gap" {
            return match params["cursor"].is_string() {
                false => json!({ "tools": [], "nextCursor": "gap" }),
                true => json!({ "tools": tools::list("unhinted") }),
            };
        }
        let tools = tools::list(&set);
        let Some(page) = self.knobs.page else {
            return json!({ "tools": tools });
        };
        let begin = params["cursor"]
            .as_str()
            .and_then(|cursor| cursor.parse().ok())
            .unwrap_or(0);
        let end = tools.len().min(begin + page);
        let mut result = json!({ "tools": tools[begin..end] });
        if end < tools.len() {
            result["nextCursor"] = end.to_string().into();
        } else if self.knobs.repeat_cursor {
            result["nextCursor"] = page.to_string().into();
        }
        result
    }

    fn call(self: &Arc<Self>, id: Value, params: &Value, modern: bool) {
        let token = params["_meta"].get("progressToken").cloned();
        let call = Arc::new(Call {
            id: id.clone(),
            progress_token: token,
            modern,
            given: json!({
                "responses": params["inputResponses"],
                "state": params["requestState"],
            }),
            cancelled: Mutex::new(false),
            change: Condvar::new(),
        });
        let key = id.to_string();
        lock(&self.calls).insert(key.clone(), call.clone());
        let server = self.clone();
        let name = params["name"].as_str().unwrap_or_default().to_owned();
        let arguments = params["arguments"].clone();
        thread::spawn(move || {
            let outcome = tools::run(&server, &call, &name, &arguments);
            lock(&server.calls).remove(&key);
            server.tap.note("done", call.id.clone());
            match outcome {
                tools::Outcome::Result(mut result) => {
                    if modern && result.get("resultType").is_none() {
                        result["resultType"] = json!("complete");
                    }
                    server.reply(&call.id, result);
                }
                tools::Outcome::Error(code, words) => server.fail(&call.id, code, &words),
                tools::Outcome::Nothing => {}
            }
            let late = lock(&server.memory).discover.take();
            if let Some(id) = late {
                server.fail(&id, -32601, "Method not found: server/discover");
            }
        });
    }

    fn initialize(&self, id: &Value, params: &Value) {
        if self.knobs.hang_in_initialize {
            return;
        }
        if let Some(words) = &self.knobs.refuse_initialize {
            return self.fail(id, -32603, words);
        }
        let mut memory = lock(&self.memory);
        if memory.initialized {
            drop(memory);
            return self.fail(id, -32600, "Server already initialized");
        }
        memory.initialized = true;
        drop(memory);
        let asked = params["protocolVersion"].as_str().unwrap_or_default();
        let version = match &self.knobs.version_after_restart {
            Some(version) if self.tap.spawn > 1 => version,
            _ if LEGACY_VERSIONS.contains(&asked) => asked,
            _ => "2025-11-25",
        };
        self.reply(
            id,
            json!({
                "protocolVersion": version,
                "capabilities": capabilities(),
                "serverInfo": { "name": "fake", "version": "1.0" },
            }),
        );
    }

    fn discover(&self, id: &Value) {
        if self.knobs.exit_on_discover {
            eprintln!("unknown first method");
            std::process::exit(1);
        } else if self.knobs.late_discover {
            lock(&self.memory).discover = Some(id.clone());
        } else if self.knobs.ignore_discover {
        } else if self.knobs.legacy {
            self.fail(id, -32601, "Method not found: server/discover");
        } else {
            self.reply(
                id,
                json!({
                    "resultType": "complete",
                    "supportedVersions": ["2026-07-28"],
                    "capabilities": capabilities(),
                    "serverInfo": { "name": "fake", "version": "1.0" },
                    "ttlMs": 0,
                    "cacheScope": "private",
                }),
            );
        }
    }
}

/// `listChanged` is left out on purpose: who promises it to the host must deliver it.
fn capabilities() -> Value {
    json!({ "tools": {}, "prompts": {}, "resources": { "subscribe": true }, "logging": {} })
}

/// Locks, whatever happened to the last holder.
pub fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(|e| e.into_inner())
}
