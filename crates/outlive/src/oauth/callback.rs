//! Where a login ends: a page on this machine that the browser is sent to.
//!
//! The listener takes one answer, the one to its own question: with the `state` that was sent. Whatever else comes is
//! told that it is not expected, and changes nothing; nobody is led anywhere from here.

use std::io;
use std::net::Ipv4Addr;
use std::sync::Arc;
use std::time::Duration;

use reqwest::Url;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, mpsc};
use tokio::time::timeout;

/// A browser sends its request at once.
const PATIENCE: Duration = Duration::from_secs(5);
/// The longest request that is read.
const LONGEST: usize = 16 << 10;
/// So many connections are read at a time; whoever scans ports keeps no others out for long.
const MOST: usize = 32;
/// The path of the page.
const PATH: &str = "/callback";

/// The page that a login ends at.
pub(super) struct Callback {
    listener: TcpListener,
    port: u16,
}

/// What an authorization server said through the browser.
#[derive(Clone, Default, PartialEq, Eq)]
pub(super) struct Answer {
    pub(super) code: Option<String>,
    pub(super) state: Option<String>,
    pub(super) iss: Option<String>,
    pub(super) error: Option<String>,
    pub(super) description: Option<String>,
}

impl Answer {
    /// Reads it from the address that the browser was sent to. What is said twice is not said.
    pub(super) fn read(url: &Url) -> Answer {
        let one = |name: &str| {
            let mut found = url.query_pairs().filter(|(key, _)| key == name);
            match (found.next(), found.next()) {
                (Some((_, value)), None) => Some(value.into_owned()),
                _ => None,
            }
        };
        Answer {
            code: one("code"),
            state: one("state"),
            iss: one("iss"),
            error: one("error"),
            description: one("error_description"),
        }
    }
}

impl Callback {
    /// Listens on this port, or any; only this machine can connect.
    pub(super) async fn listen(port: Option<u16>) -> io::Result<Callback> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port.unwrap_or(0))).await?;
        let port = listener.local_addr()?.port();
        Ok(Callback { listener, port })
    }

    /// Its address, as authorization servers are told.
    pub(super) fn uri(&self) -> String {
        format!("http://127.0.0.1:{}{PATH}", self.port)
    }

    /// The port of such an address.
    pub(super) fn port_of(uri: &str) -> Option<u16> {
        Url::parse(uri).ok()?.port()
    }

    /// Waits for the answer with this state.
    pub(super) async fn answer(&self, state: &str) -> Answer {
        let (found, mut answers) = mpsc::channel(1);
        let room = Arc::new(Semaphore::new(MOST));
        loop {
            let stream = tokio::select! {
                accepted = self.listener.accept() => accepted.map(|(stream, _)| stream),
                Some(answer) = answers.recv() => return answer,
            };
            let Ok(stream) = stream else {
                // Too many descriptors: some of them will be given back.
                tokio::time::sleep(Duration::from_millis(100)).await;
                continue;
            };
            let Ok(place) = room.clone().acquire_owned().await else {
                continue;
            };
            // Each on its own: a connection that says nothing keeps nobody waiting.
            let serving = serve(stream, state.to_owned(), found.clone());
            tokio::spawn(async move {
                serving.await;
                drop(place);
            });
        }
    }
}

async fn serve(mut stream: TcpStream, state: String, found: mpsc::Sender<Answer>) {
    let Ok(Some(target)) = timeout(PATIENCE, read_target(&mut stream)).await else {
        return;
    };
    let url = Url::parse("http://127.0.0.1").and_then(|base| base.join(&target));
    let answer = url
        .ok()
        .filter(|url| url.path() == PATH)
        .map(|url| Answer::read(&url));
    let (status, words) = match &answer {
        Some(answer) if answer.state.as_deref() == Some(&state) => match answer.error {
            None => ("200 OK", "You can close this page: outlive has the answer."),
            Some(_) => ("200 OK", "The login was refused. You can close this page."),
        },
        Some(_) => (
            "400 Bad Request",
            "This page belongs to another login. Nothing was changed.",
        ),
        None => ("404 Not Found", "There is nothing here."),
    };
    let page = format!("<!doctype html><meta charset=utf-8><title>outlive</title><p>{words}</p>\n");
    let response = format!(
        "HTTP/1.1 {status}\r\ncontent-type: text/html; charset=utf-8\r\ncontent-length: {}\r\n\
         content-security-policy: default-src 'none'\r\nreferrer-policy: no-referrer\r\ncache-control: no-store\r\n\
         connection: close\r\n\r\n{page}",
        page.len()
    );
    let _ = timeout(PATIENCE, stream.write_all(response.as_bytes())).await;
    let _ = stream.shutdown().await;
    if let Some(answer) = answer.filter(|it| it.state.as_deref() == Some(&state)) {
        let _ = found.try_send(answer);
    }
}

/// Reads the head of a request; where it goes, if it is a GET.
async fn read_target(stream: &mut TcpStream) -> Option<String> {
    let mut head = Vec::new();
    let mut buffer = [0; 2048];
    while !head.windows(4).any(|it| it == b"\r\n\r\n") {
        let read = stream.read(&mut buffer).await.ok()?;
        head.extend_from_slice(&buffer[..read]);
        if read == 0 || head.len() > LONGEST {
            return None;
        }
    }
    let head = String::from_utf8(head).ok()?;
    let mut words = head.lines().next()?.split(' ');
    match (words.next(), words.next()) {
        (Some("GET"), Some(target)) if target.starts_with('/') => Some(target.to_owned()),
        _ => None,
    }
}
