//! The rules are in the core: what moves bytes has no clock, no timer and no opinion on a status.

use std::fs;
use std::path::Path;

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
