//! Where the server answers.

use std::io::Write;
use std::sync::Mutex;

use serde_json::{Value, json};

use super::lock;

/// Standard output, a line at a time.
#[derive(Default)]
pub struct Output(Mutex<()>);

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

    /// Sends a message. Nobody there to read it is the end.
    pub fn send(&self, message: &Value) {
        let _turn = lock(&self.0);
        let mut stdout = std::io::stdout().lock();
        let line = format!("{message}\n");
        if stdout
            .write_all(line.as_bytes())
            .and_then(|()| stdout.flush())
            .is_err()
        {
            std::process::exit(0);
        }
    }
}
