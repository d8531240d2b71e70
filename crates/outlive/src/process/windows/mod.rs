//! Processes on Windows.
//!
//! A server is started inside a job, and so is everything it starts: nothing leaves it. Ending the job ends all of
//! them, and the kernel does the same when the last handle to the job is closed, which is ours: also when this process
//! is ended by `TerminateProcess`.
//!
//! | file | what it is |
//! |---|---|
//! | `server` | a server as the rest of the crate sees it |
//! | `job` | the job it runs in |
//! | `programs` | how a program is found, and why it is not |
//! | `cleanup` | the thread that waits for the end of jobs |
//! | `orphan_reaper` | who ends servers if outlive itself is killed: the kernel |
//! | `signals` | what the console tells outlive |

mod cleanup;
mod job;
pub(crate) mod orphan_reaper;
pub(crate) mod programs;
pub(crate) mod server;
pub(crate) mod signals;

pub(crate) use server::keep_streams_to_ourselves;
