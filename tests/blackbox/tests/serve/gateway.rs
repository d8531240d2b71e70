//! The program, and a client at its gateway.

use std::net::SocketAddr;
use std::process::{Child, Command, ExitStatus, Stdio};

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::rig::{Setup, tree, until};
use crate::wire::{self, Reply};

/// `outlive serve` before the fake.
pub struct Gateway {
    pub address: SocketAddr,
    pub setup: Setup,
    child: Child,
}

impl Gateway {
    pub fn new(flags: &[&str]) -> Gateway {
        Gateway::with(Setup::new().flags(flags))
    }

    pub fn with(setup: Setup) -> Gateway {
        let mut command = command(&setup);
        let child = command.stderr(Stdio::null()).spawn().expect("outlive");
        let url = until("the address", || listening(&setup));
        let address = url.split('/').nth(2).expect("an address");
        Gateway {
            address: address.parse().expect("an address"),
            setup,
            child,
        }
    }

    pub fn get(&self, path: &str, headers: &[(&str, &str)]) -> Reply {
        wire::send_to(self.address, path, "GET", headers, "")
    }

    pub fn post(&self, headers: &[(&str, &str)], message: &Value) -> Reply {
        wire::send(self.address, "POST", headers, &message.to_string())
    }

    /// The session of a legacy client that has shaken hands.
    #[track_caller]
    pub fn session(&self) -> String {
        let reply = self.post(&[], &wire::initialize());
        assert_eq!(reply.status, 200);
        let session = reply.header("mcp-session-id").map(str::to_owned);
        let session = session.unwrap_or_else(|| panic!("no session: {}", reply.json()));
        let told = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
        assert_eq!(
            self.post(&[("Mcp-Session-Id", &session)], &told).status,
            202
        );
        session
    }

    pub fn call(&self, session: &str, id: u64, tool: &str, arguments: Value) -> Reply {
        let headers = [("Mcp-Session-Id", session)];
        self.post(&headers, &wire::call(id, tool, arguments))
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    pub fn signal(&self, signal: Signal) {
        tree::kill(self.child.id(), signal);
    }

    /// How it ended.
    pub fn join(&mut self) -> ExitStatus {
        until("the end", || self.child.try_wait().expect("a status"))
    }

    /// The values of a metric's samples, with their labels.
    pub fn metric(&self, name: &str) -> Vec<(String, f64)> {
        let page = self.get("/metrics", &[]).text();
        let of_name = |line: &str| {
            let (sample, value) = line.rsplit_once(' ')?;
            let labels = sample.strip_prefix(name)?;
            let is_it = labels.is_empty() || labels.starts_with('{');
            is_it.then(|| (labels.to_owned(), value.parse().expect("a number")))
        };
        page.lines().filter_map(of_name).collect()
    }

    /// The sum of a metric's samples that have this in their labels.
    pub fn sum(&self, name: &str, label: &str) -> f64 {
        let samples = self.metric(name).into_iter();
        let those = samples.filter(|(labels, _)| labels.contains(label));
        those.map(|(_, value)| value).sum()
    }
}

impl Drop for Gateway {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The command line, with everything in place.
pub fn command(setup: &Setup) -> Command {
    let mut words = setup.command_line();
    words[1] = "serve".into();
    let mut command = Command::new(&words[0]);
    command.args(&words[1..]);
    setup.dress(&mut command);
    command.env("OUTLIVE_LISTEN", ":0");
    command
}

fn listening(setup: &Setup) -> Option<String> {
    let log = std::fs::read_to_string(setup.path("log.jsonl")).ok()?;
    log.lines().find_map(|line| {
        let event: Value = serde_json::from_str(line).ok()?;
        let url = event["url"].as_str().map(str::to_owned);
        url.filter(|_| event["event"] == "listening")
    })
}
