//! `outlive serve` behind a provider, and its clients.

use http_peer::{Reply, message};
use serde_json::{Value, json};

use crate::fleet::Fleet;
use crate::issuer::{AUDIENCE, Issuer};
use crate::place::{Place, names};
use crate::rig::Setup;

/// Two fakes, `one` and `two`, behind this provider, with these flags beside.
pub fn gate(place: &Place, issuer: &Issuer, more: &[&str]) -> Fleet {
    let servers = json!({ "one": place.fake("one", &[]), "two": place.fake("two", &[]) });
    gate_to(place, &servers, issuer, more)
}

pub fn gate_to(place: &Place, servers: &Value, issuer: &Issuer, more: &[&str]) -> Fleet {
    let flags = place.flags(servers);
    let name = issuer.name();
    let mut flags: Vec<&str> = flags.iter().map(String::as_str).collect();
    flags.extend(["--oauth-issuer", &name, "--audience", AUDIENCE]);
    flags.extend(more);
    Fleet::start(Setup::new(), &flags)
}

pub fn send(
    fleet: &Fleet,
    method: &str,
    path: &str,
    token: &str,
    session: &str,
    body: &str,
) -> Reply {
    let token = format!("Bearer {token}");
    let mut headers = vec![("Authorization", token.as_str())];
    if !session.is_empty() {
        headers.push(("Mcp-Session-Id", session));
    }
    http_peer::send(fleet.address, method, path, &headers, body).expect("a response")
}

/// The response to a handshake with this token.
pub fn hello(fleet: &Fleet, token: &str) -> Reply {
    let body = message::initialize().to_string();
    send(fleet, "POST", "/mcp", token, "", &body)
}

/// The session of a client with this token at a path.
#[track_caller]
pub fn session(fleet: &Fleet, path: &str, token: &str) -> String {
    let body = message::initialize().to_string();
    let reply = send(fleet, "POST", path, token, "", &body);
    let status = reply.status;
    assert_eq!(status, 200);
    reply.header("mcp-session-id").expect("a session").into()
}

/// The tools that a session shows.
#[track_caller]
pub fn tools(fleet: &Fleet, path: &str, token: &str, session: &str) -> Vec<String> {
    let list = json!({ "jsonrpc": "2.0", "id": 2, "method": "tools/list" }).to_string();
    let reply = send(fleet, "POST", path, token, session, &list);
    let status = reply.status;
    assert_eq!(status, 200);
    names(reply.answer()["result"]["tools"].as_array().expect("tools"))
}

pub fn ping(fleet: &Fleet, token: &str, session: &str) -> u16 {
    let ping = json!({ "jsonrpc": "2.0", "id": 3, "method": "ping" }).to_string();
    send(fleet, "POST", "/mcp", token, session, &ping).status
}
