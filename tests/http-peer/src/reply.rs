//! What a server answers, as its client reads it.

use std::io::{self, BufRead, BufReader, Read};
use std::net::TcpStream;

use serde_json::Value;

use crate::body::{Body, Framing};
use crate::event::Event;
use crate::head::Head;

/// A response whose head has been read. Its body is read as it comes; whoever drops it closes the connection.
pub struct Reply {
    /// The status.
    pub status: u16,
    head: Head,
    body: BufReader<Body<BufReader<TcpStream>>>,
}

impl Reply {
    /// Reads the head.
    pub fn read(stream: TcpStream) -> io::Result<Reply> {
        let mut input = BufReader::new(stream);
        let head = Head::read(&mut input)?;
        let status = head
            .first
            .split(' ')
            .nth(1)
            .and_then(|word| word.parse().ok());
        let status =
            status.ok_or_else(|| io::Error::other(format!("no status: {:?}", head.first)))?;
        let framing = match status {
            204 | 304 => Framing::Done,
            _ => Framing::told(&head)?.unwrap_or(Framing::Close),
        };
        Ok(Reply {
            status,
            head,
            body: BufReader::new(Body::new(input, framing)),
        })
    }

    /// The value of a header, whose name may be in any case.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.head.header(name)
    }

    /// Whether it is a stream of events.
    pub fn is_stream(&self) -> bool {
        let kind = self.header("content-type").unwrap_or_default();
        kind.starts_with("text/event-stream")
    }

    // ---- the whole body

    /// The whole body, if it comes.
    pub fn try_text(&mut self) -> io::Result<String> {
        let mut text = String::new();
        self.body.read_to_string(&mut text)?;
        Ok(text)
    }

    /// The whole body.
    #[track_caller]
    pub fn text(mut self) -> String {
        self.try_text().expect("the whole body")
    }

    /// The message that is the body.
    #[track_caller]
    pub fn json(self) -> Value {
        assert_eq!(self.header("content-type"), Some("application/json"));
        let text = self.text();
        serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}"))
    }

    // ---- a stream

    /// The next line of the body; `None` at its end.
    pub fn line(&mut self) -> io::Result<Option<String>> {
        let mut line = String::new();
        Ok(match self.body.read_line(&mut line)? {
            0 => None,
            _ => Some(line.trim_end_matches(['\r', '\n']).to_owned()),
        })
    }

    /// The next event, if it comes whole; `None` at the end of the stream. Comments are left out.
    pub fn try_event(&mut self) -> io::Result<Option<Event>> {
        let (mut event, mut begun) = (Event::default(), false);
        while let Some(line) = self.line()? {
            match line.is_empty() {
                true if begun => return Ok(Some(event)),
                true => {}
                false => begun |= event.take(&line),
            }
        }
        Ok(None)
    }

    /// The next event; `None` at the end of the stream. Comments are left out.
    #[track_caller]
    pub fn event(&mut self) -> Option<Event> {
        self.try_event().expect("a whole event")
    }

    /// The next message of a stream, if it comes whole; `None` at its end.
    pub fn next_message(&mut self) -> io::Result<Option<Value>> {
        while let Some(event) = self.try_event()? {
            if !event.data.is_empty() {
                return serde_json::from_str(&event.data)
                    .map(Some)
                    .map_err(io::Error::other);
            }
        }
        Ok(None)
    }

    /// The next message of a stream.
    #[track_caller]
    pub fn message(&mut self) -> Value {
        self.next_message()
            .expect("a whole event")
            .expect("a message")
    }

    // ---- either

    /// All messages, however they are sent; the answer is the last.
    #[track_caller]
    pub fn messages(mut self) -> Vec<Value> {
        if !self.is_stream() {
            return vec![self.json()];
        }
        let mut all = Vec::new();
        while let Some(message) = self.next_message().expect("a whole stream") {
            all.push(message);
        }
        all
    }

    /// The answer, however it is sent.
    #[track_caller]
    pub fn answer(self) -> Value {
        self.messages().pop().expect("an answer")
    }
}
