//! The matrix as SVG: readable on light and dark grounds, and without colours.

use std::fmt::Write;

use super::{Cell, Matrix, Sheet, escaped};

const ROW: usize = 17;
const COLUMN: usize = 30;
const LABELS: usize = 290;
const GAP: usize = 26;

const STYLE: &str = "text{font:11px ui-sans-serif,system-ui,sans-serif;fill:#1f2328}\
.t{font-weight:600;font-size:13px}.q{fill:#656d76}.s{text-anchor:middle;font-size:10px;fill:#fff}.n{fill:#656d76}\
.held{fill:#1a7f37}.broken{fill:#cf222e}.unwise{fill:#bf8700}.na{fill:#d0d7de}\
@media(prefers-color-scheme:dark){text{fill:#e6edf3}.q{fill:#8d96a0}.na{fill:#30363d}.n{fill:#8d96a0}.s{fill:#fff}}";

/// All kinds of programs below each other.
pub fn picture(sheets: &[Sheet]) -> String {
    let matrices = Matrix::of(sheets);
    let columns = matrices.iter().map(|m| m.sheets.len()).max().unwrap_or(0);
    // The last name leans over the edge of its column by about its height.
    let width = LABELS + columns * COLUMN + matrices.iter().map(head).max().unwrap_or(0);
    let height: usize = matrices
        .iter()
        .map(|m| head(m) + m.rows.len() * ROW + GAP)
        .sum::<usize>()
        + GAP;
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" \
         viewBox=\"0 0 {width} {height}\" role=\"img\" aria-label=\"Verdicts of outlive check\">\
         <style>{STYLE}</style>\n"
    );
    let mut top = 0;
    for matrix in &matrices {
        top = draw(&mut svg, matrix, top);
    }
    legend(&mut svg, top + 6);
    svg.push_str("</svg>\n");
    svg
}

/// Room for the names above the columns, which stand aslant: a letter is about seven wide.
fn head(matrix: &Matrix<'_>) -> usize {
    let lengths = matrix.sheets.iter().map(|s| s.title().chars().count());
    30 + lengths.max().unwrap_or(0) * 5
}

/// Draws below `top` and returns where it ended. Writing into a string cannot fail.
fn draw(svg: &mut String, matrix: &Matrix<'_>, top: usize) -> usize {
    let first = top + head(matrix);
    let _ = writeln!(
        svg,
        "<text class=\"t\" x=\"8\" y=\"{}\">As a {}</text>",
        first - 10,
        escaped(matrix.subject)
    );
    for (nth, sheet) in matrix.sheets.iter().enumerate() {
        let x = LABELS + nth * COLUMN + COLUMN / 2;
        let _ = writeln!(
            svg,
            "<text transform=\"translate({x},{}) rotate(-50)\">{}</text>",
            first - 8,
            escaped(sheet.title())
        );
    }
    for (nth, row) in matrix.rows.iter().enumerate() {
        let y = first + nth * ROW;
        let _ = writeln!(
            svg,
            "<text x=\"8\" y=\"{}\">{} <tspan class=\"q\">{}</tspan></text>",
            y + 12,
            escaped(&row.scenario.name),
            escaped(&row.scenario.level)
        );
        for (column, cell) in row.cells().enumerate() {
            square(svg, LABELS + column * COLUMN, y, cell);
        }
    }
    first + matrix.rows.len() * ROW + GAP
}

fn square(svg: &mut String, x: usize, y: usize, cell: Cell) {
    let class = match cell {
        Cell::Held => "held",
        Cell::Broken => "broken",
        Cell::Unwise => "unwise",
        Cell::NotApplicable => "na",
        Cell::NotPlayed => return,
    };
    let text = match cell {
        Cell::NotApplicable => "s n",
        _ => "s",
    };
    let _ = writeln!(
        svg,
        "<rect class=\"{class}\" x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\" rx=\"3\"/>\
         <text class=\"{text}\" x=\"{}\" y=\"{}\">{}</text>",
        x + 2,
        y + 1,
        COLUMN - 4,
        ROW - 3,
        x + COLUMN / 2,
        y + 12,
        cell.sign()
    );
}

fn legend(svg: &mut String, y: usize) {
    let mut x = 8;
    for cell in [Cell::Held, Cell::Broken, Cell::Unwise, Cell::NotApplicable] {
        square(svg, x, y, cell);
        let _ = writeln!(
            svg,
            "<text class=\"q\" x=\"{}\" y=\"{}\">{}</text>",
            x + COLUMN + 4,
            y + 12,
            cell.word()
        );
        x += COLUMN + 20 + cell.word().len() * 6;
    }
}
