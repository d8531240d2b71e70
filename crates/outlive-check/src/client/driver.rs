//! The driver of the client under test: it is told what to do, and tells what came of it.
//!
//! The contract is in `docs/check.md`: one JSON object a line, in both directions.

use std::collections::HashMap;
use std::ffi::OsString;
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::io::AsyncWriteExt;
use tokio::process::{ChildStdin, ChildStdout};
use tokio::sync::Notify;
use tokio::task::JoinHandle;
use tokio::time::{Instant, timeout_at};

use crate::inbox::{MOST, weight};
use crate::journal::Leg;
use crate::lines::Lines;
use crate::pipes::drained;
use crate::process::{Process, ending};
use crate::verdict::{Finding, Held};

/// What was told to the driver, by its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Errand(u64);

/// What came of an errand.
#[derive(Clone, Debug, PartialEq)]
pub enum Outcome {
    /// It went well; with what.
    Ok(Value),
    /// It failed.
    Failed {
        /// What kind of failure the client takes it for.
        kind: String,
        /// What it says.
        message: String,
    },
}

impl Outcome {
    /// The failure's kind, if it is one.
    pub fn kind(&self) -> Option<&str> {
        match self {
            Outcome::Ok(_) => None,
            Outcome::Failed { kind, .. } => Some(kind),
        }
    }

    /// As part of a sentence.
    pub fn words(&self) -> String {
        match self {
            Outcome::Ok(value) => format!("ended well, with {value}"),
            Outcome::Failed { kind, message } => format!("failed as {kind:?}: {message}"),
        }
    }
}

/// What the driver said.
#[derive(Debug, Default)]
struct Reports {
    said: Mutex<Said>,
    news: Notify,
}

#[derive(Debug, Default)]
struct Said {
    hello: Option<Value>,
    outcomes: HashMap<u64, Outcome>,
    /// How much it is.
    weight: usize,
    ended: bool,
}

impl Reports {
    fn said(&self) -> MutexGuard<'_, Said> {
        self.said
            .lock()
            .unwrap_or_else(|broken| broken.into_inner())
    }

    fn take(&self, line: &[u8]) {
        let mut said = self.said();
        said.weight = said.weight.saturating_add(weight(line));
        // A driver that babbles must not fill the memory.
        if said.weight > MOST {
            return;
        }
        let Ok(report) = serde_json::from_slice::<Value>(line) else {
            return;
        };
        let error = report.get("error").map(|error| Outcome::Failed {
            kind: error["kind"].as_str().unwrap_or("other").to_owned(),
            message: error["message"].as_str().unwrap_or_default().to_owned(),
        });
        match (report["n"].as_u64(), error) {
            (Some(n), Some(failed)) => drop(said.outcomes.insert(n, failed)),
            (Some(n), None) => drop(said.outcomes.insert(n, Outcome::Ok(report["ok"].clone()))),
            (None, _) if report["client"].is_string() => said.hello = Some(report),
            _ => {}
        }
        drop(said);
        self.news.notify_waiters();
    }

    /// Waits for something the driver says; the end of its output is waited for no longer.
    async fn until<T>(&self, timeout: Duration, look: impl Fn(&Said) -> Option<T>) -> Option<T> {
        let deadline = Instant::now() + timeout;
        loop {
            let mut news = pin!(self.news.notified());
            news.as_mut().enable();
            {
                let said = self.said();
                let found = look(&said);
                if found.is_some() || said.ended {
                    return found;
                }
            }
            if timeout_at(deadline, news).await.is_err() {
                return look(&self.said());
            }
        }
    }
}

/// A client under test, in the hands of its driver.
#[derive(Debug)]
pub struct Driver {
    process: Process,
    input: Option<ChildStdin>,
    reports: Arc<Reports>,
    leg: Leg,
    timeout: Duration,
    errands: u64,
    echoes: u64,
    tasks: [JoinHandle<()>; 2],
}

impl Driver {
    /// Starts it.
    pub fn start(
        command: &[OsString],
        environment: &[(OsString, OsString)],
        timeout: Duration,
        leg: Leg,
    ) -> Result<Driver, Finding> {
        let (process, streams) = Process::spawn(command, environment, &leg).map_err(|error| {
            let program = command.first().map(|word| word.to_string_lossy());
            let program = program.unwrap_or_default();
            Finding::Broken(format!("{program} cannot be started: {error}."))
        })?;
        let reports = Arc::new(Reports::default());
        let tasks = [
            tokio::spawn(read(streams.stdout, reports.clone(), leg.clone())),
            tokio::spawn(drained(streams.stderr, leg.clone())),
        ];
        Ok(Driver {
            process,
            input: Some(streams.stdin),
            reports,
            leg,
            timeout,
            errands: 0,
            echoes: 0,
            tasks,
        })
    }

    /// What it says about itself at first.
    pub async fn hello(&mut self, timeout: Duration) -> Result<Value, Finding> {
        self.leg.waits_for("the driver's first line");
        match self.reports.until(timeout, |said| said.hello.clone()).await {
            Some(hello) => Ok(hello),
            None => Finding::broken(format!(
                "The driver did not say which client it drives; {}.",
                self.whereabouts().await
            )),
        }
    }

    // ---- telling

    /// Tells it to do something.
    pub async fn tell(&mut self, what: &str, details: Value) -> Errand {
        self.errands += 1;
        let mut errand = json!({ "n": self.errands, "do": what });
        for (key, value) in details.as_object().into_iter().flatten() {
            errand[key] = value.clone();
        }
        let line = format!("{errand}\n");
        self.leg.sent(line.as_bytes());
        if let Some(input) = &mut self.input {
            let written = async {
                input.write_all(line.as_bytes()).await?;
                input.flush().await
            };
            // What it does not read it does not do, which is seen later.
            let _ = tokio::time::timeout(self.timeout, written).await;
        }
        Errand(self.errands)
    }

    /// Tells it to call a tool; a text, if any, is its argument.
    pub async fn call(&mut self, tool: &str, text: &str) -> Errand {
        let arguments = json!({ "text": text });
        self.tell("call", json!({ "tool": tool, "arguments": arguments }))
            .await
    }

    /// Tells it to give up a call.
    pub async fn cancel(&mut self, call: Errand) -> Errand {
        self.tell("cancel", json!({ "call": call.0 })).await
    }

    // ---- asking

    /// What came of an errand. That nothing does is a finding.
    pub async fn outcome(&mut self, errand: Errand, what: &str) -> Result<Outcome, Finding> {
        let timeout = self.timeout;
        match self.outcome_within(errand, what, timeout).await {
            Some(Outcome::Failed { kind, message }) if kind == "unsupported" => {
                Finding::not_applicable(message)
            }
            Some(outcome) => Ok(outcome),
            None => Finding::broken(format!(
                "{what} did not end within {timeout:?}; {}.",
                self.whereabouts().await
            )),
        }
    }

    /// What came of an errand, if it ends in time.
    pub async fn outcome_within(
        &mut self,
        errand: Errand,
        what: &str,
        timeout: Duration,
    ) -> Option<Outcome> {
        self.leg.waits_for(&format!("the end of {what}"));
        let found = |said: &Said| said.outcomes.get(&errand.0).cloned();
        self.reports.until(timeout, found).await
    }

    /// An errand that has to go well.
    pub async fn succeeds(&mut self, errand: Errand, what: &str) -> Result<Value, Finding> {
        match self.outcome(errand, what).await? {
            Outcome::Ok(value) => Ok(value),
            failed => Finding::broken(format!("{what} {}.", failed.words())),
        }
    }

    /// The client does its work: a call of `echo` brings back what was sent.
    pub async fn works(&mut self, when: &str) -> Held {
        let what = format!("A call {when}");
        let timeout = self.timeout;
        match self.echo(&what, timeout).await? {
            None => Ok(()),
            Some(why) => Finding::broken(why),
        }
    }

    /// The client comes to do its work again: one of several calls goes through.
    pub async fn recovers(&mut self, when: &str, timeout: Duration) -> Held {
        let deadline = Instant::now() + timeout;
        let mut last = String::new();
        while Instant::now() < deadline {
            let what = format!("A call {when}");
            match self.echo(&what, deadline - Instant::now()).await? {
                None => return Ok(()),
                Some(why) => last = why,
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        Finding::broken(format!(
            "No call {when} went through within {timeout:?}. {last}"
        ))
    }

    /// `None` if the call came back right.
    async fn echo(&mut self, what: &str, timeout: Duration) -> Result<Option<String>, Finding> {
        self.echoes += 1;
        let text = format!("echo {}", self.echoes);
        let errand = self.call("echo", &text).await;
        match self.outcome_within(errand, what, timeout).await {
            Some(Outcome::Ok(said)) if said == text.as_str() => Ok(None),
            Some(outcome) => Ok(Some(format!("{what} {}.", outcome.words()))),
            None => Ok(Some(format!(
                "{what} did not end within {timeout:.1?}; {}.",
                self.whereabouts().await
            ))),
        }
    }

    /// Whether the client takes itself for connected.
    pub async fn is_connected(&mut self) -> Result<bool, Finding> {
        let errand = self.tell("state", json!({})).await;
        let state = self
            .succeeds(errand, "A look at the client's state")
            .await?;
        Ok(state == "connected")
    }

    /// The names of the tools.
    pub async fn tools(&mut self, when: &str) -> Result<Vec<String>, Finding> {
        let errand = self.tell("list", json!({})).await;
        let what = format!("A list of tools {when}");
        let list = self.succeeds(errand, &what).await?;
        let names = list.as_array().into_iter().flatten();
        Ok(names
            .filter_map(|name| name.as_str().map(str::to_owned))
            .collect())
    }

    /// Whether the driver itself still runs.
    pub async fn whereabouts(&mut self) -> String {
        match self.process.end(Duration::from_millis(300)).await {
            Some(status) => format!("the client {}", ending(status)),
            None => "the client still runs".into(),
        }
    }

    /// The driver's process.
    pub fn process(&mut self) -> &mut Process {
        &mut self.process
    }

    /// The time anything may take.
    pub fn timeout(&self) -> Duration {
        self.timeout
    }

    /// Writes a remark into the journal.
    pub fn note(&self, text: impl Into<String>) {
        self.leg.note(text);
    }
}

impl Drop for Driver {
    fn drop(&mut self) {
        for task in &self.tasks {
            task.abort();
        }
    }
}

async fn read(mut stdout: ChildStdout, reports: Arc<Reports>, leg: Leg) {
    let mut lines = Lines::default();
    while let Ok(1..) = lines.fill(&mut stdout).await {
        while let Some(line) = lines.next() {
            leg.received(&line);
            reports.take(&line);
        }
    }
    if let Some(rest) = lines.finish() {
        leg.received(&rest);
        reports.take(&rest);
    }
    reports.said().ended = true;
    reports.news.notify_waiters();
}
