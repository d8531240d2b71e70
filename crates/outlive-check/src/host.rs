//! A host that does what it is told, also what no host should do.

use std::fmt;
use std::io;
use std::process::ExitStatus;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::Instant;

use crate::Era;
use crate::inbox::{Inbox, Letters};
use crate::journal::Leg;
use crate::pipes::Pipes;
use crate::process::{Process, ending};
use crate::tool::ToolCall;
use crate::verdict::{Finding, Held};
use crate::web::Web;

/// An exit explains the end of a server's output; it comes a moment later.
const EXPLANATION: Duration = Duration::from_millis(500);

/// The id of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Id(pub Value);

impl fmt::Display for Id {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// How the server is reached.
#[derive(Debug)]
pub(crate) enum Line {
    Pipes(Box<Pipes>),
    Web(Box<Web>),
}

/// A host and its connection to the server under test.
#[derive(Debug)]
pub struct Host {
    line: Line,
    pub(crate) inbox: Arc<Inbox>,
    pub(crate) leg: Leg,
    pub(crate) era: Era,
    pub(crate) timeout: Duration,
    pub(crate) quick: Option<ToolCall>,
    /// Whether questions of the server are answered while something is waited for.
    pub obliging: bool,
    obliged: usize,
    next_id: i64,
}

impl Host {
    pub(crate) fn new(
        line: Line,
        inbox: Arc<Inbox>,
        leg: Leg,
        era: Era,
        timeout: Duration,
        quick: Option<ToolCall>,
    ) -> Host {
        Host {
            line,
            inbox,
            leg,
            era,
            timeout,
            quick,
            obliging: true,
            obliged: 0,
            next_id: 1,
        }
    }

    // ---- sending

    /// Sends bytes as they are. The error says that the server did not take them.
    pub async fn raw(&mut self, bytes: impl AsRef<[u8]>) -> io::Result<()> {
        let bytes = bytes.as_ref();
        self.leg.waits_for("the server to read what it is sent");
        let written = match &mut self.line {
            Line::Pipes(pipes) => {
                self.leg.sent(bytes);
                pipes.write(bytes, self.timeout).await
            }
            Line::Web(web) => web.post(bytes.trim_ascii()).await,
        };
        if let Err(error) = &written {
            self.note(format!("the write failed: {error}"));
        }
        written
    }

    /// Sends a message. Whether it arrived is seen by what comes back.
    pub async fn send(&mut self, message: &Value) {
        let _ = self.raw(format!("{message}\n")).await;
    }

    /// Sends a notification.
    pub async fn notify(&mut self, method: &str, params: Value) {
        self.send(&json!({ "jsonrpc": "2.0", "method": method, "params": params }))
            .await;
    }

    /// Sends a request under the next id.
    pub async fn request(&mut self, method: &str, params: Value) -> Id {
        let id = self.next_id();
        self.send(&self.message(&id, method, params)).await;
        id
    }

    /// Calls a tool.
    pub async fn call(&mut self, call: &ToolCall) -> Id {
        self.request("tools/call", call.params()).await
    }

    /// Cancels a request, in the way of the transport: over HTTP a modern client hangs up.
    pub async fn cancel(&mut self, id: &Id) {
        let message = self.cancellation(id);
        match &mut self.line {
            Line::Web(web) if self.era == Era::Modern => web.hang_up(&id.0),
            _ => self.send(&message).await,
        }
    }

    /// Cancels a request and does not wait until that has arrived.
    pub async fn cancel_in_passing(&mut self, id: &Id) {
        let message = self.cancellation(id).to_string();
        match &mut self.line {
            Line::Web(web) if self.era == Era::Legacy => {
                let _ = web.throw(message.as_bytes()).await;
            }
            _ => self.cancel(id).await,
        }
    }

    /// An id that was not used yet.
    pub fn next_id(&mut self) -> Id {
        self.next_id += 1;
        Id(json!(self.next_id - 1))
    }

    /// A request as it would be sent: a modern one carries its metadata.
    pub fn message(&self, id: &Id, method: &str, mut params: Value) -> Value {
        if self.era == Era::Modern && params.is_object() {
            let meta = json!({
                "io.modelcontextprotocol/protocolVersion": Era::Modern.newest(),
                "io.modelcontextprotocol/clientInfo": client(),
                "io.modelcontextprotocol/clientCapabilities": capabilities(),
            });
            let own = params["_meta"].take();
            params["_meta"] = meta;
            for (key, value) in own.as_object().into_iter().flatten() {
                params["_meta"][key] = value.clone();
            }
        }
        json!({ "jsonrpc": "2.0", "id": id.0, "method": method, "params": params })
    }

    /// A cancellation as it would be sent.
    pub fn cancellation(&self, id: &Id) -> Value {
        let params = json!({ "requestId": id.0, "reason": "outlive check" });
        json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": params })
    }

    /// The cheapest request of the era: `ping`, which is gone from the modern one.
    pub fn cheapest(&self) -> &'static str {
        match self.era {
            Era::Legacy => "ping",
            Era::Modern => "server/discover",
        }
    }

    // ---- waiting

    /// Waits for the answer to a request.
    pub async fn answer(&mut self, id: &Id, what: &str) -> Result<Value, Finding> {
        enum Seen {
            Answer(Value),
            Lost(String),
            End,
        }
        let timeout = self.timeout;
        let seen = self.wait(what, timeout, |letters| {
            let answer = letters.responses(&id.0).first().cloned().map(Seen::Answer);
            let lost = letters.lost(&id.0).map(|why| Seen::Lost(why.to_owned()));
            answer.or(lost).or(letters.ended.then_some(Seen::End))
        });
        match seen.await {
            Some(Seen::Answer(answer)) => Ok(answer),
            Some(Seen::Lost(why)) => Finding::broken(format!("{what} was not answered: {why}.")),
            Some(Seen::End) => {
                let end = self.end_in_words().await;
                Finding::broken(format!("{what} was not answered: {end}"))
            }
            None => Finding::broken(format!("{what} was not answered within {timeout:?}.")),
        }
    }

    /// Sends a request and waits for its answer.
    pub async fn ask(&mut self, method: &str, params: Value, what: &str) -> Result<Value, Finding> {
        let id = self.request(method, params).await;
        self.answer(&id, what).await
    }

    /// The handshake of the era. The modern one has none.
    pub async fn handshake(&mut self) -> Result<Value, Finding> {
        if self.era == Era::Modern {
            return Ok(Value::Null);
        }
        let answer = self
            .ask("initialize", initialize(Era::Legacy.newest()), "initialize")
            .await?;
        self.notify("notifications/initialized", json!({})).await;
        match answer.get("result") {
            Some(result) => Ok(result.clone()),
            None => Finding::broken(format!("initialize was refused: {answer}")),
        }
    }

    /// The server still does its work: a cheap request and a call are answered, by whatever.
    pub async fn serves(&mut self, when: &str) -> Held {
        let cheapest = self.cheapest();
        self.ask(cheapest, json!({}), &format!("{cheapest} {when}"))
            .await?;
        if let Some(call) = self.quick.clone() {
            let id = self.call(&call).await;
            let answer = self
                .answer(&id, &format!("a call of {:?} {when}", call.name))
                .await?;
            if answer.get("result").is_none() {
                return Finding::broken(format!(
                    "A call of {:?} {when} failed: {answer}",
                    call.name
                ));
            }
        }
        Ok(())
    }

    /// Listens for a while, whatever comes.
    pub async fn linger(&mut self, time: Duration) {
        self.wait("what comes", time, |letters| letters.ended.then_some(()))
            .await;
    }

    /// Waits until something is found in what came.
    pub async fn wait<T>(
        &mut self,
        what: &str,
        timeout: Duration,
        mut look: impl FnMut(&Letters) -> Option<T>,
    ) -> Option<T> {
        enum Seen<T> {
            It(T),
            Question(Value),
        }
        self.leg.waits_for(what);
        let deadline = Instant::now() + timeout;
        let inbox = self.inbox.clone();
        loop {
            let next = self.obliging.then_some(self.obliged);
            let seen = inbox.until(deadline - Instant::now(), |letters| {
                let question = next.and_then(|nth| letters.requests.get(nth));
                look(letters)
                    .map(Seen::It)
                    .or(question.cloned().map(Seen::Question))
            });
            match seen.await? {
                Seen::It(found) => return Some(found),
                Seen::Question(question) => {
                    self.obliged += 1;
                    self.send(&obliging(&question)).await;
                }
            }
        }
    }

    /// How many responses came for a request.
    pub fn responses(&self, id: &Id) -> usize {
        self.inbox.letters().responses(&id.0).len()
    }

    /// Looks at what came so far.
    pub fn look<T>(&self, look: impl FnOnce(&Letters) -> T) -> T {
        look(&self.inbox.letters())
    }

    // ---- leaving

    /// The end of the server's input.
    pub fn close_input(&mut self) {
        self.note("its input is closed");
        self.pipes().close_input();
    }

    /// Nobody reads the server's output any more.
    pub async fn close_output(&mut self) {
        self.note("its output is closed: nobody reads it");
        self.pipes().close_output().await;
    }

    /// Leaves the server's output in the pipe, until told otherwise.
    pub fn stop_reading(&mut self) {
        self.note("its output is left in the pipe");
        self.pipes().stop_reading();
    }

    /// Waits for the server's end.
    pub async fn end(&mut self, what: &str, timeout: Duration) -> Result<ExitStatus, Finding> {
        self.leg.waits_for(what);
        match self.pipes().process.end(timeout).await {
            Some(status) => Ok(status),
            None => Finding::broken(format!(
                "{what} did not happen within {timeout:?}: the server still runs."
            )),
        }
    }

    /// The server's process.
    pub fn process(&mut self) -> &mut Process {
        &mut self.pipes().process
    }

    /// Whether the server is at the other end of pipes: bytes can be sent in any pieces then.
    pub fn has_pipes(&self) -> bool {
        matches!(self.line, Line::Pipes(_))
    }

    /// The pipes to it.
    ///
    /// # Panics
    ///
    /// If the scenario was said to make sense over HTTP, and does not.
    pub(crate) fn pipes(&mut self) -> &mut Pipes {
        match &mut self.line {
            Line::Pipes(pipes) => pipes,
            Line::Web(_) => panic!("a scenario for pipes was played over HTTP"),
        }
    }

    /// The client of the server over HTTP.
    ///
    /// # Panics
    ///
    /// If the scenario was said to make sense over pipes, and does not.
    pub(crate) fn web(&mut self) -> &mut Web {
        match &mut self.line {
            Line::Web(web) => web,
            Line::Pipes(_) => panic!("a scenario for HTTP was played over pipes"),
        }
    }

    /// Writes a remark into the journal.
    pub fn note(&self, text: impl Into<String>) {
        self.leg.note(text);
    }

    /// The time this host waits for anything.
    pub fn timeout(&self) -> Duration {
        self.timeout
    }

    async fn end_in_words(&mut self) -> String {
        match self.pipes().process.end(EXPLANATION).await {
            Some(status) => format!("the server {}.", ending(status)),
            None => "the server closed its output, but still runs.".into(),
        }
    }
}

/// The parameters of `initialize`.
pub fn initialize(version: &str) -> Value {
    json!({ "protocolVersion": version, "capabilities": capabilities(), "clientInfo": client() })
}

fn client() -> Value {
    json!({ "name": "outlive check", "version": env!("CARGO_PKG_VERSION") })
}

fn capabilities() -> Value {
    json!({ "elicitation": {}, "roots": {}, "sampling": {} })
}

/// What a patient person would answer.
fn obliging(question: &Value) -> Value {
    let result = match question["method"].as_str() {
        Some("ping") => json!({}),
        Some("roots/list") => json!({ "roots": [] }),
        Some("elicitation/create") => json!({ "action": "decline" }),
        Some("sampling/createMessage") => json!({
            "role": "assistant", "model": "none", "content": { "type": "text", "text": "yes" },
        }),
        _ => {
            let error = json!({ "code": -32601, "message": "this host does not know that method" });
            return json!({ "jsonrpc": "2.0", "id": question["id"], "error": error });
        }
    };
    json!({ "jsonrpc": "2.0", "id": question["id"], "result": result })
}
