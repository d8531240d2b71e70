//! Stores of sessions: one test-suite for all of them, and sessions that go from one listener to another.

mod forwards;
mod listeners;
#[cfg(target_os = "linux")]
mod redis;
mod states;
mod suite;
