//! `outlive serve --store`: sessions that survive the end of outlive itself.
//!
//! The program is the built one, its server the fake; clients speak HTTP by hand ([`wire`]). `fm_NN_…` is the test of
//! failure mode NN.
#![cfg(target_os = "linux")]

mod bounds;
mod fleet;
mod in_flight;
mod life;
mod link;
mod operating;
mod partition;
mod redis;
mod replica;
#[path = "../rig/mod.rs"]
#[allow(dead_code, unused_imports)] // The rig serves other tests too.
mod rig;
mod standstill;
mod upgrade;
#[path = "../gateway/wire.rs"]
#[allow(dead_code)] // So does this.
mod wire;
