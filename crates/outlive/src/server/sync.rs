//! What the executor is made of: locks, atomics, threads and the time.
//!
//! The two files that use it, `executor` and `task`, are also compiled with the types of `loom` in this place
//! (`tests/loom`), which then plays all interleavings of their threads.

pub(super) use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
pub(super) use std::sync::{Condvar, Mutex, MutexGuard};
pub(super) use std::thread;
pub(super) use std::time::Instant;

pub(super) use tokio::runtime::Handle;
