//! A server on a real socket, and a client that sees every byte.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Mutex;
use std::sync::mpsc::Receiver;
use std::time::Duration;

use outlive::server::{Http, Server, ServerHandle};
use serde_json::{Value, json};

/// Only a hang takes as long.
pub const HANG: Duration = Duration::from_secs(30);

/// A server that is being served.
pub struct Rig {
    pub address: SocketAddr,
    pub handle: ServerHandle,
    ended: Mutex<Receiver<()>>,
}

impl Rig {
    pub fn new(server: &Server) -> Rig {
        Rig::with(server, |http| http)
    }

    pub fn with(server: &Server, change: impl FnOnce(Http) -> Http) -> Rig {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .expect("a runtime");
        let http = change(server.http());
        let listening = runtime.block_on(http.bind("127.0.0.1:0")).expect("a port");
        let address = listening.local_addr();
        let (done, ended) = std::sync::mpsc::channel();
        std::thread::spawn(move || {
            runtime.block_on(listening.serve()).expect("served");
            runtime.shutdown_background();
            let _ = done.send(());
        });
        Rig {
            address,
            handle: server.handle(),
            ended: Mutex::new(ended),
        }
    }

    /// Whether `serve` has returned, if it does at all.
    pub fn has_ended(&self) -> bool {
        self.ended
            .lock()
            .expect("the end")
            .recv_timeout(HANG)
            .is_ok()
    }

    /// A request on a connection of its own.
    pub fn send(&self, method: &str, headers: &[(&str, &str)], body: &str) -> Reply {
        self.send_to("/mcp", method, headers, body)
    }

    /// The same to another address.
    pub fn send_to(&self, path: &str, method: &str, headers: &[(&str, &str)], body: &str) -> Reply {
        let mut stream = self.connect();
        stream
            .write_all(head_to(path, method, headers, body.len()).as_bytes())
            .and_then(|()| stream.write_all(body.as_bytes()))
            .expect("sent");
        Reply::read(stream).expect("a response")
    }

    pub fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(self.address).expect("a connection");
        stream.set_read_timeout(Some(HANG)).expect("a timeout");
        stream
    }

    /// A modern request, with the headers that belong to it.
    pub fn modern(&self, request: &Value) -> Reply {
        self.send(
            "POST",
            &as_strs(&modern_headers(request)),
            &request.to_string(),
        )
    }

    /// A legacy client that has shaken hands.
    pub fn client(&self) -> Client<'_> {
        let reply = self.send("POST", &[], &initialize().to_string());
        assert_eq!(reply.status, 200);
        let session = reply
            .header("mcp-session-id")
            .expect("a session")
            .to_owned();
        let client = Client { rig: self, session };
        let told = client.post(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}));
        assert_eq!(told.status, 202);
        client
    }
}

/// A legacy client.
pub struct Client<'a> {
    pub rig: &'a Rig,
    pub session: String,
}

impl Client<'_> {
    fn headers(&self) -> Vec<(&str, &str)> {
        vec![
            ("Mcp-Session-Id", &self.session),
            ("MCP-Protocol-Version", "2025-11-25"),
        ]
    }

    pub fn post(&self, message: &Value) -> Reply {
        self.rig.send("POST", &self.headers(), &message.to_string())
    }

    pub fn call(&self, id: u64, tool: &str, arguments: Value) -> Reply {
        self.post(&call(id, tool, arguments))
    }

    /// The standalone stream, or another from behind an event.
    pub fn listen(&self, after: Option<&str>) -> Reply {
        let mut headers = self.headers();
        headers.extend(after.map(|id| ("Last-Event-ID", id)));
        self.rig.send("GET", &headers, "")
    }

    pub fn leave(&self) -> Reply {
        self.rig.send("DELETE", &self.headers(), "")
    }
}

/// A response; its body is read as it comes.
pub struct Reply {
    pub status: u16,
    headers: Vec<(String, String)>,
    body: BufReader<TcpStream>,
    /// What is left of the present chunk, or of a body of known length.
    left: usize,
    chunked: bool,
}

/// A server-sent event.
#[derive(Debug, PartialEq)]
pub struct Event {
    pub kind: String,
    pub id: Option<String>,
    pub data: String,
}

impl Event {
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.data).unwrap_or_else(|e| panic!("{e}: {self:?}"))
    }
}

impl Reply {
    /// Reads the head of a response; `None` if the connection is closed instead.
    pub fn read(stream: TcpStream) -> Option<Reply> {
        let mut body = BufReader::new(stream);
        let mut line = || {
            let mut line = String::new();
            body.read_line(&mut line).ok()?;
            Some(line.trim_end().to_owned())
        };
        let status = line()?.split(' ').nth(1)?.parse().ok()?;
        let mut headers = Vec::new();
        while let Some((name, value)) = line()?.split_once(": ") {
            headers.push((name.to_ascii_lowercase(), value.to_owned()));
        }
        let mut reply = Reply {
            status,
            headers,
            body,
            left: 0,
            chunked: false,
        };
        reply.chunked = reply.header("transfer-encoding") == Some("chunked");
        let length = reply.header("content-length").map(str::parse);
        reply.left = length.map_or(0, |length| length.expect("a length"));
        Some(reply)
    }

    pub fn header(&self, name: &str) -> Option<&str> {
        let found = self.headers.iter().find(|(known, _)| known == name);
        found.map(|(_, value)| value.as_str())
    }

    pub fn is_stream(&self) -> bool {
        self.header("content-type") == Some("text/event-stream")
    }

    /// The next byte of the body; `None` at its end. A body that breaks off is an error.
    fn byte(&mut self) -> std::io::Result<Option<u8>> {
        if self.left == 0 {
            if !self.chunked {
                return Ok(None);
            }
            let mut size = String::new();
            self.body.read_line(&mut size)?;
            let size = usize::from_str_radix(size.trim(), 16).map_err(std::io::Error::other)?;
            if size == 0 {
                return Ok(None);
            }
            self.left = size;
        }
        let mut byte = [0];
        self.body.read_exact(&mut byte)?;
        self.left -= 1;
        if self.left == 0 && self.chunked {
            let mut end = String::new();
            self.body.read_line(&mut end)?;
        }
        Ok(Some(byte[0]))
    }

    /// The whole body.
    pub fn text(mut self) -> String {
        let mut body = Vec::new();
        while let Some(byte) = self.byte().expect("the whole body") {
            body.push(byte);
        }
        String::from_utf8(body).expect("UTF-8")
    }

    pub fn json(self) -> Value {
        assert_eq!(self.header("content-type"), Some("application/json"));
        let text = self.text();
        serde_json::from_str(&text).unwrap_or_else(|e| panic!("{e}: {text}"))
    }

    /// The answer, however it is sent.
    pub fn answer(mut self) -> Value {
        if !self.is_stream() {
            return self.json();
        }
        loop {
            let event = self.event().expect("an answer");
            if !event.data.is_empty() && event.json().get("method").is_none() {
                return event.json();
            }
        }
    }

    /// The next line of a stream; `None` at its end.
    pub fn line(&mut self) -> std::io::Result<Option<String>> {
        let mut line = Vec::new();
        loop {
            match self.byte()? {
                None => return Ok(None),
                Some(b'\n') => return Ok(Some(String::from_utf8(line).expect("UTF-8"))),
                Some(byte) => line.push(byte),
            }
        }
    }

    /// The next event; `None` at the end of the stream. Comments are left out.
    pub fn event(&mut self) -> Option<Event> {
        let mut event = Event {
            kind: String::new(),
            id: None,
            data: String::new(),
        };
        let mut begun = false;
        loop {
            let line = self.line().expect("an event")?;
            match line.split_once(':') {
                _ if line.is_empty() && begun => return Some(event),
                None | Some(("", _)) => continue,
                Some(("event", kind)) => event.kind = kind.trim().to_owned(),
                Some(("id", id)) => event.id = Some(id.trim().to_owned()),
                Some(("data", data)) => event.data = data.trim().to_owned(),
                Some(_) => {}
            }
            begun = true;
        }
    }

    /// The next event with a message.
    pub fn message(&mut self) -> Value {
        loop {
            let event = self.event().expect("an event");
            if !event.data.is_empty() {
                return event.json();
            }
        }
    }
}

pub fn head(method: &str, headers: &[(&str, &str)], length: usize) -> String {
    head_to("/mcp", method, headers, length)
}

fn head_to(path: &str, method: &str, headers: &[(&str, &str)], length: usize) -> String {
    let mut head = format!("{method} {path} HTTP/1.1\r\nContent-Length: {length}\r\n");
    let usual = [
        ("Host", "localhost"),
        ("Content-Type", "application/json"),
        ("Accept", "application/json, text/event-stream"),
    ];
    let named = |name: &str| {
        headers
            .iter()
            .any(|(known, _)| known.eq_ignore_ascii_case(name))
    };
    let usual = usual.iter().filter(|(name, _)| !named(name));
    for (name, value) in usual.chain(headers) {
        head.push_str(&format!("{name}: {value}\r\n"));
    }
    head + "\r\n"
}

pub fn initialize() -> Value {
    json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {
        "protocolVersion": "2025-11-25",
        "capabilities": {"elicitation": {}},
        "clientInfo": {"name": "test", "version": "1"},
    }})
}

pub fn call(id: u64, tool: &str, arguments: Value) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": {
        "name": tool, "arguments": arguments, "_meta": {"progressToken": id},
    }})
}

/// A request that speaks for itself.
pub fn modern(id: u64, method: &str, mut params: Value) -> Value {
    let meta = &mut params["_meta"];
    meta["io.modelcontextprotocol/protocolVersion"] = "2026-07-28".into();
    meta["io.modelcontextprotocol/clientCapabilities"] = json!({});
    json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params})
}

pub fn modern_call(id: u64, tool: &str, arguments: Value) -> Value {
    let meta = json!({"progressToken": id});
    modern(
        id,
        "tools/call",
        json!({"name": tool, "arguments": arguments, "_meta": meta}),
    )
}

pub fn modern_headers(request: &Value) -> Vec<(String, String)> {
    let params = &request["params"];
    let mut headers = vec![
        ("MCP-Protocol-Version".into(), "2026-07-28".into()),
        (
            "Mcp-Method".into(),
            request["method"].as_str().expect("a method").into(),
        ),
    ];
    if let Some(name) = params["name"].as_str().or(params["uri"].as_str()) {
        headers.push(("Mcp-Name".into(), name.into()));
    }
    headers
}

pub fn as_strs(headers: &[(String, String)]) -> Vec<(&str, &str)> {
    headers
        .iter()
        .map(|(name, value)| (name.as_str(), value.as_str()))
        .collect()
}

pub fn text_of(answer: &Value) -> &str {
    answer["result"]["content"][0]["text"]
        .as_str()
        .unwrap_or_else(|| panic!("no text: {answer}"))
}
