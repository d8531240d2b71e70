//! What follows a head, without its wrapping.

use std::io::{self, BufRead, Read};

use crate::head::Head;

/// How the end of a body is known.
pub(crate) enum Framing {
    /// So many bytes are left.
    Length(usize),
    /// So many bytes are left of the present chunk.
    Chunks(usize),
    /// It ends with the connection.
    Close,
    /// Nothing is left.
    Done,
}

impl Framing {
    /// As the head tells, if it does.
    pub fn told(head: &Head) -> io::Result<Option<Framing>> {
        if head.header("transfer-encoding").is_some() {
            return Ok(Some(Framing::Chunks(0)));
        }
        let Some(length) = head.header("content-length") else {
            return Ok(None);
        };
        let length = length.parse().map_err(io::Error::other)?;
        Ok(Some(Framing::Length(length)))
    }
}

/// Reads a body. One that breaks off is an error.
pub(crate) struct Body<R> {
    input: R,
    framing: Framing,
}

impl<R: BufRead> Body<R> {
    /// Reads the body that comes next.
    pub fn new(input: R, framing: Framing) -> Body<R> {
        Body { input, framing }
    }

    /// Reads the size of the next chunk.
    fn chunk(&mut self) -> io::Result<()> {
        let mut line = String::new();
        // A chunk ends with an empty line.
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

impl<R: BufRead> Read for Body<R> {
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

#[cfg(test)]
mod tests {
    use super::*;

    fn read(bytes: &[u8], framing: Framing) -> io::Result<String> {
        let mut text = String::new();
        Body::new(bytes, framing).read_to_string(&mut text)?;
        Ok(text)
    }

    #[test]
    fn a_body_ends_where_its_head_says() {
        let chunks = b"3\r\nhel\r\nA\r\nlo, world!\r\n0\r\n\r\nmore";
        assert_eq!(read(chunks, Framing::Chunks(0)).unwrap(), "hello, world!");
        assert_eq!(read(b"hello, world!", Framing::Length(5)).unwrap(), "hello");
        assert_eq!(read(b"hello", Framing::Close).unwrap(), "hello");
        assert_eq!(read(b"hello", Framing::Done).unwrap(), "");
    }

    #[test]
    fn a_body_that_breaks_off_is_an_error() {
        let chunks = b"3\r\nhel\r\nA\r\nlo, world!\r\n0\r\n";
        for end in 0..chunks.len() - 3 {
            assert!(
                read(&chunks[..end], Framing::Chunks(0)).is_err(),
                "cut at {end}"
            );
        }
        assert!(read(b"hell", Framing::Length(5)).is_err());
    }
}
