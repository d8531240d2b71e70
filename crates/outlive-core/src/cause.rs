//! Why a link ended, as data.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};

use crate::error::Names;
pub use crate::label::Label;
use crate::words::words;

/// How a process ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// It returned this exit code.
    Code(i32),
    /// This signal ended it.
    Signal(i32),
    /// It ended, and the operating system does not tell how.
    Unknown,
}

impl Exit {
    /// Whether the end came from outside: a signal that people and supervisors send,
    /// rather than one a program earns by its own fault.
    pub fn is_external(self) -> bool {
        // SIGHUP, SIGINT, SIGKILL, SIGTERM
        matches!(self, Exit::Signal(1 | 2 | 9 | 15))
    }
}

impl fmt::Display for Exit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Exit::Code(code) => write!(f, "exited with code {code}"),
            Exit::Signal(signal) => match signal_name(*signal) {
                Some(name) => write!(f, "was ended by signal {signal} ({name})"),
                None => write!(f, "was ended by signal {signal}"),
            },
            Exit::Unknown => f.write_str("ended"),
        }
    }
}

fn signal_name(signal: i32) -> Option<&'static str> {
    Some(match signal {
        1 => "SIGHUP",
        2 => "SIGINT",
        3 => "SIGQUIT",
        4 => "SIGILL",
        6 => "SIGABRT",
        7 => "SIGBUS",
        8 => "SIGFPE",
        9 => "SIGKILL",
        11 => "SIGSEGV",
        13 => "SIGPIPE",
        15 => "SIGTERM",
        _ => return None,
    })
}

/// Why a link could not be made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StartFailure {
    /// There is no program of that name in the `PATH`.
    NotFound,
    /// There is no file at that path.
    NoFile,
    /// There is a file of that name, but it may not be executed.
    NotExecutable,
    /// Any other refusal, in the operating system's words.
    Other(String),
}

impl fmt::Display for StartFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            StartFailure::NotFound => f.write_str(
                "there is no such program in the PATH it was given (the full path always works)",
            ),
            StartFailure::NoFile => f.write_str("there is no such file"),
            StartFailure::NotExecutable => {
                f.write_str("the file is not executable (permission denied)")
            }
            StartFailure::Other(words) => f.write_str(words),
        }
    }
}

/// How far a link had come when it ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Being made.
    Spawn,
    /// Made, but the handshake was not done.
    Handshake,
    /// In service.
    Service,
}

impl Phase {
    /// The word for it in logs and on the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            Phase::Spawn => "spawn",
            Phase::Handshake => "handshake",
            Phase::Service => "service",
        }
    }
}

/// What ended a link.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Reason {
    /// It could not be made.
    Unmade(StartFailure),
    /// The process ended.
    Exited(Exit),
    /// The server closed its output and its process lives on.
    Eof,
    /// Writing to it failed.
    WriteFailed(String),
    /// The connection to it was closed, or lost for this reason.
    Disconnected(Option<String>),
    /// It could not be reached.
    Unreachable(String),
    /// It wants other credentials: this is its status.
    Unauthorized(u16),
    /// It has forgotten the session.
    SessionExpired,
    /// It left one request without an answer, for this reason; the link lives.
    Unanswered(String),
    /// It did not finish its handshake within this time.
    SlowHandshake(Duration),
    /// It answered nothing, not even a probe, for this long.
    Unresponsive(Duration),
    /// The operating system shows its process as stopped.
    Stopped,
    /// It refused the handshake, with these words.
    HandshakeRefused(String),
    /// After a restart it spoke another protocol version than the host holds.
    VersionChanged {
        /// What the host and the earlier server agreed on.
        held: Box<str>,
        /// What the new server answered.
        offered: Box<str>,
    },
    /// The user asked for a restart.
    Requested,
    /// The session is closing.
    Closing,
    /// The process that owned the session, and this link, ended; another one has resumed the session.
    OwnerEnded,
}

/// Why a link ended: the reason, how far it had come, and its last words.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Cause {
    /// What ended it.
    pub reason: Reason,
    /// How far it had come.
    pub phase: Phase,
    /// The command or address, secrets masked, and the name of a server that is one of several.
    pub label: Label,
    /// What it wrote to its standard error shortly before, control characters escaped. These are the server's own
    /// words, whatever they say.
    pub stderr_tail: Arc<[String]>,
}

words! {
    /// What kind of end a [`Cause`] is.
    #[non_exhaustive]
    pub enum CauseKind {
        /// [`Reason::Unmade`].
        SpawnFailed => "spawn_failed",
        /// [`Reason::Exited`].
        Exited => "exited",
        /// [`Reason::Eof`].
        Eof => "eof",
        /// [`Reason::WriteFailed`].
        WriteError => "write_error",
        /// [`Reason::Disconnected`].
        Disconnected => "disconnected",
        /// [`Reason::Unreachable`].
        Unreachable => "unreachable",
        /// [`Reason::Unauthorized`].
        Unauthorized => "unauthorized",
        /// [`Reason::SessionExpired`].
        SessionExpired => "session_expired",
        /// [`Reason::Unanswered`].
        Unanswered => "unanswered",
        /// [`Reason::SlowHandshake`].
        StartTimeout => "start_timeout",
        /// [`Reason::Unresponsive`].
        Unresponsive => "unresponsive",
        /// [`Reason::Stopped`].
        Stopped => "stopped",
        /// [`Reason::HandshakeRefused`].
        HandshakeRefused => "handshake_refused",
        /// [`Reason::VersionChanged`].
        VersionChanged => "version_changed",
        /// [`Reason::Requested`].
        Requested => "requested",
        /// [`Reason::Closing`].
        Closing => "closing",
        /// [`Reason::OwnerEnded`].
        OwnerEnded => "owner_ended",
    }
}

impl Cause {
    /// This reason, without last words.
    pub fn new(reason: Reason, phase: Phase, label: impl Into<Label>) -> Cause {
        Cause {
            reason,
            phase,
            label: label.into(),
            stderr_tail: Arc::default(),
        }
    }

    /// The word for the reason in logs, metrics and on the wire.
    pub fn kind(&self) -> &'static str {
        self.cause_kind().as_str()
    }

    /// Its kind, to be matched on.
    pub fn cause_kind(&self) -> CauseKind {
        match self.reason {
            Reason::Unmade(_) => CauseKind::SpawnFailed,
            Reason::Exited(_) => CauseKind::Exited,
            Reason::Eof => CauseKind::Eof,
            Reason::WriteFailed(_) => CauseKind::WriteError,
            Reason::Disconnected(_) => CauseKind::Disconnected,
            Reason::Unreachable(_) => CauseKind::Unreachable,
            Reason::Unauthorized(_) => CauseKind::Unauthorized,
            Reason::SessionExpired => CauseKind::SessionExpired,
            Reason::Unanswered(_) => CauseKind::Unanswered,
            Reason::SlowHandshake(_) => CauseKind::StartTimeout,
            Reason::Unresponsive(_) => CauseKind::Unresponsive,
            Reason::Stopped => CauseKind::Stopped,
            Reason::HandshakeRefused(_) => CauseKind::HandshakeRefused,
            Reason::VersionChanged { .. } => CauseKind::VersionChanged,
            Reason::Requested => CauseKind::Requested,
            Reason::Closing => CauseKind::Closing,
            Reason::OwnerEnded => CauseKind::OwnerEnded,
        }
    }

    /// Whether the server is known by an address: it is not ours to start or to stop.
    pub(crate) fn is_remote(&self) -> bool {
        self.label.starts_with("http://") || self.label.starts_with("https://")
    }

    /// The server in a sentence: "the server", or `the server "github"` where it is one of several.
    pub fn subject(&self) -> String {
        match self.label.name() {
            Some(name) => format!("the server \"{name}\""),
            None => "the server".into(),
        }
    }

    /// The server at the beginning of a sentence.
    pub(crate) fn sentence_subject(&self) -> String {
        match self.label.name() {
            Some(name) => format!("The server \"{name}\""),
            None => "The server".into(),
        }
    }

    /// What happened, as the part of a sentence after the [subject](Cause::subject).
    pub fn predicate(&self) -> String {
        let during = match self.phase {
            Phase::Spawn => "",
            Phase::Handshake => " during the handshake",
            Phase::Service => "",
        };
        match &self.reason {
            Reason::Unmade(why) if self.is_remote() => format!("cannot be used: {why}"),
            Reason::Unmade(why) => format!("could not be started: {why}"),
            Reason::Exited(exit) => format!("{exit}{during}"),
            Reason::Eof => {
                format!("closed its output{during} (its process had not exited)")
            }
            Reason::WriteFailed(error) => format!("stopped taking input{during} ({error})"),
            Reason::Disconnected(None) => format!("closed the connection{during}"),
            Reason::Disconnected(Some(error)) => {
                format!("was disconnected{during} ({error})")
            }
            Reason::Unreachable(error) => format!("could not be reached ({error})"),
            Reason::Unauthorized(status) => {
                format!("refused the credentials it was given (status {status})")
            }
            Reason::SessionExpired => "forgot the session".into(),
            Reason::Unanswered(why) => format!("left it without an answer ({why})"),
            Reason::SlowHandshake(after) => {
                let after = seconds(*after);
                format!(
                    "did not answer `initialize` within {after}{}",
                    self.stopped()
                )
            }
            Reason::Unresponsive(after) => {
                format!("answered nothing for {}{}", seconds(*after), self.stopped())
            }
            Reason::Stopped => "was found suspended (stopped) and was killed".into(),
            Reason::HandshakeRefused(words) => format!("refused `initialize`: {words}"),
            Reason::VersionChanged { held, offered } => format!(
                "came back speaking protocol version {offered}, but this session was opened with {held}"
            ),
            Reason::Requested if self.is_remote() => "was given a new session on request".into(),
            Reason::Requested => "was restarted on request".into(),
            Reason::Closing if self.is_remote() => "is not needed any more".into(),
            Reason::Closing => "was stopped".into(),
            Reason::OwnerEnded if self.is_remote() => {
                "was disconnected when the process that held its session ended".into()
            }
            Reason::OwnerEnded => "was lost with the process that had started it".into(),
        }
    }

    /// What we did with a server that we gave up.
    fn stopped(&self) -> &'static str {
        match self.is_remote() {
            true => "",
            false => " and was stopped",
        }
    }

    /// What to look at when a server does not even start.
    pub(crate) fn advice(&self, names: Names) -> &'static str {
        match (&self.reason, self.phase) {
            (Reason::Exited(Exit::Code(0)), Phase::Handshake) => {
                " It ended without an answer: is it an MCP server that talks over stdio?"
            }
            (Reason::SlowHandshake(_), _) => match names {
                Names::Flags => " --start-timeout gives it longer.",
                Names::Library => " `connect_timeout` and `Policy::start_hard` give it longer.",
            },
            (Reason::Unauthorized(_), _) => {
                " Give it valid credentials; they are read again at the next attempt."
            }
            _ => "",
        }
    }

    /// The cause as data, for `data.outlive.cause` on the wire and for logs.
    pub fn to_json(&self) -> Value {
        let mut cause = json!({
            "kind": self.kind(),
            "phase": self.phase.as_str(),
            "command": &*self.label,
        });
        if let Some(name) = self.label.name() {
            cause["server"] = json!(name);
        }
        match &self.reason {
            Reason::Exited(Exit::Code(code)) => cause["exit_code"] = json!(code),
            Reason::Exited(Exit::Signal(signal)) => cause["signal"] = json!(signal),
            Reason::Unmade(why) => cause["error"] = json!(why.to_string()),
            Reason::WriteFailed(words)
            | Reason::HandshakeRefused(words)
            | Reason::Unreachable(words)
            | Reason::Unanswered(words)
            | Reason::Disconnected(Some(words)) => cause["error"] = json!(words),
            Reason::Unauthorized(status) => cause["status"] = json!(status),
            Reason::SlowHandshake(after) | Reason::Unresponsive(after) => {
                cause["after_ms"] = json!(after.as_millis() as u64)
            }
            Reason::VersionChanged { held, offered } => {
                cause["held"] = json!(held);
                cause["offered"] = json!(offered);
            }
            _ => {}
        }
        if !self.stderr_tail.is_empty() {
            cause["stderr_tail"] = json!(&*self.stderr_tail);
        }
        cause
    }
}

/// A duration for a person: "300 ms", "2 s", "1.5 s".
pub(crate) fn seconds(d: Duration) -> String {
    let ms = d.as_millis();
    if ms < 1000 {
        format!("{ms} ms")
    } else if ms.is_multiple_of(1000) {
        format!("{} s", ms / 1000)
    } else {
        format!("{:.1} s", d.as_secs_f64())
    }
}
