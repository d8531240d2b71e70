//! A directory with servers, and hosts that use all of them on their standard streams.

use std::process::Command;

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::rig::{Host, Setup, quoted, until};

/// A directory that several runs share: the file of servers, what is known of them, and what they heard.
pub struct Place {
    dir: TempDir,
}

impl Place {
    pub fn new() -> Place {
        Place {
            dir: TempDir::new().expect("a temporary directory"),
        }
    }

    pub fn path(&self, name: &str) -> String {
        let path = self.dir.path().join(name);
        path.to_str().expect("a path in UTF-8").into()
    }

    pub fn write(&self, name: &str, text: &str) -> String {
        let path = self.path(name);
        std::fs::write(&path, text).expect("a file");
        path
    }

    pub fn remove(&self, name: &str) {
        std::fs::remove_file(self.path(name)).expect("a file");
    }

    /// An entry of a fake that records what it hears.
    pub fn fake(&self, name: &str, knobs: &[&str]) -> Value {
        let tap = self.path(&format!("{name}.jsonl"));
        let words = ["--state", &tap].into_iter().chain(knobs.iter().copied());
        let words: Vec<&str> = words.collect();
        json!({ "command": env!("CARGO_BIN_EXE_fake"), "args": words })
    }

    /// The same, but it does nothing as long as the file `NAME.wait` is there.
    pub fn late(&self, name: &str) -> Value {
        let (wait, tap) = (
            self.path(&format!("{name}.wait")),
            self.path(&format!("{name}.jsonl")),
        );
        let fake = quoted(env!("CARGO_BIN_EXE_fake"));
        let script = format!(
            "while [ -e {} ]; do sleep 0.02; done; exec {fake} --state {}",
            quoted(&wait),
            quoted(&tap)
        );
        json!({ "command": "sh", "args": ["-c", script] })
    }

    /// What the fake of this name has recorded.
    pub fn tap(&self, name: &str) -> Vec<Value> {
        let text = std::fs::read_to_string(self.path(&format!("{name}.jsonl"))).unwrap_or_default();
        let lines = text.lines();
        lines
            .filter_map(|line| serde_json::from_str(line).ok())
            .collect()
    }

    /// How many processes of it there were.
    pub fn spawns(&self, name: &str) -> usize {
        let records = self.tap(name);
        records.iter().filter(|it| it["rec"] == "spawn").count()
    }

    /// How often it was told this.
    pub fn heard(&self, name: &str, method: &str) -> usize {
        let records = self.tap(name);
        let heard = |it: &&Value| it["rec"] == "recv" && it["method"] == method;
        records.iter().filter(heard).count()
    }

    /// The notes of this word that it made.
    pub fn notes(&self, name: &str, note: &str) -> Vec<Value> {
        let mut records = self.tap(name);
        records.retain(|it| it["rec"] == "note" && it["note"] == note);
        records
    }

    /// Writes the file of servers, and returns the flags that name it.
    pub fn flags(&self, servers: &Value) -> Vec<String> {
        let file = self.write("mcp.json", &json!({ "mcpServers": servers }).to_string());
        let words = ["--servers", &file, "--catalogue", &self.path("catalogue")];
        words.map(String::from).to_vec()
    }

    /// `outlive run --servers`, before anything is said.
    pub fn start(&self, servers: &Value, flags: &[&str]) -> Host {
        let setup = Setup::new();
        let mut command = Command::new(Setup::outlive());
        command.args(["run", "--log-format", "json", "--log-level", "debug"]);
        command.arg("--log-file").arg(setup.path("log.jsonl"));
        command.args(self.flags(servers)).args(flags);
        setup.dress(&mut command);
        Host::spawn(setup, command)
    }

    /// The same after the handshake.
    pub fn open(&self, servers: &Value, flags: &[&str]) -> Host {
        let mut host = self.start(servers, flags);
        host.initialize();
        host
    }

    /// Has everything that these servers offer written down.
    pub fn learn(&self, servers: &Value) {
        let mut host = self.open(servers, &["--list-wait", "45s"]);
        let all = names(&host.list_tools());
        let known = servers.as_object().expect("entries").keys();
        for server in known {
            assert!(has(&all, server), "{server}: {all:?}");
        }
        let count =
            || std::fs::read_dir(self.path("catalogue")).map_or(0, |it| it.flatten().count());
        until("what is known, on disk", || {
            (count() >= servers.as_object().map_or(0, |it| it.len())).then_some(())
        });
        host.hang_up();
        host.exit();
    }
}

/// The names of tools.
pub fn names(tools: &[Value]) -> Vec<String> {
    let names = tools
        .iter()
        .map(|tool| tool["name"].as_str().expect("a name"));
    names.map(str::to_owned).collect()
}

/// Whether a tool of this server is among these.
pub fn has(names: &[String], server: &str) -> bool {
    names.contains(&format!("{server}__ping"))
}

/// The process that answers for a server.
#[track_caller]
pub fn pid(host: &mut Host, tool: &str) -> u64 {
    let answer = host.ask(tool, json!({}));
    let pid = answer.result()["structuredContent"]["pid"].as_u64();
    pid.unwrap_or_else(|| panic!("no pid: {}", answer.0))
}
