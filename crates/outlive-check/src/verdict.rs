//! What came of a scenario.

use serde::Serialize;

/// What came of a scenario.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "verdict", rename_all = "snake_case")]
pub enum Verdict {
    /// What the statement says was so.
    Held,
    /// It was not.
    Broken {
        /// What was seen instead, as a sentence.
        seen: String,
    },
    /// The question does not arise with this program.
    NotApplicable {
        /// Why not, and what would change it.
        why: String,
    },
}

impl Verdict {
    /// In one or two words.
    pub fn word(&self) -> &'static str {
        match self {
            Verdict::Held => "held",
            Verdict::Broken { .. } => "broken",
            Verdict::NotApplicable { .. } => "not applicable",
        }
    }

    /// Whether the statement was found to be wrong.
    pub fn is_broken(&self) -> bool {
        matches!(self, Verdict::Broken { .. })
    }
}

impl From<Held> for Verdict {
    fn from(held: Held) -> Verdict {
        match held {
            Ok(()) => Verdict::Held,
            Err(Finding::Broken(seen)) => Verdict::Broken { seen },
            Err(Finding::NotApplicable(why)) => Verdict::NotApplicable { why },
        }
    }
}

/// Why a scenario ended before its end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Finding {
    /// The statement is wrong: what was seen.
    Broken(String),
    /// The question does not arise: why.
    NotApplicable(String),
}

impl Finding {
    /// What was seen, as an error.
    pub fn broken<T>(seen: impl Into<String>) -> Result<T, Finding> {
        Err(Finding::Broken(seen.into()))
    }

    /// Why the question does not arise, as an error.
    pub fn not_applicable<T>(why: impl Into<String>) -> Result<T, Finding> {
        Err(Finding::NotApplicable(why.into()))
    }
}

/// What a scenario returns: `Ok` is held.
pub type Held = Result<(), Finding>;
