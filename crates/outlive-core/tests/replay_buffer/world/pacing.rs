//! A sender that waits for slow readers: when it is held back, for whom, and until when.

use std::time::Duration;

use outlive_core::Time;
use outlive_core::replay_buffer::Delivery;
use outlive_core::server::Channel;

use super::{Books, Checked, LIMITS, World, broken};

/// What the books know of the sender.
#[derive(Debug, Default)]
pub struct Sender {
    /// It waits for slow readers.
    pub paced: bool,
    pub clock: Time,
    /// It was told to pause, and asks again at this time.
    pub held_until: Option<Time>,
    /// Since when it has been pausing.
    pub held_since: Time,
    /// Since when some exchange has been waiting for something to be sent.
    pub waited_since: Option<Time>,
    /// When a reader last took something, or came.
    pub last_move: Time,
    /// Streams that were cut off and not yet told of.
    pub cuts: usize,
}

impl Books {
    /// A reader has come, or has taken something.
    pub fn moves(&mut self) {
        self.idle_since = None;
        self.stalled = false;
    }

    fn unread_bytes(&self) -> usize {
        self.unread().map(|it| it.size).sum()
    }

    fn has_reader(&self) -> bool {
        self.reader.is_some() && !self.gone && !self.overrun
    }

    /// It is an exchange that waits for something to be sent.
    fn waits(&self) -> bool {
        self.has_reader() && self.ended.is_none() && self.unread().count() == 0
    }
}

impl World {
    /// Whether the sender waits for the reader of this channel.
    pub fn waits_for(&self, at: Channel) -> bool {
        self.sender.paced && !self.channels[&at].stalled
    }

    fn is_awaited(&self) -> bool {
        let mut exchanges = self.channels.iter().filter(|(at, _)| **at != Channel::MAIN);
        exchanges.any(|(_, books)| books.waits())
    }

    /// Whether more than this is unread by readers that are waited for.
    fn presses(&self, events: usize, bytes: usize) -> bool {
        // Nothing is sent any more.
        if self.sealed {
            return false;
        }
        let pressing = self
            .channels
            .values()
            .filter(|it| it.has_reader() && !it.stalled);
        let (mut unread, mut unread_bytes) = (0, 0);
        for books in pressing {
            unread += books.unread().count();
            unread_bytes += books.unread_bytes();
        }
        unread > events || unread_bytes > bytes
    }

    /// The sender asks whether it is to pause.
    pub fn ask(&mut self) -> Checked {
        let now = self.sender.clock;
        let was_held = self.sender.held_until.is_some();
        let held = self.buffer.hold_back(now);
        self.say(format!("held back at {now:?}: {held:?}"));
        self.sender.held_until = held;
        // Nobody looks at readers while little is unread.
        let part = if was_held { 4 } else { 2 };
        let (events, bytes) = (LIMITS.backlog / part, LIMITS.backlog_bytes / part);
        let expected = self.sender.paced && (was_held || self.presses(events, bytes));
        let expected = expected && {
            let awaited = self.is_awaited();
            for books in self.channels.values_mut().filter(|it| it.has_reader()) {
                if books.unread().count() > 0 {
                    let since = *books.idle_since.get_or_insert(now);
                    books.stalled |= awaited && now - since >= LIMITS.stall;
                }
            }
            self.presses(events, bytes)
        };
        if self.channels.values().any(|it| it.stalled) {
            self.see("stalled");
        }
        match (was_held, expected) {
            (false, true) => {
                self.sender.held_since = now;
                self.see("held back");
            }
            (true, false) => self.see("went on"),
            _ => {}
        }
        if held.is_some() != expected {
            return broken(13, format!("held back until {held:?}, and not {expected}"));
        }
        if held.is_some_and(|until| until <= now || until > now + LIMITS.stall) {
            return broken(13, format!("at {now:?} it is to ask again at {held:?}"));
        }
        Ok(())
    }

    /// The sender asks when it is woken or its time has come, and otherwise now and then.
    pub fn ask_if_woken(&mut self) -> Checked {
        let (events, bytes) = (LIMITS.backlog / 4, LIMITS.backlog_bytes / 4);
        let may_go_on = self.sender.held_until.is_some() && !self.presses(events, bytes);
        if self.buffer.is_released() != may_go_on {
            return broken(13, format!("it may go on: {may_go_on}, and is not told so"));
        }
        if may_go_on {
            self.ask()?;
        }
        let awaited = self.is_awaited();
        let sender = &mut self.sender;
        sender.waited_since = match awaited {
            true => sender.waited_since.or(Some(sender.clock)),
            false => None,
        };
        let last = sender.last_move.max(sender.held_since);
        let quiet_since = sender.waited_since.map(|since| since.max(last));
        match quiet_since {
            Some(since)
                if sender.held_until.is_some() && sender.clock - since > 2 * LIMITS.stall =>
            {
                broken(
                    14,
                    format!("an exchange waits since {since:?} behind readers that read nothing"),
                )
            }
            _ => Ok(()),
        }
    }

    /// Time passes, in quarters of the bound on a stalled reader.
    pub fn wait(&mut self, quarters: u8) -> Checked {
        let target = self.sender.clock + Duration::from_secs(1) * u32::from(quarters);
        while let Some(at) = self.sender.held_until.filter(|at| *at <= target) {
            self.sender.clock = at;
            self.ask()?;
            self.ask_if_woken()?;
        }
        self.sender.clock = target;
        Ok(())
    }

    /// A message of this size was sent when so many bytes were held. Whoever was cut off for it was furthest behind in
    /// a session that held too much.
    pub fn note_cuts(&mut self, held: usize, size: usize) -> Checked {
        let readers = self.channels.iter().filter(|(_, it)| it.has_reader());
        let (cut, kept): (Vec<_>, Vec<_>) = readers
            .map(|(at, it)| (*at, it.unread_bytes()))
            .partition(|(at, _)| !self.buffer.is_read(*at) || self.buffer.is_overrun());
        let most_kept = kept.iter().map(|(_, unread)| *unread).max().unwrap_or(0);
        let (_, holds) = self.buffer.held();
        if self.delivery != Delivery::Once && most_kept > 0 && holds > LIMITS.total_bytes + size {
            return broken(7, format!("the session holds {holds} bytes"));
        }
        for (at, unread) in cut {
            if held <= LIMITS.total_bytes {
                let invariant = if self.waits_for(at) { 12 } else { 5 };
                return broken(
                    invariant,
                    format!("{at:?} was cut off, {unread} bytes behind"),
                );
            }
            if unread < most_kept || unread == 0 {
                return broken(5, format!("{at:?} was cut off, and is not furthest behind"));
            }
            self.sender.cuts += 1;
            self.see("cut off for the bound of its session");
            match self.is_resumable() {
                true => self.cut(at),
                false => self.books(at).overrun = true,
            }
        }
        Ok(())
    }

    /// Whoever was cut off is told of, once.
    pub fn take_cuts(&mut self) -> Checked {
        let told = self.buffer.take_cuts().map_or(0, |cuts| cuts.streams);
        match told == std::mem::take(&mut self.sender.cuts) {
            true => Ok(()),
            false => broken(5, format!("{told} streams are said to have been cut off")),
        }
    }
}
