//! A request, as it came.

use std::io;

use serde_json::Value;
use tokio::io::AsyncReadExt;
use tokio::net::TcpStream;
use tokio::time::Instant;

use crate::web::{Body, Framing, Head};

/// A request, as it came.
#[derive(Clone, Debug)]
pub struct Seen {
    /// When.
    pub at: Instant,
    /// `GET`, `POST`, `DELETE`.
    pub verb: String,
    /// The body, if it is JSON.
    pub message: Value,
    head: Head,
}

impl Seen {
    /// Reads it. What was read behind it is left in `raw`.
    pub(super) async fn read(stream: &mut TcpStream, raw: &mut Vec<u8>) -> io::Result<Seen> {
        let head = Head::read(stream, raw).await?;
        let framing = Framing::told(&head).unwrap_or(Framing::Done);
        let mut body = Body::new(std::mem::take(raw), framing);
        loop {
            body.unwrap_raw()?;
            if body.is_done() {
                break;
            }
            if stream.read_buf(&mut body.raw).await? == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        }
        // Behind the last chunk there is nothing that a next request begins with.
        if framing != Framing::Chunks {
            *raw = body.raw;
        }
        let verb = head.first.split(' ').next().unwrap_or_default().to_owned();
        Ok(Seen {
            at: Instant::now(),
            verb,
            message: serde_json::from_slice(&body.whole).unwrap_or_default(),
            head,
        })
    }

    /// A header.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.head.header(name)
    }

    /// The session it names.
    pub fn session(&self) -> Option<&str> {
        self.header("Mcp-Session-Id")
    }

    /// The event it wants the rest of a stream behind.
    pub fn cursor(&self) -> Option<&str> {
        self.header("Last-Event-ID")
    }

    /// Whether it is a GET.
    pub fn gets(&self) -> bool {
        self.verb == "GET"
    }

    /// Whether it has a message of this method.
    pub fn says(&self, method: &str) -> bool {
        self.message["method"] == method
    }

    /// Whether it has a call of this tool.
    pub fn calls(&self, tool: &str) -> bool {
        self.says("tools/call") && self.message["params"]["name"] == tool
    }

    /// Whether it has an answer to a request of ours.
    pub fn answers(&self, id: &str) -> bool {
        self.message["id"] == id && !self.message["method"].is_string()
    }

    /// As it stands in the journal.
    pub(super) fn words(&self) -> String {
        let mut words = self.verb.clone();
        for (name, value) in [("session", self.session()), ("behind", self.cursor())] {
            if let Some(value) = value {
                words.push_str(&format!(" [{name} {value}]"));
            }
        }
        match self.message.is_null() {
            true => words,
            false => format!("{words} {}", self.message),
        }
    }
}
