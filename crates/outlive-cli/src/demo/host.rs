//! The host's end of the demo: a real `outlive run` as a child process, and its three pipes.
//!
//! Two threads read what comes back, messages from standard output and log lines from standard
//! error, and put it with its time into one inbox, so that the demo sees one order of events.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;

/// The settings the demo changes, so that a hung server is found out while somebody watches.
pub const SETTINGS: [&str; 6] = [
    "--request-timeout",
    "1500ms",
    "--probe-patience",
    "300ms",
    "--healthy-after",
    "100ms",
];

/// How long a stopping `outlive run` may take before the demo ends it.
const LEAVE: Duration = Duration::from_secs(15);

/// Something `outlive run` wrote, and when.
#[derive(Debug)]
pub struct Seen {
    /// When it was read.
    pub at: Instant,
    /// Where it was written.
    pub from: Pipe,
    /// One line, without its end.
    pub line: Vec<u8>,
}

/// Which pipe a line came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pipe {
    /// Standard output: what any MCP host would read.
    Messages,
    /// Standard error: the log of outlive. The server's own is kept out of it.
    Log,
}

/// A running `outlive run` and the host's ends of its pipes.
#[derive(Debug)]
pub struct Host {
    outlive: Child,
    input: Option<ChildStdin>,
    inbox: Receiver<Seen>,
}

impl Host {
    /// Starts this very program as `outlive run … -- outlive demo-server`.
    pub fn start() -> Result<Host, String> {
        let outlive = std::env::current_exe()
            .map_err(|error| format!("The path of this program cannot be found: {error}."))?;
        let mut command = Command::new(&outlive);
        command
            .arg("run")
            .args(SETTINGS)
            .args([
                "--stderr",
                "capture",
                "--log-format",
                "json",
                "--log-level",
                "debug",
                "--no-keep-logs",
                "--",
            ])
            .arg(&outlive)
            .arg("demo-server")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        // The demo claims what the flags above do; settings of the user would change that.
        for (name, _) in std::env::vars_os() {
            if name.to_string_lossy().starts_with("OUTLIVE_") {
                command.env_remove(name);
            }
        }
        let mut outlive = command
            .spawn()
            .map_err(|error| format!("`outlive run` could not be started: {error}."))?;
        let (sender, inbox) = mpsc::channel();
        if let Some(pipe) = outlive.stdout.take() {
            read(pipe, Pipe::Messages, sender.clone());
        }
        if let Some(pipe) = outlive.stderr.take() {
            read(pipe, Pipe::Log, sender);
        }
        let input = outlive.stdin.take();
        Ok(Host {
            outlive,
            input,
            inbox,
        })
    }

    /// Sends one message.
    pub fn send(&mut self, message: &Value) -> Result<(), String> {
        let sent = match &mut self.input {
            Some(input) => input.write_all(format!("{message}\n").as_bytes()),
            None => Err(io::ErrorKind::BrokenPipe.into()),
        };
        sent.map_err(|error| format!("`outlive run` no longer takes messages: {error}."))
    }

    /// The next line, if one comes before `deadline`; an error if none can come any more.
    pub fn receive(&self, deadline: Instant) -> Result<Option<Seen>, Gone> {
        let patience = deadline.saturating_duration_since(Instant::now());
        match self.inbox.recv_timeout(patience) {
            Ok(seen) => Ok(Some(seen)),
            Err(RecvTimeoutError::Timeout) => Ok(None),
            Err(RecvTimeoutError::Disconnected) => Err(Gone),
        }
    }

    /// Closes the input, as a host does that leaves.
    pub fn leave(&mut self) {
        self.input = None;
    }

    /// How `outlive run` ended, once it has; it is killed if it does not.
    pub fn end(&mut self) -> Result<ExitStatus, String> {
        self.leave();
        let deadline = Instant::now() + LEAVE;
        loop {
            match self.outlive.try_wait() {
                Ok(Some(status)) => return Ok(status),
                Ok(None) if Instant::now() < deadline => thread::sleep(Duration::from_millis(5)),
                Ok(None) => {
                    self.outlive.kill().and_then(|()| self.outlive.wait()).ok();
                    return Err("`outlive run` did not end after its host had left.".into());
                }
                Err(error) => return Err(format!("`outlive run` cannot be waited for: {error}.")),
            }
        }
    }
}

/// A demo that fails half-way leaves no process behind.
impl Drop for Host {
    fn drop(&mut self) {
        self.end().ok();
    }
}

/// Both pipes are closed: there is nothing more to read.
#[derive(Debug)]
pub struct Gone;

fn read(pipe: impl Read + Send + 'static, from: Pipe, inbox: Sender<Seen>) {
    thread::spawn(move || {
        for line in BufReader::new(pipe).split(b'\n') {
            let Ok(line) = line else { break };
            let seen = Seen {
                at: Instant::now(),
                from,
                line,
            };
            if inbox.send(seen).is_err() {
                break;
            }
        }
    });
}
