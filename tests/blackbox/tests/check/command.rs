//! The command: what it prints, and its exit codes.

use std::process::{Command, Output};

use serde_json::Value;

use crate::play::{outlive, peer};

fn check(flags: &[&str], defect: Option<&str>) -> Output {
    Command::new(outlive())
        .args(["check", "server", "--patience", "4s"])
        .args(flags)
        .arg("--")
        .args(peer("server", defect))
        .output()
        .expect("outlive")
}

#[test]
fn a_broken_must_is_exit_code_1_and_comes_with_its_evidence() {
    let output = check(&["--only", "cancel-during-call"], Some("dies-on-cancel"));
    let page = String::from_utf8(output.stdout).expect("text");
    assert_eq!(output.status.code(), Some(1), "{page}");
    assert!(page.contains("✗ cancel-during-call  must, FM-19"), "{page}");
    assert!(page.contains("exited with status 1"), "{page}");
    assert!(page.contains("host → {"), "{page}");
    assert!(page.contains("notifications/cancelled"), "{page}");
    assert!(!page.contains('\x1b'), "colours are for terminals: {page}");
}

#[test]
fn a_broken_should_is_exit_code_0() {
    let output = check(&["--only", "eof-when-idle", "--json"], Some("ignores-eof"));
    assert_eq!(output.status.code(), Some(0));
    let report: Value = serde_json::from_slice(&output.stdout).expect("JSON and nothing else");
    assert_eq!(report["trials"][0]["verdict"], "broken");
    assert_eq!(report["trials"][0]["level"], "should");
    assert!(report["trials"][0]["evidence"]["transcript"].is_array());
}

#[test]
fn what_cannot_be_tested_is_exit_code_2() {
    for flags in [
        &["--only", "no-such-scenario"][..],
        &["--call", "no-such-tool"],
        &["--bogus"],
    ] {
        let output = check(flags, None);
        assert_eq!(output.status.code(), Some(2), "{flags:?}");
        assert!(output.stdout.is_empty(), "{flags:?}");
        assert!(!output.stderr.is_empty(), "{flags:?}");
    }
    let output = Command::new(outlive())
        .args(["check", "server", "--", "/no/such/program"])
        .output();
    let output = output.expect("outlive");
    assert_eq!(output.status.code(), Some(2));
    let words = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(
        words.contains("/no/such/program cannot be started"),
        "{words}"
    );
}
