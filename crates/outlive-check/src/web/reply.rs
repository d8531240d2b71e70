//! What a server over HTTP answers: a head, and a body in pieces.

use std::io;

use tokio::io::AsyncReadExt;
use tokio::net::TcpStream;

/// A head longer than this is none.
const LONGEST_HEAD: usize = 64 << 10;

/// A reply whose head has been read.
#[derive(Debug)]
pub struct Reply {
    pub status: u16,
    headers: Vec<(String, String)>,
    stream: TcpStream,
    /// Read, but not looked at yet.
    raw: Vec<u8>,
    /// Without the wrapping of chunks.
    body: Vec<u8>,
    framing: Framing,
    is_stream: bool,
}

#[derive(Clone, Copy, Debug)]
enum Framing {
    /// So many bytes are to come.
    Length(usize),
    /// In chunks.
    Chunks,
    /// Up to the end of the connection.
    Close,
    /// No more.
    Done,
}

/// A part of a body.
#[derive(Debug)]
pub enum Piece {
    /// Of a stream: a whole event.
    Event(Event),
    /// Of anything else.
    Bytes(Vec<u8>),
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
        let end = loop {
            if let Some(at) = raw.windows(4).position(|four| four == b"\r\n\r\n") {
                break at + 4;
            }
            if raw.len() > LONGEST_HEAD {
                return Err(io::Error::other("a head without end"));
            }
            if stream.read_buf(&mut raw).await? == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        };
        let body = raw.split_off(end);
        let head = String::from_utf8_lossy(&raw).into_owned();
        let mut lines = head.lines();
        let status = lines
            .next()
            .and_then(|line| line.split(' ').nth(1)?.parse().ok());
        let status = status.ok_or_else(|| io::Error::other("that is not HTTP"))?;
        let headers: Vec<(String, String)> = lines
            .filter_map(|line| line.split_once(':'))
            .map(|(name, value)| (name.trim().to_lowercase(), value.trim().to_owned()))
            .collect();
        let value = |wanted: &str| {
            headers
                .iter()
                .find(|(name, _)| name == wanted)
                .map(|(_, value)| value.as_str())
        };
        let framing = match (value("transfer-encoding"), value("content-length")) {
            _ if matches!(status, 204 | 304) => Framing::Done,
            (Some(coding), _) if coding.eq_ignore_ascii_case("chunked") => Framing::Chunks,
            (_, Some(length)) => Framing::Length(length.parse().unwrap_or(0)),
            _ => Framing::Close,
        };
        let is_stream =
            value("content-type").is_some_and(|kind| kind.starts_with("text/event-stream"));
        Ok(Reply {
            status,
            headers,
            stream,
            raw: body,
            body: Vec::new(),
            framing,
            is_stream,
        })
    }

    /// A header.
    pub fn header(&self, name: &str) -> Option<&str> {
        let name = name.to_lowercase();
        self.headers
            .iter()
            .find(|(other, _)| *other == name)
            .map(|(_, value)| value.as_str())
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
            self.unwrap_chunks()?;
            if !self.is_stream && !self.body.is_empty() {
                return Ok(Some(Piece::Bytes(std::mem::take(&mut self.body))));
            }
            if self.is_stream
                && let Some(event) = self.event()
            {
                return Ok(Some(Piece::Event(event)));
            }
            if matches!(self.framing, Framing::Done) {
                return Ok(None);
            }
            if self.stream.read_buf(&mut self.raw).await? == 0 {
                return match self.framing {
                    Framing::Close => Ok(None),
                    _ => Err(io::ErrorKind::UnexpectedEof.into()),
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
        }
        Ok(String::from_utf8_lossy(&all).into_owned())
    }

    /// The connection, whatever is left in it: to be broken off, or left alone.
    pub fn into_stream(self) -> TcpStream {
        self.stream
    }

    fn unwrap_chunks(&mut self) -> io::Result<()> {
        match self.framing {
            Framing::Length(left) => {
                let taken = left.min(self.raw.len());
                self.body.extend(self.raw.drain(..taken));
                self.framing = match left - taken {
                    0 => Framing::Done,
                    left => Framing::Length(left),
                };
            }
            Framing::Close => self.body.append(&mut self.raw),
            Framing::Done => {}
            Framing::Chunks => {
                while let Some(end) = self.raw.windows(2).position(|two| two == b"\r\n") {
                    let size = String::from_utf8_lossy(&self.raw[..end]).into_owned();
                    let size = size.split(';').next().unwrap_or_default().trim();
                    let size = usize::from_str_radix(size, 16)
                        .map_err(|_| io::Error::other("not a chunk"))?;
                    if size == 0 {
                        self.framing = Framing::Done;
                        break;
                    }
                    if self.raw.len() < end + 2 + size + 2 {
                        break;
                    }
                    self.body
                        .extend_from_slice(&self.raw[end + 2..end + 2 + size]);
                    self.raw.drain(..end + 2 + size + 2);
                }
            }
        }
        Ok(())
    }

    /// The next whole event, if it is there. Comments are nothing.
    fn event(&mut self) -> Option<Event> {
        let blank =
            |at: usize, gap: &[u8]| self.body[at..].starts_with(gap).then_some((at, gap.len()));
        let (end, gap) = (0..self.body.len())
            .find_map(|at| blank(at, b"\n\n").or_else(|| blank(at, b"\r\n\r\n")))?;
        let text = String::from_utf8_lossy(&self.body[..end]).into_owned();
        self.body.drain(..end + gap);
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
