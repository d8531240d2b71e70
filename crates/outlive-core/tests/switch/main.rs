//! The switch between clients and a session: by rules, and by a million random steps.

mod handshake;
mod routes;
mod schedule;
mod world;
