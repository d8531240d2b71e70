//! The failure modes of the catalogue (`docs/failures.md`), one by one, against the built binary.
//!
//! `fm_NN_…` is the test of failure mode NN; the other tests hold what else `outlive run`
//! promises. The binary is `OUTLIVE_BIN`, or the `outlive` built into the same target directory.
#![cfg(target_os = "linux")]

mod breaker;
mod bytes;
mod cancel;
mod close;
mod death;
mod eras;
mod kinds;
mod lists;
mod logs;
mod pipes;
mod processes;
mod replay;
mod rig;
mod settings;
mod start;
mod status;
mod wedge;
