//! The contract between `outlive check client` and a driver, as in `docs/check.md`: errands come in, a
//! JSON object a line, and reports go out.

use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, BufReader, Lines, Stdin};

/// What is to be done.
#[derive(Clone, Debug)]
pub struct Errand {
    /// Its number.
    pub n: u64,
    /// All of it.
    pub body: Value,
}

impl Errand {
    /// What is to be done, in a word.
    pub fn verb(&self) -> &str {
        self.body["do"].as_str().unwrap_or_default()
    }

    /// The command of the server to connect to.
    pub fn command(&self) -> Vec<String> {
        let words = self.body["command"].as_array().into_iter().flatten();
        words
            .filter_map(|word| word.as_str().map(str::to_owned))
            .collect()
    }

    /// It went well.
    pub fn ok(&self, what: impl Into<Value>) {
        let what: Value = what.into();
        println!("{}", json!({ "n": self.n, "ok": what }));
    }

    /// It failed.
    pub fn failed(&self, kind: &str, message: &str) {
        println!(
            "{}",
            json!({ "n": self.n, "error": { "kind": kind, "message": message } })
        );
    }
}

/// Where errands come from.
#[derive(Debug)]
pub struct Errands(Lines<BufReader<Stdin>>);

impl Errands {
    /// Says which client is driven.
    pub fn begin(client: &str) -> Errands {
        println!("{}", json!({ "client": client, "over": ["stdio", "http"] }));
        Errands(BufReader::new(tokio::io::stdin()).lines())
    }

    /// The next one; `None` at the end.
    pub async fn next(&mut self) -> Option<Errand> {
        loop {
            let line = self.0.next_line().await.ok()??;
            let Ok(body) = serde_json::from_str::<Value>(&line) else {
                continue;
            };
            if let Some(n) = body["n"].as_u64() {
                return Some(Errand { n, body });
            }
        }
    }
}
