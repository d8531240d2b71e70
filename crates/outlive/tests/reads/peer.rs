//! Whoever talks to a face: a host over pipes, a client over HTTP. Neither has anything of outlive in it.

use std::io::{BufRead, BufReader, Write};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use http_peer::Reply;
use http_peer::message::{as_strs, initialized, modern_headers};
use serde_json::{Value, json};

use crate::role::FOLDER;

/// Long enough that only a hang exceeds it.
const PATIENCE: Duration = Duration::from_secs(60);

/// A process that is a face of outlive, or a server.
pub struct Role {
    child: Child,
    output: BufReader<ChildStdout>,
    folder: tempfile::TempDir,
    url: Option<String>,
    /// The server behind it, if that is not its own child.
    server: Option<Box<Role>>,
}

impl Role {
    pub fn start(name: &str, arguments: &[&str]) -> Role {
        let folder = tempfile::tempdir().expect("a folder");
        let this = std::env::current_exe().expect("this program");
        let mut child = Command::new(this)
            .arg(format!("role:{name}"))
            .args(arguments)
            .env(FOLDER, folder.path())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("this program again");
        let mut output = BufReader::new(child.stdout.take().expect("its output"));
        let url = ["http_server", "serve", "serve_url"]
            .contains(&name)
            .then(|| {
                let mut line = String::new();
                output.read_line(&mut line).expect("an address");
                line.trim().to_owned()
            });
        let server = None;
        Role {
            child,
            output,
            folder,
            url,
            server,
        }
    }

    /// Where it is served.
    pub fn url(&self) -> String {
        self.url.clone().expect("an address")
    }

    /// The same role, behind which this server is.
    pub fn before(mut self, server: Role) -> Role {
        self.server = Some(server.into());
        self
    }

    /// Ends it. Tells how many lines it has read, and how many its server has.
    pub fn finish(mut self) -> (u64, u64) {
        self.end();
        let server = match &mut self.server {
            Some(server) => {
                server.end();
                server.folder.path().join("server")
            }
            None => self.folder.path().join("server"),
        };
        (count(self.folder.path().join("walker")), count(server))
    }

    fn end(&mut self) {
        drop(self.child.stdin.take());
        let begun = Instant::now();
        while self.child.try_wait().expect("its status").is_none() {
            assert!(begun.elapsed() < PATIENCE, "it does not end");
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

fn count(file: PathBuf) -> u64 {
    let text = std::fs::read_to_string(&file);
    let text = text.unwrap_or_else(|error| panic!("{}: {error}", file.display()));
    text.parse().expect("a number")
}

fn initialize() -> Value {
    let info = json!({"name": "t", "version": "1"});
    let params = json!({"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": info});
    json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params})
}

fn call(id: u64) -> Value {
    let params = json!({"name": "step", "arguments": {}, "_meta": {"progressToken": id}});
    json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params})
}

fn modern_call(id: u64) -> Value {
    let mut call = call(id);
    for (key, value) in [
        ("protocolVersion", json!("2026-07-28")),
        ("clientInfo", json!({"name": "t", "version": "1"})),
        ("clientCapabilities", json!({})),
    ] {
        call["params"]["_meta"][format!("io.modelcontextprotocol/{key}")] = value;
    }
    call
}

/// A host at the other end of two pipes.
pub struct Pipe<'a> {
    input: &'a mut ChildStdin,
    output: &'a mut BufReader<ChildStdout>,
}

impl Pipe<'_> {
    pub fn of(role: &mut Role) -> Pipe<'_> {
        Pipe {
            input: role.child.stdin.as_mut().expect("its input"),
            output: &mut role.output,
        }
    }

    pub fn talk(&mut self, calls: u64) {
        self.say(&initialize());
        assert_eq!(self.hear()["id"], 0);
        self.say(&initialized());
        for id in 1..=calls {
            self.say(&call(id));
            assert_eq!(self.hear()["params"]["progressToken"], id);
            assert_eq!(self.hear()["id"], id);
        }
    }

    fn say(&mut self, message: &Value) {
        writeln!(self.input, "{message}").expect("a reader");
    }

    fn hear(&mut self) -> Value {
        let mut line = String::new();
        self.output.read_line(&mut line).expect("a line");
        serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line:?}"))
    }
}

/// A client over HTTP, with a connection for each message.
pub struct Http {
    address: SocketAddr,
    session: Option<String>,
}

impl Http {
    pub fn new(url: &str) -> Http {
        let address = url.trim_start_matches("http://").trim_end_matches("/mcp");
        Http {
            address: address.parse().expect("an address"),
            session: None,
        }
    }

    pub fn talk(&mut self, calls: u64) {
        let reply = self.post(&initialize(), &[]);
        self.session = reply.header("mcp-session-id").map(str::to_owned);
        assert_eq!(reply.answer()["id"], 0);
        assert_eq!(self.post(&initialized(), &[]).status, 202);
        for id in 1..=calls {
            expect_answer(id, self.post(&call(id), &[]));
        }
    }

    pub fn talk_modern(&mut self, calls: u64) {
        for id in 1..=calls {
            let call = modern_call(id);
            let headers = modern_headers(&call);
            expect_answer(id, self.post(&call, &as_strs(&headers)));
        }
    }

    fn post(&self, message: &Value, headers: &[(&str, &str)]) -> Reply {
        let mut headers = headers.to_vec();
        if let Some(session) = &self.session {
            headers.extend([
                ("Mcp-Session-Id", &**session),
                ("MCP-Protocol-Version", "2025-06-18"),
            ]);
        }
        http_peer::send(self.address, "POST", "/mcp", &headers, &message.to_string())
            .expect("a response")
    }
}

/// A call is answered with its progress and its result.
fn expect_answer(id: u64, reply: Reply) {
    let [progress, answer] = &reply.messages()[..] else {
        panic!("more or less than two messages");
    };
    assert_eq!(progress["params"]["progressToken"], id);
    assert!(
        answer["id"] == id && answer["result"].is_object(),
        "{answer}"
    );
}
