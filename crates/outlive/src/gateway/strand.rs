//! A strand: work of several threads that is done one piece at a time, in order, without a task of its own.
//!
//! # Theory
//!
//! Whoever has something to do [puts](Strand::push) it in, lets go of its locks and [runs](Strand::run) the strand. The
//! first to come does the work of all who come meanwhile; they return at once. So a message goes through on the thread
//! that has brought it, and nobody waits for anybody: neither for a lock, nor for a task to be scheduled.
//!
//! The work is done without any lock of the strand's, and may put in more: running a strand from inside its own work
//! returns at once, too, and the work is done afterwards.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::Waker;

/// Rounds of work that one thread does in a row. It has something else to do, and others can keep it here.
const ROUNDS: usize = 64;

/// A queue with room for more than this is not kept.
const ROOM: usize = 64;

/// With more bytes than this waiting, whoever can wait is to.
const HIGH: usize = 1 << 20;

/// Work, and whoever does it.
#[derive(Debug)]
pub(super) struct Strand<T> {
    inner: Mutex<Inner<T>>,
}

#[derive(Debug)]
struct Inner<T> {
    queue: VecDeque<T>,
    /// In the queue.
    bytes: usize,
    /// Somebody does the work.
    running: bool,
    /// Of those that were told to wait.
    waiting: Vec<Waker>,
}

/// What is left when a thread has done its share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Left {
    /// Nothing: it was done.
    Nothing,
    /// Nothing of ours: there was nothing to do, or somebody else does it.
    Others,
    /// Some work, and the right to do it: it is to be [resumed](Strand::resume) elsewhere.
    More,
}

impl<T> Default for Strand<T> {
    fn default() -> Strand<T> {
        Strand {
            inner: Mutex::new(Inner {
                queue: VecDeque::new(),
                bytes: 0,
                running: false,
                waiting: Vec::new(),
            }),
        }
    }
}

impl<T> Strand<T> {
    fn lock(&self) -> MutexGuard<'_, Inner<T>> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Puts in a piece of work of this size. It is not done before somebody runs the strand; locks may be held.
    pub(super) fn push(&self, work: T, bytes: usize) {
        let mut inner = self.lock();
        inner.bytes += bytes;
        inner.queue.push_back(work);
    }

    /// Does what was put in, unless somebody is at it already. No lock may be held that the work takes.
    #[must_use]
    pub(super) fn run(&self, each: impl FnMut(T)) -> Left {
        let mut inner = self.lock();
        if inner.running || inner.queue.is_empty() {
            return Left::Others;
        }
        inner.running = true;
        drop(inner);
        self.resume(each)
    }

    /// Goes on with what [`Left::More`] was said of.
    #[must_use]
    pub(super) fn resume(&self, mut each: impl FnMut(T)) -> Left {
        let turn = Turn(self);
        let mut work = VecDeque::new();
        for _ in 0..ROUNDS {
            let mut inner = self.lock();
            if inner.queue.is_empty() {
                inner.running = false;
                // Its room is used again, unless there was an unusual crowd in it.
                if work.capacity() <= ROOM {
                    inner.queue = work;
                }
                std::mem::forget(turn);
                return Left::Nothing;
            }
            std::mem::swap(&mut inner.queue, &mut work);
            inner.bytes = 0;
            let waiting = std::mem::take(&mut inner.waiting);
            drop(inner);
            waiting.into_iter().for_each(Waker::wake);
            work.drain(..).for_each(&mut each);
        }
        std::mem::forget(turn);
        Left::More
    }

    /// Whether so much waits to be done that whoever brings more should wait. It is woken when that has changed.
    pub(super) fn is_crowded(&self, waker: &Waker) -> bool {
        let mut inner = self.lock();
        let crowded = inner.bytes > HIGH;
        if crowded && !inner.waiting.iter().any(|it| it.will_wake(waker)) {
            inner.waiting.push(waker.clone());
        }
        crowded
    }
}

/// The right to do the work. Dropped, the work has panicked: the next one may go on behind it.
struct Turn<'a, T>(&'a Strand<T>);

impl<T> Drop for Turn<'_, T> {
    fn drop(&mut self) {
        self.0.lock().running = false;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

    /// Runs a strand until it is somebody else's, or nobody's.
    fn work_off<T>(strand: &Strand<T>, mut each: impl FnMut(T)) {
        let mut left = strand.run(&mut each);
        while left == Left::More {
            left = strand.resume(&mut each);
        }
    }

    #[test]
    fn work_of_many_threads_is_done_once_one_at_a_time_and_in_the_order_of_each() {
        const THREADS: usize = 4;
        const EACH: usize = 5000;
        let strand = Arc::new(Strand::default());
        let busy = Arc::new(AtomicBool::new(false));
        let seen: Arc<Vec<AtomicUsize>> =
            Arc::new((0..THREADS).map(|_| AtomicUsize::new(0)).collect());
        let threads: Vec<_> = (0..THREADS)
            .map(|thread| {
                let (strand, busy, seen) = (strand.clone(), busy.clone(), seen.clone());
                std::thread::spawn(move || {
                    for number in 0..EACH {
                        strand.push((thread, number), 1);
                        work_off(&strand, |(thread, number)| {
                            assert!(!busy.swap(true, Ordering::AcqRel), "two at once");
                            let before = seen[thread].fetch_add(1, Ordering::AcqRel);
                            assert_eq!(before, number);
                            busy.store(false, Ordering::Release);
                        });
                    }
                })
            })
            .collect();
        for thread in threads {
            thread.join().expect("no assertion failed");
        }
        for count in seen.iter() {
            assert_eq!(count.load(Ordering::Acquire), EACH);
        }
    }

    #[test]
    fn work_that_brings_more_is_not_entered_again() {
        let strand = Strand::default();
        let mut done = Vec::new();
        strand.push(3, 0);
        work_off(&strand, |number: u32| {
            if number > 0 {
                strand.push(number - 1, 0);
                assert_eq!(strand.run(|_| panic!("entered again")), Left::Others);
            }
            done.push(number);
        });
        assert_eq!(done, [3, 2, 1, 0]);
    }

    #[test]
    fn a_thread_is_not_kept_for_ever() {
        let strand = Strand::default();
        strand.push((), 0);
        let mut count = 0;
        let left = strand.run(|()| {
            count += 1;
            strand.push((), 0);
        });
        assert_eq!((left, count), (Left::More, ROUNDS));
        assert_eq!(strand.run(|()| panic!("it is somebody's")), Left::Others);
    }

    #[test]
    fn work_that_panics_does_not_end_the_strand() {
        let strand = Arc::new(Strand::default());
        strand.push(1, 0);
        let panics = strand.clone();
        let panicked = std::thread::spawn(move || panics.run(|_| panic!("on purpose"))).join();
        assert!(panicked.is_err());
        strand.push(2, 0);
        let mut done = Vec::new();
        work_off(&strand, |number| done.push(number));
        assert_eq!(done, [2]);
    }

    #[test]
    fn whoever_brings_much_is_told_to_wait_and_when_to_go_on() {
        let strand = Strand::default();
        strand.push((), HIGH);
        assert!(!strand.is_crowded(Waker::noop()));
        strand.push((), 1);
        assert!(strand.is_crowded(Waker::noop()));
        work_off(&strand, |()| {});
        assert!(!strand.is_crowded(Waker::noop()));
    }
}
