//! The id of an event.

use std::fmt;

use crate::server::Channel;

/// The id of an event: its channel and its number on it. So ids are unique in a session, and lead back to their stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EventId {
    /// The channel.
    pub channel: Channel,
    /// The number of the event on it, counted from 1; 0 is before the first.
    pub number: u64,
}

impl EventId {
    /// Reads what a client sends as `Last-Event-ID`; `None` if it is no id of ours.
    pub fn read(text: &str) -> Option<EventId> {
        let (channel, number) = text.split_once('-')?;
        let number_of = |digits: &str| match digits.bytes().all(|b| b.is_ascii_digit()) {
            true => digits.parse().ok(),
            false => None,
        };
        Some(EventId {
            channel: Channel(number_of(channel)?),
            number: number_of(number)?,
        })
    }
}

impl fmt::Display for EventId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.channel.0, self.number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_is_read_as_it_was_written() {
        let ids = [(0, 0), (7, 12), (u64::MAX, u64::MAX)];
        for (channel, number) in ids {
            let id = EventId {
                channel: Channel(channel),
                number,
            };
            assert_eq!(EventId::read(&id.to_string()), Some(id));
        }
        for junk in [
            "",
            "-",
            "1",
            "1-",
            "-1",
            "1-2-3",
            "+1-2",
            "1-+2",
            "x-1",
            "18446744073709551616-0",
        ] {
            assert_eq!(EventId::read(junk), None, "{junk:?}");
        }
    }
}
