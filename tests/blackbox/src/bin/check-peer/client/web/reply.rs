//! What a server over HTTP answers.

use std::io::{self, BufRead, BufReader, Read};
use std::net::TcpStream;

/// A response whose head has been read.
pub struct Reply {
    pub status: u16,
    headers: Vec<(String, String)>,
    body: BufReader<Unwrapped>,
}

/// An event of a stream.
#[derive(Default)]
pub struct Event {
    pub id: Option<String>,
    pub retry: Option<u64>,
    pub data: String,
}

impl Reply {
    /// Reads the head.
    pub fn read(stream: TcpStream) -> io::Result<Reply> {
        let mut input = BufReader::new(stream);
        let mut line = String::new();
        input.read_line(&mut line)?;
        let status = line.split(' ').nth(1).and_then(|word| word.parse().ok());
        let status = status.ok_or(io::ErrorKind::UnexpectedEof)?;
        let mut headers = Vec::new();
        loop {
            line.clear();
            input.read_line(&mut line)?;
            match line.trim().split_once(':') {
                Some((name, value)) => headers.push((name.to_lowercase(), value.trim().to_owned())),
                None => break,
            }
        }
        let header = |wanted: &str| headers.iter().find(|(name, _)| name == wanted);
        let length = header("content-length").and_then(|(_, value)| value.parse().ok());
        let framing = match header("transfer-encoding") {
            Some(_) => Framing::Chunks(0),
            None => length.map_or(Framing::Close, Framing::Length),
        };
        Ok(Reply {
            status,
            headers,
            body: BufReader::new(Unwrapped { input, framing }),
        })
    }

    /// A header, by its name in lower case.
    pub fn header(&self, name: &str) -> Option<&str> {
        let found = self.headers.iter().find(|(other, _)| other == name);
        found.map(|(_, value)| value.as_str())
    }

    /// Whether it is a stream of events.
    pub fn is_stream(&self) -> bool {
        let kind = self.header("content-type").unwrap_or_default();
        kind.starts_with("text/event-stream")
    }

    /// All of it.
    pub fn text(&mut self) -> io::Result<String> {
        let mut text = String::new();
        self.body.read_to_string(&mut text)?;
        Ok(text)
    }

    /// The next event; `one_line`: a client that takes every line for one.
    pub fn event(&mut self, one_line: bool) -> io::Result<Option<Event>> {
        let mut event = Event::default();
        let mut data: Vec<String> = Vec::new();
        let mut line = String::new();
        loop {
            line.clear();
            if self.body.read_line(&mut line)? == 0 {
                return Ok(None);
            }
            let field = line.trim_end_matches(['\r', '\n']);
            match field.split_once(':') {
                Some(("data", value)) => {
                    data.push(value.strip_prefix(' ').unwrap_or(value).to_owned());
                }
                Some(("id", value)) => event.id = Some(value.trim().to_owned()),
                Some(("retry", value)) => event.retry = value.trim().parse().ok(),
                _ => {}
            }
            if field.is_empty() || one_line && !data.is_empty() {
                event.data = data.join("\n");
                return Ok(Some(event));
            }
        }
    }
}

enum Framing {
    Length(usize),
    /// So much is left of the chunk.
    Chunks(usize),
    Close,
    Done,
}

/// A body without its wrapping.
struct Unwrapped {
    input: BufReader<TcpStream>,
    framing: Framing,
}

impl Unwrapped {
    fn chunk(&mut self) -> io::Result<()> {
        let mut line = String::new();
        while line.trim().is_empty() {
            line.clear();
            if self.input.read_line(&mut line)? == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        }
        let size = usize::from_str_radix(line.trim(), 16).map_err(io::Error::other)?;
        self.framing = match size {
            0 => Framing::Done,
            size => Framing::Chunks(size),
        };
        Ok(())
    }
}

impl Read for Unwrapped {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if let Framing::Chunks(0) = self.framing {
            self.chunk()?;
        }
        let left = match self.framing {
            Framing::Length(left) | Framing::Chunks(left) => left,
            Framing::Close => usize::MAX,
            Framing::Done => 0,
        };
        if left == 0 {
            return Ok(0);
        }
        let most = left.min(buffer.len());
        let read = self.input.read(&mut buffer[..most])?;
        match &mut self.framing {
            Framing::Length(_) | Framing::Chunks(_) if read == 0 => {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            Framing::Length(left) | Framing::Chunks(left) => *left -= read,
            Framing::Close | Framing::Done => {}
        }
        Ok(read)
    }
}
