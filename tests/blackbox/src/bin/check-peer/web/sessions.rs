//! Sessions, and what was said on their streams.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::thread;
use std::time::Duration;

use http_peer::Request;
use serde_json::Value;

use crate::defects::Defects;
use crate::server::{Server, lock};

/// All sessions.
#[derive(Default)]
pub struct Sessions {
    known: Mutex<HashMap<String, Arc<Session>>>,
    next: AtomicU64,
    last: Mutex<HashMap<String, Value>>,
}

/// A session.
pub struct Session {
    pub name: String,
    pub server: Arc<Server>,
    records: Mutex<Vec<Arc<Record>>>,
}

/// What was said on a stream, for a client that lost it.
#[derive(Default)]
pub struct Record {
    nth: usize,
    said: Mutex<Vec<Value>>,
    more: Condvar,
}

impl Sessions {
    /// A new one.
    pub fn begin(&self, defects: &Arc<Defects>) -> Arc<Session> {
        let nth = self.next.fetch_add(1, Ordering::SeqCst);
        let name = format!("session-{nth}-of-{}", std::process::id());
        let server = Server::new(defects.clone());
        let session = Arc::new(Session {
            name: name.clone(),
            server,
            records: Mutex::default(),
        });
        lock(&self.known).insert(name, session.clone());
        session
    }

    /// The one a request names.
    pub fn find(&self, request: &Request) -> Option<Arc<Session>> {
        lock(&self.known)
            .get(request.header("mcp-session-id")?)
            .cloned()
    }

    /// It is gone.
    pub fn forget(&self, name: &str) {
        lock(&self.known).remove(name);
    }

    /// The answer of whoever used the same id last.
    pub fn crossed(&self, answer: &Value) -> Value {
        let id = answer["id"].to_string();
        lock(&self.last).insert(id.clone(), answer.clone());
        thread::sleep(Duration::from_millis(50));
        lock(&self.last).get(&id).unwrap_or(answer).clone()
    }
}

impl Session {
    /// A record for a new stream.
    pub fn record(&self) -> Arc<Record> {
        let mut records = lock(&self.records);
        let record = Arc::new(Record {
            nth: records.len(),
            ..Record::default()
        });
        records.push(record.clone());
        record
    }

    /// The record that a cursor points into, and how much of it the client has seen.
    pub fn find(&self, cursor: &str) -> Option<(Arc<Record>, usize)> {
        let (nth, seen) = cursor.split_once('-')?;
        let record = lock(&self.records).get(nth.parse::<usize>().ok()?)?.clone();
        Some((record, seen.parse().ok()?))
    }
}

impl Record {
    /// The id of the event after which so many were said.
    pub fn cursor(&self, said: usize) -> String {
        format!("{}-{said}", self.nth)
    }

    /// How much was said.
    pub fn len(&self) -> usize {
        lock(&self.said).len()
    }

    /// Something was said.
    pub fn push(&self, message: &Value) {
        lock(&self.said).push(message.clone());
        self.more.notify_all();
    }

    /// What comes after that, up to the answer.
    pub fn follow(&self, mut seen: usize) -> impl Iterator<Item = Value> {
        let mut ended = false;
        std::iter::from_fn(move || {
            let said = self
                .more
                .wait_while(lock(&self.said), |said| !ended && said.len() <= seen);
            let said = said.unwrap_or_else(|broken| broken.into_inner());
            let next = said.get(seen).filter(|_| !ended)?.clone();
            seen += 1;
            ended = next.get("method").is_none();
            Some(next)
        })
    }
}
