//! Servers that want a login: OAuth 2.1 as the specification of MCP has it, against the built binary.
//!
//! [`provider`] is an MCP server and its authorization server in one, which rotates refresh tokens and takes note of
//! everything that should not happen; [`person`] is somebody with a browser. `fm_NN_…` is the test of failure mode NN.
#![cfg(target_os = "linux")]

mod attacks;
mod elicitation;
mod expiry;
#[path = "../servers/fleet.rs"]
#[allow(dead_code)] // It serves other tests too.
mod fleet;
mod flows;
mod hostile;
mod keyring;
mod leaving;
mod odd;
mod person;
#[path = "../servers/place.rs"]
#[allow(dead_code)] // So does this.
mod place;
mod processes;
mod provider;
#[path = "../rig/mod.rs"]
#[allow(dead_code, unused_imports)] // The rig serves other tests too.
mod rig;
mod rounds;
#[path = "../http/web.rs"]
#[allow(dead_code)] // It serves other tests too.
mod web;
