//! How long a stream may be silent.
//!
//! A stream on which nothing happens is silent for hours, and one that somebody on the way has forgotten is
//! silent for ever: from here they look the same, unless the server sends comments now and then to keep it open. Where
//! those have come regularly and stop, the stream is dead.
//!
//! This is for streams that can be opened again at no cost. A call is not given up for it: a server that is
//! busy may have no time for comments (FM-22).

use std::time::{Duration, Instant};

use bytes::Bytes;
use reqwest::Response;
use tokio::time::timeout;

use super::session::HttpSession;
use outlive_core::sse::Event;

/// So many comments make a heartbeat.
const BEATS: u32 = 3;
/// A pause is this much longer than the longest one before, …
const LONGER: u32 = 5;
/// … and no shorter than this.
const LEAST: Duration = Duration::from_secs(3);
/// Where there is no heartbeat.
const FOREVER: Duration = Duration::from_secs(u32::MAX as u64);

/// The heartbeat of a stream's comments.
#[derive(Debug)]
pub(super) struct Heartbeat {
    heard: Instant,
    beats: u32,
    longest: Duration,
}

impl Heartbeat {
    pub(super) fn new() -> Heartbeat {
        Heartbeat {
            heard: Instant::now(),
            beats: 0,
            longest: Duration::ZERO,
        }
    }

    /// The next piece of the stream; an error if it has fallen silent.
    pub(super) async fn chunk(
        &self,
        session: &HttpSession,
        response: &mut Response,
    ) -> Result<Option<Bytes>, String> {
        let silence = self.timeout();
        match timeout(silence, session.chunk(response)).await {
            Ok(chunk) => chunk,
            Err(_) => {
                session.renew();
                Err(format!("it fell silent for {} s", silence.as_secs()))
            }
        }
    }

    /// What was read.
    pub(super) fn note(&mut self, events: &[Event]) {
        let now = Instant::now();
        if events.first() == Some(&Event::Comment) {
            self.beats += 1;
            self.longest = self.longest.max(now - self.heard);
        }
        self.heard = now;
    }

    fn timeout(&self) -> Duration {
        match self.beats >= BEATS {
            true => (self.longest * LONGER).max(LEAST),
            false => FOREVER,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_stream_with_a_rhythm_can_fall_silent() {
        let mut heartbeat = Heartbeat::new();
        let message = Event::Endpoint("/".into());
        for _ in 0..BEATS {
            assert_eq!(heartbeat.timeout(), FOREVER);
            heartbeat.note(std::slice::from_ref(&message));
            heartbeat.heard -= Duration::from_secs(15);
            heartbeat.note(&[Event::Comment]);
        }
        assert!(heartbeat.timeout() >= Duration::from_secs(75));
        assert!(heartbeat.timeout() < Duration::from_secs(80));
    }
}
