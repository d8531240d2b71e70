//! What differs from one system to the next, for this crate: `unix` and `windows` have the same items, and nobody else
//! knows which it is.
//!
//! | item | what it is |
//! |---|---|
//! | `Group` | a process under test with what it has started |
//! | `kill` | ends one process |
//! | `ending` | how a process ended, in words |
//! | `shrink` | makes a pipe as small as it gets |
//! | `Deafness` | a process that does not end when it is asked to |
//! | `ticks_per_second` | how the system counts time that was computed |

#[cfg(unix)]
mod unix;
#[cfg(unix)]
pub use unix::*;

#[cfg(windows)]
mod windows;
#[cfg(windows)]
pub use windows::*;
