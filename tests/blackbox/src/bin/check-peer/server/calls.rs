//! Tools, and calls in flight.

use std::collections::HashMap;
use std::sync::mpsc::{self, Sender};
use std::sync::{Arc, Condvar, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::output::Output;
use super::{Server, complete, lock};

/// What the server can do.
pub fn tools() -> Value {
    let none = json!({ "type": "object" });
    let time = json!({
        "type": "object", "properties": { "ms": { "type": "integer" } }, "required": ["ms"],
    });
    json!([
        { "name": "quick", "inputSchema": none, "annotations": { "readOnlyHint": true } },
        { "name": "slow", "inputSchema": time },
        { "name": "ask", "inputSchema": none },
    ])
}

/// Calls in flight, and questions to the host.
#[derive(Default)]
pub struct Calls {
    running: Mutex<HashMap<String, Arc<Call>>>,
    changed: Condvar,
    questions: Mutex<HashMap<String, Sender<Value>>>,
}

#[derive(Default)]
struct Call {
    cancelled: Mutex<bool>,
    change: Condvar,
}

impl Calls {
    /// Whether anything runs.
    pub fn are_running(&self) -> bool {
        !lock(&self.running).is_empty()
    }

    /// Whether a call runs.
    pub fn is_running(&self, id: &Value) -> bool {
        lock(&self.running).contains_key(&id.to_string())
    }

    /// Cancels a call; tells whether there was one.
    pub fn cancel(&self, id: &Value) -> bool {
        let Some(call) = lock(&self.running).get(&id.to_string()).cloned() else {
            return false;
        };
        *lock(&call.cancelled) = true;
        call.change.notify_all();
        true
    }

    /// The host answered something; tells whether it was asked.
    pub fn answered(&self, id: &Value, message: &Value) -> bool {
        match lock(&self.questions).remove(&id.to_string()) {
            Some(waiting) => waiting.send(message.clone()).is_ok(),
            None => false,
        }
    }

    /// Waits until nothing runs, but no longer than this.
    pub fn finish(&self, timeout: Duration) {
        // Whoever waits for the host waits in vain.
        lock(&self.questions).clear();
        let running = lock(&self.running);
        let _ = self
            .changed
            .wait_timeout_while(running, timeout, |running| !running.is_empty());
    }
}

/// Runs a tool and answers, unless it is cancelled.
pub fn call(server: &Arc<Server>, id: &Value, params: &Value, modern: bool, output: &Output) {
    let name = params["name"].as_str().unwrap_or_default().to_owned();
    let arguments = &params["arguments"];
    let sound = params["name"].is_string() && (arguments.is_object() || arguments.is_null());
    server.defects.dies("dies-on-wrong-arguments", !sound);
    let late = server.has("forgets-at-eof");
    let inline = match name.as_str() {
        "slow" => server.has("serves-one-at-a-time"),
        "ask" => server.has("waits-for-answers-alone"),
        "quick" => !late,
        _ if server.has("ignores-unknown-tools") => return,
        _ => return output.error(id, -32602, "unknown tool"),
    };
    if !sound {
        return output.error(id, -32602, "wrong arguments");
    }
    let call = Arc::new(Call::default());
    lock(&server.calls.running).insert(id.to_string(), call.clone());
    let (server, output) = (server.clone(), output.clone());
    let (id, params) = (id.clone(), params.clone());
    let work = move || {
        let words = match name.as_str() {
            "slow" => slow(&output, &call, &params),
            "ask" => Some(ask(&server, &id, modern, &output)),
            _ if late => slow(&output, &call, &json!({ "arguments": { "ms": 300 } })),
            _ => Some("done".into()),
        };
        let in_vain = lock(&server.past).cancelled.contains(&id.to_string());
        server
            .defects
            .dies("dies-when-cancelled-work-ends", in_vain);
        if let Some(words) = words {
            output.result(&id, said(&words, modern));
        }
        lock(&server.calls.running).remove(&id.to_string());
        server.calls.changed.notify_all();
        if server.has("progress-after-answer") {
            tell(&output, &params, 1_000);
        }
    };
    match inline {
        true => work(),
        false => drop(thread::spawn(work)),
    }
}

fn said(words: &str, modern: bool) -> Value {
    let content = json!({ "content": [{ "type": "text", "text": words }] });
    complete(content, modern)
}

/// Takes its time, and says so now and then; nothing if it was cancelled.
fn slow(output: &Output, call: &Call, params: &Value) -> Option<String> {
    let time = Duration::from_millis(params["arguments"]["ms"].as_u64().unwrap_or(0));
    let end = Instant::now() + time;
    for progress in 1.. {
        let left = end.saturating_duration_since(Instant::now());
        let cancelled = lock(&call.cancelled);
        let step = left.min(Duration::from_millis(100));
        let wait = call
            .change
            .wait_timeout_while(cancelled, step, |cancelled| !*cancelled);
        let cancelled = *wait.unwrap_or_else(|broken| broken.into_inner()).0;
        if cancelled {
            return None;
        }
        if left.is_zero() {
            break;
        }
        tell(output, params, progress);
    }
    Some("slept".into())
}

/// Progress, if it was asked for.
fn tell(output: &Output, params: &Value, progress: i64) {
    if let Some(token) = params["_meta"].get("progressToken") {
        let params = json!({ "progressToken": token, "progress": progress });
        let method = "notifications/progress";
        output.send(&json!({ "jsonrpc": "2.0", "method": method, "params": params }));
    }
}

/// Asks the host and repeats what it said.
fn ask(server: &Server, id: &Value, modern: bool, output: &Output) -> String {
    if modern {
        return "a modern host is not asked on the way".into();
    }
    let (answer, waiting) = mpsc::channel();
    let question = json!(format!("question {id}"));
    lock(&server.calls.questions).insert(question.to_string(), answer);
    let schema = json!({ "type": "object", "properties": {} });
    let params = json!({ "message": "Well?", "requestedSchema": schema });
    output.send(&json!({
        "jsonrpc": "2.0", "id": question, "method": "elicitation/create", "params": params,
    }));
    match waiting.recv() {
        Ok(answer) if answer.get("error").is_some() && server.has("hangs-on-refusal") => loop {
            thread::park();
        },
        Ok(answer) => answer["result"]["action"].to_string(),
        Err(_) => "nobody answered".into(),
    }
}
