//! Arbitrary bytes as a schedule of everything that can happen to a session.

#![no_main]

#[path = "../../crates/outlive-core/tests/fuzz/bytes.rs"]
mod bytes;
#[path = "../../crates/outlive-core/tests/fuzz/session.rs"]
mod session;

libfuzzer_sys::fuzz_target!(|data: &[u8]| session::run(data));
