//! `outlive check`: a scenario is worth having if it can fail.
//!
//! For each scenario there is a peer that breaks it (`check-peer` with one defect) and one that does not
//! (without any). The tables say which; a scenario that is in none of them fails the tests.
#![cfg(target_os = "linux")]

mod client;
mod command;
mod docs;
mod play;
mod proxy;
mod server;
mod web;
mod web_client;
