//! What was found over HTTP, for the page and for its picture.

use super::contender::{Kind, Side};
use super::matrix::{Matrix, TEXTS, Turn};
use crate::matrix::Cell;
use crate::picture::{self, Bar, Panel};
use crate::report::{self, number, ratio, row, table};
use crate::target::{Bound, Target};

/// Ours against each of theirs of the same kind and era: at least so many times the throughput in every cell, so
/// what counts is the lowest.
pub fn against(matrix: &Matrix, kind: Kind, least: f64) -> Vec<Target> {
    let all = matrix.of(kind);
    let theirs = all
        .into_iter()
        .filter(|&who| matrix.contenders[who].side == Side::Theirs);
    theirs
        .filter_map(|theirs| lowest(matrix, theirs, least))
        .collect()
}

/// `outlive serve` against the bare relay.
pub fn against_mark(matrix: &Matrix, least: f64) -> Vec<Target> {
    let marks = matrix.of_side(Side::Mark);
    marks
        .filter_map(|mark| lowest(matrix, mark, least))
        .collect()
}

/// Ours against what it was before: no cell worse, and the cells with the most calls in flight better.
pub fn against_earlier(matrix: &Matrix, least: f64, busiest: f64) -> Vec<Target> {
    let mut targets = Vec::new();
    for earlier in matrix.of_side(Side::Earlier) {
        targets.extend(lowest(matrix, earlier, least));
        let small = Cell {
            text: TEXTS[0],
            in_flight: 64,
        };
        targets.extend(pair(matrix, earlier, [small], busiest));
    }
    targets
}

/// Ours of the same kind and era against this one, in the cell where it does worst.
fn lowest(matrix: &Matrix, other: usize, least: f64) -> Option<Target> {
    pair(matrix, other, matrix.cells.iter().copied(), least)
}

fn pair(
    matrix: &Matrix,
    other: usize,
    cells: impl IntoIterator<Item = Cell>,
    least: f64,
) -> Option<Target> {
    let them = &matrix.contenders[other];
    let ours = matrix.of_side(Side::Ours).find(|&who| {
        let us = &matrix.contenders[who];
        us.era == them.era && us.kind == them.kind
    })?;
    let ratios = cells.into_iter().filter_map(|cell| {
        let ratio = matrix.ratio(ours, other, cell, |turn| turn.rate)?;
        Some((ratio, cell))
    });
    let (ratio, cell) = ratios.min_by(|one, other| one.0.total_cmp(&other.0))?;
    let name = &matrix.contenders[ours].name;
    let what = format!("throughput, {name} / {}; lowest: {cell}", them.name);
    Some(Target::new(what, Bound::AtLeast(least), ratio))
}

/// Everything, in the order in which a reader asks.
pub fn markdown(matrix: &Matrix, bridges: &[Target], servers: &[Target]) -> String {
    let mut page = report::machine();
    for (title, kind, targets) in [
        (
            "A server on standard input and output, over HTTP",
            Kind::Bridge,
            bridges,
        ),
        ("A server of its own, over HTTP", Kind::Server, servers),
    ] {
        page +=
            &format!("\n### {title}\n\nCalls per second, and their share of the first line's:\n\n");
        page += &rates(matrix, kind);
        page += "\nA call: p50 (p99) in µs; resident memory in MB:\n\n";
        page += &times(matrix, kind);
        page.push('\n');
        page += &report::judged(targets);
    }
    page.push('\n');
    page
}

fn rates(matrix: &Matrix, kind: Kind) -> String {
    let all = matrix.of(kind);
    let names: Vec<String> = matrix.cells.iter().map(Cell::to_string).collect();
    let mut rows = table(&heads(&names, &[]));
    for &who in &all {
        let mut fields = vec![matrix.contenders[who].name.clone()];
        for &cell in &matrix.cells {
            let rate = number(matrix.median(who, cell, |turn| turn.rate));
            let share = matrix.ratio(who, all[0], cell, |turn| turn.rate);
            fields.push(match who == all[0] {
                true => rate,
                false => format!("{rate} ({})", ratio(share)),
            });
        }
        row(&mut rows, &fields);
    }
    rows
}

fn times(matrix: &Matrix, kind: Kind) -> String {
    let names: Vec<String> = matrix.cells.iter().map(Cell::to_string).collect();
    let mut rows = table(&heads(&names, &["at rest", "at work"]));
    for who in matrix.of(kind) {
        let mut fields = vec![matrix.contenders[who].name.clone()];
        for &cell in &matrix.cells {
            let p50 = number(matrix.median(who, cell, |turn| turn.p50));
            let p99 = number(matrix.median(who, cell, |turn| turn.p99));
            fields.push(format!("{p50} ({p99})"));
        }
        for memory in [
            matrix.memory(who, |memory| memory.at_rest),
            matrix.memory(who, |memory| memory.at_work),
        ] {
            fields.push(number(memory.map(|bytes| bytes / 1e6)));
        }
        row(&mut rows, &fields);
    }
    rows
}

fn heads<'a>(cells: &'a [String], more: &[&'a str]) -> Vec<&'a str> {
    let cells = cells.iter().map(String::as_str);
    std::iter::once("")
        .chain(cells)
        .chain(more.iter().copied())
        .collect()
}

/// What was found, for the picture.
pub fn panels(matrix: &Matrix) -> Vec<Panel> {
    let bars = |kind, value: &dyn Fn(usize) -> Option<f64>| {
        let bar = |who: usize| Bar {
            name: matrix.contenders[who].name.clone(),
            side: match matrix.contenders[who].side {
                Side::Ours | Side::Earlier => picture::Side::Ours,
                Side::Mark => picture::Side::Limit,
                Side::Theirs => picture::Side::Theirs,
            },
            value: value(who),
        };
        matrix.of(kind).into_iter().map(bar).collect()
    };
    let small = |in_flight| Cell {
        text: TEXTS[0],
        in_flight,
    };
    let rate: fn(&Turn) -> f64 = |turn| turn.rate;
    vec![
        Panel {
            title: "A stdio server over HTTP: throughput",
            note: "100 B, 64 in flight; longer is better",
            unit: "calls/s",
            bars: bars(Kind::Bridge, &|who| matrix.median(who, small(64), rate)),
        },
        Panel {
            title: "A stdio server over HTTP: round trip",
            note: "100 B, one at a time, median; shorter is better",
            unit: "µs",
            bars: bars(Kind::Bridge, &|who| {
                matrix.median(who, small(1), |turn| turn.p50)
            }),
        },
        Panel {
            title: "A stdio server over HTTP: memory",
            note: "resident, all processes in the middle, after the calls; shorter is better",
            unit: "MB",
            bars: bars(Kind::Bridge, &|who| {
                let at_work = matrix.memory(who, |memory| memory.at_work);
                at_work.map(|bytes| bytes / 1e6)
            }),
        },
        Panel {
            title: "A server of its own over HTTP: throughput",
            note: "100 B, 64 in flight; longer is better",
            unit: "calls/s",
            bars: bars(Kind::Server, &|who| matrix.median(who, small(64), rate)),
        },
    ]
}
