//! What `outlive doctor` prints.

use std::io::{self, IsTerminal as _, Write as _};

use serde_json::{Value, json};

use super::diagnosis::Diagnosis;
use crate::paint::{Paint, Tone};

/// So many of a server's last words are shown; all of them are in `--json`.
const WORDS: usize = 3;

/// Prints for a person.
pub fn text(diagnoses: &[Diagnosis]) -> io::Result<()> {
    let paint = Paint::when(io::stdout().is_terminal());
    let width = diagnoses
        .iter()
        .map(|it| it.name.chars().count())
        .max()
        .unwrap_or(0)
        .clamp(6, 40);
    let mut out = io::stdout().lock();
    let title = format!(
        "{:width$}  found  starts  handshake  era     tools    time",
        "server"
    );
    writeln!(out, "{}", paint.tone(Tone::Title, &title))?;
    for it in diagnoses {
        let era = it.era().unwrap_or("–");
        let tools = it.tools.map_or("–".to_owned(), |tools| tools.to_string());
        let time = it.time.map_or("–".to_owned(), |time| {
            format!("{:.1} s", time.as_secs_f64())
        });
        let row = match it.is_on {
            true => format!(
                "{:width$}  {:5}  {:6}  {:9}  {era:6}  {tools:>5}  {time:>6}",
                visible(&it.name),
                sign(it.found),
                sign(it.starts),
                sign(it.handshake),
            ),
            false => format!("{:width$}  switched off in the file", visible(&it.name)),
        };
        let tone = match (it.is_on, it.is_well()) {
            (false, _) => Tone::Quiet,
            (true, true) => Tone::Good,
            (true, false) => Tone::Bad,
        };
        writeln!(out, "{}", paint.tone(tone, &row))?;
        if let Some(error) = &it.error {
            writeln!(out, "  {}", visible(error))?;
        }
        let first = it.last_words.len().saturating_sub(WORDS);
        for line in &it.last_words[first..] {
            writeln!(
                out,
                "  {}",
                paint.tone(Tone::Quiet, &format!("> {}", visible(line)))
            )?;
        }
        if let Some(advice) = &it.advice {
            writeln!(out, "  → {}", visible(advice))?;
        }
    }
    out.flush()
}

/// Prints for a program.
pub fn json(diagnoses: &[Diagnosis]) -> io::Result<()> {
    let servers: Vec<Value> = diagnoses.iter().map(Diagnosis::data).collect();
    let well = diagnoses.iter().all(Diagnosis::is_well);
    let document = serde_json::to_string_pretty(&json!({ "well": well, "servers": servers }))?;
    writeln!(io::stdout(), "{document}")
}

fn sign(yes: Option<bool>) -> &'static str {
    match yes {
        Some(true) => "✓",
        Some(false) => "✗",
        None => "–",
    }
}

/// Text of others, without what a terminal would obey.
fn visible(text: &str) -> String {
    let shown = |c: char| if c.is_control() { '\u{fffd}' } else { c };
    text.chars().map(shown).collect()
}
