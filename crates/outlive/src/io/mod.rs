//! Bytes in and out of this process, without blocking.
//!
//! | file | what it is |
//! |---|---|
//! | `stream` | one direction of a pipe or socket |
//! | `outbox` | frames that wait to be written |
//! | `host` | standard input and output of this process |
//! | `standard` | how those are taken from the system |
//! | `files` | files that only their user can read, and what can be told of one without reading it |
//! | `peer` | what the system is told about a connection over TCP |
//! | `lines` | bytes cut into lines |
//! | `spin` | whether to look for messages a little longer before sleeping |
//!
//! `files`, `peer`, `standard` and `stream` are there twice, in `unix` and in `windows`, with the same items: nobody
//! else knows which it is.

pub(crate) mod host;
pub(crate) mod lines;
pub(crate) mod outbox;
pub(crate) mod spin;

#[cfg(unix)]
mod unix;
#[cfg(unix)]
pub(crate) use unix::*;

#[cfg(windows)]
mod windows;
#[cfg(windows)]
pub(crate) use windows::*;
