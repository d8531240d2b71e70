//! A small client of both eras, and its own driver (the contract is in `docs/check.md`).
//!
//! Without a defect a server that it starts stands behind `outlive run`, which starts it again when it dies;
//! with one it is on its own, so that the defect is what the check sees. A server over HTTP it visits by
//! itself.

mod link;
mod web;

use std::collections::HashMap;
use std::io::BufRead;
use std::process::ExitCode;
use std::sync::{Arc, Mutex, MutexGuard, mpsc};
use std::time::Duration;

use serde_json::{Value, json};

use crate::defects::Defects;
use link::Link;
use web::Visitor;

/// What became of something the client asked.
pub enum End {
    /// It was answered.
    Answer(Value),
    /// The server is gone.
    Lost(String),
}

/// Whoever is told what became of a request.
pub type Waiter = Box<dyn FnOnce(End) + Send>;

/// A connection to a server.
pub trait Connection: Send + Sync {
    /// Sends a request; what becomes of it is told later. Returns its id.
    fn send(self: Arc<Self>, method: &str, params: Value, then: Waiter) -> Value;

    /// Gives a request up.
    fn cancel(self: Arc<Self>, id: &Value);

    /// Whether the server is there.
    fn is_alive(&self) -> bool;

    /// Lets go of the server.
    fn close(&self);
}

/// Starts or reaches the server.
fn open(errand: &Value, defects: Arc<Defects>) -> Result<Arc<dyn Connection>, String> {
    match errand["url"].as_str() {
        Some(url) => Ok(Visitor::open(url, defects)?),
        None => Ok(Link::open(errand, defects)?),
    }
}

/// Does what it is told until that ends.
pub fn main(defects: Defects) -> ExitCode {
    let defects = Arc::new(defects);
    say(json!({ "client": "check-peer", "over": ["stdio", "http"] }));
    let mut link: Option<Arc<dyn Connection>> = None;
    let calls: Arc<Mutex<HashMap<u64, Value>>> = Arc::default();
    let mut listed: Option<Value> = None;
    for line in std::io::stdin().lock().lines().map_while(Result::ok) {
        let Ok(errand) = serde_json::from_str::<Value>(&line) else {
            continue;
        };
        let n = errand["n"].as_u64().unwrap_or_default();
        match (errand["do"].as_str().unwrap_or_default(), &link) {
            ("connect", _) => match open(&errand, defects.clone()) {
                Ok(open) => {
                    link = Some(open);
                    ok(n, json!(true));
                }
                Err(why) => failed(n, "lost", &why),
            },
            (_, None) => failed(n, "other", "not connected"),
            ("list", Some(link)) => {
                if defects.has("caches-list")
                    && let Some(list) = &listed
                {
                    ok(n, list.clone());
                    continue;
                }
                let (tell, told) = mpsc::channel();
                let then = Box::new(move |end| drop(tell.send(end)));
                link.clone().send("tools/list", json!({}), then);
                let answer = match told.recv_timeout(Duration::from_secs(30)) {
                    Ok(End::Answer(answer)) => answer,
                    _ => Value::Null,
                };
                let tools = answer["result"]["tools"].as_array().cloned();
                let names = tools.unwrap_or_default();
                let names: Vec<Value> = names.iter().map(|tool| tool["name"].clone()).collect();
                listed = Some(json!(names));
                ok(n, json!(names));
            }
            ("call", Some(link)) => {
                let params = json!({ "name": errand["tool"], "arguments": errand["arguments"] });
                let told = defects.clone();
                let running = calls.clone();
                let then = move |end| {
                    lock(&running).remove(&n);
                    report(n, end, &told);
                };
                let id = link.clone().send("tools/call", params, Box::new(then));
                lock(&calls).insert(n, id);
            }
            ("cancel", Some(link)) => {
                let call = errand["call"].as_u64().unwrap_or_default();
                let id = lock(&calls).remove(&call);
                if let Some(id) = id {
                    link.clone().cancel(&id);
                    if !defects.has("waits-for-cancelled") {
                        failed(call, "cancelled", "given up");
                    }
                }
                ok(n, json!(true));
            }
            ("state", Some(link)) => {
                let connected = link.is_alive() || defects.has("stays-connected");
                let word = if connected {
                    "connected"
                } else {
                    "disconnected"
                };
                ok(n, json!(word));
            }
            ("close", Some(link)) => {
                link.close();
                ok(n, json!(true));
            }
            (verb, Some(_)) => failed(n, "unsupported", &format!("there is no {verb}")),
        }
    }
    ExitCode::SUCCESS
}

fn report(n: u64, end: End, defects: &Defects) {
    match end {
        End::Answer(answer) => match answer.get("error") {
            // What `outlive run` says of a lost server.
            Some(error) if error["data"]["outlive"].is_object() => {
                failed(n, "lost", &error["message"].to_string());
            }
            Some(error) => failed(n, "answered", &error["message"].to_string()),
            None => ok(n, answer["result"]["content"][0]["text"].clone()),
        },
        End::Lost(why) if defects.has("says-cancelled-at-death") => failed(n, "cancelled", &why),
        End::Lost(why) => failed(n, "lost", &why),
    }
}

fn ok(n: u64, what: Value) {
    say(json!({ "n": n, "ok": what }));
}

fn failed(n: u64, kind: &str, message: &str) {
    say(json!({ "n": n, "error": { "kind": kind, "message": message } }));
}

fn say(what: Value) {
    println!("{what}");
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(|broken| broken.into_inner())
}
