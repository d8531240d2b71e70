//! The timeline: what happened, when and where, and how it looks in a hundred columns.
//!
//! An entry is laid out as lines of toned spans. The terminal and the picture paint the same
//! lines, so that neither can tell another story than the other.

use std::io::{self, IsTerminal, Write};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

/// The width everything fits into.
pub const WIDTH: usize = 100;
const TIME: usize = 8;
const LEFT: usize = 45;
const GUTTER: usize = 2;
const RIGHT: usize = WIDTH - TIME - LEFT - GUTTER;

/// Where an entry belongs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Who {
    /// The heading of a scene.
    Scene,
    /// The host: what it sent and what it read.
    Host,
    /// What outlive says it did.
    Outlive,
    /// What the demo did to the server behind both their backs.
    Fate,
}

impl Who {
    fn as_str(self) -> &'static str {
        match self {
            Who::Scene => "scene",
            Who::Host => "host",
            Who::Outlive => "outlive",
            Who::Fate => "fate",
        }
    }
}

/// How a span of text is meant; the painters choose the colours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tone {
    /// Ordinary text.
    Plain,
    /// Of little weight: times, rules.
    Quiet,
    /// A heading.
    Title,
    /// Something that went well.
    Good,
    /// Something that failed as it must, or that was set right.
    Warn,
    /// Something that breaks.
    Bad,
}

/// A piece of a line in one tone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Span {
    /// How it is meant.
    pub tone: Tone,
    /// What it says.
    pub text: String,
}

/// A line as it is painted.
pub type Line = Vec<Span>;

/// A span.
pub fn span(tone: Tone, text: impl Into<String>) -> Span {
    Span {
        tone,
        text: text.into(),
    }
}

#[derive(Debug)]
struct Entry {
    at: Duration,
    who: Who,
    tone: Tone,
    what: String,
}

/// The timeline of one run, painted while it grows if somebody watches.
#[derive(Debug)]
pub struct Timeline {
    start: Instant,
    entries: Vec<Entry>,
    lines: Vec<Line>,
    painter: Painter,
}

impl Timeline {
    /// An empty timeline that starts now.
    pub fn new(painter: Painter) -> Timeline {
        Timeline {
            start: Instant::now(),
            entries: Vec::new(),
            lines: Vec::new(),
            painter,
        }
    }

    /// Adds an entry.
    pub fn push(&mut self, who: Who, tone: Tone, what: impl Into<String>) {
        let entry = Entry {
            at: self.start.elapsed(),
            who,
            tone,
            what: what.into(),
        };
        for line in entry.lines() {
            self.line(line);
        }
        self.entries.push(entry);
    }

    /// Adds a line that is not an entry.
    pub fn line(&mut self, line: Line) {
        self.painter.paint(&line);
        self.lines.push(line);
    }

    /// Everything painted so far.
    pub fn lines(&self) -> &[Line] {
        &self.lines
    }

    /// The entries as data, under the scene they belong to.
    pub fn to_json(&self) -> Value {
        let mut scene = None;
        let mut list = Vec::new();
        for entry in &self.entries {
            if entry.who == Who::Scene {
                scene = Some(&entry.what);
                continue;
            }
            list.push(json!({
                "ms": millis(entry.at),
                "scene": scene,
                "who": entry.who.as_str(),
                "what": entry.what,
            }));
        }
        Value::Array(list)
    }
}

impl Entry {
    fn lines(&self) -> Vec<Line> {
        if self.who == Who::Scene {
            return vec![heading(&self.what)];
        }
        let (indent, width) = match self.who {
            Who::Host => (0, LEFT),
            _ => (LEFT + GUTTER, RIGHT),
        };
        let mut lines: Vec<Line> = Vec::new();
        for text in wrap(&self.what, width) {
            let time = match lines.is_empty() {
                true => format!("{:>6.2}  ", self.at.as_secs_f64()),
                false => " ".repeat(TIME),
            };
            let mut line = vec![span(Tone::Quiet, time)];
            if indent > 0 {
                line.push(span(Tone::Plain, " ".repeat(indent)));
            }
            line.push(span(self.tone, text));
            lines.push(line);
        }
        lines
    }
}

/// A title in a rule across the page.
pub fn heading(title: &str) -> Line {
    let rest = WIDTH.saturating_sub(title.chars().count() + 5);
    vec![
        span(Tone::Quiet, "── "),
        span(Tone::Title, title),
        span(Tone::Quiet, format!(" {}", "─".repeat(rest + 1))),
    ]
}

/// The line over the columns.
pub fn columns(left: &str, right: &str) -> Line {
    vec![
        span(Tone::Quiet, format!("{:>6}  ", "s")),
        span(Tone::Quiet, format!("{left:LEFT$}{:GUTTER$}", "")),
        span(Tone::Quiet, right),
    ]
}

/// Breaks text between words into lines of at most `width` characters; lines after the first are
/// set in by two. A word longer than a line is broken where it must be.
fn wrap(text: &str, width: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    let mut used = 0;
    for word in text.split(' ') {
        let mut word: Vec<char> = word.chars().collect();
        loop {
            let fresh = used == if lines.len() == 1 { 0 } else { 2 };
            let space = usize::from(!fresh);
            let line = lines.last_mut().expect("there is always a line");
            if used + space + word.len() <= width {
                line.extend(std::iter::repeat_n(' ', space).chain(word.iter().copied()));
                used += space + word.len();
                break;
            }
            if fresh {
                line.extend(word.drain(..width - used));
            }
            lines.push("  ".into());
            used = 2;
        }
    }
    lines
}

/// A duration for a program: milliseconds, to a tenth.
pub fn millis(duration: Duration) -> f64 {
    (duration.as_secs_f64() * 10_000.0).round() / 10.0
}

/// A duration for a person: "0.43 ms", "5.5 ms", "161 ms", "1.5 s".
pub fn brief(duration: Duration) -> String {
    match duration.as_secs_f64() * 1000.0 {
        ms if ms < 0.995 => format!("{ms:.2} ms"),
        ms if ms < 9.95 => format!("{ms:.1} ms"),
        ms if ms < 999.5 => format!("{ms:.0} ms"),
        ms => format!("{:.1} s", ms / 1000.0),
    }
}

/// Text that came from elsewhere, safe to show on a terminal.
pub fn printable(text: &str) -> String {
    let mut safe = String::new();
    for c in text.chars() {
        match c.is_control() {
            true => safe.extend(c.escape_default()),
            false => safe.push(c),
        }
    }
    safe
}

/// At most `width` characters of a text, the last an ellipsis if there are more.
pub fn clipped(text: &str, width: usize) -> String {
    match text.char_indices().nth(width) {
        None => text.into(),
        Some(_) => text.chars().take(width - 1).chain(['…']).collect(),
    }
}

/// Puts lines on standard output, or nowhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Painter {
    /// Nobody watches.
    Off,
    /// Plain text.
    Text,
    /// Text with colours.
    Colour,
}

impl Painter {
    /// Colours only on a terminal that has them and whose owner wants them.
    pub fn for_stdout() -> Painter {
        let unwanted = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
        let dumb = std::env::var_os("TERM").is_some_and(|term| term == "dumb");
        match io::stdout().is_terminal() && !unwanted && !dumb {
            true => Painter::Colour,
            false => Painter::Text,
        }
    }

    /// A reader that has gone away does not end the demo.
    fn paint(self, line: &[Span]) {
        let text = match self {
            Painter::Off => return,
            Painter::Text => plain(line),
            Painter::Colour => line.iter().map(ansi).collect(),
        };
        writeln!(io::stdout(), "{}", text.trim_end()).ok();
    }
}

fn plain(line: &[Span]) -> String {
    line.iter().map(|span| span.text.as_str()).collect()
}

fn ansi(span: &Span) -> String {
    let code = match span.tone {
        Tone::Plain => return span.text.clone(),
        Tone::Quiet => "2",
        Tone::Title => "1",
        Tone::Good => "32",
        Tone::Warn => "33",
        Tone::Bad => "31",
    };
    format!("\x1b[{code}m{}\x1b[0m", span.text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_broken_between_words_and_set_in() {
        assert_eq!(wrap("short", 10), ["short"]);
        assert_eq!(wrap("one two three", 8), ["one two", "  three"]);
        assert_eq!(wrap("exactly ten", 11), ["exactly ten"]);
        assert_eq!(wrap("", 5), [""]);
    }

    #[test]
    fn a_word_longer_than_a_line_is_broken() {
        assert_eq!(wrap("abcdefghij", 4), ["abcd", "  ef", "  gh", "  ij"]);
        assert_eq!(wrap("a bcdefg", 5), ["a", "  bcd", "  efg"]);
    }

    #[test]
    fn every_line_of_an_entry_fits_the_page() {
        let what = "The server was ended by signal 9 (SIGKILL) while it ran the tool. ".repeat(4);
        for who in [Who::Host, Who::Outlive, Who::Fate] {
            let entry = Entry {
                at: Duration::from_millis(1234),
                who,
                tone: Tone::Plain,
                what: what.clone(),
            };
            let lines = entry.lines();
            assert!(lines.len() > 1);
            assert!(plain(&lines[0]).starts_with("  1.23  "));
            for line in &lines {
                assert!(plain(line).chars().count() <= WIDTH, "{line:?}");
            }
        }
        assert_eq!(plain(&heading("Killed")).chars().count(), WIDTH);
    }

    #[test]
    fn the_columns_do_not_touch() {
        let entry = |who| Entry {
            at: Duration::ZERO,
            who,
            tone: Tone::Plain,
            what: "x".repeat(300),
        };
        let host = entry(Who::Host).lines();
        assert!(
            host.iter()
                .all(|line| plain(line).chars().count() <= TIME + LEFT)
        );
        let outlive = entry(Who::Outlive).lines();
        assert!(
            outlive[1..]
                .iter()
                .all(|line| plain(line).starts_with(&" ".repeat(TIME + LEFT + GUTTER)))
        );
    }

    #[test]
    fn durations_are_brief() {
        let cases = [
            (0.044, "0.04 ms"),
            (0.996, "1.0 ms"),
            (9.9, "9.9 ms"),
            (9.96, "10 ms"),
            (161.4, "161 ms"),
            (1512.0, "1.5 s"),
        ];
        for (ms, text) in cases {
            assert_eq!(brief(Duration::from_secs_f64(ms / 1000.0)), text);
        }
    }

    #[test]
    fn what_is_clipped_says_so() {
        assert_eq!(clipped("häß", 3), "häß");
        assert_eq!(clipped("häßlich", 3), "hä…");
    }

    #[test]
    fn control_characters_do_not_reach_the_terminal() {
        assert_eq!(printable("a\x1b[31mb\u{fffd}…"), "a\\u{1b}[31mb\u{fffd}…");
    }

    #[test]
    fn the_data_has_each_entry_under_its_scene() {
        let mut timeline = Timeline::new(Painter::Off);
        timeline.push(Who::Scene, Tone::Title, "Killed");
        timeline.push(Who::Fate, Tone::Bad, "kill -9");
        timeline.line(heading("not an entry"));
        let data = timeline.to_json();
        assert_eq!(data.as_array().map(Vec::len), Some(1));
        assert_eq!(data[0]["scene"], "Killed");
        assert_eq!(data[0]["who"], "fate");
        assert_eq!(data[0]["what"], "kill -9");
        assert_eq!(timeline.lines().len(), 3);
    }
}
