//! Whether a URI can have come from a URI template (RFC 6570).
//!
//! # Theory
//!
//! A template is cut into literal text and expressions. Each of them, in turn, takes every position of the URI that the
//! parts before it can have come to, to those that it can come to: nothing is tried twice, so the time is at most the
//! product of the lengths, and both are bounded. `{x}` takes at least one character and none that separates parts of a
//! URI (`/`, `?`, `#`); `{+x}` takes at least one of any; the other operators (`{#x}`, `{?x}`, `{&x}`, `{/x}`, `{;x}`,
//! `{.x}`) take nothing, or a run that begins with theirs. This matches more than a template can make, never less: the
//! server has the last word.

/// Longer templates match nothing.
const LONGEST_TEMPLATE: usize = 512;
/// Longer URIs come from no template.
const LONGEST_URI: usize = 4_096;

/// A part of a template.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part<'a> {
    Literal(&'a str),
    /// How a run begins that stands for an expression, if it does so in some way; and whether it may have separators.
    Run {
        begins: Option<u8>,
        any: bool,
    },
}

/// The parts of a template. A brace that is not closed is literal.
fn parts(template: &str) -> Vec<Part<'_>> {
    let mut parts = Vec::new();
    let mut rest = template;
    while let Some((open, inner)) = rest
        .find('{')
        .and_then(|open| Some((open, rest[open + 1..].find('}')?)))
    {
        if open > 0 {
            parts.push(Part::Literal(&rest[..open]));
        }
        let expression = &rest[open + 1..open + 1 + inner];
        parts.push(match expression.bytes().next() {
            Some(b'+') => Part::Run {
                begins: None,
                any: true,
            },
            Some(operator @ (b'#' | b'?' | b'&' | b'/' | b';' | b'.')) => Part::Run {
                begins: Some(operator),
                any: operator != b'.' && operator != b';',
            },
            _ => Part::Run {
                begins: None,
                any: false,
            },
        });
        rest = &rest[open + inner + 2..];
    }
    if !rest.is_empty() {
        parts.push(Part::Literal(rest));
    }
    parts
}

/// Whether the URI can have come from the template. A template without expressions is the URI itself.
pub(super) fn matches(template: &str, uri: &str) -> bool {
    if template.len() > LONGEST_TEMPLATE || uri.len() > LONGEST_URI {
        return false;
    }
    let parts = parts(template);
    let uri = uri.as_bytes();
    if let Some(Part::Literal(text)) = parts.first()
        && !uri.starts_with(text.as_bytes())
    {
        return false;
    }
    // The positions in the URI that the parts so far can have come to.
    let mut reached = vec![false; uri.len() + 1];
    reached[0] = true;
    for part in parts {
        let mut next = vec![false; uri.len() + 1];
        match part {
            Part::Literal(text) => {
                for at in (0..=uri.len()).filter(|at| reached[*at]) {
                    if uri[at..].starts_with(text.as_bytes()) {
                        next[at + text.len()] = true;
                    }
                }
            }
            Part::Run { begins, any } => {
                // Whether a run that was begun earlier goes on here.
                let mut inside = false;
                for at in 0..=uri.len() {
                    next[at] = inside || (begins.is_some() && reached[at]);
                    let Some(byte) = uri.get(at) else { break };
                    let starts = reached[at] && begins.is_none_or(|operator| operator == *byte);
                    let goes_on = inside && (any || !is_separator(*byte));
                    inside = goes_on || starts && (begins.is_some() || any || !is_separator(*byte));
                }
            }
        }
        reached = next;
    }
    reached[uri.len()]
}

/// How much of the template is literal text: of two that match, the one with more says more about the URI.
pub(super) fn literal_len(template: &str) -> usize {
    let literal = |part: Part<'_>| match part {
        Part::Literal(text) => text.len(),
        Part::Run { .. } => 0,
    };
    parts(template).into_iter().map(literal).sum()
}

fn is_separator(byte: u8) -> bool {
    matches!(byte, b'/' | b'?' | b'#')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expressions_take_what_they_can_stand_for() {
        for (template, uri) in [
            ("a:b", "a:b"),
            ("file:///{name}", "file:///x.md"),
            ("file:///{+path}", "file:///a/b/c"),
            ("db://{table}/{id}", "db://users/7"),
            ("db://{table}/{id}/raw", "db://users/7/raw"),
            ("x:{a}{b}", "x:12"),
            ("find{?q,lang}", "find"),
            ("find{?q,lang}", "find?q=a/b&lang=de"),
            ("x:/a{/path*}", "x:/a/b/c"),
            ("x:{a}-{b}", "x:1-2-3"),
            ("x:{+a}y{+b}y", "x:yyyy"),
            ("x{#part}", "x#y"),
            ("x:{open", "x:{open"),
            ("x:{a}", "x:é"),
        ] {
            assert!(matches(template, uri), "{template} {uri}");
        }
        for (template, uri) in [
            ("a:b", "a:bc"),
            ("file:///{name}", "file:///a/b"),
            ("file:///{name}", "file:///"),
            ("file:///{+path}", "file:///"),
            ("db://{table}/{id}/raw", "db://users/7/cooked"),
            ("find{?q}", "findq"),
            ("x:{a}", "y:1"),
            ("x:{a}", "x:1?b"),
        ] {
            assert!(!matches(template, uri), "{template} {uri}");
        }
    }

    #[test]
    fn hostile_templates_take_no_longer_than_the_product_of_the_lengths() {
        let template = "{+a}x".repeat(100);
        let uri = "x".repeat(4_000) + "y";
        assert!(!matches(&template, &uri));
    }

    #[test]
    fn literal_text_is_counted() {
        assert_eq!(literal_len("file:///{a}/b{?q}"), 10);
        assert_eq!(literal_len(""), 0);
    }
}
