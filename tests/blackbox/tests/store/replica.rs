//! A gateway that is killed and started again, and a client that keeps its session.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::rig::{Setup, tree, until};
use crate::wire::{self, Reply};

/// `outlive serve` with a store, one process after the other.
pub struct Replica {
    pub setup: Setup,
    pub address: SocketAddr,
    child: Child,
    starts: usize,
    /// Another program than the one under test.
    program: Option<PathBuf>,
}

impl Replica {
    /// With sessions in a directory of the test.
    pub fn new(flags: &[&str]) -> Replica {
        Replica::with(Setup::new().flags(flags))
    }

    pub fn with(setup: Setup) -> Replica {
        let store = format!("file:{}", setup.path("store"));
        Replica::on(setup, &store)
    }

    /// With sessions in this store.
    pub fn on(setup: Setup, store: &str) -> Replica {
        Replica::of(None, setup, store)
    }

    /// The same with another program than the one under test.
    pub fn of(program: Option<PathBuf>, setup: Setup, store: &str) -> Replica {
        let setup = setup.flags(&["--store", store]);
        let child = command_of(&program, &setup).spawn().expect("outlive");
        let address = until("the address", || listening(&setup, 1));
        Replica {
            setup,
            address,
            child,
            starts: 1,
            program,
        }
    }

    /// Ends the process in order, and starts this program in its place.
    pub fn replace(&mut self, program: Option<PathBuf>) {
        self.end(Signal::TERM);
        self.program = program;
        self.start();
    }

    /// With sessions in a directory of the test, on a disk on which no file can have more than so many KiB.
    pub fn on_a_small_disk(flags: &[&str], kib: u32) -> Replica {
        let setup = Setup::new().flags(flags);
        let store = format!("file:{}", setup.path("store"));
        let setup = setup.flags(&["--store", &store]);
        let plain = command_of(&None, &setup);
        let mut limited = Command::new("bash");
        // Without the signal that would end it, a write fails.
        let script = format!(r#"ulimit -f {kib}; trap "" XFSZ; exec "$@""#);
        limited.args(["-c", &script, "bash"]);
        limited.arg(plain.get_program()).args(plain.get_args());
        for (name, value) in plain.get_envs() {
            match value {
                Some(value) => limited.env(name, value),
                None => limited.env_remove(name),
            };
        }
        limited
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        let child = limited.spawn().expect("outlive");
        let address = until("the address", || listening(&setup, 1));
        Replica {
            setup,
            address,
            child,
            starts: 1,
            program: None,
        }
    }

    /// Ends the process with this signal, and starts another one.
    pub fn restart(&mut self, signal: Signal) {
        self.end(signal);
        self.start();
    }

    /// Ends the process with this signal. How it ended.
    pub fn end(&mut self, signal: Signal) -> ExitStatus {
        tree::kill(self.child.id(), signal);
        until("the end", || self.child.try_wait().expect("a status"))
    }

    /// Sends it a signal that does not end it.
    pub fn signal(&self, signal: Signal) {
        tree::kill(self.child.id(), signal);
    }

    /// The servers that it has started.
    pub fn servers(&self) -> Vec<u32> {
        let is_server = |pid: &u32| {
            let program = std::fs::read_link(format!("/proc/{pid}/exe"));
            program.is_ok_and(|it| it.file_name().is_some_and(|name| name == "fake"))
        };
        tree::marked(&self.setup.mark)
            .into_iter()
            .filter(is_server)
            .collect()
    }

    /// What is told at this path.
    pub fn page(&self, path: &str) -> Reply {
        wire::send_to(self.address, path, "GET", &[], "")
    }

    pub fn start(&mut self) {
        self.starts += 1;
        let mut command = command_of(&self.program, &self.setup);
        self.child = command.spawn().expect("outlive");
        self.address = until("the address", || listening(&self.setup, self.starts));
    }

    /// Goes on with a process that was started meanwhile.
    pub fn adopt(&mut self, child: Child) {
        self.starts += 1;
        self.child = child;
        self.address = until("the address", || listening(&self.setup, self.starts));
    }

    pub fn post(&self, headers: &[(&str, &str)], message: &Value) -> Reply {
        wire::send(self.address, "POST", headers, &message.to_string())
    }

    /// The session of a client that has shaken hands, with these headers.
    #[track_caller]
    pub fn session_with(&self, headers: &[(&str, &str)]) -> String {
        let reply = self.post(headers, &wire::initialize());
        assert_eq!(reply.status, 200);
        let session = reply.header("mcp-session-id").map(str::to_owned);
        let session = session.unwrap_or_else(|| panic!("no session: {}", reply.json()));
        let headers = [headers, &[("Mcp-Session-Id", &session)]].concat();
        assert_eq!(self.post(&headers, &wire::initialized()).status, 202);
        session
    }

    #[track_caller]
    pub fn session(&self) -> String {
        self.session_with(&[])
    }

    /// Sends a request in a session.
    pub fn ask(&self, session: &str, message: &Value) -> Reply {
        let version = ("MCP-Protocol-Version", "2025-11-25");
        self.post(&[("Mcp-Session-Id", session), version], message)
    }

    pub fn call(&self, session: &str, id: u64, tool: &str, arguments: Value) -> Reply {
        self.ask(session, &wire::call(id, tool, arguments))
    }

    /// What `echo` answers in a session.
    #[track_caller]
    pub fn echo(&self, session: &str, id: u64) -> String {
        let answer = self
            .call(session, id, "echo", json!({"text": "hi"}))
            .answer();
        wire::text_of(&answer).to_owned()
    }

    /// A stream of a session, behind this event or from now on.
    pub fn listen(&self, session: &str, after: Option<&str>) -> Reply {
        let mut headers = vec![("Mcp-Session-Id", session)];
        headers.extend(after.map(|id| ("Last-Event-ID", id)));
        wire::send(self.address, "GET", &headers, "")
    }

    /// The bytes of the store.
    pub fn stored(&self) -> Vec<u8> {
        std::fs::read(self.setup.path("store/sessions.redb")).expect("the store")
    }
}

impl Drop for Replica {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The command line, with everything in place.
pub fn command(setup: &Setup) -> Command {
    command_of(&None, setup)
}

fn command_of(program: &Option<PathBuf>, setup: &Setup) -> Command {
    let mut words = setup.command_line();
    if let Some(program) = program {
        words[0] = program.to_str().expect("a path in UTF-8").into();
    }
    words[1] = "serve".into();
    if words.iter().any(|word| word == "--servers") {
        // The servers are in a file.
        words.truncate(
            words
                .iter()
                .position(|word| word == "--")
                .unwrap_or(words.len()),
        );
    }
    let mut command = Command::new(&words[0]);
    command.args(&words[1..]);
    setup.dress(&mut command);
    command.env("OUTLIVE_LISTEN", ":0");
    command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    command
}

/// Where the n-th process of this test listens.
fn listening(setup: &Setup, starts: usize) -> Option<SocketAddr> {
    let log = std::fs::read_to_string(setup.path("log.jsonl")).ok()?;
    let all = log.lines().filter_map(|line| {
        let event: Value = serde_json::from_str(line).ok()?;
        let url = event["url"].as_str().map(str::to_owned);
        url.filter(|_| event["event"] == "listening")
    });
    let url = all.skip(starts - 1).last()?;
    url.split('/').nth(2)?.parse().ok()
}
