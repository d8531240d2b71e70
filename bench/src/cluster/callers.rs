//! Callers that have a session each and go to another replica with every request, as a load balancer without affinity
//! sends them.

use std::io::{self, Write};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use http_peer::{Reply, message};
use serde_json::{Value, json};

use crate::traffic::ECHO;

/// How long a replica may be asked in vain. Only a hang takes as long.
const PATIENCE: Duration = Duration::from_secs(120);

/// What became of the calls.
#[derive(Clone, Copy, Debug, Default)]
pub struct Tally {
    pub calls: u64,
    pub failed: u64,
    /// Sessions that were not found any more.
    pub begun_anew: u64,
}

/// One of them.
pub struct Caller {
    places: Vec<SocketAddr>,
    next: usize,
    session: String,
    id: u64,
}

impl Caller {
    /// A caller that has shaken hands.
    pub fn begin(places: &[SocketAddr], first: usize) -> io::Result<Caller> {
        let mut caller = Caller {
            places: places.to_vec(),
            next: first,
            session: String::new(),
            id: 0,
        };
        caller.shake_hands()?;
        Ok(caller)
    }

    /// Goes to these from now on.
    pub fn go_to(&mut self, places: &[SocketAddr]) {
        self.places = places.to_vec();
    }

    fn shake_hands(&mut self) -> io::Result<()> {
        self.session.clear();
        let reply = self.post(&message::initialize())?;
        let session = reply.header("mcp-session-id").map(str::to_owned);
        self.session = session.ok_or_else(|| io::Error::other("no session was begun"))?;
        self.post(&message::initialized())?;
        Ok(())
    }

    /// Sends this to one replica after the other until one takes it: where nobody listens, or the answer is 503,
    /// nothing was done.
    fn post(&mut self, body: &Value) -> io::Result<Reply> {
        let begun = Instant::now();
        let body = body.to_string();
        while begun.elapsed() < PATIENCE {
            self.next += 1;
            let to = self.places[self.next % self.places.len()];
            let mut headers = vec![("MCP-Protocol-Version", "2025-11-25")];
            if !self.session.is_empty() {
                headers.push(("Mcp-Session-Id", &self.session));
            }
            let head = http_peer::head("POST", "/mcp", &headers, body.len());
            let Ok(mut stream) = http_peer::connect(to) else {
                thread::sleep(Duration::from_millis(20));
                continue;
            };
            stream.write_all((head + &body).as_bytes())?;
            let reply = Reply::read(stream)?;
            if reply.status != 503 {
                return Ok(reply);
            }
            thread::sleep(Duration::from_millis(50));
        }
        Err(io::ErrorKind::TimedOut.into())
    }

    /// The answer to a call; its status if there is none.
    pub fn call(&mut self) -> io::Result<Result<Value, u16>> {
        self.id += 1;
        let call = message::call(self.id, ECHO, json!({"text": "hi"}));
        let mut reply = self.post(&call)?;
        if reply.status != 200 {
            return Ok(Err(reply.status));
        }
        if !reply.is_stream() {
            let text = reply.try_text()?;
            return serde_json::from_str(&text)
                .map(Ok)
                .map_err(io::Error::other);
        }
        while let Some(event) = reply.try_event()? {
            if event.data.is_empty() {
                continue;
            }
            let message = event.json();
            if message["id"] == self.id {
                return Ok(Ok(message));
            }
        }
        Err(io::ErrorKind::UnexpectedEof.into())
    }

    /// Calls until it is told to stop.
    fn work(&mut self, over: &AtomicBool) -> io::Result<Tally> {
        let mut tally = Tally::default();
        while !over.load(Ordering::Relaxed) {
            tally.calls += 1;
            match self.call() {
                Ok(Ok(answer)) if answer.get("result").is_some() => {}
                Ok(Err(404)) => {
                    tally.begun_anew += 1;
                    self.shake_hands()?;
                }
                _ => tally.failed += 1,
            }
        }
        Ok(tally)
    }
}

/// Lets so many of them call while something happens.
pub fn while_calling(
    count: usize,
    places: &[SocketAddr],
    happens: impl FnOnce() -> io::Result<()>,
) -> io::Result<Tally> {
    let callers: io::Result<Vec<Caller>> = (0..count)
        .map(|first| Caller::begin(places, first))
        .collect();
    let over = AtomicBool::new(false);
    thread::scope(|scope| {
        let over = &over;
        let mut working = Vec::new();
        for mut caller in callers? {
            working.push(scope.spawn(move || caller.work(over)));
        }
        let happened = happens();
        over.store(true, Ordering::Relaxed);
        let mut all = Tally::default();
        for one in working {
            let one = one
                .join()
                .map_err(|_| io::Error::other("a caller broke"))??;
            all.calls += one.calls;
            all.failed += one.failed;
            all.begun_anew += one.begun_anew;
        }
        happened.map(|()| all)
    })
}
