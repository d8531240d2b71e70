//! The rules are in the core: what moves bytes has no clock, no timer and no opinion on a status. And what the
//! specification names is spelled in one place.

use std::fs;
use std::path::{Path, PathBuf};

use outlive::protocol::meta;

/// What a rule is made of, outside the core.
const WORDS: [&str; 6] = [
    "tokio::time",
    " timeout(",
    "Instant::now",
    "SystemTime::now",
    "is_success",
    "is_server_error",
];

/// Where one of them is all the same, and why.
const REASONS: [(&str, &str, &str); 5] = [
    (
        "link.rs",
        "tokio::time",
        "the alarm rings when the core says",
    ),
    (
        "link.rs",
        "Instant::now",
        "the core's time begins with the link",
    ),
    (
        "response.rs",
        "SystemTime::now",
        "Retry-After may be a date",
    ),
    (
        "session.rs",
        "tokio::time",
        "a farewell is sent when its link is gone",
    ),
    (
        "session.rs",
        " timeout(",
        "a farewell is sent when its link is gone",
    ),
];

#[test]
fn the_http_client_decides_nothing() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/http_client");
    let mut files = 0;
    for entry in fs::read_dir(folder).expect("the folder") {
        let path = entry.expect("an entry").path();
        if path.extension().is_none_or(|it| it != "rs") {
            continue;
        }
        files += 1;
        let name = path
            .file_name()
            .and_then(|name| name.to_str())
            .expect("a name");
        let text = fs::read_to_string(&path).expect("its text");
        let code = text.split("#[cfg(test)]").next().unwrap_or_default();
        for line in code
            .lines()
            .filter(|line| !line.trim_start().starts_with("//"))
        {
            for word in WORDS.iter().filter(|word| line.contains(**word)) {
                let known = REASONS
                    .iter()
                    .any(|(file, it, _)| *file == name && it == word);
                assert!(known, "{name} has a rule in it ({word}): {line}");
            }
        }
    }
    assert!(files >= 10, "{files} files");
}

/// All files of a folder and those below it that are not tests.
fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        let is_test = path.file_stem().is_some_and(|stem| stem == "tests");
        match path.is_dir() {
            _ if is_test => {}
            true => sources(&path, found),
            false => found.push(path),
        }
    }
}

#[test]
fn fields_of_the_metadata_are_named_in_one_place() {
    const NAMES: [&str; 6] = [
        meta::PROTOCOL_VERSION,
        meta::CLIENT_INFO,
        meta::CLIENT_CAPABILITIES,
        meta::LOG_LEVEL,
        meta::SERVER_INFO,
        meta::SUBSCRIPTION_ID,
    ];
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut files = Vec::new();
    for name in ["outlive", "outlive-cli", "outlive-core"] {
        sources(&crates.join(name).join("src"), &mut files);
    }
    let mut renamed = 0;
    for path in files {
        let text = fs::read_to_string(&path).expect("a source file");
        let code = text
            .split("#[cfg(test)]\nmod tests {")
            .next()
            .unwrap_or_default();
        let lines = code
            .lines()
            .map(str::trim)
            .filter(|it| !it.starts_with("//"));
        for line in lines.filter(|line| line.contains("io.modelcontextprotocol/")) {
            // serde takes literals only.
            let literal = line
                .split_once("rename = \"")
                .and_then(|it| it.1.split_once('"'));
            match literal {
                Some((name, _)) => {
                    assert!(NAMES.contains(&name), "{}: {line}", path.display());
                    renamed += 1;
                }
                None => assert!(
                    path.ends_with("protocol/meta.rs"),
                    "{}: {line}: use `protocol::meta`",
                    path.display()
                ),
            }
        }
    }
    assert!(renamed > 0, "the sources were not found");
}
