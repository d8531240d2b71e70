//! A page a person enjoys: the matrix, the verdicts, and each transcript to open.
//!
//! One file without anything from elsewhere, so that it can be kept as an artefact of a build. What
//! programs under test have said is never anything but text in it.

use std::fmt::Write;

use crate::counted;

use super::{Cell, Exhibit, Line, Matrix, Sentence, Sheet, escaped};

const STYLE: &str = include_str!("page.css");

/// A link into closed details opens them.
const SCRIPT: &str = "addEventListener('hashchange',open_);function open_(){\
const d=location.hash&&document.getElementById(location.hash.slice(1));\
if(d){d.open=true;d.scrollIntoView({block:'start'})}}open_();";

/// Of what held, so much of the wire is shown: the end of it.
const ENOUGH: usize = 24;

/// One page for one report or for several.
pub fn html(sheets: &[Sheet]) -> String {
    let matrices = Matrix::of(sheets);
    let title = match sheets {
        [one] => format!("outlive check: {}", one.title()),
        _ => format!("outlive check: {} programs", sheets.len()),
    };
    let mut page = format!(
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\
         <meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">\
         <title>{0}</title><style>{STYLE}</style></head><body>\n<h1>{0}</h1>\n",
        escaped(&title)
    );
    introduction(&mut page, sheets);
    sums(&mut page, &matrices);
    for matrix in &matrices {
        table(&mut page, matrix);
    }
    page.push_str(
        "<h2>Verdicts</h2>\n<p><label><input type=\"checkbox\" id=\"only\"> only what was broken</label></p>\n",
    );
    for matrix in &matrices {
        for (column, sheet) in matrix.sheets.iter().enumerate() {
            verdicts(&mut page, matrix, column, sheet);
        }
    }
    let _ = writeln!(page, "<script>{SCRIPT}</script>\n</body></html>");
    page
}

fn introduction(page: &mut String, sheets: &[Sheet]) {
    for sheet in sheets {
        let _ = writeln!(
            page,
            "<p class=\"quiet\">{} <b>{}</b> · <code>{}</code> · {} in {:.1} s · seed {}</p>",
            escaped(&sheet.subject),
            escaped(sheet.title()),
            escaped(&sheet.target),
            counted(sheet.trials.len(), "scenario"),
            sheet.took_ms as f64 / 1e3,
            sheet.seed
        );
    }
}

fn sums(page: &mut String, matrices: &[Matrix<'_>]) {
    page.push_str("<div class=\"sums\">");
    for cell in [Cell::Held, Cell::Broken, Cell::Unwise, Cell::NotApplicable] {
        let count: usize = matrices
            .iter()
            .flat_map(|matrix| &matrix.rows)
            .map(|row| row.cells().filter(|other| *other == cell).count())
            .sum();
        let _ = write!(
            page,
            "<div class=\"sum\"><b class=\"{}\">{count}</b>{}</div>",
            class(cell),
            cell.word()
        );
    }
    page.push_str("</div>\n");
}

fn table(page: &mut String, matrix: &Matrix<'_>) {
    let _ = write!(
        page,
        "<h2>{}s</h2>\n<div class=\"scroll\"><table><thead><tr><th>scenario</th><th>level</th><th>stems from</th>",
        escaped(matrix.subject)
    );
    for sheet in &matrix.sheets {
        let _ = write!(page, "<th>{}</th>", escaped(sheet.title()));
    }
    page.push_str("</tr></thead><tbody>\n");
    for row in &matrix.rows {
        let _ = write!(
            page,
            "<tr><th title=\"{}\">{}</th><td>{}</td><td class=\"quiet\">{}</td>",
            escaped(&row.scenario.statement),
            escaped(&row.scenario.name),
            escaped(&row.scenario.level),
            row.scenario.failure_modes()
        );
        for (column, cell) in row.cells().enumerate() {
            let link = match cell {
                Cell::NotPlayed => String::new(),
                _ => format!(
                    "<a class=\"{}\" href=\"#{}\" title=\"{}\">{}</a>",
                    class(cell),
                    anchor(matrix, column, &row.scenario.name),
                    cell.word(),
                    cell.sign()
                ),
            };
            let _ = write!(page, "<td class=\"cell\">{link}</td>");
        }
        page.push_str("</tr>\n");
    }
    page.push_str("</tbody></table></div>\n");
}

fn verdicts(page: &mut String, matrix: &Matrix<'_>, column: usize, sheet: &Sheet) {
    let _ = writeln!(page, "<h3>{}</h3>", escaped(sheet.title()));
    for trial in &sheet.trials {
        let cell = trial.cell();
        let fine = match cell {
            Cell::Broken | Cell::Unwise => "",
            _ => " class=\"fine\"",
        };
        let _ = write!(
            page,
            "<details id=\"{}\"{fine}><summary><span class=\"{class}\">{}</span> <b>{}</b>\
             <span class=\"level\">{}, {}, {:.2} s</span>",
            anchor(matrix, column, &trial.name),
            cell.sign(),
            escaped(&trial.name),
            escaped(&trial.level),
            trial.failure_modes(),
            trial.took_ms as f64 / 1e3,
            class = class(cell),
        );
        if !trial.remark().is_empty() {
            let (class, remark) = (class(cell), escaped(trial.remark()));
            let _ = write!(page, "<span class=\"seen {class}\">{remark}</span>");
        }
        page.push_str("</summary><div class=\"inside\">");
        inside(page, trial);
        page.push_str("</div></details>\n");
    }
}

fn inside(page: &mut String, trial: &Sentence) {
    let _ = write!(page, "<p>{}</p>", escaped(&trial.statement));
    if let Some(clause) = &trial.clause {
        let _ = write!(page, "<p class=\"quiet\">{}</p>", escaped(clause));
    }
    for exit in &trial.evidence.exits {
        let _ = write!(page, "<p class=\"quiet\">{}</p>", escaped(exit));
    }
    wire(page, trial.cell(), &trial.evidence);
    if !trial.evidence.stderr_tail.is_empty() {
        let _ = write!(
            page,
            "<p class=\"quiet\">standard error</p><pre>{}</pre>",
            escaped(&trial.evidence.stderr_tail.join("\n"))
        );
    }
}

fn wire(page: &mut String, cell: Cell, evidence: &Exhibit) {
    let lines = &evidence.transcript;
    if lines.is_empty() {
        return;
    }
    let from = match cell {
        Cell::Held | Cell::NotApplicable => lines.len().saturating_sub(ENOUGH),
        _ => 0,
    };
    page.push_str("<table class=\"wire\">");
    if from > 0 {
        gap(page, from + evidence.omitted);
    }
    for (nth, line) in lines.iter().enumerate().skip(from) {
        if from == 0 && evidence.omitted > 0 && nth == evidence.omitted_after {
            gap(page, evidence.omitted);
        }
        row(page, line);
    }
    page.push_str("</table>");
}

fn gap(page: &mut String, count: usize) {
    let _ = write!(
        page,
        "<tr class=\"note\"><td></td><td></td><td></td><td>… {count} left out</td></tr>"
    );
}

fn row(page: &mut String, line: &Line) {
    let (class, arrow) = match line.direction.as_str() {
        "sent" => ("sent", "→"),
        "received" => ("received", "←"),
        _ => ("note", "·"),
    };
    let _ = write!(
        page,
        "<tr class=\"{class}\"><td class=\"at\">{:.1} ms</td><td>{}</td>\
         <td class=\"arrow\">{arrow}</td><td>{}</td></tr>",
        line.at_ms,
        escaped(&line.leg),
        escaped(&line.text)
    );
}

fn class(cell: Cell) -> &'static str {
    match cell {
        Cell::Held => "held",
        Cell::Broken => "broken",
        Cell::Unwise => "unwise",
        Cell::NotApplicable | Cell::NotPlayed => "na",
    }
}

fn anchor(matrix: &Matrix<'_>, column: usize, scenario: &str) -> String {
    escaped(&format!("{}-{column}-{scenario}", matrix.subject))
}
