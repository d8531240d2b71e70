//! Who is under test, as far as the runner and the report have to know.

use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;

use crate::Era;
use crate::client::{self, ClientUnderTest};
use crate::proxy::ProxyUnderTest;
use crate::scenario::Subject;
use crate::survey::ServerUnderTest;

/// Who is under test.
#[derive(Clone, Debug)]
pub enum Cast {
    /// A server; the check plays its hosts.
    Server(Arc<ServerUnderTest>),
    /// A client; the check plays its servers.
    Client(Arc<ClientUnderTest>),
    /// A proxy; the check plays both sides.
    Proxy(Arc<ProxyUnderTest>),
}

impl Cast {
    /// What kind of program it is.
    pub fn subject(&self) -> Subject {
        match self {
            Cast::Server(_) => Subject::Server,
            Cast::Client(_) => Subject::Client,
            Cast::Proxy(_) => Subject::Proxy,
        }
    }

    /// What it calls itself.
    pub fn name(&self) -> String {
        match self {
            Cast::Server(server) => server.survey.server.clone(),
            Cast::Client(client) => client.survey.client.clone(),
            Cast::Proxy(_) => String::new(),
        }
    }

    /// How it is started or reached.
    pub fn target(&self) -> String {
        match self {
            Cast::Server(server) => server.target.words(),
            Cast::Client(client) => client::words(&client.options.driver),
            Cast::Proxy(proxy) => client::words(&proxy.options.command),
        }
    }

    /// What the first look at it found, as data.
    pub fn survey(&self) -> Value {
        match self {
            Cast::Server(server) => serde_json::to_value(&server.survey).unwrap_or_default(),
            Cast::Client(client) => serde_json::to_value(&client.survey).unwrap_or_default(),
            Cast::Proxy(proxy) => serde_json::to_value(&proxy.survey).unwrap_or_default(),
        }
    }

    /// What the first look at it found, in a few words.
    pub fn survey_in_words(&self) -> String {
        match self {
            Cast::Server(server) => server.survey.words(),
            Cast::Client(client) => client.survey.words(),
            Cast::Proxy(proxy) => proxy.survey.words(),
        }
    }

    /// Whether it speaks an era.
    pub fn speaks(&self, era: Era) -> bool {
        match self {
            Cast::Server(server) => server.survey.eras.contains(&era),
            Cast::Client(client) => client.survey.eras.contains(&era),
            Cast::Proxy(proxy) => proxy.survey.eras.contains(&era),
        }
    }

    /// The era of scenarios that are about neither.
    pub fn era(&self) -> Era {
        match self {
            Cast::Server(server) => server.survey.era(),
            Cast::Client(client) => client.survey.era(),
            Cast::Proxy(proxy) => proxy.survey.era(),
        }
    }

    /// How long a start takes.
    pub fn started_in(&self) -> Duration {
        match self {
            Cast::Server(server) => server.survey.started_in,
            Cast::Client(client) => client.survey.started_in,
            Cast::Proxy(proxy) => proxy.survey.started_in,
        }
    }

    /// How long an answer may take.
    pub fn timeout(&self) -> Duration {
        match self {
            Cast::Server(server) => server.options.timeout,
            Cast::Client(client) => client.options.timeout,
            Cast::Proxy(proxy) => proxy.options.timeout,
        }
    }
}
