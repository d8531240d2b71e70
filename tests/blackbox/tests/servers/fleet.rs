//! The program with a file of servers, and a client of each.

use std::net::SocketAddr;
use std::process::{Child, Command, Output, Stdio};

use http_peer::{Reply, message};
use serde_json::{Value, json};

use crate::rig::{Setup, until};

/// `outlive serve --servers FILE`.
pub struct Fleet {
    pub address: SocketAddr,
    pub setup: Setup,
    child: Child,
}

/// An entry of `mcpServers` that starts the fake.
pub fn fake() -> Value {
    json!({ "command": env!("CARGO_BIN_EXE_fake") })
}

/// An entry of the fake with settings of its own.
pub fn fake_with(settings: Value) -> Value {
    json!({ "command": env!("CARGO_BIN_EXE_fake"), "outlive": settings })
}

/// An entry that cannot be reached, and says so soon.
pub fn hasty(mut entry: Value) -> Value {
    entry["outlive"] = json!({ "hold": "50ms" });
    entry
}

impl Fleet {
    /// Those in an object of entries, as most hosts have it.
    pub fn of(servers: Value) -> Fleet {
        let setup = Setup::new();
        let file = json!({ "mcpServers": servers }).to_string();
        setup.file("mcp.json", &file);
        Fleet::start(setup, &["--servers", "mcp.json"])
    }

    /// Those of a file in the directory of this test.
    pub fn start(setup: Setup, flags: &[&str]) -> Fleet {
        let command = command(&setup, flags);
        Fleet::spawn(setup, command)
    }

    /// The program, however it is to be started.
    pub fn spawn(setup: Setup, mut command: Command) -> Fleet {
        let child = command.stderr(Stdio::null()).spawn().expect("outlive");
        let mut fleet = Fleet {
            address: SocketAddr::from(([127, 0, 0, 1], 0)),
            setup,
            child,
        };
        let told = fleet.event("listening");
        let url = told["url"].as_str().expect("an address");
        let address = url.split('/').nth(2).expect("an address");
        fleet.address = address.parse().expect("an address");
        fleet
    }

    /// The process of the program.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Whether the process of the program is still there.
    pub fn is_running(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(None))
    }

    /// The names of the servers that are served.
    pub fn names(&self) -> Vec<String> {
        let told = self.event("listening");
        let names = told["servers"].as_array().expect("names");
        names
            .iter()
            .map(|name| name.as_str().expect("a name").to_owned())
            .collect()
    }

    /// The first event of this name in the log.
    pub fn event(&self, name: &str) -> Value {
        until(name, || {
            self.log().into_iter().find(|event| event["event"] == name)
        })
    }

    pub fn log(&self) -> Vec<Value> {
        let log = std::fs::read_to_string(self.setup.path("log.jsonl")).unwrap_or_default();
        let lines = log.lines();
        lines
            .filter_map(|line| serde_json::from_str(line).ok())
            .collect()
    }

    pub fn get(&self, path: &str) -> Reply {
        http_peer::send(self.address, "GET", path, &[], "").expect("a response")
    }

    pub fn post(&self, server: &str, headers: &[(&str, &str)], body: &Value) -> Reply {
        let path = format!("/{server}/mcp");
        http_peer::send(self.address, "POST", &path, headers, &body.to_string())
            .expect("a response")
    }

    /// What a server answers to a handshake.
    pub fn initialize(&self, server: &str) -> Value {
        self.post(server, &[], &message::initialize()).answer()
    }

    /// The session of a client that has shaken hands with a server.
    #[track_caller]
    pub fn session(&self, server: &str) -> String {
        let reply = self.post(server, &[], &message::initialize());
        let session = reply.header("mcp-session-id").map(str::to_owned);
        let session = session.unwrap_or_else(|| panic!("no session: {}", reply.json()));
        let told = json!({ "jsonrpc": "2.0", "method": "notifications/initialized" });
        let headers = [("Mcp-Session-Id", session.as_str())];
        assert_eq!(self.post(server, &headers, &told).status, 202);
        session
    }

    /// The session of a client at this path.
    #[track_caller]
    pub fn session_at(&self, path: &str) -> String {
        let body = message::initialize().to_string();
        let reply = http_peer::send(self.address, "POST", path, &[], &body).expect("a response");
        let session = reply.header("mcp-session-id").map(str::to_owned);
        let session = session.unwrap_or_else(|| panic!("no session: {}", reply.json()));
        let told = message::initialized().to_string();
        let headers = [("Mcp-Session-Id", session.as_str())];
        let reply = http_peer::send(self.address, "POST", path, &headers, &told);
        assert_eq!(reply.expect("a response").status, 202);
        session
    }

    /// The session of a client of all servers.
    #[track_caller]
    pub fn all(&self) -> String {
        self.session_at("/mcp")
    }

    /// The answer to a request in a session at this path.
    pub fn ask(&self, path: &str, session: &str, method: &str, params: Value) -> Value {
        let body = json!({ "jsonrpc": "2.0", "id": 8, "method": method, "params": params });
        let headers = [("Mcp-Session-Id", session)];
        let reply = http_peer::send(self.address, "POST", path, &headers, &body.to_string());
        reply.expect("a response").answer()
    }

    /// The names of all tools of all servers.
    pub fn tools(&self, session: &str) -> Vec<String> {
        let listed = self.ask("/mcp", session, "tools/list", json!({}));
        crate::place::names(listed["result"]["tools"].as_array().expect("tools"))
    }

    /// Calls a tool of any server.
    pub fn call_all(&self, session: &str, tool: &str, arguments: Value) -> Value {
        let params = json!({ "name": tool, "arguments": arguments });
        self.ask("/mcp", session, "tools/call", params)
    }

    /// Calls a tool in a session.
    pub fn call(&self, server: &str, session: &str, tool: &str, arguments: Value) -> Value {
        let headers = [("Mcp-Session-Id", session)];
        let call = message::call(7, tool, arguments);
        self.post(server, &headers, &call).answer()
    }
}

impl Drop for Fleet {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// What the program says to flags that it refuses.
#[track_caller]
pub fn refused(setup: &Setup, flags: &[&str]) -> String {
    let Output { status, stderr, .. } = command(setup, flags).output().expect("outlive");
    let said = String::from_utf8(stderr).expect("text");
    assert_eq!(status.code(), Some(2), "{said}");
    said
}

/// `outlive serve` in the environment of a test.
pub fn command(setup: &Setup, flags: &[&str]) -> Command {
    let mut command = Command::new(Setup::outlive());
    // A test that needs another address sets it.
    command.env("OUTLIVE_LISTEN", "127.0.0.1:0");
    setup.dress(&mut command);
    command.stdin(Stdio::null()).stdout(Stdio::null());
    let log = setup.path("log.jsonl");
    command
        .arg("serve")
        .args(["--log-format", "json", "--log-level", "debug", "--log-file"])
        .arg(log)
        .args(flags);
    command
}
