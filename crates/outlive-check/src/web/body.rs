//! What follows a head, without its wrapping.

use std::io;

use super::head::Head;
use crate::lines::LONGEST;

/// What follows a head.
#[derive(Debug)]
pub struct Body {
    /// Read, but not looked at yet.
    pub raw: Vec<u8>,
    /// Without the wrapping of chunks.
    pub whole: Vec<u8>,
    framing: Framing,
}

/// How the end of a body is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Framing {
    /// So many bytes are to come.
    Length(usize),
    /// In chunks.
    Chunks,
    /// Up to the end of the connection.
    Close,
    /// No more.
    Done,
}

impl Framing {
    /// As the head tells, if it does.
    pub fn told(head: &Head) -> Option<Framing> {
        let coding = head.header("transfer-encoding");
        match (coding, head.header("content-length")) {
            (Some(coding), _) if coding.eq_ignore_ascii_case("chunked") => Some(Framing::Chunks),
            (_, Some(length)) => Some(Framing::Length(length.parse().unwrap_or(0))),
            _ => None,
        }
    }
}

impl Body {
    /// A body of which this was read with its head.
    pub fn new(raw: Vec<u8>, framing: Framing) -> Body {
        Body {
            raw,
            whole: Vec::new(),
            framing,
        }
    }

    /// Whether all of it was read.
    pub fn is_done(&self) -> bool {
        self.framing == Framing::Done
    }

    /// Whether the end of the connection is its end.
    pub fn ends_with_connection(&self) -> bool {
        self.framing == Framing::Close
    }

    /// Unwraps what was read.
    pub fn unwrap_raw(&mut self) -> io::Result<()> {
        match self.framing {
            Framing::Length(left) => {
                let taken = left.min(self.raw.len());
                self.whole.extend(self.raw.drain(..taken));
                self.framing = match left - taken {
                    0 => Framing::Done,
                    left => Framing::Length(left),
                };
            }
            Framing::Close => self.whole.append(&mut self.raw),
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
                    if size > LONGEST {
                        return Err(endless());
                    }
                    if self.raw.len() < end + 2 + size + 2 {
                        break;
                    }
                    self.whole
                        .extend_from_slice(&self.raw[end + 2..end + 2 + size]);
                    self.raw.drain(..end + 2 + size + 2);
                }
            }
        }
        // A program that babbles must not fill the memory.
        match self.raw.len().max(self.whole.len()) > LONGEST {
            true => Err(endless()),
            false => Ok(()),
        }
    }
}

fn endless() -> io::Error {
    io::Error::other("a body without end")
}
