//! Does nothing: what it takes to start a Rust program at all.

fn main() {}
