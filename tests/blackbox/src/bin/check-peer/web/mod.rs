//! The same server over Streamable HTTP, of both eras: one thread for each connection, one request on
//! each. It prints its address and serves until it is killed.

mod exchange;
mod sessions;

use std::io::{BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use http_peer::Request;
use serde_json::{Value, json};

use crate::defects::Defects;
use crate::server::output::Output;
use crate::server::{LEGACY, MODERN, Server, VERSION_KEY};
use exchange::Exchange;
use sessions::Sessions;

/// The whole of it.
pub struct Web {
    pub defects: Arc<Defects>,
    pub sessions: Sessions,
    /// Serves what belongs to no session.
    modern: Arc<Server>,
}

/// Serves until it is killed.
pub fn main(defects: Defects) -> ExitCode {
    let listener = match TcpListener::bind("127.0.0.1:0") {
        Ok(listener) => listener,
        Err(error) => {
            eprintln!("check-peer: {error}");
            return ExitCode::FAILURE;
        }
    };
    let port = listener.local_addr().map_or(0, |address| address.port());
    println!("http://127.0.0.1:{port}/mcp");
    let defects = Arc::new(defects);
    let web = Arc::new(Web {
        sessions: Sessions::default(),
        modern: Server::new(defects.clone()),
        defects,
    });
    for stream in listener.incoming().flatten() {
        let served = web.clone();
        let serve = move || served.serve(stream);
        match web.has("one-connection-at-a-time") {
            true => serve(),
            false => drop(thread::spawn(serve)),
        }
    }
    ExitCode::SUCCESS
}

impl Web {
    /// Whether it has a defect.
    pub fn has(&self, defect: &str) -> bool {
        self.defects.has(defect)
    }

    fn serve(&self, stream: TcpStream) {
        let hurry = self.has("impatient-reader");
        let timeout = Duration::from_millis(if hurry { 200 } else { 10_000 });
        let Some(request) = read(&stream, timeout) else {
            self.defects.dies("dies-on-cut-off-body", true);
            return;
        };
        let mut exchange = Exchange::new(stream, self.defects.clone());
        self.answer(&request, &mut exchange);
        if self.has("one-connection-at-a-time") {
            // And it waits for the client to leave.
            let _ = exchange.stream.read(&mut [0; 64]);
        }
    }

    fn answer(&self, request: &Request, exchange: &mut Exchange) {
        let origin = request.header("origin").unwrap_or_default();
        if !origin.is_empty() && !origin.contains("127.0.0.1") && !self.has("trusts-every-origin") {
            return exchange.refuse(403, &Value::Null, -32600, "not from there");
        }
        match request.method.as_str() {
            "POST" => self.post(request, exchange),
            "GET" if self.has("get-is-404") => exchange.refuse(404, &Value::Null, -32600, "no"),
            "GET" => match self.sessions.find(request) {
                Some(session) => self.listen(request, &session, exchange),
                None => exchange.refuse(405, &Value::Null, -32600, "no stream"),
            },
            "DELETE" => match self.sessions.find(request) {
                Some(_) if self.has("keeps-deleted-sessions") => exchange.empty(200),
                Some(session) => {
                    self.sessions.forget(&session.name);
                    exchange.empty(200);
                }
                None => exchange.refuse(404, &Value::Null, -32600, "no such session"),
            },
            _ if self.has("fails-on-odd-methods") => exchange.empty(500),
            _ => exchange.empty(405),
        }
    }

    fn post(&self, request: &Request, exchange: &mut Exchange) {
        let message = serde_json::from_slice::<Value>(&request.body).unwrap_or_default();
        let settles = message.get("result").is_some() || message.get("error").is_some();
        let sound = message["jsonrpc"] == "2.0" && (message["method"].is_string() || settles);
        if !sound {
            return match self.has("accepts-anything") {
                true => exchange.empty(202),
                false => exchange.refuse(400, &Value::Null, -32700, "that is no message"),
            };
        }
        let id = message["id"].clone();
        let inside = message["params"]["_meta"][VERSION_KEY].as_str();
        if inside.is_some() || request.header("mcp-protocol-version") == Some(MODERN) {
            return self.modern(request, &message, inside.unwrap_or(MODERN), exchange);
        }
        let method = message["method"].as_str().unwrap_or_default();
        if method == "initialize" {
            let stale = request.header("mcp-session-id").is_some();
            if stale && self.has("refuses-stale-initialize") {
                return exchange.refuse(404, &id, -32600, "no such session");
            }
            let session = self.sessions.begin(&self.defects);
            exchange.session = Some(session.name.clone());
            return self.converse(&session.server, &message, None, exchange);
        }
        let version = request.header("mcp-protocol-version").unwrap_or(LEGACY[0]);
        if !LEGACY.contains(&version) && !self.has("ignores-version-header") {
            return exchange.refuse(400, &id, -32600, "unknown version");
        }
        match (
            request.header("mcp-session-id"),
            self.sessions.find(request),
        ) {
            (_, Some(session)) => {
                self.converse(&session.server, &message, Some(&session), exchange)
            }
            (None, None) if !self.has("missing-session-is-404") => {
                exchange.refuse(400, &id, -32600, "which session?");
            }
            (Some(_), None) if self.has("unknown-session-is-400") => {
                exchange.refuse(400, &id, -32600, "no such session");
            }
            _ => exchange.refuse(404, &id, -32600, "no such session"),
        }
    }

    fn modern(&self, request: &Request, message: &Value, version: &str, exchange: &mut Exchange) {
        let id = message["id"].clone();
        let method = message["method"].as_str().unwrap_or_default();
        if request.header("mcp-method") != Some(method) && !self.has("ignores-contradictions") {
            return exchange.refuse(400, &id, -32020, "Mcp-Method contradicts the body");
        }
        exchange.status = match method {
            _ if version != MODERN => 400,
            "server/discover" | "tools/list" | "tools/call" => 200,
            _ if self.has("unknown-method-is-200") => 200,
            _ => 404,
        };
        self.converse(&self.modern, message, None, exchange);
    }

    /// Hands a message to a server and writes what it says until it has answered.
    fn converse(
        &self,
        server: &Arc<Server>,
        message: &Value,
        session: Option<&Arc<sessions::Session>>,
        exchange: &mut Exchange,
    ) {
        let (sender, said) = mpsc::channel();
        server.take(message, &Output::Exchange(sender));
        let is_request = message["method"].is_string() && !message["id"].is_null();
        if !is_request {
            return match self.has("answers-notifications") {
                true => exchange.json(200, &json!({})),
                false => exchange.empty(202),
            };
        }
        let settles = |said: &Value| said["id"] == message["id"] && said.get("method").is_none();
        let first = said.recv_timeout(Duration::from_millis(50));
        if let Ok(first) = &first
            && settles(first)
        {
            let answer = match self.has("crosses-answers") {
                true => self.sessions.crossed(first),
                false => first.clone(),
            };
            return exchange.json(exchange.status, &answer);
        }
        let cut = session.map(|session| session.record());
        exchange.stream(cut.as_ref());
        for said in first.into_iter().chain(said) {
            if let Some(cut) = &cut {
                cut.push(&said);
            }
            exchange.event(cut.as_ref(), &said);
            if settles(&said) {
                break;
            }
        }
    }

    /// A stream of a client's own, or one that was cut.
    fn listen(&self, request: &Request, session: &Arc<sessions::Session>, exchange: &mut Exchange) {
        exchange.stream(None);
        let cursor = request
            .header("last-event-id")
            .and_then(|cursor| session.find(cursor));
        let Some((cut, seen)) = cursor else {
            // Nothing to say, until the client leaves.
            while exchange.stream.write_all(b": still here\n\n").is_ok() {
                thread::sleep(Duration::from_millis(50));
            }
            return;
        };
        if self.has("forgets-cut-streams") {
            return;
        }
        for said in cut.follow(seen) {
            exchange.event(Some(&cut), &said);
        }
    }
}

/// Reads a request, if it comes in time and whole.
fn read(stream: &TcpStream, timeout: Duration) -> Option<Request> {
    let begun = Instant::now();
    stream.set_read_timeout(Some(timeout)).ok()?;
    let request = Request::read(&mut BufReader::new(stream)).ok()?;
    // The patience is for each piece, and for the whole.
    (begun.elapsed() <= timeout).then_some(request)
}
