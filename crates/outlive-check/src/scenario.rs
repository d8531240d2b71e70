//! One accident, and one sentence about what must hold then.

use std::fmt;
use std::pin::Pin;
use std::time::Duration;

use serde::Serialize;

use crate::Era;
use crate::stage::Stage;
use crate::verdict::Held;

/// What a scenario does, as a future.
pub type Play<'a> = Pin<Box<dyn Future<Output = Held> + Send + 'a>>;

/// One accident, and what must hold then.
pub struct Scenario {
    /// In kebab case, unique.
    pub name: &'static str,
    /// Whom it is for.
    pub subject: Subject,
    /// The transports it makes sense over.
    pub over: Over,
    /// The era it is about; `None` if it is about either.
    pub era: Option<Era>,
    /// The failure modes it stems from: numbers in the catalogue (`docs/failures.md`).
    pub fm: &'static [u8],
    /// Who says so.
    pub level: Level,
    /// What must hold, in one line.
    pub statement: &'static str,
    /// Where the specification says so: revision, page, section.
    pub clause: Option<&'static str>,
    /// How long it may take, starts of the program not counted. Whoever needs longer hangs.
    pub bound: Duration,
    /// What happens.
    pub run: for<'a> fn(&'a mut Stage) -> Play<'a>,
}

impl fmt::Debug for Scenario {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

impl Scenario {
    /// A scenario for a subject over any transport, in any era, with half a minute; the rest is told by
    /// the methods that follow.
    pub const fn new(
        subject: Subject,
        name: &'static str,
        run: for<'a> fn(&'a mut Stage) -> Play<'a>,
    ) -> Scenario {
        Scenario {
            name,
            subject,
            over: Over::Both,
            era: None,
            fm: &[],
            level: Level::Advice,
            statement: "",
            clause: None,
            bound: Duration::from_secs(30),
            run,
        }
    }

    /// What must hold.
    pub const fn says(self, statement: &'static str) -> Scenario {
        Scenario { statement, ..self }
    }

    /// The failure modes it stems from.
    pub const fn fm(self, fm: &'static [u8]) -> Scenario {
        Scenario { fm, ..self }
    }

    /// The specification demands it, there.
    pub const fn must(self, clause: &'static str) -> Scenario {
        Scenario {
            level: Level::Must,
            clause: Some(clause),
            ..self
        }
    }

    /// The specification recommends it, there.
    pub const fn should(self, clause: &'static str) -> Scenario {
        Scenario {
            level: Level::Should,
            clause: Some(clause),
            ..self
        }
    }

    /// Only over this transport.
    pub const fn over(self, over: Over) -> Scenario {
        Scenario { over, ..self }
    }

    /// Only in this era.
    pub const fn era(self, era: Era) -> Scenario {
        Scenario {
            era: Some(era),
            ..self
        }
    }

    /// How long it may take.
    pub const fn seconds(self, bound: u64) -> Scenario {
        Scenario {
            bound: Duration::from_secs(bound),
            ..self
        }
    }

    /// The failure modes as they are cited: `FM-19, FM-20`.
    pub fn failure_modes(&self) -> String {
        cite(self.fm)
    }
}

/// Failure modes as they are cited.
pub(crate) fn cite(fm: &[u8]) -> String {
    let numbers: Vec<String> = fm.iter().map(|n| format!("FM-{n:02}")).collect();
    numbers.join(", ")
}

/// What kind of program is under test.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Subject {
    /// A server: the check plays hosts.
    Server,
    /// A client: the check plays servers.
    Client,
    /// A proxy: the check plays both.
    Proxy,
}

impl Subject {
    /// In lower case.
    pub fn word(self) -> &'static str {
        match self {
            Subject::Server => "server",
            Subject::Client => "client",
            Subject::Proxy => "proxy",
        }
    }
}

/// Who demands what a scenario looks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Level {
    /// The specification (or JSON-RPC, which it builds upon) demands it.
    Must,
    /// The specification recommends it.
    Should,
    /// The specification is silent; users were hurt.
    Advice,
}

impl Level {
    /// In lower case.
    pub fn word(self) -> &'static str {
        match self {
            Level::Must => "must",
            Level::Should => "should",
            Level::Advice => "advice",
        }
    }
}

/// The transports a scenario makes sense over.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Over {
    /// Pipes.
    Stdio,
    /// Streamable HTTP.
    Http,
    /// Either.
    Both,
}

impl Over {
    /// Whether a scenario for `self` can be played over `transport`.
    pub fn covers(self, transport: Over) -> bool {
        self == Over::Both || transport == Over::Both || self == transport
    }

    /// In words.
    pub fn word(self) -> &'static str {
        match self {
            Over::Stdio => "stdio",
            Over::Http => "HTTP",
            Over::Both => "stdio, HTTP",
        }
    }
}

/// The scenarios for a subject over a transport whose names match one of the patterns; all of them
/// if there is no pattern. In a pattern `*` stands for anything; without one it may match anywhere.
pub fn select(subject: Subject, over: Over, patterns: &[String]) -> Vec<&'static Scenario> {
    crate::scenarios()
        .filter(|scenario| scenario.subject == subject && scenario.over.covers(over))
        .filter(|scenario| patterns.is_empty() || patterns.iter().any(|p| fits(p, scenario.name)))
        .collect()
}

fn fits(pattern: &str, name: &str) -> bool {
    if !pattern.contains('*') {
        return name.contains(pattern);
    }
    let mut pieces = pattern.split('*');
    let first = pieces.next().unwrap_or_default();
    let Some(mut rest) = name.strip_prefix(first) else {
        return false;
    };
    let mut last = first;
    for piece in pieces {
        last = piece;
        match rest.find(piece) {
            Some(at) => rest = &rest[at + piece.len()..],
            None => return false,
        }
    }
    last.is_empty() || name.ends_with(last)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns() {
        assert!(fits("cancel", "cancel-twice"));
        assert!(fits("twice", "cancel-twice"));
        assert!(fits("cancel-*", "cancel-twice"));
        assert!(fits("*twice", "cancel-twice"));
        assert!(fits("c*-t*e", "cancel-twice"));
        assert!(!fits("twice*", "cancel-twice"));
        assert!(!fits("cancel-*x", "cancel-twice"));
    }

    #[test]
    fn names_are_unique_and_in_kebab_case() {
        let mut names: Vec<(Subject, &str)> = crate::scenarios()
            .map(|scenario| (scenario.subject, scenario.name))
            .collect();
        let all = names.len();
        names.sort_by_key(|(subject, name)| (subject.word(), *name));
        names.dedup();
        assert_eq!(names.len(), all);
        for scenario in crate::scenarios() {
            let kebab = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
            assert!(scenario.name.chars().all(kebab), "{}", scenario.name);
            assert!(scenario.statement.ends_with('.'), "{}", scenario.name);
            assert!(!scenario.fm.is_empty(), "{}", scenario.name);
            assert!(
                scenario.fm.iter().all(|n| (1..=74).contains(n)),
                "{}",
                scenario.name
            );
            // Whoever says "must" says where.
            let cited = scenario.clause.is_some() || scenario.level == Level::Advice;
            assert!(cited, "{}", scenario.name);
        }
    }
}
