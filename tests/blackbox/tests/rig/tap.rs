//! What the servers of a test recorded; see the fake's `tap`.

use std::path::PathBuf;

use serde_json::Value;

/// A reader of the record.
#[derive(Clone, Debug)]
pub struct Tap {
    pub path: PathBuf,
}

impl Tap {
    /// All records so far, in the order they were written.
    pub fn records(&self) -> Vec<Value> {
        let text = std::fs::read_to_string(&self.path).unwrap_or_default();
        text.lines()
            .filter_map(|line| serde_json::from_str(line).ok())
            .collect()
    }

    /// The process ids of all servers so far, oldest first.
    pub fn pids(&self) -> Vec<u32> {
        self.records()
            .iter()
            .filter(|record| record["rec"] == "spawn")
            .filter_map(|record| record["pid"].as_u64())
            .map(|pid| pid as u32)
            .collect()
    }

    /// What the `n`th server (from 1) was sent.
    pub fn received(&self, n: usize) -> Vec<Value> {
        let pid = self.pids()[n - 1];
        let mut records = self.records();
        records.retain(|record| record["rec"] == "recv" && record["pid"] == pid);
        records
    }

    /// The requests and notifications of this method that any server was sent.
    pub fn method(&self, method: &str) -> Vec<Value> {
        let mut records = self.records();
        records.retain(|record| record["rec"] == "recv" && record["method"] == method);
        records
    }

    /// The notes of this name that any server made.
    pub fn notes(&self, note: &str) -> Vec<Value> {
        let mut records = self.records();
        records.retain(|record| record["rec"] == "note" && record["note"] == note);
        records
    }
}
