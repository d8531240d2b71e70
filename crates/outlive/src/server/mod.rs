//! A server that its clients cannot crash.
//!
//! # Theory
//!
//! Whatever a client does (leave in the middle, cancel what is just being answered, send what is
//! no message) happens to a machine without I/O, [`outlive_core::server`]: it knows which requests
//! are owed an answer, and an answer is given by taking the request out of its table. A late
//! answer finds nothing there, so it cannot meet a cancellation half-way.
//!
//! Around it is one thread for each client that reads and keeps the time, and threads for handlers,
//! more of them the more block ([`Server`] says when). While handlers are quick, the thread that
//! reads runs them itself, because waking another would take longer; when one is not, another
//! thread goes on reading within milliseconds. So pings, cancellations and other calls get through
//! whatever a handler does. Whichever thread finishes a handler writes the answer itself.
//!
//! # Handlers
//!
//! A handler is an async function of a [`Ctx`] and its arguments. Panics are caught: the client gets
//! an error (−32603), the server lives. When nobody waits for it any more, [`Ctx::cancelled`] says
//! why; after a grace it is dropped, and what it would still answer is discarded.
//!
//! ```
//! use outlive::server::{Json, Server, ToolError};
//! use schemars::JsonSchema;
//! use serde::{Deserialize, Serialize};
//!
//! #[derive(Deserialize, JsonSchema)]
//! struct Sum {
//!     /// What to add up.
//!     numbers: Vec<f64>,
//! }
//!
//! #[derive(Serialize, JsonSchema)]
//! struct Total {
//!     total: f64,
//! }
//!
//! let server = Server::builder("calculator", "1.0.0")
//!     .tool("sum", "Adds numbers up.", |ctx, sum: Sum| async move {
//!         ctx.progress(0.0, Some(1.0));
//!         if sum.numbers.is_empty() {
//!             return Err(ToolError::new("There is nothing to add up."));
//!         }
//!         Ok(Json(Total { total: sum.numbers.iter().sum() }))
//!     })
//!     .resource("calc://constants/pi", "pi", |_, _| async { "3.14159" })
//!     .build();
//! # let _ = server;
//! ```
//!
//! With the feature `macros`, `#[outlive::tools]` makes the functions of an `impl` block tools that share its type:
//! see the [crate page](crate) and [`Builder::tools`].
//!
//! Then `server.serve_stdio().await`, or [`Server::serve`] on any stream, for instance one end of
//! [`memory::pair`](crate::memory::pair).
//!
//! With the feature `http-server` also `server.serve_http(address).await`: Streamable HTTP, for clients
//! of every revision at one address. There the threads that read serve all clients, and all share
//! the threads for handlers.
//!
//! # Files
//!
//! | file | what happens there |
//! |---|---|
//! | `builder`, `registry`, `schema` | a server is put together; what it offers, and to whom |
//! | `tool`, `tools`, `prompt`, `resource`, `uri` | what handlers take and give, for each kind of offer |
//! | `layer` | what is done around calls of tools |
//! | `stdio`, `wire`, `http`, `http_settings` | where a client comes from |
//! | `connection` | one client: the machine, what is queued for it, the handlers at work for it |
//! | `driver` | the thread that reads a client and keeps the time |
//! | `dispatch`, `call` | from a method to its handler, and one request being handled |
//! | `executor`, `task`, `sync` | the threads that run handlers, and the futures they run |
//! | `ctx`, `ask`, `responder`, `failure` | what a handler can do: know its caller, ask, answer, fail |
//! | `pending_changes` | changes that a client is to be told of and does not take |
//! | `handle` | a running server, from outside |

mod ask;
mod builder;
mod call;
mod connection;
mod ctx;
mod dispatch;
mod driver;
mod executor;
mod failure;
mod handle;
#[cfg(feature = "http-server")]
mod http;
#[cfg(feature = "tower")]
mod http_service;
#[cfg(feature = "http-server")]
mod http_settings;
mod layer;
mod pending_changes;
mod prompt;
mod registry;
mod resource;
mod responder;
mod schema;
pub(crate) mod stdio;
mod sync;
mod task;
mod tool;
mod tools;
mod uri;
mod wire;

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::io;
use std::sync::Arc;
use std::{fmt, mem};

use bytes::Bytes;
use outlive_core::server::{Input, ServerPolicy};
use serde::Serialize;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::runtime::{Handle, Runtime};
use tokio::sync::oneshot;

#[cfg(feature = "http-server")]
pub use crate::http_server::User;
pub use ask::{AskError, Unanswered};
pub use builder::{BuildError, Builder};
pub use ctx::{Ctx, Elicited};
pub use failure::ToolError;
pub use handle::ServerHandle;
#[cfg(feature = "http-server")]
pub use http::{FilesError, Http, HttpServer};
#[cfg(feature = "tower")]
pub use http_service::{HttpBody, HttpService};
pub use layer::Next;
#[cfg(feature = "http-server")]
pub use outlive_core::principal::Principal;
pub use outlive_core::protocol::Era;
pub use outlive_core::server::{CancelReason, Peer};
pub use prompt::{IntoCompletion, IntoPromptResult};
pub use resource::{IntoReadResult, ResourceUri};
pub use responder::Responder;
pub use tool::{IntoToolResult, Json, ToolResult};
pub use tools::Tools;

use crate::model::{ListCapability, Object, ResourcesCapability, ServerCapabilities};

use connection::Connection;
use executor::Executor;
use registry::{Registry, Tables};
use wire::Ends;

/// An MCP server: what it offers, ready to be served. Cheap to clone.
///
/// It can serve any number of clients, one after the other or at once. Each has a thread that reads
/// it, and threads for its handlers: two, or as many as there are processors, and one more whenever
/// work has waited for some milliseconds because all of them were busy or blocked, up to twice
/// [`Builder::concurrency`]. Handlers are inside the tokio runtime that [`serve`](Server::serve) was
/// called in, whatever its kind; so timers, sockets and `tokio::spawn` work in them.
#[derive(Clone)]
pub struct Server {
    registry: Arc<Registry>,
}

impl Server {
    /// Whether the other is a handle of the same server.
    #[cfg(feature = "gateway")]
    pub(crate) fn is_same(&self, other: &Server) -> bool {
        Arc::ptr_eq(&self.registry, &other.registry)
    }

    /// A server of this name and version, to be put together.
    pub fn builder(name: impl Into<String>, version: impl Into<String>) -> Builder {
        Builder::new(name.into(), version.into())
    }

    /// A handle to change what is offered while it is served.
    pub fn handle(&self) -> ServerHandle {
        ServerHandle::of(&self.registry)
    }

    /// Serves the client at the other end of this process's standard streams, until it leaves or
    /// the server is [shut down](ServerHandle::shutdown).
    ///
    /// Both streams are moved aside first, for good: `print!` goes to standard error from now on,
    /// and child processes cannot touch the protocol. However the client ends the connection, this
    /// returns `Ok`; an error means that the streams could not be taken. It can be called once in a
    /// process.
    ///
    /// Dropping the future shuts the server down.
    ///
    /// ```no_run
    /// use outlive::server::Server;
    ///
    /// #[tokio::main]
    /// async fn main() -> std::io::Result<()> {
    ///     let server = Server::builder("demo", "1.0.0")
    ///         .tool("ping", "Returns pong.", |_, (): ()| async { "pong" })
    ///         .build();
    ///     server.serve_stdio().await
    /// }
    /// ```
    pub async fn serve_stdio(&self) -> io::Result<()> {
        let guarded = stdio::Guarded::take()?;
        self.serve_on(move || Ok(wire::of_host(guarded.host()?)))
            .await
    }

    /// [`serve_stdio`](Server::serve_stdio) for a program without a runtime: handlers get one.
    pub fn run_stdio(&self) -> io::Result<()> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        let served = runtime.block_on(self.serve_stdio());
        // Tasks of the user's may be blocked; nobody waits for them any more.
        runtime.shutdown_background();
        served
    }

    /// Serves the client at the other end of a stream, until it leaves or the server is
    /// [shut down](ServerHandle::shutdown). Dropping the future shuts it down.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() {
    /// let server = outlive::server::Server::builder("demo", "1.0.0").build();
    /// let (client, end) = outlive::memory::pair();
    /// let serving = tokio::spawn(async move { server.serve(end).await });
    /// drop(client); // the client leaves
    /// serving.await.unwrap().unwrap();
    /// # }
    /// ```
    pub async fn serve<S>(&self, stream: S) -> io::Result<()>
    where
        S: AsyncRead + AsyncWrite + Send + 'static,
    {
        self.serve_on(move || Ok(wire::of_stream(stream))).await
    }

    async fn serve_on(
        &self,
        ends: impl FnOnce() -> io::Result<Ends> + Send + 'static,
    ) -> io::Result<()> {
        let inside = Inside::new()?;
        let executor = Executor::new(inside.handle(), self.registry.policy.concurrency * 2);
        let registry = self.registry.clone();
        let open: driver::Open = Box::new(move || {
            let (reader, writer) = ends()?;
            let policy = policy(&registry);
            let sink = Box::new(wire::Pipe::new(writer));
            let connection = Connection::new(policy, key(), registry, sink, executor);
            // Before it is read: a client that has been answered hears of every change.
            connection.registry.join(&connection);
            Ok((reader, connection))
        });
        let (opened, is_open) = oneshot::channel();
        let (ended, has_ended) = oneshot::channel();
        driver::start(open, opened, ended)?;
        let Ok(connection) = is_open.await else {
            return Err(io::Error::other("the thread of the connection has failed"));
        };
        let _serving = Serving(connection?);
        // A thread that fails has ended as well.
        let _ = has_ended.await;
        Ok(())
    }
}

impl fmt::Debug for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Server").finish_non_exhaustive()
    }
}

/// A connection that is served; dropped early, it is shut down.
struct Serving(Arc<Connection>);

impl Drop for Serving {
    fn drop(&mut self) {
        self.0.registry.leave(&self.0);
        self.0.feed(Input::Shutdown);
    }
}

/// The runtime handlers are in: the caller's, or one of our own.
enum Inside {
    Caller(Handle),
    Own(Option<Runtime>),
}

impl Inside {
    fn new() -> io::Result<Inside> {
        if let Ok(handle) = Handle::try_current() {
            return Ok(Inside::Caller(handle));
        }
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .thread_name("outlive-timers")
            .enable_all()
            .build()?;
        Ok(Inside::Own(Some(runtime)))
    }

    fn handle(&self) -> Handle {
        match self {
            Inside::Caller(handle) => handle.clone(),
            Inside::Own(Some(runtime)) => runtime.handle().clone(),
            Inside::Own(None) => unreachable!("taken only when dropped"),
        }
    }
}

impl Drop for Inside {
    fn drop(&mut self) {
        if let Inside::Own(runtime) = self
            && let Some(runtime) = mem::take(runtime)
        {
            runtime.shutdown_background();
        }
    }
}

/// The settings for a new connection: with what is offered now.
fn policy(registry: &Registry) -> ServerPolicy {
    let tables = registry.tables();
    let offers = Offers::of(registry, &tables);
    let mut methods: BTreeSet<Cow<'static, str>> = BTreeSet::new();
    if offers.tools {
        methods.extend(["tools/list", "tools/call"].map(Cow::from));
    }
    if offers.resources {
        let of_resources = [
            "resources/list",
            "resources/templates/list",
            "resources/read",
        ];
        methods.extend(of_resources.map(Cow::from));
    }
    if offers.prompts {
        methods.extend(["prompts/list", "prompts/get"].map(Cow::from));
    }
    if tables.completion.is_some() {
        methods.insert("completion/complete".into());
    }
    methods.extend(tables.methods.keys().cloned().map(Cow::from));
    ServerPolicy {
        capabilities: definition(&offers.capabilities(&tables)),
        methods,
        ..registry.policy.clone()
    }
}

/// Which kinds of things there are, or may come to be.
struct Offers {
    tools: bool,
    resources: bool,
    prompts: bool,
}

impl Offers {
    fn of(registry: &Registry, tables: &Tables) -> Offers {
        let declared = registry.declared;
        Offers {
            tools: declared.tools || !tables.tools.is_empty(),
            resources: declared.resources
                || !tables.resources.is_empty()
                || !tables.templates.is_empty(),
            prompts: declared.prompts || !tables.prompts.is_empty(),
        }
    }

    fn capabilities(&self, tables: &Tables) -> ServerCapabilities {
        let changing = |offered: bool| offered.then(ListCapability::telling_changes);
        let subscribed = || ResourcesCapability {
            subscribe: Some(true),
            list_changed: Some(true),
            ..ResourcesCapability::default()
        };
        ServerCapabilities {
            tools: changing(self.tools),
            prompts: changing(self.prompts),
            resources: self.resources.then(subscribed),
            completions: tables.completion.as_ref().map(|_| Object::new()),
            // Any handler may write log messages.
            logging: Some(Object::new()),
            ..ServerCapabilities::default()
        }
    }
}

/// A secret nobody can guess, from the operating system.
///
/// # Panics
///
/// If that has no randomness: with a key that can be guessed, clients could forge each other's states.
fn key() -> [u8; 16] {
    let mut key = [0; 16];
    getrandom::fill(&mut key).expect("the operating system has randomness");
    key
}

/// How something is listed: JSON. What cannot be written as JSON, which none of our types can be,
/// is `null`.
fn definition(of: &impl Serialize) -> Bytes {
    serde_json::to_vec(of).map_or(Bytes::from_static(b"null"), Bytes::from)
}
