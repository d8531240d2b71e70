//! How long a stream may be silent.
//!
//! A stream on which nothing happens is silent for hours, and one that somebody on the way has forgotten is silent for
//! ever: from here they look the same, unless the server sends comments now and then to keep it open. Where those have
//! come regularly and stop, the stream is dead.
//!
//! This is for streams that can be opened again at no cost. A call is not given up for it: a server that is busy may
//! have no time for comments (FM-22).

use std::time::Duration;

use crate::time::Time;

/// So many comments make a heartbeat.
const BEATS: u32 = 3;
/// A pause is this many times as long as the longest one before.
const LONGER: u32 = 5;
/// A pause is no shorter than this.
const LEAST: Duration = Duration::from_secs(3);

/// The heartbeat of a stream.
#[derive(Clone, Copy, Debug)]
pub(super) struct Heartbeat {
    heard: Time,
    beats: u32,
    longest: Duration,
}

impl Heartbeat {
    /// Of a stream that was opened now.
    pub(super) fn new(now: Time) -> Heartbeat {
        Heartbeat {
            heard: now,
            beats: 0,
            longest: Duration::ZERO,
        }
    }

    /// Something was read: a comment, or something else.
    pub(super) fn note(&mut self, now: Time, comment: bool) {
        if comment {
            self.beats += 1;
            self.longest = self.longest.max(now - self.heard);
        }
        self.heard = now;
    }

    /// When the stream counts as dead if nothing is heard; never, if there is no heartbeat.
    pub(super) fn until(&self) -> Option<Time> {
        self.patience().map(|patience| self.heard + patience)
    }

    /// How long the stream may be silent.
    pub(super) fn patience(&self) -> Option<Duration> {
        (self.beats >= BEATS).then(|| (self.longest * LONGER).max(LEAST))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_stream_with_a_heartbeat_can_fall_silent() {
        let mut now = Time::ZERO;
        let mut beat = Heartbeat::new(now);
        for _ in 0..BEATS {
            assert_eq!(beat.until(), None);
            beat.note(now, false);
            now = now + Duration::from_secs(15);
            beat.note(now, true);
        }
        assert_eq!(beat.until(), Some(now + Duration::from_secs(75)));
        let mut quick = Heartbeat::new(now);
        for _ in 0..BEATS {
            quick.note(now, true);
        }
        assert_eq!(quick.until(), Some(now + LEAST));
    }
}
