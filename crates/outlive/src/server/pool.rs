//! The threads that run handlers.
//!
//! A handler may block its thread: sleep, compute, wait for a child. On a runtime with a fixed
//! number of threads a few of those stop everything else (FM-64). So handlers have threads of
//! their own: a few to begin with, and one more whenever work has been waiting for a [`TICK`] and
//! no thread came for it, up to one for each handler that may run. Threads without work leave.
//!
//! Each thread is inside the caller's tokio runtime, so timers, sockets and `tokio::spawn` work
//! in a handler as everywhere else.
//!
//! A thread that has run a handler looks for the next before it has the answers written: many
//! answers then leave in one `write`. Should the next one block, the thread that reads sees it at
//! its next tick and writes them itself.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::task::Waker;
use std::thread;
use std::time::{Duration, Instant};

use tokio::runtime::Handle;

use super::task::Task;

/// How long work may wait before a thread is added.
pub(crate) const TICK: Duration = Duration::from_millis(2);

/// Threads added at a time.
const ADDED: usize = 8;

/// A thread without work leaves after this long.
const KEEP: Duration = Duration::from_secs(10);

/// Handlers run in a row before what they answered is written …
const BATCH: u32 = 64;

/// … or time spent on them.
const BATCH_TIME: Duration = Duration::from_micros(200);

/// A growing set of threads with one queue.
#[derive(Clone)]
pub(crate) struct Pool(Arc<Inner>);

struct Inner {
    state: Mutex<State>,
    work: Condvar,
    /// Entered by every thread.
    runtime: Handle,
    /// Threads that are started without waiting for a tick.
    few: usize,
    /// Threads there may be.
    most: usize,
    /// Writes what has been answered.
    settle: OnceLock<Box<dyn Fn() + Send + Sync>>,
    /// Wakes the thread that calls [`Pool::tend`].
    warden: OnceLock<Waker>,
}

#[derive(Default)]
struct State {
    queue: VecDeque<Arc<Task>>,
    /// Threads there are.
    threads: usize,
    /// Those that wait for work.
    idle: usize,
    /// One of those has been told of work and has not come yet.
    rousing: bool,
    /// Threads that run a handler while answers of earlier ones are unwritten.
    unsettled: usize,
    /// Tasks taken from the queue, and as of the last tick.
    taken: u64,
    taken_before: u64,
    /// Somebody calls [`Pool::tend`] every tick.
    tended: bool,
    /// No thread stays without work.
    closing: bool,
}

impl Pool {
    /// A pool without threads; `most` is how many it may come to have.
    pub(crate) fn new(runtime: Handle, most: usize) -> Pool {
        let few = thread::available_parallelism().map_or(2, |n| n.get().max(2));
        Pool(Arc::new(Inner {
            state: Mutex::default(),
            work: Condvar::new(),
            runtime,
            few: few.min(most.max(1)),
            most: most.max(1),
            settle: OnceLock::new(),
            warden: OnceLock::new(),
        }))
    }

    /// Sets what a thread does after a row of handlers, and who is woken when ticks are needed.
    pub(crate) fn attend(&self, settle: impl Fn() + Send + Sync + 'static, warden: Waker) {
        let _ = self.0.settle.set(Box::new(settle));
        let _ = self.0.warden.set(warden);
    }

    /// Queues a task.
    pub(crate) fn push(&self, task: Arc<Task>) {
        self.push_all([task]);
    }

    /// Queues tasks.
    pub(crate) fn push_all(&self, tasks: impl IntoIterator<Item = Arc<Task>>) {
        let mut state = self.0.lock();
        state.queue.extend(tasks);
        self.0.rouse(&mut state);
    }

    /// Whether [`Pool::tend`] is to be called when a tick has passed.
    pub(crate) fn wants_tending(&self) -> bool {
        self.0.lock().tended
    }

    /// Adds threads if none came for work since the last tick. True if the next tick matters.
    pub(crate) fn tend(&self) -> bool {
        let mut state = self.0.lock();
        if state.taken == state.taken_before {
            for _ in 0..state.queue.len().min(ADDED) {
                if state.threads < self.0.most {
                    self.0.start(&mut state);
                }
            }
        }
        state.taken_before = state.taken;
        state.tended = !state.queue.is_empty() || state.unsettled > 0;
        state.tended
    }

    /// Lets every thread leave once it finds no work.
    pub(crate) fn close(&self) {
        self.0.lock().closing = true;
        self.0.work.notify_all();
    }

    /// Whether no task is queued or running.
    pub(crate) fn is_idle(&self) -> bool {
        let state = self.0.lock();
        state.queue.is_empty() && state.threads == state.idle
    }
}

impl Inner {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Gets a thread for the queue's head. One at a time: whoever comes calls the next.
    fn rouse(self: &Arc<Inner>, state: &mut State) {
        if state.queue.is_empty() || state.rousing {
            return;
        }
        if state.idle > 0 {
            state.rousing = true;
            self.work.notify_one();
        } else if state.threads < self.few {
            self.start(state);
        } else {
            self.need_tick(state);
        }
    }

    fn need_tick(&self, state: &mut State) {
        if !state.tended
            && let Some(warden) = self.warden.get()
        {
            state.tended = true;
            state.taken_before = state.taken;
            warden.wake_by_ref();
        }
    }

    fn start(self: &Arc<Inner>, state: &mut State) {
        let inner = self.clone();
        let thread = thread::Builder::new().name("outlive-handler".into());
        // Where no thread can be had now, the next tick tries again.
        match thread.spawn(move || inner.serve()) {
            Ok(_) => state.threads += 1,
            Err(_) => self.need_tick(state),
        }
    }

    /// The life of a thread.
    fn serve(self: Arc<Inner>) {
        let _inside = self.runtime.enter();
        while let Some(first) = self.wait() {
            let begun = Instant::now();
            first.run();
            let mut unsettled = false;
            for _ in 1..BATCH {
                if begun.elapsed() >= BATCH_TIME {
                    break;
                }
                let Some(task) = self.next(&mut unsettled) else {
                    break;
                };
                task.run();
            }
            if let Some(settle) = self.settle.get() {
                settle();
            }
            if unsettled {
                self.lock().unsettled -= 1;
            }
        }
    }

    /// Waits for a task; `None` if this thread is to leave.
    fn wait(self: &Arc<Inner>) -> Option<Arc<Task>> {
        let mut state = self.lock();
        loop {
            if let Some(task) = self.take(&mut state) {
                return Some(task);
            }
            if state.closing {
                state.threads -= 1;
                return None;
            }
            state.idle += 1;
            let wait = self.work.wait_timeout(state, KEEP);
            let timeout;
            (state, timeout) = wait.unwrap_or_else(PoisonError::into_inner);
            state.idle -= 1;
            state.rousing = false;
            if timeout.timed_out() && state.queue.is_empty() {
                state.threads -= 1;
                return None;
            }
        }
    }

    /// The next task, if there is one; what was answered before is not written yet.
    fn next(self: &Arc<Inner>, unsettled: &mut bool) -> Option<Arc<Task>> {
        let mut state = self.lock();
        let task = self.take(&mut state)?;
        if !std::mem::replace(unsettled, true) {
            state.unsettled += 1;
        }
        self.need_tick(&mut state);
        Some(task)
    }

    fn take(self: &Arc<Inner>, state: &mut State) -> Option<Arc<Task>> {
        let task = state.queue.pop_front()?;
        state.taken += 1;
        self.rouse(state);
        Some(task)
    }
}
