//! The guide lists the scenarios there are.

use std::path::Path;

use outlive_check::{Subject, scenarios};

const BEGIN: &str = "<!-- scenarios: begin -->\n";
const END: &str = "<!-- scenarios: end -->";

/// The lists as they should be.
fn lists() -> String {
    let mut text = String::new();
    for subject in [Subject::Server, Subject::Client, Subject::Proxy] {
        let of_subject: Vec<_> = scenarios().filter(|s| s.subject == subject).collect();
        if of_subject.is_empty() {
            continue;
        }
        text.push_str(&format!(
            "\n### For a {}: {}\n\n| scenario | | over | from | what must hold |\n|---|---|---|---|---|\n",
            subject.word(),
            of_subject.len()
        ));
        for scenario in of_subject {
            let clause = scenario.clause.map(|clause| format!(" *({clause})*"));
            text.push_str(&format!(
                "| `{}` | {} | {} | {} | {}{} |\n",
                scenario.name,
                scenario.level.word(),
                scenario.over.word(),
                scenario.failure_modes(),
                scenario.statement,
                clause.unwrap_or_default(),
            ));
        }
    }
    text + "\n"
}

/// `OUTLIVE_UPDATE_DOCS=1` writes what this test wants to see.
#[test]
fn the_guide_lists_every_scenario() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/check.md");
    let guide = std::fs::read_to_string(&path).expect("the guide");
    let (head, rest) = guide.split_once(BEGIN).expect("where the lists begin");
    let (listed, tail) = rest.split_once(END).expect("where the lists end");
    if std::env::var_os("OUTLIVE_UPDATE_DOCS").is_some() {
        let written = format!("{head}{BEGIN}{}{END}{tail}", lists());
        return std::fs::write(&path, written).expect("the guide can be written");
    }
    assert_eq!(listed, lists(), "run again with OUTLIVE_UPDATE_DOCS=1");
}
