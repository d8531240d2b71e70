//! HTTP/1.1 by hand, for tests: either end of a connection, with every byte in the test's hands.
//!
//! A test that behaves well uses [`send`] and [`Reply`] as a client, [`Request`] and [`response`] as a server. One that
//! does not takes the bytes of a [`head`], writes as much of them as it likes to a socket of its own, and reads a
//! [`Reply`] from that socket if there is one. Nothing here is shared with what is tested.

mod body;
mod event;
mod head;
pub mod message;
mod reply;
mod request;

use std::io::{self, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

pub use event::Event;
pub use head::Head;
pub use reply::Reply;
pub use request::Request;

/// Names and values.
pub type Headers<'a> = &'a [(&'a str, &'a str)];

/// How long a client waits for the next bytes: only a hang takes as long.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// Opens a connection that is read with patience.
pub fn connect(to: SocketAddr) -> io::Result<TcpStream> {
    let stream = TcpStream::connect(to)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    Ok(stream)
}

/// Sends a request on a connection of its own, and reads the head of the response.
pub fn send(
    to: SocketAddr,
    method: &str,
    path: &str,
    headers: Headers,
    body: &str,
) -> io::Result<Reply> {
    let mut stream = connect(to)?;
    stream.write_all(head(method, path, headers, body.len()).as_bytes())?;
    stream.write_all(body.as_bytes())?;
    Reply::read(stream)
}

/// The head of a request with a body of this length. The headers are those that MCP asks for, unless they are given.
pub fn head(method: &str, path: &str, headers: Headers, length: usize) -> String {
    let usual = [
        ("Host", "localhost"),
        ("Content-Type", "application/json"),
        ("Accept", "application/json, text/event-stream"),
    ];
    let given = |name: &str| {
        headers
            .iter()
            .any(|(other, _)| other.eq_ignore_ascii_case(name))
    };
    let mut head = format!("{method} {path} HTTP/1.1\r\nContent-Length: {length}\r\n");
    for (name, value) in usual.iter().filter(|(name, _)| !given(name)).chain(headers) {
        head.push_str(&format!("{name}: {value}\r\n"));
    }
    head + "\r\n"
}

/// A whole response.
pub fn response(status: u16, headers: Headers, body: &str) -> String {
    let mut text = format!("HTTP/1.1 {status} -\r\nContent-Length: {}\r\n", body.len());
    for (name, value) in headers {
        text.push_str(&format!("{name}: {value}\r\n"));
    }
    format!("{text}\r\n{body}")
}
