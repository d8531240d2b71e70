//! What a client asks, as its server reads it.

use std::io::{self, BufRead, Read};

use crate::body::{Body, Framing};
use crate::head::Head;

/// A longer body is refused.
const LONGEST: u64 = 32 << 20;

/// A request that has come whole.
#[derive(Clone, Debug)]
pub struct Request {
    /// `GET`, `POST`, `DELETE`.
    pub method: String,
    /// Where it goes to.
    pub path: String,
    /// Its body.
    pub body: Vec<u8>,
    head: Head,
}

impl Request {
    /// Reads it, and nothing behind it. One that breaks off, or is endless, is an error.
    pub fn read(input: &mut impl BufRead) -> io::Result<Request> {
        let head = Head::read(input)?;
        let mut words = head.first.split(' ').map(str::to_owned);
        let (Some(method), Some(path)) = (words.next(), words.next()) else {
            return Err(io::Error::other(format!("no request: {:?}", head.first)));
        };
        let framing = Framing::told(&head)?.unwrap_or(Framing::Done);
        let mut body = Vec::new();
        Body::new(input, framing)
            .take(LONGEST + 1)
            .read_to_end(&mut body)?;
        match body.len() as u64 > LONGEST {
            true => Err(io::Error::other("a body without end")),
            false => Ok(Request {
                method,
                path,
                body,
                head,
            }),
        }
    }

    /// The value of a header, whose name may be in any case.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.head.header(name)
    }
}
