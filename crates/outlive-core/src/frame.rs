//! What came from a peer, read once.
//!
//! A line is read where it enters the process: by whoever takes it off a pipe, out of a body or out of a stream of
//! events. From there on it travels as a [`Frame`], and out again as a [`Message`]: no machine and no driver reads it
//! a second time, and a message that is passed on under another id keeps what is known of it.

use bytes::{Bytes, BytesMut};
use memchr::memchr2;

use crate::framer::{Line, TooLong};
use crate::message::{Defect, DefectKind, Message, blank_line_ends, read_batch};

/// One line of a stream, read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Frame {
    /// A message.
    Message(Message),
    /// Several messages in one JSON array, as the 2025-03-26 revision allows; each was read by itself.
    Batch(Vec<Result<Message, Box<Defect>>>),
    /// A line that is no message.
    Defect(Box<Defect>),
    /// A line longer than the limit, thrown away; what could be told about it in passing.
    TooLong(TooLong),
}

impl Frame {
    /// Reads a line.
    pub fn read(line: Bytes) -> Frame {
        match Message::read(line) {
            Ok(message) => Frame::Message(message),
            Err(defect) if defect.what == DefectKind::Batch => {
                Frame::Batch(read_batch(&defect.line).unwrap_or_default())
            }
            Err(defect) => Frame::Defect(defect),
        }
    }

    /// Reads the body of a request or response. It may have line breaks between its tokens, which become blanks, since
    /// a message that is passed on is one line. Inside of strings JSON has them escaped.
    pub fn read_body(body: Bytes) -> Frame {
        Frame::read(on_one_line(body))
    }

    /// The message, if it is one.
    pub fn message(&self) -> Option<&Message> {
        match self {
            Frame::Message(message) => Some(message),
            _ => None,
        }
    }

    /// What is wrong with it, if it is neither a message nor a batch of them.
    pub fn defect(&self) -> Option<&Defect> {
        match self {
            Frame::Defect(defect) => Some(defect),
            _ => None,
        }
    }
}

impl From<Line> for Frame {
    fn from(line: Line) -> Frame {
        match line {
            Line::Whole(line) => Frame::read(line),
            Line::TooLong(line) => Frame::TooLong(line),
        }
    }
}

fn on_one_line(line: Bytes) -> Bytes {
    if memchr2(b'\r', b'\n', &line).is_none() {
        return line;
    }
    let mut flat = BytesMut::from(line);
    blank_line_ends(&mut flat);
    flat.freeze()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_is_what_the_line_is() {
        let read = |line: &'static str| Frame::read(line.into());
        let ping = r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#;
        assert!(read(ping).message().is_some_and(|it| it.is("ping")));
        let Frame::Batch(elements) = read(r#"[{"jsonrpc":"2.0","id":1,"method":"ping"}, 7]"#)
        else {
            panic!("no batch");
        };
        assert_eq!(elements.len(), 2);
        assert!(elements[0].as_ref().is_ok_and(|it| it.is("ping")));
        assert!(elements[1].is_err());
        assert!(read("[]").defect().is_some());
        assert!(read("hello").defect().is_some_and(|it| it.line == "hello"));
    }

    #[test]
    fn a_body_becomes_one_line() {
        let body = "{\r\n\"jsonrpc\":\"2.0\",\n\"method\":\"a\\nb\"\n}\r\n";
        let frame = Frame::read_body(body.into());
        let message = frame.message().expect("a message");
        assert_eq!(message.bytes(), r#"{  "jsonrpc":"2.0", "method":"a\nb" }"#);
        assert_eq!(message.method(), "a\nb");
    }
}
