//! A server over Streamable HTTP, by hand: every byte is ours, so every byte can be wrong.
//!
//! Each exchange has a connection of its own. What comes is put into the inbox, whichever exchange it
//! came on; a refusal with a status is filed as an answer, and an exchange that ends without one as
//! lost.

mod address;
mod body;
mod head;
mod reply;

use std::collections::HashMap;
use std::io;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio::task::{AbortHandle, JoinHandle};

pub use address::Address;
pub use body::{Body, Framing};
pub use head::Head;
use reply::enough;
pub use reply::{Piece, Reply};

use crate::Era;
use crate::inbox::Inbox;
use crate::journal::Leg;

/// Headers, in order.
pub type Headers = Vec<(String, String)>;

/// One client of a server over HTTP.
#[derive(Debug)]
pub struct Web {
    pub address: Address,
    pub era: Era,
    leg: Leg,
    inbox: Arc<Inbox>,
    timeout: Duration,
    session: Arc<Mutex<Option<String>>>,
    open: HashMap<String, AbortHandle>,
}

impl Web {
    /// A client that has said nothing yet.
    pub fn new(address: Address, era: Era, timeout: Duration, inbox: Arc<Inbox>, leg: Leg) -> Web {
        let (session, open) = (Arc::default(), HashMap::new());
        Web {
            address,
            era,
            leg,
            inbox,
            timeout,
            session,
            open,
        }
    }

    /// The session the server gave it, if it gave one.
    pub fn session(&self) -> Option<String> {
        self.session
            .lock()
            .unwrap_or_else(|broken| broken.into_inner())
            .clone()
    }

    /// Goes on without a session.
    pub fn forget_session(&self) {
        self.session
            .lock()
            .unwrap_or_else(|broken| broken.into_inner())
            .take();
    }

    /// The headers that go with a message.
    pub fn headers(&self, message: &Value) -> Headers {
        let mut headers: Headers = vec![
            ("Content-Type".into(), "application/json".into()),
            (
                "Accept".into(),
                "application/json, text/event-stream".into(),
            ),
        ];
        let mut add = |name: &str, value: &str| headers.push((name.into(), value.into()));
        if let Some(session) = self.session() {
            add("Mcp-Session-Id", &session);
        }
        let method = message["method"].as_str().unwrap_or_default();
        if self.era == Era::Modern {
            let meta = &message["params"]["_meta"]["io.modelcontextprotocol/protocolVersion"];
            add(
                "MCP-Protocol-Version",
                meta.as_str().unwrap_or(Era::Modern.newest()),
            );
            add("Mcp-Method", method);
            let name = message["params"]["name"]
                .as_str()
                .or(message["params"]["uri"].as_str());
            if let Some(name) = name {
                add("Mcp-Name", name);
            }
        } else if method != "initialize" {
            add("MCP-Protocol-Version", Era::Legacy.newest());
        }
        headers
    }

    /// Posts a body. A request is read in the background; of anything else the end is waited for.
    pub async fn post(&mut self, body: &[u8]) -> io::Result<()> {
        if let Some(task) = self.throw(body).await? {
            let _ = tokio::time::timeout(self.timeout, task).await;
        }
        Ok(())
    }

    /// Posts a body and waits for nothing. What is read of anything but a request is given back.
    pub async fn throw(&mut self, body: &[u8]) -> io::Result<Option<JoinHandle<()>>> {
        let message = serde_json::from_slice::<Value>(body).unwrap_or_default();
        let headers = self.headers(&message);
        let id = message
            .get("id")
            .filter(|_| message["method"].is_string())
            .cloned();
        let stream = self.send("POST", &headers, body).await;
        let stream = match (stream, &id) {
            (Ok(stream), _) => stream,
            (Err(error), id) => {
                if let Some(id) = id {
                    self.inbox
                        .lose(id, format!("the request could not be sent: {error}"));
                }
                return Err(error);
            }
        };
        let reading = Exchange {
            id: id.clone(),
            inbox: self.inbox.clone(),
            leg: self.leg.clone(),
            session: self.session.clone(),
            first: message["method"] == "initialize",
        };
        let task = tokio::spawn(reading.read(stream));
        Ok(match id {
            Some(id) => {
                self.open.insert(id.to_string(), task.abort_handle());
                None
            }
            None => Some(task),
        })
    }

    /// Closes the connection that a request was sent on: the modern way to cancel it.
    pub fn hang_up(&mut self, id: &Value) {
        if let Some(task) = self.open.remove(&id.to_string()) {
            self.leg
                .note(format!("the connection of request {id} is closed"));
            task.abort();
        }
    }

    /// Sends a request of any kind and reads the head of the reply.
    pub async fn exchange(
        &self,
        method: &str,
        headers: &Headers,
        body: &[u8],
    ) -> io::Result<Reply> {
        let late = || io::Error::new(io::ErrorKind::TimedOut, "nothing came in time");
        let stream = self.send(method, headers, body).await?;
        let reply = tokio::time::timeout(self.timeout, Reply::head(stream)).await;
        let reply = reply.map_err(|_| late())??;
        self.leg.received(reply.words().as_bytes());
        Ok(reply)
    }

    /// A connection.
    pub async fn connect(&self) -> io::Result<TcpStream> {
        let late = || io::Error::new(io::ErrorKind::TimedOut, "no connection in time");
        let stream = TcpStream::connect((self.address.host.as_str(), self.address.port));
        let stream = tokio::time::timeout(self.timeout, stream)
            .await
            .map_err(|_| late())??;
        stream.set_nodelay(true)?;
        Ok(stream)
    }

    /// The bytes of a request.
    pub fn bytes(&self, method: &str, headers: &Headers, body: &[u8]) -> Vec<u8> {
        let mut head = format!("{method} {} HTTP/1.1\r\n", self.address.path);
        let given = |name: &str| {
            headers
                .iter()
                .any(|(other, _)| other.eq_ignore_ascii_case(name))
        };
        if !given("Host") {
            head.push_str(&format!("Host: {}\r\n", self.address.authority()));
        }
        if !given("Content-Length") && method != "GET" {
            head.push_str(&format!("Content-Length: {}\r\n", body.len()));
        }
        if !given("Connection") {
            head.push_str("Connection: close\r\n");
        }
        for (name, value) in headers {
            head.push_str(&format!("{name}: {value}\r\n"));
        }
        head.push_str("\r\n");
        [head.as_bytes(), body].concat()
    }

    async fn send(&self, method: &str, headers: &Headers, body: &[u8]) -> io::Result<TcpStream> {
        let mut stream = self.connect().await?;
        self.leg.sent(&[method.as_bytes(), b" ", body].concat());
        let late = || io::Error::new(io::ErrorKind::TimedOut, "it is not read");
        let bytes = self.bytes(method, headers, body);
        let written = tokio::time::timeout(self.timeout, stream.write_all(&bytes)).await;
        match written.map_err(|_| late())? {
            // Whoever refuses a request need not read it to its end: the refusal is there to be read.
            Err(error) if error.kind() == io::ErrorKind::ConnectionReset => {}
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => {}
            written => written?,
        }
        Ok(stream)
    }
}

impl Drop for Web {
    fn drop(&mut self) {
        for task in self.open.values() {
            task.abort();
        }
    }
}

/// An exchange that is being read.
struct Exchange {
    id: Option<Value>,
    inbox: Arc<Inbox>,
    leg: Leg,
    session: Arc<Mutex<Option<String>>>,
    first: bool,
}

impl Exchange {
    async fn read(self, stream: TcpStream) {
        let why = match self.try_read(stream).await {
            Ok(()) => "the connection ended without an answer".into(),
            Err(error) => format!("the connection broke: {error}"),
        };
        if let Some(id) = &self.id
            && self.inbox.lose(id, why.clone())
        {
            self.leg.note(why);
        }
    }

    async fn try_read(&self, stream: TcpStream) -> io::Result<()> {
        let mut reply = Reply::head(stream).await?;
        if self.first
            && let Some(session) = reply.header("Mcp-Session-Id")
        {
            let mut known = self
                .session
                .lock()
                .unwrap_or_else(|broken| broken.into_inner());
            *known = Some(session.to_owned());
        }
        let (status, words) = (reply.status, reply.words());
        if status >= 300 || reply.header("Content-Type").is_none() {
            self.leg.note(words);
        }
        let mut body = Vec::new();
        while let Some(piece) = reply.piece().await? {
            match piece {
                Piece::Event(event) if !event.data.is_empty() => {
                    self.leg.received(event.data.as_bytes());
                    self.inbox.take(event.data.as_bytes());
                }
                Piece::Event(_) => {}
                Piece::Bytes(bytes) => body.extend(bytes),
            }
            enough(&body)?;
        }
        if !body.is_empty() {
            self.leg.received(&body);
        }
        let message = serde_json::from_slice::<Value>(&body).ok();
        let names_it = message
            .as_ref()
            .is_some_and(|message| message.get("id") == self.id.as_ref());
        match &self.id {
            Some(id) if status >= 300 && !names_it => {
                // A refusal is an answer; HTTP itself says to what.
                let text: String = String::from_utf8_lossy(&body).chars().take(300).collect();
                let error = message.and_then(|message| message.get("error").cloned());
                let error = error.unwrap_or_else(|| json!({ "code": 0, "message": text }));
                let filed = json!({ "jsonrpc": "2.0", "id": id, "error": error, "status": status });
                self.inbox.take(filed.to_string().as_bytes());
            }
            _ if !body.is_empty() => self.inbox.take(&body),
            _ => {}
        }
        Ok(())
    }
}
