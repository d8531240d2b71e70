//! The bare HTTP relay: hyper in front, the pipes of one server behind.
//!
//! It is to `outlive serve` what the bare relay is to `outlive run`: nothing that takes calls over HTTP and asks a
//! server on its standard streams can do less. It reads no JSON, has no session and no limit, restarts nothing and
//! settles nothing. Answers go to whoever asked first, which is right only because the echo server answers in order.

#![forbid(unsafe_code)]

use std::collections::VecDeque;
use std::convert::Infallible;
use std::env;
use std::io;
use std::process::{Stdio, exit};
use std::sync::{Arc, Mutex, PoisonError};

use bytes::{Bytes, BytesMut};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::header::{CONTENT_TYPE, HeaderValue};
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::process::{ChildStdin, ChildStdout, Command};
use tokio::sync::{Notify, oneshot};

/// What is read at once.
const CHUNK: usize = 64 * 1024;

/// What waits for the server, and who waits for it.
#[derive(Default)]
struct Pipe {
    queue: Mutex<Queue>,
    written: Notify,
}

#[derive(Default)]
struct Queue {
    lines: Vec<u8>,
    callers: VecDeque<oneshot::Sender<Bytes>>,
}

impl Pipe {
    fn with<R>(&self, change: impl FnOnce(&mut Queue) -> R) -> R {
        change(&mut self.queue.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Sends a line; whoever wants an answer is next in line for one.
    fn send(&self, line: &[u8], caller: Option<oneshot::Sender<Bytes>>) {
        self.with(|queue| {
            queue.lines.extend_from_slice(line);
            queue.lines.push(b'\n');
            queue.callers.extend(caller);
        });
        self.written.notify_one();
    }

    async fn write(&self, mut to: ChildStdin) -> io::Result<()> {
        let mut lines = Vec::new();
        loop {
            self.with(|queue| std::mem::swap(&mut lines, &mut queue.lines));
            if lines.is_empty() {
                self.written.notified().await;
                continue;
            }
            to.write_all(&lines).await?;
            lines.clear();
        }
    }

    async fn read(&self, mut from: ChildStdout) -> io::Result<()> {
        let mut buffer = BytesMut::new();
        let mut searched = 0;
        loop {
            buffer.reserve(CHUNK);
            if from.read_buf(&mut buffer).await? == 0 {
                return Ok(());
            }
            while let Some(at) = memchr::memchr(b'\n', &buffer[searched..]) {
                let mut line = buffer.split_to(searched + at + 1).freeze();
                line.truncate(line.len() - 1);
                searched = 0;
                if let Some(caller) = self.with(|queue| queue.callers.pop_front()) {
                    // Whoever has left needs no answer.
                    let _ = caller.send(line);
                }
            }
            searched = buffer.len();
        }
    }
}

async fn answer(
    pipe: Arc<Pipe>,
    request: Request<Incoming>,
) -> Result<Response<Full<Bytes>>, hyper::Error> {
    let body = request.into_body().collect().await?.to_bytes();
    if memchr::memmem::find(&body, b"\"id\":").is_none() {
        pipe.send(&body, None);
        let mut response = Response::new(Full::default());
        *response.status_mut() = StatusCode::ACCEPTED;
        return Ok(response);
    }
    let (caller, answer) = oneshot::channel();
    pipe.send(&body, Some(caller));
    let mut response = Response::new(Full::default());
    match answer.await {
        Ok(line) => {
            let json = HeaderValue::from_static("application/json");
            response.headers_mut().insert(CONTENT_TYPE, json);
            *response.body_mut() = Full::new(line);
        }
        Err(_) => *response.status_mut() = StatusCode::BAD_GATEWAY,
    }
    Ok(response)
}

async fn serve(listener: TcpListener, pipe: Arc<Pipe>) -> io::Result<Infallible> {
    loop {
        let (stream, _) = listener.accept().await?;
        stream.set_nodelay(true)?;
        let pipe = pipe.clone();
        let service = hyper::service::service_fn(move |request| answer(pipe.clone(), request));
        tokio::spawn(
            hyper::server::conn::http1::Builder::new()
                .serve_connection(TokioIo::new(stream), service),
        );
    }
}

fn main() -> io::Result<()> {
    let mut words = env::args_os().skip(1);
    let (Some(address), Some(program)) = (words.next(), words.next()) else {
        eprintln!("usage: http_relay ADDRESS CMD [ARGS]...");
        exit(1);
    };
    // One thread is faster here than more: each call is handed from the front to the pipe and back.
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    runtime.block_on(async {
        let listener = TcpListener::bind(address.to_string_lossy().as_ref()).await?;
        let mut child = Command::new(program)
            .args(words)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let (Some(to), Some(from)) = (child.stdin.take(), child.stdout.take()) else {
            return Err(io::Error::other("the server has no pipes"));
        };
        let pipe = Arc::new(Pipe::default());
        let (writer, reader) = (pipe.clone(), pipe.clone());
        tokio::spawn(async move { writer.write(to).await });
        tokio::spawn(async move {
            let outcome = reader.read(from).await;
            exit(outcome.is_err().into());
        });
        match serve(listener, pipe).await? {}
    })
}
