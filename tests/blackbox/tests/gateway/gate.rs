//! `outlive serve` before fake servers, and clients of both eras.

use std::net::SocketAddr;
use std::process::{Child, Command, ExitStatus};
use std::sync::Mutex;

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::rig::{Setup, tree, until};
use crate::wire::{self, Reply};

/// A gateway that is running.
pub struct Gate {
    pub address: SocketAddr,
    pub setup: Setup,
    process: Mutex<Child>,
}

impl Gate {
    /// Before a fake without faults.
    pub fn new() -> Gate {
        Gate::with(Setup::new(), &[])
    }

    /// Before the fake of this setup, with these flags.
    pub fn with(setup: Setup, flags: &[&str]) -> Gate {
        let fake = setup.fake();
        let server: Vec<&str> = fake.iter().map(String::as_str).collect();
        Gate::before(setup, flags, &[&["--"], &server[..]].concat())
    }

    /// Before any server.
    pub fn before(setup: Setup, flags: &[&str], server: &[&str]) -> Gate {
        let log = setup.path("log.jsonl");
        let mut command = Command::new(Setup::outlive());
        setup.dress(&mut command);
        command
            .env("OUTLIVE_DRAIN", "10s")
            .args(["serve", "--listen", "127.0.0.1:0"])
            .args(["--log-format", "json", "--log-level", "debug", "--log-file"])
            .arg(&log)
            .args(flags)
            .args(server)
            .stdin(std::process::Stdio::null())
            .stdout(std::process::Stdio::null())
            .stderr(std::process::Stdio::null());
        let process = command.spawn().expect("outlive is built");
        let listening = until("it listens", || {
            let events = events(&log);
            let found = events.iter().find(|event| event["event"] == "listening")?;
            Some(found["url"].as_str().expect("an address").to_owned())
        });
        let (_, rest) = listening.split_once("://").expect("an address");
        let (address, _) = rest.split_once('/').expect("a path");
        Gate {
            address: address.parse().expect("an address"),
            setup,
            process: Mutex::new(process),
        }
    }

    pub fn url(&self) -> String {
        format!("http://{}/mcp", self.address)
    }

    /// What it has logged so far.
    pub fn events(&self) -> Vec<Value> {
        events(&self.setup.path("log.jsonl"))
    }

    /// Sends it the signal to end.
    pub fn stop(&self) {
        tree::kill(self.pid(), Signal::TERM);
    }

    pub fn pid(&self) -> u32 {
        self.process.lock().unwrap().id()
    }

    /// Waits for the end.
    #[track_caller]
    pub fn join(&self) -> ExitStatus {
        until("the gateway ends", || {
            self.process.lock().unwrap().try_wait().expect("a child")
        })
    }

    /// A modern request, with the headers that belong to it.
    pub fn modern(&self, request: &Value) -> Reply {
        let headers = wire::modern_headers(request);
        let headers = wire::as_strs(&headers);
        wire::send(self.address, "POST", &headers, &request.to_string())
    }

    /// A legacy client that has shaken hands.
    #[track_caller]
    pub fn client(&self) -> Client {
        let reply = wire::send(self.address, "POST", &[], &wire::initialize().to_string());
        assert_eq!(reply.status, 200);
        let session = reply.header("mcp-session-id").expect("a session");
        let client = Client {
            address: self.address,
            session: session.to_owned(),
        };
        let told = client.post(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}));
        assert_eq!(told.status, 202);
        client
    }

    /// The servers that are alive: processes of this test other than the gateway.
    pub fn servers(&self) -> Vec<u32> {
        let gateway = self.pid();
        let mut marked = tree::marked(&self.setup.mark);
        // Its orphan reaper has nothing in its environment.
        marked.retain(|pid| *pid != gateway);
        marked
    }
}

impl Drop for Gate {
    fn drop(&mut self) {
        let mut process = self.process.lock().unwrap_or_else(|e| e.into_inner());
        let _ = process.kill();
        let _ = process.wait();
    }
}

fn events(log: &str) -> Vec<Value> {
    let text = std::fs::read_to_string(log).unwrap_or_default();
    text.lines()
        .filter_map(|line| serde_json::from_str(line).ok())
        .collect()
}

/// A legacy client.
#[derive(Clone)]
pub struct Client {
    pub address: SocketAddr,
    pub session: String,
}

impl Client {
    fn headers(&self) -> [(&str, &str); 2] {
        [
            ("Mcp-Session-Id", &self.session),
            ("MCP-Protocol-Version", "2025-11-25"),
        ]
    }

    pub fn post(&self, message: &Value) -> Reply {
        wire::send(self.address, "POST", &self.headers(), &message.to_string())
    }

    pub fn call(&self, id: u64, tool: &str, arguments: Value) -> Reply {
        self.post(&wire::call(id, tool, arguments))
    }

    /// The standalone stream.
    pub fn listen(&self) -> Reply {
        wire::send(self.address, "GET", &self.headers(), "")
    }

    pub fn leave(&self) -> Reply {
        wire::send(self.address, "DELETE", &self.headers(), "")
    }
}

/// The text of a tool's result.
#[track_caller]
pub fn text(answer: &Value) -> &str {
    answer["result"]["content"][0]["text"]
        .as_str()
        .unwrap_or_else(|| panic!("no text in {answer}"))
}

/// The kind of an error of ours.
#[track_caller]
pub fn kind(answer: &Value) -> &str {
    answer["error"]["data"]["outlive"]["kind"]
        .as_str()
        .unwrap_or_else(|| panic!("no kind in {answer}"))
}
