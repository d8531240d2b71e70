//! The scenarios, for `--list`.

use outlive_check::Scenario;
use serde_json::json;

/// One line for each, or one JSON document.
pub fn list(scenarios: &[&'static Scenario], as_json: bool) -> String {
    if as_json {
        let all: Vec<_> = scenarios
            .iter()
            .map(|scenario| {
                json!({
                    "name": scenario.name,
                    "subject": scenario.subject,
                    "over": scenario.over,
                    "era": scenario.era,
                    "fm": scenario.fm,
                    "level": scenario.level,
                    "statement": scenario.statement,
                    "clause": scenario.clause,
                })
            })
            .collect();
        return format!("{:#}\n", json!(all));
    }
    let mut text = String::new();
    for scenario in scenarios {
        text.push_str(&format!(
            "{:<28} {:<6} {:<11} {:<12} {}\n",
            scenario.name,
            scenario.level.word(),
            scenario.over.word(),
            scenario.failure_modes(),
            scenario.statement,
        ));
    }
    text
}
