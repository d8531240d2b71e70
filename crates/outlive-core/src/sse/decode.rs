//! Server-sent events out of bytes.
//!
//! The stream is read as it comes: a field's name first, then its value. The data of a message goes
//! straight into a [`Framer`], so that one that is too long is not kept but still known by its id,
//! as on any other stream. Line ends within data become blanks: in JSON they mean the same, and a
//! message is one line. What a comment says is read over; that it came is all it tells.
//!
//! What comes out does not depend on how the bytes were cut into reads.

use std::time::Duration;

use crate::frame::Frame;
use crate::framer::{BOM, Framer};

/// No name, id or address is longer; what is, is cut.
const LONGEST_FIELD: usize = 8 << 10;

/// What an event is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// A message.
    Message(Frame),
    /// Where messages go (HTTP+SSE).
    Endpoint(String),
    /// Nothing: a sign of life.
    Comment,
}

/// Where in a line we are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum At {
    /// In the name of a field.
    Name,
    /// Behind the colon: one blank belongs to it.
    Colon,
    /// In the value of `data`.
    Data,
    /// In another value that matters.
    Value,
    /// In something that does not.
    Nothing,
}

/// Reads one stream of events.
#[derive(Debug)]
pub struct Events {
    framer: Framer,
    /// How much of the byte order mark has been seen; all of it: past the start.
    bom: usize,
    at: At,
    name: Vec<u8>,
    value: Vec<u8>,
    /// The last byte was a carriage return: a line feed now is part of the same line end.
    after_cr: bool,
    /// The event has data.
    has_data: bool,
    /// Its data as text, for the kinds that are not messages.
    text: Vec<u8>,
    /// Its kind; empty is a message.
    kind: Vec<u8>,
    /// The id of the last event that had one: where to go on after a break.
    cursor: Option<String>,
    /// How long the server wants a reader to wait before it comes back.
    retry: Option<Duration>,
}

impl Events {
    /// A reader of messages of up to `limit` bytes.
    pub fn new(limit: usize) -> Events {
        Events {
            framer: Framer::new(limit),
            bom: 0,
            at: At::Name,
            name: Vec::new(),
            value: Vec::new(),
            after_cr: false,
            has_data: false,
            text: Vec::new(),
            kind: Vec::new(),
            cursor: None,
            retry: None,
        }
    }

    /// Goes on behind this event, on another connection: what was half read is forgotten.
    pub fn resume(&mut self, limit: usize) {
        let (cursor, retry) = (self.cursor.take(), self.retry);
        *self = Events {
            cursor,
            retry,
            ..Events::new(limit)
        };
    }

    /// The id of the last event that had one.
    pub fn cursor(&self) -> Option<&str> {
        self.cursor.as_deref()
    }

    /// How long the server wants a reader to wait before it comes back.
    pub fn retry(&self) -> Option<Duration> {
        self.retry
    }

    /// Takes in what was read; tells the events that are complete with it.
    pub fn read(&mut self, bytes: &[u8]) -> Vec<Event> {
        let mut events = Vec::new();
        let mut rest = self.past_bom(bytes);
        while let Some((&byte, tail)) = rest.split_first() {
            let line_end = match byte {
                b'\n' if std::mem::take(&mut self.after_cr) => {
                    rest = tail;
                    continue;
                }
                b'\n' | b'\r' => true,
                _ => false,
            };
            self.after_cr = byte == b'\r';
            if line_end {
                events.extend(self.end_line());
                rest = tail;
                continue;
            }
            let run = match self.at {
                At::Data | At::Nothing => memchr::memchr2(b'\n', b'\r', rest).unwrap_or(rest.len()),
                At::Name | At::Colon | At::Value => 1,
            };
            self.take(&rest[..run]);
            rest = &rest[run..];
        }
        // A line over the limit is noticed, and let go, as it grows.
        let whole = self.framer.next_line();
        debug_assert!(whole.is_none(), "a frame ends with its event");
        events
    }

    /// What is behind the byte order mark, if the stream begins with one.
    fn past_bom<'a>(&mut self, mut bytes: &'a [u8]) -> &'a [u8] {
        while self.bom < BOM.len()
            && let Some((byte, rest)) = bytes.split_first()
        {
            if *byte == BOM[self.bom] {
                self.bom += 1;
                bytes = rest;
                continue;
            }
            // It was the beginning of a name, and no name anybody knows.
            push(&mut self.name, &BOM[..self.bom]);
            self.bom = BOM.len();
        }
        bytes
    }

    /// Bytes within a line.
    fn take(&mut self, bytes: &[u8]) {
        match (self.at, bytes) {
            (At::Name, b":") => self.at = At::Colon,
            (At::Name, _) => push(&mut self.name, bytes),
            (At::Colon, _) => {
                self.at = match self.name.as_slice() {
                    b"data" => At::Data,
                    b"event" | b"id" | b"retry" => At::Value,
                    _ => At::Nothing,
                };
                if self.at == At::Data {
                    self.begin_data();
                }
                if bytes != b" " {
                    self.take(bytes);
                }
            }
            (At::Data, _) => {
                push(&mut self.text, bytes);
                self.framer.spare().extend_from_slice(bytes);
            }
            (At::Value, _) => push(&mut self.value, bytes),
            (At::Nothing, _) => {}
        }
    }

    fn begin_data(&mut self) {
        if self.has_data {
            self.framer.spare().extend_from_slice(b" ");
        }
        self.has_data = true;
    }

    fn end_line(&mut self) -> Option<Event> {
        let at = std::mem::replace(&mut self.at, At::Name);
        let name = std::mem::take(&mut self.name);
        let value = std::mem::take(&mut self.value);
        if at == At::Name && name.is_empty() {
            return self.dispatch();
        }
        let text = || String::from_utf8_lossy(&value).into_owned();
        match name.as_slice() {
            b"" => return Some(Event::Comment),
            b"data" if at != At::Data => self.begin_data(),
            b"event" => self.kind = value,
            b"id" if !value.contains(&0) => self.cursor = Some(text()).filter(|id| !id.is_empty()),
            b"retry" if value.iter().all(u8::is_ascii_digit) => {
                self.retry = text()
                    .parse()
                    .map(Duration::from_millis)
                    .ok()
                    .or(self.retry);
            }
            _ => {}
        }
        None
    }

    /// A blank line ends an event.
    fn dispatch(&mut self) -> Option<Event> {
        let kind = std::mem::take(&mut self.kind);
        let text = std::mem::take(&mut self.text);
        if !std::mem::take(&mut self.has_data) {
            return None;
        }
        self.framer.spare().extend_from_slice(b"\n");
        let line = self.framer.next_line();
        match kind.as_slice() {
            // An event without data primes the cursor (2025-11-25, transports).
            b"" | b"message" => line.map(Frame::from).map(Event::Message),
            b"endpoint" => Some(Event::Endpoint(String::from_utf8_lossy(&text).into_owned())),
            _ => None,
        }
    }
}

fn push(field: &mut Vec<u8>, bytes: &[u8]) {
    let room = LONGEST_FIELD.saturating_sub(field.len());
    field.extend_from_slice(&bytes[..bytes.len().min(room)]);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(text: &str) -> Event {
        Event::Message(Frame::read(text.to_string().into()))
    }

    /// Reads it whole, and in pieces of every size.
    fn read(stream: &str) -> (Vec<Event>, Option<String>, Option<Duration>) {
        let mut first = None;
        for size in 1..=stream.len().max(1) {
            let mut reader = Events::new(64);
            let mut events = Vec::new();
            for piece in stream.as_bytes().chunks(size) {
                events.extend(reader.read(piece));
            }
            let cursor = reader.cursor().map(str::to_string);
            let all = (events, cursor, reader.retry());
            match &first {
                None => first = Some(all),
                Some(first) => assert_eq!(&all, first, "in pieces of {size}"),
            }
        }
        first.unwrap_or_default()
    }

    #[test]
    fn events_of_every_make() {
        for stream in [
            "data: {\"a\":1}\n\n",
            "data:{\"a\":1}\n\n",
            "event: message\r\ndata: {\"a\":1}\r\n\r\n",
            "data: {\"a\":1}\r\r",
            "data: {\"a\":1}\nevent: message\nunknown: x\n\n",
            "event: other\ndata: x\n\ndata: {\"a\":1}\n\n",
            "event: message\n\ndata: {\"a\":1}\n\n",
        ] {
            assert_eq!(read(stream).0, [message("{\"a\":1}")], "{stream:?}");
        }
        let comments = read(": ping\n\n:\ndata: {\"a\":1}\n:x\n\n").0;
        let comment = Event::Comment;
        let message_last = [
            comment.clone(),
            comment.clone(),
            comment,
            message("{\"a\":1}"),
        ];
        assert_eq!(comments, message_last);
        let two = read("data: {\ndata: \"a\":1}\n\ndata: {}\n\n").0;
        assert_eq!(two, [message("{ \"a\":1}"), message("{}")]);
    }

    #[test]
    fn a_byte_order_mark_belongs_to_nothing() {
        let answer = [message("{\"a\":1}")];
        assert_eq!(read("\u{feff}data: {\"a\":1}\n\n").0, answer);
        assert_eq!(read("data: \u{feff}{\"a\":1}\n\n").0, answer);
        assert_eq!(read("\u{feff}\n\ndata: {\"a\":1}\n\n").0, answer);
        let comment = read("\u{feff}: hello\n\n").0;
        assert_eq!(comment, [Event::Comment]);
        // Not at the start, it is part of a name.
        assert_eq!(read("\n\u{feff}data: {}\n\n").0, []);
        assert_eq!(read("\u{fefe}data: {}\n\n").0, []);
        let mut reader = Events::new(64);
        reader.read(b"data: {}\n\n");
        reader.resume(64);
        assert_eq!(
            reader.read("\u{feff}data: {}\n\n".as_bytes()),
            [message("{}")]
        );
    }

    #[test]
    fn an_event_is_over_with_its_blank_line_and_not_before() {
        assert_eq!(read("data: {}\n").0, []);
        assert_eq!(read("data: {}").0, []);
    }

    #[test]
    fn the_cursor_is_that_of_the_last_event_that_had_one() {
        let (events, cursor, retry) = read("id: 1\nretry: 250\ndata:\n\ndata: {}\n\n");
        assert_eq!(events, [message("{}")], "the first only primes");
        assert_eq!(cursor.as_deref(), Some("1"));
        assert_eq!(retry, Some(Duration::from_millis(250)));
        assert_eq!(read("id: 1\n\nid: 2\n\n").1.as_deref(), Some("2"));
        assert_eq!(read("id: 1\nretry: soon\ndata\n\n").1.as_deref(), Some("1"));
        // What is no number changes nothing.
        let (.., retry) = read("retry: 250\nretry: soon\nretry: +5\nretry\ndata: {}\n\n");
        assert_eq!(retry, Some(Duration::from_millis(250)));
    }

    #[test]
    fn a_cursor_outlives_its_connection_and_half_an_event_does_not() {
        let mut reader = Events::new(64);
        reader.read(b"id: 7\ndata: {}\n\ndata: {\"half\":");
        reader.resume(64);
        assert_eq!(reader.cursor(), Some("7"));
        assert_eq!(reader.read(b"data: {}\n\n"), [message("{}")]);
    }

    #[test]
    fn an_address_is_told_as_it_is() {
        let endpoint = Event::Endpoint("/messages?session=1".into());
        assert_eq!(
            read("event: endpoint\ndata: /messages?session=1\n\n").0,
            [endpoint]
        );
    }

    #[test]
    fn a_message_over_the_limit_is_known_by_its_id() {
        let long = format!(r#"{{"id":7,"result":"{}"}}"#, "x".repeat(100));
        let (events, ..) = read(&format!("data: {long}\n\ndata: {{}}\n\n"));
        assert_eq!(events.len(), 2);
        let Event::Message(Frame::TooLong(too_long)) = &events[0] else {
            panic!("{events:?}");
        };
        assert_eq!(too_long.id, Some(crate::message::Id::Int(7)));
        assert_eq!(events[1], message("{}"));
    }
}
