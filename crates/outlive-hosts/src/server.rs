//! What a file says about its servers.

use std::path::PathBuf;

use serde_json::Value;

use crate::error::{Error, Position};
use crate::secret::Secret;
use crate::shape::Shape;

/// A file that has been read.
#[derive(Debug)]
pub struct HostFile {
    /// How it is spelled.
    pub shape: Shape,
    /// Its servers, in its order, those that are switched off too.
    pub servers: Vec<Server>,
    /// Entries that are no servers of their own: the host brings them along.
    pub skipped: Vec<Skipped>,
    /// Keys of servers that mean nothing here, each once, with the first place they stand at.
    pub unknown: Vec<(String, Position)>,
}

/// An entry that only its host can start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Skipped {
    /// Its name.
    pub name: String,
    /// Why it is none of ours.
    pub why: String,
}

/// One server of a file.
#[derive(Debug)]
pub struct Server {
    /// Its name in the file.
    pub name: String,
    /// Where its name stands.
    pub at: Position,
    /// Whether the host would start it.
    pub enabled: bool,
    /// How it is reached; if the entry makes no sense, why. The other servers of the file are none the worse.
    pub launch: Result<Launch, Error>,
    /// The settings of outlive for this server, as they stand: `"outlive": { "request-timeout": "60s" }`. What is no
    /// table of settings is one that is called `outlive`.
    pub settings: Vec<Setting>,
}

/// How a server is reached.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Launch {
    /// A program that speaks over stdin and stdout.
    Command {
        /// The program.
        program: String,
        /// Its arguments.
        args: Vec<String>,
        /// Variables it gets beside ours.
        env: Vec<(String, Secret)>,
        /// The directory it is started in.
        cwd: Option<PathBuf>,
    },
    /// A server over HTTP.
    Address {
        /// Where it is.
        url: String,
        /// Headers it is sent.
        headers: Vec<(String, Secret)>,
        /// The transport, where the file names one.
        transport: Option<Transport>,
    },
}

/// How messages travel over HTTP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transport {
    /// Streamable HTTP.
    Streamable,
    /// HTTP+SSE.
    Sse,
}

/// A setting of outlive in a host's file. What it means is checked where settings are defined.
#[derive(Clone, Debug, PartialEq)]
pub struct Setting {
    /// Its name.
    pub key: String,
    /// Its value.
    pub value: Value,
    /// Where it stands.
    pub at: Position,
}
