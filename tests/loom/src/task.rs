//! One task, those who wake it, and those who run it.

use super::sync;

#[path = "../../../crates/outlive/src/server/task.rs"]
#[allow(clippy::module_inception)]
mod task;

/// A queue in the place of the executor.
mod executor {
    use std::collections::VecDeque;
    use std::sync::Arc;

    use loom::sync::Mutex;

    use super::task::Task;

    #[derive(Clone, Default)]
    pub(super) struct Executor(Arc<Mutex<VecDeque<Arc<Task>>>>);

    impl Executor {
        pub(super) fn push(&self, task: Arc<Task>) {
            self.0.lock().unwrap().push_back(task);
        }

        /// Runs whatever is queued, until nothing is.
        pub(super) fn run(&self) {
            loop {
                let next = self.0.lock().unwrap().pop_front();
                match next {
                    Some(task) => task.run(),
                    None => return,
                }
            }
        }
    }
}

use std::future::{pending, poll_fn};
use std::sync::Arc;
use std::task::{Poll, Waker};

use loom::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use loom::thread;

use super::model;
use executor::Executor;
use task::Task;

/// Counts how often it is dropped.
struct Counted(Arc<AtomicUsize>);

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

/// A task in its queue, and a thread that runs it.
fn running(
    work: impl Future<Output = ()> + Send + 'static,
) -> (Executor, Arc<Task>, thread::JoinHandle<()>) {
    let executor = Executor::default();
    let task = Task::new(Box::pin(work), executor.clone());
    executor.push(task.clone());
    let runs = executor.clone();
    (executor, task, thread::spawn(move || runs.run()))
}

#[test]
fn what_was_written_before_a_wake_up_is_seen_after_it() {
    model(4, || {
        let (set, done) = (
            Arc::new(AtomicBool::new(false)),
            Arc::new(AtomicBool::new(false)),
        );
        let (is_set, is_done) = (set.clone(), done.clone());
        let (executor, task, runner) = running(async move {
            poll_fn(|_| match is_set.load(Ordering::Relaxed) {
                true => Poll::Ready(()),
                false => Poll::Pending,
            })
            .await;
            is_done.store(true, Ordering::Relaxed);
        });
        set.store(true, Ordering::Relaxed);
        Waker::from(task).wake();
        executor.run();
        runner.join().unwrap();
        assert!(done.load(Ordering::Relaxed));
    });
}

#[test]
fn a_task_that_wakes_itself_sees_what_another_wake_up_is_for() {
    model(4, || {
        let (set, done) = (
            Arc::new(AtomicBool::new(false)),
            Arc::new(AtomicBool::new(false)),
        );
        let (is_set, is_done) = (set.clone(), done.clone());
        let mut first = true;
        let (executor, task, runner) = running(async move {
            poll_fn(|cx| match is_set.load(Ordering::Relaxed) {
                true => Poll::Ready(()),
                false => {
                    if std::mem::take(&mut first) {
                        cx.waker().wake_by_ref();
                    }
                    Poll::Pending
                }
            })
            .await;
            is_done.store(true, Ordering::Relaxed);
        });
        set.store(true, Ordering::Relaxed);
        Waker::from(task).wake();
        executor.run();
        runner.join().unwrap();
        assert!(done.load(Ordering::Relaxed));
    });
}

#[test]
fn a_task_that_is_given_up_is_dropped_once_wherever_it_is() {
    model(4, || {
        let dropped = Arc::new(AtomicUsize::new(0));
        let held = Counted(dropped.clone());
        let (executor, task, runner) = running(async move {
            let _held = held;
            pending::<()>().await;
        });
        task.give_up();
        executor.run();
        runner.join().unwrap();
        assert_eq!(dropped.load(Ordering::Relaxed), 1);
    });
}

#[test]
fn two_threads_are_never_inside_a_task_and_no_wake_up_is_lost() {
    model(2, || {
        let (inside, rounds) = (
            Arc::new(AtomicBool::new(false)),
            Arc::new(AtomicUsize::new(0)),
        );
        let (is_inside, polled) = (inside.clone(), rounds.clone());
        let wanted = Arc::new(AtomicUsize::new(0));
        let goal = wanted.clone();
        let (executor, task, runner) = running(poll_fn(move |_| {
            assert!(!is_inside.swap(true, Ordering::Relaxed));
            polled.fetch_add(1, Ordering::Relaxed);
            thread::yield_now();
            is_inside.store(false, Ordering::Relaxed);
            match goal.load(Ordering::Relaxed) {
                2 => Poll::Ready(()),
                _ => Poll::Pending,
            }
        }));
        let other = {
            let (executor, task, wanted) = (executor.clone(), task.clone(), wanted.clone());
            thread::spawn(move || {
                wanted.fetch_add(1, Ordering::Relaxed);
                Waker::from(task).wake_by_ref();
                executor.run();
            })
        };
        wanted.fetch_add(1, Ordering::Relaxed);
        Waker::from(task.clone()).wake();
        executor.run();
        runner.join().unwrap();
        other.join().unwrap();
        // At most one turn for the start and one for each wake-up; and it has come to its end.
        assert!((1..=3).contains(&rounds.load(Ordering::Relaxed)));
        let before = rounds.load(Ordering::Relaxed);
        Waker::from(task).wake();
        executor.run();
        assert_eq!(rounds.load(Ordering::Relaxed), before, "it went on");
    });
}
