//! URI templates, read backwards: from a URI to the values that made it.
//!
//! A template is text with variables in it (RFC 6570): `{name}` stands for anything up to the next
//! piece of text but no `/`, `{+name}` for anything. A URI is matched from left to right, each
//! variable taking as little as it can, in time proportional to its length: URIs come from the
//! client.

use std::fmt;

use percent_encoding::percent_decode_str;

/// A URI template.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Template(Vec<Piece>);

#[derive(Clone, Debug, PartialEq, Eq)]
enum Piece {
    Text(String),
    Variable { name: String, reserved: bool },
}

/// Why something is no template we can match.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct BadTemplate(&'static str);

impl fmt::Display for BadTemplate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}

impl Template {
    /// Reads a template.
    pub(crate) fn read(text: &str) -> Result<Template, BadTemplate> {
        let mut pieces = Vec::new();
        let mut rest = text;
        while let Some((before, after)) = rest.split_once('{') {
            let Some((expression, after)) = after.split_once('}') else {
                return Err(BadTemplate("a `{` is not closed"));
            };
            if !before.is_empty() {
                pieces.push(Piece::Text(before.to_owned()));
            } else if matches!(pieces.last(), Some(Piece::Variable { .. })) {
                return Err(BadTemplate("two variables have nothing between them"));
            }
            let (name, reserved) = match expression.strip_prefix('+') {
                Some(name) => (name, true),
                None => (expression, false),
            };
            let plain = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '.';
            if name.is_empty() || !name.chars().all(plain) {
                return Err(BadTemplate("only `{name}` and `{+name}` are understood"));
            }
            pieces.push(Piece::Variable {
                name: name.to_owned(),
                reserved,
            });
            rest = after;
        }
        if !rest.is_empty() {
            pieces.push(Piece::Text(rest.to_owned()));
        }
        if !pieces
            .iter()
            .any(|piece| matches!(piece, Piece::Variable { .. }))
        {
            return Err(BadTemplate("it has no variable"));
        }
        Ok(Template(pieces))
    }

    /// The values of the variables, in order, if the URI is of this template.
    pub(crate) fn matches(&self, uri: &str) -> Option<Vec<(String, String)>> {
        let mut values = Vec::new();
        let mut rest = uri;
        let mut pieces = self.0.as_slice();
        while let [piece, following @ ..] = pieces {
            pieces = following;
            match piece {
                Piece::Text(text) => rest = rest.strip_prefix(text.as_str())?,
                Piece::Variable { name, reserved } => {
                    let end = match following {
                        // After the last variable the URI ends with the last piece of text.
                        [Piece::Text(text)] => rest.strip_suffix(text.as_str())?.len(),
                        [Piece::Text(text), ..] => rest.find(text.as_str())?,
                        _ => rest.len(),
                    };
                    let (value, after) = rest.split_at(end);
                    if value.is_empty() || (!reserved && value.contains('/')) {
                        return None;
                    }
                    values.push((name.clone(), decoded(value)?));
                    rest = after;
                }
            }
        }
        rest.is_empty().then_some(values)
    }
}

/// The text with its `%XX` resolved; `None` if that is not UTF-8.
fn decoded(text: &str) -> Option<String> {
    let text = percent_decode_str(text).decode_utf8().ok()?;
    Some(text.into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn values(template: &str, uri: &str) -> Option<Vec<(String, String)>> {
        Template::read(template).expect("a template").matches(uri)
    }

    fn pairs(of: &[(&str, &str)]) -> Option<Vec<(String, String)>> {
        let own = |(name, value): &(&str, &str)| (name.to_string(), value.to_string());
        Some(of.iter().map(own).collect())
    }

    #[test]
    fn variables_are_found_again() {
        let one = |value| pairs(&[("name", value)]);
        assert_eq!(values("note://{name}", "note://today"), one("today"));
        assert_eq!(values("note://{name}", "note://a%20b%C3%A9"), one("a bé"));
        assert_eq!(values("note://{name}", "note://100%"), one("100%"));
        assert_eq!(
            values("note://{name}.txt", "note://a.txt.txt"),
            one("a.txt")
        );
        assert_eq!(
            values("db://{table}/row/{id}", "db://users/row/7"),
            pairs(&[("table", "users"), ("id", "7")])
        );
        assert_eq!(
            values("file:///{+path}", "file:///a/b/c"),
            pairs(&[("path", "a/b/c")])
        );
    }

    #[test]
    fn what_does_not_match_is_not_found() {
        for uri in [
            "note://",
            "note:",
            "note://a/b",
            "other://x",
            "note://%ff",
            "",
        ] {
            assert_eq!(values("note://{name}", uri), None, "{uri}");
        }
        assert_eq!(values("a{x}b", "acb "), None);
        assert_eq!(values("a{x}b{y}c", "abbcc"), None);
    }

    #[test]
    fn templates_that_cannot_be_matched_are_refused() {
        for bad in [
            "plain://text",
            "x://{a",
            "x://{}",
            "x://{a}{b}",
            "x://{?q}",
            "x://{a*}",
        ] {
            assert!(Template::read(bad).is_err(), "{bad}");
        }
    }
}
