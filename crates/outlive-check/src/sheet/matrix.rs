//! Which scenario stands beside which.

use super::{Sentence, Sheet};

/// A verdict as one sign.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cell {
    /// It held.
    Held,
    /// The specification demands it, and it was broken.
    Broken,
    /// The specification recommends it, or experience does, and it was broken.
    Unwise,
    /// The question does not arise.
    NotApplicable,
    /// It was not asked.
    NotPlayed,
}

impl Cell {
    /// The verdict and the level as one: what the specification demands and what is merely wise are told apart.
    pub fn of(verdict: &str, level: &str) -> Cell {
        match (verdict, level) {
            ("held", _) => Cell::Held,
            ("broken", "must") => Cell::Broken,
            ("broken", _) => Cell::Unwise,
            _ => Cell::NotApplicable,
        }
    }

    /// One character that can be told from the others without colour.
    pub fn sign(self) -> &'static str {
        match self {
            Cell::Held => "✓",
            Cell::Broken => "✗",
            Cell::Unwise => "!",
            Cell::NotApplicable => "–",
            Cell::NotPlayed => "",
        }
    }

    /// In a word or two.
    pub fn word(self) -> &'static str {
        match self {
            Cell::Held => "held",
            Cell::Broken => "broken",
            Cell::Unwise => "broken, not demanded",
            Cell::NotApplicable => "not applicable",
            Cell::NotPlayed => "not played",
        }
    }
}

/// One scenario and what came of it with each program.
#[derive(Debug)]
pub struct Row<'a> {
    /// The scenario, as one of the sheets tells it.
    pub scenario: &'a Sentence,
    /// One for each sheet, in their order.
    pub trials: Vec<Option<&'a Sentence>>,
}

impl Row<'_> {
    /// The verdicts, in the order of the sheets.
    pub fn cells(&self) -> impl Iterator<Item = Cell> {
        self.trials
            .iter()
            .map(|trial| trial.map_or(Cell::NotPlayed, Sentence::cell))
    }
}

/// Programs of one kind side by side.
#[derive(Debug)]
pub struct Matrix<'a> {
    /// What kind.
    pub subject: &'a str,
    /// Which programs.
    pub sheets: Vec<&'a Sheet>,
    /// Scenarios in the order in which they were first met.
    pub rows: Vec<Row<'a>>,
}

impl<'a> Matrix<'a> {
    /// One for each kind of program among the sheets.
    pub fn of(sheets: &'a [Sheet]) -> Vec<Matrix<'a>> {
        let mut subjects: Vec<&str> = Vec::new();
        for sheet in sheets {
            if !subjects.contains(&sheet.subject.as_str()) {
                subjects.push(&sheet.subject);
            }
        }
        let matrix = |subject| Matrix::about(subject, sheets);
        subjects.into_iter().map(matrix).collect()
    }

    fn about(subject: &'a str, sheets: &'a [Sheet]) -> Matrix<'a> {
        let sheets: Vec<&Sheet> = sheets
            .iter()
            .filter(|sheet| sheet.subject == subject)
            .collect();
        let mut rows: Vec<Row<'a>> = Vec::new();
        for (nth, sheet) in sheets.iter().enumerate() {
            for trial in &sheet.trials {
                let known = rows.iter().position(|row| row.scenario.name == trial.name);
                let at = known.unwrap_or_else(|| {
                    rows.push(Row {
                        scenario: trial,
                        trials: vec![None; sheets.len()],
                    });
                    rows.len() - 1
                });
                rows[at].trials[nth] = Some(trial);
            }
        }
        Matrix {
            subject,
            sheets,
            rows,
        }
    }

    /// How many cells of a column are of a kind.
    pub fn count(&self, column: usize, cell: Cell) -> usize {
        let of_column = self.rows.iter().filter_map(|row| row.cells().nth(column));
        of_column.filter(|other| *other == cell).count()
    }
}
