//! A client of the transport that was before Streamable HTTP: requests are posted, and answered in one stream of
//! events. One of the peers has no other for many servers.

use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, TcpStream};
use std::time::{Duration, Instant};

use memchr::memmem;

/// Only a hang takes this long.
const PATIENCE: Duration = Duration::from_secs(60);

/// A session.
pub struct EventStream {
    port: u16,
    events: TcpStream,
    /// Where requests are posted.
    endpoint: String,
    seen: Vec<u8>,
    next_id: u64,
}

impl EventStream {
    /// Opens the stream, as soon as the peer lets us: it may listen before it has anything to serve.
    pub fn open(port: u16, path: &str) -> io::Result<EventStream> {
        let begun = Instant::now();
        loop {
            match EventStream::attempt(port, path) {
                Ok(stream) => return Ok(stream),
                Err(error) if begun.elapsed() > PATIENCE => return Err(error),
                Err(_) => std::thread::sleep(Duration::from_millis(2)),
            }
        }
    }

    fn attempt(port: u16, path: &str) -> io::Result<EventStream> {
        let mut events = TcpStream::connect((Ipv4Addr::LOCALHOST, port))?;
        events.set_nodelay(true)?;
        events.set_read_timeout(Some(PATIENCE))?;
        let head = "Accept: text/event-stream\r\nConnection: keep-alive";
        write!(
            events,
            "GET {path} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n{head}\r\n\r\n"
        )?;
        let mut stream = EventStream {
            port,
            events,
            endpoint: String::new(),
            seen: Vec::new(),
            next_id: 1,
        };
        let data = b"data: ";
        let event = stream.until(|seen| {
            let start = memmem::find(seen, data)? + data.len();
            let end = memchr::memchr(b'\n', &seen[start..])?;
            Some((start, start + end))
        })?;
        stream.endpoint = event.trim().to_owned();
        Ok(stream)
    }

    /// Reads until something is found; that is taken out, and all before it.
    fn until(&mut self, find: impl Fn(&[u8]) -> Option<(usize, usize)>) -> io::Result<String> {
        let mut buffer = vec![0; 256 * 1024];
        loop {
            if let Some((start, end)) = find(&self.seen) {
                let found = String::from_utf8_lossy(&self.seen[start..end]).into_owned();
                self.seen.drain(..end);
                return Ok(found);
            }
            if memmem::find(&self.seen, b"HTTP/1.1 200").is_none() && self.seen.starts_with(b"HTTP")
            {
                return Err(io::Error::other("no stream"));
            }
            match self.events.read(&mut buffer)? {
                0 => return Err(io::Error::from(io::ErrorKind::UnexpectedEof)),
                count => self.seen.extend_from_slice(&buffer[..count]),
            }
        }
    }

    fn post(&self, body: &str) -> io::Result<()> {
        let EventStream { port, endpoint, .. } = self;
        let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, *port))?;
        stream.set_read_timeout(Some(PATIENCE))?;
        write!(
            stream,
            "POST {endpoint} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nContent-Type: application/json\r\n\
             Connection: close\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        )?;
        let mut reply = String::new();
        stream.read_to_string(&mut reply)?;
        match reply.starts_with("HTTP/1.1 202") {
            true => Ok(()),
            false => Err(io::Error::other(format!("not accepted: {reply}"))),
        }
    }

    /// Makes a request and waits for its answer.
    pub fn request(&mut self, method: &str, params: &str) -> io::Result<String> {
        let id = self.next_id;
        self.next_id += 1;
        self.post(&format!(
            "{{\"jsonrpc\":\"2.0\",\"id\":{id},\"method\":\"{method}\",\"params\":{params}}}"
        ))?;
        // Requests are made one at a time, so the next event with an id answers this one.
        let mark = format!("\"id\":{id}");
        self.until(|seen| {
            let at = memmem::find(seen, mark.as_bytes())?;
            let start = memmem::rfind(&seen[..at], b"data: ")?;
            let end = memmem::find(&seen[start..], b"\n\n")?;
            Some((start, start + end))
        })
    }

    /// `initialize` and `initialized`.
    pub fn initialize(&mut self) -> io::Result<()> {
        self.request(
            "initialize",
            "{\"protocolVersion\":\"2025-06-18\",\"capabilities\":{},\
             \"clientInfo\":{\"name\":\"bench\",\"version\":\"1\"}}",
        )?;
        self.post("{\"jsonrpc\":\"2.0\",\"method\":\"notifications/initialized\"}")
    }
}
