//! For programs that use rmcp, the official Rust SDK: its clients survive their servers, and
//! its servers survive their clients.
//!
//! This is the cargo feature `rmcp`. It follows rmcp 3 (3.8 or later): the traits it implements are
//! rmcp's, so rmcp's major version is a part of ours, and rmcp has had three of them in five
//! months. That is one reason why it is optional; the other is that nothing else here needs rmcp.
//!
//! # A client
//!
//! One line changes, the one with the transport:
//!
//! ```no_run
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! use outlive::Command;
//! use outlive::rmcp::Supervised;
//! use rmcp::ServiceExt;
//!
//! // before: ().serve(TokioChildProcess::new(tokio::process::Command::new("uvx"))?).await?
//! let client = ().serve(Supervised::command(Command::new("uvx", ["mcp-server-time"]))).await?;
//! let tools = client.list_all_tools().await?; // however often the server dies from now on
//! # Ok(())
//! # }
//! ```
//!
//! Between rmcp and the server stands the same [session](outlive_core::Session) as in [`Client`](crate::Client) and
//! `outlive run`. When the server dies, the next one is started and told what the old one knew; calls
//! that cannot have run, or that may run twice, are sent to it; calls made meanwhile wait for it.
//! rmcp sees none of that: for it the transport never ends until the client is closed. Notifications,
//! the server's questions and progress pass as they are, each (de)serialised once, by rmcp's own types.
//!
//! # What a lost call looks like
//!
//! [`ServiceError::TransportSend`], with our [`Error`] inside; [`ErrorExt::outlive`] gets it out:
//!
//! ```no_run
//! # async fn example(client: rmcp::Peer<rmcp::RoleClient>) {
//! use outlive::Error;
//! use outlive::rmcp::ErrorExt;
//! use rmcp::model::CallToolRequestParams;
//!
//! if let Err(error) = client.call_tool(CallToolRequestParams::new("crash")).await {
//!     match error.outlive() {
//!         Some(Error::ConnectionLost { cause, outcome, .. }) => {
//!             println!("the server {}; the call: {outcome:?}", cause.predicate())
//!         }
//!         Some(other) => println!("not the server's answer: {other}"),
//!         None => println!("the server's answer, or rmcp's: {error}"),
//!     }
//! }
//! # }
//! ```
//!
//! An rmcp program that has a branch for failures of its transport has one for these already, and one for
//! the server's own errors ([`McpError`](::rmcp::ServiceError::McpError)) that they do not get into. The other way, a
//! JSON-RPC error of ours with the facts in `data`, is what a host behind `outlive run` gets; it would have to be told
//! from the server's by its code. That the call failed in `send` does not mean that it was not sent: [`Error::outcome`]
//! says what is known.
//!
//! A call that is dropped, or times out by rmcp's clock, is cancelled as ever: rmcp tells the server
//! through us, and the session sees to it that nothing follows.
//!
//! # How it stands
//!
//! rmcp has no word for a connection that is down and coming back (`is_closed()` is about the client). A
//! [`Handle`] taken from the transport has: [`state`](Handle::state), [`watch`](Handle::watch),
//! [`events`](Handle::events).
//!
//! # A server
//!
//! [`serve_stdio`] serves a `ServerHandler` (or a `Router`, or any other `Service`) behind a session
//! of its own, on standard streams that were moved aside:
//!
//! ```no_run
//! # struct Calculator;
//! # impl rmcp::ServerHandler for Calculator {}
//! #[tokio::main]
//! async fn main() -> std::io::Result<()> {
//!     // before: Calculator.serve(rmcp::transport::stdio()).await?.waiting().await?
//!     outlive::rmcp::serve_stdio(Calculator).await
//! }
//! ```
//!
//! - `print!` in a tool, or a child process that inherits the standard streams, cannot touch the protocol.
//! - Lines that are no message, invalid UTF-8, lines that are too long and ids that are still in use
//!   are answered where there is an id, and never end it. Neither does a handshake that rmcp
//!   breaks off: the next one is met by the same handler.
//! - Every request has exactly one answer, and none after it was cancelled.
//! - A handler that panics is answered for with −32603; rmcp alone leaves its caller waiting for ever.
//! - A client that leaves in the middle of a call is a reason to end with `Ok`: what was accepted has a
//!   second to finish, then handlers are cancelled.
//!
//! What it cannot do, since the handlers run in tasks of rmcp's: bound how many run at once, drop one that
//! ignores its cancellation before the runtime ends, or get another message to rmcp's loop while a handler
//! blocks the only thread of its runtime. [`Server`](crate::Server) does all three. And as behind `outlive run`, the
//! answer to `initialize` says of tools, prompts and resources that changes of their lists are told.
//!
//! # Files
//!
//! | file | what it is |
//! |---|---|
//! | `supervised`, `downstream` | a session as a transport of rmcp, and its side of the driver |
//! | `serve`, `handler` | an rmcp server on standard streams, as the server's side of a driver |
//! | `queue`, `codec` | messages between the tasks, and between bytes and rmcp's types |

mod codec;
mod downstream;
mod handler;
mod queue;
mod serve;
mod supervised;

use ::rmcp::ServiceError;
use ::rmcp::service::ClientInitializeError;

use crate::Error;

pub use serve::serve_stdio;
pub use supervised::{Handle, Supervised};

/// Gets our error out of one of rmcp's.
pub trait ErrorExt {
    /// Why the request failed, if it was not the server that said so, nor rmcp.
    fn outlive(&self) -> Option<&Error>;
}

impl ErrorExt for ServiceError {
    fn outlive(&self) -> Option<&Error> {
        match self {
            ServiceError::TransportSend(error) => error.error.downcast_ref(),
            _ => None,
        }
    }
}

impl ErrorExt for ClientInitializeError {
    fn outlive(&self) -> Option<&Error> {
        match self {
            ClientInitializeError::TransportError { error, .. } => error.error.downcast_ref(),
            ClientInitializeError::LegacyFallbackFailed { fallback, .. } => fallback.outlive(),
            _ => None,
        }
    }
}
