//! A server that asks in the middle of a call, on its own stream.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::sleep;
use std::time::Duration;

use serde_json::{Value, json};

use crate::web::{Act, Request, response, result, stream};

/// As the TypeScript SDK's server does: a question that nobody listens for is dropped, and its call never ends.
pub struct Asking {
    listening: AtomicBool,
    pub asked: AtomicUsize,
    pub dropped: AtomicUsize,
    pub answered: AtomicUsize,
    /// How long the GET takes to be answered, in milliseconds.
    slow: u64,
}

impl Asking {
    pub fn new(slow: u64) -> Arc<Asking> {
        Arc::new(Asking {
            listening: AtomicBool::new(false),
            asked: AtomicUsize::new(0),
            dropped: AtomicUsize::new(0),
            answered: AtomicUsize::new(0),
            slow,
        })
    }

    pub fn deal(&self, request: &Request) -> Option<Vec<Act>> {
        if request.method == "GET" {
            sleep(Duration::from_millis(self.slow));
            self.listening.store(true, Ordering::SeqCst);
            return Some(vec![Act::Outlet, stream(), Act::Hang]);
        }
        if request.rpc().is_empty() && request.body.get("result").is_some() {
            self.answered.fetch_add(1, Ordering::SeqCst);
            return Some(response(202, &[], ""));
        }
        if request.tool() != "ask" {
            return None;
        }
        self.asked.fetch_add(1, Ordering::SeqCst);
        if !self.listening.load(Ordering::SeqCst) {
            self.dropped.fetch_add(1, Ordering::SeqCst);
            return Some(vec![Act::Hang]);
        }
        let id = format!("q{}", request.body["id"]);
        let ask = json!({"jsonrpc": "2.0", "id": id, "method": "roots/list"});
        Some(vec![
            Act::Wait(Duration::from_millis(20)),
            Act::Aside(format!("event: message\ndata: {ask}\n\n")),
            Act::Wait(Duration::from_millis(300)),
            Act::Send(whole(&result(request, "asked"))),
        ])
    }
}

fn whole(message: &Value) -> String {
    let headers = [("Content-Type", "application/json")];
    http_peer::response(200, &headers, &message.to_string())
}
