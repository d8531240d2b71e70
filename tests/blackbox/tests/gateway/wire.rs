//! HTTP by hand: a client that sees every byte.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use rustix::net::sockopt::set_socket_linger;
use serde_json::{Value, json};

use crate::rig::PATIENCE;

/// Sends a request on a connection of its own.
pub fn send(to: SocketAddr, method: &str, headers: &[(&str, &str)], body: &str) -> Reply {
    try_send(to, method, headers, body).expect("a response")
}

/// The same, if it can be done.
pub fn try_send(
    to: SocketAddr,
    method: &str,
    headers: &[(&str, &str)],
    body: &str,
) -> io::Result<Reply> {
    try_send_to(to, "/mcp", method, headers, body)
}

/// Sends a request to another path.
#[allow(dead_code)] // Not every test does.
pub fn send_to(
    to: SocketAddr,
    path: &str,
    method: &str,
    headers: &[(&str, &str)],
    body: &str,
) -> Reply {
    try_send_to(to, path, method, headers, body).expect("a response")
}

/// The same, if it can be done.
pub fn try_send_to(
    to: SocketAddr,
    path: &str,
    method: &str,
    headers: &[(&str, &str)],
    body: &str,
) -> io::Result<Reply> {
    let mut stream = TcpStream::connect(to)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.write_all(head(path, method, headers, body.len()).as_bytes())?;
    stream.write_all(body.as_bytes())?;
    Reply::read(stream)
}

/// The same, with headers that replace the usual ones.
#[allow(dead_code)] // Not every test does.
pub fn try_send_anew(
    to: SocketAddr,
    path: &str,
    method: &str,
    headers: &[(&str, &str)],
    body: &str,
) -> io::Result<Reply> {
    let usual = [
        ("Host", "localhost"),
        ("Content-Type", "application/json"),
        ("Accept", "application/json, text/event-stream"),
    ];
    let is_new = |(name, _): &&(&str, &str)| headers.iter().all(|(known, _)| known != name);
    let mut head = format!(
        "{method} {path} HTTP/1.1\r\nContent-Length: {}\r\n",
        body.len()
    );
    for (name, value) in usual.iter().filter(is_new).chain(headers) {
        head += &format!("{name}: {value}\r\n");
    }
    let mut stream = TcpStream::connect(to)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.write_all((head + "\r\n").as_bytes())?;
    stream.write_all(body.as_bytes())?;
    Reply::read(stream)
}

/// Asks for a page with these headers and no others; the whole response.
#[allow(dead_code)] // Not every test does.
pub fn raw(to: SocketAddr, path: &str, headers: &[(&str, &str)]) -> String {
    let mut head = format!("GET {path} HTTP/1.1\r\nConnection: close\r\n");
    for (name, value) in headers {
        head += &format!("{name}: {value}\r\n");
    }
    let mut stream = TcpStream::connect(to).expect("a connection");
    stream.set_read_timeout(Some(PATIENCE)).expect("a timeout");
    stream.write_all((head + "\r\n").as_bytes()).expect("sent");
    let mut response = String::new();
    stream.read_to_string(&mut response).expect("a response");
    response
}

/// Sends this and goes away if there is no response within the time.
pub fn send_briefly(to: SocketAddr, body: &str, patience: Duration) -> Option<Reply> {
    let mut stream = TcpStream::connect(to).expect("a connection");
    stream.set_read_timeout(Some(patience)).expect("a timeout");
    stream
        .write_all(head("/mcp", "POST", &[], body.len()).as_bytes())
        .and_then(|()| stream.write_all(body.as_bytes()))
        .expect("sent");
    Reply::read(stream).ok()
}

/// Begins a call that takes long, and breaks the connection.
pub fn reset_after(to: SocketAddr, session: &str) -> io::Result<()> {
    let body = call(9, "sleep", json!({"ms": 60_000})).to_string();
    let mut stream = TcpStream::connect(to)?;
    set_socket_linger(&stream, Some(Duration::ZERO))?;
    let headers = [("Mcp-Session-Id", session)];
    stream.write_all(head("/mcp", "POST", &headers, body.len()).as_bytes())?;
    stream.write_all(body.as_bytes())
}

fn head(path: &str, method: &str, headers: &[(&str, &str)], length: usize) -> String {
    let mut head = format!(
        "{method} {path} HTTP/1.1\r\nContent-Length: {length}\r\nHost: localhost\r\n\
         Content-Type: application/json\r\nAccept: application/json, text/event-stream\r\n"
    );
    for (name, value) in headers {
        head += &format!("{name}: {value}\r\n");
    }
    head + "\r\n"
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

impl Reply {
    pub fn read(stream: TcpStream) -> io::Result<Reply> {
        let mut body = BufReader::new(stream);
        let mut line = || {
            let mut line = String::new();
            match body.read_line(&mut line)? {
                0 => Err(io::Error::from(io::ErrorKind::UnexpectedEof)),
                _ => Ok(line.trim_end().to_owned()),
            }
        };
        let status = line()?.split(' ').nth(1).and_then(|it| it.parse().ok());
        let status = status.ok_or(io::ErrorKind::InvalidData)?;
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
        Ok(reply)
    }

    pub fn header(&self, name: &str) -> Option<&str> {
        let found = self.headers.iter().find(|(known, _)| known == name);
        found.map(|(_, value)| value.as_str())
    }

    pub fn is_stream(&self) -> bool {
        self.header("content-type") == Some("text/event-stream")
    }

    /// The next byte of the body; `None` at its end. A body that breaks off is an error.
    fn byte(&mut self) -> io::Result<Option<u8>> {
        if self.left == 0 {
            if !self.chunked {
                return Ok(None);
            }
            let mut size = String::new();
            self.body.read_line(&mut size)?;
            let size = usize::from_str_radix(size.trim(), 16).map_err(io::Error::other)?;
            if size == 0 {
                return Ok(None);
            }
            self.left = size;
        }
        let mut byte = [0];
        self.body.read_exact(&mut byte)?;
        self.left -= 1;
        if self.left == 0 && self.chunked {
            self.body.read_line(&mut String::new())?;
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
        let text = self.text();
        serde_json::from_str(&text).unwrap_or_else(|e| panic!("{e}: {text}"))
    }

    fn line(&mut self) -> io::Result<Option<String>> {
        let mut line = Vec::new();
        loop {
            match self.byte()? {
                None => return Ok(None),
                Some(b'\n') => return Ok(Some(String::from_utf8(line).expect("UTF-8"))),
                Some(byte) => line.push(byte),
            }
        }
    }

    /// The data of the next event; `None` at the clean end of the stream. Comments are left out.
    pub fn event(&mut self) -> io::Result<Option<String>> {
        let mut data = None;
        loop {
            let Some(line) = self.line()? else {
                return Ok(None);
            };
            match line.split_once(':') {
                None if line.is_empty() && data.is_some() => return Ok(data),
                Some(("data", value)) => data = Some(value.trim().to_owned()),
                _ => {}
            }
        }
    }

    /// The next message on a stream; `None` at its clean end.
    pub fn next(&mut self) -> io::Result<Option<Value>> {
        loop {
            match self.event()? {
                None => return Ok(None),
                Some(data) if data.is_empty() => {}
                Some(data) => {
                    return serde_json::from_str(&data)
                        .map(Some)
                        .map_err(io::Error::other);
                }
            }
        }
    }

    /// The next message on a stream.
    pub fn message(&mut self) -> Value {
        self.next().expect("a whole event").expect("a message")
    }

    /// All messages of a response, however it is sent; the answer is the last.
    pub fn messages(mut self) -> Vec<Value> {
        if !self.is_stream() {
            return vec![self.json()];
        }
        let mut all = Vec::new();
        while let Some(message) = self.next().expect("a whole stream") {
            all.push(message);
        }
        all
    }

    /// The answer, however it is sent.
    pub fn answer(self) -> Value {
        self.messages().pop().expect("an answer")
    }
}

pub fn initialize(id: u64) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "method": "initialize", "params": {
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
    let params = json!({"name": tool, "arguments": arguments, "_meta": meta});
    modern(id, "tools/call", params)
}

/// The headers that belong to a modern request.
pub fn modern_headers(request: &Value) -> Vec<(String, String)> {
    let mut headers = vec![
        ("MCP-Protocol-Version".to_owned(), "2026-07-28".to_owned()),
        (
            "Mcp-Method".to_owned(),
            request["method"].as_str().unwrap_or_default().to_owned(),
        ),
    ];
    let params = &request["params"];
    if let Some(name) = params["name"].as_str().or(params["uri"].as_str()) {
        headers.push(("Mcp-Name".to_owned(), name.to_owned()));
    }
    headers
}

/// The head of a modern request.
pub fn modern_head(request: &Value) -> String {
    let headers = modern_headers(request);
    let headers: Vec<_> = headers.iter().map(|(n, v)| (&**n, &**v)).collect();
    head("/mcp", "POST", &headers, request.to_string().len())
}
