//! The stage: the host, the books and the timeline, moved by one thread.
//!
//! The script says what to do next; while it waits, everything that `outlive run` writes is
//! entered in the books and shown, in the order it came.

use std::io;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::host::{Gone, Host, Pipe, Seen};
use super::tally::{Answer, Claim, Tally};
use super::timeline::{Timeline, Tone, Who, brief, clipped, printable};
use crate::system::Process;

/// What the demo waits for comes within milliseconds; only a hang misses this.
const PATIENCE: Duration = Duration::from_secs(20);

/// What was done to the server that is in service, or was.
#[derive(Clone, Copy, Debug)]
enum Fault {
    Killed(Instant),
    Stopped,
    /// The call that it left unanswered ended.
    GivenUp(Instant),
}

/// A demo under way.
#[derive(Debug)]
pub struct Stage {
    host: Host,
    /// The books.
    pub tally: Tally,
    /// The timeline.
    pub timeline: Timeline,
    pace: Duration,
    /// The process that gave the latest answer, until a signal is sent to it: nothing else is killed.
    server: Option<Process>,
    fault: Option<Fault>,
    tools: Value,
}

impl Stage {
    /// Starts `outlive run`. A scene is followed by a pause of `pace`.
    pub fn open(timeline: Timeline, pace: Duration) -> Result<Stage, String> {
        Ok(Stage {
            host: Host::start()?,
            tally: Tally::default(),
            timeline,
            pace,
            server: None,
            fault: None,
            tools: Value::Null,
        })
    }

    /// Begins a scene.
    pub fn scene(&mut self, title: &str) {
        self.timeline.push(Who::Scene, Tone::Title, title);
    }

    /// Gives a person time to read what happened.
    pub fn pause(&mut self) -> Result<(), String> {
        let end = Instant::now() + self.pace;
        while Instant::now() < end {
            self.step(end)?;
        }
        Ok(())
    }

    /// Sends a request that is not a call of a tool, and waits for its result.
    pub fn ask(&mut self, method: &'static str, params: Value) -> Result<(), String> {
        let id = self.tally.sent(method, false, Claim::Result);
        self.timeline
            .push(Who::Host, Tone::Plain, format!("→ #{id} {method}"));
        self.host
            .send(&json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}))?;
        self.answer(id)
    }

    /// Sends a notification.
    pub fn notify(&mut self, method: &str, params: Value) -> Result<(), String> {
        self.host
            .send(&json!({ "jsonrpc": "2.0", "method": method, "params": params }))
    }

    /// Calls a tool and does not wait.
    pub fn call(&mut self, tool: &'static str, claim: Claim) -> Result<u64, String> {
        let id = self.tally.sent(tool, true, claim);
        self.timeline
            .push(Who::Host, Tone::Plain, format!("→ #{id} {tool}"));
        let meta = json!({ "progressToken": id });
        let params = json!({ "name": tool, "arguments": {}, "_meta": meta });
        let method = "tools/call";
        self.host
            .send(&json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}))?;
        Ok(id)
    }

    /// Cancels a call.
    pub fn cancel(&mut self, id: u64) -> Result<(), String> {
        self.timeline
            .push(Who::Host, Tone::Plain, format!("→ #{id} is cancelled"));
        self.notify(
            "notifications/cancelled",
            json!({ "requestId": id, "reason": "demo" }),
        )
    }

    /// Waits until a request is answered.
    pub fn answer(&mut self, id: u64) -> Result<(), String> {
        self.until(&format!("#{id} got no answer"), |stage| {
            !stage.tally.request(id).answers.is_empty()
        })
    }

    /// Calls a tool and waits for its answer.
    pub fn call_and_wait(&mut self, tool: &'static str, claim: Claim) -> Result<(), String> {
        let id = self.call(tool, claim)?;
        self.answer(id)
    }

    /// The words of a request's error.
    pub fn words(&self, id: u64) -> &str {
        match self.tally.request(id).answers.first() {
            Some(Answer::Error { message, .. }) => message,
            _ => "",
        }
    }

    /// Waits until the server has said that it works on a call.
    pub fn progress(&mut self, id: u64) -> Result<(), String> {
        self.until(&format!("The server did not begin with #{id}"), |stage| {
            stage.tally.request(id).progress > 0
        })
    }

    /// Waits until outlive has lost as many servers as this.
    pub fn lost(&mut self, count: usize) -> Result<(), String> {
        self.until("The death was not noticed", |stage| {
            stage.tally.events.lost >= count
        })
    }

    /// Waits until as many servers as this have become ready.
    pub fn ready(&mut self, count: usize) -> Result<(), String> {
        self.until("No server became ready", |stage| {
            stage.tally.events.ready >= count
        })
    }

    /// Waits until outlive has kept as many late answers as this from the host.
    pub fn late(&mut self, count: usize) -> Result<(), String> {
        self.until("No late answer was dropped", |stage| {
            stage.tally.events.late >= count
        })
    }

    /// Kills the server, in a way that no process can catch.
    pub fn kill(&mut self) -> Result<(), String> {
        self.fault = Some(Fault::Killed(Instant::now()));
        self.strike(Process::kill, Process::KILL.0)
    }

    /// Stops the server: it stays, and does nothing any more.
    pub fn hang(&mut self) -> Result<(), String> {
        self.fault = Some(Fault::Stopped);
        self.strike(Process::stop, Process::STOP)
    }

    fn strike(
        &mut self,
        how: impl FnOnce(Process) -> io::Result<()>,
        what: &str,
    ) -> Result<(), String> {
        let server = self.server.take();
        let server = server.ok_or("The demo does not know the server's process.")?;
        let line = format!("⚡ {what} to process {}", server.number());
        self.timeline.push(Who::Fate, Tone::Bad, line);
        how(server).map_err(|error| format!("The server could not be sent a signal: {error}."))
    }

    /// The process that serves now.
    pub fn server(&self) -> Option<Process> {
        self.server
    }

    /// The result of the latest `tools/list`.
    pub fn tools(&self) -> &[Value] {
        self.tools.as_array().map_or(&[], Vec::as_slice)
    }

    /// Leaves, as a host does, and sees that nothing stays behind.
    pub fn close(&mut self) {
        let server = self.server;
        self.host.leave();
        let deadline = Instant::now() + PATIENCE;
        while Instant::now() < deadline {
            match self.host.receive(deadline) {
                Ok(Some(seen)) => self.notice(seen),
                Ok(None) => {}
                Err(Gone) => break,
            }
        }
        match self.host.end() {
            Ok(status) if status.success() => {}
            Ok(status) => self
                .tally
                .odd(format!("`outlive run` ended badly ({status}).")),
            Err(sentence) => self.tally.odd(sentence),
        }
        if server.is_some_and(Process::lives) {
            self.tally
                .odd("The server is still there although outlive has gone.");
        }
    }

    fn until(&mut self, complaint: &str, done: impl Fn(&Stage) -> bool) -> Result<(), String> {
        let deadline = Instant::now() + PATIENCE;
        while !done(self) {
            if Instant::now() >= deadline {
                return Err(format!("{complaint} within {} s.", PATIENCE.as_secs()));
            }
            self.step(deadline)?;
        }
        Ok(())
    }

    fn step(&mut self, deadline: Instant) -> Result<(), String> {
        match self.host.receive(deadline) {
            Ok(Some(seen)) => self.notice(seen),
            Ok(None) => {}
            Err(Gone) => return Err("`outlive run` ended before its host left.".into()),
        }
        Ok(())
    }

    fn notice(&mut self, seen: Seen) {
        match (serde_json::from_slice::<Value>(&seen.line), seen.from) {
            (Ok(message), Pipe::Messages) => self.message(&message, seen.at),
            (Ok(event), Pipe::Log) => self.event(&event, seen.at),
            (Err(_), from) => {
                let line = printable(&String::from_utf8_lossy(&seen.line));
                self.tally.odd(match from {
                    Pipe::Messages => format!("The host was sent what is not JSON: {line}"),
                    Pipe::Log => format!("`outlive run` logged what is not an event: {line}"),
                });
            }
        }
    }

    fn message(&mut self, message: &Value, at: Instant) {
        match (message["method"].as_str(), message.get("id")) {
            (None, Some(id)) => self.answered(id, message, at),
            (Some("notifications/progress"), None) => {
                let params = &message["params"];
                let Some(request) = self.tally.find(&params["progressToken"]) else {
                    self.tally
                        .odd(format!("The host was sent progress on nothing: {message}"));
                    return;
                };
                request.progress += 1;
                let note = printable(params["message"].as_str().unwrap_or_default());
                let line = format!("← #{} {note} …", request.id);
                self.timeline.push(Who::Host, Tone::Quiet, line);
            }
            _ => self.tally.odd(format!(
                "The host was sent what it did not expect: {message}"
            )),
        }
    }

    fn answered(&mut self, id: &Value, message: &Value, at: Instant) {
        let Some(request) = self.tally.find(id) else {
            self.tally
                .odd(format!("The host was sent an answer to nothing: {message}"));
            return;
        };
        let took = at.saturating_duration_since(request.sent);
        let (answer, tone, line) = match message.get("error") {
            None => {
                let text = text_of(&message["result"]);
                let line = format!("← #{} {text} ({})", request.id, brief(took));
                (Answer::Result(text), Tone::Good, line)
            }
            Some(error) => {
                let kind = error.pointer("/data/outlive/kind").and_then(Value::as_str);
                let kind = kind.map_or_else(|| error["code"].to_string(), printable);
                let words = printable(error["message"].as_str().unwrap_or_default());
                let after = match self.fault {
                    Some(Fault::Killed(kill)) => {
                        format!(
                            "{} after the kill",
                            brief(at.saturating_duration_since(kill))
                        )
                    }
                    _ => format!("after {}", brief(took)),
                };
                let tone = match request.claim {
                    Claim::Error(claimed) if claimed == kind => Tone::Warn,
                    _ => Tone::Bad,
                };
                let line = format!("← #{} {kind} ({after}): {words}", request.id);
                (
                    Answer::Error {
                        kind,
                        message: words,
                    },
                    tone,
                    line,
                )
            }
        };
        request.answers.push(answer);
        self.timeline.push(Who::Host, tone, line);
        if let Some(Fault::Stopped) = self.fault {
            self.fault = Some(Fault::GivenUp(at));
        }
        let result = &message["result"];
        if let Some(pid) = result
            .pointer("/structuredContent/pid")
            .and_then(Value::as_i64)
        {
            self.server = Process::of(pid);
        }
        if let Some(tools) = result.get("tools") {
            self.tools = tools.clone();
        }
    }

    fn event(&mut self, event: &Value, at: Instant) {
        let events = &mut self.tally.events;
        let (tone, line) = match event["event"].as_str().unwrap_or_default() {
            "state" if event["state"] == "ready" => {
                events.ready += 1;
                (Tone::Good, self.recovered(&event["generation"], at))
            }
            "lost" if event["cause"]["kind"] != "closing" => {
                events.lost += 1;
                (Tone::Warn, loss(event))
            }
            "retried" => {
                events.retried += 1;
                (
                    Tone::Good,
                    format!("#{} may be repeated: sent again", bare(&event["id"])),
                )
            }
            "dropped" => {
                match event["reason"].as_str() {
                    Some("not_a_message") => events.junk += 1,
                    Some("late_answer") => events.late += 1,
                    _ => {}
                }
                (Tone::Plain, dropped(event))
            }
            "list_changed" => {
                self.tally.odd(format!(
                    "Nothing changed, and outlive saw a change: {event}"
                ));
                return;
            }
            "absorbing_cancels" => (Tone::Plain, "no more cancellations are sent to it".into()),
            // The rest is shown already: a loss is followed by `down` and `connecting`, and a
            // `refused` call by its error.
            _ => return,
        };
        self.timeline.push(Who::Outlive, tone, line);
    }

    fn recovered(&mut self, generation: &Value, at: Instant) -> String {
        match self.fault.take() {
            None | Some(Fault::Stopped) => format!("server {generation} ready"),
            Some(Fault::Killed(kill)) => {
                let recovery = at.saturating_duration_since(kill);
                self.tally.recoveries.push(recovery);
                format!(
                    "server {generation} ready, {} after the kill",
                    brief(recovery)
                )
            }
            Some(Fault::GivenUp(end)) => {
                let recovery = at.saturating_duration_since(end);
                self.tally.replaced_after = Some(recovery);
                format!(
                    "server {generation} ready, {} after the timeout",
                    brief(recovery)
                )
            }
        }
    }
}

fn loss(event: &Value) -> String {
    let cause = &event["cause"];
    let how = match (cause["kind"].as_str(), cause["signal"].as_i64()) {
        (Some("exited"), Some(signal)) => format!("signal {signal}"),
        (kind, _) => printable(kind.unwrap_or("no reason given")),
    };
    match event["in_flight"].as_u64() {
        None | Some(0) => format!("server {} lost: {how}", event["generation"]),
        Some(1) => format!(
            "server {} lost: {how}, 1 call in flight",
            event["generation"]
        ),
        Some(n) => format!(
            "server {} lost: {how}, {n} calls in flight",
            event["generation"]
        ),
    }
}

fn dropped(event: &Value) -> String {
    let detail = bare(&event["detail"]);
    let what = match event["reason"].as_str() {
        Some("not_a_message") => detail,
        Some("late_answer") => format!("late answer, {detail}"),
        reason => format!("{}, {detail}", reason.unwrap_or("a line")),
    };
    format!("dropped: {}", clipped(&what, 36))
}

/// A value without the quotes of JSON.
fn bare(value: &Value) -> String {
    match value.as_str() {
        Some(text) => printable(text),
        None => value.to_string(),
    }
}

/// The few words of a result that a person wants to see.
fn text_of(result: &Value) -> String {
    if let Some(text) = result.pointer("/content/0/text").and_then(Value::as_str) {
        return printable(text);
    }
    if let Some(tools) = result["tools"].as_array() {
        return format!("{} tools", tools.len());
    }
    bare(&result["serverInfo"]["name"])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_loss_says_how_and_what_it_hit() {
        let event = |cause: Value, in_flight: u64| {
            loss(&json!({ "generation": 2, "cause": cause, "in_flight": in_flight }))
        };
        let killed = json!({ "kind": "exited", "signal": 9 });
        assert_eq!(event(killed.clone(), 0), "server 2 lost: signal 9");
        assert_eq!(
            event(killed, 1),
            "server 2 lost: signal 9, 1 call in flight"
        );
        assert_eq!(
            event(json!({ "kind": "stopped" }), 2),
            "server 2 lost: stopped, 2 calls in flight"
        );
        assert_eq!(event(json!({ "kind": "eof" }), 0), "server 2 lost: eof");
    }

    #[test]
    fn a_result_is_told_in_a_few_words() {
        let content = json!({ "content": [{ "type": "text", "text": "a\u{7}" }] });
        assert_eq!(text_of(&content), "a\\u{7}");
        let tools = json!({ "tools": [{ "name": "pid" }, { "name": "search" }] });
        assert_eq!(text_of(&tools), "2 tools");
        assert_eq!(
            text_of(&json!({ "serverInfo": { "name": "demo-server" } })),
            "demo-server"
        );
    }
}
