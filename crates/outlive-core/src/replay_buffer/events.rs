//! The events of one channel, oldest first.
//!
//! Most channels have one event, which is the answer to a request. It has a place here; only what follows it is
//! allocated.

use std::collections::VecDeque;

/// An event, with its place among all of the buffer.
type Event<M> = (u64, M);

#[derive(Clone, Debug)]
pub(super) struct Events<M> {
    /// None only if there are no others.
    first: Option<Event<M>>,
    others: VecDeque<Event<M>>,
}

impl<M> Default for Events<M> {
    fn default() -> Events<M> {
        Events {
            first: None,
            others: VecDeque::new(),
        }
    }
}

impl<M> Events<M> {
    pub(super) fn len(&self) -> usize {
        usize::from(self.first.is_some()) + self.others.len()
    }

    pub(super) fn front(&self) -> Option<&Event<M>> {
        self.first.as_ref()
    }

    pub(super) fn get(&self, at: usize) -> Option<&Event<M>> {
        match at.checked_sub(1) {
            None => self.first.as_ref(),
            Some(at) => self.others.get(at),
        }
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Event<M>> {
        self.first.iter().chain(&self.others)
    }

    pub(super) fn push_back(&mut self, event: Event<M>) {
        match self.first {
            None => self.first = Some(event),
            Some(_) => self.others.push_back(event),
        }
    }

    pub(super) fn pop_front(&mut self) -> Option<Event<M>> {
        let event = self.first.take()?;
        self.first = self.others.pop_front();
        Some(event)
    }

    pub(super) fn clear(&mut self) {
        *self = Events::default();
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// What is done to it, and to a queue that is known to be one, has the same results.
        #[test]
        fn it_is_a_queue(steps in prop::collection::vec(0u8..8, 0..64)) {
            let (mut events, mut queue) = (Events::default(), VecDeque::new());
            for (place, step) in (0u64..).zip(steps) {
                match step {
                    0 => {
                        events.clear();
                        queue.clear();
                    }
                    1..4 => prop_assert_eq!(events.pop_front(), queue.pop_front()),
                    _ => {
                        events.push_back((place, step));
                        queue.push_back((place, step));
                    }
                }
                prop_assert_eq!(events.len(), queue.len());
                prop_assert_eq!(events.front(), queue.front());
                prop_assert!(events.iter().eq(queue.iter()));
                for at in 0..=queue.len() {
                    prop_assert_eq!(events.get(at), queue.get(at));
                }
            }
        }
    }
}
