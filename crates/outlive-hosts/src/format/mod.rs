//! From text to tree: one file per format.

mod json;
mod toml;
mod yaml;

use std::fs::File;
use std::io::Read as _;
use std::path::Path;

use crate::error::Error;
use crate::tree::Node;

/// A file longer than this is not read: none that a person keeps is.
pub const MAX_BYTES: usize = 16 << 20;

/// How deep values may be nested.
const MAX_DEPTH: usize = 128;

/// How a file is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// JSON, with comments and trailing commas.
    Json,
    /// TOML.
    Toml,
    /// YAML.
    Yaml,
}

impl Format {
    /// The format of a file of this name; JSON unless the extension says otherwise.
    pub fn of(path: &Path) -> Format {
        let extension = path.extension().unwrap_or_default().to_ascii_lowercase();
        match extension.to_str() {
            Some("toml") => Format::Toml,
            Some("yaml" | "yml") => Format::Yaml,
            _ => Format::Json,
        }
    }

    pub(crate) fn parse(self, text: &str) -> Result<Node, Error> {
        if text.len() > MAX_BYTES {
            return Err(too_long());
        }
        match self {
            Format::Json => json::parse(text),
            Format::Toml => toml::parse(text),
            Format::Yaml => yaml::parse(text),
        }
    }
}

/// The text of a file that is not too long and is UTF-8.
pub fn load(path: &Path) -> Result<String, Error> {
    let unread =
        |error: std::io::Error| Error::new(format!("cannot be read: {error}")).in_file(path);
    let mut bytes = Vec::new();
    let file = File::open(path).map_err(unread)?;
    file.take(MAX_BYTES as u64 + 1)
        .read_to_end(&mut bytes)
        .map_err(unread)?;
    if bytes.len() > MAX_BYTES {
        return Err(too_long().in_file(path));
    }
    String::from_utf8(bytes).map_err(|error| {
        let valid = error.utf8_error().valid_up_to();
        let text = String::from_utf8_lossy(error.as_bytes());
        Error::at(
            &text,
            valid,
            "this is no UTF-8: save the file in that encoding",
        )
        .in_file(path)
    })
}

fn too_long() -> Error {
    Error::new(format!(
        "the file is longer than {} MiB, so it is not read",
        MAX_BYTES >> 20
    ))
}
