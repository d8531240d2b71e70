//! What came of all of it.

use std::time::Duration;

use serde::Serialize;
use serde_json::Value;

use crate::cast::Cast;
use crate::journal::{Evidence, Journal};
use crate::scenario::{Level, Scenario, Subject};
use crate::sheet::Cell;
use crate::verdict::Verdict;

/// What came of a scenario, and what that rests on.
#[derive(Clone, Debug, Serialize)]
pub struct Trial {
    /// The scenario.
    #[serde(serialize_with = "about")]
    #[serde(flatten)]
    pub scenario: &'static Scenario,
    /// What came of it.
    #[serde(flatten)]
    pub verdict: Verdict,
    /// How long it took.
    #[serde(rename = "took_ms", serialize_with = "milliseconds")]
    pub took: Duration,
    /// What the verdict rests on.
    pub evidence: Evidence,
}

impl Trial {
    pub(crate) fn new(
        scenario: &'static Scenario,
        verdict: Verdict,
        journal: &Journal,
        took: Duration,
    ) -> Trial {
        Trial {
            scenario,
            verdict,
            took,
            evidence: journal.evidence(),
        }
    }

    /// The verdict as one sign, the same wherever it is shown.
    pub fn cell(&self) -> Cell {
        Cell::of(self.verdict.word(), self.scenario.level.word())
    }

    /// Whether what the specification demands was found to be wrong.
    pub fn is_broken_must(&self) -> bool {
        self.verdict.is_broken() && self.scenario.level == Level::Must
    }
}

/// What came of all of it.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// What kind of program was under test.
    pub subject: Subject,
    /// What was under test: what it calls itself.
    pub name: String,
    /// How it was started or reached.
    pub target: String,
    /// What the first look found.
    pub survey: Value,
    /// The seed of the random moments.
    pub seed: u64,
    /// How long it took.
    #[serde(rename = "took_ms", serialize_with = "milliseconds")]
    pub took: Duration,
    /// One for each scenario, in their order.
    pub trials: Vec<Trial>,
}

impl Report {
    pub(crate) fn new(cast: &Cast, seed: u64, took: Duration, trials: Vec<Trial>) -> Report {
        Report {
            subject: cast.subject(),
            name: cast.name(),
            target: cast.target(),
            survey: cast.survey(),
            seed,
            took,
            trials,
        }
    }

    /// How many scenarios came to this verdict, among those of a level if one is given.
    pub fn count(&self, level: Option<Level>, word: &str) -> usize {
        let fits = |trial: &&Trial| level.is_none_or(|level| trial.scenario.level == level);
        self.trials
            .iter()
            .filter(fits)
            .filter(|trial| trial.verdict.word() == word)
            .count()
    }

    /// Whether anything the specification demands was found to be wrong.
    pub fn breaks_a_must(&self) -> bool {
        self.trials.iter().any(Trial::is_broken_must)
    }
}

fn about<S: serde::Serializer>(scenario: &&'static Scenario, to: S) -> Result<S::Ok, S::Error> {
    use serde::ser::SerializeMap;
    let mut map = to.serialize_map(None)?;
    map.serialize_entry("name", scenario.name)?;
    map.serialize_entry("subject", &scenario.subject)?;
    map.serialize_entry("fm", scenario.fm)?;
    map.serialize_entry("level", &scenario.level)?;
    map.serialize_entry("statement", scenario.statement)?;
    map.serialize_entry("clause", &scenario.clause)?;
    map.end()
}

fn milliseconds<S: serde::Serializer>(time: &Duration, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_u64(u64::try_from(time.as_millis()).unwrap_or(u64::MAX))
}
