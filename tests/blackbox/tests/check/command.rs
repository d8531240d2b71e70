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
    for (program, why) in [
        ("/no/such/program", "there is no such file"),
        ("no-such-program", "there is no such program in the PATH"),
        (
            "python3 server.py",
            "there is no such program; give the program and each argument",
        ),
        ("htp://127.0.0.1/mcp", "an address begins with http://"),
    ] {
        let output = Command::new(outlive())
            .args(["check", "server", "--", program])
            .output();
        let output = output.expect("outlive");
        assert_eq!(output.status.code(), Some(2));
        let words = String::from_utf8_lossy(&output.stderr).into_owned();
        let start = format!("{program} cannot be started: ");
        assert!(words.contains(&(start + why)), "{words}");
    }
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
    let reason =
        "/no/such/folder/report.html cannot be written: there is no folder /no/such/folder";
    assert!(words.contains(reason), "{words}");
}

#[test]
fn nothing_is_left_where_nothing_was_played() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("report.html");
    let output = check(
        &[
            "--html",
            &file.display().to_string(),
            "--call",
            "no-such-tool",
        ],
        None,
    );
    assert_eq!(output.status.code(), Some(2));
    assert!(!file.exists(), "an empty report");
}

/// The same sign in the terminal as in reports: `✗` is for what the specification demands.
#[test]
fn what_is_not_demanded_has_a_sign_of_its_own() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("report.html").display().to_string();
    let output = check(
        &["--only", "eof-when-idle", "--html", &file],
        Some("ignores-eof"),
    );
    assert_eq!(output.status.code(), Some(0));
    let page = String::from_utf8(output.stdout).expect("text");
    assert!(page.contains("1 scenario, seed 1"), "{page}");
    assert!(page.contains("  ! eof-when-idle "), "{page}");
    assert!(page.contains("! eof-when-idle  should"), "{page}");
    assert!(!page.contains('✗'), "{page}");
    let html = std::fs::read_to_string(&file).expect("a page");
    assert!(html.contains(">!</span> <b>eof-when-idle</b>"), "{html}");
}

/// A server that says nothing is given up within the patience that was asked for.
#[test]
fn a_mute_server_is_given_up_within_the_patience() {
    let begun = std::time::Instant::now();
    let output = Command::new(outlive())
        .args(["check", "server", "--patience", "1s", "--", "sleep", "1000"])
        .output()
        .expect("outlive");
    assert_eq!(output.status.code(), Some(2));
    let words = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(
        words.contains("initialize was not answered within 1s"),
        "{words}"
    );
    assert!(words.contains("--start-patience"), "{words}");
    // Twice a second, rather than twice a minute.
    assert!(begun.elapsed().as_secs() < 40, "{:?}", begun.elapsed());
}

#[test]
fn variables_that_are_no_settings_are_named() {
    let output = Command::new(outlive())
        .args(["check", "server", "--list"])
        .env("OUTLIVE_HOLDD", "1s")
        .output()
        .expect("outlive");
    assert_eq!(output.status.code(), Some(0));
    let words = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(words.contains("OUTLIVE_HOLDD is ignored"), "{words}");
    assert!(words.contains("did you mean OUTLIVE_HOLD?"), "{words}");
}

/// A tool like those of mcp-server-time: its schema asks for a string, its description says which.
const CLOCK: &str = r#"
while read -r line; do
  id=$(printf %s "$line" | sed -n 's/.*"id":\([0-9]*\).*/\1/p')
  case "$line" in
    *'"method":"initialize"'*) result='{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"clock","version":"1"}}';;
    *'"method":"tools/list"'*) result='{"tools":[
      {"name":"set_clock","inputSchema":{"type":"object"}},
      {"name":"get_current_time","annotations":{"readOnlyHint":true},"inputSchema":{"type":"object","required":["timezone"],
       "properties":{"timezone":{"type":"string","description":"IANA timezone name (e.g., \u0027America/New_York\u0027)"}}}}]}';;
    *'"method":"tools/call"'*America/New_York*) result='{"content":[{"type":"text","text":"12:00"}]}';;
    *'"method":"tools/call"'*) result='{"isError":true,"content":[]}';;
    *) result='{}';;
  esac
  [ -n "$id" ] && printf '{"jsonrpc":"2.0","id":%s,"result":%s}\n' "$id" "$(printf %s "$result" | tr -d '\n')"
done"#;

#[test]
fn arguments_are_found_in_the_schema_and_its_descriptions() {
    let output = Command::new(outlive())
        .args([
            "check",
            "server",
            "--patience",
            "4s",
            "--only",
            "blank-lines",
            "--json",
        ])
        .args(["--", "sh", "-c", CLOCK])
        .output()
        .expect("outlive");
    let words = String::from_utf8_lossy(&output.stderr).into_owned();
    let report: Value =
        serde_json::from_slice(&output.stdout).unwrap_or_else(|e| panic!("{e}: {words}"));
    let call = &report["survey"]["quick"];
    assert_eq!(call["name"], "get_current_time", "{report}");
    assert_eq!(call["arguments"]["timezone"], "America/New_York");
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
