//! The executor as it is: its threads come, take tasks, and leave.

use super::sync;

#[path = "../../../crates/outlive/src/server/executor.rs"]
#[allow(dead_code, clippy::module_inception)]
mod executor;
#[path = "../../../crates/outlive/src/server/task.rs"]
#[allow(dead_code)]
mod task;

use std::sync::Arc;

use loom::sync::atomic::{AtomicUsize, Ordering};
use loom::thread;

use super::model;
use executor::Executor;
use sync::Handle;
use task::Task;

/// A task that counts how often it was run.
fn counting(executor: &Executor, runs: &Arc<AtomicUsize>) -> Arc<Task> {
    let runs = runs.clone();
    let work = Box::pin(async move {
        runs.fetch_add(1, Ordering::Relaxed);
    });
    Task::new(work, executor.clone())
}

/// Waits until so many tasks were run, and for the end of the threads.
fn end(executor: &Executor, runs: &AtomicUsize, wanted: usize) {
    while runs.load(Ordering::Relaxed) < wanted {
        thread::yield_now();
    }
    executor.close();
    assert_eq!(runs.load(Ordering::Relaxed), wanted);
}

#[test]
fn tasks_that_come_from_two_sides_are_run_once_each() {
    model(2, || {
        let executor = Executor::new(Handle, 2);
        let runs = Arc::new(AtomicUsize::new(0));
        let other = {
            let (executor, runs) = (executor.clone(), runs.clone());
            thread::spawn(move || executor.push(counting(&executor, &runs)))
        };
        executor.push(counting(&executor, &runs));
        other.join().unwrap();
        end(&executor, &runs, 2);
    });
}

#[test]
fn a_task_is_run_by_the_thread_that_reads_or_by_another_and_by_one_of_them() {
    model(2, || {
        let executor = Executor::new(Handle, 1);
        let runs = Arc::new(AtomicUsize::new(0));
        // A thread that may be idle by the time the next task comes.
        executor.push(counting(&executor, &runs));
        if executor.offer([counting(&executor, &runs)]) {
            executor.help();
        }
        end(&executor, &runs, 2);
    });
}
