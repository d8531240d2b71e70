//! A client of raw lines, to a real process.

use std::io::{BufRead, BufReader, Read, Write};
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::time::{Duration, Instant};
use std::{env, thread};

use serde_json::{Value, json};

use crate::rig::PATIENCE;

/// The example program, built next to this test.
fn everything() -> PathBuf {
    let test = env::current_exe().expect("to know where we are");
    let target = test.parent().and_then(|deps| deps.parent());
    let path = target
        .expect("a target directory")
        .join("examples/everything");
    assert!(
        path.exists(),
        "first: cargo build -p outlive --example everything"
    );
    path
}

/// A server in a process of its own.
pub struct Server {
    /// What the kernel calls the pipes of the protocol, where it shows what a process has open.
    #[cfg_attr(
        not(target_os = "linux"),
        expect(dead_code, reason = "only Linux shows them")
    )]
    pub pipes: [String; 2],
    child: Child,
    stdin: Option<ChildStdin>,
    lines: Receiver<String>,
    /// Lets go of its standard output, when it is dropped.
    reading: Option<mpsc::Sender<()>>,
    kept: Vec<Value>,
}

/// How a process ended, and what it had said on standard error.
pub struct End {
    pub code: Option<i32>,
    pub signal: Option<i32>,
    pub stderr: String,
    /// What came on standard output and was not waited for.
    pub said: Vec<Value>,
}

impl Server {
    pub fn start(arguments: &[&str]) -> Server {
        Server::of(Command::new(everything()).args(arguments))
    }

    /// A server whose standard error is closed from the start.
    pub fn with_closed_stderr() -> Server {
        let script = r#"exec "$0" 2>&-"#;
        Server::of(Command::new("sh").args(["-c", script]).arg(everything()))
    }

    fn of(command: &mut Command) -> Server {
        let mut child = command
            .env("RUST_BACKTRACE", "0")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("to start");
        let stdin = child.stdin.take();
        let stdout = child.stdout.take().expect("a pipe");
        let pipes = [
            name(stdin.as_ref().expect("a pipe").as_raw_fd()),
            name(stdout.as_raw_fd()),
        ];
        let (reading, lines) = read(stdout);
        Server {
            pipes,
            child,
            stdin,
            lines,
            reading: Some(reading),
            kept: Vec::new(),
        }
    }

    /// A server that has shaken hands.
    pub fn ready(arguments: &[&str]) -> Server {
        let mut server = Server::start(arguments);
        server.shake_hands();
        server
    }

    pub fn shake_hands(&mut self) {
        let params = json!({
            "protocolVersion": "2025-11-25",
            "capabilities": { "elicitation": {} },
            "clientInfo": { "name": "rig", "version": "1" },
        });
        let answer = self.request("shake", "initialize", params);
        assert_eq!(answer["result"]["serverInfo"]["name"], "everything");
        self.send(&json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }));
    }

    pub fn send_bytes(&mut self, bytes: &[u8]) {
        let stdin = self.stdin.as_mut().expect("still open");
        stdin.write_all(bytes).expect("a reader");
    }

    pub fn send(&mut self, message: &Value) {
        self.send_bytes(format!("{message}\n").as_bytes());
    }

    pub fn begin_call(&mut self, id: impl Into<Value>, tool: &str, arguments: Value) {
        let params = json!({ "name": tool, "arguments": arguments });
        self.begin(id, "tools/call", params);
    }

    pub fn begin(&mut self, id: impl Into<Value>, method: &str, params: Value) {
        let id = id.into();
        self.send(&json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params }));
    }

    pub fn request(&mut self, id: impl Into<Value>, method: &str, params: Value) -> Value {
        let id = id.into();
        self.begin(id.clone(), method, params);
        self.answer_to(id)
    }

    pub fn call(&mut self, id: impl Into<Value>, tool: &str, arguments: Value) -> Value {
        let params = json!({ "name": tool, "arguments": arguments });
        self.request(id, "tools/call", params)
    }

    pub fn ping(&mut self, id: &str) {
        assert_eq!(self.request(id, "ping", json!({}))["result"], json!({}));
    }

    pub fn cancel(&mut self, id: &str, reason: &str) {
        let params = json!({ "requestId": id, "reason": reason });
        self.send(
            &json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": params }),
        );
    }

    #[cfg(target_os = "linux")]
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    pub fn answer_to(&mut self, id: impl Into<Value>) -> Value {
        let id = id.into();
        let wanted = |message: &Value| message.get("method").is_none() && message["id"] == id;
        if let Some(found) = self.kept.iter().position(wanted) {
            return self.kept.remove(found);
        }
        loop {
            let message = self.next().expect("the server is gone");
            if wanted(&message) {
                return message;
            }
            self.kept.push(message);
        }
    }

    pub fn kept(&self) -> &[Value] {
        &self.kept
    }

    fn next(&mut self) -> Option<Value> {
        match self.lines.recv_timeout(PATIENCE) {
            Ok(line) => Some(
                serde_json::from_str(&line).unwrap_or_else(|_| panic!("not a message: {line}")),
            ),
            Err(mpsc::RecvTimeoutError::Disconnected) => None,
            Err(mpsc::RecvTimeoutError::Timeout) => panic!("this hangs"),
        }
    }

    pub fn close_stdin(&mut self) {
        self.stdin = None;
    }

    pub fn close_stdout(&mut self) {
        self.reading = None;
    }

    /// Closes our side and waits for its end.
    pub fn finish(mut self) -> End {
        self.close_stdin();
        let mut said = std::mem::take(&mut self.kept);
        if self.reading.is_some() {
            while let Some(message) = self.next() {
                said.push(message);
            }
        }
        self.end(said)
    }

    /// Waits for its end, without closing anything.
    pub fn end(mut self, said: Vec<Value>) -> End {
        let mut stderr = self.child.stderr.take().expect("a pipe");
        let words = thread::spawn(move || {
            let mut words = String::new();
            let _ = stderr.read_to_string(&mut words);
            words
        });
        let begun = Instant::now();
        let status = loop {
            if let Some(status) = self.child.try_wait().expect("to wait") {
                break status;
            }
            assert!(begun.elapsed() < PATIENCE, "it does not end");
            thread::sleep(Duration::from_millis(2));
        };
        End {
            code: status.code(),
            signal: status.signal(),
            stderr: words.join().expect("to read"),
            said,
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl End {
    /// It ended as if nothing had happened.
    pub fn assert_quiet(&self) {
        assert_eq!((self.code, self.signal), (Some(0), None), "{}", self.stderr);
        assert_eq!(self.stderr, "");
    }
}

/// What the kernel calls the file behind a descriptor of ours; empty where it does not say.
fn name(fd: RawFd) -> String {
    let link = std::fs::read_link(format!("/proc/self/fd/{fd}"));
    link.map_or(String::new(), |name| name.to_string_lossy().into_owned())
}

/// Reads lines until the sender that is returned is dropped; then the pipe is closed.
fn read(stdout: ChildStdout) -> (mpsc::Sender<()>, Receiver<String>) {
    let (stop, stopped) = mpsc::channel::<()>();
    let (sender, lines) = mpsc::channel();
    let mut reader = BufReader::new(stdout);
    thread::spawn(move || {
        loop {
            if !is_readable(reader.get_ref()) && reader.buffer().is_empty() {
                match stopped.try_recv() {
                    Err(mpsc::TryRecvError::Disconnected) => return,
                    _ => continue,
                }
            }
            let mut line = String::new();
            match reader.read_line(&mut line) {
                Ok(1..) if sender.send(line).is_ok() => {}
                _ => return,
            }
        }
    });
    (stop, lines)
}

/// Waits a little for something to read.
fn is_readable(stdout: &ChildStdout) -> bool {
    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    let mut fds = [PollFd::new(stdout, PollFlags::IN)];
    let wait = Timespec {
        tv_sec: 0,
        tv_nsec: 5_000_000,
    };
    poll(&mut fds, Some(&wait)).is_ok_and(|ready| ready > 0)
}
