//! All interleavings of the threads that run handlers, up to a bound on how often a thread is interrupted.
//!
//! `task.rs` and `executor.rs` of the server are compiled here a second time, with the locks, atomics and threads of
//! [loom](https://docs.rs/loom), which plays every order in which they can meet and every value that the memory model
//! lets a thread see. `task` has the state machine of a task between threads that take tasks from a plain queue;
//! `executor` has both files. Time stands still: what waits for a timeout waits for ever, so nothing here is found
//! only because a thread looks again after a while.
#![cfg(test)]
// `task.rs` stands once between threads of loom alone, and once under the executor.
#![allow(clippy::duplicate_mod)]

mod executor;
mod task;

/// Plays all orders in which threads are interrupted so often at most; where one waits or ends does not count.
fn model(interruptions: usize, test: impl Fn() + Send + Sync + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(interruptions);
    builder.check(test);
}

/// What the executor is made of: the types of loom.
mod sync {
    use std::ops::Sub;
    use std::time::Duration;

    pub(crate) use loom::sync::atomic::{AtomicBool, AtomicU8, Ordering};
    pub(crate) use loom::sync::{Condvar, Mutex, MutexGuard};

    pub(crate) mod thread {
        use std::io;
        use std::num::NonZero;

        pub(crate) use loom::thread::Builder;

        pub(crate) fn available_parallelism() -> io::Result<NonZero<usize>> {
            Err(io::ErrorKind::Unsupported.into())
        }
    }

    /// A clock that stands still.
    #[derive(Clone, Copy)]
    pub(crate) struct Instant;

    impl Instant {
        pub(crate) fn now() -> Instant {
            Instant
        }
    }

    impl Sub for Instant {
        type Output = Duration;

        fn sub(self, _: Instant) -> Duration {
            Duration::ZERO
        }
    }

    /// A runtime that nobody needs.
    pub(crate) struct Handle;

    /// Proof of being inside it.
    pub(crate) struct Inside;

    impl Handle {
        #[allow(clippy::unused_self)]
        pub(crate) fn enter(&self) -> Inside {
            Inside
        }
    }
}
