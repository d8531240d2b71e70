//! What build servers read.

use std::fmt::Write;

use super::{Cell, Sentence, Sheet, escaped};

/// One test suite; a broken *must* is a failure. What is merely recommended passes, as the exit code
/// has it, and says what was seen on its standard output.
pub fn junit(sheet: &Sheet) -> String {
    let count = |cell| sheet.trials.iter().filter(|t| t.cell() == cell).count();
    let (all, failures, skipped) = (
        sheet.trials.len(),
        count(Cell::Broken),
        count(Cell::NotApplicable),
    );
    let name = format!("outlive check {}: {}", sheet.subject, sheet.title());
    let mut xml = String::from("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n");
    // Writing into a string cannot fail.
    let _ = writeln!(
        xml,
        "<testsuites><testsuite name=\"{}\" tests=\"{all}\" failures=\"{failures}\" \
         errors=\"0\" skipped=\"{skipped}\" time=\"{}\">",
        escaped(&name),
        seconds(sheet.took_ms),
    );
    let _ = writeln!(
        xml,
        "<properties><property name=\"seed\" value=\"{}\"/><property name=\"target\" value=\"{}\"/></properties>",
        sheet.seed,
        escaped(&sheet.target),
    );
    for trial in &sheet.trials {
        xml.push_str(&case(sheet, trial));
    }
    xml.push_str("</testsuite></testsuites>\n");
    xml
}

fn case(sheet: &Sheet, trial: &Sentence) -> String {
    let body = match trial.cell() {
        Cell::Held => String::new(),
        Cell::Broken => format!(
            "<failure message=\"{}\">{}</failure>",
            escaped(trial.remark()),
            escaped(&account(trial)),
        ),
        Cell::Unwise => format!("<system-out>{}</system-out>", escaped(&account(trial))),
        Cell::NotApplicable | Cell::NotPlayed => {
            format!("<skipped message=\"{}\"/>", escaped(trial.remark()))
        }
    };
    format!(
        "<testcase classname=\"outlive.check.{}\" name=\"{}\" time=\"{}\">{body}</testcase>\n",
        escaped(&sheet.subject),
        escaped(&trial.name),
        seconds(trial.took_ms),
    )
}

/// The statement, what was seen, and the wire before it.
fn account(trial: &Sentence) -> String {
    let mut text = format!(
        "{} ({}, {})\n",
        trial.statement,
        trial.level,
        trial.failure_modes()
    );
    if let Some(clause) = &trial.clause {
        let _ = writeln!(text, "{clause}");
    }
    let _ = writeln!(text, "Seen: {}\n", trial.remark());
    for (nth, line) in trial.evidence.transcript.iter().enumerate() {
        if trial.evidence.omitted > 0 && nth == trial.evidence.omitted_after {
            let _ = writeln!(text, "… {} left out …", trial.evidence.omitted);
        }
        let _ = writeln!(
            text,
            "{:>9.1} ms  {} {}: {}",
            line.at_ms, line.leg, line.direction, line.text
        );
    }
    for line in &trial.evidence.stderr_tail {
        let _ = writeln!(text, "stderr: {line}");
    }
    text
}

fn seconds(ms: u64) -> String {
    format!("{}.{:03}", ms / 1_000, ms % 1_000)
}
