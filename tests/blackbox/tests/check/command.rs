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

#[test]
fn reports_are_kept_and_stand_beside_each_other() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = |name: &str| folder.path().join(name).display().to_string();
    let (html, xml) = (file("report.html"), file("report.xml"));
    let only = ["--only", "cancel-during-call", "--json"];
    let bad = check(
        &[&only[..], &["--html", &html, "--junit", &xml]].concat(),
        Some("dies-on-cancel"),
    );
    assert_eq!(bad.status.code(), Some(1));
    let page = std::fs::read_to_string(&html).expect("a page");
    assert!(page.contains("notifications/cancelled"), "{page}");
    let page = std::fs::read_to_string(&xml).expect("a report");
    assert!(page.contains("tests=\"1\" failures=\"1\""), "{page}");

    std::fs::write(file("bad.json"), &bad.stdout).expect("a file");
    std::fs::write(file("good.json"), check(&only, None).stdout).expect("a file");
    let (svg, bad, good) = (file("matrix.svg"), file("bad.json"), file("good.json"));
    let output = Command::new(outlive())
        .args(["check", "compare", "--markdown", "--svg", &svg])
        .args([format!("before={bad}"), format!("after={good}")])
        .output()
        .expect("outlive");
    assert_eq!(output.status.code(), Some(0));
    let table = String::from_utf8(output.stdout).expect("text");
    assert!(
        table.contains("| scenario | level | before | after |"),
        "{table}"
    );
    assert!(
        table.contains("| `cancel-during-call` | must | ✗ | ✓ |"),
        "{table}"
    );
    let picture = std::fs::read_to_string(&svg).expect("a picture");
    assert!(picture.starts_with("<svg"), "{picture}");
}

#[test]
fn a_file_that_cannot_be_written_is_told_before_anything_is_played() {
    let output = check(&["--html", "/no/such/folder/report.html"], None);
    assert_eq!(output.status.code(), Some(2));
    assert!(output.stdout.is_empty());
    let words = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(
        words.contains("/no/such/folder/report.html cannot be written"),
        "{words}"
    );
}

#[test]
fn a_client_is_checked_over_http_where_that_is_asked_for() {
    let output = Command::new(outlive())
        .args(["check", "client", "--over", "http", "--patience", "4s"])
        .args(["--only", "session-h*", "--json", "--"])
        .args(peer("web-client", Some("omits-session-header")))
        .output()
        .expect("outlive");
    assert_eq!(output.status.code(), Some(1));
    let report: Value = serde_json::from_slice(&output.stdout).expect("JSON and nothing else");
    assert_eq!(report["trials"][0]["name"], "session-header");
    assert_eq!(report["trials"][0]["verdict"], "broken");
    let wire = report["trials"][0]["evidence"]["transcript"].to_string();
    assert!(wire.contains("notifications/initialized"), "{wire}");
}
