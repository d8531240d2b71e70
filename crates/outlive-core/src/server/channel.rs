//! Where the parts of a conversation go.
//!
//! On a pipe there is one channel, [`Channel::MAIN`], and it lasts as long as the connection. Over
//! HTTP every exchange is a channel of its own: what belongs to a request goes where the request
//! came from, and the rest goes to the main channel. A channel is *held* by the requests and
//! subscriptions that came on it and are not settled; when the last lets go, it is done.

use std::collections::VecDeque;

use rustc_hash::FxHashMap;

/// A part of a connection that ends by itself. The driver chooses the number and never uses it
/// twice.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Channel(pub u64);

impl Channel {
    /// The one that is always there.
    pub const MAIN: Channel = Channel(0);
}

#[derive(Clone, Debug, Default)]
pub(super) struct Channels {
    /// How many hold each.
    held: FxHashMap<Channel, usize>,
    done: VecDeque<Channel>,
}

impl Channels {
    pub(super) fn hold(&mut self, channel: Channel) {
        if channel != Channel::MAIN {
            *self.held.entry(channel).or_default() += 1;
        }
    }

    pub(super) fn release(&mut self, channel: Channel) {
        if let Some(count) = self.held.get_mut(&channel) {
            *count -= 1;
            if *count == 0 {
                self.held.remove(&channel);
                self.done.push_back(channel);
            }
        }
    }

    /// The next channel on which nothing more will come.
    pub(super) fn next_done(&mut self) -> Option<Channel> {
        self.done.pop_front()
    }

    pub(super) fn len(&self) -> usize {
        self.held.len()
    }
}
