//! A tool that is executed as fast as its calls can be read: no thread, no parser, one write.

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::thread;
use std::time::Duration;

use rustix::process::{Signal, getppid, kill_process};
use serde_json::{Value, json};

use crate::knobs::Knobs;
use crate::server::Server;

/// Executes calls of `swift`.
pub struct Swift {
    effects: File,
    done: u64,
    unwrap_at: Option<u64>,
    unwrapped: bool,
}

/// For each call after that: it is still at it when it is found.
const PAUSE: Duration = Duration::from_micros(100);

impl Swift {
    /// As told by the knobs, if at all.
    pub fn new(knobs: &Knobs) -> Option<Swift> {
        let path = knobs.swift.as_ref()?;
        let effects = OpenOptions::new().create(true).append(true).open(path);
        Some(Swift {
            effects: effects.ok()?,
            done: 0,
            unwrap_at: knobs.unwrap_at,
            unwrapped: false,
        })
    }

    /// Executes the line if it is such a call.
    pub fn take(&mut self, server: &Server, line: &[u8]) -> bool {
        let text = String::from_utf8_lossy(line);
        let id = text
            .split_once(r#""swift":"#)
            .and_then(|(_, rest)| rest.split('}').next());
        let Some(id) = id else { return false };
        let _ = self.effects.write_all(format!("{id}\n").as_bytes());
        self.done += 1;
        if Some(self.done) == self.unwrap_at
            && let Some(wrapper) = getppid()
        {
            let _ = kill_process(wrapper, Signal::KILL);
            self.unwrapped = true;
        }
        if self.unwrapped {
            // It minds not that nobody hears it any more.
            thread::sleep(PAUSE);
            return true;
        }
        let id: Value = id.parse().unwrap_or_default();
        server.reply(&id, json!({ "content": [] }));
        true
    }
}
