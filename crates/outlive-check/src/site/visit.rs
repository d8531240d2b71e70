//! A request that a scenario does something about, and the way back to whoever made it.

use std::time::Duration;

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::journal::Leg;
use crate::puppet;

use super::{Answer, Seen};

const STREAM: &str = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nCache-Control: no-cache\r\n\
    Transfer-Encoding: chunked\r\nConnection: close\r\n\r\n";

/// A request that is not answered yet. Whoever drops it closes the connection.
#[derive(Debug)]
pub struct Visit {
    /// What came.
    pub seen: Seen,
    stream: TcpStream,
    leg: Leg,
}

// What a client does not read it does not hear; the check sees by other means what came of that.
impl Visit {
    pub(super) fn new(seen: Seen, stream: TcpStream, leg: Leg) -> Visit {
        Visit { seen, stream, leg }
    }

    pub(super) fn into_stream(self) -> TcpStream {
        self.stream
    }

    /// The id of the request.
    pub fn id(&self) -> &Value {
        &self.seen.message["id"]
    }

    // ---- at once

    /// Answers, and closes the connection.
    pub async fn say(mut self, answer: Answer) {
        self.leg.sent(answer.words().as_bytes());
        self.write(&answer.bytes(false)).await;
    }

    /// Answers a call with a text, as JSON.
    pub async fn answer(self, text: &str) {
        let answer = Answer::json(200, &self.result(text));
        self.say(answer).await;
    }

    /// The answer to a call: a text.
    pub fn result(&self, text: &str) -> Value {
        puppet::answer(&self.seen.message, text)
    }

    /// Writes bytes as they are.
    pub async fn raw(&mut self, bytes: &[u8]) {
        self.leg.sent(bytes);
        self.write(bytes).await;
    }

    // ---- as a stream

    /// Begins a stream, with an event that is empty but for its id if there is one.
    pub async fn open_stream(&mut self, id: Option<&str>) {
        self.leg.note("a stream begins");
        self.write(STREAM.as_bytes()).await;
        if let Some(id) = id {
            self.piece(&format!("id: {id}\ndata:\n\n")).await;
        }
    }

    /// Sends a message on the stream.
    pub async fn event(&mut self, id: Option<&str>, message: &Value) {
        let id = id.map(|id| format!("id: {id}\n")).unwrap_or_default();
        self.piece(&format!("{id}data: {message}\n\n")).await;
    }

    /// Sends a request on the stream.
    pub async fn asks(&mut self, id: &str, method: &str) {
        let message = json!({ "jsonrpc": "2.0", "id": id, "method": method });
        self.event(None, &message).await;
    }

    /// Sends a piece of a stream as it is.
    pub async fn piece(&mut self, text: &str) {
        self.leg.sent(text.as_bytes());
        let chunk = format!("{:x}\r\n{text}\r\n", text.len());
        self.write(chunk.as_bytes()).await;
    }

    /// Ends the stream as HTTP would have it.
    pub async fn end(mut self) {
        self.leg.note("the stream ends");
        self.write(b"0\r\n\r\n").await;
    }

    // ---- not at all

    /// Closes the connection in the middle.
    pub fn cut(self) {
        self.leg.note("the connection is closed");
    }

    /// Resets the connection.
    pub fn reset(self) {
        self.leg.note("the connection is reset");
        let _ = self.stream.set_zero_linger();
    }

    /// Waits until the client has closed the connection.
    pub async fn closed(&mut self, timeout: Duration) -> bool {
        self.leg.waits_for("the end of a connection");
        tokio::time::timeout(timeout, self.left_alone())
            .await
            .is_ok()
    }

    /// Reads until the client has closed the connection.
    pub(super) async fn left_alone(&mut self) {
        let mut rest = [0; 1024];
        while let Ok(1..) = self.stream.read(&mut rest).await {}
    }

    async fn write(&mut self, bytes: &[u8]) {
        let _ = self.stream.write_all(bytes).await;
    }
}
