//! A server behind HTTP: what `outlive serve` does.
//!
//! # Theory
//!
//! In front stands the same HTTP as before a server of this crate ([`Http`]); behind it, any MCP servers: commands or
//! addresses, which are its *targets*. Between the two, each server has a [session](crate), as `outlive run` has it,
//! and a [switch](outlive_core::switch) that makes several clients look like the one host a session has. When a server
//! is started, who is handed to it and when it is stopped is decided by a [machine](outlive_core::gateway) without I/O.
//!
//! ```text
//!  legacy client ──── LegacyClient ──┐
//!  legacy client ──── LegacyClient ──┼─► UpstreamSession (Switch) ◄─► GatewayDownstream ─ driver ─ Session ─► server
//!  modern requests ── ModernClients ─┘
//! ```
//!
//! - A legacy client has a server to itself for as long as its session lasts; with [`share`](Builder::share), all
//!   legacy clients have one together.
//! - Modern requests need no session. They share a [pool](Builder::pool): each goes to the server with the least
//!   to do.
//! - A server is started with the first message that needs it. One that is shared is stopped when nobody
//!   [needs it any more](Builder::idle_stop), and started again.
//! - A server that dies is replaced under its session: the call in flight gets an error that says so, the next one
//!   works, and no client has to connect again.
//!
//! | file | what happens there |
//! |---|---|
//! | `route`, `way` | clients come in and leave; the gateways they have come through |
//! | `upstreams` | the machine is asked, told the time, and obeyed |
//! | `target`, `unstartable` | where servers come from |
//! | `several`, `layout` | several targets, their names, and where each is |
//! | `upstream_session`, `usage` | one server and its clients |
//! | `router_session`, `router_rules`, `strand` | one client before all servers |
//! | `outlet`, `leg` | the way from a server to a client, or to a router |
//! | `catalogue`, `offer_files`, `aside` | what servers offer, remembered |
//! | `pinning`, `pin_files` | what was accepted of what they offer |
//! | `process`, `stdio` | a process of its own: signals, or one host on standard streams |
//! | `pages`, `metrics` | what is told about it: `/ready`, `/metrics` |
//! | `recent` | what is remembered of a target for people who look at it |
//! | `report`, `page` | how its targets stand: `/status.json` for programs, `/` for people |

mod aside;
mod catalogue;
mod layout;
mod leg;
mod metrics;
mod offer_files;
mod outlet;
mod page;
mod pages;
mod pin_files;
mod pinning;
mod process;
mod recent;
mod report;
mod route;
mod router_rules;
mod router_session;
mod several;
mod stdio;
mod strand;
mod target;
#[cfg(test)]
mod tests;
mod unstartable;
mod upstream_session;
mod upstreams;
mod usage;
mod way;

use std::fmt;
use std::io;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use outlive_core::cause::StartFailure;
use outlive_core::gateway::{TargetId, TargetLimits};
use outlive_core::policy::Policy;
use outlive_core::roster::Entry;
use outlive_core::{Meter, State};

use crate::http_client::Remote;
use crate::http_server::Backend;
use crate::observer::Observer;
use crate::process::command::Command;
use crate::process::orphan_reaper::OrphanReaper;
use crate::secrets::Secrets;
use crate::server::{Http, Server};

use layout::{Layout, Numbers};
use route::Routes;
use target::{Source, Target};
use upstreams::Upstreams;

pub use outlive_core::roster::{Change, Difference};
pub use outlive_core::roster::{Expose, Filter, Naming, Prefix, View};
pub use outlive_core::router::{RouterLimits, RouterPolicy};
pub use outlive_core::switch::Sharing;
pub use pin_files::{Pins, Reason, Withheld};
pub use process::run;
pub use several::{Changes, LONGEST_NAME, Several};
pub use stdio::{run_stdio, run_streams};

/// What is added to the time a server may take to stop before the end does without it.
const LEEWAY: Duration = Duration::from_secs(2);

/// The name of a target that is the only one.
const NAME: &str = "server";

/// A server that is served over HTTP, under supervision.
///
/// ```no_run
/// use outlive::{Command, Gateway};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> std::io::Result<()> {
/// let gateway = Gateway::command(Command::new("uvx", ["mcp-server-time"])).build();
/// gateway.http().bind("127.0.0.1:8000").await?.serve().await
/// # }
/// ```
///
/// It is a handle: clones are the same gateway, and [`shutdown`](Gateway::shutdown) ends `serve`. A gateway is
/// served once. What happens to its servers is told to a [`Observer`]; where they stand now is told by
/// [`upstreams`](Gateway::upstreams).
#[derive(Clone)]
pub struct Gateway {
    upstreams: Arc<Upstreams>,
}

impl Gateway {
    /// Serves what this command starts.
    pub fn command(command: Command) -> Builder {
        let secrets = Secrets::of(&command);
        let label = command.label(&secrets);
        Builder::new(Source::Command(command, secrets), label)
    }

    /// Serves a server that is reached over HTTP.
    pub fn remote(remote: Remote) -> Builder {
        let label = remote.label();
        Builder::new(Source::Remote(remote), label)
    }

    /// Serves a server of this crate within this process. A client that has it to itself has it under a session of
    /// its own, as over any other connection.
    pub fn server(server: &Server) -> Builder {
        Builder::new(
            Source::Server(server.clone()),
            "a server in this process".into(),
        )
    }

    /// Serves nothing: each call is answered with an error that gives this reason. It stands for a server among
    /// [several](Gateway::of) whose entry makes no sense, and must not keep the others from being served.
    pub fn unstartable(why: impl Into<String>) -> Builder {
        let why = StartFailure::Other(why.into());
        Builder::new(Source::Nowhere(why), String::new())
    }

    /// Serves several targets behind one address. All of them are at `/mcp`, as if they were one server; each is at
    /// `/NAME/mcp`, with a policy, limits and servers of its own. What concerns all of them, the orphan reaper and the
    /// observer, is given once, here.
    ///
    /// ```no_run
    /// use outlive::{Command, Gateway, Remote};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> std::io::Result<()> {
    /// let time = Gateway::command(Command::new("uvx", ["mcp-server-time"])).share(true);
    /// let docs = Gateway::remote(Remote::new("https://example.com/mcp"));
    /// let gateway = Gateway::of([("time", time), ("docs", docs)]).build()?;
    /// gateway.http().bind("127.0.0.1:8000").await?.serve().await
    /// # }
    /// ```
    pub fn of(targets: impl IntoIterator<Item = (impl Into<String>, Builder)>) -> Several {
        let targets = targets.into_iter();
        Several::new(targets.map(|(name, it)| (name.into(), it)).collect())
    }

    fn over(upstreams: Upstreams) -> Gateway {
        Gateway {
            upstreams: Arc::new(upstreams),
        }
    }

    /// What is wrong with its settings, as far as that can be told without starting anything.
    pub(crate) fn check(&self) -> io::Result<()> {
        let layout = self.upstreams.layout();
        layout.targets.iter().try_for_each(|(_, it)| it.check())
    }

    /// Whether there is a view of this name.
    pub(crate) fn has_view(&self, name: &str) -> bool {
        let catalogue = self.upstreams.catalogue.as_ref();
        catalogue.is_some_and(|catalogue| catalogue.has_view(name))
    }

    /// Settings for serving it over HTTP.
    pub fn http(&self) -> Http {
        Http::of_gateway(self.clone())
    }

    /// What stands behind an HTTP listener that has at most so many sessions, and how long those may take to end.
    pub(crate) fn backend(self, sessions: usize) -> (Box<dyn Backend>, Duration) {
        self.upstreams.bound_servers(sessions);
        let grace = |target: &Target| {
            let policy = &target.policy;
            policy.drain + policy.stop_grace + policy.term_grace + LEEWAY
        };
        let layout = self.upstreams.layout();
        let longest = layout.targets.iter().map(|(_, it)| grace(it)).max();
        (Box::new(Routes(self.upstreams)), longest.unwrap_or(LEEWAY))
    }

    /// How long what is in flight may take when everything ends.
    pub(crate) fn drain(&self) -> Duration {
        let layout = self.upstreams.layout();
        let longest = layout.targets.iter().map(|(_, it)| it.policy.drain).max();
        longest.unwrap_or_default()
    }

    /// What the sessions of all its servers count.
    pub fn meter(&self) -> &Meter {
        &self.upstreams.meter
    }

    /// Where each of its servers stands. There are none before somebody needs one.
    pub fn upstreams(&self) -> Vec<Upstream> {
        self.upstreams.all()
    }

    /// Why servers could not be started, as far as that can be told before one is needed: there is no such program,
    /// for instance. The first of [all](Gateway::obstacles).
    pub fn obstacle(&self) -> Option<StartFailure> {
        let layout = self.upstreams.layout();
        layout.targets.iter().find_map(|(_, it)| it.obstacle())
    }

    /// The targets whose servers could not be started, by name, and why.
    pub fn obstacles(&self) -> Vec<(String, StartFailure)> {
        let layout = self.upstreams.layout();
        let each = |target: &Target| Some((target.name.clone(), target.obstacle()?));
        let targets = layout.targets.iter();
        targets.filter_map(|(_, it)| each(it)).collect()
    }

    /// The names of its targets, in their order.
    pub fn names(&self) -> impl Iterator<Item = String> {
        let layout = self.upstreams.layout();
        let names = layout.targets.iter().map(|(_, it)| it.name.clone());
        names.collect::<Vec<_>>().into_iter()
    }

    /// Serves these targets and views from now on, while clients stay connected. It must be a gateway of
    /// [several](Gateway::of).
    ///
    /// A target is known by its name. One that is what it was keeps its servers and everything that is in flight there,
    /// also if its prefix, its tools or its place among the others has changed: that only changes what is shown. One
    /// that is something else gets new servers under the sessions of its clients; one that is gone ends its servers.
    /// What was in flight at either, from clients of several targets, is answered with an error that says so. A session
    /// with that target alone ends: what is in flight may finish, and its client has to begin anew.
    ///
    /// How the router behaves, where it is kept what servers offer, the orphan reaper and the observer stay what they
    /// were. Files may be read, so this is not for a thread that must not wait.
    ///
    /// # Errors
    ///
    /// If something is wrong with the names or settings of targets or views. Then nothing has changed.
    pub fn update(&self, several: Several) -> io::Result<Changes> {
        several.update(&self.upstreams)
    }

    /// Shows on the status page that its settings have changed and cannot be used, and why, until it is told otherwise.
    pub fn set_problem(&self, problem: Option<String>) {
        let known = self.upstreams.problem.lock();
        *known.unwrap_or_else(PoisonError::into_inner) = problem;
    }

    /// What is withheld of its targets that are [pinned](Builder::pin).
    pub fn withheld(&self) -> Vec<Withheld> {
        let catalogue = self.upstreams.catalogue.as_ref();
        catalogue.map_or_else(Vec::new, |catalogue| catalogue.withheld())
    }

    /// Puts new servers under all sessions.
    pub fn restart(&self) {
        self.upstreams.restart();
    }

    /// Ends it. The first time gracefully: no new session is begun, what is in flight has the policy's
    /// drain to finish, then servers are stopped and streams ended. The second time at once.
    pub fn shutdown(&self) {
        self.upstreams.shutdown();
    }

    /// Whether it is ending.
    pub fn is_shutting_down(&self) -> bool {
        self.upstreams.is_shutting_down()
    }
}

impl fmt::Debug for Gateway {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let layout = self.upstreams.layout();
        let targets = layout.targets.iter();
        let labels: Vec<&str> = targets.map(|(_, it)| &*it.policy.label).collect();
        f.debug_struct("Gateway")
            .field("targets", &labels)
            .field("is_shutting_down", &self.is_shutting_down())
            .finish_non_exhaustive()
    }
}

/// How a gateway is set up.
pub struct Builder {
    source: Source,
    label: String,
    policy: Policy,
    limits: TargetLimits,
    prefix: Option<String>,
    eager: bool,
    pin: bool,
    tools: Filter,
    orphan_reaper: Option<OrphanReaper>,
    observer: Arc<dyn Observer>,
}

impl Builder {
    fn new(source: Source, label: String) -> Builder {
        Builder {
            source,
            label,
            policy: Policy::default(),
            limits: TargetLimits::default(),
            prefix: None,
            eager: false,
            pin: false,
            tools: Filter::default(),
            orphan_reaper: None,
            observer: Arc::new(()),
        }
    }

    /// How the session with each server behaves. Its label is taken from the command or address.
    #[must_use]
    pub fn policy(mut self, policy: Policy) -> Builder {
        self.policy = policy;
        self
    }

    /// One server for all legacy clients, rather than one for each.
    #[must_use]
    pub fn share(mut self, share: bool) -> Builder {
        self.limits.share = share;
        self
    }

    /// How many servers there may be at once that belong to one legacy session each (64), those that are being stopped
    /// included. A client that comes when there are as many takes the place of the session that was unused longest, if
    /// that is longer than a minute; else it is refused with status 503. Servers that are reached over HTTP are
    /// not counted.
    #[must_use]
    pub fn max_servers(mut self, most: usize) -> Builder {
        self.limits.servers = most.max(1);
        self
    }

    /// How many servers there are for modern requests (1).
    #[must_use]
    pub fn pool(mut self, servers: usize) -> Builder {
        self.limits.pool = servers.max(1);
        self
    }

    /// Stops a shared server, or one of the pool, that nobody has used for this long (never). It is started again
    /// when it is needed.
    #[must_use]
    pub fn idle_stop(mut self, after: Duration) -> Builder {
        self.limits.idle_stop = Some(after);
        self
    }

    /// Starts a server of it when a client of several targets comes, and not with the first call that needs it.
    #[must_use]
    pub fn eager(mut self, eager: bool) -> Builder {
        self.eager = eager;
        self
    }

    /// What the names of its tools and prompts begin with among those of [several](Gateway::of) (its name).
    #[must_use]
    pub fn prefix(mut self, prefix: impl Into<String>) -> Builder {
        self.prefix = Some(prefix.into());
        self
    }

    /// Shows clients of [several](Gateway::of) no other definitions of tools, prompts and resources than those that
    /// were accepted. What it offers the first time is accepted; what is new or changed later is withheld until
    /// somebody [accepts](Pins::accept) it.
    #[must_use]
    pub fn pin(mut self, pin: bool) -> Builder {
        self.pin = pin;
        self
    }

    /// Names what starts its servers, or their address. What was accepted of one origin counts for no other.
    pub fn origin(&self) -> String {
        self.source.key("")
    }

    /// Which of its tools there are among those of [several](Gateway::of), by the names it has for them (all).
    #[must_use]
    pub fn tools(mut self, tools: Filter) -> Builder {
        self.tools = tools;
        self
    }

    /// Who ends what its servers have started if this process is ended with `SIGKILL` (nobody).
    #[must_use]
    pub fn orphan_reaper(mut self, orphan_reaper: OrphanReaper) -> Builder {
        self.orphan_reaper = Some(orphan_reaper);
        self
    }

    /// Who is told what happens to its servers.
    #[must_use]
    pub fn observer(mut self, observer: impl Observer) -> Builder {
        self.observer = Arc::new(observer);
        self
    }

    /// The gateway. Nothing is started yet.
    pub fn build(self) -> Gateway {
        let (reaper, observer) = (self.orphan_reaper.clone(), self.observer.clone());
        let layout = Layout::of_one(self.target(NAME.into()));
        let (numbers, policy) = (Numbers::default(), RouterPolicy::default());
        Gateway::over(Upstreams::new(
            layout, numbers, None, policy, reaper, observer,
        ))
    }

    /// The target, with a name in all sentences about it: its policy's, if that has one.
    fn named(mut self, name: String) -> Target {
        self.policy.name.get_or_insert_with(|| name.as_str().into());
        self.target(name)
    }

    /// What a roster is made from: nothing is known of it yet.
    fn entry(&self, target: TargetId, name: &str) -> Entry {
        Entry {
            target,
            name: name.into(),
            prefix: self.prefix.as_deref().map(Box::from),
            filter: self.tools.clone(),
            eager: self.eager,
            offer: None,
            pinned: None,
        }
    }

    fn target(self, name: String) -> Target {
        let mut policy = self.policy;
        policy.label = self.label.into();
        Target::new(name, self.source, policy, self.limits)
    }
}

impl fmt::Debug for Builder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Builder")
            .field("label", &self.label)
            .field("limits", &self.limits)
            .finish_non_exhaustive()
    }
}

/// One server of a gateway, as it was when it was looked at.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Upstream {
    /// Counted from 1 in the order they were started; a server that is replaced under its session
    /// keeps its number.
    pub number: u64,
    /// The name of the target it comes from.
    pub target: String,
    /// Whom it is for.
    pub sharing: Sharing,
    /// Where its session stands.
    pub state: State,
    /// Requests that are waited for.
    pub in_flight: usize,
    /// Legacy clients that use it.
    pub clients: usize,
    /// What the one client calls itself that has it to itself.
    pub client: Option<String>,
    /// How long ago a client last said something to it.
    pub unused: Duration,
}
