//! Arbitrary bytes as a schedule of everything that can happen to a server.

#![no_main]

#[path = "../../crates/outlive-core/tests/fuzz/bytes.rs"]
mod bytes;
#[path = "../../crates/outlive-core/tests/fuzz/server.rs"]
mod server;

libfuzzer_sys::fuzz_target!(|data: &[u8]| server::run(data));
