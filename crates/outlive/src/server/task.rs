//! One running handler: a future, and what its wakers do.
//!
//! A task is in exactly one place at a time: waiting for a waker, in the executor's queue, or in the
//! hands of one thread. Its state says which, so a wake-up is neither lost nor done twice, and a
//! future is polled and dropped only by the executor's threads, never by whoever wakes it.
//!
//! Whoever wakes it also publishes what it has written: a wake-up that changes nothing writes the state all the same,
//! and a turn begins by reading what was written last. Without that, a task that is woken just before its turn may
//! not see what it was woken for, and nobody wakes it again. `tests/loom` shows it for all interleavings.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::{Arc, PoisonError};
use std::task::{Context, Poll, Wake, Waker};

use super::executor::Executor;
use super::sync::{AtomicBool, AtomicU8, Mutex, Ordering};

/// A handler at work.
pub(crate) type Work = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Waits for a waker.
const WAITING: u8 = 0;
/// Is in the queue.
const QUEUED: u8 = 1;
/// A thread polls it.
const RUNNING: u8 = 2;
/// A thread polls it, and it was woken meanwhile.
const WOKEN: u8 = 3;
/// The future is gone.
const DONE: u8 = 4;

/// A future on the pool.
pub(crate) struct Task {
    state: AtomicU8,
    /// Nobody wants it to go on: its next turn drops it.
    given_up: AtomicBool,
    /// Locked by the one thread that runs it.
    work: Mutex<Option<Work>>,
    executor: Executor,
}

impl Task {
    /// A task that is to be queued once.
    pub(crate) fn new(work: Work, executor: Executor) -> Arc<Task> {
        Arc::new(Task {
            state: AtomicU8::new(QUEUED),
            given_up: AtomicBool::new(false),
            work: Mutex::new(Some(work)),
            executor,
        })
    }

    /// Has the future dropped, as soon as no thread is inside it.
    pub(crate) fn give_up(self: &Arc<Task>) {
        self.given_up.store(true, Ordering::Release);
        self.wake_by_ref();
    }

    /// Polls it once, on a thread of the pool.
    pub(crate) fn run(self: Arc<Task>) {
        self.state.swap(RUNNING, Ordering::AcqRel);
        let mut work = self.work.lock().unwrap_or_else(PoisonError::into_inner);
        if !self.given_up.load(Ordering::Acquire) && self.poll(&mut work).is_pending() {
            drop(work);
            let waits =
                self.state
                    .compare_exchange(RUNNING, WAITING, Ordering::AcqRel, Ordering::Acquire);
            if waits.is_err() {
                self.state.swap(QUEUED, Ordering::AcqRel);
                let executor = self.executor.clone();
                executor.push(self);
            }
            return;
        }
        self.state.store(DONE, Ordering::Release);
        let work = work.take();
        // A destructor of the user's may panic like anything else of theirs.
        let _ = catch_unwind(AssertUnwindSafe(move || drop(work)));
    }

    fn poll(self: &Arc<Task>, work: &mut Option<Work>) -> Poll<()> {
        let Some(future) = work else {
            return Poll::Ready(());
        };
        let waker = Waker::from(self.clone());
        let mut cx = Context::from_waker(&waker);
        // What a handler's panic means has been decided inside; here it only must not end the thread.
        catch_unwind(AssertUnwindSafe(|| future.as_mut().poll(&mut cx))).unwrap_or(Poll::Ready(()))
    }
}

impl Wake for Task {
    fn wake(self: Arc<Task>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Task>) {
        let mut state = self.state.load(Ordering::Acquire);
        loop {
            let next = match state {
                WAITING => QUEUED,
                RUNNING => WOKEN,
                DONE => return,
                same => same,
            };
            match self
                .state
                .compare_exchange_weak(state, next, Ordering::AcqRel, Ordering::Acquire)
            {
                Ok(WAITING) => return self.executor.push(self.clone()),
                Ok(_) => return,
                Err(now) => state = now,
            }
        }
    }
}
