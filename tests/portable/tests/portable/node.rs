//! Node for Windows, as a server, as a host, and behind a batch file. [`tests/platforms/windows`] puts it into `PATH`.
//!
//! [`tests/platforms/windows`]: ../../../platforms/windows

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::{Value, json};

use crate::host::Host;
use crate::processes::lives;
use crate::{outlive, until};

/// What npm has installed, and the scripts that use it.
fn folder() -> PathBuf {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../platforms/node");
    assert!(
        folder.join("node_modules").is_dir(),
        "run `npm ci` in tests/platforms/node"
    );
    folder
}

fn script(name: &str) -> String {
    let path = folder().join(name);
    path.to_str().expect("a path in UTF-8").to_owned()
}

#[test]
fn a_host_on_node_keeps_its_server_on_node_through_its_deaths() {
    let outlive = outlive();
    let mut client = Command::new("node");
    client.arg(script("client.mjs")).arg(outlive.get_program());
    client.args(["run", "--", "node", &script("server.mjs")]);
    for (name, value) in outlive.get_envs() {
        client.env(name, value.expect("only set"));
    }
    let output = client.stdin(Stdio::null()).output().expect("node runs");
    let report: Value = serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|_| panic!("{}", String::from_utf8_lossy(&output.stderr)));
    assert_eq!(report["tools"], json!(["pid", "exit"]));
    assert_eq!(report["lost"]["kind"], "connection_lost", "{report}");
    let message = report["lost"]["message"].to_string();
    assert!(message.contains("code 7"), "{report}");
    let pids: Vec<u32> = serde_json::from_value(report["pids"].clone()).expect("numbers");
    assert!(pids[0] != pids[1] && pids[1] != pids[2], "{report}");
    until("all are gone", || !pids.iter().any(|pid| lives(*pid)));
}

/// As npm lays one out beside what it installs; what npm writes into it Wine's `cmd.exe` cannot read.
#[test]
fn a_server_from_npm_is_started_by_a_batch_file() {
    let server = script("node_modules/@modelcontextprotocol/server-everything/dist/index.js");
    let file = crate::state().join("mcp-server-everything");
    std::fs::create_dir_all(crate::state()).expect("a folder");
    let words = format!("@echo off\r\nnode \"{server}\" %*\r\n");
    std::fs::write(file.with_extension("cmd"), words).expect("a file");
    let arguments = ["--", file.to_str().expect("a path in UTF-8"), "stdio"];
    let mut host = Host::start(&arguments).introduced("mcp-servers/everything");
    let echo = host.says("echo", json!({ "message": "through cmd" }));
    assert!(echo.contains("through cmd"), "{echo}");
    assert_eq!(host.leave(), Some(0));
}

/// As people write it: `npx.cmd` is found in `PATH`, asks Node in a loop where npm is, and npm starts what is in `.bin`.
#[test]
fn npx_starts_a_server_from_npm() {
    let wrapper = folder().join("node_modules/.bin/mcp-server-everything.cmd");
    // On Windows npm has written it. It ends with `goto` to a label that does not exist, which ends Wine's `cmd.exe`.
    if !wrapper.exists() {
        let server = r"%~dp0\..\@modelcontextprotocol\server-everything\dist\index.js";
        let words = format!("@echo off\r\nnode \"{server}\" %*\r\n");
        std::fs::write(&wrapper, words).expect("a file");
    }
    let mut command = outlive();
    let package = "@modelcontextprotocol/server-everything";
    command.current_dir(folder());
    command.args(["run", "--", "npx", "--offline", "-y", package, "stdio"]);
    let mut host = Host::with(command).introduced("mcp-servers/everything");
    let echo = host.says("echo", json!({ "message": "through npx" }));
    assert!(echo.contains("through npx"), "{echo}");
    assert_eq!(host.leave(), Some(0));
}
