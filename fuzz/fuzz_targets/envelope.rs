//! Arbitrary bytes as a line, as a batch and as a stream.

#![no_main]

#[path = "../../crates/outlive-core/tests/fuzz/envelope.rs"]
mod envelope;

libfuzzer_sys::fuzz_target!(|data: &[u8]| envelope::run(data));
