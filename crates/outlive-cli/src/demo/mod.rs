//! `outlive demo`: a server is killed in every way there is, and a host works on.
//!
//! Nothing is played: this program starts itself as `outlive run`, which starts it again as an MCP
//! server; the signals are real, and the host sees what any host would see.
//!
//! - `script`: the scenes.
//! - `stage`: what the scenes are made of; the one thread that does and notes everything.
//! - `host`: the pipes to `outlive run`.
//! - `server`: the server that is killed.
//! - `tally`: the books, and whether they add up.
//! - `timeline`: what a person sees; `svg` draws it.

mod host;
mod script;
pub mod server;
mod stage;
mod svg;
mod tally;
mod timeline;

use std::io::{self, IsTerminal, Write};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use serde_json::json;

use stage::Stage;
use tally::{Tally, median};
use timeline::{Line, Painter, Timeline, Tone, brief, columns, heading, span};

/// The pause between scenes when a person reads along.
const READING: Duration = Duration::from_millis(350);
/// The pause when nobody does: longer than `--healthy-after`, so that restarts are not delayed.
const BRISK: Duration = Duration::from_millis(120);

/// Options of `outlive demo`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Print one JSON document at the end instead of the live timeline
    #[arg(long)]
    json: bool,

    /// Also draw the timeline into this SVG file
    #[arg(long, hide = true, value_name = "FILE")]
    svg: Option<PathBuf>,
}

/// Plays the demo. The exit code is 0 only if all went as claimed.
pub fn run(args: Args) -> ExitCode {
    let painter = match args.json {
        true => Painter::Off,
        false => Painter::for_stdout(),
    };
    let watched = args.svg.is_some() || (!args.json && io::stdout().is_terminal());
    let pace = if watched { READING } else { BRISK };
    let mut timeline = Timeline::new(painter);
    timeline.line(vec![
        span(Tone::Title, "outlive run "),
        span(Tone::Quiet, format!("{} -- ", host::SETTINGS.join(" "))),
        span(Tone::Title, "demo-server"),
    ]);
    timeline.line(columns("what the host sees", "what happens behind it"));
    let mut stage = match Stage::open(timeline, pace) {
        Ok(stage) => stage,
        Err(sentence) => return fail(&sentence),
    };
    if let Err(sentence) = script::play(&mut stage) {
        stage.tally.odd(sentence);
    }
    stage.close();
    let Stage {
        tally,
        mut timeline,
        ..
    } = stage;
    let problems = tally.problems(script::EXPECTED);
    for line in summary(&tally, &problems) {
        timeline.line(line);
    }
    if args.json {
        let document = json!({
            "version": env!("CARGO_PKG_VERSION"),
            "settings": host::SETTINGS,
            "timeline": timeline.to_json(),
            "totals": tally.to_json(),
            "problems": problems,
        });
        writeln!(io::stdout(), "{document:#}").ok();
    }
    if let Some(file) = args.svg {
        let picture = svg::draw("outlive demo", timeline.lines());
        if let Err(error) = std::fs::write(&file, picture) {
            return fail(&format!(
                "{} could not be written: {error}.",
                file.display()
            ));
        }
    }
    match problems.is_empty() {
        true => ExitCode::SUCCESS,
        false => ExitCode::FAILURE,
    }
}

fn fail(sentence: &str) -> ExitCode {
    writeln!(io::stderr(), "outlive demo: {sentence}").ok();
    ExitCode::FAILURE
}

/// The totals, and the verdict.
fn summary(tally: &Tally, problems: &[String]) -> Vec<Line> {
    let row = |what: &str, tone: Tone, figure: String, remark: String| {
        vec![
            span(Tone::Plain, format!("{what:>19}  ")),
            span(tone, format!("{figure:<8}")),
            span(Tone::Quiet, remark),
        ]
    };
    let none = String::new;
    let failed = tally.failed();
    let failures: usize = failed.values().sum();
    let kinds: Vec<String> = failed
        .iter()
        .map(|(kind, n)| format!("{kind} {n}"))
        .collect();
    let recovery = median(&tally.recoveries).unwrap_or_default();
    let slowest = tally.recoveries.iter().max().copied().unwrap_or_default();
    let start = format!(
        "median, slowest {}; {} of it is the server's own start",
        brief(slowest),
        brief(server::START),
    );
    let lost = tally.handles_lost;
    let lost_tone = if lost == 0 { Tone::Good } else { Tone::Bad };
    let handles = format!("of {}", tally.handles);
    let mut lines = vec![
        heading("Totals"),
        row("calls", Tone::Title, tally.call_count().to_string(), none()),
        row("answered", Tone::Good, tally.answered().to_string(), none()),
        row("failed", Tone::Warn, failures.to_string(), kinds.join(", ")),
        row(
            "cancelled",
            Tone::Plain,
            tally.cancelled().to_string(),
            none(),
        ),
        row(
            "restarts",
            Tone::Plain,
            tally.restarts().to_string(),
            none(),
        ),
        row("recovery", Tone::Plain, brief(recovery), start),
        row("tool handles lost", lost_tone, lost.to_string(), handles),
    ];
    if problems.is_empty() {
        let verdict = "All as claimed: each call got one answer, the cancelled one none; no process stays behind.";
        lines.push(vec![span(Tone::Good, verdict)]);
    } else {
        lines.push(vec![span(Tone::Bad, "Not as claimed:")]);
        for problem in problems {
            lines.push(vec![span(Tone::Bad, format!("  {problem}"))]);
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(tally: &Tally, problems: &[String]) -> String {
        let lines = summary(tally, problems);
        let texts = lines
            .iter()
            .map(|line| line.iter().map(|s| s.text.as_str()).collect());
        texts.collect::<Vec<String>>().join("\n")
    }

    #[test]
    fn the_totals_fit_the_page_and_end_with_the_verdict() {
        let mut tally = Tally::default();
        tally.recoveries = vec![Duration::from_millis(161), Duration::from_millis(999)];
        tally.handles = 4;
        let page = page(&tally, &[]);
        assert!(
            page.lines()
                .all(|line| line.chars().count() <= timeline::WIDTH),
            "{page}"
        );
        assert!(
            page.contains("recovery  580 ms  median, slowest 999 ms;"),
            "{page}"
        );
        assert!(
            page.lines().last().unwrap().starts_with("All as claimed"),
            "{page}"
        );
    }

    #[test]
    fn a_problem_replaces_the_verdict() {
        let page = page(&Tally::default(), &["#1 pid was never answered.".into()]);
        assert!(
            page.ends_with("Not as claimed:\n  #1 pid was never answered."),
            "{page}"
        );
        assert!(!page.contains("All as claimed"), "{page}");
    }
}
