//! What is wrong with a file, and where.

use std::fmt;
use std::path::{Path, PathBuf};

/// A place in a file, counted from one; columns are characters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Position {
    /// The line.
    pub line: usize,
    /// The column.
    pub column: usize,
}

impl Position {
    /// The position of a byte in a text.
    pub(crate) fn of(text: &str, byte: usize) -> Position {
        let before = text.get(..byte).unwrap_or(text);
        let start = before.rfind('\n').map_or(0, |at| at + 1);
        Position {
            line: before.matches('\n').count() + 1,
            column: before[start..]
                .trim_start_matches('\u{feff}')
                .chars()
                .count()
                + 1,
        }
    }
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.line, self.column)
    }
}

/// Why a file, or one server in it, cannot be used. Begins with the place and says what to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Error {
    file: Option<PathBuf>,
    at: Option<Position>,
    why: String,
}

impl Error {
    pub(crate) fn new(why: impl Into<String>) -> Error {
        Error {
            file: None,
            at: None,
            why: why.into(),
        }
    }

    pub(crate) fn at(text: &str, byte: usize, why: impl Into<String>) -> Error {
        Error {
            at: Some(Position::of(text, byte)),
            ..Error::new(why)
        }
    }

    /// The same error, of this file.
    #[must_use]
    pub fn in_file(mut self, file: impl AsRef<Path>) -> Error {
        self.file = Some(file.as_ref().into());
        self
    }

    /// Where in the file it is, if it is at one place.
    pub fn position(&self) -> Option<Position> {
        self.at
    }

    /// The sentence without the place.
    pub fn why(&self) -> &str {
        &self.why
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.file, self.at) {
            (Some(file), Some(at)) => write!(f, "{}:{at}: {}", file.display(), self.why),
            (Some(file), None) => write!(f, "{}: {}", file.display(), self.why),
            (None, Some(at)) => write!(f, "{at}: {}", self.why),
            (None, None) => f.write_str(&self.why),
        }
    }
}

impl std::error::Error for Error {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_characters_and_a_byte_order_mark_is_none() {
        let text = "\u{feff}ab\näöü";
        assert_eq!(Position::of(text, 4).to_string(), "1:2");
        assert_eq!(Position::of(text, text.len()).to_string(), "2:4");
    }
}
