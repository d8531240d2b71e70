//! Bytes on Unix: descriptors, and readiness.

#[cfg(any(feature = "http-server", feature = "gateway"))]
pub(crate) mod files;
#[cfg(feature = "http-server")]
pub(crate) mod peer;
pub(crate) mod standard;
pub(crate) mod stream;
