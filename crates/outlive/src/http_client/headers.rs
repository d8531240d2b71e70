//! The headers a user wants on every request.
//!
//! Credentials change while a session lives: a value may name variables (`${TOKEN}`) and a file may be
//! exchanged. So they are kept as they were given and read anew for each link.

use std::path::{Path, PathBuf};
use std::{env, fs};

use outlive_core::protocol::header;
use reqwest::header::{HeaderMap, HeaderName, HeaderValue};

/// Headers that tell where a message ends or what the session is. Another value would be a lie.
const OURS: [&str; 15] = [
    "accept",
    "connection",
    "content-length",
    "content-type",
    "expect",
    "keep-alive",
    "proxy-connection",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
    header::LAST_EVENT_ID,
    header::METHOD,
    header::PROTOCOL_VERSION,
    header::SESSION_ID,
];

/// Headers as the user gave them.
#[derive(Clone, Default, PartialEq, Eq)]
pub(super) struct Headers {
    /// `Name: value`, the value as it was given.
    lines: Vec<String>,
    /// A file with one such line for each header.
    file: Option<PathBuf>,
}

/// Shows how many there are; never what they say.
impl std::fmt::Debug for Headers {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Headers({}, {:?})", self.lines.len(), self.file)
    }
}

impl Headers {
    /// One more header, `Name: value`; what is wrong with it, if it is no such line.
    pub(super) fn add(&mut self, line: &str) -> Result<(), String> {
        split(line)?;
        self.lines.push(line.to_string());
        Ok(())
    }

    /// More of them in a file, read for each link.
    pub(super) fn set_file(&mut self, file: &Path) {
        self.file = Some(file.to_path_buf());
    }

    /// The headers as they are now.
    pub(super) fn read(&self) -> Result<HeaderMap, String> {
        let mut headers = HeaderMap::new();
        for (name, value) in self.pairs()? {
            let mut sent = HeaderValue::from_str(&value)
                .map_err(|_| format!("the value of the header {name} cannot be sent"))?;
            sent.set_sensitive(true);
            headers.append(name, sent);
        }
        Ok(headers)
    }

    /// Names and values as they are now.
    pub(super) fn pairs(&self) -> Result<Vec<(HeaderName, String)>, String> {
        let mut lines = self.lines.clone();
        if let Some(file) = &self.file {
            let text = fs::read_to_string(file).map_err(|error| {
                let file = file.display();
                format!("the headers in {file} cannot be read: {error}")
            })?;
            let given = text.lines().map(str::trim);
            let given = given.filter(|line| !line.is_empty() && !line.starts_with('#'));
            lines.extend(given.map(str::to_string));
        }
        let pair = |line: &String| {
            let (name, value) = split(line)?;
            let value = expand(value, |name| env::var(name).ok()).map_err(|variable| {
                format!("the header {name} wants the variable {variable}, which is not set")
            })?;
            Ok((name, value))
        };
        lines.iter().map(pair).collect()
    }
}

fn split(line: &str) -> Result<(HeaderName, &str), String> {
    // What is wrong is said without the line: it may hold a secret.
    let (name, value) = line
        .split_once(':')
        .ok_or("a header is written \"Name: value\"")?;
    let name = HeaderName::from_bytes(name.trim().as_bytes())
        .map_err(|_| "the name of a header has letters, digits and dashes only")?;
    if OURS.contains(&name.as_str()) {
        return Err(format!("the header {name} is set by outlive itself"));
    }
    Ok((name, value.trim()))
}

/// The text with each `${NAME}` replaced; the first name that has no value, if one has none.
fn expand(text: &str, value: impl Fn(&str) -> Option<String>) -> Result<String, String> {
    let mut expanded = String::new();
    let mut rest = text;
    while let Some((before, behind)) = rest.split_once("${") {
        let Some((name, after)) = behind.split_once('}') else {
            break;
        };
        expanded.push_str(before);
        expanded.push_str(&value(name).ok_or(name)?);
        rest = after;
    }
    expanded.push_str(rest);
    Ok(expanded)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_are_put_in_and_missing_ones_named() {
        let value = |name: &str| (name == "TOKEN").then(|| "abc".to_string());
        assert_eq!(expand("Bearer ${TOKEN}!", value), Ok("Bearer abc!".into()));
        assert_eq!(expand("$TOKEN ${TOKEN", value), Ok("$TOKEN ${TOKEN".into()));
        assert_eq!(expand("${TOKEN}${OTHER}", value), Err("OTHER".into()));
    }

    #[test]
    fn what_is_no_header_is_refused_without_repeating_it() {
        let mut headers = Headers::default();
        for bad in ["hunter22", "Bad Name: hunter22", ": hunter22"] {
            let why = headers.add(bad).unwrap_err();
            assert!(!why.contains("hunter22"), "{why}");
        }
        for ours in ["Content-Length: 5", "TE: x", "mcp-session-id: 1"] {
            let why = headers.add(ours).unwrap_err();
            assert!(why.contains("set by outlive itself"), "{why}");
        }
        headers.add("X-Key: hunter22").unwrap();
        assert!(!format!("{headers:?}").contains("hunter22"));
    }
}
