//! The connection of the client to its server.

use std::collections::HashMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, ChildStderr, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use super::{Connection, End, Waiter, lock};
use crate::defects::Defects;

/// How long the server has to leave by itself, and then after SIGTERM.
const GRACE: Duration = Duration::from_millis(1500);

/// A connection.
pub struct Link {
    defects: Arc<Defects>,
    child: Mutex<Child>,
    input: mpsc::Sender<Option<Vec<u8>>>,
    waiters: Mutex<HashMap<String, Waiter>>,
    next: AtomicU64,
    alive: AtomicBool,
    modern: AtomicBool,
    stderr: Arc<Mutex<String>>,
}

impl Link {
    /// Starts the server and shakes hands.
    pub fn open(errand: &Value, defects: Arc<Defects>) -> Result<Arc<Link>, String> {
        loop {
            let (link, output) = Link::start(errand, &defects).map_err(|e| e.to_string())?;
            let reading = link.clone();
            thread::spawn(move || reading.read(output));
            let shaken = link.shake_hands();
            if defects.has("restarts-at-once") {
                // A loop without a pause: the first server that stays is taken.
                let deadline = Instant::now() + Duration::from_millis(50);
                while link.is_alive() && Instant::now() < deadline {
                    thread::sleep(Duration::from_millis(1));
                }
                if !link.is_alive() {
                    continue;
                }
            }
            return shaken.map(|()| link);
        }
    }

    fn start(errand: &Value, defects: &Arc<Defects>) -> std::io::Result<(Arc<Link>, ChildStdout)> {
        let words = errand["command"].as_array().into_iter().flatten();
        let words: Vec<&str> = words.filter_map(Value::as_str).collect();
        let mut command = match defects.is_empty() {
            true => {
                let outlive = std::env::current_exe()?.with_file_name("outlive");
                let mut command = Command::new(outlive);
                command.args(["run", "--stop-grace", "1s", "--term-grace", "1s", "--"]);
                command.args(&words);
                command
            }
            false => {
                let mut command = Command::new(words.first().unwrap_or(&""));
                command.args(words.iter().skip(1));
                command
            }
        };
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()?;
        let gone = || std::io::Error::other("gone at once");
        let stdin = child.stdin.take().ok_or_else(gone)?;
        let stdout = child.stdout.take().ok_or_else(gone)?;
        let stderr = child.stderr.take().ok_or_else(gone)?;
        let tail: Arc<Mutex<String>> = Arc::default();
        match defects.has("leaves-stderr") {
            true => std::mem::forget(stderr),
            false => {
                let tail = tail.clone();
                thread::spawn(move || drain(stderr, &tail));
            }
        }
        let (input, queue) = mpsc::channel();
        thread::spawn(move || write(stdin, &queue));
        let link = Arc::new(Link {
            defects: defects.clone(),
            child: Mutex::new(child),
            input,
            waiters: Mutex::default(),
            next: AtomicU64::new(1),
            alive: AtomicBool::new(true),
            modern: AtomicBool::new(false),
            stderr: tail,
        });
        Ok((link, stdout))
    }

    fn shake_hands(self: &Arc<Self>) -> Result<(), String> {
        if self.defects.has("hangs-on-failed-start") {
            self.shake_hands_with(Duration::from_secs(3600))
        } else if self.defects.has("impatient") {
            self.shake_hands_with(Duration::from_millis(500))
        } else {
            self.shake_hands_with(Duration::from_secs(30))
        }
    }

    fn shake_hands_with(self: &Arc<Self>, timeout: Duration) -> Result<(), String> {
        self.modern.store(true, Ordering::SeqCst);
        let found = self.try_ask("server/discover", json!({}), timeout)?;
        if found["result"]["supportedVersions"].is_array() {
            return Ok(());
        }
        self.modern.store(false, Ordering::SeqCst);
        let client = json!({ "name": "check-peer", "version": "1.0" });
        let params =
            json!({ "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": client });
        let answer = self.try_ask("initialize", params, timeout)?;
        if answer.get("result").is_none() {
            return Err(format!("initialize was answered with {answer}"));
        }
        self.notify("notifications/initialized", json!({}));
        Ok(())
    }

    fn request(&self, method: &str, params: Value, then: Waiter) -> Value {
        let id = json!(self.next.fetch_add(1, Ordering::SeqCst));
        let mut params = params;
        if self.modern.load(Ordering::SeqCst) {
            params["_meta"] = json!({
                "io.modelcontextprotocol/protocolVersion": "2026-07-28",
                "io.modelcontextprotocol/clientInfo": { "name": "check-peer", "version": "1.0" },
                "io.modelcontextprotocol/clientCapabilities": {},
            });
        }
        lock(&self.waiters).insert(id.to_string(), then);
        self.put(&json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params }));
        if !self.is_alive() && !self.defects.has("hangs-after-death") {
            self.lose_all();
        }
        id
    }

    /// Sends a request and waits for what becomes of it.
    fn try_ask(&self, method: &str, params: Value, timeout: Duration) -> Result<Value, String> {
        let (tell, told) = mpsc::channel();
        let id = self.request(method, params, Box::new(move |end| drop(tell.send(end))));
        match told.recv_timeout(timeout) {
            Ok(End::Answer(answer)) => Ok(answer),
            Ok(End::Lost(why)) => Err(why),
            Err(_) => {
                self.give_up(&id);
                Err(format!("{method} took too long"))
            }
        }
    }

    /// Gives a request up.
    fn give_up(&self, id: &Value) {
        if !self.defects.has("waits-for-cancelled") {
            lock(&self.waiters).remove(&id.to_string());
        }
        if !self.defects.has("cancels-silently") {
            self.notify("notifications/cancelled", json!({ "requestId": id }));
        }
    }

    fn wait_for_ever(&self) {
        let _ = lock(&self.child).wait();
    }

    fn notify(&self, method: &str, params: Value) {
        self.put(&json!({ "jsonrpc": "2.0", "method": method, "params": params }));
    }

    fn put(&self, message: &Value) {
        let mut line = format!("{message}\n").into_bytes();
        if self.defects.has("cuts-messages") && line.len() > 64 << 10 {
            line.drain(32 << 10..line.len() - 1);
        }
        let _ = self.input.send(Some(line));
    }

    fn lose_all(&self) {
        let status = lock(&self.child).try_wait().ok().flatten();
        let words = match self.defects.has("hides-failures") {
            true => "Connection closed".into(),
            false => format!("the server is gone ({status:?}): {}", lock(&self.stderr)),
        };
        for (_, waiter) in std::mem::take(&mut *lock(&self.waiters)) {
            waiter(End::Lost(words.clone()));
        }
    }

    fn read(&self, output: ChildStdout) {
        let mut output = BufReader::new(output);
        let mut line = Vec::new();
        loop {
            line.clear();
            let read = match self.defects.has("needs-whole-writes") {
                true => read_once(&mut output, &mut line),
                false => output.read_until(b'\n', &mut line),
            };
            if !read.is_ok_and(|n| n > 0) {
                break;
            }
            self.take(&line);
        }
        // A moment for the status and the last words.
        if !self.defects.has("restarts-at-once") {
            thread::sleep(Duration::from_millis(100));
        }
        self.alive.store(false, Ordering::SeqCst);
        let forgetful = [
            "hangs-on-failed-start",
            "forgets-calls-at-close",
            "forgets-calls-at-death",
        ];
        if forgetful.iter().any(|defect| self.defects.has(defect)) {
            return;
        }
        self.lose_all();
    }

    fn take(&self, line: &[u8]) {
        let fatal = |defect: &str| {
            if self.defects.has(defect) {
                eprintln!("check-peer: {defect}");
                std::process::exit(1);
            }
        };
        if self.defects.has("small-buffer") && line.len() > 64 << 10 {
            std::process::exit(1);
        }
        if line.trim_ascii().is_empty() {
            return fatal("dies-on-blank-lines");
        }
        if std::str::from_utf8(line).is_err() {
            return fatal("dies-on-bad-utf8");
        }
        let Ok(message) = serde_json::from_slice::<Value>(line) else {
            return fatal("dies-on-junk");
        };
        let id = message.get("id").filter(|id| !id.is_null());
        match (message["method"].as_str(), id) {
            (Some(method), Some(id)) => self.question(method, id),
            (Some("notifications/progress"), None) => fatal("dies-on-progress"),
            (Some(method), None) if !method.starts_with("notifications/tools") => {
                fatal("dies-on-unknown-notification");
            }
            (None, Some(id)) => match lock(&self.waiters).remove(&id.to_string()) {
                Some(waiter) => waiter(End::Answer(message)),
                None => fatal("dies-on-unknown-id"),
            },
            _ => {}
        }
    }

    fn question(&self, method: &str, id: &Value) {
        if self.defects.has("ignores-questions") {
            return;
        }
        match method {
            "ping" => self.put(&json!({ "jsonrpc": "2.0", "id": id, "result": {} })),
            _ => {
                let error = json!({ "code": -32601, "message": "Method not found" });
                self.put(&json!({ "jsonrpc": "2.0", "id": id, "error": error }));
            }
        }
    }
}

impl Connection for Link {
    fn send(self: Arc<Self>, method: &str, params: Value, then: Waiter) -> Value {
        self.request(method, params, then)
    }

    fn cancel(self: Arc<Self>, id: &Value) {
        self.give_up(id);
    }

    fn is_alive(&self) -> bool {
        self.alive.load(Ordering::SeqCst)
    }

    fn close(&self) {
        if self.defects.has("leaves-server") {
            return;
        }
        if !self.defects.has("forgets-calls-at-close") {
            self.lose_all();
        }
        if self.defects.has("kills-at-once") {
            let _ = lock(&self.child).kill();
        }
        let _ = self.input.send(None);
        if self.defects.has("waits-for-ever") {
            return self.wait_for_ever();
        }
        let pid = i32::try_from(lock(&self.child).id())
            .ok()
            .and_then(Pid::from_raw);
        // Behind `outlive run` it is that which insists.
        let grace = if self.defects.is_empty() {
            10 * GRACE
        } else {
            GRACE
        };
        for signal in [Signal::TERM, Signal::KILL] {
            let deadline = Instant::now() + grace;
            while Instant::now() < deadline {
                if lock(&self.child)
                    .try_wait()
                    .is_ok_and(|status| status.is_some())
                {
                    return;
                }
                thread::sleep(Duration::from_millis(10));
            }
            if let Some(pid) = pid {
                let _ = kill_process(pid, signal);
            }
        }
        let _ = lock(&self.child).wait();
    }
}

fn write(mut stdin: ChildStdin, queue: &mpsc::Receiver<Option<Vec<u8>>>) {
    while let Ok(Some(bytes)) = queue.recv() {
        if stdin
            .write_all(&bytes)
            .and_then(|()| stdin.flush())
            .is_err()
        {
            return;
        }
    }
}

fn drain(mut stderr: ChildStderr, tail: &Mutex<String>) {
    let mut buffer = [0; 4096];
    while let Ok(n @ 1..) = stderr.read(&mut buffer) {
        let mut tail = lock(tail);
        tail.push_str(&String::from_utf8_lossy(&buffer[..n]));
        let cut = tail.len().saturating_sub(2000);
        let cut = (cut..tail.len()).find(|at| tail.is_char_boundary(*at));
        *tail = tail.split_off(cut.unwrap_or(0));
    }
}

fn read_once(output: &mut BufReader<ChildStdout>, line: &mut Vec<u8>) -> std::io::Result<usize> {
    let piece = output.fill_buf()?;
    line.extend_from_slice(piece);
    let n = piece.len();
    output.consume(n);
    Ok(n)
}
