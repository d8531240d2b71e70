use std::time::Duration;

use super::*;
use crate::journal::Journal;
use crate::report::Trial;
use crate::scenario::{Play, Scenario, Subject};
use crate::stage::Stage;
use crate::verdict::Verdict;

fn nothing(_: &mut Stage) -> Play<'_> {
    Box::pin(async { Ok(()) })
}

static DEMANDED: Scenario = Scenario::new(Subject::Server, "demanded", nothing)
    .says("It holds.")
    .must("2025-11-25 basic: Requests")
    .fm(&[7, 19]);
static WISE: Scenario = Scenario::new(Subject::Server, "wise", nothing)
    .says("It would be good.")
    .fm(&[58]);

/// What a program under test said must stay text wherever it is shown.
const NASTY: &str = "</pre><script>alert(\"1 | 2\")</script>\u{1}&amp;";

fn trial(scenario: &'static Scenario, verdict: Verdict) -> Trial {
    let journal = Journal::default();
    let leg = journal.leg("host");
    leg.sent(b"{\"id\":1}\n");
    leg.received(NASTY.as_bytes());
    leg.stderr(NASTY.as_bytes());
    leg.exited("It exited with status 1.".into());
    Trial::new(scenario, verdict, &journal, Duration::from_millis(1_050))
}

fn sheet(name: &str, trials: Vec<Trial>) -> Sheet {
    Sheet::from(&Report {
        subject: Subject::Server,
        name: name.to_owned(),
        target: format!("{NASTY} --flag"),
        survey: serde_json::Value::Null,
        seed: 7,
        took: Duration::from_millis(2_100),
        trials,
    })
}

fn broken() -> Verdict {
    let seen = NASTY.to_owned();
    Verdict::Broken { seen }
}

fn both() -> [Sheet; 2] {
    let why = "no tools".to_owned();
    [
        sheet(
            "one",
            vec![trial(&DEMANDED, broken()), trial(&WISE, broken())],
        ),
        sheet(
            "two",
            vec![
                trial(&WISE, Verdict::NotApplicable { why }),
                trial(&DEMANDED, Verdict::Held),
            ],
        ),
    ]
}

#[test]
fn scenarios_stand_beside_each_other_whatever_their_order() {
    let sheets = both();
    let matrices = Matrix::of(&sheets);
    assert_eq!(matrices.len(), 1);
    let rows = &matrices[0].rows;
    let cells = |row: &Row<'_>| row.cells().collect::<Vec<_>>();
    assert_eq!(rows[0].scenario.name, "demanded");
    assert_eq!(cells(&rows[0]), [Cell::Broken, Cell::Held]);
    assert_eq!(cells(&rows[1]), [Cell::Unwise, Cell::NotApplicable]);
    let half = [
        sheets[0].clone(),
        sheet("three", vec![trial(&WISE, Verdict::Held)]),
    ];
    let matrix = &Matrix::of(&half)[0];
    assert_eq!(cells(&matrix.rows[0]), [Cell::Broken, Cell::NotPlayed]);
    assert_eq!(
        (
            matrix.count(0, Cell::Broken),
            matrix.count(1, Cell::NotPlayed)
        ),
        (1, 1)
    );
}

#[test]
fn what_peers_said_stays_text() {
    let sheets = both();
    for page in [
        html(&sheets),
        junit(&sheets[0]),
        picture(&sheets),
        markdown(&sheets),
    ] {
        assert!(!page.contains("<script>alert"), "{page}");
        assert!(!page.contains('\u{1}'), "{page}");
    }
}

#[test]
fn only_a_broken_must_is_a_failure_of_the_build() {
    let xml = junit(&both()[0]);
    assert!(
        xml.contains("tests=\"2\" failures=\"1\" errors=\"0\" skipped=\"0\" time=\"2.100\""),
        "{xml}"
    );
    assert!(xml.contains("classname=\"outlive.check.server\" name=\"demanded\" time=\"1.050\"><failure message=\"&lt;/pre&gt;"), "{xml}");
    assert!(
        xml.contains("name=\"wise\" time=\"1.050\"><system-out>It would be good. (advice, FM-58)"),
        "{xml}"
    );
    let xml = junit(&both()[1]);
    assert!(xml.contains("<skipped message=\"no tools\"/>"), "{xml}");
}

#[test]
fn every_cell_of_the_page_leads_to_its_transcript() {
    let page = html(&both());
    for link in page.split("href=\"#").skip(1) {
        let anchor = link.split('"').next().unwrap_or_default();
        assert!(
            page.contains(&format!("<details id=\"{anchor}\"")),
            "{anchor}"
        );
    }
    assert_eq!(page.matches("<details id").count(), 4);
    assert_eq!(page.matches("{&quot;id&quot;:1}").count(), 4);
    assert!(!page.contains("http"), "nothing from elsewhere");
}

#[test]
fn a_table_has_a_column_for_each_program() {
    let table = markdown(&both());
    assert!(
        table.contains("| scenario | level | one | two |"),
        "{table}"
    );
    assert!(table.contains("| `demanded` | must | ✗ | ✓ |"), "{table}");
    assert!(table.contains("| `wise` | advice | ! | – |"), "{table}");
    assert!(table.contains("| **broken** | | 1 | 0 |"), "{table}");
    let plain = text(&both());
    assert!(
        plain.contains("demanded             must     ✗   ✓"),
        "{plain}"
    );
}

#[test]
fn what_is_no_report_is_said_to_be_none() {
    let error = Sheet::read("{}").err().unwrap_or_default();
    assert!(
        error.starts_with("not a report of outlive check"),
        "{error}"
    );
}
