//! Who ends servers if this process is killed: the kernel, which closes our handles to their jobs.

use std::ffi::OsString;
use std::io;

/// Ends what servers have started if this process is killed. On Windows there is nothing to be started for that: the
/// kernel ends all processes in the job of a server when ours ends.
#[derive(Clone, Debug)]
pub struct OrphanReaper(());

impl OrphanReaper {
    /// Always there.
    pub fn start() -> io::Result<OrphanReaper> {
        Ok(OrphanReaper(()))
    }

    /// The variable that names this process to those that belong to it. It has no effect on Windows: put a process that
    /// must not stay behind into a job.
    pub fn variable(&self) -> (&'static str, OsString) {
        ("OUTLIVE_TREE", std::process::id().to_string().into())
    }
}
