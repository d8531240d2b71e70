//! The failure modes of the catalogue (`docs/failures.md`), one by one, against the crate's client
//! with real processes, signals, pipes and sockets.
//!
//! `fm_NN_…` is the test of failure mode NN; the other tests hold what else the client promises.
#![cfg(target_os = "linux")]

mod asks;
mod bytes;
mod calls;
mod cancel;
mod clocks;
mod close;
mod death;
mod endings;
mod eras;
mod leftovers;
mod rig;
mod runtimes;
mod stalls;
mod start;
mod state;
