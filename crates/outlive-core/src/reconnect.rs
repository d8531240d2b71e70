//! How long to wait before a stream of events that broke is asked for again.
//!
//! A server may name the pause (`retry:`), and is believed within [`LONGEST_ASKED`]: whatever a peer says, a call that
//! waits for the rest of its stream is not put off for days (invariant 3). Where it names none, pauses grow while
//! streams are short.

use std::time::Duration;

/// No pause is longer because a server asks for it.
pub const LONGEST_ASKED: Duration = Duration::from_secs(30);

/// The pauses between the streams of one exchange.
#[derive(Clone, Debug)]
pub struct Reconnect {
    first: Duration,
    longest: Duration,
    /// A stream that lasted this long was healthy: pauses start anew.
    healthy: Duration,
    /// What a server asks for is the pause, rather than the least one.
    asked_counts: bool,
    /// The next pause.
    pause: Duration,
    /// Attempts in a row that failed.
    failures: u32,
}

impl Reconnect {
    /// Those of a call whose answer is on the stream.
    pub fn of_a_call() -> Reconnect {
        Reconnect::new(500, 5_000, 5_000, true)
    }

    /// Those of the stream on which a server speaks unasked. One that was healthy is opened again at once; a server
    /// that ends each at once is asked ever more rarely (FM-25).
    pub fn of_the_server() -> Reconnect {
        Reconnect::new(1_000, 60_000, 10_000, false)
    }

    fn new(first: u64, longest: u64, healthy: u64, asked_counts: bool) -> Reconnect {
        let first = Duration::from_millis(first);
        Reconnect {
            first,
            longest: Duration::from_millis(longest),
            healthy: Duration::from_millis(healthy),
            asked_counts,
            pause: first,
            failures: 0,
        }
    }

    /// A stream ended, or could not be opened, after this time. Whether it was healthy.
    pub fn ended(&mut self, lasted: Duration) -> bool {
        self.failures = 0;
        let healthy = lasted >= self.healthy;
        self.pause = match (healthy, self.asked_counts) {
            (true, true) => self.first,
            (true, false) => Duration::ZERO,
            (false, true) => (self.pause * 2).min(self.longest),
            (false, false) => self.pause,
        };
        healthy
    }

    /// How long to wait before the next attempt, where the server has asked for this pause.
    pub fn next(&mut self, asked: Option<Duration>) -> Duration {
        let asked = asked.map(|asked| asked.min(LONGEST_ASKED));
        if self.asked_counts {
            let doubled = 2u32.saturating_pow(self.failures);
            self.failures += 1;
            let pause = asked.unwrap_or(self.pause).saturating_mul(doubled);
            return pause.min(self.longest.max(asked.unwrap_or_default()));
        }
        let pause = asked.unwrap_or_default().max(self.pause);
        self.pause = match self.pause.is_zero() {
            true => self.first,
            false => (self.pause * 2).min(self.longest),
        };
        pause
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    #[test]
    fn whatever_a_server_asks_for_a_call_is_not_put_off_for_longer_than_the_bound() {
        for asked in [ms(30_001), ms(86_400_000), Duration::MAX] {
            for mut pauses in [Reconnect::of_a_call(), Reconnect::of_the_server()] {
                for _ in 0..40 {
                    pauses.ended(Duration::ZERO);
                    assert!(pauses.next(Some(asked)) <= ms(60_000));
                }
            }
            let mut call = Reconnect::of_a_call();
            for _ in 0..40 {
                assert_eq!(
                    call.next(Some(asked)),
                    LONGEST_ASKED,
                    "attempts double nothing beyond"
                );
            }
        }
    }

    #[test]
    fn what_a_server_asks_for_within_the_bound_is_the_pause_of_a_call() {
        let mut call = Reconnect::of_a_call();
        call.ended(ms(100));
        assert_eq!(call.next(Some(ms(50))), ms(50));
        assert_eq!(call.next(Some(ms(50))), ms(100), "an attempt failed");
        assert_eq!(call.next(Some(ms(20_000))), ms(20_000));
    }

    #[test]
    fn pauses_of_a_call_grow_while_its_streams_are_short() {
        let mut call = Reconnect::of_a_call();
        let mut pauses = Vec::new();
        for _ in 0..5 {
            call.ended(ms(100));
            pauses.push(call.next(None).as_millis());
        }
        assert_eq!(pauses, [1000, 2000, 4000, 5000, 5000]);
        call.ended(ms(5000));
        assert_eq!(call.next(None), ms(500));
        assert_eq!(call.next(None), ms(1000));
    }

    #[test]
    fn the_servers_stream_is_opened_again_at_once_if_it_was_healthy_and_ever_more_rarely_if_not() {
        let mut stream = Reconnect::of_the_server();
        let mut pauses = Vec::new();
        for _ in 0..8 {
            assert!(!stream.ended(ms(9_999)));
            pauses.push(stream.next(None).as_secs());
        }
        assert_eq!(pauses, [1, 2, 4, 8, 16, 32, 60, 60]);
        assert!(stream.ended(ms(10_000)));
        assert_eq!(stream.next(None), Duration::ZERO);
        stream.ended(ms(1));
        assert_eq!(
            stream.next(Some(ms(7_000))),
            ms(7_000),
            "at least what it asks for"
        );
        assert_eq!(stream.next(None), ms(2_000));
    }
}
