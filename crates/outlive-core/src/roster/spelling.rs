//! One resource under several spellings of its URI.
//!
//! What a server lists is in a view or not by the URI it is listed under. A URI that nobody lists is made up by the
//! client, and a server may take it for a resource that the view leaves out: `a/../b`, `%62` and `B` for `b`. So such a
//! URI is in a view only if its plain spelling is, too; and it is left out if it differs from one that is left out in
//! letters of another case, a query, a fragment or a slash at its end alone.

use std::borrow::Cow;

use super::resource::explicit;
use super::{Filter, glob};

/// How often `%25` may stand for a `%` that is one of these in turn.
const DEEPEST: usize = 4;

/// Whether this filter admits a URI that this server does not list, however that is spelled.
pub(super) fn admits(filter: &Filter, server: &str, uri: &str) -> bool {
    if filter.allow.is_empty() && filter.deny.is_empty() {
        return true;
    }
    let both = |uri: &str| [uri.to_owned(), explicit(server, uri)];
    let Some(plain) = plain(uri) else {
        return false;
    };
    let bare = plain.split(['?', '#']).next().unwrap_or_default();
    let bare = bare.trim_end_matches('/');
    let spellings = [uri, &plain, bare];
    let is_denied = |pattern: &str| {
        let mut spellings = spellings.iter().flat_map(|it| both(it));
        let patterns = patterns(server, &pattern.to_lowercase());
        spellings.any(|it| {
            let it = it.to_lowercase();
            let matches = |pattern: &String| {
                glob::matches(pattern, &it) || glob::matches(pattern.trim_end_matches('/'), &it)
            };
            patterns.iter().any(matches)
        })
    };
    let is_allowed = |uri: &str| {
        let mut allowed = filter.allow.iter().flat_map(|it| patterns(server, it));
        allowed.any(|pattern| both(uri).iter().any(|it| glob::matches(&pattern, it)))
    };
    !filter.deny.iter().any(|pattern| is_denied(pattern))
        && (filter.allow.is_empty()
            || is_allowed(&plain) && filter.admits_any(&both(uri).each_ref().map(|it| &**it)))
}

/// The spellings of a pattern: without percent-encoding, and plain like a URI, if it has a plain spelling. One that
/// names its server keeps that name.
fn patterns(server: &str, pattern: &str) -> Vec<String> {
    let named = explicit(server, "");
    let (name, uri) = match pattern.get(..named.len()) {
        Some(name) if name.eq_ignore_ascii_case(&named) => pattern.split_at(named.len()),
        _ => ("", pattern),
    };
    let spelled = plain(uri).map(|it| format!("{name}{it}"));
    let wild = |text: &str| text.matches(['*', '?']).count();
    let spelled = spelled.filter(|it| wild(it) == wild(pattern));
    let mut patterns = vec![decoded(pattern).into_owned()];
    patterns.extend(spelled);
    patterns
}

/// A pattern without percent-encoding, but for what would mean something else then.
fn decoded(pattern: &str) -> Cow<'_, str> {
    let decoded = percent_decoded(pattern);
    let wild = |text: &str| text.matches(['*', '?']).count();
    match decoded {
        Some(decoded) if wild(&decoded) == wild(pattern) => decoded.into(),
        _ => pattern.into(),
    }
}

/// The plain spelling of a URI: nothing is percent-encoded, the scheme and the authority are in small letters, and no
/// segment is empty, `.` or `..`. `None` if it has none, or one that only somebody with something in mind would write.
fn plain(uri: &str) -> Option<String> {
    let mut text = Cow::Borrowed(uri);
    let mut depth = 0;
    while let Some(decoded) = percent_decoded(&text) {
        depth += 1;
        if depth > DEEPEST {
            return None;
        }
        text = decoded.into();
    }
    if text.chars().any(char::is_control) {
        return None;
    }
    let text = text.trim().replace('\\', "/");
    let Some((scheme, rest)) = text.split_once(':') else {
        return Some(segments(&text).0);
    };
    let scheme = scheme.to_lowercase();
    let end = rest.find(['?', '#']).unwrap_or(rest.len());
    let (rest, behind) = rest.split_at(end);
    // A server may take a query or a fragment for a part of the path, and this for a way out of it.
    if behind.split(['/', '?', '#']).any(|it| it == "..") {
        return None;
    }
    let (authority, path) = match rest.strip_prefix("//") {
        Some(rest) => rest.split_at(rest.find('/').unwrap_or(rest.len())),
        None => ("", rest),
    };
    let authority = authority.to_lowercase();
    let authority = match scheme == "file" && authority == "localhost" {
        true => "",
        false => &authority,
    };
    let slashes = match rest.starts_with('/') {
        true => "//",
        false => "",
    };
    let (path, climbs) = segments(path);
    // A server may take the authority for the first segment of the path.
    if !authority.is_empty() && (climbs || matches!(authority, "." | "..")) {
        return None;
    }
    Some(format!("{scheme}:{slashes}{authority}{path}{behind}"))
}

/// A path without segments that are empty, `.` or `..`, and whether a `..` led out of it.
fn segments(path: &str) -> (String, bool) {
    let mut kept: Vec<&str> = Vec::new();
    let mut climbs = false;
    for segment in path.split('/') {
        match segment {
            "" | "." => {}
            ".." => climbs |= kept.pop().is_none(),
            segment => kept.push(segment),
        }
    }
    let begin = if path.starts_with('/') { "/" } else { "" };
    let end = if path.ends_with('/') && !kept.is_empty() {
        "/"
    } else {
        ""
    };
    (format!("{begin}{}{end}", kept.join("/")), climbs)
}

/// The text with percent-encoded bytes decoded, if there are any.
fn percent_decoded(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    let mut any = false;
    while let [first, behind @ ..] = rest {
        let digit = |at: usize| char::from(*behind.get(at)?).to_digit(16);
        match (first, digit(0), digit(1)) {
            (b'%', Some(high), Some(low)) => {
                bytes.push((high * 16 + low) as u8);
                rest = &behind[2..];
                any = true;
            }
            _ => {
                bytes.push(*first);
                rest = behind;
            }
        }
    }
    any.then(|| String::from_utf8_lossy(&bytes).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plain_spelling_is_one() {
        for (uri, spelled) in [
            ("file:///a/b", "file:///a/b"),
            ("FILE://LocalHost/a//./x/../%62", "file:///a/b"),
            ("file:/a/b", "file:///a/b"),
            ("file:////a/b", "file:///a/b"),
            ("file:\\\\\\a\\b", "file:///a/b"),
            ("file:///../../a/b/", "file:///a/b/"),
            ("file:///a/%2562?q#f", "file:///a/b?q#f"),
            ("tpl://One/X", "tpl://one/X"),
            ("tpl://one", "tpl://one"),
            ("mem:x", "mem:x"),
            ("a/../b", "b"),
            ("100%", "100%"),
            ("file:///", "file:///"),
            ("http://LocalHost/x", "http://localhost/x"),
        ] {
            assert_eq!(plain(uri).as_deref(), Some(spelled), "{uri}");
        }
        for uri in ["docs://../x", "docs://./x", "file:///a%00"] {
            assert_eq!(plain(uri), None, "{uri}");
        }
        assert_eq!(plain(&format!("file:///a%{}62", "25".repeat(9))), None);
    }

    #[test]
    fn what_is_denied_is_so_in_every_spelling() {
        let filter = Filter::new([], ["file:///one/secret", "*key*"]);
        for uri in [
            "file:///one/secret",
            "file:///one/%73ecret",
            "file:///one/%2573ecret",
            "file:///one/./secret",
            "file:///one/x/../secret",
            "file:///ONE/Secret",
            "FILE:///one/secret",
            "file://localhost/one/secret",
            "file:/one/secret",
            "file:///one//secret",
            "file:///one\\secret",
            "file:///one/secret/",
            "file:///one/secret?x",
            "file:///one/secret#x",
            "file:///one/%6bEy",
        ] {
            assert!(!admits(&filter, "s", uri), "{uri}");
        }
        for uri in ["file:///one/secrets", "file:///one/a", "file:///two/secret"] {
            assert!(admits(&filter, "s", uri), "{uri}");
        }
        for uri in ["file:///x%23/../one/secret", "file:///x?/../one/secret"] {
            assert!(!admits(&filter, "s", uri), "{uri}");
        }
        for (pattern, uri) in [
            ("docs://secret*", "docs://public/../secret"),
            ("docs://secret*", "docs://public/%2e%2e/secret"),
            ("file://localhost/one/secret", "file:///one/secret"),
            ("file:///one/secret/", "file:///one/secret"),
            ("outlive:s:FILE:///x/", "file:///y/../x"),
        ] {
            assert!(!admits(&Filter::new([], [pattern]), "s", uri), "{uri}");
        }
        let of_one = Filter::new([], ["outlive:s:file:///x"]);
        assert!(!admits(&of_one, "s", "file:///y/../x"));
        assert!(admits(&of_one, "t", "file:///y/../x"));
    }

    #[test]
    fn what_is_allowed_leads_nowhere_else() {
        let filter = Filter::new(["file:///docs/*", "file:///my%20docs/*"], ["*.key"]);
        for uri in [
            "file:///docs/a",
            "file:///docs/a%20b",
            "file:///docs/",
            "file:///my%20docs/a",
        ] {
            assert!(admits(&filter, "s", uri), "{uri}");
        }
        for uri in [
            "file:///docs/../etc/passwd",
            "file:///docs/%2e%2e/etc/passwd",
            "file:///docs/%252e%252e/etc/passwd",
            "file:///docs/a.KEY",
            "file:///etc/passwd",
            "file:///docs/a%0Ab",
            "file:///docs/%3F/../../etc/passwd",
            "file:///docs/%23/../../etc/passwd",
            "file:///docs/?/../../etc/passwd",
        ] {
            assert!(!admits(&filter, "s", uri), "{uri}");
        }
        let public = Filter::new(["docs://public/*"], []);
        assert!(admits(&public, "s", "docs://public/a/../b"));
        for uri in ["docs://public/../secret", "docs://public/%2e%2e/secret"] {
            assert!(!admits(&public, "s", uri), "{uri}");
        }
        // What is written in another way than a pattern is not what the pattern names.
        for (pattern, uri) in [
            ("file:///docs/a", "file:///docs/x/../a"),
            ("file:///docs/%2A", "file:///docs/secret"),
            ("file:///docs/a%3F", "file:///docs/ab"),
        ] {
            assert!(!admits(&Filter::new([pattern], []), "s", uri), "{uri}");
        }
        // Whoever writes a pattern need not know which spelling is the plain one.
        for (pattern, uri) in [
            ("repo://MyOrg/*", "repo://MyOrg/readme"),
            ("file:/docs/*", "file:/docs/a"),
            ("mem:///a//b/*", "mem:///a//b/c"),
            ("outlive:s:repo://MyOrg/*", "repo://MyOrg/readme"),
            ("docs/*", "docs/a"),
        ] {
            assert!(admits(&Filter::new([pattern], []), "s", uri), "{uri}");
        }
        assert!(admits(&Filter::default(), "s", "file:///a%00/../b"));
    }
}
