//! What is written back.

use std::io::Write;
use std::net::TcpStream;
use std::sync::Arc;

use serde_json::{Value, json};

use super::sessions::Record;
use crate::defects::Defects;

/// The way back to a client.
pub struct Exchange {
    pub stream: TcpStream,
    /// The session to tell it, once.
    pub session: Option<String>,
    /// The status of a plain answer.
    pub status: u16,
    defects: Arc<Defects>,
}

impl Exchange {
    /// Nothing has been written yet.
    pub fn new(stream: TcpStream, defects: Arc<Defects>) -> Exchange {
        Exchange {
            stream,
            session: None,
            status: 200,
            defects,
        }
    }

    /// A status and nothing else.
    pub fn empty(&mut self, status: u16) {
        self.write(&http_peer::response(status, &[("Connection", "close")], ""));
    }

    /// An error.
    pub fn refuse(&mut self, status: u16, id: &Value, code: i64, message: &str) {
        let error = json!({ "code": code, "message": message });
        self.json(
            status,
            &json!({ "jsonrpc": "2.0", "id": id, "error": error }),
        );
    }

    /// One message.
    pub fn json(&mut self, status: u16, message: &Value) {
        let mut headers = vec![
            ("Content-Type", "application/json"),
            ("Connection", "close"),
        ];
        let session = self.session.take();
        headers.extend(
            session
                .as_deref()
                .map(|session| ("Mcp-Session-Id", session)),
        );
        self.write(&http_peer::response(status, &headers, &message.to_string()));
    }

    /// The beginning of a stream, primed with an event id if it can be resumed.
    pub fn stream(&mut self, record: Option<&Arc<Record>>) {
        let buffering = match self.defects.has("buffers-streams") {
            true => "",
            false => "X-Accel-Buffering: no\r\n",
        };
        let primer = record.map(|record| format!("id: {}\ndata:\n\n", record.cursor(0)));
        self.write(&format!(
            "HTTP/1.1 200 -\r\nContent-Type: text/event-stream\r\nConnection: close\r\n{buffering}\r\n{}",
            primer.unwrap_or_default(),
        ));
    }

    /// One event.
    pub fn event(&mut self, record: Option<&Arc<Record>>, message: &Value) {
        let id = record.map(|record| format!("id: {}\n", record.cursor(record.len())));
        self.write(&format!("{}data: {message}\n\n", id.unwrap_or_default()));
    }

    fn write(&mut self, text: &str) {
        let written = self.stream.write_all(text.as_bytes());
        self.defects
            .dies("dies-when-a-client-vanishes", written.is_err());
    }
}
