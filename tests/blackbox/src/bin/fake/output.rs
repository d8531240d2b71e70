//! Standard output: whole frames, or torn as the knobs say.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::Value;

use crate::knobs::Framing;

/// Writes frames; one at a time.
pub struct Output {
    turn: Mutex<u64>,
    first: AtomicBool,
    trickle: bool,
    framing: Framing,
}

impl Output {
    /// An output with these habits.
    pub fn new(trickle: bool, framing: Framing) -> Output {
        Output {
            turn: Mutex::new(1),
            first: AtomicBool::new(true),
            trickle,
            framing,
        }
    }

    /// Writes a message.
    pub fn send(&self, message: &Value) {
        let body = message.to_string();
        let frame = match self.framing {
            Framing::Lf => format!("{body}\n"),
            Framing::CrLf => format!("{body}\r\n"),
            Framing::Bom if self.first.swap(false, Ordering::SeqCst) => {
                format!("\u{feff}{body}\n")
            }
            Framing::Bom => format!("{body}\n"),
            Framing::Blank => format!("{body}\n\n"),
            Framing::ContentLength => format!("Content-Length: {}\r\n\r\n{body}\n", body.len()),
        };
        self.raw(frame.as_bytes());
    }

    /// Writes bytes as they are.
    pub fn raw(&self, bytes: &[u8]) {
        let mut random = self.turn.lock().unwrap_or_else(|e| e.into_inner());
        let mut rest = bytes;
        while !rest.is_empty() {
            let piece = if self.trickle {
                *random ^= *random << 13;
                *random ^= *random >> 7;
                *random ^= *random << 17;
                rest.len().min(1 + (*random % 7) as usize)
            } else {
                rest.len()
            };
            match rustix::io::write(rustix::stdio::stdout(), &rest[..piece]) {
                Ok(n) => rest = &rest[n..],
                Err(rustix::io::Errno::INTR) => {}
                // Nobody reads any more: the end of a stdio server.
                Err(_) => std::process::exit(0),
            }
        }
    }
}
