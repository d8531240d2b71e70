//! How a client comes to be.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use outlive_core::cause::{Cause, Phase, Reason};
use outlive_core::error::{Error, Outcome};
use outlive_core::policy::{Policy, PolicyError};
use outlive_core::protocol::version::{LEGACY, MODERN};
use outlive_core::snapshot::{ResumeError, Snapshot};
use outlive_core::{Session, Time};
use serde_json::{Value, json};
use tokio::runtime::{self, Handle as Runtime};

use super::downstream::ClientDownstream;
use super::handler::{Elicitation, Handlers, Roots, Sampling};
use super::resume::Former;
use super::{Client, Era, Handle, Peer, Shared, State, wire};
use crate::driver::address::{Address, Connect, Guarded};
use crate::driver::connector::Connector;
#[cfg(feature = "http")]
use crate::http_client::Remote;
#[cfg(feature = "server")]
use crate::memory;
use crate::model::{
    DiscoverResult, Implementation, InitializeParams, InitializeResult, RpcError,
    SubscriptionFilter, meta,
};
use crate::process::command::Command;
use crate::process::orphan_reaper::OrphanReaper;
#[cfg(feature = "server")]
use crate::server::Server;

/// Builds a [`Client`].
#[must_use = "nothing happens before `connect`"]
pub struct Builder<S = ()> {
    server: S,
    label: Option<String>,
    policy: Policy,
    /// In place of the policy's, in whatever order they are given.
    bounds: (Option<Duration>, Option<Duration>),
    connect_timeout: Option<Duration>,
    info: Implementation,
    era: Option<Era>,
    spins: bool,
    handlers: Handlers,
    resumed: Option<Snapshot>,
}

impl Builder {
    pub(super) fn new() -> Builder {
        Builder {
            server: (),
            label: None,
            policy: Policy::default(),
            bounds: (None, None),
            connect_timeout: None,
            info: Implementation::new("outlive", env!("CARGO_PKG_VERSION")),
            era: None,
            spins: true,
            handlers: Handlers::default(),
            resumed: None,
        }
    }

    /// The server is a child process. It is started again when it dies, and leaves with the client, with
    /// all that it has started. If this process is killed before it can see to that, the server dies
    /// too (on Linux), but what it has started behind a wrapper such as `sh -c` or `npx` may live on, unless there is
    /// an [`orphan_reaper`](Builder::orphan_reaper).
    pub fn command(self, command: impl Into<Command>) -> Builder<Command> {
        self.at(command.into())
    }

    /// The server is reached over streams of bytes that `connector` makes.
    pub fn connector<C: Connector>(self, connector: C) -> Builder<Connect<C>> {
        self.at(Connect::new(connector))
    }

    /// The server is reached over HTTP: an address, or a [`Remote`] with headers and more.
    #[cfg(feature = "http")]
    pub fn url(self, server: impl Into<Remote>) -> Builder<Remote> {
        self.at(server.into())
    }

    /// The server is in this process, and reached over memory: for tests, and for programs that have both. It is served
    /// in the runtime of the connection.
    ///
    /// ```
    /// use outlive::{Client, Server};
    /// use serde_json::json;
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), outlive::Error> {
    /// let server = Server::builder("greeter", "1.0.0")
    ///     .tool("greet", "Greets.", |_, (): ()| async { "Hello!" })
    ///     .build();
    /// let client = Client::builder().server(&server).connect().await?;
    /// assert_eq!(client.call("greet", json!({})).await?.text(), "Hello!");
    /// # Ok(())
    /// # }
    /// ```
    #[cfg(feature = "server")]
    pub fn server(self, server: &Server) -> Builder<impl Address + use<>> {
        let server = server.clone();
        self.connector(move || {
            let (ours, theirs) = memory::pair();
            let server = server.clone();
            tokio::spawn(async move { server.serve(theirs).await });
            async { Ok::<_, std::io::Error>(ours) }
        })
    }

    fn at<S>(self, server: S) -> Builder<S> {
        self.map(|()| server)
    }
}

impl Builder<Command> {
    /// Who ends the server, with all that it has started, if this process is ended with `SIGKILL` (nobody). One is
    /// enough for all clients of a program; it is a copy of the process as it is when the orphan reaper is started.
    pub fn orphan_reaper(self, orphan_reaper: OrphanReaper) -> Builder<Guarded> {
        self.map(|command| Guarded::new(command, orphan_reaper))
    }
}

impl<S> Builder<S> {
    fn map<T>(self, change: impl FnOnce(S) -> T) -> Builder<T> {
        Builder {
            server: change(self.server),
            label: self.label,
            policy: self.policy,
            bounds: self.bounds,
            connect_timeout: self.connect_timeout,
            info: self.info,
            era: self.era,
            spins: self.spins,
            handlers: self.handlers,
            resumed: self.resumed,
        }
    }

    /// When the server is restarted, calls are repeated, and all the rest. Its label is not used: see
    /// [`label`](Builder::label).
    pub fn policy(mut self, policy: Policy) -> Self {
        self.policy = policy;
        self
    }

    /// Any call fails that takes longer than this without progress; a call may say otherwise.
    pub fn idle_timeout(mut self, idle: Duration) -> Self {
        self.bounds.0 = Some(idle);
        self
    }

    /// Any call fails that takes longer than this, progress or not; a call may say otherwise.
    pub fn timeout(mut self, total: Duration) -> Self {
        self.bounds.1 = Some(total);
        self
    }

    /// Gives up [`connect`](Builder::connect) after this time (5 minutes, because a first start may download packages:
    /// [`Policy::start_hard`]).
    pub fn connect_timeout(mut self, timeout: Duration) -> Self {
        self.connect_timeout = Some(timeout);
        self
    }

    /// What the server is told about this program.
    pub fn info(mut self, name: impl Into<String>, version: impl Into<String>) -> Self {
        self.info = Implementation::new(name, version);
        self
    }

    /// What the server is called in errors; by default its command.
    pub fn label(mut self, label: impl Into<String>) -> Self {
        self.label = Some(label.into());
        self
    }

    /// Speaks only this era of the protocol, rather than finding out which one the server speaks.
    pub fn era(mut self, era: Era) -> Self {
        self.era = Some(era);
        self
    }

    /// Whether the next message of a child process is looked for before the connection's task sleeps
    /// (it is). While calls are made in quick succession this spares the time it takes to wake a
    /// thread, which may be most of a small call, and costs up to 50 µs of processor time for each.
    /// Where it does not pay, it is hardly ever done; at rest it is never done.
    pub fn spin(mut self, spins: bool) -> Self {
        self.spins = spins;
        self
    }

    /// Goes on with the session of another client, perhaps of an earlier process, of which this is a
    /// [snapshot](Client::snapshot): the server is told what that client had told it, subscriptions and the log level
    /// included, and this one is told which lists have changed meanwhile. Its first [`events`](Client::events) begin
    /// with what happened while it was connecting.
    ///
    /// To the server it is the client that it was: [`info`](Builder::info), [`era`](Builder::era) and what it can be
    /// asked are as they were, so it should be given the same handlers. Calls that were in flight have ended with
    /// whoever waited for them, and are not repeated.
    ///
    /// ```no_run
    /// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
    /// use outlive::client::Event;
    /// use outlive::{Client, Command, Snapshot};
    ///
    /// let server = Command::new("python", ["server.py"]);
    /// let client = match std::fs::read("session") {
    ///     Ok(bytes) => Client::builder().command(server).resume(Snapshot::decode(&bytes)?),
    ///     Err(_) => Client::builder().command(server),
    /// };
    /// let client = client.connect().await?;
    /// let mut events = client.events();
    /// # let ended = async {};
    /// // …until this process is told to end:
    /// ended.await;
    /// std::fs::write("session", client.snapshot().await?.encode())?;
    /// client.close().await;
    /// while let Some(event) = events.next().await {
    ///     if let Event::ToolsChanged { added, removed, .. } = event {
    ///         println!("new: {added:?}, gone: {removed:?}");
    ///     }
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn resume(mut self, snapshot: Snapshot) -> Self {
        self.resumed = Some(snapshot);
        self
    }

    /// Lets the server ask a model.
    pub fn sampling(mut self, handler: impl Sampling) -> Self {
        self.handlers.set_sampling(handler);
        self
    }

    /// Lets the server ask the person.
    pub fn elicitation(mut self, handler: impl Elicitation) -> Self {
        self.handlers.set_elicitation(handler);
        self
    }

    /// Tells the server which folders it may work in.
    pub fn roots(mut self, handler: impl Roots) -> Self {
        self.handlers.set_roots(handler);
        self
    }
}

impl<S> Builder<S> {
    /// Connects and shakes hands, or goes on where another client was ([`resume`](Builder::resume)). Fails if the server
    /// does not come up; afterwards it may come and go.
    ///
    /// The connection is owned by one task of the tokio runtime this is called in, which must have its
    /// I/O and time drivers enabled; outside of one, by a thread of its own. The client that is
    /// returned can be used anywhere, as long as that runtime runs. One of a single thread runs only inside its
    /// `block_on`: outside of it nothing happens to a call, and its timeout does not pass either.
    pub async fn connect(self) -> Result<Client, Error>
    where
        S: Address,
    {
        let misconfigured = |why| Error::Misconfigured { why };
        self.server.check().map_err(misconfigured)?;
        let mut policy = self.policy;
        policy.request_timeout = self.bounds.0.or(policy.request_timeout);
        policy.request_ceiling = self.bounds.1.or(policy.request_ceiling);
        let wrong = |error: PolicyError| misconfigured(error.to_string());
        policy.check().map_err(wrong)?;
        policy.label = self.label.unwrap_or_else(|| self.server.label()).into();
        let label = policy.label.clone();
        let shared = Arc::new(Shared::new(&policy));
        let (server, handlers, spins) = (self.server, self.handlers, self.spins);
        let seed = crate::run::seed();
        let unresumable = |error: ResumeError| misconfigured(error.to_string());
        let (session, former) = match self.resumed {
            None => (None, None),
            Some(snapshot) => {
                let former = Former::read(&snapshot).map_err(unresumable)?;
                let session = Session::resume(policy.clone(), seed, snapshot, Time::ZERO);
                (Some(session.map_err(unresumable)?), Some(former))
            }
        };
        // Nobody can listen before the client is returned, and then it may have been told.
        let events = former.as_ref().map(|_| shared.watch.events());
        let run = {
            let (shared, handlers) = (shared.clone(), handlers.clone());
            move |runtime: Runtime| {
                let downstream = ClientDownstream::new(shared, handlers, runtime, spins, session);
                server.run(downstream, policy, seed)
            }
        };
        let runtime = match Runtime::try_current() {
            Ok(runtime) => {
                runtime.spawn(run(runtime.clone()));
                runtime
            }
            Err(_) => on_a_thread(run)?,
        };
        let client = Client {
            handle: Arc::new(Handle {
                shared,
                handlers,
                runtime,
                events: Mutex::new(events),
            }),
        };
        if let Some(former) = former {
            return client.go_on(former, self.connect_timeout, label).await;
        }
        let greeting = Greeting {
            client: client.clone(),
            info: self.info,
        };
        let peer = match self.connect_timeout {
            None => greeting.greet(self.era).await?,
            Some(after) => {
                let greeted = client.until(after, greeting.greet(self.era)).await;
                greeted.unwrap_or_else(|| Err(too_late(&client, label, after)))?
            }
        };
        client.greeted(peer);
        Ok(client)
    }
}

/// The server has not been greeted in time: why, as far as that is known.
pub(super) fn too_late(client: &Client, label: Arc<str>, after: Duration) -> Error {
    let cause = match client.state() {
        State::Down { cause, .. } | State::Failed { cause, .. } => cause,
        State::Connecting { .. } | State::Ready { .. } | State::Closed => {
            Cause::new(Reason::SlowHandshake(after), Phase::Handshake, label)
        }
    };
    Error::Unavailable {
        cause: Some(cause),
        held: after,
        outcome: Outcome::NotSent,
        retry_after: None,
    }
}

/// Runs the connection where there is no runtime to run it.
fn on_a_thread<F>(run: impl FnOnce(Runtime) -> F + Send + 'static) -> Result<Runtime, Error>
where
    F: Future<Output = ()> + Send,
{
    let failed = |error: std::io::Error| Error::Protocol {
        what: format!("there is no runtime for the connection: {error}"),
        unreadable: false,
        outcome: Outcome::NotSent,
    };
    // The thread runs the connection; handlers run on the worker, so one that blocks stops only those.
    let runtime = runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .thread_name("outlive-handlers")
        .enable_all()
        .build()
        .map_err(failed)?;
    let handle = runtime.handle().clone();
    std::thread::Builder::new()
        .name("outlive-client".into())
        .spawn(move || {
            let connection = run(runtime.handle().clone());
            runtime.block_on(connection);
        })
        .map_err(failed)?;
    Ok(handle)
}

fn no_version(theirs: &[String]) -> Error {
    Error::Protocol {
        what: match theirs.is_empty() {
            true => format!("it does not speak version {MODERN} of the protocol"),
            false => format!(
                "it speaks only versions of the protocol that we do not: {}",
                theirs.join(", ")
            ),
        },
        unreadable: false,
        outcome: Outcome::Done,
    }
}

fn is_unsupported_version(error: &Error) -> bool {
    matches!(error, Error::Remote { code, .. } if *code == RpcError::UNSUPPORTED_PROTOCOL_VERSION)
}

/// The versions a server says it speaks when it refuses the one it was asked in.
fn theirs(error: &Error) -> Vec<String> {
    let Error::Remote { raw, .. } = error else {
        return Vec::new();
    };
    let data: Value = serde_json::from_slice(raw).unwrap_or_default();
    let theirs = data["data"]["supported"].as_array();
    let theirs = theirs.into_iter().flatten();
    theirs
        .filter_map(|version| Some(version.as_str()?.to_string()))
        .collect()
}

/// Getting to know the server.
struct Greeting {
    client: Client,
    info: Implementation,
}

impl Greeting {
    /// Greets it in this era, or in the one it speaks.
    async fn greet(self, era: Option<Era>) -> Result<Peer, Error> {
        match era {
            Some(Era::Legacy) => self.initialize().await,
            Some(Era::Modern) => self.discover().await?.ok_or_else(|| no_version(&[])),
            None => match self.discover().await? {
                Some(peer) => Ok(peer),
                None => self.initialize().await,
            },
        }
    }

    /// The members of `_meta` that a request of the modern era has, without the braces.
    fn modern_meta(&self) -> String {
        let capabilities = &self.client.handle.handlers.capabilities;
        let members = json!({
            meta::PROTOCOL_VERSION: MODERN,
            meta::CLIENT_INFO: &self.info,
            meta::CLIENT_CAPABILITIES: capabilities,
        });
        let text = members.to_string();
        text.get(1..text.len() - 1).unwrap_or_default().to_string()
    }

    /// Asks a modern server what it is. `None`: it is a legacy one. (2026-07-28, Backward
    /// Compatibility: any answer but a discovery, and any error but those that only a modern server gives.)
    async fn discover(&self) -> Result<Option<Peer>, Error> {
        let modern = self.modern_meta();
        self.client.handle.shared.speak_modern(modern);
        let mut found = self.ask_what_it_is().await;
        if matches!(&found, Err(error) if theirs(error).iter().any(|v| v == MODERN)) {
            // It names the very version it was asked in: as it asks for, that one is used again.
            found = self.ask_what_it_is().await;
        }
        let (theirs, error) = match found {
            Ok(found) if found.supported_versions.iter().any(|v| v == MODERN) => {
                let peer = Peer {
                    era: Era::Modern,
                    version: MODERN.into(),
                    info: found.server_info(),
                    capabilities: found.capabilities,
                    instructions: found.instructions,
                };
                self.client.listen_to_lists(&peer);
                return Ok(Some(peer));
            }
            // A server that answers whatever it is asked (FM-44): a discovery names versions.
            Ok(found) if found.supported_versions.is_empty() => {
                self.client.handle.shared.speak_legacy();
                return Ok(None);
            }
            Ok(found) => (found.supported_versions, None),
            Err(error) if is_unsupported_version(&error) => (theirs(&error), Some(error)),
            // Only a modern server says these: another era would not help.
            Err(
                error @ Error::Remote {
                    code: RpcError::HEADER_MISMATCH | RpcError::MISSING_CLIENT_CAPABILITY,
                    ..
                },
            ) => return Err(error),
            // Over HTTP a legacy server may refuse what it does not know by a status alone.
            Err(
                Error::Remote { .. }
                | Error::Unsupported { .. }
                | Error::Protocol { .. }
                | Error::Rejected {
                    status: 400..=499, ..
                },
            ) => {
                self.client.handle.shared.speak_legacy();
                return Ok(None);
            }
            Err(error) => return Err(error),
        };
        // It is modern but for this version; a dual server may still share a legacy one.
        self.client.handle.shared.speak_legacy();
        match theirs.iter().any(|v| LEGACY.contains(&v.as_str())) {
            true => Ok(None),
            false => Err(error.unwrap_or_else(|| no_version(&theirs))),
        }
    }

    async fn ask_what_it_is(&self) -> Result<DiscoverResult, Error> {
        self.client.request("server/discover", Value::Null).await
    }

    async fn initialize(&self) -> Result<Peer, Error> {
        let capabilities = self.client.handle.handlers.capabilities.clone();
        let params = InitializeParams::new(Era::Legacy.newest(), capabilities, self.info.clone());
        let found: InitializeResult = self.client.request("initialize", params).await?;
        if !LEGACY.contains(&found.protocol_version.as_str()) {
            return Err(no_version(&[found.protocol_version]));
        }
        let initialized = wire::notification("notifications/initialized", b"");
        self.client.send(initialized)?;
        Ok(Peer {
            era: Era::Legacy,
            version: found.protocol_version,
            info: Some(found.server_info),
            capabilities: found.capabilities,
            instructions: found.instructions,
        })
    }
}

impl Client {
    /// In the modern era nothing is told that was not asked for: asks for the changes of all lists the
    /// server has.
    fn listen_to_lists(&self, peer: &Peer) {
        let has = &peer.capabilities;
        if has.tools.is_some() || has.prompts.is_some() || has.resources.is_some() {
            let notifications = SubscriptionFilter {
                tools_list_changed: has.tools.is_some().then_some(true),
                prompts_list_changed: has.prompts.is_some().then_some(true),
                resources_list_changed: has.resources.is_some().then_some(true),
                ..SubscriptionFilter::default()
            };
            // Refused, or never said to stand: then there are no such changes to be told of.
            let _ = self.keep_listening(None, notifications);
        }
    }
}
