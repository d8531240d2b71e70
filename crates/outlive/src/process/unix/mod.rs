//! Processes on Unix.
//!
//! | file | what it is |
//! |---|---|
//! | `server` | a server as the rest of the crate sees it |
//! | `os` | what the operating system does with processes: spawn, terminate, wait |
//! | `programs` | how a program is found, and why it is not |
//! | `tree`, `mark` | the processes below a server, and how they are recognised |
//! | `cleanup` | the thread that ends what servers leave behind |
//! | `orphan_reaper` | the process that ends them if outlive itself is killed |
//! | `signals` | signals to outlive |
//! | `native` | whether what only Linux has may be used |
//!
//! Linux tells more than other Unixes do. Where it does not, a server is known by its process group alone: what leaves
//! the group is not found. That way is taken on Linux, too, if [`native`] is told to, so that tests go it.

pub(crate) mod cleanup;
#[cfg(target_os = "linux")]
mod mark;
#[cfg(not(target_os = "linux"))]
#[path = "unmarked.rs"]
mod mark;
pub(crate) mod native;
pub(crate) mod orphan_reaper;
pub(crate) mod os;
pub(crate) mod programs;
pub(crate) mod server;
pub(crate) mod signals;
pub(crate) mod tree;
