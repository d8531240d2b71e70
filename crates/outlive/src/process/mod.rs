//! Servers that are child processes.
//!
//! # Theory
//!
//! A server is more than its process: it starts others, and all of them end with it, whoever of us dies first.
//! Nothing here blocks the driver: a server is started on one thread and ended on another.
//!
//! | file | what it is |
//! |---|---|
//! | `command` | the command that starts a server |
//! | `children`, `child` | child processes as the upstream of a driver, and one link to such a process |
//! | `starter` | the threads that start servers |
//!
//! What the system does is in `unix` and in `windows`, which have the same items; nobody else knows which it is:
//!
//! | item | what it is |
//! |---|---|
//! | `server::launch`, `server::Server` | starts a server as the root of a tree; watches it, asks it to end, ends its tree |
//! | `server::Pipes` | its three streams |
//! | `server::Exits` | tells that one of them may have ended |
//! | `server::own_orphans`, `server::tidy` | what servers leave behind in a process that is all ours |
//! | `orphan_reaper::OrphanReaper` | who ends them if this process is killed |
//! | `signals::Signals` | what a user tells this process |
//! | `programs` | how a program is found, and why it is not |

pub(crate) mod child;
pub(crate) mod children;
pub(crate) mod command;
pub(crate) mod starter;

#[cfg(unix)]
mod unix;
#[cfg(unix)]
pub(crate) use unix::*;

#[cfg(windows)]
mod windows;
#[cfg(windows)]
pub(crate) use windows::*;
