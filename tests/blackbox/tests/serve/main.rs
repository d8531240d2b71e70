//! `outlive serve`: who is let in, what is told about it, how it ends.
//!
//! The program is the built one, its server the fake; clients speak HTTP by hand ([`wire`]), over
//! real sockets. `fm_NN_…` is the test of failure mode NN.
#![cfg(target_os = "linux")]

mod binding;
mod bodies;
mod end;
mod entry;
mod gateway;
mod page;
mod places;
#[path = "../rig/mod.rs"]
#[allow(dead_code, unused_imports)] // The rig serves other tests too.
mod rig;
mod sse;
mod status;
mod watch;
#[path = "../gateway/wire.rs"]
#[allow(dead_code)] // So does this.
mod wire;
