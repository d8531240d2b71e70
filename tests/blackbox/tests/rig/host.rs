//! The host's side of a session, byte by byte.

use std::io::{Read, Write};
use std::process::{Child, Command, ExitStatus};
use std::sync::mpsc::{self, Sender};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use rustix::process::Signal;
use serde_json::{Value, json};

use super::answer::Answer;
use super::inbox::Inbox;
use super::setup::Setup;
use super::tap::Tap;
use super::{PATIENCE, lock, tree, until};

/// A host with one `outlive` under it. Whatever happens, nothing of it outlives the test.
pub struct Host {
    pub setup: Setup,
    child: Child,
    input: Option<Sender<Vec<u8>>>,
    inbox: Arc<Inbox>,
    stderr: Arc<Mutex<Vec<u8>>>,
    stderr_reader: Option<JoinHandle<()>>,
    next_id: i64,
}

impl Host {
    /// Starts the command.
    pub fn spawn(setup: Setup, mut command: Command) -> Host {
        let mut child = command
            .spawn()
            .unwrap_or_else(|e| panic!("{:?}: {e}", command.get_program()));
        let inbox = Arc::new(Inbox::default());
        let stderr = Arc::new(Mutex::new(Vec::new()));
        // A test may have kept any of the streams to itself.
        let input = child.stdin.take().map(|mut stdin| {
            let (input, queue) = mpsc::channel::<Vec<u8>>();
            // A thread, so that a test never hangs in a write: a stuck outlive shows as a missing answer.
            thread::spawn(move || {
                for bytes in queue {
                    if stdin.write_all(&bytes).is_err() {
                        return;
                    }
                }
            });
            input
        });
        if let Some(stdout) = child.stdout.take() {
            let filled = inbox.clone();
            thread::spawn(move || filled.fill(stdout));
        }
        let stderr_reader = child.stderr.take().map(|mut pipe| {
            let kept = stderr.clone();
            thread::spawn(move || {
                let mut piece = [0; 8192];
                while let Ok(n @ 1..) = pipe.read(&mut piece) {
                    lock(&kept).extend_from_slice(&piece[..n]);
                }
            })
        });
        Host {
            setup,
            child,
            input,
            inbox,
            stderr,
            stderr_reader,
            next_id: 1,
        }
    }

    // ---- sending

    /// Sends bytes as they are.
    pub fn send_raw(&mut self, bytes: impl Into<Vec<u8>>) {
        if let Some(input) = &self.input {
            // A refusal means outlive is gone; the missing answer will tell.
            let _ = input.send(bytes.into());
        }
    }

    /// Sends a message.
    pub fn send(&mut self, message: &Value) {
        self.send_raw(format!("{message}\n"));
    }

    /// Sends a notification.
    pub fn notify(&mut self, method: &str, params: Value) {
        self.send(&json!({ "jsonrpc": "2.0", "method": method, "params": params }));
    }

    /// Sends a request under the next id, which is returned.
    pub fn request(&mut self, method: &str, params: Value) -> i64 {
        let id = self.next_id;
        self.next_id += 1;
        self.send(&json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params }));
        id
    }

    /// The id the next request will have.
    pub fn next_id(&self) -> i64 {
        self.next_id
    }

    /// Calls a tool; the id of the request is returned.
    pub fn call(&mut self, tool: &str, arguments: Value) -> i64 {
        self.request(
            "tools/call",
            json!({ "name": tool, "arguments": arguments }),
        )
    }

    /// Cancels a request.
    pub fn cancel(&mut self, id: i64) {
        self.notify(
            "notifications/cancelled",
            json!({ "requestId": id, "reason": "enough" }),
        );
    }

    /// Ends the host's side: no more input for `outlive`.
    pub fn hang_up(&mut self) {
        self.input = None;
    }

    /// Stops reading what `outlive` writes, until [`Host::resume_reading`].
    pub fn pause_reading(&self) {
        self.inbox.pause(true);
    }

    /// Reads on.
    pub fn resume_reading(&self) {
        self.inbox.pause(false);
    }

    // ---- whole exchanges

    /// `initialize` and `notifications/initialized`; returns the result.
    pub fn initialize(&mut self) -> Value {
        let id = self.request(
            "initialize",
            json!({
                "protocolVersion": "2025-11-25",
                "capabilities": { "elicitation": {} },
                "clientInfo": { "name": "rig", "version": "0" },
            }),
        );
        let result = self.answer(id).result().clone();
        self.notify("notifications/initialized", json!({}));
        result
    }

    /// Starts with a handshake and `tools/list`, as hosts do.
    pub fn ready(setup: Setup) -> Host {
        let mut host = setup.start();
        host.initialize();
        host.list_tools();
        host
    }

    /// `tools/list`: the tools by name.
    pub fn list_tools(&mut self) -> Vec<Value> {
        let id = self.request("tools/list", json!({}));
        self.answer(id).result()["tools"]
            .as_array()
            .expect("tools")
            .clone()
    }

    /// Calls a tool and waits for its answer.
    pub fn ask(&mut self, tool: &str, arguments: Value) -> Answer {
        let id = self.call(tool, arguments);
        self.answer(id)
    }

    /// Calls `ping`, which must work, and returns the process id of the server that answered.
    /// Whatever was on its way to the host before is there when this returns.
    #[track_caller]
    pub fn ping(&mut self) -> u32 {
        let answer = self.ask("ping", json!({}));
        answer.result()["structuredContent"]["pid"]
            .as_u64()
            .expect("a pid") as u32
    }

    /// Calls `ping` as often as the refusals say, until a server is there. Callers of a failed
    /// server bring attempts forward, but at a pace that cannot become a storm.
    #[track_caller]
    pub fn call_until_up(&mut self) {
        let start = Instant::now();
        loop {
            let answer = self.ask("ping", json!({}));
            if answer.kind().is_none() {
                answer.result();
                return;
            }
            let pause = answer.refused("unavailable")["retry_after_ms"].as_u64();
            assert!(
                start.elapsed() < PATIENCE,
                "the server did not come back: {}",
                answer.0
            );
            thread::sleep(Duration::from_millis(pause.expect("a pause").min(1000)));
        }
    }

    // ---- receiving

    /// The answer to this request, once it is there.
    #[track_caller]
    pub fn answer(&self, id: impl Into<Value>) -> Answer {
        let id = id.into();
        Answer(self.wait_for(&format!("the answer to {id}"), |m| is_answer(m, &id)))
    }

    /// The first message that fits, once it is there.
    #[track_caller]
    pub fn wait_for(&self, what: &str, fits: impl Fn(&Value) -> bool) -> Value {
        self.inbox.wait_for(what, fits)
    }

    /// Everything that came so far, line by line.
    pub fn lines(&self) -> Vec<Vec<u8>> {
        self.inbox.lines()
    }

    /// Everything that came so far; a line that is not JSON fails the test.
    pub fn received(&self) -> Vec<Value> {
        self.lines()
            .iter()
            .map(|line| {
                serde_json::from_slice(line).unwrap_or_else(|e| {
                    panic!(
                        "the host got a line that is not JSON ({e}): {}",
                        lossy(line)
                    )
                })
            })
            .collect()
    }

    /// How many answers to this request came so far.
    pub fn answers(&self, id: impl Into<Value>) -> usize {
        let id = id.into();
        self.received()
            .iter()
            .filter(|message| is_answer(message, &id))
            .count()
    }

    /// The notifications of this method that came so far.
    pub fn notified(&self, method: &str) -> Vec<Value> {
        let mut messages = self.received();
        messages.retain(|message| message["method"] == method && message.get("id").is_none());
        messages
    }

    /// Waits until `outlive` has closed its output.
    pub fn wait_for_end(&self) {
        until("the end of outlive's output", || {
            self.inbox.ended().then_some(())
        });
    }

    // ---- looking behind

    /// The log lines so far.
    pub fn events(&self) -> Vec<Value> {
        let text = std::fs::read_to_string(self.setup.path("log.jsonl")).unwrap_or_default();
        text.lines()
            .filter_map(|line| serde_json::from_str(line).ok())
            .collect()
    }

    /// The first log line that fits, once it is there.
    #[track_caller]
    pub fn event(&self, what: &str, fits: impl Fn(&Value) -> bool) -> Value {
        let start = Instant::now();
        loop {
            if let Some(event) = self.events().into_iter().find(&fits) {
                return event;
            }
            assert!(
                start.elapsed() < PATIENCE,
                "waited in vain for the event: {what}"
            );
            thread::sleep(Duration::from_millis(10));
        }
    }

    /// Waits until this generation is reported ready.
    #[track_caller]
    pub fn ready_event(&self, generation: u64) -> Value {
        self.event(&format!("ready, generation {generation}"), |e| {
            e["event"] == "state" && e["state"] == "ready" && e["generation"] == generation
        })
    }

    /// The log lines of this event that fit, once there are `n`; more fail the test. (The log is
    /// written in the background: what has happened may not be there yet.)
    #[track_caller]
    pub fn logged(&self, n: usize, event: &str, fits: impl Fn(&Value) -> bool) -> Vec<Value> {
        let found = until(&format!("{n} times the event {event}"), || {
            let mut events = self.events();
            events.retain(|line| line["event"] == event && fits(line));
            (events.len() >= n).then_some(events)
        });
        assert_eq!(found.len(), n, "{found:?}");
        found
    }

    /// The log lines that say a message was dropped for this reason, once there are `n`.
    #[track_caller]
    pub fn dropped(&self, n: usize, reason: &str) -> Vec<Value> {
        self.logged(n, "dropped", |line| line["reason"] == reason)
    }

    /// What the servers recorded.
    pub fn tap(&self) -> Tap {
        self.setup.tap()
    }

    /// The process id of the newest server, once there are `n`.
    pub fn server(&self, n: usize) -> u32 {
        until(&format!("server {n}"), || {
            self.tap().pids().get(n - 1).copied()
        })
    }

    /// Ends the session; all that came out of `outlive`'s standard error. (It is written in the
    /// background: only at the end is it sure to be there.)
    #[track_caller]
    pub fn last_stderr(&mut self) -> String {
        self.hang_up();
        self.exit();
        let reader = self.stderr_reader.as_ref().expect("a pipe");
        until("the end of standard error", || {
            reader.is_finished().then_some(())
        });
        lossy(&self.stderr())
    }

    /// Waits until this process is gone.
    #[track_caller]
    pub fn wait_for_end_of(&self, pid: u32) {
        until("the end of a process", || {
            (!self.tree().contains(&pid)).then_some(())
        });
    }

    /// What came out of `outlive`'s standard error so far.
    pub fn stderr(&self) -> Vec<u8> {
        lock(&self.stderr).clone()
    }

    /// `outlive`'s process id.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Sends `outlive` a signal.
    pub fn signal(&self, signal: Signal) {
        tree::kill(self.child.id(), signal);
    }

    /// Waits until `outlive` has exited.
    #[track_caller]
    pub fn exit(&mut self) -> ExitStatus {
        let child = &mut self.child;
        until("outlive's exit", || child.try_wait().expect("its status"))
    }

    /// Processes of this test other than `outlive` itself.
    pub fn tree(&self) -> Vec<u32> {
        let mut pids = tree::marked(&self.setup.mark);
        pids.retain(|pid| *pid != self.child.id());
        pids
    }

    /// Waits until no process of this test is left but `outlive`.
    pub fn wait_for_empty_tree(&self) {
        until("the end of all descendants", || {
            self.tree().is_empty().then_some(())
        });
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        if thread::panicking() {
            self.explain();
        }
        self.input = None;
        self.resume_reading();
        let _ = self.child.kill();
        let _ = self.child.wait();
        // A descendant may be making another one while we look.
        for _ in 0..100 {
            let left = tree::marked(&self.setup.mark);
            if left.is_empty() {
                break;
            }
            left.iter().for_each(|pid| tree::kill(*pid, Signal::KILL));
            thread::sleep(Duration::from_millis(5));
        }
    }
}

impl Host {
    /// Prints what is known, for whoever has to find out why a test failed.
    fn explain(&self) {
        let short = |text: String| text.chars().take(600).collect::<String>();
        let last = |lines: Vec<String>| {
            let from = lines.len().saturating_sub(25);
            lines
                .into_iter()
                .skip(from)
                .map(|line| format!("  {}\n", short(line)))
        };
        let events = last(self.events().iter().map(Value::to_string).collect());
        let heard = last(self.lines().iter().map(|line| lossy(line)).collect());
        let tapped = last(self.tap().records().iter().map(Value::to_string).collect());
        eprintln!("--- {}", self.setup.command_line().join(" "));
        eprintln!("--- log (last lines)\n{}", events.collect::<String>());
        eprintln!(
            "--- the host received (last lines)\n{}",
            heard.collect::<String>()
        );
        eprintln!("--- tap (last lines)\n{}", tapped.collect::<String>());
        let stderr = lossy(&self.stderr());
        let tail: String = stderr.chars().rev().take(2000).collect();
        eprintln!("--- stderr\n{}", tail.chars().rev().collect::<String>());
    }
}

fn is_answer(message: &Value, id: &Value) -> bool {
    message.get("method").is_none() && message.get("id") == Some(id)
}

fn lossy(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}
