//! Batch files, as `npx` and others are on Windows.

use std::path::PathBuf;

use serde_json::json;

use crate::host::Host;
use crate::processes::lives;
use crate::{server, state, until};

/// A batch file that starts the server with its own arguments, and beside it what npm puts there.
fn wrapper(name: &str) -> PathBuf {
    let folder = state().join("wrappers");
    std::fs::create_dir_all(&folder).expect("a folder");
    let file = folder.join(format!("{name}.cmd"));
    std::fs::write(&file, format!("@echo off\r\n\"{}\" %*\r\n", server())).expect("a file");
    std::fs::write(folder.join(name), "#!/bin/sh\nexit 1\n").expect("a file");
    file
}

#[test]
fn a_batch_file_is_found_by_its_name_and_gets_its_arguments_whole() {
    let file = wrapper("npx-like");
    let name = file.with_extension("");
    // No `%`: Wine's `cmd.exe` drops it however it is quoted.
    let words = ["--words", "a b", "c&d", "(e)", "f^g", "h;i"];
    let arguments = [&["--", name.to_str().expect("a path in UTF-8")], &words[..]].concat();
    let mut host = Host::before(&arguments);
    let told: Vec<String> = serde_json::from_str(&host.says("words", json!({}))).expect("a list");
    assert_eq!(told, words);
    let pids = [host.number("pid"), host.number("child")];
    host.outlive.kill().expect("it is killed");
    until("all are gone", || !pids.iter().any(|pid| lives(*pid)));
}

#[test]
fn an_argument_that_would_be_a_command_is_none() {
    let file = wrapper("guarded");
    let trick = "\"&calc.exe&\"";
    let mut host = Host::before(&[
        "--",
        file.to_str().expect("a path in UTF-8"),
        "--words",
        trick,
    ]);
    let told: Vec<String> = serde_json::from_str(&host.says("words", json!({}))).expect("a list");
    assert_eq!(told, ["--words", trick]);
}
