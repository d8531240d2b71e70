//! The server behind every contender: one tool, `echo`, which returns its argument.
//!
//! It has to be so fast that the proxy in front of it is what is measured. A line is scanned once, in place, for the
//! few spans an answer is made of; no JSON tree is built, and the text is copied as it stands, escapes and all. All
//! answers to what one read brought leave in one write.
//!
//! `--start-delay 200ms` makes it slow to start, as servers in real life are. `--call-delay 200ms` makes the tool slow:
//! any number of calls can be waiting. With `--modern` it answers `server/discover` and needs no handshake
//! (2026-07-28); without, it has never heard of that. With `--tools 50` there are 49 more in its list, each as large as
//! those of real servers are; all of them echo. `--name` is its name, which tells commands apart; with
//! `--own-names` the names of its tools begin with that.

#![forbid(unsafe_code)]

use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, IoSlice, Read, Write};
use std::ops::Range;
use std::os::fd::AsFd;
use std::process::exit;
use std::time::{Duration, Instant};
use std::{env, thread};

use rustix::event::{PollFd, PollFlags, Timespec, poll};

/// A text from this size on is written from where it was read instead of being copied first.
const COPY_LIMIT: usize = 16 * 1024;

/// What is read at once. A pipe holds 64 KiB; a host may have made its own larger.
const CHUNK: usize = 256 * 1024;

fn main() -> io::Result<()> {
    let Options {
        start_delay,
        call_delay,
        modern,
        tools,
        name,
        own_names,
    } = Options::read();
    let prefix = if own_names { &name } else { "" };
    let about = About {
        modern,
        initialized: initialized(&name),
        tools: listed(tools, prefix),
    };
    thread::sleep(start_delay);
    let mut input = File::from(io::stdin().as_fd().try_clone_to_owned()?);
    let mut output = Output::new(File::from(io::stdout().as_fd().try_clone_to_owned()?));
    let mut waiting = Waiting::new(call_delay);
    let mut buffer = vec![0; CHUNK];
    let (mut start, mut end) = (0, 0);
    loop {
        if buffer.len() - end < CHUNK {
            if start > 0 {
                buffer.copy_within(start..end, 0);
                (start, end) = (0, end - start);
            }
            if buffer.len() - end < CHUNK {
                buffer.resize(buffer.len() * 2, 0);
            }
        }
        waiting.answer_until_readable(&input, &mut output, &about)?;
        let count = match input.read(&mut buffer[end..]) {
            Ok(0) => return Ok(()),
            Ok(count) => count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(error),
        };
        let mut searched = end;
        end += count;
        while let Some(at) = memchr::memchr(b'\n', &buffer[searched..end]) {
            let line = &buffer[start..searched + at];
            match Request::read(line) {
                Some(request) if waiting.has_to(line, &request) => waiting.add(line),
                Some(request) => answer(line, request, &mut output, &about)?,
                // What is not a request needs no answer.
                None => {}
            }
            searched += at + 1;
            start = searched;
        }
        if start == end {
            (start, end) = (0, 0);
        }
        output.flush()?;
    }
}

/// What the command line asks for.
struct Options {
    start_delay: Duration,
    call_delay: Duration,
    modern: bool,
    tools: usize,
    name: String,
    own_names: bool,
}

/// What it says of itself.
struct About {
    modern: bool,
    /// The result of `initialize` behind the version.
    initialized: Vec<u8>,
    /// The tools, as a JSON array.
    tools: Vec<u8>,
}

fn initialized(name: &str) -> Vec<u8> {
    let result = format!(
        "\",\"capabilities\":{{\"tools\":{{}}}},\
         \"serverInfo\":{{\"name\":\"{name}\",\"version\":\"1.0.0\"}}}}}}\n"
    );
    result.into_bytes()
}

fn listed(count: usize, prefix: &str) -> Vec<u8> {
    let mut tools = format!(
        "[{{\"name\":\"{prefix}echo\",\"description\":\"Returns its argument.\",\
         \"inputSchema\":{{\"type\":\"object\",\"properties\":{{\"text\":{{\"type\":\"string\"}}}},\
         \"required\":[\"text\"]}}}}"
    );
    for number in 1..count {
        tools += &format!(
            ",{{\"name\":\"{prefix}echo_{number:04}\",\"description\":\"Returns its argument as it was given, byte for byte, \
             and ignores whatever else it is told.\",\"inputSchema\":{{\"type\":\"object\",\"properties\":{{\
             \"text\":{{\"type\":\"string\",\"description\":\"What is to be returned\"}},\"limit\":{{\
             \"type\":\"integer\",\"minimum\":1,\"description\":\"How much of it\"}}}},\"required\":[\"text\"]}}}}"
        );
    }
    (tools + "]").into_bytes()
}

impl Options {
    fn read() -> Options {
        let mut options = Options {
            start_delay: Duration::ZERO,
            call_delay: Duration::ZERO,
            modern: false,
            tools: 1,
            name: "echo".into(),
            own_names: false,
        };
        let mut words = env::args().skip(1);
        while let Some(word) = words.next() {
            let delay = |word: Option<String>| {
                let milliseconds = word?.strip_suffix("ms")?.parse().ok()?;
                Some(Duration::from_millis(milliseconds))
            };
            let known = match word.as_str() {
                "--start-delay" => delay(words.next()).map(|delay| options.start_delay = delay),
                "--call-delay" => delay(words.next()).map(|delay| options.call_delay = delay),
                "--name" => words.next().map(|name| options.name = name),
                "--tools" => {
                    let count = words.next().and_then(|count| count.parse().ok());
                    count.map(|count| options.tools = count)
                }
                "--own-names" => Some(true).map(|yes| options.own_names = yes),
                "--modern" => Some(true).map(|yes| options.modern = yes),
                _ => None,
            };
            if known.is_none() {
                eprintln!(
                    "usage: echo [--start-delay Nms] [--call-delay Nms] [--modern] [--tools N] [--name NAME] [--own-names]"
                );
                exit(1);
            }
        }
        options
    }
}

/// Calls that are being waited with, if calls are to take time. All take the same, so they are due in order.
struct Waiting {
    delay: Duration,
    lines: VecDeque<(Instant, Vec<u8>)>,
}

impl Waiting {
    fn new(delay: Duration) -> Waiting {
        Waiting {
            delay,
            lines: VecDeque::new(),
        }
    }

    fn has_to(&self, line: &[u8], request: &Request) -> bool {
        !self.delay.is_zero() && &line[request.method.clone()] == b"tools/call"
    }

    fn add(&mut self, line: &[u8]) {
        self.lines
            .push_back((Instant::now() + self.delay, line.to_vec()));
    }

    /// Answers what is due until there is something to read.
    fn answer_until_readable(
        &mut self,
        input: &File,
        output: &mut Output,
        about: &About,
    ) -> io::Result<()> {
        while let Some((due, line)) = self.lines.front() {
            let left = due.saturating_duration_since(Instant::now());
            if left.is_zero() {
                if let Some(request) = Request::read(line) {
                    answer(line, request, output, about)?;
                }
                self.lines.pop_front();
                continue;
            }
            output.flush()?;
            let left = Timespec {
                tv_sec: left.as_secs() as i64,
                tv_nsec: left.subsec_nanos().into(),
            };
            let mut wanted = [PollFd::new(input, PollFlags::IN)];
            match poll(&mut wanted, Some(&left)) {
                Ok(0) | Err(rustix::io::Errno::INTR) => {}
                Ok(_) => break,
                Err(error) => return Err(error.into()),
            }
        }
        output.flush()
    }
}

/// Answers the request in a line.
fn answer(line: &[u8], request: Request, output: &mut Output, about: &About) -> io::Result<()> {
    let modern = about.modern;
    // Every result of 2026-07-28 says that it is one; what was before ignores it.
    let complete: &[u8] = match modern {
        true => b"\"resultType\":\"complete\",",
        false => b"",
    };
    output.put(b"{\"jsonrpc\":\"2.0\",\"id\":");
    output.put(&line[request.id]);
    match &line[request.method] {
        b"tools/call" => {
            output.put(b",\"result\":{");
            output.put(complete);
            output.put(b"\"content\":[{\"type\":\"text\",\"text\":\"");
            output.put_text(&line[request.text])?;
            output.put(b"\"}]}}\n");
        }
        b"initialize" => {
            output.put(b",\"result\":{\"protocolVersion\":\"");
            output.put(&line[request.version]);
            output.put(&about.initialized);
        }
        b"server/discover" if modern => {
            output.put(b",\"result\":{");
            output.put(complete);
            output.put(b"\"supportedVersions\":[\"2026-07-28\"],\"capabilities\":{\"tools\":{}},");
            output.put(b"\"ttlMs\":3600000,\"cacheScope\":\"public\"}}\n");
        }
        b"tools/list" => {
            output.put(b",\"result\":{");
            output.put(complete);
            output.put(b"\"tools\":");
            output.put(&about.tools);
            if modern {
                output.put(b",\"ttlMs\":3600000,\"cacheScope\":\"public\"");
            }
            output.put(b"}}\n");
        }
        b"ping" => output.put(b",\"result\":{}}\n"),
        _ => output.put(b",\"error\":{\"code\":-32601,\"message\":\"Method not found\"}}\n"),
    }
    Ok(())
}

/// Where in a line the parts of a request are. A part that is missing is an empty span.
#[derive(Default)]
struct Request {
    id: Range<usize>,
    method: Range<usize>,
    /// `params.arguments.text`, without its quotes.
    text: Range<usize>,
    /// `params.protocolVersion`, without its quotes.
    version: Range<usize>,
}

impl Request {
    /// The request in a line; `None` if the line is a notification, a response or not JSON-RPC at all.
    fn read(line: &[u8]) -> Option<Request> {
        let mut request = Request::default();
        Scanner { line, at: 0 }.object(|scanner, key| {
            match key {
                b"id" => request.id = scanner.value()?,
                b"method" => request.method = scanner.string()?,
                b"params" => scanner.object(|scanner, key| {
                    match key {
                        b"protocolVersion" => request.version = scanner.string()?,
                        b"arguments" => scanner.object(|scanner, key| {
                            match key {
                                b"text" => request.text = scanner.string()?,
                                _ => scanner.skip()?,
                            }
                            Some(())
                        })?,
                        _ => scanner.skip()?,
                    }
                    Some(())
                })?,
                _ => scanner.skip()?,
            }
            Some(())
        })?;
        (!request.id.is_empty() && !request.method.is_empty()).then_some(request)
    }
}

/// Walks over JSON without building anything. It trusts the text to be JSON, as a benchmark may.
struct Scanner<'a> {
    line: &'a [u8],
    at: usize,
}

impl<'a> Scanner<'a> {
    /// Visits the members of an object; `member` has to step over each value.
    fn object(&mut self, mut member: impl FnMut(&mut Self, &'a [u8]) -> Option<()>) -> Option<()> {
        if self.next()? != b'{' {
            return None;
        }
        loop {
            if self.peek()? == b'}' {
                self.at += 1;
                return Some(());
            }
            let line = self.line;
            let key = self.string()?;
            if self.next()? != b':' {
                return None;
            }
            member(self, &line[key])?;
            if self.peek()? == b',' {
                self.at += 1;
            }
        }
    }

    /// Steps over a string; the span is what stands between its quotes.
    fn string(&mut self) -> Option<Range<usize>> {
        if self.next()? != b'"' {
            return None;
        }
        let start = self.at;
        loop {
            self.at += memchr::memchr2(b'"', b'\\', self.line.get(self.at..)?)?;
            if self.line[self.at] == b'"' {
                self.at += 1;
                return Some(start..self.at - 1);
            }
            self.at += 2;
        }
    }

    /// Steps over any value that is of no interest.
    fn skip(&mut self) -> Option<()> {
        self.value().map(|_| ())
    }

    /// Steps over any value.
    fn value(&mut self) -> Option<Range<usize>> {
        self.peek()?;
        let start = self.at;
        let mut depth = 0;
        loop {
            match *self.line.get(self.at)? {
                b'"' => {
                    self.string()?;
                    if depth == 0 {
                        break;
                    }
                    continue;
                }
                b'{' | b'[' => depth += 1,
                b'}' | b']' | b',' | b' ' if depth == 0 => break,
                b'}' | b']' => {
                    depth -= 1;
                    if depth == 0 {
                        self.at += 1;
                        break;
                    }
                }
                _ => {}
            }
            self.at += 1;
        }
        Some(start..self.at)
    }

    /// The next byte that is not white space, left where it is.
    fn peek(&mut self) -> Option<u8> {
        loop {
            match *self.line.get(self.at)? {
                b' ' | b'\t' | b'\r' => self.at += 1,
                byte => return Some(byte),
            }
        }
    }

    /// The next byte that is not white space, stepped over.
    fn next(&mut self) -> Option<u8> {
        let byte = self.peek()?;
        self.at += 1;
        Some(byte)
    }
}

/// Answers on their way out: small ones are gathered, large texts go straight to the pipe.
struct Output {
    pipe: File,
    gathered: Vec<u8>,
}

impl Output {
    fn new(pipe: File) -> Output {
        Output {
            pipe,
            gathered: Vec::with_capacity(CHUNK),
        }
    }

    fn put(&mut self, bytes: &[u8]) {
        self.gathered.extend_from_slice(bytes);
    }

    fn put_text(&mut self, text: &[u8]) -> io::Result<()> {
        if text.len() < COPY_LIMIT {
            self.put(text);
            return Ok(());
        }
        let mut slices = [IoSlice::new(&self.gathered), IoSlice::new(text)];
        let mut rest = &mut slices[..];
        while !rest.is_empty() {
            let count = self.pipe.write_vectored(rest)?;
            IoSlice::advance_slices(&mut rest, count);
        }
        self.gathered.clear();
        Ok(())
    }

    fn flush(&mut self) -> io::Result<()> {
        if !self.gathered.is_empty() {
            self.pipe.write_all(&self.gathered)?;
            self.gathered.clear();
        }
        Ok(())
    }
}
