//! Directed tests of the server machine: each rule by itself, with exact bytes, kinds and times.
//!
//! The simulation in `tests/sim` says that nothing goes wrong in any order of events; these tests
//! say what exactly happens in each of them.

mod answers;
mod asks;
mod bounds;
mod bytes;
mod cancel;
mod channels;
mod close;
mod handshake;
#[path = "../support/known.rs"]
mod known;
mod modern;
mod notices;
mod pair;
mod rounds;
mod subscriptions;
mod words;
