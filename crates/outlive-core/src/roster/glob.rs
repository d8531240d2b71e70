//! Patterns with `*` (any characters, none included) and `?` (one character).
//!
//! The two have no classes, braces or escapes, so a crate would bring more than the thirty lines below: and in what
//! they match a `/` is a character like any other, which is what most crates have to be told.

/// Whether the whole text matches the pattern. It takes at most as many steps as the product of their lengths, and
/// keeps nothing: on a mismatch only the last `*` takes one character more.
pub(super) fn matches(pattern: &str, text: &str) -> bool {
    let (mut pattern, mut text) = (pattern.chars(), text.chars());
    // Behind the last `*`, and the text it has not taken yet.
    let mut star = None;
    loop {
        let mut rest = pattern.clone();
        match (rest.next(), text.clone().next()) {
            (Some('*'), _) => {
                star = Some((rest.clone(), text.clone()));
                pattern = rest;
                continue;
            }
            (Some(wanted), Some(found)) if wanted == '?' || wanted == found => {
                pattern = rest;
                text.next();
                continue;
            }
            (None, None) => return true,
            _ => {}
        }
        let Some((behind, untaken)) = &mut star else {
            return false;
        };
        if untaken.next().is_none() {
            return false;
        }
        pattern = behind.clone();
        text = untaken.clone();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stars_take_any_run_and_question_marks_one_character() {
        for (pattern, text) in [
            ("", ""),
            ("*", ""),
            ("*", "anything / at all"),
            ("a*", "a"),
            ("get_*", "get_file"),
            ("*_file", "get_file"),
            ("*t_f*", "get_file"),
            ("a*b*c", "a-b-b-c-c"),
            ("?", "é"),
            ("a??", "abc"),
            ("**a**", "ba"),
            ("file:///*.md", "file:///x/y.md"),
        ] {
            assert!(matches(pattern, text), "{pattern} {text}");
        }
        for (pattern, text) in [
            ("", "a"),
            ("a", ""),
            ("?", ""),
            ("a", "A"),
            ("a*", "ba"),
            ("*a", "ab"),
            ("a*b*c", "a-c-b"),
            ("a??", "ab"),
            ("[a]", "a"),
        ] {
            assert!(!matches(pattern, text), "{pattern} {text}");
        }
    }

    #[test]
    fn hostile_patterns_take_no_longer_than_the_product_of_the_lengths() {
        let pattern = "*a".repeat(1_000) + "b";
        let text = "a".repeat(10_000);
        assert!(!matches(&pattern, &text));
    }
}
