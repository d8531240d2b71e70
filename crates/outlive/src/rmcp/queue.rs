//! Messages between the task of a session and the tasks of rmcp.
//!
//! Whoever has a message puts it in at once, so messages arrive in the order they were sent. Whoever
//! can wait then waits for room; what cannot is bounded by the session.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

/// Above this many bytes there is no room.
const HIGH: usize = 1 << 20;

#[derive(Debug)]
pub(super) struct Queue<T>(Mutex<Inside<T>>);

#[derive(Debug)]
struct Inside<T> {
    items: VecDeque<(T, usize)>,
    bytes: usize,
    closed: bool,
    reader: Option<Waker>,
    /// Those who wait for room.
    writers: Vec<Waker>,
}

impl<T> Inside<T> {
    fn has_room(&self) -> bool {
        self.closed || self.bytes <= HIGH
    }
}

impl<T> Queue<T> {
    pub(super) fn new() -> Queue<T> {
        Queue(Mutex::new(Inside {
            items: VecDeque::new(),
            bytes: 0,
            closed: false,
            reader: None,
            writers: Vec::new(),
        }))
    }

    fn lock(&self) -> MutexGuard<'_, Inside<T>> {
        // Nothing is ever left half done under it.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Puts a message of this size in; false if nobody takes any more.
    pub(super) fn push(&self, item: T, size: usize) -> bool {
        let mut inside = self.lock();
        if inside.closed {
            return false;
        }
        inside.items.push_back((item, size));
        inside.bytes += size;
        let reader = inside.reader.take();
        drop(inside);
        if let Some(reader) = reader {
            reader.wake();
        }
        true
    }

    /// Takes the next message out; `None` after the last one.
    pub(super) fn poll_next(&self, cx: &mut Context<'_>) -> Poll<Option<T>> {
        let mut inside = self.lock();
        let Some((item, size)) = inside.items.pop_front() else {
            if inside.closed {
                return Poll::Ready(None);
            }
            inside.reader = Some(cx.waker().clone());
            return Poll::Pending;
        };
        inside.bytes -= size;
        let writers = match inside.has_room() {
            true => std::mem::take(&mut inside.writers),
            false => Vec::new(),
        };
        drop(inside);
        writers.into_iter().for_each(Waker::wake);
        Poll::Ready(Some(item))
    }

    /// Ready while there is room for more, or nobody takes any.
    pub(super) fn poll_room(&self, cx: &mut Context<'_>) -> Poll<()> {
        let mut inside = self.lock();
        if inside.has_room() {
            return Poll::Ready(());
        }
        if !inside.writers.iter().any(|w| w.will_wake(cx.waker())) {
            inside.writers.push(cx.waker().clone());
        }
        Poll::Pending
    }

    pub(super) fn len(&self) -> usize {
        self.lock().items.len()
    }

    pub(super) fn bytes(&self) -> usize {
        self.lock().bytes
    }

    /// No more is put in.
    pub(super) fn close(&self) {
        let mut inside = self.lock();
        inside.closed = true;
        let wakers = (inside.reader.take(), std::mem::take(&mut inside.writers));
        drop(inside);
        wakers.0.into_iter().chain(wakers.1).for_each(Waker::wake);
    }

    /// Nothing is taken out any more either. Tells how many messages were left.
    pub(super) fn abandon(&self) -> usize {
        self.close();
        let mut inside = self.lock();
        inside.bytes = 0;
        let left = std::mem::take(&mut inside.items);
        drop(inside);
        left.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_queue_has_room_again_when_it_is_emptied_or_abandoned() {
        let mut cx = Context::from_waker(Waker::noop());
        let queue = Queue::new();
        assert!(queue.push('a', HIGH));
        assert!(queue.poll_room(&mut cx).is_ready());
        assert!(queue.push('b', 1));
        assert!(queue.poll_room(&mut cx).is_pending());
        assert_eq!(queue.poll_next(&mut cx), Poll::Ready(Some('a')));
        assert!(queue.poll_room(&mut cx).is_ready());

        assert!(queue.push('c', 2 * HIGH));
        assert_eq!((queue.len(), queue.bytes()), (2, 2 * HIGH + 1));
        queue.close();
        assert!(queue.poll_room(&mut cx).is_ready());
        assert!(!queue.push('d', 1));
        assert_eq!(queue.poll_next(&mut cx), Poll::Ready(Some('b')));
        assert_eq!(queue.abandon(), 1);
        assert_eq!(queue.poll_next(&mut cx), Poll::Ready(None));
    }
}
