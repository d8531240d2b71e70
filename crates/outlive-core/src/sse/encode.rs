//! Messages as server-sent events.

use std::time::Duration;

use bytes::{BufMut, BytesMut};

use super::EventId;
use crate::message::put_on_one_line;

/// Adds a message to a stream, under this id if the client may come back behind it.
pub fn message(stream: &mut BytesMut, id: Option<EventId>, message: &[u8]) {
    if let Some(id) = id {
        stream.put_slice(format!("id: {id}\n").as_bytes());
    }
    stream.put_slice(b"event: message\ndata: ");
    // A line end would end the data.
    put_on_one_line(stream, message);
    stream.put_slice(b"\n\n");
}

/// An event that has an id and no message: the client knows where to go on before there is a message, and how long to
/// wait before it comes back (2025-11-25, transports).
pub fn primer(id: EventId, retry: Duration) -> String {
    format!("id: {id}\nretry: {}\ndata:\n\n", retry.as_millis())
}

/// The address to which a client of HTTP+SSE posts messages (2024-11-05, transports).
pub fn endpoint(address: &str) -> String {
    format!("event: endpoint\ndata: {address}\n\n")
}

/// Something that means nothing, so that everybody on the way sees that the stream is alive.
pub const fn comment() -> &'static [u8] {
    b": still here\n\n"
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frame::Frame;
    use crate::server::Channel;
    use crate::sse::{Event, Events};

    #[test]
    fn what_is_written_is_read() {
        let id = |number| EventId {
            channel: Channel(7),
            number,
        };
        let mut stream = BytesMut::new();
        stream.put_slice(endpoint("/messages?session_id=1").as_bytes());
        stream.put_slice(comment());
        stream.put_slice(primer(id(0), Duration::from_millis(500)).as_bytes());
        message(&mut stream, Some(id(1)), b"{\"a\":\n1}");
        message(&mut stream, None, b"{}");
        let mut events = Events::new(64);
        let line = |text: &'static str| Event::Message(Frame::read(text.into()));
        let expected = [
            Event::Endpoint("/messages?session_id=1".into()),
            Event::Comment,
            line("{\"a\": 1}"),
            line("{}"),
        ];
        assert_eq!(events.read(&stream), expected);
        assert_eq!(events.cursor().and_then(EventId::read), Some(id(1)));
        assert_eq!(events.retry(), Some(Duration::from_millis(500)));
    }
}
