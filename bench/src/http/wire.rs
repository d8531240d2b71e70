//! HTTP/1.1 as far as a load driver needs it: requests laid out once, replies found whole in the bytes as they come.

use std::io;

use memchr::memmem;

use crate::traffic::{FIRST_ID, ID_DIGITS, text};

/// Where requests go to, and as whom.
#[derive(Clone, Debug)]
pub struct Address {
    /// On the loopback.
    pub port: u16,
    /// The path of the endpoint.
    pub path: &'static str,
    /// The era of the protocol.
    pub era: Era,
    /// How the echo tool is called there.
    pub tool: &'static str,
    /// The session, once there is one.
    pub session: Option<String>,
}

/// How a client introduces itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Era {
    /// With a handshake (2025-06-18).
    Legacy,
    /// Each request speaks for itself (2026-07-28).
    Modern,
}

impl Era {
    /// The revision spoken.
    pub fn version(self) -> &'static str {
        match self {
            Era::Legacy => "2025-06-18",
            Era::Modern => "2026-07-28",
        }
    }
}

/// What a modern request says of itself.
const META: &str = "\"_meta\":{\"io.modelcontextprotocol/protocolVersion\":\"2026-07-28\",\
    \"io.modelcontextprotocol/clientInfo\":{\"name\":\"bench\",\"version\":\"1\"},\
    \"io.modelcontextprotocol/clientCapabilities\":{}},";

/// How a body begins.
const ID: &str = "{\"jsonrpc\":\"2.0\",\"id\":";

impl Address {
    /// A request with this body, which calls this method.
    pub fn post(&self, method: &str, body: &str) -> Vec<u8> {
        let mut head = self.head("POST");
        head += "Content-Type: application/json\r\nAccept: application/json, text/event-stream\r\n";
        if self.era == Era::Modern {
            head += &format!("Mcp-Method: {method}\r\n");
            if method == "tools/call" {
                head += &format!("Mcp-Name: {}\r\n", self.tool);
            }
        }
        head += &format!("Content-Length: {}\r\n\r\n{body}", body.len());
        head.into_bytes()
    }

    /// The end of a session.
    pub fn delete(&self) -> Vec<u8> {
        (self.head("DELETE") + "\r\n").into_bytes()
    }

    fn head(&self, verb: &str) -> String {
        let Address { port, path, .. } = self;
        let version = self.era.version();
        let mut head = format!(
            "{verb} {path} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nMCP-Protocol-Version: {version}\r\n"
        );
        if let Some(session) = &self.session {
            head += &format!("Mcp-Session-Id: {session}\r\n");
        }
        head
    }

    /// `initialize`.
    pub fn initialize(&self) -> Vec<u8> {
        self.post(
            "initialize",
            "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"initialize\",\"params\":{\
             \"protocolVersion\":\"2025-06-18\",\"capabilities\":{},\
             \"clientInfo\":{\"name\":\"bench\",\"version\":\"1\"}}}",
        )
    }

    /// `notifications/initialized`.
    pub fn initialized(&self) -> Vec<u8> {
        let method = "notifications/initialized";
        self.post(
            method,
            &format!("{{\"jsonrpc\":\"2.0\",\"method\":\"{method}\"}}"),
        )
    }

    /// `tools/list`.
    pub fn list_tools(&self) -> Vec<u8> {
        let method = "tools/list";
        self.post(
            method,
            &format!("{ID}1,\"method\":\"{method}\",\"params\":{{}}}}"),
        )
    }

    /// A call of the echo tool with this text.
    pub fn say(&self, id: u64, text: &str) -> Vec<u8> {
        self.say_to(self.tool, id, text)
    }

    /// The same to a tool of this name.
    pub fn say_to(&self, tool: &str, id: u64, text: &str) -> Vec<u8> {
        let meta = match self.era {
            Era::Legacy => "",
            Era::Modern => META,
        };
        let body = format!(
            "{ID}{id},\"method\":\"tools/call\",\"params\":{{{meta}\"name\":\"{tool}\",\
             \"arguments\":{{\"text\":\"{text}\"}}}}}}"
        );
        self.post("tools/call", &body)
    }

    /// Calls of the echo tool with a text of this size.
    pub fn call(&self, text_bytes: usize) -> Call {
        let bytes = self.say(FIRST_ID, &text(text_bytes));
        let body = memmem::find(&bytes, ID.as_bytes()).unwrap_or_default();
        Call {
            id_at: body + ID.len(),
            bytes,
            text: text_bytes,
        }
    }
}

/// A call, laid out but for its id.
#[derive(Clone)]
pub struct Call {
    bytes: Vec<u8>,
    id_at: usize,
    text: usize,
}

impl Call {
    /// The bytes of call `number`.
    pub fn stamp(&mut self, number: u64) -> &[u8] {
        let mut rest = FIRST_ID + number;
        let digits = &mut self.bytes[self.id_at..self.id_at + ID_DIGITS];
        for digit in digits.iter_mut().rev() {
            *digit = b'0' + (rest % 10) as u8;
            rest /= 10;
        }
        &self.bytes
    }

    /// Whether this is the answer to call `number`, with its text: in JSON, or in the events of a stream.
    pub fn check(&self, reply: &Reply<'_>, number: u64) -> io::Result<()> {
        let id = format!("\"id\":{}", FIRST_ID + number);
        let has = |what: &[u8]| memmem::find(&reply.body, what).is_some();
        let right = reply.status == 200
            && reply.body.len() >= self.text
            && has(b"\"result\":")
            && has(id.as_bytes())
            && !has(b"\"isError\":true");
        match right {
            true => Ok(()),
            false => Err(reply.wrong(&format!("no answer to call {id}"))),
        }
    }
}

/// A whole reply.
#[derive(Debug)]
pub struct Reply<'a> {
    /// Its status.
    pub status: u16,
    head: &'a [u8],
    /// Its body, in one piece.
    pub body: std::borrow::Cow<'a, [u8]>,
    /// How many bytes it took on the wire.
    pub length: usize,
}

impl<'a> Reply<'a> {
    /// The reply that these bytes begin with, if all of it is there.
    pub fn read(bytes: &'a [u8]) -> io::Result<Option<Reply<'a>>> {
        let Some(end) = memmem::find(bytes, b"\r\n\r\n") else {
            return Ok(None);
        };
        let (head, rest) = (&bytes[..end], &bytes[end + 4..]);
        let status = status(head).ok_or_else(|| broken("no status"))?;
        let (body, length) = if let Some(length) = field(head, "content-length") {
            let length = number(length, 10).ok_or_else(|| broken("no length"))?;
            match rest.get(..length) {
                Some(body) => (body.into(), length),
                None => return Ok(None),
            }
        } else if field(head, "transfer-encoding").is_some() {
            match chunks(rest)? {
                Some(found) => found,
                None => return Ok(None),
            }
        } else {
            // Neither is allowed for a reply without a body only.
            (b""[..].into(), 0)
        };
        Ok(Some(Reply {
            status,
            head,
            body,
            length: end + 4 + length,
        }))
    }

    /// The value of a header.
    pub fn header(&self, name: &str) -> Option<String> {
        field(self.head, name).map(|value| String::from_utf8_lossy(value).into_owned())
    }

    /// An error that shows what came instead of what was expected.
    pub fn wrong(&self, what: &str) -> io::Error {
        let shown = &self.body[..self.body.len().min(300)];
        io::Error::other(format!(
            "{what}: {} {}",
            self.status,
            String::from_utf8_lossy(shown)
        ))
    }
}

fn broken(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("a reply with {what}"))
}

/// The number in `HTTP/1.1 200 OK`.
fn status(head: &[u8]) -> Option<u16> {
    let digits = head.get(9..12)?;
    std::str::from_utf8(digits).ok()?.parse().ok()
}

fn field<'a>(head: &'a [u8], name: &str) -> Option<&'a [u8]> {
    head.split(|&byte| byte == b'\n').find_map(|line| {
        let colon = name.len();
        let found =
            line.get(colon) == Some(&b':') && line[..colon].eq_ignore_ascii_case(name.as_bytes());
        found.then(|| line[colon + 1..].trim_ascii())
    })
}

fn number(digits: &[u8], radix: u32) -> Option<usize> {
    usize::from_str_radix(std::str::from_utf8(digits).ok()?, radix).ok()
}

/// The body of a chunked reply and what it took on the wire; `None` if there is more to come.
fn chunks(bytes: &[u8]) -> io::Result<Option<(std::borrow::Cow<'_, [u8]>, usize)>> {
    let mut body = std::borrow::Cow::Borrowed(&b""[..]);
    let mut at = 0;
    loop {
        let Some(line) = memmem::find(&bytes[at..], b"\r\n") else {
            return Ok(None);
        };
        let size = number(&bytes[at..at + line], 16).ok_or_else(|| broken("no chunk size"))?;
        at += line + 2;
        let Some(chunk) = bytes
            .get(at..at + size)
            .filter(|_| bytes.len() >= at + size + 2)
        else {
            return Ok(None);
        };
        at += size + 2;
        match (size, body.is_empty()) {
            (0, _) => return Ok(Some((body, at))),
            (_, true) => body = chunk.into(),
            (_, false) => body.to_mut().extend_from_slice(chunk),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::traffic::ECHO;

    const PLAIN: &[u8] =
        b"HTTP/1.1 200 OK\r\ncontent-LENGTH: 5\r\nMcp-Session-Id: abc\r\n\r\nhello";
    const CHUNKED: &[u8] =
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nhel\r\nA\r\nlo, world!\r\n0\r\n\r\n";

    #[test]
    fn a_reply_is_found_once_all_of_it_is_there() {
        for (bytes, body) in [(PLAIN, &b"hello"[..]), (CHUNKED, b"hello, world!")] {
            for cut in 0..bytes.len() {
                assert!(
                    Reply::read(&bytes[..cut]).unwrap().is_none(),
                    "cut at {cut}"
                );
            }
            let reply = Reply::read(bytes).unwrap().unwrap();
            assert_eq!(
                (reply.status, &*reply.body, reply.length),
                (200, body, bytes.len())
            );
        }
        let reply = Reply::read(PLAIN).unwrap().unwrap();
        assert_eq!(reply.header("mcp-session-id").as_deref(), Some("abc"));
    }

    #[test]
    fn an_answer_has_its_id_its_result_and_its_text() {
        let address = Address {
            port: 1,
            path: "/mcp",
            era: Era::Legacy,
            tool: ECHO,
            session: None,
        };
        let call = address.call(40);
        let check = |body: &str| {
            let bytes = format!(
                "HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{body}",
                body.len()
            );
            let reply = Reply::read(bytes.as_bytes()).unwrap().unwrap();
            call.check(&reply, 7).is_ok()
        };
        assert!(check(
            "{\"id\":1000000007,\"result\":{\"text\":\"01234567890123456789\"}}"
        ));
        assert!(check(
            "data: {\"result\":\"01234567890123456789\",\"id\":1000000007}\n\n"
        ));
        assert!(!check(
            "{\"id\":1000000008,\"result\":{\"text\":\"01234567890123456789\"}}"
        ));
        assert!(!check(
            "{\"id\":1000000007,\"error\":{\"text\":\"01234567890123456789\"}}"
        ));
        assert!(!check("{\"id\":1000000007,\"result\":1}"));
    }
}
