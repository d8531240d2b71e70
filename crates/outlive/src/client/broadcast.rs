//! Streams of events that nobody has to read.
//!
//! Whoever listens gets everything from then on, in order. A listener that falls behind loses the
//! oldest events and is told how many; it never holds up the one who tells, nor the other listeners.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::task::{Context, Poll, Waker};

use futures_core::Stream;

/// Sends each event to all listeners.
#[derive(Debug)]
pub(crate) struct Broadcast<T> {
    listeners: Mutex<Listeners<T>>,
    /// How many a listener may fall behind.
    most: usize,
}

#[derive(Debug)]
struct Listeners<T> {
    each: Vec<Weak<Mutex<Queue<T>>>>,
    closed: bool,
}

#[derive(Debug)]
struct Queue<T> {
    items: VecDeque<T>,
    /// Events dropped because the listener fell behind.
    missed: u64,
    closed: bool,
    waker: Option<Waker>,
}

/// What arrives at a listener.
#[derive(Debug)]
pub(crate) enum Received<T> {
    This(T),
    /// So many were dropped.
    Missed(u64),
}

/// A listener's end of a [`Broadcast`].
#[derive(Debug)]
pub(crate) struct Listener<T>(Arc<Mutex<Queue<T>>>);

/// What a lock protects here is whole at any moment, so a panic elsewhere does not matter.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl<T: Clone> Broadcast<T> {
    pub(crate) fn new(most: usize) -> Broadcast<T> {
        Broadcast {
            listeners: Mutex::new(Listeners {
                each: Vec::new(),
                closed: false,
            }),
            most,
        }
    }

    /// Listens from now on, beginning with `first`.
    pub(crate) fn listen(&self, first: impl IntoIterator<Item = T>) -> Listener<T> {
        let mut listeners = lock(&self.listeners);
        let queue = Arc::new(Mutex::new(Queue {
            items: first.into_iter().collect(),
            missed: 0,
            closed: listeners.closed,
            waker: None,
        }));
        listeners
            .each
            .retain(|listener| listener.strong_count() > 0);
        listeners.each.push(Arc::downgrade(&queue));
        Listener(queue)
    }

    pub(crate) fn tell(&self, items: &T) {
        self.each(|queue| {
            queue.items.push_back(items.clone());
            if queue.items.len() > self.most {
                queue.items.pop_front();
                queue.missed += 1;
            }
        });
    }

    /// There will be no more.
    pub(crate) fn close(&self) {
        lock(&self.listeners).closed = true;
        self.each(|queue| queue.closed = true);
    }

    fn each(&self, mut change: impl FnMut(&mut Queue<T>)) {
        let listeners = lock(&self.listeners);
        for queue in listeners.each.iter().filter_map(Weak::upgrade) {
            let waker = {
                let mut queue = lock(&queue);
                change(&mut queue);
                queue.waker.take()
            };
            if let Some(waker) = waker {
                waker.wake();
            }
        }
    }
}

impl<T> Listener<T> {
    pub(crate) fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Option<Received<T>>> {
        let mut queue = lock(&self.0);
        if queue.missed > 0 {
            return Poll::Ready(Some(Received::Missed(std::mem::take(&mut queue.missed))));
        }
        if let Some(items) = queue.items.pop_front() {
            return Poll::Ready(Some(Received::This(items)));
        }
        if queue.closed {
            return Poll::Ready(None);
        }
        queue.waker = Some(cx.waker().clone());
        Poll::Pending
    }
}

/// A stream of states, of events or of progress. It ends when there can be no more.
#[derive(Debug)]
#[must_use = "a stream does nothing unless it is read"]
pub struct Listen<T>(Listener<T>, fn(u64) -> Option<T>);

impl<T> Listen<T> {
    /// `missed` turns the number of dropped events into an event, if they are reported.
    pub(crate) fn new(listener: Listener<T>, missed: fn(u64) -> Option<T>) -> Listen<T> {
        Listen(listener, missed)
    }

    /// The next one; `None` when there can be no more.
    pub async fn next(&mut self) -> Option<T> {
        poll_fn(|cx| self.poll(cx)).await
    }

    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Option<T>> {
        loop {
            let event = match self.0.poll_next(cx) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(None) => return Poll::Ready(None),
                Poll::Ready(Some(Received::This(event))) => Some(event),
                Poll::Ready(Some(Received::Missed(n))) => (self.1)(n),
            };
            if event.is_some() {
                return Poll::Ready(event);
            }
        }
    }
}

impl<T> Stream for Listen<T> {
    type Item = T;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<T>> {
        self.poll(cx)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn now<T>(listen: &mut Listen<T>) -> Poll<Option<T>> {
        listen.poll(&mut Context::from_waker(Waker::noop()))
    }

    #[test]
    fn a_listener_that_falls_behind_loses_the_oldest_and_is_told() {
        let broadcast = Broadcast::new(2);
        let mut listen = Listen::new(broadcast.listen([]), |n| Some(-(n as i32)));
        let mut deaf = Listen::new(broadcast.listen([7]), |_| None);
        for event in 1..=5 {
            broadcast.tell(&event);
        }
        broadcast.close();
        for expected in [Some(-3), Some(4), Some(5), None, None] {
            assert_eq!(now(&mut listen), Poll::Ready(expected));
        }
        assert_eq!(now(&mut deaf), Poll::Ready(Some(4)));
        let mut late = Listen::new(broadcast.listen([]), |_| None);
        assert_eq!(now(&mut late), Poll::Ready(None::<i32>));
    }
}
