//! What is wrong with JSON that cannot be read.
//!
//! A line and a column help whoever has the text before their eyes. Whoever wrote an argument or reads an error has
//! not: they are told the path to the field, and what was expected there.

use serde::de::DeserializeOwned;
use serde_json::Value;

/// Why JSON cannot be read as a `T`, as the end of a sentence after a colon; without a full stop. `error` is what
/// reading it said.
pub(crate) fn why<T: DeserializeOwned>(json: &[u8], error: &serde_json::Error) -> String {
    match serde_json::from_slice(json) {
        Ok(value) => of_value::<T>(value).unwrap_or_else(|| without_place(error)),
        Err(_) => without_place(error),
    }
}

/// Why a value cannot be read as a `T`; `None` if it can.
pub(crate) fn of_value<T: DeserializeOwned>(value: Value) -> Option<String> {
    let error = serde_path_to_error::deserialize::<_, T>(value).err()?;
    let path = error.path();
    let words = without_place(error.inner());
    Some(match path.iter().next() {
        None => words,
        Some(_) => format!("`{path}`: {words}"),
    })
}

/// What an error says, without the line and the column.
fn without_place(error: &serde_json::Error) -> String {
    let words = error.to_string();
    match words.rfind(" at line ") {
        Some(end) if error.line() > 0 => words[..end].to_owned(),
        _ => words,
    }
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;

    use super::*;

    #[derive(Debug, Deserialize)]
    #[expect(dead_code)]
    struct Route {
        stops: Vec<Stop>,
    }

    #[derive(Debug, Deserialize)]
    #[expect(dead_code)]
    struct Stop {
        minutes: u32,
    }

    fn said(json: &str) -> String {
        let error = serde_json::from_str::<Route>(json).expect_err("wrong");
        why::<Route>(json.as_bytes(), &error)
    }

    #[test]
    fn the_field_is_named_and_what_was_expected_there() {
        for (json, words) in [
            (
                r#"{"stops":[{"minutes":1},{"minutes":"two"}]}"#,
                "`stops[1].minutes`: invalid type: string \"two\", expected u32",
            ),
            (r#"{"stops":[{}]}"#, "`stops[0]`: missing field `minutes`"),
            ("{}", "missing field `stops`"),
            (r#"{"stops":[],"stops":[]}"#, "duplicate field `stops`"),
            ("{", "EOF while parsing an object"),
        ] {
            assert_eq!(said(json), words);
        }
    }
}
