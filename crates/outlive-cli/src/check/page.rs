//! What is read afterwards: what was broken, with its evidence, and the sums.

use outlive_check::{Direction, Evidence, Level, Report, Trial, Verdict, counted};

use crate::paint::{Paint, Tone};

/// So many entries before the end of a transcript are shown; the rest is in `--json`.
const SHOWN: usize = 16;
/// A line of a transcript is cut after so many characters.
const WIDTH: usize = 160;

/// The whole page.
pub fn page(report: &Report, paint: Paint) -> String {
    let mut text = String::new();
    for trial in &report.trials {
        if let Verdict::Broken { seen } = &trial.verdict {
            text.push('\n');
            text.push_str(&broken(trial, seen, paint));
        }
    }
    text.push('\n');
    text.push_str(&sums(report, paint));
    text
}

/// What was broken, what was seen, and the wire before that.
fn broken(trial: &Trial, seen: &str, paint: Paint) -> String {
    let scenario = trial.scenario;
    let tone = Tone::of(scenario.level);
    let mut text = format!(
        "{} {}  {}, {}\n",
        paint.tone(tone, trial.cell().sign()),
        paint.tone(Tone::Title, scenario.name),
        scenario.level.word(),
        scenario.failure_modes(),
    );
    text.push_str(&format!("  {}\n", scenario.statement));
    if let Some(clause) = scenario.clause {
        text.push_str(&paint.tone(Tone::Quiet, &format!("  {clause}")));
        text.push('\n');
    }
    text.push_str(&format!("  Seen: {}\n", paint.tone(tone, seen)));
    text.push_str(&transcript(&trial.evidence, paint));
    text
}

fn transcript(evidence: &Evidence, paint: Paint) -> String {
    let mut text = String::new();
    let entries = &evidence.transcript;
    let first = entries.len().saturating_sub(SHOWN);
    if first > 0 {
        let words = format!("    … {} earlier", first + evidence.omitted);
        text.push_str(&paint.tone(Tone::Quiet, &words));
        text.push('\n');
    }
    for entry in &entries[first..] {
        let arrow = match entry.direction {
            Direction::Sent => "→",
            Direction::Received => "←",
            Direction::Note => "·",
        };
        let mut words: String = entry.text.chars().take(WIDTH).collect();
        if words.len() < entry.text.len() {
            words.push('…');
        }
        let words = match entry.direction {
            Direction::Note => paint.tone(Tone::Quiet, &words),
            _ => words,
        };
        text.push_str(&format!(
            "    {:>9.1} ms  {} {arrow} {words}\n",
            entry.at_ms, entry.leg
        ));
    }
    for line in evidence.stderr_tail.iter().rev().take(6).rev() {
        let line: String = line.chars().take(WIDTH).collect();
        text.push_str(&paint.tone(Tone::Quiet, &format!("    stderr: {line}")));
        text.push('\n');
    }
    text
}

/// How many held, by level.
fn sums(report: &Report, paint: Paint) -> String {
    let mut text = format!(
        "{:>10}{:>8}{:>8}{:>16}\n",
        "", "held", "broken", "not applicable"
    );
    for level in [Level::Must, Level::Should, Level::Advice] {
        let count = |word| report.count(Some(level), word);
        let broken = format!("{:>8}", count("broken"));
        let broken = match count("broken") {
            0 => broken,
            _ => paint.tone(Tone::of(level), &broken),
        };
        text.push_str(&format!(
            "{:>10}{:>8}{broken}{:>16}\n",
            level.word(),
            count("held"),
            count("not applicable"),
        ));
    }
    text.push_str(&format!(
        "\n{} in {:.1} s, seed {}\n",
        counted(report.trials.len(), "scenario"),
        report.took.as_secs_f64(),
        report.seed,
    ));
    text
}
