//! A server behind `outlive serve`: what its clients see, whatever happens to it.
//!
//! The server is the fake, over pipes; the clients speak HTTP by hand ([`wire`]), over real sockets.
//! `fm_NN_…` is the test of failure mode NN.
#![cfg(target_os = "linux")]

#[path = "../http/asking.rs"]
mod asking;
mod crowd;
mod death;
mod gate;
mod leftovers;
mod legacy;
mod life;
mod modern;
mod owners;
mod remote;
#[path = "../rig/mod.rs"]
#[allow(dead_code, unused_imports)] // The rig serves other tests too.
mod rig;
mod share;
mod slow_reader;
#[path = "../http/web.rs"]
#[allow(dead_code)] // It serves other tests too.
mod web;
mod wire;
