//! Arbitrary bytes as a stream of server-sent events, and as messages that are written into one.

#![no_main]

#[path = "../../crates/outlive-core/tests/fuzz/sse.rs"]
mod sse;

libfuzzer_sys::fuzz_target!(|data: &[u8]| sse::run(data));
