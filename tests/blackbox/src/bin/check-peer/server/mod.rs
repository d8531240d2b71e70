//! A small server of both eras on standard input and output.
//!
//! Good as it is: what it cannot read it leaves alone, what it accepted before the end of its input it
//! finishes, nothing is answered twice or after a cancellation.

mod calls;
mod output;

use std::io::{BufRead, BufReader, Read};
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use serde_json::{Value, json};

use crate::defects::Defects;
use calls::Calls;
use output::Output;

const VERSION_KEY: &str = "io.modelcontextprotocol/protocolVersion";
const LEGACY: [&str; 4] = ["2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"];
const MODERN: &str = "2026-07-28";
/// The longest line that is read; of a longer one nothing is kept.
const LONGEST: u64 = 32 << 20;
/// What was accepted may take this long after the end of input.
const DRAIN: Duration = Duration::from_secs(1);

/// The server.
pub struct Server {
    pub defects: Defects,
    pub output: Output,
    pub calls: Calls,
    initialized: AtomicBool,
    cancelled: Mutex<Vec<Value>>,
}

/// Serves until the input ends.
pub fn main(defects: Defects) -> ExitCode {
    let server = Arc::new(Server {
        output: Output::default(),
        calls: Calls::default(),
        initialized: AtomicBool::new(false),
        cancelled: Mutex::default(),
        defects,
    });
    if server.has("spins") {
        std::thread::spawn(|| {
            loop {
                std::hint::spin_loop();
            }
        });
    }
    if server.has("leaves-a-child") {
        let mut sleep = std::process::Command::new("sleep");
        let quiet = std::process::Stdio::null;
        let _ = sleep
            .arg("60")
            .stdin(quiet())
            .stdout(quiet())
            .stderr(quiet())
            .spawn();
    }
    let mut input = BufReader::new(std::io::stdin());
    let longest = match server.has("keeps-endless-lines") {
        true => u64::MAX,
        false => LONGEST,
    };
    while let Some(line) = next_line(&mut input, longest) {
        server.take(&line);
    }
    if server.has("ignores-eof") {
        loop {
            std::thread::park();
        }
    }
    server.calls.finish(DRAIN);
    ExitCode::SUCCESS
}

/// The next line, without its end; an empty one in place of one that is too long.
fn next_line(input: &mut impl BufRead, longest: u64) -> Option<Vec<u8>> {
    let mut line = Vec::new();
    let read = input
        .by_ref()
        .take(longest)
        .read_until(b'\n', &mut line)
        .ok()?;
    if read == 0 {
        return None;
    }
    if line.last() != Some(&b'\n') && line.len() as u64 == longest {
        line = Vec::new();
        skip_line(input)?;
    }
    while line
        .last()
        .is_some_and(|byte| matches!(byte, b'\n' | b'\r'))
    {
        line.pop();
    }
    Some(line)
}

fn skip_line(input: &mut impl BufRead) -> Option<()> {
    loop {
        let piece = input.fill_buf().ok()?;
        if piece.is_empty() {
            return None;
        }
        let end = piece.iter().position(|byte| *byte == b'\n');
        let skipped = end.map_or(piece.len(), |at| at + 1);
        input.consume(skipped);
        if end.is_some() {
            return Some(());
        }
    }
}

impl Server {
    /// Whether it has a defect.
    pub fn has(&self, defect: &str) -> bool {
        self.defects.has(defect)
    }

    fn take(self: &Arc<Self>, line: &[u8]) {
        let line = line.strip_prefix(b"\xef\xbb\xbf").unwrap_or(line);
        let Ok(message) = serde_json::from_slice::<Value>(line) else {
            return;
        };
        let id = message.get("id").filter(|id| id.is_string() || id.is_i64());
        match (message["method"].as_str(), id) {
            (Some(method), Some(id)) => self.request(method, id, &message["params"]),
            (Some("notifications/cancelled"), None) => self.cancel(&message["params"]["requestId"]),
            (None, Some(id)) => self.calls.answered(id, &message),
            _ => {}
        }
    }

    fn request(self: &Arc<Self>, method: &str, id: &Value, params: &Value) {
        let version = params["_meta"][VERSION_KEY].as_str();
        if let Some(asked) = version.filter(|version| *version != MODERN) {
            let data = json!({ "supported": [MODERN], "requested": asked });
            let error =
                json!({ "code": -32022, "message": "Unsupported protocol version", "data": data });
            return self
                .output
                .send(&json!({ "jsonrpc": "2.0", "id": id, "error": error }));
        }
        if self.has("logs-a-lot") {
            eprintln!("a request: {}", "x".repeat(200));
        }
        if self.has("leaks-descriptors") {
            std::mem::forget(std::fs::File::open("/dev/null"));
        }
        let modern = version.is_some();
        let early = !modern && !self.initialized.load(Ordering::SeqCst);
        match method {
            "initialize" => {
                let asked = params["protocolVersion"].as_str().unwrap_or_default();
                let version = LEGACY
                    .iter()
                    .find(|known| **known == asked)
                    .unwrap_or(&LEGACY[0]);
                self.initialized.store(true, Ordering::SeqCst);
                self.output.result(
                    id,
                    json!({
                        "protocolVersion": version,
                        "capabilities": { "tools": {} },
                        "serverInfo": { "name": "check-peer", "version": "1.0" },
                    }),
                );
            }
            "ping" => self.output.result(id, json!({})),
            "server/discover" if modern => self.output.result(
                id,
                json!({
                    "resultType": "complete",
                    "supportedVersions": [MODERN],
                    "capabilities": { "tools": {} },
                    "serverInfo": { "name": "check-peer", "version": "1.0" },
                    "ttlMs": 0,
                    "cacheScope": "private",
                }),
            ),
            "tools/list" | "tools/call" if early => {
                self.output.error(id, -32602, "not initialized yet");
            }
            "tools/list" => self
                .output
                .result(id, complete(json!({ "tools": calls::tools() }), modern)),
            "tools/call" => calls::call(self, id, params, modern),
            _ => self.output.error(id, -32601, "unknown method"),
        }
    }

    fn cancel(self: &Arc<Self>, id: &Value) {
        let known = self.calls.cancel(id);
        let mut cancelled = lock(&self.cancelled);
        let again = cancelled.contains(id);
        cancelled.push(id.clone());
        if self.has("dies-on-cancel") || (self.has("dies-on-second-cancel") && again) {
            std::process::exit(1);
        }
        if self.has("dies-on-unknown-cancel") && !known {
            std::process::exit(1);
        }
        if self.has("answers-cancelled-twice") {
            self.output.error(id, 0, "Request cancelled");
            self.output.error(id, 0, "Request cancelled");
        }
    }
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
