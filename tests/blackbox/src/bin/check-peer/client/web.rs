//! The connection of the client to a server over HTTP: a thread and a socket for each exchange.

use std::collections::HashMap;
use std::io::{self, ErrorKind, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use http_peer::{Event, Headers, Reply};
use serde_json::{Value, json};

use super::{Connection, End, Waiter, lock};
use crate::defects::Defects;

const LEGACY: &str = "2025-11-25";
const MODERN: &str = "2026-07-28";
const VERSION_KEY: &str = "io.modelcontextprotocol/protocolVersion";
/// How long a server has to take a farewell.
const FAREWELL: Duration = Duration::from_secs(1);
/// The pause before a stream is asked for again.
const PAUSE: Duration = Duration::from_millis(300);
/// So often the rest of a stream is asked for.
const ATTEMPTS: usize = 4;

/// The session, and how many there have been.
#[derive(Clone, Default)]
struct Session {
    name: Option<String>,
    nth: u64,
}

/// A connection.
pub struct Visitor {
    defects: Arc<Defects>,
    /// Host and port.
    authority: String,
    path: String,
    session: Mutex<Session>,
    modern: AtomicBool,
    /// Held by whoever begins a session.
    beginning: Mutex<()>,
    /// Held by whoever asks, if one has to wait for the other.
    turn: Mutex<()>,
    waiters: Mutex<HashMap<String, Waiter>>,
    /// The sockets of exchanges, by the id of the request.
    sockets: Mutex<HashMap<String, TcpStream>>,
    next: AtomicU64,
    over: AtomicBool,
}

impl Visitor {
    /// Reaches the server and shakes hands.
    pub fn open(url: &str, defects: Arc<Defects>) -> Result<Arc<Visitor>, String> {
        let rest = url.strip_prefix("http://").ok_or("only http://")?;
        let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
        let visitor = Arc::new(Visitor {
            defects,
            authority: authority.to_owned(),
            path: path.to_owned(),
            session: Mutex::default(),
            modern: AtomicBool::new(true),
            beginning: Mutex::default(),
            turn: Mutex::default(),
            waiters: Mutex::default(),
            sockets: Mutex::default(),
            next: AtomicU64::new(1),
            over: AtomicBool::new(false),
        });
        let found = visitor.handshake("server/discover", json!({}));
        if found.is_ok_and(|(answer, _)| answer["result"]["supportedVersions"].is_array()) {
            return Ok(visitor);
        }
        visitor.modern.store(false, Ordering::SeqCst);
        visitor.begin(0)?;
        let listening = visitor.clone();
        thread::spawn(move || listening.listen());
        Ok(visitor)
    }

    fn has(&self, defect: &str) -> bool {
        self.defects.has(defect)
    }

    fn is_modern(&self) -> bool {
        self.modern.load(Ordering::SeqCst)
    }

    fn session(&self) -> Session {
        lock(&self.session).clone()
    }

    fn message(&self, method: &str, mut params: Value) -> Value {
        let id = self.next.fetch_add(1, Ordering::SeqCst);
        if self.is_modern() {
            params["_meta"] = json!({
                VERSION_KEY: MODERN,
                "io.modelcontextprotocol/clientInfo": { "name": "check-peer", "version": "1.0" },
                "io.modelcontextprotocol/clientCapabilities": {},
            });
        }
        json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params })
    }

    // ---- sessions

    /// Begins a session, unless somebody has done so since the nth.
    fn begin(&self, nth: u64) -> Result<(), String> {
        let _alone = lock(&self.beginning);
        let known = self.session();
        if known.nth != nth && !self.has("initializes-for-each") {
            return Ok(());
        }
        if !self.has("names-stale-session") {
            lock(&self.session).name = None;
        }
        let client = json!({ "name": "check-peer", "version": "1.0" });
        let params = json!({ "protocolVersion": LEGACY, "capabilities": {}, "clientInfo": client });
        let (answer, name) = self.handshake("initialize", params)?;
        if answer.get("result").is_none() {
            return Err(format!("initialize was answered with {answer}"));
        }
        let nth = known.nth + 1;
        *lock(&self.session) = Session { name, nth };
        let done = json!({ "jsonrpc": "2.0", "method": "notifications/initialized" });
        let _ = self.post(&done, None);
        Ok(())
    }

    fn handshake(&self, method: &str, params: Value) -> Result<(Value, Option<String>), String> {
        let message = self.message(method, params);
        let timeout = match self.has("impatient") {
            true => Duration::from_millis(500),
            false => Duration::from_secs(30),
        };
        let failed = |error: io::Error| self.words(&error.to_string());
        let mut reply = self.post(&message, Some(timeout)).map_err(failed)?;
        if reply.status >= 300 {
            return Err(self.words(&format!("status {}", reply.status)));
        }
        let text = reply.try_text().map_err(failed)?;
        let name = reply.header("mcp-session-id").map(str::to_owned);
        Ok((serde_json::from_str(&text).unwrap_or_default(), name))
    }

    fn words(&self, why: &str) -> String {
        match self.has("hides-failures") {
            true => "Connection closed".into(),
            false => why.to_owned(),
        }
    }

    // ---- exchanges

    fn post(&self, message: &Value, timeout: Option<Duration>) -> io::Result<Reply> {
        let mut headers = Vec::new();
        let method = message["method"].as_str().unwrap_or_default();
        let quiet = message.get("id").is_none();
        if self.is_modern() {
            headers.extend([("MCP-Protocol-Version", MODERN), ("Mcp-Method", method)]);
            let name = message["params"]["name"].as_str();
            let name = name.filter(|_| !self.has("omits-name-header"));
            headers.extend(name.map(|name| ("Mcp-Name", name)));
        } else if method != "initialize" && !(quiet && self.has("omits-version-header")) {
            headers.push(("MCP-Protocol-Version", LEGACY));
        }
        let session = self.session().name;
        let session = session.filter(|_| !(quiet && self.has("omits-session-header")));
        headers.extend(session.as_deref().map(|name| ("Mcp-Session-Id", name)));
        let stream = TcpStream::connect(&self.authority)?;
        stream.set_read_timeout(timeout)?;
        // Before the server can know of it: it may be cancelled at once.
        if let Some(id) = message.get("id") {
            lock(&self.sockets).insert(id.to_string(), stream.try_clone()?);
        }
        self.send(&stream, "POST", &headers, &message.to_string())?;
        Reply::read(stream)
    }

    fn get(&self, cursor: Option<&str>) -> io::Result<Reply> {
        let mut headers = vec![
            ("Accept", "text/event-stream"),
            ("MCP-Protocol-Version", LEGACY),
        ];
        let session = self.session().name;
        headers.extend(session.as_deref().map(|name| ("Mcp-Session-Id", name)));
        headers.extend(cursor.map(|cursor| ("Last-Event-ID", cursor)));
        let stream = TcpStream::connect(&self.authority)?;
        self.send(&stream, "GET", &headers, "")?;
        Reply::read(stream)
    }

    fn send(&self, mut to: &TcpStream, verb: &str, headers: Headers, body: &str) -> io::Result<()> {
        let connection = [("Host", &*self.authority), ("Connection", "close")];
        let headers = [&connection, headers].concat();
        let head = http_peer::head(verb, &self.path, &headers, body.len());
        to.write_all((head + body).as_bytes())
    }

    /// Has a request answered, or tells why not.
    fn exchange(self: &Arc<Self>, message: &Value) -> Result<Value, String> {
        let _turn = self.has("one-at-a-time").then(|| lock(&self.turn));
        let mut again = true;
        loop {
            if self.over.load(Ordering::SeqCst) {
                return Err("the server was given up".into());
            }
            let session = self.session();
            let mut reply = match self.post(message, None) {
                Ok(reply) => reply,
                Err(error) if error.kind() == ErrorKind::ConnectionRefused => {
                    self.over.store(self.has("gives-up"), Ordering::SeqCst);
                    return Err(self.words(&error.to_string()));
                }
                Err(error) => {
                    if self.has("replays-calls") && std::mem::take(&mut again) {
                        continue;
                    }
                    return Err(self.broken(&error));
                }
            };
            let repeated = match reply.status {
                404 if session.name.is_some() && !self.has("keeps-stale-session") => {
                    self.begin(session.nth)?;
                    !self.has("fails-expired-call")
                }
                429 | 503 => self.has("ignores-retry-after"),
                502 => self.has("replays-calls"),
                200..300 => match self.answer(&mut reply, message, session.nth) {
                    Err(_) if self.has("replays-calls") => true,
                    end => return end,
                },
                _ => false,
            };
            self.defects.dies("dies-on-status", reply.status >= 500);
            if !repeated || !std::mem::take(&mut again) {
                return Err(self.words(&format!("status {}", reply.status)));
            }
        }
    }

    fn answer(
        self: &Arc<Self>,
        reply: &mut Reply,
        message: &Value,
        nth: u64,
    ) -> Result<Value, String> {
        if reply.is_stream() && !self.has("reads-no-streams") {
            return self.stream(reply, message, nth);
        }
        let text = reply.try_text().map_err(|error| self.broken(&error))?;
        let answer = serde_json::from_str::<Value>(&text).unwrap_or_default();
        if answer.get("result").is_some() || answer.get("error").is_some() {
            return Ok(answer);
        }
        if self.has("hangs-on-junk") {
            hang();
        }
        Err("that was no answer".into())
    }

    /// The answer at the end of a stream, which is asked for again where it was cut.
    fn stream(
        self: &Arc<Self>,
        reply: &mut Reply,
        message: &Value,
        nth: u64,
    ) -> Result<Value, String> {
        let (mut cursor, mut pause): (Option<String>, Duration) = (None, PAUSE);
        let mut rest: Option<Reply> = None;
        for attempt in 0..=ATTEMPTS {
            let reply = rest.as_mut().unwrap_or(reply);
            let why = loop {
                let event = match self.event(reply) {
                    Ok(Some(event)) => event,
                    Ok(None) => break ErrorKind::UnexpectedEof.into(),
                    Err(error) => break error,
                };
                cursor = event.id.or(cursor);
                if let Some(retry) = event.retry.filter(|_| !self.has("ignores-retry")) {
                    pause = Duration::from_millis(retry);
                }
                if let Some(answer) = self.hear(&event.data, &message["id"]) {
                    if nth != self.session().nth && self.has("forgets-old-streams") {
                        hang();
                    }
                    return Ok(answer);
                }
            };
            if self.is_modern() || cursor.is_none() || self.has("never-resumes") {
                return Err(self.broken(&why));
            }
            thread::sleep(pause);
            let forgotten = attempt > 0 && self.has("forgets-cursor");
            let resumed = self.get(cursor.as_deref().filter(|_| !forgotten));
            rest = Some(resumed.map_err(|error| self.broken(&error))?);
        }
        Err("the stream was cut again and again".into())
    }

    /// The next event of a stream.
    fn event(&self, reply: &mut Reply) -> io::Result<Option<Event>> {
        if !self.has("one-line-events") {
            return reply.try_event();
        }
        // Every line of data is taken for one.
        let mut event = Event::default();
        while let Some(line) = reply.line()? {
            event.take(&line);
            if !event.data.is_empty() {
                return Ok(Some(event));
            }
        }
        Ok(None)
    }

    /// Takes what the server says on a stream; the answer to `id`, if that is what it is.
    fn hear(self: &Arc<Self>, data: &str, id: &Value) -> Option<Value> {
        let message = serde_json::from_str::<Value>(data).ok()?;
        if let (Some(method), Some(id)) = (message["method"].as_str(), message.get("id")) {
            if self.has("ignores-questions") {
                return None;
            }
            let answer = match method {
                "ping" => json!({ "jsonrpc": "2.0", "id": id, "result": {} }),
                _ => {
                    let error = json!({ "code": -32601, "message": "Method not found" });
                    json!({ "jsonrpc": "2.0", "id": id, "error": error })
                }
            };
            let this = self.clone();
            thread::spawn(move || this.post(&answer, None).map(drop));
            return None;
        }
        let settles = message.get("result").is_some() || message.get("error").is_some();
        let ours = message["id"] == *id || self.has("takes-any-answer");
        (settles && ours).then_some(message)
    }

    /// What is said of a connection that broke.
    fn broken(&self, error: &io::Error) -> String {
        let reset = error.kind() == ErrorKind::ConnectionReset;
        if self.has(if reset {
            "hangs-on-reset"
        } else {
            "hangs-on-cut"
        }) {
            hang();
        }
        self.words(&format!("the connection broke: {error}"))
    }

    /// Hears what the server says unasked.
    fn listen(self: Arc<Self>) {
        let mut pause = 3 * PAUSE;
        loop {
            if let Ok(mut reply) = self.get(None) {
                let refused = reply.status >= 400;
                if refused && self.has("needs-get") {
                    return self.over.store(true, Ordering::SeqCst);
                }
                if refused && reply.status < 500 {
                    return;
                }
                while let Ok(Some(event)) = reply.try_event() {
                    self.hear(&event.data, &Value::Null);
                }
            }
            if !self.has("hammers") {
                thread::sleep(pause);
                pause *= 2;
            }
        }
    }

    fn lose_all(&self) {
        for (_, waiter) in std::mem::take(&mut *lock(&self.waiters)) {
            waiter(End::Lost("closed".into()));
        }
    }
}

impl Connection for Visitor {
    fn send(self: Arc<Self>, method: &str, params: Value, then: Waiter) -> Value {
        let message = self.message(method, params);
        let id = message["id"].clone();
        lock(&self.waiters).insert(id.to_string(), then);
        thread::spawn(move || {
            let end = match self.exchange(&message) {
                Ok(answer) => End::Answer(answer),
                Err(why) => End::Lost(why),
            };
            lock(&self.sockets).remove(&message["id"].to_string());
            let waiter = lock(&self.waiters).remove(&message["id"].to_string());
            self.defects.dies("dies-on-unknown-id", waiter.is_none());
            if let Some(waiter) = waiter {
                waiter(end);
            }
        });
        id
    }

    fn cancel(self: Arc<Self>, id: &Value) {
        lock(&self.waiters).remove(&id.to_string());
        if self.has("cancels-silently") {
            return;
        }
        if self.is_modern() {
            if let Some(socket) = lock(&self.sockets).remove(&id.to_string()) {
                let _ = socket.shutdown(Shutdown::Both);
            }
            return;
        }
        let params = json!({ "requestId": id });
        let notice =
            json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": params });
        thread::spawn(move || self.post(&notice, None).map(drop));
    }

    fn is_alive(&self) -> bool {
        !self.over.load(Ordering::SeqCst)
    }

    fn close(&self) {
        if !self.has("forgets-calls-at-close") {
            self.lose_all();
        }
        let Some(session) = self.session().name.filter(|_| !self.has("leaves-session")) else {
            return;
        };
        let headers = [
            ("MCP-Protocol-Version", LEGACY),
            ("Mcp-Session-Id", &session),
        ];
        if let Ok(stream) = TcpStream::connect(&self.authority) {
            let timeout = (!self.has("waits-for-farewell")).then_some(FAREWELL);
            let _ = stream.set_read_timeout(timeout);
            let _ = self.send(&stream, "DELETE", &headers, "");
            let _ = Reply::read(stream);
        }
    }
}

/// What some clients do instead of failing.
fn hang() -> ! {
    loop {
        thread::sleep(Duration::from_secs(3600));
    }
}
