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
//! | `os` | what the operating system does with processes: spawn, terminate, wait |
//! | `tree`, `mark` | the processes below a server, and how they are recognised |
//! | `cleanup` | the thread that ends what servers leave behind |
//! | `orphan_reaper` | the process that ends them if outlive itself is killed |
//! | `signals` | signals to outlive |

pub(crate) mod child;
pub(crate) mod children;
pub(crate) mod cleanup;
pub(crate) mod command;
mod mark;
pub(crate) mod orphan_reaper;
pub(crate) mod os;
pub(crate) mod signals;

pub(crate) mod starter;
pub(crate) mod tree;
