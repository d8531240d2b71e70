//! What differs between a definition that was accepted and the one a server has now, for people to judge.
//!
//! A definition is shown as one line per value, behind the path to it. Whoever decides must see what a model would:
//! characters that do not show, or that change how others are shown, are written as escapes, and of two long texts the
//! part is shown in which they differ.

use std::collections::{BTreeMap, HashSet};
use std::fmt;

use bytes::Bytes;
use serde_json::Value;

use crate::message::value;
use crate::protocol::List;

/// The most lines of a difference.
const MOST_LINES: usize = 200;
/// The most characters of a value, and how many of them stand before the first that differs.
const MOST_LETTERS: usize = 4_000;
const BEFORE: usize = 40;

/// What has happened to a definition.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Change {
    /// Nobody has accepted it.
    New,
    /// It is not the one that was accepted.
    Changed,
    /// The server does not have it any more.
    Removed,
}

impl Change {
    /// The word for it in logs.
    pub fn as_str(self) -> &'static str {
        match self {
            Change::New => "new",
            Change::Changed => "changed",
            Change::Removed => "removed",
        }
    }
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A definition that is not the one that was accepted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    /// The list it stands in; `None` for the server's `instructions`.
    pub list: Option<List>,
    /// Its name or URI, as the server has it.
    pub key: Box<str>,
    /// What has happened to it.
    pub kind: Change,
    /// What was accepted, as JSON.
    pub accepted: Option<Bytes>,
    /// What the server has now, as JSON.
    pub live: Option<Bytes>,
}

impl Difference {
    pub(super) fn new(
        list: Option<List>,
        key: &str,
        accepted: Option<Bytes>,
        live: Option<Bytes>,
    ) -> Difference {
        Difference {
            list,
            key: key.into(),
            kind: Change::of(accepted.as_ref(), live.as_ref()),
            accepted,
            live,
        }
    }

    /// The difference line by line: `- ` before what was accepted, `+ ` before what there is now. What is the same in
    /// both is left out. At most 200 lines, and one that counts the rest.
    pub fn lines(&self) -> Vec<String> {
        let (old, new) = (leaves(self.accepted.as_ref()), leaves(self.live.as_ref()));
        let mut lines = Vec::new();
        let mut more = 0;
        let mut seen = HashSet::new();
        let paths = old.order.iter().chain(&new.order);
        for path in paths.filter(|path| seen.insert(*path)) {
            let (before, after) = (old.values.get(path), new.values.get(path));
            if before == after {
                continue;
            }
            // The instructions are a value without a path.
            let name = if path.is_empty() { &*self.key } else { path };
            let from = first_difference(before, after).saturating_sub(BEFORE);
            for (mark, value) in [('-', before), ('+', after)] {
                let Some(value) = value else { continue };
                match lines.len() < MOST_LINES {
                    true => {
                        lines.push(format!("{mark} {}: {}", shown(name, 0), shown(value, from)))
                    }
                    false => more += 1,
                }
            }
        }
        if more > 0 {
            lines.push(format!("… and {more} more lines"));
        } else if lines.is_empty() && self.kind == Change::Changed {
            lines
                .push("only in members that are there twice, or in how numbers are written".into());
        }
        lines
    }
}

/// The values of a definition by their paths.
#[derive(Default)]
struct Leaves {
    order: Vec<String>,
    values: BTreeMap<String, String>,
}

fn leaves(json: Option<&Bytes>) -> Leaves {
    let mut leaves = Leaves::default();
    if let Some(json) = json {
        match serde_json::from_slice(json) {
            Ok(value) => leaves.add(String::new(), &value),
            // Not to be: what was learnt has been read as JSON.
            Err(_) => leaves.put(String::new(), String::from_utf8_lossy(json).into_owned()),
        }
    }
    leaves
}

impl Leaves {
    fn add(&mut self, path: String, value: &Value) {
        match value {
            Value::Object(members) if !members.is_empty() => {
                for (name, value) in members {
                    let dot = if path.is_empty() { "" } else { "." };
                    self.add(format!("{path}{dot}{}", step(name)), value);
                }
            }
            Value::Array(items) if !items.is_empty() => {
                for (at, value) in items.iter().enumerate() {
                    self.add(format!("{path}[{at}]"), value);
                }
            }
            leaf => self.put(path, leaf.to_string()),
        }
    }

    fn put(&mut self, path: String, value: String) {
        self.order.push(path.clone());
        self.values.insert(path, value);
    }
}

/// A name in a path; in quotes if it could be taken for something else.
fn step(name: &str) -> String {
    let plain = |c: char| c.is_alphanumeric() || matches!(c, '_' | '-' | '$');
    match !name.is_empty() && name.chars().all(plain) {
        true => name.into(),
        false => value::quoted(name),
    }
}

/// How many characters two values have in common at their beginning; none if there is but one.
fn first_difference(one: Option<&String>, other: Option<&String>) -> usize {
    match (one, other) {
        (Some(one), Some(other)) => {
            let pairs = one.chars().zip(other.chars());
            pairs.take_while(|(one, other)| one == other).count()
        }
        _ => 0,
    }
}

/// A text from this character on, bounded, with escapes for what does not show.
fn shown(text: &str, from: usize) -> String {
    let whole = text.chars().count();
    let mut out = String::new();
    // What fits is shown from its beginning.
    let from = if whole <= MOST_LETTERS { 0 } else { from };
    if from > 0 {
        out.push('…');
    }
    for c in text.chars().skip(from).take(MOST_LETTERS) {
        match shows(c) {
            true => out.push(c),
            false => out += &format!("\\u{{{:x}}}", u32::from(c)),
        }
    }
    if whole > from + MOST_LETTERS {
        out += &format!("… ({} more characters)", whole - from - MOST_LETTERS);
    }
    out
}

/// Whether a character is seen as what it is: no control character, no mark that turns the direction of text around,
/// nothing of no width, no variation selector, none of the tags that spell invisible ASCII.
fn shows(c: char) -> bool {
    !c.is_control()
        && !matches!(c,
            '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}'
            | '\u{180b}'..='\u{180f}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}' | '\u{3164}' | '\u{fe00}'..='\u{fe0f}' | '\u{feff}' | '\u{ffa0}'
            | '\u{fff0}'..='\u{fffb}' | '\u{e0000}'..='\u{e0fff}')
}
