//! A bound on the bytes that are kept of messages that have not come whole, over all who send them.
//!
//! Each message has a bound of its own, and each sender a time; but many senders that begin a long message and do not
//! finish it take up the product of the two. So what is kept of all of them together is bounded too. When there is
//! no room, those give way that have sent nothing for a while ([`STALLED`]), longest first; if that does not
//! make enough room, whoever wants it is refused.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::time::Time;

/// A sender that has sent nothing for this long gives way to others.
pub const STALLED: Duration = Duration::from_secs(5);

/// A message that has begun.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Share(u64);

/// There is no room, and nobody gives way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoRoom;

/// Bytes that are kept of unfinished messages. See the [module](self).
#[derive(Debug)]
pub struct ByteBudget {
    total: usize,
    used: usize,
    shares: BTreeMap<Share, Held>,
    next: u64,
}

#[derive(Debug)]
struct Held {
    bytes: usize,
    /// When something last came.
    since: Time,
}

impl ByteBudget {
    /// Room for so many bytes.
    pub fn new(total: usize) -> ByteBudget {
        ByteBudget {
            total,
            used: 0,
            shares: BTreeMap::new(),
            next: 0,
        }
    }

    /// A message begins.
    pub fn begin(&mut self, now: Time) -> Share {
        self.next += 1;
        let share = Share(self.next);
        let held = Held {
            bytes: 0,
            since: now,
        };
        self.shares.insert(share, held);
        share
    }

    /// Some more of a message has come, for which there is room already.
    pub fn progress(&mut self, share: Share, now: Time) {
        if let Some(held) = self.shares.get_mut(&share) {
            held.since = now;
        }
    }

    /// Makes room for so many bytes more of a message. The messages that have given way have no share any more: what
    /// was kept of them is to be dropped.
    pub fn grow(&mut self, share: Share, by: usize, now: Time) -> Result<Vec<Share>, NoRoom> {
        self.progress(share, now);
        if !self.shares.contains_key(&share) {
            return Err(NoRoom);
        }
        let mut lacking = (self.used + by).saturating_sub(self.total);
        let stalled = |(_, held): &(&Share, &Held)| now - held.since >= STALLED && held.bytes > 0;
        let mut stalled: Vec<_> = self.shares.iter().filter(stalled).collect();
        stalled.sort_by_key(|(share, held)| (held.since, **share));
        let mut given_way = Vec::new();
        for (stalled, held) in stalled {
            if lacking == 0 {
                break;
            }
            lacking = lacking.saturating_sub(held.bytes);
            given_way.push(*stalled);
        }
        if lacking > 0 {
            return Err(NoRoom);
        }
        for share in &given_way {
            self.end(*share);
        }
        if let Some(held) = self.shares.get_mut(&share) {
            held.bytes += by;
            self.used += by;
        }
        Ok(given_way)
    }

    /// A message has come whole, or is dropped.
    pub fn end(&mut self, share: Share) {
        if let Some(held) = self.shares.remove(&share) {
            self.used -= held.bytes;
        }
    }

    /// Whether a message still has its share.
    pub fn has(&self, share: Share) -> bool {
        self.shares.contains_key(&share)
    }

    /// Bytes that are kept.
    pub fn used(&self) -> usize {
        self.used
    }
}
