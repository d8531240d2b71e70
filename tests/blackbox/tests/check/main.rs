//! `outlive check`: a scenario is worth having if it can fail.
//!
//! For each scenario there is a peer that breaks it (`check-peer` with one defect) and one that does not
//! (without any). The tables say which; a scenario that is in none of them fails the tests.
#![cfg(target_os = "linux")]

mod bounds;
mod client;
mod command;
mod docs;
#[path = "../rig/escape.rs"]
mod escape;
mod play;
mod proxy;
mod server;
#[path = "../rig/tree.rs"]
#[allow(dead_code)] // It serves other tests too.
mod tree;
mod web;
mod web_client;
