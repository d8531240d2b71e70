//! The router: one client before many servers.

mod isolation;
mod lists;
mod modern;
mod rig;
mod routes;
#[cfg(feature = "search")]
mod search;
