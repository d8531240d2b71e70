//! The first lines of a request or a response.

use std::io::{self, BufRead, Read};

/// A longer head is none.
const LONGEST: u64 = 64 << 10;

/// The first lines of a request or a response.
#[derive(Clone, Debug)]
pub struct Head {
    /// The line before all headers.
    pub first: String,
    headers: Vec<(String, String)>,
}

impl Head {
    /// Reads it, and nothing behind it. A head that breaks off is an error.
    pub fn read(input: &mut impl BufRead) -> io::Result<Head> {
        let mut input = input.take(LONGEST);
        let mut line = || {
            let mut line = String::new();
            match input.read_line(&mut line)? {
                0 => Err(io::Error::from(io::ErrorKind::UnexpectedEof)),
                _ => Ok(line.trim_end().to_owned()),
            }
        };
        let first = line()?;
        let mut headers = Vec::new();
        while let Some((name, value)) = line()?.split_once(':') {
            headers.push((name.to_owned(), value.trim().to_owned()));
        }
        Ok(Head { first, headers })
    }

    /// The value of a header, whose name may be in any case.
    pub fn header(&self, name: &str) -> Option<&str> {
        let found = self
            .headers
            .iter()
            .find(|(other, _)| other.eq_ignore_ascii_case(name));
        found.map(|(_, value)| value.as_str())
    }
}
