//! The results as a picture: horizontal bars, one panel per question.
//!
//! Written by hand so that it needs no plotting library. The background is transparent and the greys are readable on
//! white and on black, so the same file serves a light and a dark page.

use std::fmt::Write;

use crate::contender::Role;
use crate::matrix::{Cell, Matrix, Turn};
use crate::report::number;

const WIDTH: f64 = 860.0;
const LABELS: f64 = 170.0;
/// The longest bar; what is right of it is for its number.
const BARS: f64 = WIDTH - LABELS - 150.0;
const ROW: f64 = 26.0;
const BAR: f64 = 16.0;
const HEAD: f64 = 54.0;

/// A bar this many times longer than the one before it is cut off, or the others could not be seen.
const CUT: f64 = 4.0;

/// One question.
struct Panel {
    title: &'static str,
    note: &'static str,
    cell: Cell,
    what: fn(&Turn) -> f64,
    unit: &'static str,
}

const PANELS: [Panel; 3] = [
    Panel {
        title: "Round trip of a small call",
        note: "100 B, one at a time, median; shorter is better",
        cell: Cell {
            text: 100,
            in_flight: 1,
        },
        what: |turn| turn.p50,
        unit: "µs",
    },
    Panel {
        title: "Throughput of small calls",
        note: "100 B, 64 in flight; longer is better",
        cell: Cell {
            text: 100,
            in_flight: 64,
        },
        what: |turn| turn.rate,
        unit: "calls/s",
    },
    Panel {
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

/// The picture as SVG.
pub fn svg(matrix: &Matrix) -> String {
    let rows = matrix.contenders.len() as f64;
    let panel_height = HEAD + rows * ROW + 14.0;
    let height = panel_height * PANELS.len() as f64;
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" \
         width=\"{WIDTH}\" height=\"{height}\" role=\"img\" \
         aria-label=\"outlive compared with a bare relay and with other proxies\">\n{STYLE}"
    );
    for (index, panel) in PANELS.iter().enumerate() {
        draw(&mut svg, matrix, panel, index as f64 * panel_height);
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

fn draw(svg: &mut String, matrix: &Matrix, panel: &Panel, top: f64) {
    let values: Vec<Option<f64>> = (0..matrix.contenders.len())
        .map(|who| matrix.median(who, panel.cell, panel.what))
        .collect();
    let scale = longest(values.iter().flatten().copied().collect());
    let _ = writeln!(
        svg,
        "<text class=\"title\" x=\"0\" y=\"{:.0}\">{}</text>\n\
         <text class=\"note\" x=\"0\" y=\"{:.0}\">{}</text>",
        top + 20.0,
        panel.title,
        top + 39.0,
        panel.note
    );
    for (row, (contender, value)) in matrix.contenders.iter().zip(values).enumerate() {
        let y = top + HEAD + row as f64 * ROW;
        let baseline = y + BAR - 3.0;
        let (text, bar) = match contender.role {
            Role::Outlive => ("us", "ours"),
            Role::Direct | Role::Relay => ("", "limit"),
            Role::Carrier | Role::Reader => ("", "bar"),
        };
        let _ = writeln!(
            svg,
            "<text class=\"{text}\" x=\"{:.0}\" y=\"{baseline:.0}\" text-anchor=\"end\">{}</text>",
            LABELS - 12.0,
            contender.name
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
