//! A server on a real socket, and a client that sees every byte.

use std::net::{SocketAddr, TcpStream};
use std::sync::Mutex;
use std::sync::mpsc::Receiver;
use std::time::Duration;

pub use http_peer::Reply;
pub use http_peer::message::*;
use outlive::server::{Http, Server, ServerHandle};
use serde_json::Value;

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
        http_peer::send(self.address, method, path, headers, body).expect("a response")
    }

    pub fn connect(&self) -> TcpStream {
        http_peer::connect(self.address).expect("a connection")
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
        let told = client.post(&initialized());
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

/// The head of a request.
pub fn head(method: &str, headers: &[(&str, &str)], length: usize) -> String {
    http_peer::head(method, "/mcp", headers, length)
}
