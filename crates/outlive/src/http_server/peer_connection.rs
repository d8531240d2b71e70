//! A connection to another replica: HTTP/1.1, as far as one replica speaks it to another.
//!
//! The task of an exchange writes its request and reads its response itself. So there is no task of the connection to
//! be woken, the client's headers are written as they came, and a response that is there in one piece takes one read.
//! What cannot be understood ends the connection.

use std::future::poll_fn;
use std::io::{self, ErrorKind, Write};
use std::mem::MaybeUninit;
use std::pin::{Pin, pin};
use std::task::{Context, Poll, Waker, ready};

use bytes::Bytes;
use hyper::header::{
    CONNECTION, CONTENT_LENGTH, CONTENT_TYPE, DATE, HeaderMap, HeaderName, HeaderValue, TE,
    TRAILER, TRANSFER_ENCODING, UPGRADE,
};
use hyper::{Method, StatusCode};
use memchr::memchr;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::task::unconstrained;

use super::passport::FORWARD;
use super::peers::NoResponse;

/// What a buffer has room for at first.
const ROOM: usize = 4 << 10;

/// It grows up to this size while it is filled by single reads; a longer head is not understood.
const MOST: usize = 64 << 10;

/// Longer lines between chunks are not understood.
const LINE: usize = 1 << 10;

/// Headers of a response, at most.
const HEADERS: usize = 64;

/// A body this short is written together with its head.
const SHORT: usize = 16 << 10;

/// What carries the bytes.
pub(super) trait Stream: AsyncRead + AsyncWrite + Unpin + Send + Sync {}

impl<S: AsyncRead + AsyncWrite + Unpin + Send + Sync> Stream for S {}

/// A request as it is written.
pub(super) struct Outgoing {
    /// The head; with the body, if that is short.
    head: Vec<u8>,
    body: Bytes,
}

impl Outgoing {
    /// Those headers are to be the request's own: what belongs to one connection is the caller's to leave out.
    pub(super) fn new<'a>(
        method: &Method,
        path: [&str; 2],
        headers: impl Iterator<Item = (&'a HeaderName, &'a HeaderValue)>,
        mut body: Bytes,
    ) -> Outgoing {
        let mut head = Vec::with_capacity(1024 + body.len().min(SHORT));
        let mut put = |parts: &[&[u8]]| parts.iter().for_each(|it| head.extend_from_slice(it));
        let [base, path] = path.map(str::as_bytes);
        put(&[
            method.as_str().as_bytes(),
            b" ",
            base,
            path,
            b" HTTP/1.1\r\n",
        ]);
        for (name, value) in headers {
            put(&[name.as_str().as_bytes(), b": ", value.as_bytes(), b"\r\n"]);
        }
        if !body.is_empty() || method == Method::POST {
            let _ = write!(head, "content-length: {}\r\n", body.len());
        }
        head.extend_from_slice(b"\r\n");
        if body.len() <= SHORT {
            head.extend_from_slice(&body);
            body = Bytes::new();
        }
        Outgoing { head, body }
    }
}

/// The head of a response, without what belongs to its connection.
#[derive(Debug)]
pub(super) struct ResponseHead {
    pub(super) status: StatusCode,
    pub(super) headers: HeaderMap,
    /// What the replica says of the request itself.
    pub(super) said: Option<HeaderValue>,
}

/// What is still to come of a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Rest {
    Nothing,
    Length(u64),
    /// The size of a chunk.
    Size,
    /// So much of a chunk.
    Chunk(u64),
    /// The end of its line.
    ChunkEnd,
    /// What follows the last chunk.
    Trailer,
    /// All that comes until the connection ends.
    Everything,
}

/// A connection.
pub(super) struct Connection {
    stream: Pin<Box<dyn Stream>>,
    buffer: Vec<u8>,
    /// What of the buffer was read and not used up.
    start: usize,
    end: usize,
    rest: Rest,
    /// Another request may be written when the response was read.
    persists: bool,
    /// The request was not written to its end.
    is_cut: bool,
}

impl Connection {
    pub(super) fn new(stream: Pin<Box<dyn Stream>>) -> Connection {
        Connection {
            stream,
            buffer: vec![0; ROOM],
            start: 0,
            end: 0,
            rest: Rest::Nothing,
            persists: true,
            is_cut: false,
        }
    }

    /// Whether the response was read to its end, and another request may be written.
    pub(super) fn is_reusable(&self) -> bool {
        self.persists && !self.is_cut && self.rest == Rest::Nothing && self.start == self.end
    }

    /// Whether nothing has come since, the end included: nobody has asked for anything.
    pub(super) fn is_quiet(&mut self) -> bool {
        let mut cx = Context::from_waker(Waker::noop());
        // Whoever has used up its turn would be told that nothing has come.
        let reading = pin!(unconstrained(poll_fn(|cx| self.poll_fill(cx))));
        reading.poll(&mut cx).is_pending()
    }

    /// Writes a request, or as much of it as is taken: whoever refuses a long one may answer before it is there, and
    /// then take nothing more. Known not to have arrived only if nothing of it was written.
    pub(super) async fn write(&mut self, request: &Outgoing) -> Result<(), NoResponse> {
        let mut has_begun = false;
        for mut piece in [&request.head[..], &request.body] {
            while !piece.is_empty() {
                match poll_fn(|cx| self.poll_write(cx, piece)).await {
                    Some(length) => piece = &piece[length..],
                    None if has_begun => {
                        self.is_cut = true;
                        return Ok(());
                    }
                    None => return Err(NoResponse::Unreached),
                }
                has_begun = true;
            }
        }
        let flushed = poll_fn(|cx| self.stream.as_mut().poll_flush(cx)).await;
        self.is_cut = flushed.is_err();
        Ok(())
    }

    /// Writes once. `None` if nothing more is taken, or something is said before everything was.
    fn poll_write(&mut self, cx: &mut Context<'_>, piece: &[u8]) -> Poll<Option<usize>> {
        match self.stream.as_mut().poll_write(cx, piece) {
            Poll::Ready(written) => Poll::Ready(written.ok().filter(|it| *it > 0)),
            Poll::Pending => self.poll_fill(cx).map(|_| None),
        }
    }

    /// Reads the head of the response. Its body is to be [read](Connection::poll_body) before the next request.
    pub(super) async fn head(&mut self) -> io::Result<ResponseHead> {
        loop {
            match self.parse_head()? {
                // What is said before the response means nothing to us.
                Some(head) if head.status.is_informational() => continue,
                Some(head) => return Ok(head),
                None => poll_fn(|cx| self.poll_fill(cx)).await?,
            }
        }
    }

    fn parse_head(&mut self) -> io::Result<Option<ResponseHead>> {
        let mut fields = [const { MaybeUninit::uninit() }; HEADERS];
        let mut response = httparse::Response::new(&mut []);
        let bytes = &self.buffer[self.start..self.end];
        let parsed = httparse::ParserConfig::default().parse_response_with_uninit_headers(
            &mut response,
            bytes,
            &mut fields,
        );
        let length = match parsed {
            Ok(httparse::Status::Complete(length)) => length,
            Ok(httparse::Status::Partial) => return Ok(None),
            Err(_) => return Err(ErrorKind::InvalidData.into()),
        };
        let status = response.code.and_then(|it| StatusCode::from_u16(it).ok());
        let status = status.ok_or(ErrorKind::InvalidData)?;
        let mut head = ResponseHead {
            status,
            headers: HeaderMap::new(),
            said: None,
        };
        let (mut announced, mut is_chunked) = (None, false);
        self.persists = response.version == Some(1);
        for field in &*response.headers {
            let name = HeaderName::from_bytes(field.name.as_bytes());
            let name = name.map_err(|_| ErrorKind::InvalidData)?;
            match name {
                CONTENT_LENGTH => {
                    let length = number(field.value, 10).ok_or(ErrorKind::InvalidData)?;
                    if announced.replace(length).is_some_and(|it| it != length) {
                        return Err(ErrorKind::InvalidData.into());
                    }
                }
                TRANSFER_ENCODING if field.value.eq_ignore_ascii_case(b"chunked") => {
                    is_chunked = true;
                }
                TRANSFER_ENCODING => return Err(ErrorKind::InvalidData.into()),
                CONNECTION => self.persists &= field.value.eq_ignore_ascii_case(b"keep-alive"),
                // The connection's own; whoever hands the response on has a clock, too.
                TE | TRAILER | UPGRADE | DATE => {}
                name if name == "keep-alive" => {}
                name if name == FORWARD => head.said = Some(value(field.value)?),
                CONTENT_TYPE if field.value == b"application/json" => {
                    let json = HeaderValue::from_static("application/json");
                    head.headers.append(CONTENT_TYPE, json);
                }
                name => {
                    head.headers.append(name, value(field.value)?);
                }
            }
        }
        self.rest = match (status, announced, is_chunked) {
            (_, Some(_), true) => return Err(ErrorKind::InvalidData.into()),
            (StatusCode::NO_CONTENT | StatusCode::NOT_MODIFIED, ..) => Rest::Nothing,
            (status, ..) if status.is_informational() => Rest::Nothing,
            (_, None, true) => Rest::Size,
            (_, Some(0), false) => Rest::Nothing,
            (_, Some(length), false) => Rest::Length(length),
            (_, None, false) => Rest::Everything,
        };
        self.persists &= self.rest != Rest::Everything;
        self.start += length;
        Ok(Some(head))
    }

    /// How much of the body is still to come, if that is known.
    pub(super) fn length(&self) -> Option<u64> {
        match self.rest {
            Rest::Nothing => Some(0),
            Rest::Length(length) => Some(length),
            _ => None,
        }
    }

    /// The next piece of the body; `None` at its end.
    pub(super) fn poll_body(&mut self, cx: &mut Context<'_>) -> Poll<Option<io::Result<Bytes>>> {
        loop {
            match self.next_piece() {
                Ok(Next::Piece(piece)) => return Poll::Ready(Some(Ok(piece))),
                Ok(Next::End) => return Poll::Ready(None),
                Ok(Next::More) => {}
                Err(error) => return Poll::Ready(Some(Err(error))),
            }
            match ready!(self.poll_fill(cx)) {
                Ok(()) => {}
                Err(error) if error.kind() == ErrorKind::UnexpectedEof => {
                    let is_end = self.rest == Rest::Everything;
                    self.rest = Rest::Nothing;
                    return Poll::Ready((!is_end).then_some(Err(error)));
                }
                Err(error) => return Poll::Ready(Some(Err(error))),
            }
        }
    }

    fn next_piece(&mut self) -> io::Result<Next> {
        loop {
            let here = &self.buffer[self.start..self.end];
            match self.rest {
                Rest::Nothing => return Ok(Next::End),
                _ if here.is_empty() => return Ok(Next::More),
                Rest::Everything => {
                    let piece = Bytes::copy_from_slice(here);
                    self.start = self.end;
                    return Ok(Next::Piece(piece));
                }
                Rest::Length(left) | Rest::Chunk(left) => {
                    let length = here.len().min(usize::try_from(left).unwrap_or(usize::MAX));
                    let piece = Bytes::copy_from_slice(&here[..length]);
                    self.start += length;
                    self.rest = match (self.rest, left - length as u64) {
                        (Rest::Length(_), 0) => Rest::Nothing,
                        (Rest::Length(_), left) => Rest::Length(left),
                        (_, 0) => Rest::ChunkEnd,
                        (_, left) => Rest::Chunk(left),
                    };
                    return Ok(Next::Piece(piece));
                }
                Rest::Size | Rest::ChunkEnd | Rest::Trailer => {
                    let Some(length) = memchr(b'\n', here) else {
                        return match here.len() < LINE {
                            true => Ok(Next::More),
                            false => Err(ErrorKind::InvalidData.into()),
                        };
                    };
                    let line = here[..length].strip_suffix(b"\r");
                    let line = line.ok_or(ErrorKind::InvalidData)?;
                    self.rest = match self.rest {
                        Rest::Size => {
                            let size = line.split(|it| *it == b';').next().unwrap_or_default();
                            match number(size.trim_ascii_end(), 16).ok_or(ErrorKind::InvalidData)? {
                                0 => Rest::Trailer,
                                size => Rest::Chunk(size),
                            }
                        }
                        Rest::ChunkEnd if line.is_empty() => Rest::Size,
                        Rest::Trailer if line.is_empty() => Rest::Nothing,
                        // Trailers are none of our business.
                        Rest::Trailer => Rest::Trailer,
                        _ => return Err(ErrorKind::InvalidData.into()),
                    };
                    self.start += length + 1;
                }
            }
        }
    }

    /// Reads once. An error if there is nothing more.
    fn poll_fill(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.start == self.end {
            (self.start, self.end) = (0, 0);
        }
        if self.end == self.buffer.len() && self.start > 0 {
            self.buffer.copy_within(self.start..self.end, 0);
            (self.start, self.end) = (0, self.end - self.start);
        }
        if self.end == self.buffer.len() {
            if self.buffer.len() >= MOST {
                return Poll::Ready(Err(ErrorKind::InvalidData.into()));
            }
            self.buffer.resize(self.buffer.len() * 2, 0);
        }
        let mut room = ReadBuf::new(&mut self.buffer[self.end..]);
        ready!(self.stream.as_mut().poll_read(cx, &mut room))?;
        let (length, is_full) = (room.filled().len(), room.remaining() == 0);
        if length == 0 {
            return Poll::Ready(Err(ErrorKind::UnexpectedEof.into()));
        }
        self.end += length;
        // There is more than the buffer has room for.
        if is_full && self.buffer.len() < MOST {
            self.buffer.resize(self.buffer.len() * 2, 0);
        }
        Poll::Ready(Ok(()))
    }
}

/// What of a body is in the buffer.
enum Next {
    Piece(Bytes),
    /// Nothing that could be handed on.
    More,
    End,
}

fn value(bytes: &[u8]) -> io::Result<HeaderValue> {
    HeaderValue::from_bytes(bytes).map_err(|_| ErrorKind::InvalidData.into())
}

/// A number that is digits and nothing else.
fn number(digits: &[u8], radix: u32) -> Option<u64> {
    let digits = std::str::from_utf8(digits).ok()?;
    let is_number = digits.chars().all(|it| it.is_digit(radix));
    is_number.then(|| u64::from_str_radix(digits, radix).ok())?
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex};

    use super::*;

    /// What is read of a response that comes in pieces of this size, and whether its connection may be used again.
    async fn read(response: &[u8], pieces: usize) -> io::Result<(ResponseHead, Vec<u8>, bool)> {
        let (ours, mut theirs) = duplex(1 << 20);
        let response = response.to_vec();
        let sending = tokio::spawn(async move {
            for piece in response.chunks(pieces) {
                theirs.write_all(piece).await.expect("written");
                tokio::task::yield_now().await;
            }
        });
        let mut connection = Connection::new(Box::pin(ours));
        let head = connection.head().await?;
        let mut body = Vec::new();
        while let Some(piece) = poll_fn(|cx| connection.poll_body(cx)).await {
            body.extend_from_slice(&piece?);
        }
        sending.await.expect("sent");
        Ok((head, body, connection.is_reusable()))
    }

    const SIZED: &str = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\noutlive-forward: answered\r\n\
                         content-length: 5\r\ndate: today\r\n\r\nhello";
    const CHUNKED: &str = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n\
                           3\r\nhel\r\nA;x=y\r\nlo, world!\r\n0\r\nx: y\r\n\r\n";

    #[tokio::test]
    async fn a_response_is_read_however_it_is_cut() {
        for pieces in 1..=CHUNKED.len() {
            let (head, body, again) = read(SIZED.as_bytes(), pieces).await.expect("read");
            assert_eq!(
                (head.status, &body[..], again),
                (StatusCode::OK, &b"hello"[..], true)
            );
            assert_eq!(head.said, Some(HeaderValue::from_static("answered")));
            assert_eq!(head.headers.len(), 1, "{:?}", head.headers);
            let (head, body, again) = read(CHUNKED.as_bytes(), pieces).await.expect("read");
            assert_eq!((&body[..], again), (&b"hello, world!"[..], true));
            assert_eq!(head.headers[CONTENT_TYPE], "text/event-stream");
        }
    }

    #[tokio::test]
    async fn a_long_body_is_read_to_its_end_and_no_further() {
        let body: Vec<u8> = (0..300_000).map(|it| (it % 251) as u8).collect();
        let mut response =
            b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\ncontent-length: 300000\r\n\r\n"
                .to_vec();
        response.extend_from_slice(&body);
        let (_, found, again) = read(&response, 7000).await.expect("read");
        assert!(found == body && again);
        let until_end = b"HTTP/1.1 200 OK\r\n\r\nhello";
        let (_, found, again) = read(until_end, 100).await.expect("read");
        assert_eq!((&found[..], again), (&b"hello"[..], false));
        let closing = SIZED.replace("date: today", "connection: close");
        assert!(!read(closing.as_bytes(), 100).await.expect("read").2);
        let older = SIZED.replace("HTTP/1.1", "HTTP/1.0");
        assert!(!read(older.as_bytes(), 100).await.expect("read").2);
        let more = format!("{SIZED}more");
        assert!(!read(more.as_bytes(), 200).await.expect("read").2);
    }

    #[tokio::test]
    async fn what_cannot_be_understood_is_refused() {
        let head = "HTTP/1.1 200 OK\r\n";
        let chunked = format!("{head}transfer-encoding: chunked\r\n\r\n");
        for (wrong, kind) in [
            ("SSH-2.0-OpenSSH\r\n".into(), ErrorKind::InvalidData),
            (
                format!("{head}content-length: 5\r\n\r\nhell"),
                ErrorKind::UnexpectedEof,
            ),
            (
                format!("{head}content-length: +5\r\n\r\nhello"),
                ErrorKind::InvalidData,
            ),
            (
                format!("{head}content-length: 5\r\ncontent-length: 6\r\n\r\n"),
                ErrorKind::InvalidData,
            ),
            (
                format!("{head}content-length: 5\r\ntransfer-encoding: chunked\r\n\r\n"),
                ErrorKind::InvalidData,
            ),
            (
                format!("{head}transfer-encoding: gzip, chunked\r\n\r\n"),
                ErrorKind::InvalidData,
            ),
            (
                format!("{head}x: {}\r\n\r\n", "y".repeat(MOST)),
                ErrorKind::InvalidData,
            ),
            (format!("{chunked}x\r\n"), ErrorKind::InvalidData),
            (format!("{chunked}\r\n"), ErrorKind::InvalidData),
            (format!("{chunked}3\nhel\r\n"), ErrorKind::InvalidData),
            (format!("{chunked}3\r\nhello\r\n"), ErrorKind::InvalidData),
            (format!("{chunked}3\r\nhel\r\n"), ErrorKind::UnexpectedEof),
            (format!("{chunked}0\r\n"), ErrorKind::UnexpectedEof),
            (
                format!("{chunked}{}", "0".repeat(LINE)),
                ErrorKind::InvalidData,
            ),
            (
                format!("{chunked}10000000000000000\r\n"),
                ErrorKind::InvalidData,
            ),
        ] {
            let refused = read(wrong.as_bytes(), 1 << 20).await.map(|_| ());
            assert_eq!(refused.map_err(|it| it.kind()), Err(kind), "{wrong}");
        }
    }

    #[tokio::test]
    async fn a_long_request_may_be_refused_before_it_is_there() {
        // Whoever refuses it stays, or goes: then the end is all that follows the response.
        for stays in [true, false] {
            let (ours, mut theirs) = duplex(4 << 10);
            let request = Outgoing::new(
                &Method::POST,
                ["", "/mcp"],
                HeaderMap::new().iter(),
                vec![b'x'; 1 << 20].into(),
            );
            let refusing = tokio::spawn(async move {
                theirs.read_exact(&mut [0; 1000]).await.expect("a head");
                let refusal = b"HTTP/1.1 421 Misdirected Request\r\ncontent-length: 2\r\n\r\nno";
                theirs.write_all(refusal).await.expect("written");
                stays.then_some(theirs)
            });
            let mut connection = Connection::new(Box::pin(ours));
            connection.write(&request).await.expect("begun");
            let head = connection.head().await.expect("a refusal");
            assert_eq!(head.status, StatusCode::MISDIRECTED_REQUEST);
            let body = poll_fn(|cx| connection.poll_body(cx)).await;
            assert_eq!(body.expect("a body").expect("read"), &b"no"[..]);
            assert!(!connection.is_reusable());
            drop(refusing.await);
        }
    }

    #[tokio::test]
    async fn a_request_is_written_as_it_is() {
        for length in [0, 5, SHORT + 1] {
            let (ours, mut theirs) = duplex(1 << 20);
            let mut connection = Connection::new(Box::pin(ours));
            assert!(connection.is_quiet());
            let body = vec![b'x'; length];
            let headers = HeaderMap::from_iter([(CONTENT_TYPE, HeaderValue::from_static("a/b"))]);
            let path = ["/base", "/mcp?x=y"];
            let request = Outgoing::new(&Method::POST, path, headers.iter(), body.clone().into());
            connection.write(&request).await.expect("written");
            let head = format!(
                "POST /base/mcp?x=y HTTP/1.1\r\ncontent-type: a/b\r\ncontent-length: {length}\r\n\r\n"
            );
            let mut found = vec![0; head.len() + length];
            theirs.read_exact(&mut found).await.expect("read");
            assert!(found == [head.as_bytes(), &body].concat());
            drop(theirs);
            assert!(!connection.is_quiet());
            assert_eq!(connection.write(&request).await, Err(NoResponse::Unreached));
        }
    }
}
