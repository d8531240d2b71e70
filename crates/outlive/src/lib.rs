//! MCP sessions that outlive their servers.
//!
//! A host holds tool handles for hours; the servers under them crash, hang, restart and get cancelled
//! at the worst moment. With this crate a death fails only the calls that were running, each with an error
//! that says why, and a server cannot be crashed by what its clients do.
//!
//! # Theory
//!
//! All rules about life and death are in [`outlive_core`], as state machines without I/O, clock or
//! threads. This crate moves the bytes between them and the world, and decides nothing.
//!
//! - A *session* is what a host holds. It lives until the host leaves.
//! - A *link* is one live connection to a server. It dies, and the next one has the next *generation*.
//! - Every request is in one table, the *ledger*, and leaves it once: that is why it is answered once.
//! - What is known about the execution of a request is its [*outcome*](error::Outcome). When a link dies, a request
//!   that was not sent, or may run twice, is sent on the next link; any other fails with the [cause](Cause).
//! - There is one [state](client::State), and it changes before anybody can notice the change otherwise.
//!
//! # A client that survives
//!
//! Beside this crate the examples need `tokio` (1, with `macros` and a runtime), `serde` (1, with `derive`) and
//! `serde_json` (1).
//!
//! ```no_run
//! use outlive::{Client, Command, Error};
//! use serde_json::json;
//!
//! #[tokio::main]
//! async fn main() -> Result<(), Error> {
//!     let client = Client::builder()
//!         .command(Command::new("uvx", ["mcp-server-time"]))
//!         .connect()
//!         .await?;
//!     let tools = client.tools().await?;
//!
//!     match client.call("crash", json!({})).await {
//!         // A tool that fails says so in its result.
//!         Ok(result) if result.is_error() => eprintln!("it failed: {}", result.text()),
//!         Ok(result) => println!("{}", result.text()),
//!         // The server died over it: with what, and may it have taken effect?
//!         Err(Error::ConnectionLost { cause, outcome, .. }) => {
//!             eprintln!("the server {}; {outcome:?}", cause.predicate());
//!         }
//!         Err(error) => eprintln!("{error}"),
//!     }
//!
//!     // The same handles work with the next server.
//!     for tool in &tools {
//!         println!("{}: {}", tool.name, tool.call(json!({})).await?.text());
//!     }
//!     Ok(())
//! }
//! ```
//!
//! Dropping the future of a call is the caller's cancellation; the server is told once. No failure looks
//! like it. [`client`] has the rest: state, events, progress, timeouts, questions of the server's.
//!
//! Arguments are anything that serializes, and the data of a result is read as a type with
//! [`structured_as`](model::CallResult::structured_as). [`connect_timeout`](client::Builder::connect_timeout) bounds
//! the first start, which may take five minutes otherwise.
//!
//! # A server that cannot be crashed
//!
#![cfg_attr(
    feature = "server",
    doc = r#"
```no_run
use outlive::Server;
use schemars::JsonSchema; // 1, the one this crate uses: see `outlive::schemars`
use serde::Deserialize;

#[derive(Deserialize, JsonSchema)]
struct Greet {
    /// Who is greeted.
    name: String,
}

#[tokio::main]
async fn main() -> std::io::Result<()> {
    Server::builder("greeter", "1.0.0")
        .tool("greet", "Greets somebody.", |_ctx, args: Greet| async move {
            format!("Hello, {}!", args.name)
        })
        .build()
        .serve_stdio()
        .await
}
```
"#
)]
//!
#![cfg_attr(
    feature = "macros",
    doc = r#"
Several tools of one type, as those who come from `rmcp` know them. The functions stay functions, their doc comments
are what the model reads, and what they share is `self`:

```
use std::sync::Mutex;

use outlive::Server;
use outlive::server::{Ctx, Json, ToolError};

#[derive(Default)]
struct Notes(Mutex<Vec<String>>);

#[outlive::tools]
impl Notes {
    /// Keeps a note.
    #[outlive::tool]
    async fn add(
        &self,
        /// What it says.
        text: String,
    ) -> Result<String, ToolError> {
        let mut notes = self.0.lock().map_err(|_| ToolError::new("They are lost."))?;
        notes.push(text);
        Ok(format!("There are {} now.", notes.len()))
    }

    /// Finds notes.
    #[outlive::tool(read_only)]
    async fn find(&self, ctx: &Ctx, word: String, most: Option<usize>) -> Json<Vec<String>> {
        ctx.progress(0.0, None);
        let notes = self.0.lock().unwrap();
        let found = notes.iter().filter(|it| it.contains(&word));
        Json(found.take(most.unwrap_or(100)).cloned().collect())
    }
}

let server = Server::builder("notes", "1.0.0").tools(Notes::default()).build();
# let _ = server;
```

[`tools`] says what becomes of a signature. What the macro writes is a struct of the parameters, with the derives of
`serde` and `schemars`, and `Builder::tool_with` for each function; [`server::Tools`] can be implemented by hand, too.
A function that cannot be a tool does not compile:

```compile_fail
# struct Notes(Vec<String>);
#[outlive::tools]
impl Notes {
    #[outlive::tool]
    async fn add(&mut self, text: String) {} // calls run at the same time: a tool takes `&self`
}
```

```compile_fail
# struct Notes(Vec<String>);
#[outlive::tools]
impl Notes {
    #[outlive::tool]
    async fn count(&self) -> usize { 0 } // a tool cannot return `usize`
}
```
"#
)]
//!
//! What other tools share is given to `Builder::state` and had from `Ctx::state`; `Ctx::elicit_as` asks the person for
//! a type; `Client::builder().server(&server)` connects to a server in the same process, for tests.
//!
//! A request is answered exactly once, by type; a client that leaves, cancels or talks nonsense harms nobody;
//! neither does a handler that panics, blocks its thread or prints. See `outlive::server`.
//!
//! # Coming from `rmcp`
//!
//! A program that is to stay with `rmcp` changes one line: see the feature `rmcp`. For one that moves:
//!
//! | with `rmcp` | here |
//! |---|---|
//! | `#[tool_router] impl`, `#[tool_handler]`, a field `ToolRouter<Self>` | `#[outlive::tools] impl`, then `Builder::tools` |
//! | `Parameters(args): Parameters<Args>` | parameters of the function, with their doc comments |
//! | `Arc<Mutex<…>>` in the handler's struct, which is cloned | `&self`, which is shared; or `Builder::state`, `Ctx::state` |
//! | `Result<CallToolResult, McpError>` | text, `Json<T>`, or a `Result` of them with `ToolError`, which the model reads |
//! | `RequestContext`: `ct.cancelled()`, `peer.notify_progress(…)` | `Ctx::cancelled`, `Ctx::progress` |
//! | `peer.elicit::<T>(…)`, `peer.create_message(…)`, `peer.list_roots()` | `Ctx::elicit_as`, `Ctx::sample`, `Ctx::roots` |
//! | `context.extensions.get::<http::request::Parts>()` | `Ctx::headers`, `Ctx::extension`, `Ctx::principal` |
//! | `serve(stdio()).await?.waiting().await?` | `serve_stdio().await?` |
//! | `StreamableHttpService::new(…)`, `nest_service` | `server.http().service()?`, `nest_service`; or `serve_http(address)` |
//! | `serve(TokioChildProcess::new(…)?)` | `Client::builder().command(…).connect()` |
//! | `serve(StreamableHttpClientTransport::from_uri(…))` | `Client::builder().url(…).connect()` |
//! | `client.call_tool(CallToolRequestParams::new(…))` | `client.call(name, arguments)` |
//! | `ServiceError::TransportClosed`: connect again, begin anew | nothing: the next call works |
//! | `tokio::io::duplex` in tests | `Client::builder().server(&server)` |
//!
#![cfg_attr(
    feature = "macros",
    doc = r#"
```
use std::sync::atomic::{AtomicU64, Ordering};

use outlive::server::{Ctx, Json, ToolError};
use outlive::{Client, Server};
use serde_json::json;

#[derive(Default)]
struct Counter(AtomicU64);

#[outlive::tools]
impl Counter {
    /// Adds to the counter, and says how far it has got.
    #[outlive::tool]
    async fn add(
        &self,
        ctx: &Ctx,
        /// At least 1.
        by: u64,
    ) -> Result<Json<u64>, ToolError> {
        if by == 0 {
            return Err(ToolError::new("`by` is 0, and nothing would change."));
        }
        ctx.progress(1.0, Some(1.0));
        Ok(Json(self.0.fetch_add(by, Ordering::Relaxed) + by))
    }
}

# #[tokio::main(flavor = "current_thread")]
# async fn main() -> Result<(), Box<dyn std::error::Error>> {
let server = Server::builder("counter", "1.0.0").tools(Counter::default()).build();
// As a test would have it, without a process or a port.
let client = Client::builder().server(&server).connect().await?;
let sum: u64 = client.call("add", json!({ "by": 2 })).await?.structured_as()?;
assert_eq!(sum, 2);
let refused = client.call("add", json!({ "by": 0 })).await?;
assert!(refused.is_error() && refused.text().contains("nothing would change"));
# Ok(())
# }
```
"#
)]
//!
//! # Errors
//!
//! One enum, [`Error`], with the same kinds on the wire, in logs and in metrics:
//!
//! | variant | `kind()` | what happened | sent again? |
//! |---|---|---|---|
//! | [`ConnectionLost`](Error::ConnectionLost) | `connection_lost` | the link died while the request was in flight | if it was not sent, or it is safe |
//! | [`Unavailable`](Error::Unavailable), [`Overloaded`](Error::Overloaded) | `unavailable` | no server came for as long as a request is held, or too many wait | you can |
//! | [`Timeout`](Error::Timeout) | `timeout` | it took longer than its bound and was cancelled | it may have run |
//! | [`CancelledByCaller`](Error::CancelledByCaller) | `cancelled_by_caller` | a [`Canceller`](client::Canceller) of yours was used | it may have run |
//! | [`CancelledByPeer`](Error::CancelledByPeer) | `cancelled_by_peer` | the other side gave it up | it may have run |
//! | [`ShuttingDown`](Error::ShuttingDown) | `shutting_down` | the client is closing, or the server says that it shuts down | no |
//! | [`SessionExpired`](Error::SessionExpired) | `session_expired` | a remote server has forgotten the session | you can |
//! | [`Rejected`](Error::Rejected) | `rejected` | a remote server refused it unexecuted | you can |
//! | [`TooLarge`](Error::TooLarge) | `too_large` | a message is longer than the limit | no |
//! | [`TokenWithdrawn`](Error::TokenWithdrawn) | `token_withdrawn` | a token of a gateway's client is no longer good | it may have run |
//! | [`Protocol`](Error::Protocol) | `protocol` | a message breaks the protocol or its type | no |
//! | [`Unsupported`](Error::Unsupported) | `unsupported` | the server does not take `server/discover` | no |
//! | [`HandlerFailed`](Error::HandlerFailed) | `handler_failed` | the server asked this client something, and its handler failed | it may have run |
//! | [`Misconfigured`](Error::Misconfigured) | `misconfigured` | the client cannot be set up: its address is none | no |
//! | [`Remote`](Error::Remote) | `remote` | the server answered with an error of its own | as it says |
//!
//! [`Error::outcome`] says whether the request may have been executed, [`Error::is_retryable`] whether sending
//! it again may succeed and cannot do harm.
//!
//! # Cargo features
//!
//! | feature | what it adds | on by itself |
//! |---|---|---|
//! | `server` | [`server`](#a-server-that-cannot-be-crashed) | yes |
//! | `macros` | `#[outlive::tools]`, `#[outlive::tool]` | yes |
//! | `http` | servers over HTTP: `Remote`, and with it TLS | no |
//! | `oauth` | logins at servers over HTTP that want one: `oauth` | no |
//! | `http-server` | `Server::serve_http` | no |
//! | `tracing` | what happens to sessions, requests and servers, as [events of `tracing`](#tracing) | with `server` |
//! | `tower` | `Http::service`, for `axum` and any other stack of `tower` | no |
//! | `tls` | `Http::tls` | no |
//! | `gateway` | `Gateway` | no |
//! | `store` | `FileStore`: sessions over HTTP that outlive the process | no |
//! | `rmcp` | the adapter for `rmcp` | no |
//!
//! A client of child processes needs none of them.
//!
//! # Tracing
//!
//! With the feature `tracing` a program's subscriber is told what happens. Nothing is written without one, and then it
//! costs nothing.
//!
//! | target | what | levels |
//! |---|---|---|
//! | `outlive::session` | sessions of clients, gateways and [`run`](run()): `event`, `generation`, `cause`, `method`, `kind` | `warn` if something is lost or refused, `info`, `debug` |
//! | `outlive::request` | calls of a [`Client`], if `debug` is wanted when it connects: `step`, `number`, `method`, `ending`, `took_us` | `debug` how each ended, `trace` each step |
//! | `outlive::server` | servers: panics, late answers, dropped lines, refused requests | `warn`, `debug` |
//!
//! # What is where
//!
//! | module | what it is |
//! |---|---|
//! | [`client`] | a host inside this process |
//! | `server` | a server inside this process, over standard streams, any stream, or HTTP (feature `http-server`) |
//! | `gateway` | what `outlive serve` does: any server behind HTTP, under supervision (feature `gateway`) |
//! | [`model`] | the words of MCP as types |
//! | `store` | where sessions over HTTP are kept, so that they outlive the process (feature `http-server`) |
//! | `rmcp` | for programs that use the official Rust SDK (cargo feature `rmcp`) |
//! | [`memory`] | two ends of a stream within this process |
//! | [`run`](run()) | what `outlive run` does: a session between standard streams and a command |
//! | [`policy`] | every setting, with its default |
//! | [`Command`], [`Connector`], `Remote` | where a server is found |
//!
//! Inside: `driver` is the loop between a session and its two sides, `process` and `http_client` are the server's side,
//! `http_server` the client's, `io` moves bytes.
#![deny(unsafe_code)]

pub mod client;
mod driver;
#[cfg(feature = "gateway")]
pub mod gateway;
#[cfg(feature = "http")]
mod http_client;
#[cfg(feature = "http-server")]
mod http_server;
mod io;
pub mod memory;
pub mod model;
#[cfg(feature = "oauth")]
pub mod oauth;
mod observer;
mod process;
#[cfg(feature = "rmcp")]
pub mod rmcp;
mod run;
mod secrets;
#[cfg(feature = "server")]
pub mod server;
#[cfg(feature = "http-server")]
pub mod store;
#[cfg(feature = "tracing")]
mod trace;

pub use client::Client;
pub use driver::address::{Address, Connect, Guarded};
pub use driver::connector::Connector;
#[cfg(feature = "gateway")]
pub use gateway::Gateway;
#[cfg(feature = "http")]
pub use http_client::{Challenge, Credentials, Remote, RemoteError, Transport};
pub use observer::Observer;
pub use outlive_core::{
    Cause, Error, Generation, Id, Policy, Snapshot, Time, cause, error, event, policy, protocol,
    request, session::Load, snapshot,
};
#[cfg(feature = "macros")]
pub use outlive_macros::{tool, tools};
pub use process::command::Command;
#[cfg(feature = "http")]
pub use run::run_remote;
pub use run::{Ended, Run, run};
// What public signatures name, so that one dependency will do.
/// The headers of requests are its.
#[cfg(feature = "http-server")]
#[doc(no_inline)]
pub use hyper::http;
pub use process::orphan_reaper::OrphanReaper;
/// Where the schemas of tools come from.
#[cfg(feature = "server")]
pub use schemars;
pub use secrets::Secrets;
#[cfg(feature = "server")]
pub use server::Server;
#[doc(no_inline)]
pub use {bytes, futures_core, serde, serde_json};
