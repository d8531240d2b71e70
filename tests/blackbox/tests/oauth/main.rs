//! `outlive serve` as a resource server: whom an identity provider vouches for, and who only says so.
//!
//! [`issuer`] is an identity provider made here, with keys of its own and whatever goes wrong with it; the program is
//! the built one, its servers are fakes.
#![cfg(target_os = "linux")]

mod attacks;
mod client;
#[path = "../servers/fleet.rs"]
#[allow(dead_code)] // It serves other tests too.
mod fleet;
mod issuer;
mod opaque;
mod outage;
mod people;
#[path = "../servers/place.rs"]
#[allow(dead_code)] // So does this.
mod place;
#[path = "../rig/mod.rs"]
#[allow(dead_code, unused_imports)] // And this.
mod rig;
mod views;
#[path = "../http/web.rs"]
#[allow(dead_code)] // And this.
mod web;
