//! The failure modes, one by one, against the crate's client with real processes, signals and pipes.

mod endings;
