//! Arbitrary bytes as a stream of server-sent events, and as messages that are written into one.
//!
//! However a stream is cut into reads, the same events must come out of it: those that a reader finds that has all of
//! it before it and goes by the book. What was written must be read, with its id; and no `Last-Event-ID` may be
//! taken for another.

use std::time::Duration;

use bytes::BytesMut;
use outlive_core::framer::Framer;
use outlive_core::server::Channel;
use outlive_core::sse::{self, Event, EventId, Events};

/// Longer fields are cut, which the simple reader does not do.
const MOST: usize = 8 << 10;

pub fn run(data: &[u8]) {
    let [limit, size, stream @ ..] = data else {
        return;
    };
    let stream = &stream[..stream.len().min(MOST)];
    let (limit, size) = (usize::from(*limit) * 2, usize::from(*size) % 40 + 1);
    let whole = events(limit, [stream]);
    assert_eq!(
        events(limit, stream.chunks(size)),
        whole,
        "in pieces of {size}"
    );
    assert_eq!(whole, by_the_book(limit, stream));
    round_trip(limit, stream);
    ids(stream);
}

/// What comes out of a stream: its events, where to go on, and after which pause.
type Found = (Vec<String>, Option<String>, Option<Duration>);

fn events<'a>(limit: usize, pieces: impl IntoIterator<Item = &'a [u8]>) -> Found {
    let mut reader = Events::new(limit);
    let mut events = Vec::new();
    for piece in pieces {
        events.extend(reader.read(piece).iter().map(shown));
    }
    (events, reader.cursor().map(str::to_owned), reader.retry())
}

fn shown(event: &Event) -> String {
    format!("{event:?}")
}

/// The message that these bytes are.
fn message(limit: usize, data: &[u8]) -> Option<String> {
    let mut framer = Framer::new(limit);
    framer.extend(data);
    framer.extend(b"\n");
    framer
        .next_frame()
        .map(|frame| shown(&Event::Message(frame)))
}

/// Reads a whole stream as the standard has it (HTML, server-sent events), with what MCP makes of the events.
fn by_the_book(limit: usize, stream: &[u8]) -> Found {
    let stream = stream.strip_prefix(b"\xef\xbb\xbf").unwrap_or(stream);
    let mut found = Found::default();
    let (mut data, mut kind): (Vec<&[u8]>, &[u8]) = (Vec::new(), b"");
    for line in lines(stream) {
        let colon = line.iter().position(|byte| *byte == b':');
        let (name, value) = match colon {
            Some(at) => (&line[..at], &line[at + 1..]),
            None => (line, &b""[..]),
        };
        let value = value.strip_prefix(b" ").unwrap_or(value);
        let text = || String::from_utf8_lossy(value).into_owned();
        match name {
            b"" if colon.is_some() => found.0.push(shown(&Event::Comment)),
            b"" => {
                let lines = std::mem::take(&mut data);
                match std::mem::take(&mut kind) {
                    _ if lines.is_empty() => {}
                    b"" | b"message" => found.0.extend(message(limit, &lines.join(&b' '))),
                    b"endpoint" => {
                        let address = String::from_utf8_lossy(&lines.concat()).into_owned();
                        found.0.push(shown(&Event::Endpoint(address)));
                    }
                    _ => {}
                }
            }
            b"data" => data.push(value),
            b"event" => kind = value,
            b"id" if !value.contains(&0) => found.1 = Some(text()).filter(|id| !id.is_empty()),
            b"retry" if !value.is_empty() && value.iter().all(u8::is_ascii_digit) => {
                found.2 = text().parse().map(Duration::from_millis).ok().or(found.2);
            }
            _ => {}
        }
    }
    found
}

/// The lines that have an end: CR, LF or both.
fn lines(mut stream: &[u8]) -> Vec<&[u8]> {
    let mut lines = Vec::new();
    while let Some(end) = stream.iter().position(|byte| matches!(byte, b'\r' | b'\n')) {
        lines.push(&stream[..end]);
        let both = stream[end..].starts_with(b"\r\n");
        stream = &stream[end + 1 + usize::from(both)..];
    }
    lines
}

/// Messages that are written one after the other are read again, each under its id.
fn round_trip(limit: usize, data: &[u8]) {
    let mut stream = BytesMut::new();
    let mut written = Vec::new();
    let mut last = None;
    for (n, text) in data.split(|byte| *byte == 0).enumerate() {
        let id = EventId {
            channel: Channel(data.len() as u64),
            number: n as u64 + 1,
        };
        let has_id = n % 3 > 0;
        last = if has_id { Some(id) } else { last };
        sse::message(&mut stream, has_id.then_some(id), text);
        stream.extend_from_slice(sse::comment());
        let line: Vec<u8> = (text.iter())
            .map(|byte| {
                if matches!(byte, b'\r' | b'\n') {
                    b' '
                } else {
                    *byte
                }
            })
            .collect();
        written.extend(message(limit, &line));
        written.push(shown(&Event::Comment));
    }
    let (read, cursor, _) = events(limit, [&stream[..]]);
    assert_eq!(read, written);
    assert_eq!(cursor.as_deref().and_then(EventId::read), last);
}

fn ids(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    for text in text.split_ascii_whitespace() {
        if let Some(id) = EventId::read(text) {
            assert_eq!(EventId::read(&id.to_string()), Some(id), "{text}");
        }
    }
}
