//! The tap: a file to which every fake of a test appends what it was and what it was told.
//!
//! One JSON object per line, each written with a single append so that processes do not tear
//! each other's lines. A record has `pid`, `us` (microseconds since 1970) and `rec`:
//! `spawn` (with `n`, the ordinal of the process), `recv` (one line from standard input) or
//! `note` (with `note`, a word, and `data`).

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::{Value, json};

/// Longer lines are recorded without their parameters.
const KEEP: usize = 8 << 10;

/// The recorder of one process.
pub struct Tap {
    file: Option<File>,
    /// The ordinal of this process in the file, from 1.
    pub spawn: u64,
}

impl Tap {
    /// Opens the file, and records that this process began.
    pub fn open(path: Option<&Path>) -> std::io::Result<Tap> {
        let Some(path) = path else {
            return Ok(Tap {
                file: None,
                spawn: 1,
            });
        };
        let spawn = match std::fs::read_to_string(path) {
            Ok(text) => {
                1 + text
                    .lines()
                    .filter(|l| l.contains(r#""rec":"spawn""#))
                    .count() as u64
            }
            Err(_) => 1,
        };
        let file = OpenOptions::new().create(true).append(true).open(path)?;
        let tap = Tap {
            file: Some(file),
            spawn,
        };
        tap.record(json!({ "rec": "spawn", "n": spawn }));
        Ok(tap)
    }

    /// Records a line that was received.
    pub fn received(&self, line: &[u8], message: Option<&Value>) {
        let mut record = json!({ "rec": "recv", "len": line.len(), "json": message.is_some() });
        match message {
            Some(message) => {
                for key in ["id", "method", "result", "error", "params"] {
                    if let Some(value) = message.get(key)
                        && (line.len() <= KEEP || matches!(key, "id" | "method"))
                    {
                        record[key] = value.clone();
                    }
                }
            }
            None => record["text"] = String::from_utf8_lossy(&line[..line.len().min(200)]).into(),
        }
        self.record(record);
    }

    /// Records something that happened inside.
    pub fn note(&self, note: &str, data: Value) {
        self.record(json!({ "rec": "note", "note": note, "data": data }));
    }

    fn record(&self, mut record: Value) {
        let Some(mut file) = self.file.as_ref() else {
            return;
        };
        let now = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap_or_default();
        record["pid"] = json!(std::process::id());
        record["us"] = json!(now.as_micros() as u64);
        // The temporary directory goes when its test ends; a server on its way out may find it gone.
        let _ = file.write_all(format!("{record}\n").as_bytes());
    }
}
