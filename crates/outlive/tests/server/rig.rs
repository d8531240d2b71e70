//! A client of raw lines, over memory.

use std::io;
use std::time::Duration;

use outlive::memory::{self, Endpoint};
use outlive::server::Server;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, ReadHalf, WriteHalf};
use tokio::task::JoinHandle;
use tokio::time::timeout;

/// Long enough that only a hang exceeds it.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// Runs a test on a runtime of each kind: a server must not care.
pub fn on_both_runtimes<F: Future<Output = ()>>(test: impl Fn() -> F) {
    for mut runtime in [
        tokio::runtime::Builder::new_current_thread(),
        tokio::runtime::Builder::new_multi_thread(),
    ] {
        let runtime = runtime.enable_all().build().expect("a runtime");
        runtime.block_on(async { soon(test()).await });
    }
}

/// Waits, but not for ever.
pub async fn soon<T>(future: impl Future<Output = T>) -> T {
    timeout(PATIENCE, future).await.expect("this hangs")
}

/// A client of one server.
pub struct Client {
    reader: BufReader<ReadHalf<Endpoint>>,
    writer: WriteHalf<Endpoint>,
    /// What came while something else was waited for.
    kept: Vec<Value>,
    serving: JoinHandle<io::Result<()>>,
}

impl Client {
    /// Connects, without a word.
    pub fn connect(server: &Server) -> Client {
        let (ours, theirs) = memory::pair_with(1 << 20);
        let (reader, writer) = tokio::io::split(ours);
        let server = server.clone();
        Client {
            reader: BufReader::new(reader),
            writer,
            kept: Vec::new(),
            serving: tokio::spawn(async move { server.serve(theirs).await }),
        }
    }

    /// Connects and shakes hands; the client is able to do everything.
    pub async fn legacy(server: &Server) -> Client {
        let mut client = Client::connect(server);
        client.shake_hands().await;
        client
    }

    /// Shakes hands and returns what the server said of itself.
    pub async fn shake_hands(&mut self) -> Value {
        let params = json!({
            "protocolVersion": "2025-11-25",
            "capabilities": { "sampling": {}, "elicitation": { "form": {} }, "roots": {} },
            "clientInfo": { "name": "rig", "version": "1" },
        });
        let result = self.request("shake", "initialize", params).await;
        let initialized = json!({ "jsonrpc": "2.0", "method": "notifications/initialized" });
        self.send(&initialized).await;
        result["result"].clone()
    }

    pub async fn send(&mut self, message: &Value) {
        self.send_line(message.to_string().as_bytes()).await;
    }

    pub async fn send_line(&mut self, line: &[u8]) {
        let line = [line, b"\n"].concat();
        soon(self.writer.write_all(&line)).await.expect("a reader");
    }

    /// Sends a request without waiting for its answer.
    pub async fn begin(&mut self, id: impl Into<Value>, method: &str, params: Value) {
        let id = id.into();
        let request = json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params });
        self.send(&request).await;
    }

    /// Calls a tool without waiting for its answer.
    pub async fn begin_call(&mut self, id: impl Into<Value>, tool: &str, arguments: Value) {
        let params = json!({ "name": tool, "arguments": arguments });
        self.begin(id, "tools/call", params).await;
    }

    /// Sends a request and waits for its answer; what comes before it is kept.
    pub async fn request(&mut self, id: impl Into<Value>, method: &str, params: Value) -> Value {
        let id = id.into();
        self.begin(id.clone(), method, params).await;
        self.answer_to(id).await
    }

    /// Calls a tool and waits for its answer.
    pub async fn call(&mut self, id: impl Into<Value>, tool: &str, arguments: Value) -> Value {
        let params = json!({ "name": tool, "arguments": arguments });
        self.request(id, "tools/call", params).await
    }

    pub async fn cancel(&mut self, id: impl Into<Value>, reason: &str) {
        let params = json!({ "requestId": id.into(), "reason": reason });
        let method = "notifications/cancelled";
        self.send(&json!({ "jsonrpc": "2.0", "method": method, "params": params }))
            .await;
    }

    /// The answer to this request.
    pub async fn answer_to(&mut self, id: impl Into<Value>) -> Value {
        let id = id.into();
        self.wait_for(|message| message.get("method").is_none() && message["id"] == id)
            .await
    }

    /// The next notification or request of this method.
    pub async fn told(&mut self, method: &str) -> Value {
        self.wait_for(|message| message["method"] == method).await
    }

    async fn wait_for(&mut self, wanted: impl Fn(&Value) -> bool) -> Value {
        if let Some(found) = self.kept.iter().position(&wanted) {
            return self.kept.remove(found);
        }
        loop {
            let message = self.next().await.expect("the server is gone");
            if wanted(&message) {
                return message;
            }
            self.kept.push(message);
        }
    }

    /// The next message, whatever it is; `None` when the server has closed its side.
    pub async fn next(&mut self) -> Option<Value> {
        let mut line = Vec::new();
        let read = soon(self.reader.read_until(b'\n', &mut line)).await;
        match read.expect("to be readable") {
            0 => None,
            _ => Some(serde_json::from_slice(&line).expect("every line to be a message")),
        }
    }

    /// A ping, and with its answer the certainty that all before it has been read.
    pub async fn ping(&mut self, id: &str) {
        let pong = self.request(id, "ping", json!({})).await;
        assert_eq!(pong["result"], json!({}));
    }

    /// What came and was not waited for.
    pub fn kept(&self) -> &[Value] {
        &self.kept
    }

    /// Closes our side only; what the server still says, until it closes its own.
    pub async fn finish(mut self) -> Vec<Value> {
        self.writer.shutdown().await.expect("to close");
        while let Some(message) = self.next().await {
            self.kept.push(message);
        }
        let served = soon(self.serving).await.expect("no panic");
        served.expect("an end without error");
        self.kept
    }

    /// Leaves without a word; waits until the server has noticed and ended.
    pub async fn vanish(self) {
        let Client {
            reader,
            writer,
            serving,
            ..
        } = self;
        drop((reader, writer));
        let served = soon(serving).await.expect("no panic");
        served.expect("an end without error");
    }
}

/// The text of a tool's result.
pub fn text(answer: &Value) -> &str {
    let text = answer["result"]["content"][0]["text"].as_str();
    text.unwrap_or_else(|| panic!("no text in {answer}"))
}
