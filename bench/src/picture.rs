//! The results as a picture: horizontal bars, one panel per question.
//!
//! Written by hand so that it needs no plotting library. The background is transparent and the greys are readable on
//! white and on black, so the same file serves a light and a dark page.

use std::fmt::Write;

use crate::contender::Role;
use crate::matrix::{Cell, Matrix, Turn};
use crate::report::number;

/// One question, and the answer of each contender.
pub struct Panel {
    /// The question.
    pub title: &'static str,
    /// What exactly, and which way is better.
    pub note: &'static str,
    /// The unit of the answers.
    pub unit: &'static str,
    /// The answers.
    pub bars: Vec<Bar>,
}

/// The answer of one contender.
pub struct Bar {
    /// Whose it is.
    pub name: String,
    /// How it is to be looked at.
    pub side: Side,
    /// The answer; `None` if there is none.
    pub value: Option<f64>,
}

/// What a contender is to the reader.
#[derive(Clone, Copy)]
pub enum Side {
    /// What is judged.
    Ours,
    /// What cannot be beaten.
    Limit,
    /// What it is compared with.
    Theirs,
}

const WIDTH: f64 = 860.0;
const LABELS: f64 = 190.0;
/// The longest bar; what is right of it is for its number.
const BARS: f64 = WIDTH - LABELS - 150.0;
const ROW: f64 = 26.0;
const BAR: f64 = 16.0;
const HEAD: f64 = 54.0;

/// A bar this many times longer than the one before it is cut off, or the others could not be seen.
const CUT: f64 = 4.0;

/// A question that the matrix answers.
struct Question {
    title: &'static str,
    note: &'static str,
    cell: Cell,
    what: fn(&Turn) -> f64,
    unit: &'static str,
}

const QUESTIONS: [Question; 3] = [
    Question {
        title: "Round trip of a small call",
        note: "100 B, one at a time, median; shorter is better",
        cell: Cell {
            text: 100,
            in_flight: 1,
        },
        what: |turn| turn.p50,
        unit: "µs",
    },
    Question {
        title: "Throughput of small calls",
        note: "100 B, 64 in flight; longer is better",
        cell: Cell {
            text: 100,
            in_flight: 64,
        },
        what: |turn| turn.rate,
        unit: "calls/s",
    },
    Question {
        title: "Throughput of large calls",
        note: "1 MB there and 1 MB back, 16 in flight; longer is better",
        cell: Cell {
            text: 1_000_000,
            in_flight: 16,
        },
        what: |turn| turn.rate,
        unit: "calls/s",
    },
];

/// The comparison of those who stand in the middle.
pub fn of_matrix(matrix: &Matrix) -> Vec<Panel> {
    let panel = |question: &Question| Panel {
        title: question.title,
        note: question.note,
        unit: question.unit,
        bars: matrix
            .contenders
            .iter()
            .enumerate()
            .map(|(who, contender)| Bar {
                name: contender.name.clone(),
                side: match contender.role {
                    Role::Outlive | Role::Earlier => Side::Ours,
                    Role::Direct | Role::Relay => Side::Limit,
                    Role::Carrier | Role::Reader => Side::Theirs,
                },
                value: matrix.median(who, question.cell, question.what),
            })
            .collect(),
    };
    QUESTIONS.iter().map(panel).collect()
}

/// A picture as SVG; `label` says in words what it shows.
pub fn svg(label: &str, panels: &[Panel]) -> String {
    let panel_height = |panel: &Panel| HEAD + panel.bars.len() as f64 * ROW + 14.0;
    let height: f64 = panels.iter().map(panel_height).sum();
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" \
         width=\"{WIDTH}\" height=\"{height}\" role=\"img\" aria-label=\"{label}\">\n{STYLE}"
    );
    let mut top = 0.0;
    for panel in panels {
        draw(&mut svg, panel, top);
        top += panel_height(panel);
    }
    svg += "</svg>\n";
    svg
}

const STYLE: &str = "<style>\n\
    text { font: 14px system-ui, sans-serif; fill: #6e7781 }\n\
    .title { font-size: 16px; font-weight: 600 }\n\
    .note { font-size: 12px }\n\
    .value { font-variant-numeric: tabular-nums }\n\
    .bar { fill: #8c959f; fill-opacity: .55 }\n\
    .limit { fill: #8c959f; fill-opacity: .85 }\n\
    .ours { fill: #2f81f7 }\n\
    text.us { fill: #2f81f7; font-weight: 600 }\n\
    .cut { stroke: #6e7781; stroke-width: 2 }\n\
    </style>\n";

fn draw(svg: &mut String, panel: &Panel, top: f64) {
    let scale = longest(panel.bars.iter().filter_map(|bar| bar.value).collect());
    let _ = writeln!(
        svg,
        "<text class=\"title\" x=\"0\" y=\"{:.0}\">{}</text>\n\
         <text class=\"note\" x=\"0\" y=\"{:.0}\">{}</text>",
        top + 20.0,
        panel.title,
        top + 39.0,
        panel.note
    );
    for (row, Bar { name, side, value }) in panel.bars.iter().enumerate() {
        let value = *value;
        let y = top + HEAD + row as f64 * ROW;
        let baseline = y + BAR - 3.0;
        let (text, bar) = match side {
            Side::Ours => ("us", "ours"),
            Side::Limit => ("", "limit"),
            Side::Theirs => ("", "bar"),
        };
        let _ = writeln!(
            svg,
            "<text class=\"{text}\" x=\"{:.0}\" y=\"{baseline:.0}\" text-anchor=\"end\">{}</text>",
            LABELS - 12.0,
            name
        );
        let length = value.map_or(0.0, |value| (value / scale).min(1.0) * BARS);
        let _ = writeln!(
            svg,
            "<rect class=\"{bar}\" x=\"{LABELS}\" y=\"{y:.0}\" width=\"{:.1}\" height=\"{BAR}\" rx=\"2\"/>",
            length.max(1.5)
        );
        if value.is_some_and(|value| value > scale) {
            let _ = writeln!(
                svg,
                "<path class=\"cut\" d=\"M{0:.0} {1:.0}l6 -22m4 0l-6 22\"/>",
                LABELS + BARS - 40.0,
                y + BAR + 3.0
            );
        }
        let _ = writeln!(
            svg,
            "<text class=\"value {text}\" x=\"{:.1}\" y=\"{baseline:.0}\">{} {}</text>",
            LABELS + length + 8.0,
            number(value),
            panel.unit
        );
    }
}

/// What the longest bar stands for: the highest value, unless it dwarfs the next one.
fn longest(mut values: Vec<f64>) -> f64 {
    values.sort_unstable_by(f64::total_cmp);
    match values[..] {
        [.., next, highest] if highest > CUT * next => next * 1.25,
        [.., highest] => highest,
        [] => 1.0,
    }
}

#[cfg(test)]
mod tests {
    use super::longest;

    #[test]
    fn a_giant_is_cut_and_the_rest_fills_the_width() {
        assert_eq!(longest(vec![20.0, 1400.0, 80.0]), 100.0);
        assert_eq!(longest(vec![20.0, 60.0]), 60.0);
        assert_eq!(longest(vec![]), 1.0);
    }
}
