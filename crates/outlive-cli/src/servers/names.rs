//! The names of servers in addresses: what cannot stand there becomes a dash, or a number if nothing else is left.

use std::collections::HashMap;

use outlive::gateway::LONGEST_NAME;

use super::entry::Entry;
use super::{ServerSpec, View};

/// The names of these servers in addresses, in their order; an error if two would have the same, or one none.
pub fn segments(entries: &[Entry], views: &[View]) -> Result<Vec<String>, String> {
    let mut taken: HashMap<String, &str> = HashMap::new();
    let mut segments = Vec::new();
    for Entry { name, place, .. } in entries {
        let segment = segment(name).map_err(|why| format!("{place}: {why}"))?;
        if let Some(other) = taken.insert(segment.clone(), name) {
            return Err(format!(
                "{place}: the servers {other:?} and {name:?} would both be at /{segment}/mcp: rename one of them"
            ));
        }
        segments.push(segment);
    }
    for View { name, .. } in views {
        let why = match (segment(name), taken.get(name)) {
            (Err(why), _) => why,
            (Ok(segment), _) if segment != *name => {
                format!(
                    "a name in an address consists of letters, digits, -, ., _ and ~: call it {segment:?}"
                )
            }
            (Ok(_), Some(_)) => "a server has this name: rename the view".into(),
            (Ok(_), None) => continue,
        };
        return Err(format!("[views.{name}]: {why}"));
    }
    Ok(segments)
}

/// A name as one segment of a path.
pub fn segment(name: &str) -> Result<String, String> {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-._~".contains(c);
    let mut segment = String::new();
    for c in name.chars() {
        match plain(c) {
            true => segment.push(c),
            false if segment.ends_with('-') => {}
            false => segment.push('-'),
        }
    }
    let segment = segment.trim_matches('-');
    if name.trim().is_empty() {
        return Err("a server has an empty name: give it one".into());
    }
    // Names in other scripts are names all the same: each character is told by its number.
    let numbers = || {
        let numbers = name.chars().map(|c| format!("u{:x}", u32::from(c)));
        numbers.collect::<Vec<_>>().join("-")
    };
    let segment = match segment.contains(|c: char| c.is_ascii_alphanumeric()) {
        true => segment.to_owned(),
        false => numbers(),
    };
    if segment.len() > LONGEST_NAME {
        let begin: String = name.chars().take(20).collect();
        return Err(format!(
            "the name that begins with {begin:?} is longer than {LONGEST_NAME} characters: shorten it"
        ));
    }
    Ok(segment)
}

/// What is wrong with the prefixes that servers were given, if something is.
pub fn check_prefixes(servers: &[ServerSpec]) -> Result<(), String> {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-._".contains(c);
    let mut seen: HashMap<&str, &str> = HashMap::new();
    for server in servers {
        let Some(prefix) = server.prefix.as_deref() else {
            continue;
        };
        let name = &server.name;
        if prefix.is_empty() || prefix.len() > 64 || !prefix.chars().all(plain) {
            return Err(format!(
                "{name:?}: prefix is {prefix:?}: up to 64 letters, digits, -, . and _ are wanted"
            ));
        }
        if let Some(other) = seen.insert(prefix, name) {
            return Err(format!(
                "the servers {other:?} and {name:?} have the same prefix {prefix:?}: change one of them"
            ));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_stand_in_an_address_becomes_a_dash() {
        assert_eq!(segment("github"), Ok("github".into()));
        assert_eq!(
            segment("Sequential Thinking"),
            Ok("Sequential-Thinking".into())
        );
        assert_eq!(
            segment("@scope/server v1.2"),
            Ok("scope-server-v1.2".into())
        );
        assert_eq!(segment("\u{65e5}\u{672c}"), Ok("u65e5-u672c".into()));
        assert_eq!(segment(".."), Ok("u2e-u2e".into()));
        for (name, words) in [
            ("", "an empty name"),
            ("  ", "an empty name"),
            (&"x".repeat(200), "longer than 128"),
            (&"\u{65e5}".repeat(30), "longer than 128"),
        ] {
            let why = segment(name).unwrap_err();
            assert!(why.contains(words), "{why}");
        }
    }
}
