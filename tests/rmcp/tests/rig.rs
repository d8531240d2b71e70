//! What the tests share.

use std::path::{Path, PathBuf};
use std::time::Duration;

use rmcp::model::{CallToolRequestParams, CallToolResult};
use rmcp::{Peer, RoleClient, ServiceError};
use rustix::process::{Pid, Signal, kill_process, test_kill_process};
use serde_json::json;
use tempfile::TempDir;

/// The server.
pub const TOOLS: &str = env!("CARGO_BIN_EXE_rmcp-tools");

/// Only a hang takes this long.
pub async fn within<T>(what: impl Future<Output = T>) -> T {
    tokio::time::timeout(Duration::from_secs(60), what)
        .await
        .expect("it hangs")
}

/// Waits until that is so.
pub async fn until(what: &str, mut so: impl FnMut() -> bool) {
    let waiting = async {
        while !so() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(30), waiting)
        .await
        .unwrap_or_else(|_| panic!("never: {what}"));
}

/// The text a tool answers with.
pub async fn text(client: &Peer<RoleClient>, tool: &'static str) -> Result<String, ServiceError> {
    let result = client.call_tool(CallToolRequestParams::new(tool)).await?;
    Ok(first_text(&result))
}

pub fn first_text(result: &CallToolResult) -> String {
    let text = result.content.first().and_then(|content| content.as_text());
    text.map(|text| text.text.clone()).unwrap_or_default()
}

pub async fn pid(client: &Peer<RoleClient>) -> Pid {
    let pid = text(client, "pid").await.expect("the server answers");
    Pid::from_raw(pid.parse().expect("a number")).expect("not zero")
}

pub fn kill(pid: Pid) {
    kill_process(pid, Signal::KILL).expect("it runs");
}

pub fn is_gone(pid: Pid) -> bool {
    test_kill_process(pid).is_err()
}

/// Where a tool writes what becomes of it.
pub struct Note {
    _folder: TempDir,
    file: PathBuf,
}

impl Note {
    pub fn new() -> Note {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("note");
        let _folder = folder;
        Note { _folder, file }
    }

    pub fn path(&self) -> &Path {
        &self.file
    }

    pub fn lines(&self) -> Vec<String> {
        let text = std::fs::read_to_string(&self.file).unwrap_or_default();
        text.lines().map(str::to_string).collect()
    }

    /// A call of a tool that writes here.
    pub fn call(&self, tool: &'static str) -> CallToolRequestParams {
        let arguments = json!({ "note": self.file });
        let arguments = arguments.as_object().cloned().unwrap_or_default();
        CallToolRequestParams::new(tool).with_arguments(arguments)
    }

    pub async fn says(&self, line: &str) {
        let said = || self.lines().iter().any(|said| said == line);
        until(line, said).await;
    }
}
