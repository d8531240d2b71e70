//! Variables in the values of a host's file.
//!
//! Hosts write `${NAME}`, `${NAME:-default}` (Claude Code), `${env:NAME}` (VS Code, Cursor) and `{env:NAME}`
//! (OpenCode). What only the host knows is refused with a sentence rather than passed on as it stands.

use crate::shape::Shape;

/// How deep defaults may stand in each other.
const DEEPEST: usize = 8;

/// The text with its variables replaced, or why that cannot be done. The text itself is not in the error.
pub fn expand(
    text: &str,
    shape: Shape,
    value: &dyn Fn(&str) -> Option<String>,
) -> Result<String, String> {
    expand_within(text, shape, value, 0)
}

fn expand_within(
    text: &str,
    shape: Shape,
    value: &dyn Fn(&str) -> Option<String>,
    depth: usize,
) -> Result<String, String> {
    if depth > DEEPEST {
        let why = "a variable is the default of a variable, and so on: write the value";
        return Err(why.into());
    }
    let opening = match shape {
        Shape::Mcp => "{",
        _ => "${",
    };
    let mut expanded = String::new();
    let mut rest = text;
    while let Some((before, behind)) = rest.split_once(opening) {
        let end = match shape {
            Shape::Mcp => behind.find('}'),
            _ => end(behind).or_else(|| behind.find('}')),
        };
        let Some(end) = end else {
            break;
        };
        let name = &behind[..end];
        expanded.push_str(before);
        match shape {
            Shape::Mcp => expanded.push_str(&braced(name, value)?),
            _ => expanded.push_str(&dollar(name, shape, value, depth)?),
        }
        rest = &behind[end + 1..];
    }
    expanded.push_str(rest);
    Ok(expanded)
}

/// Where the variable ends whose `${` has been read: its default may have variables, too.
fn end(text: &str) -> Option<usize> {
    let mut open = 0;
    for (at, c) in text.char_indices() {
        match c {
            '}' if open == 0 => return Some(at),
            '}' => open -= 1,
            '{' if text[..at].ends_with('$') => open += 1,
            _ => {}
        }
    }
    None
}

/// What `${name}` stands for.
fn dollar(
    name: &str,
    shape: Shape,
    value: &dyn Fn(&str) -> Option<String>,
    depth: usize,
) -> Result<String, String> {
    if let Some((name, default)) = name.split_once(":-") {
        let name = name.strip_prefix("env:").unwrap_or(name);
        return match value(name).filter(|value| !value.is_empty()) {
            Some(value) => Ok(value),
            None => expand_within(default, shape, value, depth + 1),
        };
    }
    if name.is_empty() || name == "env:" {
        return Err(format!(
            "${{{name}}} names no variable: write ${{NAME}}, or the value"
        ));
    }
    let unset = |name: &str| {
        format!("the environment variable {name} is not set: set it, or write ${{{name}:-default}}")
    };
    match name.split_once(':') {
        Some(("env", name)) => value(name).ok_or_else(|| unset(name)),
        Some(("input", name)) => Err(format!(
            "${{input:{name}}} is a question that only the editor can ask: write ${{env:NAME}} and set that variable"
        )),
        Some((kind, _)) => Err(format!(
            "${{{kind}:…}} is known only to the host: write the value, or ${{env:NAME}}"
        )),
        None if name == "userHome" => value("HOME")
            .or_else(|| value("USERPROFILE"))
            .ok_or_else(|| unset("HOME")),
        None if name == "pathSeparator" || name == "/" => Ok(std::path::MAIN_SEPARATOR.to_string()),
        None if name.starts_with("workspaceFolder") => Err(format!(
            "${{{name}}} is known only to the editor: write the path"
        )),
        None => value(name).ok_or_else(|| unset(name)),
    }
}

/// What `{name}` stands for; itself, if it is no variable.
fn braced(name: &str, value: &dyn Fn(&str) -> Option<String>) -> Result<String, String> {
    match name.split_once(':') {
        // OpenCode's own rule: what is not set is empty.
        Some(("env", name)) => Ok(value(name.trim()).unwrap_or_default()),
        Some(("file", _)) => {
            Err("{file:…} is read only by OpenCode: write {env:NAME} and set that variable".into())
        }
        _ => Ok(format!("{{{name}}}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value(name: &str) -> Option<String> {
        match name {
            "HOME" => Some("/home/ann".into()),
            "TOKEN" => Some("s3cret".into()),
            "EMPTY" => Some(String::new()),
            _ => None,
        }
    }

    #[test]
    fn each_spelling_is_replaced() {
        let expanded = |text: &str| expand(text, Shape::McpServers, &value).unwrap();
        assert_eq!(expanded("Bearer ${TOKEN}!"), "Bearer s3cret!");
        assert_eq!(expanded("${env:TOKEN}/${NONE:-x:y}"), "s3cret/x:y");
        assert_eq!(expanded("${EMPTY:-full}"), "full");
        assert_eq!(
            expanded("${env:TOKEN:-x}${env:NONE:-y}"),
            "s3cret".to_owned() + "y"
        );
        let open = "${N:-".repeat(100_000);
        assert_eq!(expanded(&open), open, "what has no end is no variable");
        // A default may have variables, and ends as in a shell.
        assert_eq!(expanded("${NONE:-${TOKEN}}!"), "s3cret!");
        assert_eq!(expanded("${NONE:-a${EMPTY:-b${TOKEN}}c}}"), "abs3cretc}");
        assert_eq!(expanded("${NONE:-a{b}c}"), "a{bc}");
        assert_eq!(
            expanded("${TOKEN:-${NONE}}"),
            "s3cret",
            "what is not needed is not looked for"
        );
        assert_eq!(expanded("${userHome}${/}x"), "/home/ann/x");
        assert_eq!(expanded("$TOKEN {TOKEN} ${TOKEN"), "$TOKEN {TOKEN} ${TOKEN");
        let braced = |text| expand(text, Shape::Mcp, &value).unwrap();
        assert_eq!(
            braced("{env:TOKEN} {other} ${TOKEN}"),
            "s3cret {other} ${TOKEN}"
        );
        assert_eq!(braced("{env:NONE}|"), "|");
    }

    #[test]
    fn what_cannot_be_known_is_refused_without_the_rest_of_the_text() {
        for (text, words) in [
            (
                "hunter2 ${NONE}",
                "the environment variable NONE is not set",
            ),
            ("hunter2 ${env:NONE}", "write ${NONE:-default}"),
            (
                "hunter2 ${input:key}",
                "a question that only the editor can ask",
            ),
            ("hunter2 ${workspaceFolder}/x", "write the path"),
            ("hunter2 ${command:x.y}", "known only to the host"),
            ("hunter2 ${}", "names no variable"),
            ("hunter2 ${env:}", "names no variable"),
            ("hunter2 ${NONE:-${NONE}}", "NONE is not set"),
            (
                &format!("{}{}", "${N:-".repeat(20), "}".repeat(20)),
                "write the value",
            ),
        ] {
            let why = expand(text, Shape::Servers, &value).unwrap_err();
            assert!(why.contains(words), "{why}");
            assert!(!why.contains("hunter2"), "{why}");
        }
        let why = expand("{file:~/.key}", Shape::Mcp, &value).unwrap_err();
        assert!(why.contains("{env:NAME}"), "{why}");
    }
}
