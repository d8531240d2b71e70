//! `outlive demo`, `check`, `status` and `logs`.

use std::process::{Output, Stdio};

use serde_json::{Value, json};

use crate::host::Host;
use crate::{outlive, server, until};

fn says(arguments: &[&str]) -> Output {
    let mut command = outlive();
    let command = command.args(arguments).stdin(Stdio::null());
    command.output().expect("outlive is built")
}

fn words(output: &Output) -> String {
    let all = [&output.stdout[..], &output.stderr].concat();
    String::from_utf8_lossy(&all).into_owned()
}

#[test]
fn the_demo_is_as_claimed() {
    let output = says(&["demo"]);
    assert!(output.status.success(), "{}", words(&output));
    assert!(
        words(&output).contains("All as claimed"),
        "{}",
        words(&output)
    );
}

#[test]
fn a_server_is_checked() {
    let only = [
        "--only",
        "eof-*",
        "--only",
        "junk*",
        "--only",
        "sigterm-when-idle",
    ];
    let arguments = [&["check", "server", "--json"], &only[..], &["--", server()]].concat();
    let output = says(&arguments);
    let report: Value =
        serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{}", words(&output)));
    let text = report.to_string();
    assert!(text.contains("eof-when-idle"), "{text}");
    assert!(output.status.code().is_some_and(|code| code < 2), "{text}");
}

#[test]
fn what_runs_is_shown_and_its_log_is_kept() {
    let mut host = Host::new(&["--name", "shown"]);
    host.says("echo", json!({ "text": "on" }));
    let shown = || {
        let output = says(&["status", "--json"]);
        let status: Value =
            serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{}", words(&output)));
        let running = status["running"].as_array().cloned().unwrap_or_default();
        running
            .into_iter()
            .find(|instance| instance["name"] == "shown")
    };
    let instance = shown().expect("it is shown");
    assert_eq!(instance["state"], "ready", "{instance}");
    assert_eq!(instance["pid"], host.outlive.id());
    let call = host.call("exit", json!({ "code": 5 }));
    host.answer(call);
    host.says("echo", json!({ "text": "on" }));
    until("the loss is shown", || {
        shown().is_some_and(|instance| instance["last_loss"].to_string().contains("code 5"))
    });
    assert_eq!(host.leave(), Some(0));
    assert_eq!(shown(), None);
    let logs = says(&["logs", "shown"]);
    assert!(words(&logs).contains("code 5"), "{}", words(&logs));
}
