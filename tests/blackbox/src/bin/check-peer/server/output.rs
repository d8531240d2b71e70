//! Where the server answers.

use std::io::Write;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::lock;
use crate::defects::Defects;

/// Standard output, a line at a time.
pub struct Output {
    turn: Mutex<()>,
    defects: Defects,
}

impl Output {
    /// With the defects that concern what is written.
    pub fn new(defects: &Defects) -> Output {
        Output {
            turn: Mutex::new(()),
            defects: defects.clone(),
        }
    }

    /// Answers with a result.
    pub fn result(&self, id: &Value, result: Value) {
        self.send(&json!({ "jsonrpc": "2.0", "id": id, "result": result }));
    }

    /// Answers with an error.
    pub fn error(&self, id: &Value, code: i64, message: &str) {
        let error = json!({ "code": code, "message": message });
        self.send(&json!({ "jsonrpc": "2.0", "id": id, "error": error }));
    }

    /// Sends a message. Nobody there to read it is the end.
    pub fn send(&self, message: &Value) {
        let _turn = lock(&self.turn);
        let begun = Instant::now();
        let mut stdout = std::io::stdout().lock();
        let line = format!("{message}\n");
        let written = stdout
            .write_all(line.as_bytes())
            .and_then(|()| stdout.flush());
        let dauntless = ["ignores-broken-pipe", "survives-its-host"];
        if written.is_err() && !dauntless.iter().any(|name| self.defects.has(name)) {
            std::process::exit(0);
        }
        let long = begun.elapsed() > Duration::from_millis(500);
        self.defects.dies("dies-when-unread", long);
    }
}
