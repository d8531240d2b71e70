//! The results as Markdown, for a terminal and for `docs/benchmarks.md`.

use std::fmt::Write;
use std::io;
use std::path::Path;
use std::{fs, thread};

use crate::contender::Role;
use crate::endurance::{Recovery, Span};
use crate::matrix::{Cell, FLIGHTS, Matrix, TEXTS, Turn};
use crate::target::Target;

/// What was found out about endurance.
pub struct Endurance {
    /// Over many calls.
    pub calls: (u64, Span),
    /// Over many restarts.
    pub restarts: (usize, Span),
    /// After a death.
    pub recoveries: Vec<Recovery>,
}

/// Everything, in the order in which a reader asks.
pub fn markdown(matrix: &Matrix, endurance: &Endurance, targets: &[Target]) -> String {
    let mut page = String::new();
    let mut add = |part: String| {
        page += &part;
        page.push('\n');
    };
    add(machine());
    add("### One small call at a time (100 B)\n".into());
    add(small_calls(matrix));
    add("### Round trip, one at a time: p50 (p99), µs\n".into());
    add(round_trips(matrix));
    add("### Throughput, calls per second\n".into());
    add(throughput(matrix));
    add("### Processor time in the middle, µs per call\n".into());
    add(processor(matrix));
    add("### Endurance\n".into());
    add(endured(endurance));
    add("### Targets\n".into());
    add(judged(targets));
    page
}

/// Puts what was measured into its part of a page, between two marks.
pub fn write_into(page: &Path, part: &str, measured: &str) -> io::Result<()> {
    let (begin, end) = (
        format!("<!-- {part}: begin -->\n"),
        format!("<!-- {part}: end -->\n"),
    );
    let text = fs::read_to_string(page)?;
    let parts = text
        .split_once(&begin)
        .and_then(|(before, rest)| Some((before, rest.split_once(&end)?.1)));
    let Some((before, after)) = parts else {
        let message = format!("{} lacks the marks around {part}", page.display());
        return Err(io::Error::other(message));
    };
    fs::write(page, format!("{before}{begin}\n{measured}{end}{after}"))
}

/// Where it was measured.
pub fn machine() -> String {
    let processors = thread::available_parallelism().map_or(1, usize::from);
    let release = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let version: Vec<_> = release.split('.').take(2).collect();
    format!(
        "Measured on Linux {}, {processors} processors.\n",
        version.join(".")
    )
}

fn small_calls(matrix: &Matrix) -> String {
    let cell = Cell {
        text: TEXTS[0],
        in_flight: 1,
    };
    let relay = matrix.find(Role::Relay);
    let direct = matrix.find(Role::Direct);
    let mut rows = table(&[
        "",
        "p50 µs",
        "p99 µs",
        "added µs",
        "× bare relay",
        "memory at rest MB",
    ]);
    for (who, contender) in matrix.contenders.iter().enumerate() {
        let pair = |other: Option<usize>, made| {
            other
                .filter(|&other| other != who)
                .and_then(|other| matrix.median_of_pairs([who, other], cell, |turn| turn.p50, made))
        };
        row(
            &mut rows,
            &[
                contender.name.clone(),
                number(matrix.median(who, cell, |turn| turn.p50)),
                number(matrix.median(who, cell, |turn| turn.p99)),
                number(pair(direct, |one, other| one - other)),
                ratio(pair(relay, |one, other| one / other)),
                number(matrix.resident(who).map(|bytes| bytes / 1e6)),
            ],
        );
    }
    rows
}

fn round_trips(matrix: &Matrix) -> String {
    let cells = TEXTS.map(|text| Cell { text, in_flight: 1 });
    let heads = ["", "100 B", "10 KB", "1 MB"];
    by_contender(matrix, &heads, &cells, |who, cell| {
        format!(
            "{} ({})",
            number(matrix.median(who, cell, |turn| turn.p50)),
            number(matrix.median(who, cell, |turn| turn.p99))
        )
    })
}

/// Text sizes with more than one call in flight.
fn flights() -> Vec<Cell> {
    TEXTS
        .into_iter()
        .flat_map(|text| FLIGHTS.map(|in_flight| Cell { text, in_flight }))
        .filter(|cell| cell.in_flight > 1)
        .collect()
}

fn throughput(matrix: &Matrix) -> String {
    let cells = flights();
    let names: Vec<String> = cells.iter().map(Cell::to_string).collect();
    let heads: Vec<&str> = std::iter::once("")
        .chain(names.iter().map(String::as_str))
        .collect();
    by_contender(matrix, &heads, &cells, |who, cell| {
        number(matrix.median(who, cell, |turn| turn.rate))
    })
}

fn processor(matrix: &Matrix) -> String {
    let cells = TEXTS
        .into_iter()
        .flat_map(|text| [1, 64].map(|in_flight| Cell { text, in_flight }));
    let cells: Vec<Cell> = cells.collect();
    let names: Vec<String> = cells.iter().map(Cell::to_string).collect();
    let heads: Vec<&str> = std::iter::once("")
        .chain(names.iter().map(String::as_str))
        .collect();
    let used: fn(&Turn) -> f64 = |turn| turn.processor;
    by_contender(matrix, &heads, &cells, |who, cell| {
        match matrix.contenders[who].role {
            Role::Direct => number(None),
            _ => number(matrix.median(who, cell, used)),
        }
    })
}

fn by_contender(
    matrix: &Matrix,
    heads: &[&str],
    cells: &[Cell],
    value: impl Fn(usize, Cell) -> String,
) -> String {
    let mut rows = table(heads);
    for (who, contender) in matrix.contenders.iter().enumerate() {
        let mut fields = vec![contender.name.clone()];
        fields.extend(cells.iter().map(|&cell| value(who, cell)));
        row(&mut rows, &fields);
    }
    rows
}

fn endured(endurance: &Endurance) -> String {
    let mut rows = table(&["outlive over", "memory MB", "files", "threads", "children"]);
    let (calls, over_calls) = &endurance.calls;
    let (restarts, over_restarts) = &endurance.restarts;
    for (over, span) in [
        (format!("{} calls", grouped(*calls as f64)), over_calls),
        (
            format!("{} restarts", grouped(*restarts as f64)),
            over_restarts,
        ),
    ] {
        let (early, late) = (span.early, span.late);
        row(
            &mut rows,
            &[
                over,
                format!(
                    "{:.1} → {:.1}",
                    early.resident as f64 / 1e6,
                    late.resident as f64 / 1e6
                ),
                format!("{} → {}", early.files, late.files),
                format!("{} → {}", early.threads, late.threads),
                format!("{} → {}", early.children, late.children),
            ],
        );
    }
    rows.push('\n');
    rows += &table(&["killed at rest", "own start ms", "back after ms", "ratio"]);
    for recovery in &endurance.recoveries {
        row(
            &mut rows,
            &[
                recovery.server.to_owned(),
                number(Some(recovery.alone)),
                number(Some(recovery.back)),
                ratio(Some(recovery.ratio)),
            ],
        );
    }
    rows
}

/// What was promised and what became of it.
pub fn judged(targets: &[Target]) -> String {
    let mut rows = table(&["target", "bound", "measured", "met"]);
    for target in targets {
        row(
            &mut rows,
            &[
                target.what.clone(),
                target.bound.to_string(),
                format!("{:.2}", target.measured),
                if target.met() { "yes" } else { "no" }.to_owned(),
            ],
        );
    }
    rows
}

/// The head of a table.
pub fn table(heads: &[&str]) -> String {
    let mut text = format!("| {} |\n|", heads.join(" | "));
    for index in 0..heads.len() {
        text += if index == 0 { "---|" } else { "--:|" };
    }
    text.push('\n');
    text
}

/// A row of a table.
pub fn row(rows: &mut String, fields: &[String]) {
    let _ = writeln!(rows, "| {} |", fields.join(" | "));
}

/// Two decimals, or a dash for what was not measured.
pub fn ratio(value: Option<f64>) -> String {
    value.map_or("–".to_owned(), |value| format!("{value:.2}"))
}

/// Three significant figures or a whole number, or a dash for what was not measured.
pub fn number(value: Option<f64>) -> String {
    match value {
        None => "–".to_owned(),
        Some(value) if value.abs() < 9.995 => format!("{value:.2}"),
        Some(value) if value.abs() < 99.95 => format!("{value:.1}"),
        Some(value) => grouped(value),
    }
}

/// A whole number with its thousands apart.
pub fn grouped(value: f64) -> String {
    let digits = format!("{:.0}", value.abs());
    let mut text = String::from(if value < 0.0 { "-" } else { "" });
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index) % 3 == 0 {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_short() {
        assert_eq!(number(None), "–");
        assert_eq!(number(Some(0.237)), "0.24");
        assert_eq!(number(Some(20.71)), "20.7");
        assert_eq!(number(Some(999.6)), "1,000");
        assert_eq!(number(Some(1_948_068.0)), "1,948,068");
        assert_eq!(number(Some(-1234.0)), "-1,234");
    }
}
