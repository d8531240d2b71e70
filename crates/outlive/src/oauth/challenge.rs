//! What a server says in `WWW-Authenticate` (RFC 9110, RFC 6750, RFC 9728).

/// The parameters of a `Bearer` challenge that a login needs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Bearer {
    /// Where the server's metadata is.
    pub(super) resource_metadata: Option<String>,
    /// The scopes it asks for.
    pub(super) scopes: Vec<String>,
    /// `insufficient_scope`, `invalid_token`, …
    pub(super) error: Option<String>,
}

impl Bearer {
    /// Reads the header. Challenges of other schemes are passed over.
    pub(super) fn read(header: &str) -> Bearer {
        let mut bearer = Bearer::default();
        let mut ours = false;
        for item in items(header) {
            let (words, value) = match item.split_once('=') {
                Some((name, value)) => (name.trim(), Some(unquoted(value.trim()))),
                None => (item.trim(), None),
            };
            // A scheme stands before the first of its parameters.
            let (scheme, name) = match words.rsplit_once([' ', '\t']) {
                Some((scheme, name)) => (Some(scheme.trim()), name),
                None if value.is_none() => (Some(words), ""),
                None => (None, words),
            };
            if let Some(scheme) = scheme {
                ours = scheme.eq_ignore_ascii_case("bearer");
            }
            let Some(value) = value.filter(|_| ours) else {
                continue;
            };
            match name.to_ascii_lowercase().as_str() {
                // An empty one names nothing.
                "resource_metadata" if value.is_empty() => {}
                "resource_metadata" => bearer.resource_metadata = Some(value),
                "scope" => bearer.scopes = value.split_whitespace().map(Into::into).collect(),
                "error" => bearer.error = Some(value),
                _ => {}
            }
        }
        bearer
    }
}

/// The parts of a list, at its commas; those within quotes do not count.
fn items(header: &str) -> Vec<&str> {
    let (mut items, mut from, mut quoted, mut escaped) = (Vec::new(), 0, false, false);
    for (at, c) in header.char_indices() {
        match c {
            _ if escaped => escaped = false,
            '\\' if quoted => escaped = true,
            '"' => quoted = !quoted,
            ',' if !quoted => {
                items.push(&header[from..at]);
                from = at + 1;
            }
            _ => {}
        }
    }
    items.push(&header[from..]);
    items.retain(|item| !item.trim().is_empty());
    items
}

fn unquoted(value: &str) -> String {
    let Some(inner) = value.strip_prefix('"').and_then(|it| it.strip_suffix('"')) else {
        return value.to_owned();
    };
    let mut escaped = false;
    inner
        .chars()
        .filter(|c| {
            escaped = *c == '\\' && !escaped;
            !escaped
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn challenges_are_read_as_they_are_written() {
        let of = |metadata: Option<&str>, scopes: &[&str], error: Option<&str>| Bearer {
            resource_metadata: metadata.map(Into::into),
            scopes: scopes.iter().map(|it| it.to_string()).collect(),
            error: error.map(Into::into),
        };
        for (header, expected) in [
            ("", of(None, &[], None)),
            ("Bearer", of(None, &[], None)),
            ("bearer scope=read", of(None, &["read"], None)),
            (
                r#"Bearer resource_metadata="", error="e""#,
                of(None, &[], Some("e")),
            ),
            (
                r#"Bearer error="insufficient_scope",   scope="a b", resource_metadata="https://x/y?a=1,2""#,
                of(
                    Some("https://x/y?a=1,2"),
                    &["a", "b"],
                    Some("insufficient_scope"),
                ),
            ),
            (
                r#"Basic realm="scope=\"x\"", Bearer scope="a""#,
                of(None, &["a"], None),
            ),
            (
                r#"Bearer scope="a", DPoP scope="b", error="c""#,
                of(None, &["a"], None),
            ),
            (
                r#"Bearer error="a\"b\\c", unknown"#,
                of(None, &[], Some(r#"a"b\c"#)),
            ),
            (
                r#"Bearer scope="unclosed, error=x"#,
                of(None, &["\"unclosed,", "error=x"], None),
            ),
        ] {
            assert_eq!(Bearer::read(header), expected, "{header}");
        }
    }
}
