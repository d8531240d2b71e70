//! The server library, from outside: a client that speaks raw lines, over an in-memory pair or to a
//! real process (`examples/everything.rs`).

mod answers;
mod asks;
mod brisk;
mod bytes;
mod close;
mod crowds;
mod descriptors;
mod exits;
mod lists;
mod logs;
mod offers;
mod process;
#[cfg(target_os = "linux")]
#[path = "../support/processor.rs"]
mod processor;
mod rig;
mod threads;
