//! Arbitrary bytes as a snapshot of a session.

#![no_main]

#[path = "../../crates/outlive-core/tests/fuzz/snapshot.rs"]
mod snapshot;

libfuzzer_sys::fuzz_target!(|data: &[u8]| snapshot::run(data));
