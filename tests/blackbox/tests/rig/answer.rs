//! What a host makes of an answer.

use serde_json::Value;

/// The answer to a request.
#[derive(Clone, Debug)]
pub struct Answer(pub Value);

impl Answer {
    /// The result; anything else fails the test.
    #[track_caller]
    pub fn result(&self) -> &Value {
        assert!(
            self.0.get("error").is_none(),
            "expected a result, got {}",
            self.0
        );
        self.0.get("result").expect("a result")
    }

    /// The error; anything else fails the test.
    #[track_caller]
    pub fn error(&self) -> &Value {
        self.0
            .get("error")
            .unwrap_or_else(|| panic!("expected an error, got {}", self.0))
    }

    /// The text of a tool's result.
    #[track_caller]
    pub fn text(&self) -> &str {
        self.result()["content"][0]["text"]
            .as_str()
            .expect("a text")
    }

    /// The kind of an error that `outlive` made; `None` for a result or the server's own error.
    pub fn kind(&self) -> Option<&str> {
        self.0["error"]["data"]["outlive"]["kind"].as_str()
    }

    /// Asserts that `outlive` answered with an error of this kind; returns its `data.outlive`.
    #[track_caller]
    pub fn refused(&self, kind: &str) -> &Value {
        assert_eq!(self.kind(), Some(kind), "{}", self.0);
        let code = match kind {
            "connection_lost" => -31001,
            "unavailable" => -31002,
            "timeout" => -31003,
            "shutting_down" => -31005,
            "session_expired" => -31006,
            "rejected" => -31007,
            "too_large" => -31008,
            "protocol" => self.0["error"]["code"].as_i64().unwrap_or_default(),
            other => panic!("no such kind: {other}"),
        };
        assert_eq!(self.0["error"]["code"], code, "{}", self.0);
        &self.0["error"]["data"]["outlive"]
    }

    /// The sentence of an error.
    #[track_caller]
    pub fn message(&self) -> &str {
        self.error()["message"].as_str().expect("a sentence")
    }
}
