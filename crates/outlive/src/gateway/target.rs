//! The targets of a gateway: where servers come from, and how they are shared.

use std::collections::HashMap;
use std::ffi::{OsStr, OsString};
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use outlive_core::Message;
use outlive_core::cause::StartFailure;
use outlive_core::gateway::TargetLimits;
use outlive_core::policy::Policy;
use serde_json::Value;

use super::offer_files;
use super::recent::Recent;
use super::unstartable::Unstartable;
use super::upstream_session::GatewayDownstream;
use crate::driver::{self, connector::Connections};
use crate::http_client::{Remote, Sessions};
use crate::http_server::{Mirrored, ReplayBuffer, VIA, is_marked, of_schema};
use crate::memory;
use crate::process::children::Children;
use crate::process::command::Command;
use crate::process::orphan_reaper::OrphanReaper;
use crate::process::programs;
use crate::run::misconfigured;
use crate::secrets::Secrets;
use crate::server::Server;

/// What is added to the time a server may take to end, for clients that wait for that.
const LEEWAY: Duration = Duration::from_secs(2);

/// No client waits longer for a server to end.
const LONGEST_WAIT: Duration = Duration::from_secs(30);

/// Tools with arguments that are repeated in headers, as far as they are remembered.
const MOST_MIRRORED: usize = 4096;

/// Where servers come from.
#[derive(Clone, Debug)]
pub(super) enum Source {
    Command(Command, Secrets),
    Remote(Remote),
    /// A server of this crate, in this process.
    Server(Server),
    /// None, for this reason.
    Nowhere(StartFailure),
}

impl Source {
    /// A name for what starts servers, from which that cannot be read; what is in this process goes by its name. Values
    /// of variables and headers are left out: they are secrets more often than not, and change when those do. So two
    /// servers that differ in these alone are told apart by their names. Variables of ours say nothing about a server.
    pub(super) fn key(&self, name: &str) -> String {
        match self {
            Source::Command(command, _) => {
                let cwd = command.cwd.as_ref().map(|it| it.as_os_str());
                let args = command.args.iter().map(OsString::as_os_str);
                let names = command.env.iter().map(|(name, _)| name.as_os_str());
                let is_ours = |name: &&OsStr| name.as_encoded_bytes().starts_with(b"OUTLIVE_");
                let names = names.filter(|name| !is_ours(name));
                let parts = std::iter::once(OsStr::new("command"))
                    .chain([command.program.as_os_str(), cwd.unwrap_or_default()])
                    .chain(args)
                    .chain([OsStr::new("env")])
                    .chain(names)
                    .chain([OsStr::new("name"), OsStr::new(name)]);
                offer_files::key(parts.map(OsStr::as_encoded_bytes))
            }
            Source::Remote(remote) => {
                let address = remote.label();
                offer_files::key([&b"remote"[..], address.as_bytes(), b"name", name.as_bytes()])
            }
            Source::Server(_) | Source::Nowhere(_) => {
                offer_files::key([&b"name"[..], name.as_bytes()])
            }
        }
    }
}

/// One of the servers that a gateway offers.
pub(super) struct Target {
    /// What it is called in its path, if there are several.
    pub(super) name: String,
    pub(super) source: Source,
    /// How the session with each server behaves.
    pub(super) policy: Policy,
    pub(super) limits: TargetLimits,
    /// What is said to modern clients goes here.
    modern: Mutex<Option<Arc<ReplayBuffer>>>,
    /// What is remembered of it for people who look at it.
    pub(super) recent: Arc<Recent>,
    /// Tools that have arguments which are repeated in headers, as far as lists of them went by.
    mirrored: Mutex<HashMap<String, Vec<Mirrored>>>,
}

impl Target {
    pub(super) fn new(
        name: String,
        source: Source,
        policy: Policy,
        mut limits: TargetLimits,
    ) -> Target {
        let end = policy.stop_grace + policy.term_grace + LEEWAY;
        limits.wait = end.min(LONGEST_WAIT);
        if !matches!(source, Source::Command(..)) {
            // What is elsewhere is no process of ours to start and to stop.
            limits.servers = usize::MAX;
        }
        Target {
            name,
            source,
            policy,
            limits,
            modern: Mutex::default(),
            recent: Arc::new(Recent::new()),
            mirrored: Mutex::default(),
        }
    }

    fn modern_buffer(&self) -> MutexGuard<'_, Option<Arc<ReplayBuffer>>> {
        self.modern.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Where what is said to modern clients goes, if anywhere.
    pub(super) fn modern(&self) -> Option<Arc<ReplayBuffer>> {
        self.modern_buffer().clone()
    }

    /// What is said to modern clients goes here from now on. False if it goes somewhere else.
    pub(super) fn serve_modern(&self, replay: &Arc<ReplayBuffer>) -> bool {
        let mut known = self.modern_buffer();
        let is_first = known.is_none();
        known.get_or_insert_with(|| replay.clone());
        is_first
    }

    /// It goes there no longer.
    pub(super) fn retire_modern(&self, replay: &Arc<ReplayBuffer>) {
        self.modern_buffer()
            .take_if(|known| Arc::ptr_eq(known, replay));
    }

    /// A name for what starts its servers, from which that cannot be read.
    pub(super) fn key(&self) -> String {
        self.source.key(&self.name)
    }

    /// What is wrong with its settings, as far as that can be told without starting anything.
    pub(super) fn check(&self) -> io::Result<()> {
        self.policy.check().map_err(misconfigured)?;
        match &self.source {
            Source::Remote(remote) => remote.check_words().map_err(misconfigured),
            _ => Ok(()),
        }
    }

    /// Whether its servers say when they have taken `notifications/initialized`.
    pub(super) fn confirms(&self) -> bool {
        matches!(self.source, Source::Remote(_))
    }

    /// Why no server could be started, as far as that can be told without starting one.
    pub(super) fn obstacle(&self) -> Option<StartFailure> {
        match &self.source {
            Source::Command(command, _) => programs::obstacle(command),
            Source::Nowhere(why) => Some(why.clone()),
            Source::Remote(_) | Source::Server(_) => None,
        }
    }

    /// Whether servers of the other would be what those of this one are, under the same rules.
    pub(super) fn is_like(&self, other: &Target) -> bool {
        let same_source = match (&self.source, &other.source) {
            (Source::Command(one, _), Source::Command(other, _)) => one == other,
            (Source::Remote(one), Source::Remote(other)) => one.is_like(other),
            (Source::Server(one), Source::Server(other)) => one.is_same(other),
            (Source::Nowhere(one), Source::Nowhere(other)) => one == other,
            _ => false,
        };
        same_source && self.policy == other.policy && self.limits == other.limits
    }

    /// Runs a session until it ends.
    pub(super) fn drive(
        &self,
        downstream: GatewayDownstream,
        via: &str,
        reaper: Option<OrphanReaper>,
    ) {
        let policy = self.policy.clone();
        let limit = policy.limits.message;
        let seed = crate::run::seed();
        match &self.source {
            Source::Command(command, secrets) => {
                let made = Children::beside_others(command.clone(), secrets.clone(), limit);
                match made {
                    Ok(children) => {
                        let children = children.guarded(reaper);
                        tokio::spawn(driver::drive(downstream, children, policy, seed));
                    }
                    // Without a way to hear of their ends there are no children; the downstream says so when
                    // it is dropped, which is not done here: whoever starts a server holds the lock of a client.
                    Err(_) => drop(tokio::spawn(async move { drop(downstream) })),
                }
            }
            Source::Server(server) => {
                let server = server.clone();
                let connect = move || {
                    let (ours, theirs) = memory::pair();
                    let server = server.clone();
                    tokio::spawn(async move { server.serve(theirs).await });
                    async { Ok::<_, std::io::Error>(ours) }
                };
                let connections = Connections::new(connect, limit);
                tokio::spawn(driver::drive(downstream, connections, policy, seed));
            }
            Source::Nowhere(why) => {
                let unstartable = Unstartable(why.clone());
                tokio::spawn(driver::drive(downstream, unstartable, policy, seed));
            }
            Source::Remote(remote) => {
                // Should the address lead back to us, we know our own requests again.
                let remote = remote.clone().header(format!("{VIA}: {via}"));
                let sessions = Sessions::new(remote, limit);
                tokio::spawn(driver::drive(downstream, sessions, policy, seed));
            }
        }
    }

    fn mirrored_tools(&self) -> MutexGuard<'_, HashMap<String, Vec<Mirrored>>> {
        self.mirrored.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The arguments of this call that are to be repeated in headers.
    pub(super) fn mirrored(&self, call: &Message) -> Vec<Mirrored> {
        let known = self.mirrored_tools();
        if known.is_empty() {
            return Vec::new();
        }
        let name = call.name().unwrap_or_default();
        known.get(&*name).cloned().unwrap_or_default()
    }

    /// Learns from an answer that may be a list of tools.
    pub(super) fn learn(&self, answer: &Message) {
        let Some(result) = answer.result().filter(|result| is_marked(result)) else {
            return;
        };
        let result: Value = serde_json::from_slice(result).unwrap_or_default();
        let tools = result["tools"].as_array();
        let mut known = self.mirrored_tools();
        for tool in tools.into_iter().flatten() {
            let found = of_schema(&tool["inputSchema"]);
            let name = tool["name"].as_str().unwrap_or_default();
            if found.is_empty() {
                known.remove(name);
            } else if known.len() < MOST_MIRRORED || known.contains_key(name) {
                known.insert(name.to_owned(), found);
            }
        }
    }
}
