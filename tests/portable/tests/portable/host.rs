//! A host on the standard streams of `outlive run`.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};

use crate::{PATIENCE, outlive, server};

/// The parameters of a handshake.
pub fn introduction() -> Value {
    json!({
        "protocolVersion": "2025-11-25",
        "capabilities": {},
        "clientInfo": { "name": "portable", "version": "1" },
    })
}

/// The host, after the handshake.
pub struct Host {
    pub outlive: Child,
    /// Whoever holds it keeps this host from reading.
    pub deaf: Arc<Mutex<()>>,
    input: Option<ChildStdin>,
    output: Receiver<Value>,
    next: u64,
}

impl Host {
    /// With the server, and these flags of `outlive run`.
    pub fn new(flags: &[&str]) -> Host {
        Host::before(&[flags, &["--", server()]].concat())
    }

    /// `outlive run` with these arguments, which name the server.
    pub fn before(arguments: &[&str]) -> Host {
        Host::start(arguments).introduced("portable")
    }

    /// The handshake, with a server that has this name.
    pub fn introduced(mut self, name: &str) -> Host {
        let answer = self.ask("initialize", introduction());
        assert_eq!(answer["result"]["serverInfo"]["name"], name, "{answer}");
        self.send(&json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }));
        self.ask("tools/list", json!({}));
        self
    }

    /// The same without a handshake.
    pub fn start(arguments: &[&str]) -> Host {
        let mut command = outlive();
        command.arg("run").args(arguments);
        Host::with(command)
    }

    /// The same, with a command of its own.
    pub fn with(mut command: Command) -> Host {
        let child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null());
        let mut outlive = child.spawn().expect("outlive is built");
        let (sender, output) = channel();
        let lines = BufReader::new(outlive.stdout.take().expect("a pipe")).lines();
        let deaf = Arc::new(Mutex::new(()));
        let gate = Arc::clone(&deaf);
        std::thread::spawn(move || {
            for line in lines.map_while(Result::ok) {
                drop(gate.lock());
                let message = serde_json::from_str(&line).expect("a message");
                if sender.send(message).is_err() {
                    return;
                }
            }
        });
        Host {
            input: outlive.stdin.take(),
            outlive,
            deaf,
            output,
            next: 1,
        }
    }

    pub fn send(&mut self, message: &Value) {
        let input = self.input.as_mut().expect("it is open");
        writeln!(input, "{message}")
            .and_then(|()| input.flush())
            .expect("outlive reads");
    }

    /// Sends a request and does not wait.
    pub fn request(&mut self, method: &str, params: Value) -> u64 {
        let id = self.next;
        self.next += 1;
        self.send(&json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params }));
        id
    }

    /// What comes next.
    pub fn next(&mut self) -> Value {
        self.output.recv_timeout(PATIENCE).expect("a message")
    }

    /// The answer to a request.
    pub fn answer(&mut self, id: u64) -> Value {
        loop {
            let message = self.next();
            if message["id"] == id {
                return message;
            }
        }
    }

    pub fn ask(&mut self, method: &str, params: Value) -> Value {
        let id = self.request(method, params);
        self.answer(id)
    }

    /// Calls a tool and does not wait.
    pub fn call(&mut self, tool: &str, arguments: Value) -> u64 {
        self.request(
            "tools/call",
            json!({ "name": tool, "arguments": arguments }),
        )
    }

    /// What a tool says.
    pub fn says(&mut self, tool: &str, arguments: Value) -> String {
        let id = self.call(tool, arguments);
        let answer = self.answer(id);
        let text = answer["result"]["content"][0]["text"].as_str();
        text.unwrap_or_else(|| panic!("{tool}: {answer}"))
            .to_owned()
    }

    /// The number that a tool says.
    pub fn number(&mut self, tool: &str) -> u32 {
        self.says(tool, json!({})).parse().expect("a number")
    }

    /// The error of a request: its kind and its words.
    pub fn error(&mut self, id: u64) -> (String, String) {
        let answer = self.answer(id);
        let kind = answer["error"]["data"]["outlive"]["kind"].as_str();
        let kind = kind.unwrap_or_else(|| panic!("{answer}")).to_owned();
        (kind, answer["error"]["message"].to_string())
    }

    /// Leaves; what outlive exits with.
    pub fn leave(mut self) -> Option<i32> {
        self.input = None;
        self.outlive.wait().expect("it ends").code()
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        // It may have ended.
        let _ = self.outlive.kill();
        let _ = self.outlive.wait();
    }
}
