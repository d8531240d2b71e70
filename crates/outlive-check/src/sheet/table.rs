//! The matrix in characters.

use std::fmt::Write;

use super::{Cell, Matrix, Sheet};

/// In Markdown: one table for each kind of program, with sums, and beneath it what was seen where it
/// was broken.
pub fn markdown(sheets: &[Sheet]) -> String {
    let mut text = String::new();
    for matrix in Matrix::of(sheets) {
        // Writing into a string cannot fail.
        let _ = writeln!(text, "### As a {}\n", matrix.subject);
        let titles: Vec<String> = matrix.sheets.iter().map(|s| cell_text(s.title())).collect();
        let _ = writeln!(text, "| scenario | level | {} |", titles.join(" | "));
        let _ = writeln!(text, "|---|---|{}", ":-:|".repeat(titles.len()));
        for row in &matrix.rows {
            let cells: Vec<&str> = row.cells().map(Cell::sign).collect();
            let (name, level) = (&row.scenario.name, &row.scenario.level);
            let _ = writeln!(text, "| `{name}` | {level} | {} |", cells.join(" | "));
        }
        for cell in [Cell::Broken, Cell::Unwise] {
            let counts: Vec<String> = (0..matrix.sheets.len())
                .map(|column| matrix.count(column, cell).to_string())
                .collect();
            let _ = writeln!(text, "| **{}** | | {} |", cell.word(), counts.join(" | "));
        }
        text.push('\n');
        text.push_str(&remarks(&matrix));
    }
    text
}

/// What was seen where something was broken.
fn remarks(matrix: &Matrix<'_>) -> String {
    let mut text = String::new();
    for (column, sheet) in matrix.sheets.iter().enumerate() {
        let broken = matrix.rows.iter().filter_map(|row| row.trials[column]);
        let broken: Vec<_> = broken
            .filter(|trial| matches!(trial.cell(), Cell::Broken | Cell::Unwise))
            .collect();
        if broken.is_empty() {
            continue;
        }
        let _ = writeln!(
            text,
            "<details><summary>{}: what was seen</summary>\n",
            super::escaped(sheet.title())
        );
        for trial in broken {
            let (level, name) = (&trial.level, &trial.name);
            let seen = super::escaped(&trial.remark().replace('\n', " "));
            let _ = writeln!(text, "- `{name}` ({level}): {seen}");
        }
        text.push_str("\n</details>\n\n");
    }
    text
}

/// In plain text, for a terminal.
pub fn text(sheets: &[Sheet]) -> String {
    let mut text = String::new();
    for matrix in Matrix::of(sheets) {
        for (nth, sheet) in matrix.sheets.iter().enumerate() {
            let _ = writeln!(text, "{:>3}  {} {}", nth + 1, sheet.subject, sheet.title());
        }
        let widest = matrix.rows.iter().map(|row| row.scenario.name.len()).max();
        let width = widest.unwrap_or(0).max(20);
        let numbers: String = (1..=matrix.sheets.len())
            .map(|n| format!("{n:>4}"))
            .collect();
        let _ = writeln!(text, "\n{:width$} {:<6}{numbers}", "", "");
        for row in &matrix.rows {
            let cells: String = row.cells().map(|c| format!("{:>4}", c.sign())).collect();
            let (name, level) = (&row.scenario.name, &row.scenario.level);
            let _ = writeln!(text, "{name:width$} {level:<6}{cells}");
        }
        for cell in [Cell::Held, Cell::Broken, Cell::Unwise, Cell::NotApplicable] {
            let counts: String = (0..matrix.sheets.len())
                .map(|column| format!("{:>4}", matrix.count(column, cell)))
                .collect();
            let label = format!("{} {}", cell.sign(), cell.word());
            let _ = writeln!(text, "{label:width$} {:<6}{counts}", "");
        }
        text.push('\n');
    }
    text
}

/// Text that stays in its cell.
fn cell_text(text: &str) -> String {
    super::escaped(text).replace('|', "\\|")
}
