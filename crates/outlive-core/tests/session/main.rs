//! Directed tests of the session: each rule by itself, with exact bytes, kinds and times.
//!
//! The simulation in `tests/sim` says that nothing goes wrong in any order of events; these tests
//! say what exactly happens in each of them.

mod absent;
mod asks;
mod breaker;
mod bytes;
mod cancel;
mod clocks;
mod close;
mod handshake;
mod hold;
#[path = "../support/known.rs"]
mod known;
mod last_words;
mod liveness;
mod login;
mod login_round;
mod meter;
mod modern;
mod observer;
mod orphans;
mod pair;
mod refusals;
mod request_failure;
mod resend;
mod restore;
mod retry;
mod snapshot;
mod start;
mod words;
