//! `outlive serve --servers FILE`: the servers of a host's own file behind one address.
//!
//! The program is the built one, its servers are fakes; clients speak HTTP by hand, over real sockets.
#![cfg(target_os = "linux")]

mod bad_servers;
mod catalogue;
mod exhaustion;
mod file;
mod fleet;
mod modern_only;
mod own_settings;
mod pin;
mod place;
mod relay;
mod reload;
mod reports;
#[path = "../rig/mod.rs"]
#[allow(dead_code, unused_imports)] // The rig serves other tests too.
mod rig;
mod shapes;
mod shown;
mod slow_client;
mod together;
mod view_tokens;
