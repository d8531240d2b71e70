//! A server over HTTP that does what a test says.
//!
//! It speaks HTTP/1.1 by hand, so that it can also speak it badly: half an answer, a reset, silence. What a
//! test does not script is answered as a well-behaved legacy MCP server would, with sessions.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use rustix::net::sockopt::set_socket_linger;
use serde_json::{Value, json};

use crate::rig::until;

/// What was asked.
#[derive(Clone, Debug)]
pub struct Request {
    pub method: String,
    pub path: String,
    pub body: Value,
    pub at: Instant,
    whole: http_peer::Request,
}

impl Request {
    fn read(input: &mut impl BufRead) -> Option<Request> {
        let whole = http_peer::Request::read(input).ok()?;
        Some(Request {
            method: whole.method.clone(),
            path: whole.path.clone(),
            body: serde_json::from_slice(&whole.body).unwrap_or_default(),
            at: Instant::now(),
            whole,
        })
    }

    /// The method of the message in it.
    pub fn rpc(&self) -> &str {
        self.body["method"].as_str().unwrap_or_default()
    }

    /// The body, as it came.
    #[allow(dead_code)] // Not every target that has this file reads forms.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.whole.body).into_owned()
    }

    /// The tool that is called.
    pub fn tool(&self) -> &str {
        self.body["params"]["name"].as_str().unwrap_or_default()
    }

    pub fn header(&self, name: &str) -> Option<&str> {
        self.whole.header(name)
    }
}

/// One thing to do with a connection.
#[derive(Clone, Debug)]
pub enum Act {
    /// These bytes, as they are.
    Send(String),
    /// Nothing, for a while.
    Wait(Duration),
    /// Nothing, until the server is stopped or the other side leaves.
    Hang,
    /// From now on this connection is the one that `Aside` speaks on.
    Outlet,
    /// These bytes, on the outlet.
    Aside(String),
    /// End it, so that the other side reads an end.
    Close,
    /// End it with a reset.
    Reset,
}

/// What to do.
pub type Reply = Vec<Act>;

/// A whole response.
pub fn response(status: u16, headers: &[(&str, &str)], body: &str) -> Reply {
    vec![Act::Send(http_peer::response(status, headers, body))]
}

/// A response that is this message.
pub fn message(message: &Value) -> Reply {
    response(
        200,
        &[("content-type", "application/json")],
        &message.to_string(),
    )
}

/// The beginning of a stream of events; what follows ends with the connection.
pub fn stream() -> Act {
    Act::Send(
        "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n".into(),
    )
}

/// An event with this message.
pub fn event(message: &Value) -> Act {
    Act::Send(format!("event: message\ndata: {message}\n\n"))
}

/// An event with an id.
pub fn numbered(id: &str, data: &str) -> Act {
    Act::Send(format!("id: {id}\ndata: {data}\n\n"))
}

/// The result of the tool call in this request.
pub fn result(request: &Request, text: &str) -> Value {
    json!({"jsonrpc": "2.0", "id": request.body["id"], "result": {"content": [{"type": "text", "text": text}]}})
}

type Script = Box<dyn Fn(&Request) -> Option<Reply> + Send + Sync>;

struct Shared {
    script: Script,
    seen: Mutex<Vec<Request>>,
    /// The names of sessions that are open.
    sessions: Mutex<Vec<String>>,
    streams: Mutex<Vec<TcpStream>>,
    outlet: Mutex<Option<TcpStream>>,
    stopped: AtomicBool,
    hanging: AtomicUsize,
}

/// A running server.
pub struct Web {
    address: SocketAddr,
    shared: Arc<Shared>,
    accepting: Option<thread::JoinHandle<()>>,
}

impl Web {
    /// Starts a server that does what `script` says, and what is usual where that says nothing.
    pub fn start(script: impl Fn(&Request) -> Option<Reply> + Send + Sync + 'static) -> Web {
        Web::start_at("127.0.0.1:0".parse().expect("an address"), script)
    }

    pub fn start_at(
        address: SocketAddr,
        script: impl Fn(&Request) -> Option<Reply> + Send + Sync + 'static,
    ) -> Web {
        let listener = TcpListener::bind(address).expect("a port");
        let address = listener.local_addr().expect("an address");
        let shared = Arc::new(Shared {
            script: Box::new(script),
            seen: Mutex::default(),
            sessions: Mutex::default(),
            streams: Mutex::default(),
            outlet: Mutex::default(),
            stopped: AtomicBool::new(false),
            hanging: AtomicUsize::new(0),
        });
        let served = shared.clone();
        let accepting = thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                if served.stopped.load(Ordering::SeqCst) {
                    return;
                }
                let shared = served.clone();
                shared.streams.lock().unwrap().extend(stream.try_clone());
                thread::spawn(move || shared.serve(stream));
            }
        });
        Web {
            address,
            shared,
            accepting: Some(accepting),
        }
    }

    pub fn address(&self) -> SocketAddr {
        self.address
    }

    pub fn url(&self) -> String {
        format!("http://{}/mcp", self.address)
    }

    /// Everything that was asked so far.
    pub fn seen(&self) -> Vec<Request> {
        self.shared.seen.lock().unwrap().clone()
    }

    /// What was asked so far in messages of this method.
    pub fn asked(&self, rpc: &str) -> Vec<Request> {
        let mut seen = self.seen();
        seen.retain(|request| request.rpc() == rpc);
        seen
    }

    /// Waits until this many requests fit.
    #[track_caller]
    pub fn wait_for(&self, n: usize, what: &str, fits: impl Fn(&Request) -> bool) -> Vec<Request> {
        until(what, || {
            let mut seen = self.seen();
            seen.retain(&fits);
            (seen.len() >= n).then_some(seen)
        })
    }

    /// Forgets all sessions, as a new deployment would.
    pub fn forget_sessions(&self) {
        self.shared.sessions.lock().unwrap().clear();
    }

    /// How many connections hang, as they were told to.
    pub fn hanging(&self) -> usize {
        self.shared.hanging.load(Ordering::SeqCst)
    }

    pub fn open_sessions(&self) -> usize {
        self.shared.sessions.lock().unwrap().len()
    }

    /// Dies as with SIGKILL: every connection is reset, the port is closed.
    pub fn kill(mut self) -> SocketAddr {
        self.end();
        self.address
    }

    fn end(&mut self) {
        self.shared.stopped.store(true, Ordering::SeqCst);
        // Wakes the listener, which then sees that it is over.
        let _ = TcpStream::connect(self.address);
        if let Some(accepting) = self.accepting.take() {
            let _ = accepting.join();
        }
        for stream in self.shared.streams.lock().unwrap().drain(..) {
            let _ = set_socket_linger(&stream, Some(Duration::ZERO));
            let _ = stream.shutdown(Shutdown::Both);
        }
    }
}

impl Drop for Web {
    fn drop(&mut self) {
        self.end();
    }
}

impl Shared {
    fn serve(&self, stream: TcpStream) {
        let Ok(reading) = stream.try_clone() else {
            return;
        };
        let mut reading = BufReader::new(reading);
        while let Some(request) = Request::read(&mut reading) {
            self.seen.lock().unwrap().push(request.clone());
            let reply = (self.script)(&request).unwrap_or_else(|| self.usual(&request));
            for act in reply {
                if !self.act(&stream, &mut reading, act) {
                    return;
                }
            }
        }
    }

    /// Does one thing; whether the connection goes on.
    fn act(&self, mut stream: &TcpStream, reading: &mut impl Read, act: Act) -> bool {
        match act {
            Act::Send(text) => stream.write_all(text.as_bytes()).is_ok(),
            Act::Wait(pause) => {
                thread::sleep(pause);
                true
            }
            Act::Outlet => {
                *self.outlet.lock().unwrap() = stream.try_clone().ok();
                true
            }
            Act::Aside(text) => {
                let mut outlet = self.outlet.lock().unwrap();
                let outlet = outlet.as_mut().expect("an outlet");
                outlet.write_all(text.as_bytes()).is_ok()
            }
            Act::Hang => {
                self.hanging.fetch_add(1, Ordering::SeqCst);
                let _ = reading.read(&mut [0]);
                self.hanging.fetch_sub(1, Ordering::SeqCst);
                false
            }
            Act::Close => {
                let _ = stream.shutdown(Shutdown::Write);
                // Until the other side has left too, so that nothing is reset.
                let _ = reading.read_to_end(&mut Vec::new());
                false
            }
            Act::Reset => {
                let _ = set_socket_linger(stream, Some(Duration::ZERO));
                // Only the last descriptor's end resets, and the list holds another.
                let mut streams = self.streams.lock().unwrap();
                let peer = stream.peer_addr().ok();
                streams.retain(|other| other.peer_addr().ok() != peer);
                false
            }
        }
    }

    /// What a legacy server does.
    fn usual(&self, request: &Request) -> Reply {
        let mut sessions = self.sessions.lock().unwrap();
        let named = request.header("mcp-session-id").map(str::to_string);
        if request.rpc() == "initialize" {
            let name = format!("session-{}", self.seen.lock().unwrap().len());
            sessions.push(name.clone());
            let welcome = json!({"jsonrpc": "2.0", "id": request.body["id"], "result": {
                "protocolVersion": "2025-11-25",
                "capabilities": {"tools": {}},
                "serverInfo": {"name": "web", "version": "1"},
            }});
            return response(
                200,
                &[
                    ("content-type", "application/json"),
                    ("mcp-session-id", &name),
                ],
                &welcome.to_string(),
            );
        }
        let Some(name) = named else {
            return response(400, &[], "Bad Request: Missing session ID");
        };
        if !sessions.contains(&name) {
            return response(404, &[], "Session not found");
        }
        match (request.method.as_str(), request.rpc()) {
            ("GET", _) => response(405, &[], ""),
            ("DELETE", _) => {
                sessions.retain(|other| *other != name);
                response(200, &[], "")
            }
            (_, "tools/list") => message(
                &json!({"jsonrpc": "2.0", "id": request.body["id"], "result": {
                "tools": [
                    {"name": "echo", "inputSchema": {"type": "object"}},
                    {"name": "look", "inputSchema": {"type": "object"}, "annotations": {"readOnlyHint": true}},
                ]}}),
            ),
            (_, "tools/call") => {
                message(&result(request, &format!("{} by {name}", request.tool())))
            }
            (_, "ping") => {
                message(&json!({"jsonrpc": "2.0", "id": request.body["id"], "result": {}}))
            }
            _ => response(202, &[], ""),
        }
    }
}
