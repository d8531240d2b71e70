//! The threads that run handlers.
//!
//! A handler may block its thread: sleep, compute, wait for a child. On a runtime with a fixed
//! number of threads a few of those stop everything else (FM-64). So handlers have threads of
//! their own: a few to begin with, and one more whenever work has been waiting for a [`TICK`] and
//! no thread came for it, up to one for each handler that may run. Threads without work leave.
//!
//! To wake a thread takes longer than most handlers do. So while handlers are quick, the thread that
//! reads the client runs them itself ([`Executor::help`]); an idle thread watches it, and should a
//! handler block after all, has it relieved: another thread goes on reading, and the blocked one
//! is lost to its handler like any other. How quick handlers are is measured; one that blocks
//! sends those after it to other threads until it is forgotten.
//!
//! Each thread is inside the caller's tokio runtime, so timers, sockets and `tokio::spawn` work
//! in a handler as everywhere else.
//!
//! A thread that has run a handler looks for the next before it has the answers written: many
//! answers then leave in one `write`. Should the next one block, whoever reads sees it at its next
//! tick and writes them itself.

use std::collections::VecDeque;
use std::sync::{Arc, OnceLock, PoisonError};
use std::task::Waker;
use std::time::Duration;

use super::sync::{Condvar, Handle, Instant, Mutex, MutexGuard, thread};
use super::task::Task;

/// How long work may wait before a thread is added, and a handler may hold up the thread that
/// reads.
pub(crate) const TICK: Duration = Duration::from_millis(2);

/// Threads added at a time.
const ADDED: usize = 8;

/// A thread without work leaves after this long.
const KEEP: Duration = Duration::from_secs(10);

/// Handlers run in a row before what they answered is written: the client works on that while we
/// work on the next.
const BATCH: u32 = 16;

/// The longest time handlers are run in a row.
const BATCH_TIME: Duration = Duration::from_micros(200);

/// What a handler takes on average if waking a thread for it would take longer.
const QUICK: Duration = Duration::from_micros(50);

/// One handler counts for no more than this in the average, so that it is forgotten after some
/// tens of quick ones.
const SLOWEST: Duration = Duration::from_millis(10);

/// Ticks without a handler on the thread that reads, after which nobody watches it.
const REST: u32 = 50;

/// A growing set of threads with one queue.
#[derive(Clone)]
pub(crate) struct Executor(Arc<Inner>);

struct Inner {
    state: Mutex<State>,
    work: Condvar,
    /// Entered by every thread.
    runtime: Handle,
    /// Threads that are started without waiting for a tick.
    few: usize,
    /// Threads there may be.
    most: usize,
    reader: OnceLock<Reader>,
}

/// What the pool may want of the thread that reads.
pub(crate) struct Reader {
    /// Wakes it, for it to call [`Executor::grow_threads`].
    pub(crate) waker: Waker,
    /// Has another thread read in its place; false if there is none to be had.
    pub(crate) relieve: Box<dyn Fn() -> bool + Send + Sync>,
    /// Writes what has been answered.
    pub(crate) settle: Box<dyn Fn() + Send + Sync>,
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
    /// Somebody calls [`Executor::grow_threads`] every tick.
    tended: bool,
    /// No thread stays without work.
    closing: bool,
    /// What a handler takes, on average.
    cost: Duration,
    help: Help,
}

/// The thread that reads, while it runs handlers.
#[derive(Default)]
struct Help {
    /// Which of them it is, while it is inside one.
    inside: Option<u64>,
    /// Times that it has helped; a name for each.
    times: u64,
    /// Handlers it has run, and as of the last look.
    runs: u64,
    runs_before: u64,
    /// Looks at which it had done nothing in between.
    quiet: u32,
    /// An idle thread looks at it every tick.
    watched: bool,
}

impl Executor {
    /// A pool without threads; `most` is how many it may come to have.
    pub(crate) fn new(runtime: Handle, most: usize) -> Executor {
        let few = thread::available_parallelism().map_or(2, |n| n.get().max(2));
        Executor(Arc::new(Inner {
            state: Mutex::default(),
            work: Condvar::new(),
            runtime,
            few: few.min(most.max(1)),
            most: most.max(1),
            reader: OnceLock::new(),
        }))
    }

    /// Introduces the thread that reads.
    pub(crate) fn set_reader(&self, reader: Reader) {
        let _ = self.0.reader.set(reader);
    }

    /// Queues a task.
    pub(crate) fn push(&self, task: Arc<Task>) {
        self.push_all([task]);
    }

    /// Queues tasks.
    pub(crate) fn push_all(&self, tasks: impl IntoIterator<Item = Arc<Task>>) {
        let mut state = self.0.lock();
        state.queue.extend(tasks);
        let calls = self.0.rouse(&mut state);
        drop(state);
        self.0.call(calls);
    }

    /// Queues tasks that the thread that reads has come across. True if it is to
    /// [`help`](Executor::help) with them; nobody else has been told of them then.
    pub(crate) fn offer(&self, tasks: impl IntoIterator<Item = Arc<Task>>) -> bool {
        let mut state = self.0.lock();
        // An idle thread is needed to watch.
        let helps = state.idle > 0 && state.queue.is_empty() && state.cost < QUICK;
        state.queue.extend(tasks);
        let calls = !helps && self.0.rouse(&mut state);
        drop(state);
        self.0.call(calls);
        helps
    }

    /// Runs tasks on the thread that reads, which must be ready to be relieved.
    pub(crate) fn help(&self) {
        let _inside = self.0.runtime.enter();
        let mut clock = Clock::start();
        let mut state = self.0.lock();
        state.help.times += 1;
        let helper = state.help.times;
        let mut unwritten = 0;
        while clock.spent < BATCH_TIME
            && let Some(task) = state.queue.pop_front()
        {
            state.taken += 1;
            state.help.runs += 1;
            state.help.inside = Some(helper);
            self.0.have_watched(&mut state);
            drop(state);
            task.run();
            let cost = clock.lap();
            state = self.0.lock();
            state.learn(cost);
            if state.help.inside != Some(helper) {
                // Somebody else reads by now.
                return;
            }
            state.help.inside = None;
            unwritten += 1;
            if unwritten == BATCH && !state.queue.is_empty() {
                drop(state);
                self.0.settle();
                unwritten = 0;
                state = self.0.lock();
            }
        }
        let calls = self.0.rouse(&mut state);
        drop(state);
        self.0.call(calls);
    }

    /// Whether [`Executor::grow_threads`] is to be called when a tick has passed.
    pub(crate) fn wants_growth(&self) -> bool {
        self.0.lock().tended
    }

    /// Adds threads if none came for work since the last tick. True if the next tick matters.
    pub(crate) fn grow_threads(&self) -> bool {
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

impl State {
    fn learn(&mut self, cost: Duration) {
        self.cost = (self.cost * 7 + cost.min(SLOWEST)) / 8;
    }
}

impl Inner {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Gets a thread for the queue's head. One at a time: whoever comes calls the next. True if one is
    /// to be [called](Inner::call), which is best done without the lock: it would only wait for that.
    #[must_use]
    fn rouse(self: &Arc<Inner>, state: &mut State) -> bool {
        if state.queue.is_empty() || state.rousing {
            return false;
        }
        if state.idle > 0 {
            state.rousing = true;
            return true;
        }
        match state.threads < self.few {
            true => self.start(state),
            false => self.need_tick(state),
        }
        false
    }

    /// Calls an idle thread.
    fn call(&self, calls: bool) {
        if calls {
            self.work.notify_one();
        }
    }

    fn need_tick(&self, state: &mut State) {
        if !state.tended
            && let Some(reader) = self.reader.get()
        {
            state.tended = true;
            state.taken_before = state.taken;
            reader.waker.wake_by_ref();
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
            let mut clock = Clock::start();
            first.run();
            let mut cost = clock.lap();
            let mut unsettled = false;
            for _ in 1..BATCH {
                if clock.spent >= BATCH_TIME {
                    break;
                }
                let Some(task) = self.next(cost, &mut unsettled) else {
                    break;
                };
                task.run();
                cost = clock.lap();
            }
            self.settle();
            let mut state = self.lock();
            state.learn(cost);
            state.unsettled -= usize::from(unsettled);
        }
    }

    /// Writes what has been answered.
    fn settle(&self) {
        if let Some(reader) = self.reader.get() {
            (reader.settle)();
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
            let watches = !state.help.watched && state.help.quiet < REST;
            state.help.watched |= watches;
            state.idle += 1;
            let wait = if watches { TICK } else { KEEP };
            let wait = self.work.wait_timeout(state, wait);
            let timeout;
            (state, timeout) = wait.unwrap_or_else(PoisonError::into_inner);
            state.idle -= 1;
            state.rousing = false;
            if watches {
                state.help.watched = false;
                if timeout.timed_out() {
                    self.look(&mut state);
                }
            } else if timeout.timed_out() && state.queue.is_empty() {
                state.threads -= 1;
                return None;
            }
        }
    }

    /// Looks after the thread that reads, a tick after the last time.
    fn look(self: &Arc<Inner>, state: &mut State) {
        let help = &mut state.help;
        let moved = help.runs != help.runs_before;
        help.runs_before = help.runs;
        help.quiet = if moved { 0 } else { help.quiet + 1 };
        let stuck = !moved && help.inside.is_some();
        if stuck && self.reader.get().is_some_and(|reader| (reader.relieve)()) {
            state.help.inside = None;
            let calls = self.rouse(state);
            self.call(calls);
        }
    }

    /// Sees to it that an idle thread watches the one that reads while that runs handlers.
    fn have_watched(self: &Arc<Inner>, state: &mut State) {
        state.help.quiet = 0;
        if state.help.inside.is_none() || state.help.watched {
            return;
        }
        match state.idle {
            0 => self.start(state),
            _ => self.work.notify_one(),
        }
    }

    /// The next task, if there is one; what was answered before is not written yet. `cost` is what
    /// the last one took.
    fn next(self: &Arc<Inner>, cost: Duration, unsettled: &mut bool) -> Option<Arc<Task>> {
        let mut state = self.lock();
        let task = self.take(&mut state)?;
        state.learn(cost);
        if !std::mem::replace(unsettled, true) {
            state.unsettled += 1;
        }
        self.need_tick(&mut state);
        Some(task)
    }

    fn take(self: &Arc<Inner>, state: &mut State) -> Option<Arc<Task>> {
        let task = state.queue.pop_front()?;
        state.taken += 1;
        let calls = self.rouse(state);
        self.call(calls);
        if state.help.inside.is_some() {
            // It may have been this thread that watched.
            self.have_watched(state);
        }
        Some(task)
    }
}

/// Measures a row of handlers: one look at the clock for each.
struct Clock {
    at: Instant,
    /// What all of them have taken.
    spent: Duration,
}

impl Clock {
    fn start() -> Clock {
        Clock {
            at: Instant::now(),
            spent: Duration::ZERO,
        }
    }

    /// What the last one has taken.
    fn lap(&mut self) -> Duration {
        let now = Instant::now();
        let lap = now - std::mem::replace(&mut self.at, now);
        self.spent += lap;
        lap
    }
}
