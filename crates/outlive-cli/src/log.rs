//! Events as lines for people and programs, and for the [instance](crate::instance) that keeps them.

use std::collections::HashMap;
use std::fs::{File, OpenOptions};
use std::io::{self, IsTerminal};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use outlive::Observer;
use outlive_core::cause::Phase;
use outlive_core::request::{Request, Step};
use outlive_core::session::Load;
use outlive_core::{Cause, Event, State, Time};
use serde_json::{Value, json};

use crate::eras::Eras;
use crate::instance::Instance;
use crate::log_writer::LogWriter;
use crate::masks::Masks;
use crate::rate_limit::{Kind, RateLimit, Untold};
use crate::runtime;
use crate::settings::{LogFormat, LogLevel, Settings};

/// How often it is looked whether there is something to sum up.
const SUMMARY_INTERVAL: Duration = Duration::from_millis(250);

/// Writes the events of a session, and the server's standard error, where the settings say.
#[derive(Debug)]
pub struct Log {
    lines: Arc<Lines>,
    /// `None`: the server's standard error is only kept for error messages.
    stderr: Option<LogWriter>,
    /// The only server, if there is one.
    eras: Option<Eras>,
}

/// Writes sentences of our own into a [`Log`].
#[derive(Clone, Debug)]
pub struct Notes(Arc<Lines>);

impl Notes {
    /// See [`Log::note`].
    pub fn note(&self, sentence: &str, name: &str, data: Value) {
        self.0.note(sentence, name, data);
    }
}

/// Where lines of our own go, and which.
#[derive(Debug)]
struct Lines {
    format: LogFormat,
    level: LogLevel,
    colour: bool,
    /// In a file, which is read later and may have several writers, each line says when and who.
    to_file: bool,
    events: LogWriter,
    instance: Arc<Instance>,
    masks: Masks,
    rate_limit: RateLimit,
    /// The servers by their numbers, where they have names.
    names: Mutex<HashMap<u64, String>>,
    /// Whether a thread waits for the time to sum up.
    summing: AtomicBool,
}

impl Log {
    /// A log as the settings say; a file that cannot be opened is a reason not to start.
    pub fn open(
        settings: &Settings,
        eras: Option<Eras>,
        instance: Arc<Instance>,
    ) -> Result<Log, String> {
        let ours = LogWriter::new(io::stderr()).map_err(|error| error.to_string())?;
        let events = match &settings.log_file {
            Some(path) => log_writer(path)?,
            None => ours.clone(),
        };
        let stderr = match settings.stderr.to_str() {
            Some("inherit") => Some(ours),
            Some("capture") => None,
            _ => Some(log_writer(&settings.stderr)?),
        };
        let to_terminal = settings.log_file.is_none() && io::stderr().is_terminal();
        let colour =
            to_terminal && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
        let lines = Lines {
            format: settings.log_format,
            level: settings.log_level,
            colour,
            to_file: settings.log_file.is_some(),
            events,
            masks: instance.masks.clone(),
            instance,
            rate_limit: RateLimit::default(),
            names: Mutex::default(),
            summing: AtomicBool::new(false),
        };
        lines.tell_obstacle();
        Ok(Log {
            lines: Arc::new(lines),
            stderr,
            eras,
        })
    }

    /// Writes an event of the only server there is, or of one of several.
    fn write(&self, upstream: Option<u64>, now: Time, event: &Event) {
        if let (Event::LegacyOnly, Some(eras)) = (event, &self.eras) {
            eras.remember();
        }
        self.lines.instance.observe(upstream, event);
        if matches!(event, Event::Connected { .. }) {
            self.lines.tell(self.lines.rate_limit.settle("lost"));
            self.lines.tell(self.lines.rate_limit.settle("state"));
        }
        self.lines.write(upstream, now, event);
        if let (Event::State(State::Closed), Some(upstream)) = (event, upstream) {
            self.lines.names().remove(&upstream);
        }
        if self.lines.rate_limit.next().is_some() {
            self.lines.sum_up_later();
        }
    }

    /// Writes something about ourselves: a sentence, and the same as data with its name.
    pub fn note(&self, sentence: &str, name: &str, data: Value) {
        self.lines.note(sentence, name, data);
    }

    /// The same for those who have something to tell while somebody else has the log.
    pub fn notes(&self) -> Notes {
        Notes(self.lines.clone())
    }

    /// Writes a line of a server's standard error, with its name where there are several.
    fn stderr_line(&self, session: Option<u64>, line: &str) {
        let Some(stderr) = &self.stderr else { return };
        let names = self.lines.names();
        match session.and_then(|session| names.get(&session)) {
            Some(name) => stderr.line(&format!("[{name}] {line}")),
            None => stderr.line(line),
        }
    }

    /// Waits until everything is written, but not for ever.
    pub fn finish(&self) {
        self.lines.tell(self.lines.rate_limit.all());
        self.lines.events.finish();
        if let Some(stderr) = &self.stderr {
            stderr.finish();
        }
    }
}

impl Lines {
    fn names(&self) -> MutexGuard<'_, HashMap<u64, String>> {
        self.names.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The number of a server, and its name, if there are several.
    fn whose(&self, upstream: Option<u64>) -> String {
        let Some(number) = upstream else {
            return String::new();
        };
        match self.names().get(&number) {
            Some(name) => format!("[{number} {name}] "),
            None => format!("[{number}] "),
        }
    }

    /// Whether somebody counts lines that are all alike: in a log of everything they are all written.
    fn limits(&self) -> bool {
        self.level != LogLevel::Debug || self.instance.keeps()
    }

    fn admits(&self, event: &Event) -> bool {
        kind(event).is_none_or(|kind| self.rate_limit.admits(&kind, Instant::now()))
    }

    fn write(&self, upstream: Option<u64>, now: Time, event: &Event) {
        let failed = matches!(event, Event::State(State::Failed { .. }));
        let notable = event.is_notable() && self.limits() && self.admits(event);
        let shown = match self.level {
            LogLevel::Quiet => notable && failed,
            LogLevel::Normal => notable,
            LogLevel::Debug => true,
        };
        if failed && notable {
            // What has come to this belongs before it.
            self.tell(self.rate_limit.settle("lost"));
        }
        let data = || {
            let mut data = event.to_json(now);
            if let Some(upstream) = upstream {
                data["upstream"] = json!(upstream);
                if let Some(name) = self.names().get(&upstream) {
                    data["server_name"] = json!(name);
                }
            }
            data
        };
        if shown {
            let line = match self.format {
                LogFormat::Text => self.placed(text(event, &self.whose(upstream), self.colour)),
                LogFormat::Json => dated(&data(), SystemTime::now()),
            };
            self.events.line(&self.masks.mask(&line));
        }
        if notable && self.instance.keeps() {
            let sentence = format!("{}{event}", self.whose(upstream));
            self.instance.keep(data(), &sentence);
        }
    }

    /// Writes one step of a request.
    fn write_step(&self, session: Option<u64>, request: Request<'_>, step: Step<'_>) {
        let id = String::from_utf8_lossy(request.id);
        let (sentence, mut data) = match step {
            Step::Accepted => ("accepted".to_owned(), json!({ "step": "accepted" })),
            Step::Sent { generation, .. } => (
                format!("sent on generation {generation}"),
                json!({ "step": "sent", "generation": generation.number() }),
            ),
            Step::Settled { how, took } => {
                let (ending, ms) = (how.ending(), took.as_secs_f64() * 1e3);
                let data = json!({ "step": "settled", "ending": ending.as_str(), "took_ms": ms });
                (format!("{ending} after {ms:.1} ms"), data)
            }
            // Steps there are none of yet.
            _ => return,
        };
        data["id"] = json!(id);
        data["method"] = json!(request.method);
        if let Some(session) = session {
            data["upstream"] = json!(session);
        }
        let whose = self.whose(session);
        let sentence = format!("{whose}{} (id {id}): {sentence}", request.method);
        self.show(&sentence, "request", data);
    }

    /// Says how many lines were not written.
    fn tell(&self, sums: Vec<Untold>) {
        for sum in sums {
            let name = format!("more_{}", sum.kind.event);
            let data = json!({ "about": sum.kind.about, "count": sum.count });
            // A log of everything has each of them.
            if self.level != LogLevel::Debug {
                self.show(&sum.sentence(), &name, data.clone());
            }
            self.keep(&sum.sentence(), &name, data);
        }
    }

    /// Says that `outlive status` will not show this session, to those who want to know everything: whoever types it
    /// is told there.
    fn tell_obstacle(&self) {
        let Some(why) = &self.instance.obstacle else {
            return;
        };
        let sentence = format!("not shown by `outlive status`: {why}");
        let (name, data) = ("unregistered", json!({ "why": why }));
        if self.level == LogLevel::Debug {
            self.show(&sentence, name, data.clone());
        }
        self.keep(&sentence, name, data);
    }

    /// Says it in time, also if nothing else happens.
    fn sum_up_later(self: &Arc<Lines>) {
        if self.summing.swap(true, Ordering::AcqRel) {
            return;
        }
        let lines = self.clone();
        let sum_up = move || {
            while lines.rate_limit.next().is_some() {
                thread::sleep(SUMMARY_INTERVAL);
                lines.tell(lines.rate_limit.due(Instant::now()));
            }
            lines.summing.store(false, Ordering::Release);
        };
        let thread = thread::Builder::new().name("sums".into());
        // Without a thread it is told at the end.
        if thread.stack_size(128 << 10).spawn(sum_up).is_err() {
            self.summing.store(false, Ordering::Release);
        }
    }

    fn note(&self, sentence: &str, name: &str, data: Value) {
        self.show(sentence, name, data.clone());
        self.keep(sentence, name, data);
    }

    fn keep(&self, sentence: &str, name: &str, mut data: Value) {
        data["event"] = json!(name);
        self.instance.keep(data, sentence);
    }

    fn show(&self, sentence: &str, name: &str, mut data: Value) {
        if self.level == LogLevel::Quiet {
            return;
        }
        let line = match self.format {
            LogFormat::Text => self.placed(format!("outlive: {sentence}")),
            LogFormat::Json => {
                data["event"] = json!(name);
                dated(&data, SystemTime::now())
            }
        };
        self.events.line(&self.masks.mask(&line));
    }

    fn placed(&self, line: String) -> String {
        match self.to_file {
            true => format!(
                "{} [{}] {line}",
                timestamp(SystemTime::now()),
                std::process::id()
            ),
            false => line,
        }
    }
}

/// The kind an event is rate-limited under, if it is.
fn kind(event: &Event) -> Option<Kind> {
    const DEBUG: &str = "(--log-level debug shows each of them)";
    let (about, sentence, most, seconds) = match event {
        Event::Dropped { reason, .. } => {
            let reason = reason.as_str();
            let sentence = format!("dropped a line, {reason} {DEBUG}");
            (reason.to_owned(), sentence, 5, 10)
        }
        Event::Refused { kind, .. } => {
            let sentence = format!("answered a request with {kind} {DEBUG}");
            (kind.to_string(), sentence, 20, 10)
        }
        Event::Retried { .. } => {
            let sentence = format!("sent a request again {DEBUG}");
            (String::new(), sentence, 20, 10)
        }
        Event::StreamsCut { .. } => {
            let sentence = format!("cut off streams of slow clients {DEBUG}");
            (String::new(), sentence, 20, 10)
        }
        Event::Lost { cause, .. } if cause.phase != Phase::Service => {
            let why = told(cause);
            (why.clone(), why, 1, 60)
        }
        Event::HandshakeFailed { cause } => {
            let why = told(cause);
            (why.clone(), why, 1, 60)
        }
        Event::State(State::Failed { cause, .. }) => {
            let why = told(cause);
            let sentence = format!("failed, {why}");
            (why, sentence, 1, 60)
        }
        _ => return None,
    };
    Some(Kind {
        event: event.name(),
        about,
        sentence,
        most,
        interval: Duration::from_secs(seconds),
    })
}

/// What happened to a server, by its name if it has one, or else by what was started.
fn told(cause: &Cause) -> String {
    match cause.label.name() {
        Some(_) => format!("{} {}", cause.subject(), cause.predicate()),
        None => format!("{} {}", cause.label, cause.predicate()),
    }
}

impl Observer for Log {
    fn began(&self, session: u64, target: Option<&str>) {
        if let Some(target) = target {
            self.lines.names().insert(session, target.to_owned());
            self.lines.instance.name_server(session, target);
        }
    }

    fn event(&self, session: Option<u64>, now: Time, event: &Event) {
        self.write(session, now, event);
        if matches!(event, Event::State(State::Ready { .. })) {
            match session {
                Some(_) => runtime::settled(),
                None => runtime::settled_but_for_the_answer(),
            }
        }
    }

    fn watches_requests(&self) -> bool {
        self.lines.level == LogLevel::Debug
    }

    fn load(&self, load: Load, failed: u64) {
        self.lines.instance.note_load(load, failed);
        runtime::turned();
    }

    fn request(&self, session: Option<u64>, _now: Time, request: Request<'_>, step: Step<'_>) {
        self.lines.write_step(session, request, step);
    }

    fn stderr(&self, session: Option<u64>, line: &str) {
        self.stderr_line(session, line);
    }
}

impl Drop for Log {
    fn drop(&mut self) {
        self.finish();
    }
}

fn log_writer(path: &Path) -> Result<LogWriter, String> {
    let open =
        |path| -> io::Result<File> { OpenOptions::new().create(true).append(true).open(path) };
    open(path)
        .and_then(LogWriter::new)
        .map_err(|error| format!("cannot write to {}: {error}", path.display()))
}

/// `outlive: <sentence>`, with whose it is if there are several; on a terminal what is bad
/// is red and what is good is green.
fn text(event: &Event, whose: &str, colour: bool) -> String {
    let code = match event {
        Event::State(State::Failed { .. }) | Event::Lost { .. } => 31,
        Event::State(State::Ready { .. }) | Event::Connected { .. } => 32,
        _ => 2,
    };
    match colour {
        true => format!("\x1b[{code}moutlive: {whose}{event}\x1b[0m"),
        false => format!("outlive: {whose}{event}"),
    }
}

/// The data of an event after the time.
pub fn dated(data: &Value, clock: SystemTime) -> String {
    let data = data.to_string();
    // It is an object that is never empty: its name is in it.
    format!("{{\"time\":\"{}\",{}", timestamp(clock), &data[1..])
}

/// RFC 3339 in UTC with milliseconds.
pub fn timestamp(clock: SystemTime) -> String {
    humantime::format_rfc3339_millis(clock.max(UNIX_EPOCH)).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use outlive_core::Generation;
    use std::time::Duration;

    fn at(seconds: u64) -> SystemTime {
        UNIX_EPOCH + Duration::from_secs(seconds)
    }

    #[test]
    fn timestamps() {
        assert_eq!(timestamp(at(0)), "1970-01-01T00:00:00.000Z");
        assert_eq!(
            timestamp(at(951_782_400)).to_string(),
            "2000-02-29T00:00:00.000Z"
        );
        assert_eq!(
            timestamp(at(951_868_799)).to_string(),
            "2000-02-29T23:59:59.000Z"
        );
        assert_eq!(
            timestamp(at(4_107_542_400)).to_string(),
            "2100-03-01T00:00:00.000Z"
        );
        assert_eq!(timestamp(at(1_735_689_599)), "2024-12-31T23:59:59.000Z");
        let late = at(1) + Duration::from_millis(7);
        assert_eq!(timestamp(late), "1970-01-01T00:00:01.007Z");
    }

    #[test]
    fn json_lines_begin_with_the_time() {
        let event = Event::State(State::Ready {
            generation: Generation::FIRST,
        });
        let line = dated(&event.to_json(Time::ZERO), at(0));
        assert!(
            line.starts_with(r#"{"time":"1970-01-01T00:00:00.000Z","#),
            "{line}"
        );
        let value: serde_json::Value = serde_json::from_str(&line).unwrap();
        assert_eq!(value["event"], "state");
        assert_eq!(value["state"], "ready");
        assert_eq!(value["generation"], 1);
    }

    #[test]
    fn text_lines_are_coloured_only_where_asked() {
        let event = Event::Connected {
            generation: Generation::FIRST,
            server: None,
        };
        assert_eq!(text(&event, "", false), "outlive: connected (generation 1)");
        assert_eq!(
            text(&event, "[7] ", false),
            "outlive: [7] connected (generation 1)"
        );
        assert_eq!(
            text(&event, "", true),
            "\x1b[32moutlive: connected (generation 1)\x1b[0m"
        );
    }
}
