//! Bytes on Windows: handles, and operations that complete later.
//!
//! | file | what it is |
//! |---|---|
//! | `pipe` | a pipe whose one end, ours, does not block |
//! | `overlapped` | one operation on such an end, and who is woken when it is complete |
//! | `watch` | a function that is called when a handle becomes signalled |

#[cfg(any(feature = "http-server", feature = "gateway"))]
pub(crate) mod files;
mod overlapped;
#[cfg(feature = "http-server")]
pub(crate) mod peer;
pub(crate) mod pipe;
pub(crate) mod standard;
pub(crate) mod stream;
pub(crate) mod watch;
