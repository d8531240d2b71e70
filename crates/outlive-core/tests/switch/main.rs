//! The switch between clients and a session: by rules, and by a million random steps.

mod bounds;
mod confirm;
mod handshake;
mod junk;
#[path = "../support/known.rs"]
mod known;
mod modern;
mod owners;
mod routes;
mod schedule;
mod whole;
mod world;
