//! Limits as an error names them: how much, and which setting makes it more.

use std::fmt;

/// A bound that is reached: how much it is, and which setting makes it more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limit {
    pub(super) most: usize,
    /// What there are too many of.
    what: &'static str,
    setting: &'static str,
    flag: Option<&'static str>,
}

impl Limit {
    /// Requests held while there is no server.
    pub const fn held(most: usize) -> Limit {
        Limit {
            most,
            what: "requests are already waiting for the server",
            setting: "policy::Limits::held",
            flag: Some("--max-held"),
        }
    }

    /// Bytes of messages held while there is no server.
    pub const fn held_bytes(most: usize) -> Limit {
        Limit {
            most,
            what: "bytes of requests are already waiting for the server",
            setting: "policy::Limits::held_bytes",
            flag: Some("--max-held-bytes"),
        }
    }

    /// Calls of a client that its session has not taken in.
    pub const fn calls(most: usize) -> Limit {
        Limit {
            most,
            what: "calls are already waiting for the server",
            setting: "policy::Limits::in_flight and policy::Limits::held",
            flag: Some("--max-in-flight"),
        }
    }

    /// Requests of a server that its client has not answered.
    pub const fn asks(most: usize) -> Limit {
        Limit {
            most,
            what: "requests are already waiting for the client",
            setting: "policy::Limits::asks",
            flag: None,
        }
    }

    /// Questions of a server of ours that its client has not answered.
    pub const fn questions(most: usize) -> Limit {
        Limit {
            most,
            what: "questions are already waiting for the client",
            setting: "server::Builder::max_questions",
            flag: None,
        }
    }

    /// Bytes of these questions.
    pub const fn question_bytes(most: usize) -> Limit {
        Limit {
            most,
            what: "bytes of questions are already waiting for the client",
            setting: "server::Builder::queue",
            flag: None,
        }
    }

    /// Requests to a server of ours that wait for a handler.
    pub const fn queued(most: usize) -> Limit {
        Limit {
            most,
            what: "requests are already waiting for a handler",
            setting: "server::Builder::queue",
            flag: None,
        }
    }

    /// Bytes of these requests.
    pub const fn queued_bytes(most: usize) -> Limit {
        Limit {
            most,
            what: "bytes of requests are already waiting for a handler",
            setting: "server::Builder::queue",
            flag: None,
        }
    }

    /// Handlers that wait for a modern client to come back.
    pub const fn parked(most: usize) -> Limit {
        Limit {
            most,
            what: "handlers are already waiting for clients to come back",
            setting: "server::Builder::max_parked",
            flag: None,
        }
    }

    /// How much it is.
    pub fn most(&self) -> usize {
        self.most
    }

    /// The setting that makes it more, by its name in the library.
    pub fn setting(&self) -> &'static str {
        self.setting
    }

    /// "Too many … (the limit is 8, set by …)".
    pub(super) fn words(&self, names: Names) -> String {
        let Limit { most, what, .. } = self;
        match (names, self.flag) {
            (Names::Flags, Some(flag)) => format!("Too many {what} (the limit is {most}: {flag})"),
            (Names::Flags, None) => format!("Too many {what} (the limit is {most})"),
            (Names::Library, _) => {
                format!("Too many {what} (the limit is {most}: `{}`)", self.setting)
            }
        }
    }
}

/// "Too many calls are already waiting for the server (the limit is 8: …)".
impl fmt::Display for Limit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.words(Names::Library))
    }
}

/// What settings are called where a sentence is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Names {
    /// By whoever runs `outlive`.
    Flags,
    /// By whoever uses the library.
    Library,
}

impl Names {
    pub(super) fn message_limit(self) -> &'static str {
        match self {
            Names::Flags => "--message-limit",
            Names::Library => "`policy::Limits::message`",
        }
    }
}
