//! What a server over HTTP answers: a head, and a body in pieces.

use std::io;

use tokio::io::AsyncReadExt;
use tokio::net::TcpStream;

use super::body::{Body, Framing};
use super::head::Head;
use crate::lines::LONGEST;

/// A reply whose head has been read.
#[derive(Debug)]
pub struct Reply {
    pub status: u16,
    head: Head,
    stream: TcpStream,
    body: Body,
    is_stream: bool,
}

/// A part of a body.
#[derive(Debug)]
pub enum Piece {
    /// Of a stream: a whole event.
    Event(Event),
    /// Of anything else.
    Bytes(Vec<u8>),
}

/// A body in pieces may be as long as one in one.
pub(super) fn enough(body: &[u8]) -> io::Result<()> {
    match body.len() > LONGEST {
        true => Err(io::Error::other("a body without end")),
        false => Ok(()),
    }
}

/// A server-sent event.
#[derive(Debug, Default)]
pub struct Event {
    pub id: Option<String>,
    pub data: String,
}

impl Reply {
    /// Reads the head.
    pub async fn head(mut stream: TcpStream) -> io::Result<Reply> {
        let mut raw = Vec::new();
        let head = Head::read(&mut stream, &mut raw).await?;
        let status = head.first.split(' ').nth(1);
        let status = status
            .and_then(|status| status.parse().ok())
            .ok_or_else(|| io::Error::other("that is not HTTP"))?;
        let framing = match status {
            204 | 304 => Framing::Done,
            _ => Framing::told(&head).unwrap_or(Framing::Close),
        };
        let kind = head.header("content-type");
        let is_stream = kind.is_some_and(|kind| kind.starts_with("text/event-stream"));
        Ok(Reply {
            status,
            head,
            stream,
            body: Body::new(raw, framing),
            is_stream,
        })
    }

    /// A header.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.head.header(name)
    }

    /// Whether the body is a stream of events.
    pub fn is_stream(&self) -> bool {
        self.is_stream
    }

    /// The status and the kind of the body.
    pub fn words(&self) -> String {
        format!(
            "HTTP {} {}",
            self.status,
            self.header("content-type").unwrap_or("without a body")
        )
    }

    /// The next event of a stream, or whatever came of anything else; `None` at the end.
    pub async fn piece(&mut self) -> io::Result<Option<Piece>> {
        loop {
            self.body.unwrap_raw()?;
            if !self.is_stream && !self.body.whole.is_empty() {
                let bytes = std::mem::take(&mut self.body.whole);
                return Ok(Some(Piece::Bytes(bytes)));
            }
            if self.is_stream
                && let Some(event) = self.event()
            {
                return Ok(Some(Piece::Event(event)));
            }
            if self.body.is_done() {
                return Ok(None);
            }
            if self.stream.read_buf(&mut self.body.raw).await? == 0 {
                return match self.body.ends_with_connection() {
                    true => Ok(None),
                    false => Err(io::ErrorKind::UnexpectedEof.into()),
                };
            }
        }
    }

    /// The whole body.
    pub async fn text(&mut self) -> io::Result<String> {
        let mut all = Vec::new();
        while let Some(piece) = self.piece().await? {
            match piece {
                Piece::Bytes(bytes) => all.extend(bytes),
                Piece::Event(event) => all.extend(event.data.into_bytes()),
            }
            enough(&all)?;
        }
        Ok(String::from_utf8_lossy(&all).into_owned())
    }

    /// The connection, whatever is left in it: to be broken off, or left alone.
    pub fn into_stream(self) -> TcpStream {
        self.stream
    }

    /// The next whole event, if it is there. Comments are nothing.
    fn event(&mut self) -> Option<Event> {
        let body = &mut self.body.whole;
        let blank = |at: usize, gap: &[u8]| body[at..].starts_with(gap).then_some((at, gap.len()));
        let (end, gap) =
            (0..body.len()).find_map(|at| blank(at, b"\n\n").or_else(|| blank(at, b"\r\n\r\n")))?;
        let text = String::from_utf8_lossy(&body[..end]).into_owned();
        body.drain(..end + gap);
        let mut event = Event::default();
        let mut data: Vec<&str> = Vec::new();
        for line in text.lines() {
            match line.split_once(':') {
                Some(("data", value)) => data.push(value.strip_prefix(' ').unwrap_or(value)),
                Some(("id", value)) => event.id = Some(value.trim().to_owned()),
                _ => {}
            }
        }
        event.data = data.join("\n");
        Some(event)
    }
}
