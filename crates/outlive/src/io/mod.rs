//! Bytes in and out of this process, without blocking.
//!
//! | file | what it is |
//! |---|---|
//! | `stream` | one direction of a pipe or socket |
//! | `outbox` | frames that wait to be written |
//! | `host` | standard input and output of this process |
//! | `lines` | bytes cut into lines |
//! | `spin` | whether to look for messages a little longer before sleeping |

pub(crate) mod host;
pub(crate) mod lines;
pub(crate) mod outbox;
pub(crate) mod spin;
pub(crate) mod stream;
