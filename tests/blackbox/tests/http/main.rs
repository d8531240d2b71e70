//! Servers over HTTP: the failure modes that have to do with connections, streams and sessions.
//!
//! The server is [`web`], which does with each request what the test says, over real sockets; between it
//! and `outlive` there may be a [`relay`] that fails. `fm_NN_…` is the test of failure mode NN.
#![cfg(target_os = "linux")]

mod absent;
mod asking;
mod credentials;
mod fates;
mod library;
mod modern;
mod order;
mod proxy;
mod refusals;
mod relay;
#[path = "../rig/mod.rs"]
#[allow(dead_code, unused_imports)] // The rig serves other tests too.
mod rig;
mod sessions;
mod settings;
mod sse;
mod streams;
mod tls;
mod web;
