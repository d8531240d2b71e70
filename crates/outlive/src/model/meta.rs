//! The fields of `_meta` that the protocol itself uses.

pub use outlive_core::protocol::meta::*;
