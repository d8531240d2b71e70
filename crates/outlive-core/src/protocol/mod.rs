//! What the specifications say, in one place: eras, versions, error codes, methods, metadata, headers and what is
//! mirrored in them.
//!
//! Nothing here is a rule of ours. The machines decide what to do; they ask this module what a name means, so
//! that a new revision of the protocol is one change. `tests/protocol.rs` compares the lists with the published
//! schemas.

pub mod code;
mod era;
pub mod header;
mod list;
pub mod meta;
pub mod method;
pub mod mirrored;
pub mod version;

pub use era::Era;
pub use list::List;
