//! What came from the program under test.

use std::collections::{HashMap, VecDeque};
use std::pin::pin;
use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

use memchr::memchr3_iter;
use serde_json::Value;
use tokio::sync::Notify;
use tokio::time::{Instant, timeout_at};

/// Once this much is kept, by [`weight`], the rest is only counted: a program that babbles must not fill the memory.
pub(crate) const MOST: usize = 256 << 20;

/// So many values in a line take at most [`MOST`]; a line with more is not read.
const MOST_VALUES: usize = MOST / VALUE;

/// What a value takes beside its text.
const VALUE: usize = 128;

/// So much that is no message is kept.
const JUNK: usize = 1_000;

/// So many lines are kept as they came, if they are not longer than [`SHORT`].
const LINES: usize = 400;
/// A line that is kept as it came is not longer than this.
const SHORT: usize = 16 << 10;

/// What came, sorted.
#[derive(Debug, Default)]
pub struct Inbox {
    letters: Mutex<Letters>,
    news: Notify,
}

/// What came so far.
#[derive(Debug, Default)]
pub struct Letters {
    /// Responses, by the id as JSON.
    responses: HashMap<String, Vec<Value>>,
    /// How many notifications had come when a request was first answered, by the id as JSON.
    before: HashMap<String, usize>,
    /// Why a request will not be answered, by the id as JSON: only over HTTP is that known.
    lost: HashMap<String, String>,
    /// Requests.
    pub requests: Vec<Value>,
    /// Notifications.
    pub notifications: Vec<Value>,
    /// Errors that name no id: what could not be read is answered so.
    pub nameless: Vec<Value>,
    /// What is no message at all.
    pub junk: Vec<String>,
    /// The last lines, as they came.
    lines: VecDeque<Vec<u8>>,
    /// How many bytes came.
    pub bytes: usize,
    /// How much of it is kept.
    weight: usize,
    /// Nothing will come any more.
    pub ended: bool,
}

impl Letters {
    /// The responses to a request, in order.
    pub fn responses(&self, id: &Value) -> &[Value] {
        self.responses
            .get(&id.to_string())
            .map_or(&[], Vec::as_slice)
    }

    /// Why a request will not be answered, if that is known.
    pub fn lost(&self, id: &Value) -> Option<&str> {
        self.lost.get(&id.to_string()).map(String::as_str)
    }

    /// The notifications that came after the first response to a request.
    pub fn notifications_after(&self, id: &Value) -> &[Value] {
        let before = self.before.get(&id.to_string());
        before.map_or(&[], |before| &self.notifications[*before..])
    }

    /// Whether one of the last lines has this in it, letter by letter.
    pub fn spelt(&self, words: &str) -> bool {
        let words = words.as_bytes();
        let has = |line: &Vec<u8>| line.windows(words.len()).any(|part| part == words);
        self.lines.iter().any(has)
    }

    /// How many responses came, whatever to.
    pub fn response_count(&self) -> usize {
        self.responses.values().map(Vec::len).sum()
    }

    /// The ids that were answered, as JSON.
    pub fn answered(&self) -> impl Iterator<Item = &str> {
        self.responses.keys().map(String::as_str)
    }

    fn file(&mut self, line: &[u8]) {
        self.bytes += line.len() + 1;
        let weight = weight(line);
        if self.weight + weight > MOST {
            return;
        }
        if line.len() <= SHORT {
            if self.lines.len() == LINES {
                self.lines.pop_front();
            }
            self.lines.push_back(line.to_vec());
        }
        let message = serde_json::from_slice::<Value>(line).ok();
        let Some(message) = message.filter(|message| message["jsonrpc"] == "2.0") else {
            let start = &line[..line.len().min(1_200)];
            return self.throw(&String::from_utf8_lossy(start));
        };
        self.weight += weight;
        let id = message.get("id").filter(|id| !id.is_null()).cloned();
        let settles = message.get("result").is_some() || message.get("error").is_some();
        match (message["method"].is_string(), id) {
            (true, Some(_)) => self.requests.push(message),
            (true, None) => self.notifications.push(message),
            (false, Some(id)) if settles => {
                let said = self.notifications.len();
                self.before.entry(id.to_string()).or_insert(said);
                self.responses
                    .entry(id.to_string())
                    .or_default()
                    .push(message);
            }
            (false, None) if message.get("error").is_some() => self.nameless.push(message),
            _ => self.throw(&message.to_string()),
        }
    }

    /// What is no message.
    fn throw(&mut self, text: &str) {
        if self.junk.len() < JUNK {
            self.junk.push(text.chars().take(300).collect());
        }
    }
}

/// What a line takes once it is read: its text, and each of its values.
pub(crate) fn weight(line: &[u8]) -> usize {
    // Each value but the outermost follows one of these; an object in an object follows its name.
    let values = memchr3_iter(b',', b':', b'[', line).count();
    match values > MOST_VALUES {
        true => usize::MAX / 2,
        false => line.len() + values * VALUE,
    }
}

impl Inbox {
    /// A line came, without its end.
    pub fn take(&self, line: &[u8]) {
        self.letters().file(line);
        self.news.notify_waiters();
    }

    /// A request will not be answered any more; tells whether it was not answered before.
    pub fn lose(&self, id: &Value, why: String) -> bool {
        let mut letters = self.letters();
        let open = letters.responses(id).is_empty();
        if open {
            letters.lost.insert(id.to_string(), why);
        }
        drop(letters);
        self.news.notify_waiters();
        open
    }

    /// Nothing will come any more.
    pub fn end(&self) {
        self.letters().ended = true;
        self.news.notify_waiters();
    }

    /// What came so far.
    pub fn letters(&self) -> MutexGuard<'_, Letters> {
        self.letters
            .lock()
            .unwrap_or_else(|broken| broken.into_inner())
    }

    /// Waits until there is something to be found; `None` once the patience is over.
    pub async fn until<T>(
        &self,
        timeout: Duration,
        mut look: impl FnMut(&Letters) -> Option<T>,
    ) -> Option<T> {
        let deadline = Instant::now() + timeout;
        loop {
            let mut news = pin!(self.news.notified());
            news.as_mut().enable();
            let found = look(&self.letters());
            if found.is_some() {
                return found;
            }
            if timeout_at(deadline, news).await.is_err() {
                return look(&self.letters());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn messages_are_sorted_by_what_they_are() {
        let inbox = Inbox::default();
        for line in [
            r#"{"jsonrpc":"2.0","id":1,"result":{}}"#,
            r#"{"jsonrpc":"2.0","id":"1","error":{"code":0,"message":""}}"#,
            r#"{"jsonrpc":"2.0","id":1,"result":{}}"#,
            r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#,
            r#"{"jsonrpc":"2.0","method":"notifications/message"}"#,
            r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":""}}"#,
            r#"{"jsonrpc":"2.0","id":3}"#,
            r#"{"id":4,"result":{}}"#,
            "hello",
        ] {
            inbox.take(line.as_bytes());
        }
        let letters = inbox.letters();
        assert_eq!(letters.responses(&json!(1)).len(), 2);
        assert_eq!(letters.responses(&json!("1")).len(), 1);
        assert_eq!(letters.notifications_after(&json!(1)).len(), 1);
        assert_eq!(letters.requests.len(), 1);
        assert_eq!(letters.notifications.len(), 1);
        assert_eq!(letters.nameless.len(), 1);
        assert_eq!(letters.junk.len(), 3);
    }
}
