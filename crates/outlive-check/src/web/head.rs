//! The first lines of a request or a reply.

use std::io;

use tokio::io::AsyncReadExt;
use tokio::net::TcpStream;

/// A head longer than this is none.
const LONGEST: usize = 64 << 10;

/// The first lines of a request or a reply.
#[derive(Clone, Debug)]
pub struct Head {
    /// What the whole is about.
    pub first: String,
    headers: Vec<(String, String)>,
}

impl Head {
    /// Reads it. What was read behind it is left in `raw`, which may hold something at first.
    pub async fn read(stream: &mut TcpStream, raw: &mut Vec<u8>) -> io::Result<Head> {
        let end = loop {
            if let Some(at) = raw.windows(4).position(|four| four == b"\r\n\r\n") {
                break at + 4;
            }
            if raw.len() > LONGEST {
                return Err(io::Error::other("a head without end"));
            }
            if stream.read_buf(raw).await? == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        };
        let head: Vec<u8> = raw.drain(..end).collect();
        let head = String::from_utf8_lossy(&head).into_owned();
        let mut lines = head.lines();
        let first = lines.next().unwrap_or_default().to_owned();
        let headers = lines
            .filter_map(|line| line.split_once(':'))
            .map(|(name, value)| (name.trim().to_lowercase(), value.trim().to_owned()))
            .collect();
        Ok(Head { first, headers })
    }

    /// A header.
    pub fn header(&self, name: &str) -> Option<&str> {
        let name = name.to_lowercase();
        self.headers
            .iter()
            .find(|(other, _)| *other == name)
            .map(|(_, value)| value.as_str())
    }
}
