//! One request, as it arrives.

use std::io::{BufRead, BufReader, Read};
use std::net::TcpStream;
use std::time::{Duration, Instant};

/// A longer head is refused by hanging up.
const LONGEST_HEAD: u64 = 64 << 10;
/// So is a longer body.
const LONGEST_BODY: usize = 32 << 20;

/// A request that arrived whole.
pub struct Request {
    pub method: String,
    pub body: Vec<u8>,
    headers: Vec<(String, String)>,
}

impl Request {
    /// Reads it, if it comes in time and whole.
    pub fn read(stream: &mut TcpStream, timeout: Duration) -> Option<Request> {
        let begun = Instant::now();
        stream.set_read_timeout(Some(timeout)).ok()?;
        let mut input = BufReader::new(stream);
        let mut head = input.by_ref().take(LONGEST_HEAD);
        let mut line = String::new();
        head.read_line(&mut line).ok().filter(|read| *read > 0)?;
        let method = line.split(' ').next()?.to_owned();
        let mut headers = Vec::new();
        loop {
            let mut line = String::new();
            head.read_line(&mut line).ok().filter(|read| *read > 0)?;
            match line.trim().split_once(':') {
                Some((name, value)) => headers.push((name.to_lowercase(), value.trim().to_owned())),
                None => break,
            }
        }
        let length = headers.iter().find(|(name, _)| name == "content-length");
        let length = length
            .and_then(|(_, value)| value.parse().ok())
            .unwrap_or(0);
        let mut body = vec![0; Some(length).filter(|length| *length <= LONGEST_BODY)?];
        input.read_exact(&mut body).ok()?;
        // The patience is for each piece, and for the whole.
        if begun.elapsed() > timeout {
            return None;
        }
        Some(Request {
            method,
            body,
            headers,
        })
    }

    /// A header, by its name in lower case.
    pub fn header(&self, name: &str) -> Option<&str> {
        let found = self.headers.iter().find(|(other, _)| other == name);
        found.map(|(_, value)| value.as_str())
    }
}
