//! Reports as they are read: by a person, by a build server, beside each other.
//!
//! # Theory
//!
//! A [`Report`] belongs to the run that made it and knows its scenarios; what is printed as `--json`
//! outlives both. A [`Sheet`] is that document read back, so that everything drawn from a report can
//! also be drawn from a file of last week, and from several files side by side: one way to read, five
//! ways to show.
//!
//! - `html`: a page with the matrix, the verdicts and the transcripts to open.
//! - `junit`: what build servers read.
//! - `table`: the matrix in Markdown, for documentation, and in plain text, for a terminal.
//! - `picture`: the matrix as SVG.
//! - `matrix`: what those three have in common: which scenario stands beside which.

mod html;
mod junit;
mod matrix;
mod picture;
mod table;

use serde::Deserialize;

use crate::report::Report;

pub use html::html;
pub use junit::junit;
pub use matrix::{Cell, Matrix, Row};
pub use picture::picture;
pub use table::{markdown, text};

/// A report that was read.
#[derive(Clone, Debug, Deserialize)]
pub struct Sheet {
    /// What kind of program was under test.
    pub subject: String,
    /// What it calls itself.
    pub name: String,
    /// How it was started or reached.
    pub target: String,
    /// The seed of the random moments.
    pub seed: u64,
    /// How long it took.
    pub took_ms: u64,
    /// What came of each scenario.
    pub trials: Vec<Sentence>,
}

/// What came of a scenario: the statement and the verdict.
#[derive(Clone, Debug, Deserialize)]
pub struct Sentence {
    /// The scenario.
    pub name: String,
    /// The failure modes it stems from.
    pub fm: Vec<u8>,
    /// `must`, `should` or `advice`.
    pub level: String,
    /// What must hold.
    pub statement: String,
    /// Where the specification says so.
    pub clause: Option<String>,
    /// `held`, `broken` or `not_applicable`.
    pub verdict: String,
    /// What was seen instead, if it is broken.
    pub seen: Option<String>,
    /// Why the question does not arise, if it does not.
    pub why: Option<String>,
    /// How long it took.
    pub took_ms: u64,
    /// What that rests on.
    pub evidence: Exhibit,
}

/// What a verdict rests on.
#[derive(Clone, Debug, Deserialize)]
pub struct Exhibit {
    /// The wire, in order.
    pub transcript: Vec<Line>,
    /// How many entries were left out.
    pub omitted: usize,
    /// How many entries come before those that were left out.
    pub omitted_after: usize,
    /// How processes ended.
    pub exits: Vec<String>,
    /// The last lines of standard error.
    pub stderr_tail: Vec<String>,
}

/// One thing that happened on the wire.
#[derive(Clone, Debug, Deserialize)]
pub struct Line {
    /// Milliseconds since the scenario began.
    pub at_ms: f64,
    /// Between whom.
    pub leg: String,
    /// `sent`, `received` or `note`.
    pub direction: String,
    /// What it was.
    pub text: String,
}

impl Sheet {
    /// Reads what `--json` wrote.
    pub fn read(document: &str) -> Result<Sheet, String> {
        serde_json::from_str(document)
            .map_err(|error| format!("not a report of outlive check: {error}"))
    }

    /// What it is called where it stands beside others.
    pub fn title(&self) -> &str {
        match self.name.is_empty() {
            true => &self.target,
            false => &self.name,
        }
    }
}

impl From<&Report> for Sheet {
    fn from(report: &Report) -> Sheet {
        // One is written for the other to be read: a test holds them together.
        serde_json::to_value(report)
            .and_then(serde_json::from_value)
            .unwrap_or_else(|error| unreachable!("a report that is not one: {error}"))
    }
}

impl Sentence {
    /// The verdict as one sign.
    pub fn cell(&self) -> Cell {
        Cell::of(&self.verdict, &self.level)
    }

    /// What there is to say beyond the verdict.
    pub fn remark(&self) -> &str {
        self.seen.as_deref().or(self.why.as_deref()).unwrap_or("")
    }

    /// The failure modes as they are cited.
    pub fn failure_modes(&self) -> String {
        crate::scenario::cite(&self.fm)
    }
}

/// Text as it may stand in HTML, SVG and XML, within quotes too. Control characters, which XML cannot
/// express at all, are replaced.
fn escaped(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => safe.push_str("&amp;"),
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            '"' => safe.push_str("&quot;"),
            '\'' => safe.push_str("&#39;"),
            '\n' | '\t' => safe.push(c),
            c if c.is_control() || matches!(c, '\u{fffe}' | '\u{ffff}') => safe.push('\u{fffd}'),
            c => safe.push(c),
        }
    }
    safe
}

#[cfg(test)]
mod tests;
