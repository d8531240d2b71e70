//! Arbitrary bytes as a schedule of everything that can happen to a switch.

#![no_main]

#[path = "../../crates/outlive-core/tests/fuzz/bytes.rs"]
mod bytes;
#[path = "../../crates/outlive-core/tests/fuzz/switch.rs"]
mod switch;

libfuzzer_sys::fuzz_target!(|data: &[u8]| switch::run(data));
