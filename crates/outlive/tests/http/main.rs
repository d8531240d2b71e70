//! Servers over HTTP, with real sockets: what clients do to them, and what the network does.

mod close;
mod guard;
mod headers;
mod legacy;
mod limits;
mod modern;
mod offer;
mod rig;
mod sse;
#[cfg(feature = "tls")]
mod tls;
