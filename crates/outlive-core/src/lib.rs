//! The lifecycle rules of an MCP session that outlives its servers.
//!
//! This crate has no I/O, no clock, no threads and no randomness of its own. A [`Session`] is a
//! state machine: a driver feeds it what happened and the time it happened at, and does what it
//! says. Because there is one owner and nothing ever waits inside, the races that kill other
//! implementations cannot be written down here; because time is an argument, millions of fault
//! schedules run in seconds.
//!
//! # The one contract
//!
//! After every [`Session::handle`], call [`Session::poll`] until it returns `None` and carry out
//! each [`Output`] in that order; then wait for the next input, but no longer than
//! [`Session::deadline`], and report [`Input::Tick`] when that moment comes.
//!
//! # What is where
//!
//! Ten machines, all driven in that way or by calls that are given the time:
//!
//! | module | what it decides |
//! |---|---|
//! | [`session`] | what a host is owed, whatever happens to its servers; with `ledger`, `memory`, `catalog`, `supervisor` |
//! | [`server`] | what a server owes its client |
//! | [`switch`] | how several clients are one host |
//! | [`router`] | how many servers are one |
//! | [`gateway`] | when servers are started and stopped, and who uses them |
//! | [`tenure`] | which process owns a session, and until when |
//! | [`revival`] | how a session goes on in another process |
//! | [`login`] | who waits for a token of a server, when it is refreshed, when a person is asked to log in |
//! | [`verifier`] | whether a token of an identity provider can be checked, when its keys are read, what is remembered |
//! | [`http_upstream`] | which HTTP request is made when; with [`dispatch`], the order of sending, and [`reconnect`] |
//!
//! Tables and buffers, which are told the time too where it matters:
//!
//! | module | what it keeps |
//! |---|---|
//! | [`session_table`] | the sessions of a listener |
//! | [`replay_buffer`] | what is sent to clients over HTTP, until it is read |
//! | [`session_record`] | what a successor must know of a client's session |
//! | [`byte_budget`] | how much of unfinished messages is in memory |
//! | [`framer`] | the line that has not come whole |
//! | [`meter`] | counts |
//! | `search`, with the feature of that name | the words of many tools, to find those that fit a task |
//! | [`history`] | what happened lately, in slots of time |
//!
//! Data:
//!
//! | module | what it is |
//! |---|---|
//! | [`message`], [`frame`], [`sse`] | what peers write, and how events carry it |
//! | [`protocol`] | what the specifications say |
//! | [`roster`] | what many servers offer, shown as one |
//! | [`link`] | what passes between a session and its links |
//! | [`cause`], [`mod@error`] | why a link ended, why a request failed |
//! | [`event`], [`request`] | what is told about a session, and about each request |
//! | [`policy`], [`principal`], [`time`] | the settings, who a client is, and the time |
#![forbid(unsafe_code)]

mod bounded;
pub mod byte_budget;
mod catalog;
pub mod cause;
pub mod dispatch;
pub mod error;
pub mod event;
mod fingerprint;
pub mod frame;
pub mod framer;
pub mod gateway;
pub mod history;
pub mod http_upstream;
mod label;
mod ledger;
pub mod link;
pub mod login;
mod memory;
pub mod message;
pub mod meter;
pub mod policy;
pub mod principal;
pub mod protocol;
pub mod reconnect;
mod replacement;
pub mod replay_buffer;
pub mod request;
pub mod revival;
mod rng;
pub mod roster;
pub mod router;
#[cfg(feature = "search")]
pub mod search;
pub mod server;
pub mod session;
pub mod session_record;
pub mod session_table;
pub mod snapshot;
pub mod sse;
mod supervisor;
pub mod switch;
pub mod tenure;
pub mod time;
pub mod verifier;
mod words;

pub use cause::Cause;
pub use error::Error;
pub use event::{Event, State};
pub use frame::Frame;
pub use framer::Framer;
pub use link::{Generation, LinkInput, LinkOrder};
pub use message::{Id, Message};
pub use meter::Meter;
pub use policy::Policy;
pub use session::{AbandonReason, Input, Output, Session};
pub use snapshot::Snapshot;
pub use time::Time;
