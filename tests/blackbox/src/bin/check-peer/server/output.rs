//! Where the server answers.

use std::io::Write;
use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::lock;
use crate::defects::Defects;

/// Where answers go.
#[derive(Clone)]
pub enum Output {
    /// Standard output, a line at a time.
    Stdout(Arc<Mutex<()>>, Arc<Defects>),
    /// An exchange over HTTP.
    Exchange(Sender<Value>),
}

impl Output {
    /// Answers with a result.
    pub fn result(&self, id: &Value, result: Value) {
        self.send(&json!({ "jsonrpc": "2.0", "id": id, "result": result }));
    }

    /// Answers with an error.
    pub fn error(&self, id: &Value, code: i64, message: &str) {
        let error = json!({ "code": code, "message": message });
        self.send(&json!({ "jsonrpc": "2.0", "id": id, "error": error }));
    }

    /// Sends a message.
    pub fn send(&self, message: &Value) {
        match self {
            Output::Stdout(turn, defects) => print(&mut lock(turn), defects, message),
            // Whoever has left gets nothing.
            Output::Exchange(sender) => drop(sender.send(message.clone())),
        }
    }
}

/// Nobody there to read it is the end.
fn print(_turn: &mut (), defects: &Defects, message: &Value) {
    let begun = Instant::now();
    let mut stdout = std::io::stdout().lock();
    let line = format!("{message}\n");
    let written = stdout
        .write_all(line.as_bytes())
        .and_then(|()| stdout.flush());
    let dauntless = ["ignores-broken-pipe", "survives-its-host"];
    if written.is_err() && !dauntless.iter().any(|name| defects.has(name)) {
        std::process::exit(0);
    }
    let long = begun.elapsed() > Duration::from_millis(500);
    defects.dies("dies-when-unread", long);
}
