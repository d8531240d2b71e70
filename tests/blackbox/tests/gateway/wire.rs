//! What clients of `outlive serve` do on its own path, and how they leave it.

use std::io::{self, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

pub use http_peer::Reply;
pub use http_peer::message::*;
use rustix::net::sockopt::set_socket_linger;
use serde_json::json;

/// Sends a request on a connection of its own.
#[track_caller]
pub fn send(to: SocketAddr, method: &str, headers: &[(&str, &str)], body: &str) -> Reply {
    send_to(to, "/mcp", method, headers, body)
}

/// Sends a request to another path.
#[track_caller]
pub fn send_to(
    to: SocketAddr,
    path: &str,
    method: &str,
    headers: &[(&str, &str)],
    body: &str,
) -> Reply {
    http_peer::send(to, method, path, headers, body).expect("a response")
}

/// Sends this and goes away if there is no response within the time.
pub fn send_briefly(to: SocketAddr, body: &str, patience: Duration) -> Option<Reply> {
    let mut stream = TcpStream::connect(to).expect("a connection");
    stream.set_read_timeout(Some(patience)).expect("a timeout");
    let request = http_peer::head("POST", "/mcp", &[], body.len()) + body;
    stream.write_all(request.as_bytes()).expect("sent");
    Reply::read(stream).ok()
}

/// Begins a call that takes long, and breaks the connection.
pub fn reset_after(to: SocketAddr, session: &str) -> io::Result<()> {
    let body = call(9, "sleep", json!({"ms": 60_000})).to_string();
    let mut stream = TcpStream::connect(to)?;
    set_socket_linger(&stream, Some(Duration::ZERO))?;
    let headers = [("Mcp-Session-Id", session)];
    let request = http_peer::head("POST", "/mcp", &headers, body.len()) + &body;
    stream.write_all(request.as_bytes())
}
