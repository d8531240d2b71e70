//! One server-sent event.

use serde_json::Value;

/// A server-sent event.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Event {
    /// Its kind; empty if it does not say.
    pub kind: String,
    /// Its id.
    pub id: Option<String>,
    /// How many milliseconds a reader is to wait before it comes back.
    pub retry: Option<u64>,
    /// Its data.
    pub data: String,
}

impl Event {
    /// Takes a line of it; whether that was one of its fields, and not a comment.
    pub fn take(&mut self, line: &str) -> bool {
        let (name, value) = line.split_once(':').unwrap_or((line, ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        match name {
            "" => return false,
            "event" => self.kind = value.to_owned(),
            "id" => self.id = Some(value.to_owned()),
            "retry" => self.retry = value.parse().ok(),
            "data" if self.data.is_empty() => self.data = value.to_owned(),
            "data" => self.data = format!("{}\n{value}", self.data),
            _ => {}
        }
        true
    }

    /// The message in it.
    #[track_caller]
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.data).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }
}
