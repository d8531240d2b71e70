//! `outlive demo` keeps its promises, and its exit code says so.

use std::process::{Command, Output};

use serde_json::Value;

fn demo(arguments: &[&str], setting: Option<(&str, &str)>) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_outlive"));
    command.arg("demo").args(arguments).envs(setting);
    command.output().expect("the demo runs")
}

#[test]
fn the_totals_are_the_ones_claimed() {
    // A setting of the user's own shell must not change what the demo shows.
    let output = demo(&["--json"], Some(("OUTLIVE_RETRY", "never")));
    let text = String::from_utf8(output.stdout).expect("the document is text");
    let document: Value = serde_json::from_str(&text).expect("the document is JSON");
    assert_eq!(document["problems"], serde_json::json!([]), "{text}");
    assert!(output.status.success(), "{text}");

    let totals = &document["totals"];
    assert_eq!(totals["calls"], 13);
    assert_eq!(totals["answered"], 10);
    assert_eq!(
        totals["failed"],
        serde_json::json!({ "connection_lost": 1, "timeout": 1 })
    );
    assert_eq!(totals["cancelled"], 1);
    assert_eq!(totals["restarts"], 5);
    assert_eq!(totals["repeated"], 1);
    assert_eq!(totals["tool_handles_lost"], 0);
}

#[test]
fn the_timeline_is_plain_text_in_a_hundred_columns() {
    let output = demo(&[], None);
    let text = String::from_utf8(output.stdout).expect("the timeline is text");
    assert!(output.status.success(), "{text}");
    assert!(
        !text.contains('\x1b'),
        "colours where nobody sees them: {text}"
    );
    for line in text.lines() {
        assert!(line.chars().count() <= 100, "{line}");
    }
    assert!(text.contains("SIGKILL"), "{text}");
    assert!(text.contains("All as claimed"), "{text}");
}
