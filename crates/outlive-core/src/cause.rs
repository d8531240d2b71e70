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
        matches!(self, Exit::Signal(1 | 2 | 9 | 15) | Exit::Code(CONTROL_C))
    }
}

impl fmt::Display for Exit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Exit::Code(code @ ..=LAST_STATUS) => match status_name(*code) {
                Some(name) => write!(f, "exited with code {code:#010X} ({name})"),
                None => write!(f, "exited with code {code:#010X}"),
            },
            Exit::Code(code) => write!(f, "exited with code {code}"),
            Exit::Signal(signal) => match signal_name(*signal) {
                Some(name) => write!(f, "was ended by signal {signal} ({name})"),
                None => write!(f, "was ended by signal {signal}"),
            },
            Exit::Unknown => f.write_str("ended"),
        }
    }
}

/// What a process on Windows exits with that a Ctrl-C or Ctrl-Break has ended.
const CONTROL_C: i32 = 0xC000_013A_u32.cast_signed();

/// Codes of Windows are numbers without a sign, and those from the half of them up to this one say why a process was
/// ended. The few above are what programs give as small negative numbers.
const LAST_STATUS: i32 = -0x1_0000;

/// What such a code is called.
fn status_name(code: i32) -> Option<&'static str> {
    Some(match code.cast_unsigned() {
        0x8000_0003 => "breakpoint",
        0xC000_0005 => "access violation",
        0xC000_0006 => "in-page error",
        0xC000_0017 => "out of memory",
        0xC000_001D => "illegal instruction",
        0xC000_0094 => "integer division by zero",
        0xC000_00FD => "stack overflow",
        0xC000_0135 => "a DLL was not found",
        0xC000_0139 => "a DLL lacks an entry point",
        0xC000_013A => "Ctrl-C",
        0xC000_0142 => "a DLL could not be initialised",
        0xC000_0374 => "heap corruption",
        0xC000_0409 => "abort",
        _ => return None,
    })
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
            Reason::Unanswered(why) if self.phase == Phase::Handshake => {
                format!("left the handshake without an answer ({why})")
            }
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
            Reason::Exited(Exit::Code(code @ ..=LAST_STATUS)) => {
                cause["exit_code"] = json!(code.cast_unsigned());
            }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_of_windows_are_named_as_windows_has_them() {
        let shown = |code: u32| Exit::Code(code.cast_signed()).to_string();
        assert_eq!(shown(3), "exited with code 3");
        assert_eq!(shown(0xFFFF_FFFF), "exited with code -1");
        assert_eq!(
            shown(0xC000_0005),
            "exited with code 0xC0000005 (access violation)"
        );
        assert_eq!(shown(0xC000_013A), "exited with code 0xC000013A (Ctrl-C)");
        assert_eq!(shown(0xE06D_7363), "exited with code 0xE06D7363");
        assert!(Exit::Code(CONTROL_C).is_external());
        assert!(!Exit::Code(0xC000_0005_u32.cast_signed()).is_external());
    }
}
