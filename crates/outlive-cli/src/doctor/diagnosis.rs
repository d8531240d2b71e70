//! What was found of a server, and what to do about it.

use std::time::Duration;

use outlive::Error;
use outlive_core::cause::{Cause, Phase, Reason, StartFailure};
use serde_json::{Value, json};

/// A start that takes longer than this is worth a word: hosts give up after 30 s to 60 s.
const SLOW: Duration = Duration::from_secs(10);

/// The first version of the protocol without a handshake.
const MODERN: &str = "2026-07-28";

/// What an examination came to.
pub enum Finding {
    /// No handshake.
    Unmet(Error),
    /// A handshake.
    Met(Seen),
}

/// What a server said.
pub struct Seen {
    pub version: String,
    pub tools: Result<usize, Error>,
}

/// A server, what works of it, and what to do.
#[derive(Debug)]
pub struct Diagnosis {
    pub name: String,
    pub is_on: bool,
    /// Whether there is such a program; unknown where that was not found out.
    pub found: Option<bool>,
    pub starts: Option<bool>,
    pub handshake: Option<bool>,
    pub version: Option<String>,
    pub tools: Option<usize>,
    pub time: Option<Duration>,
    pub error: Option<String>,
    pub last_words: Vec<String>,
    pub advice: Option<String>,
}

impl Diagnosis {
    fn blank(name: String) -> Diagnosis {
        Diagnosis {
            name,
            is_on: true,
            found: None,
            starts: None,
            handshake: None,
            version: None,
            tools: None,
            time: None,
            error: None,
            last_words: Vec::new(),
            advice: None,
        }
    }

    /// A server that its host would not start: nothing is wrong with that.
    pub fn off(name: String) -> Diagnosis {
        Diagnosis {
            is_on: false,
            ..Diagnosis::blank(name)
        }
    }

    /// A server whose entry makes no sense.
    pub fn unclear(name: String, why: String) -> Diagnosis {
        Diagnosis {
            error: Some(why),
            advice: Some("correct its entry".into()),
            ..Diagnosis::blank(name)
        }
    }

    pub fn of(name: String, is_command: bool, finding: Finding, time: Duration) -> Diagnosis {
        let mut it = Diagnosis {
            time: Some(time),
            ..Diagnosis::blank(name)
        };
        match finding {
            Finding::Met(seen) => {
                (it.found, it.starts, it.handshake) = (Some(true), Some(true), Some(true));
                it.version = Some(seen.version);
                match seen.tools {
                    Ok(tools) => it.tools = Some(tools),
                    Err(error) => it.failed(&error, is_command),
                }
                if it.error.is_none() && time > SLOW {
                    it.advice = Some(slow(is_command));
                }
            }
            Finding::Unmet(error) => {
                it.handshake = Some(false);
                it.failed(&error, is_command);
            }
        }
        it
    }

    fn failed(&mut self, error: &Error, is_command: bool) {
        let cause = match error {
            Error::ConnectionLost { cause, .. } => Some(cause),
            Error::Unavailable { cause, .. } => cause.as_ref(),
            _ => None,
        };
        // An error's own sentence is about a call, and there was none.
        self.error = Some(match cause {
            Some(cause) => format!("the server {}", cause.predicate()),
            None => error.to_string(),
        });
        if let Some(cause) = cause {
            self.last_words = cause.stderr_tail.to_vec();
            self.how_far(cause);
        }
        self.advice = Some(advice(error, cause, is_command));
    }

    /// What the end of a link tells about its beginning.
    fn how_far(&mut self, cause: &Cause) {
        let is_missing = matches!(
            cause.reason,
            Reason::Unmade(StartFailure::NotFound | StartFailure::NoFile) | Reason::Unreachable(_)
        );
        self.found = Some(!is_missing);
        self.starts = Some(cause.phase != Phase::Spawn && !is_missing);
    }

    /// Whether there is nothing to do.
    pub fn is_well(&self) -> bool {
        !self.is_on || self.error.is_none()
    }

    /// The era of the protocol that it speaks.
    pub fn era(&self) -> Option<&'static str> {
        let version = self.version.as_deref()?;
        Some(if version >= MODERN {
            "modern"
        } else {
            "legacy"
        })
    }

    /// For a program.
    pub fn data(&self) -> Value {
        json!({
            "name": self.name,
            "enabled": self.is_on,
            "well": self.is_well(),
            "found": self.found,
            "starts": self.starts,
            "handshake": self.handshake,
            "era": self.era(),
            "version": self.version,
            "tools": self.tools,
            "milliseconds": self.time.map(|time| time.as_millis() as u64),
            "error": self.error,
            "last_words": self.last_words,
            "advice": self.advice,
        })
    }
}

fn slow(is_command: bool) -> String {
    match is_command {
        true => "it is slow to start: install the package, so that nothing is downloaded".into(),
        false => "it is slow to answer".into(),
    }
}

/// What to do about a failure.
fn advice(error: &Error, cause: Option<&Cause>, is_command: bool) -> String {
    let has_last_words = cause.is_some_and(|cause| !cause.stderr_tail.is_empty());
    let words = match cause.map(|cause| &cause.reason) {
        Some(Reason::Unmade(StartFailure::NotFound)) => {
            "install the program, or write its full path"
        }
        Some(Reason::Unmade(StartFailure::NoFile)) => "correct the path of the program",
        Some(Reason::Unmade(StartFailure::NotExecutable)) => "make the file executable (chmod +x)",
        Some(Reason::Unreachable(_)) => "start the server, or correct its address",
        Some(Reason::Unauthorized(_)) => "give it other credentials (headers)",
        Some(Reason::Exited(_) | Reason::Eof) if has_last_words => {
            "its last words say why; a key or an argument may be missing"
        }
        Some(Reason::SlowHandshake(_) | Reason::Unresponsive(_)) => {
            "try again: it may have been downloading; --timeout"
        }
        _ if matches!(error, Error::Timeout { .. }) => "give it more time: --timeout",
        _ if matches!(error, Error::Rejected { .. }) => "check its address and its headers",
        _ if is_command => "run the command by hand and look at what it prints",
        _ => "check its address: is this an MCP server?",
    };
    words.to_owned()
}
