//! Fault injection for MCP servers, clients and proxies.
//!
//! # Theory
//!
//! A conformance suite asks whether a program says the right things. This one asks what is left of
//! it when the other side does the wrong ones: dies, hangs, babbles, cancels at the worst moment,
//! stops reading, leaves. It plays that other side itself, on real pipes and sockets, with a real
//! process under test, and says what it saw.
//!
//! - A [`Scenario`] is one accident and one sentence about what must hold then, with the number of
//!   the failure mode it stems from and the clause of the specification, if there is one. What the
//!   specification demands ([`Level::Must`]), what it recommends ([`Level::Should`]) and what only
//!   experience does ([`Level::Advice`]) are kept apart.
//! - It runs on a [`Stage`], which starts the program under test and hands out the other side: for a
//!   server a [`Host`] that can do anything a host should not, for a client a server ([on pipes](puppet), [over
//!   HTTP](site)) that can do anything a server should not.
//! - It ends with a [`Verdict`]: held, broken, or not applicable, and always ends: a hang is a
//!   verdict, not a hang of the check.
//! - Everything on the wire is written into a [`Journal`], so that a verdict comes with its
//!   [`Evidence`].
//!
//! Random moments are drawn from a seed, mixed with the scenario's name: the same seed gives the same
//! moments, whichever other scenarios run.
//!
//! # How a scenario is written
//!
//! ```ignore
//! Scenario::new(Subject::Server, "cancel-twice", |stage| Box::pin(twice(stage)))
//!     .says("A call cancelled twice does no more harm than a call cancelled once.")
//!     .must("2025-11-25 basic/utilities/cancellation: Timing Considerations")
//!     .fm(&[19]),
//!
//! async fn twice(stage: &mut Stage) -> Held {
//!     let mut host = stage.ready().await?;
//!     let call = host.call(&stage.busy()?).await;
//!     host.cancel(&call).await;
//!     host.cancel(&call).await;
//!     host.serves("after two cancellations of one call").await
//! }
//! ```

mod arguments;
mod cast;
pub mod client;
mod host;
mod inbox;
mod journal;
mod lines;
mod measure;
mod pipes;
mod process;
pub mod proxy;
pub mod puppet;
mod race;
mod random;
mod report;
mod runner;
mod scenario;
pub mod server;
pub mod sheet;
pub mod site;
mod stage;
mod survey;
mod system;
mod tool;
mod verdict;
mod web;

pub use cast::Cast;
pub use host::{Host, Id};
pub use journal::{Direction, Entry, Evidence, Journal, Leg};
pub use outlive_core::protocol::Era;
pub use process::{also_set, also_unset};
pub use random::Random;
pub use report::{Report, Trial};
pub use runner::{Moment, Plan, run};
pub use scenario::{Level, Over, Play, Scenario, Subject, select};
pub use stage::{Options, Stage};
pub use survey::{ServerUnderTest, Survey, Target};
pub use tool::ToolCall;
pub use verdict::{Finding, Held, Verdict};

/// "1 scenario", "2 scenarios".
pub fn counted(count: usize, noun: &str) -> String {
    let plural = if count == 1 { "" } else { "s" };
    format!("{count} {noun}{plural}")
}

/// Every scenario there is, in the order in which they are listed and run.
pub fn scenarios() -> impl Iterator<Item = &'static Scenario> {
    let clients = client::scenarios().chain(proxy::scenarios());
    server::scenarios().chain(clients)
}
