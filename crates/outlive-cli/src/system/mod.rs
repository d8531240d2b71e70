//! What differs from one system to the next, for this program: `unix` and `windows` have the same items, and nobody
//! else knows which it is.
//!
//! | item | what it is |
//! |---|---|
//! | `runtime_folders`, `state_folders`, `cache_folder` | where users' files are |
//! | `private_folders`, `private_file`, `owner_problem` | files that are one user's alone |
//! | `lock`, `id`, `chown_like` | a file that only one process has; which file it is; whose it is |
//! | `Listener`, `Accepting`, `ask` | how an instance answers those who look at it |
//! | `parent`, `Parent`, `Process` | other processes: who started us, and how one is struck |
//! | `stopped`, `raise_limits` | what the system tells us, and what we ask of it |

#[cfg(unix)]
mod unix;
#[cfg(unix)]
pub use unix::*;

#[cfg(windows)]
mod windows;
#[cfg(windows)]
pub use windows::*;

use std::path::PathBuf;

/// The process that started this one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Parent {
    /// Its number.
    pub pid: u32,
    /// Its name and arguments, where the system tells them.
    pub words: Option<(String, Vec<String>)>,
}

/// A folder that a variable names.
fn variable(name: &str) -> Option<PathBuf> {
    let value = std::env::var_os(name).filter(|value| !value.is_empty());
    value.map(PathBuf::from)
}
