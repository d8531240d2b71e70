//! Text becomes terms: words, parts of identifiers, stems.

use frostem::{Algorithm, Stemmer};

/// Bytes of a word that count. Longer ones are tokens, hashes and encoded data; nobody looks for them.
const MOST_WORD: usize = 64;

/// Words of a task that say nothing about a tool: tools seldom speak of "my" or "which", so that such words would
/// count as rare. In order.
#[rustfmt::skip]
pub(super) const FILLERS: &[&str] = &[
    "a", "about", "all", "am", "an", "and", "any", "are", "as", "at", "be", "been", "by", "can", "could", "d", "did",
    "do", "does", "for", "from", "had", "has", "have", "how", "i", "if", "in", "into", "is", "it", "its", "ll", "m",
    "may", "me", "my", "need", "of", "on", "or", "our", "please", "re", "s", "should", "so", "some", "t", "than",
    "that", "the", "their", "them", "there", "these", "they", "this", "those", "to", "tool", "up", "us", "ve", "want",
    "was", "we", "were", "what", "when", "where", "which", "who", "whose", "why", "will", "with", "would", "you",
    "your",
];

/// The words of a text. Scripts that do not separate words yield pairs of neighbouring characters.
pub(super) fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| !c.is_alphanumeric())
        .flat_map(Runs)
        .flat_map(|run| {
            let (pairs, word) = if run.starts_with(is_unspaced) {
                (run, None)
            } else {
                ("", Some(run))
            };
            Pairs(pairs).chain(word)
        })
}

/// The parts of a word: `getUserById` has four, `HTTPServer` has two. A word that is not an identifier is its own part.
pub(super) fn parts(word: &str) -> impl Iterator<Item = &str> {
    let mut rest = word;
    std::iter::from_fn(move || {
        let (part, after) = rest.split_at(first_part(rest));
        rest = after;
        (!part.is_empty()).then_some(part)
    })
}

/// Length of the part that a word begins with.
fn first_part(word: &str) -> usize {
    let mut before: Option<char> = None;
    let mut chars = word.char_indices().peekable();
    while let Some((at, c)) = chars.next() {
        let next_is_lower = chars.peek().is_some_and(|(_, next)| next.is_lowercase());
        let begins = before.is_some_and(|before| {
            c.is_uppercase()
                && (before.is_lowercase()
                    || before.is_numeric()
                    || (before.is_uppercase() && next_is_lower))
        });
        if begins {
            return at;
        }
        before = Some(c);
    }
    word.len()
}

/// The term for a word: lowercase, and the stem if it is English.
pub(super) fn stem(word: &str) -> String {
    let word = lowercase(word);
    if !word.bytes().all(|byte| byte.is_ascii_lowercase()) {
        return word;
    }
    Stemmer::new(Algorithm::English).stem(&word).into_owned()
}

/// Whether a word of a query says nothing about a tool.
pub(super) fn is_filler(word: &str) -> bool {
    FILLERS.binary_search(&lowercase(word).as_str()).is_ok()
}

/// A name with nothing but its parts, so that all spellings of it are one.
pub(super) fn plain(name: &str) -> Box<str> {
    let mut plain = String::new();
    for part in words(name).flat_map(parts) {
        if !plain.is_empty() {
            plain.push(' ');
        }
        plain.push_str(&lowercase(part));
    }
    plain.into()
}

/// The first sentence or line of a description, and the rest.
pub(super) fn first_sentence(text: &str) -> (&str, &str) {
    let text = text.trim_start();
    let end = [". ", ".\n", "\n"]
        .iter()
        .filter_map(|end| text.find(end))
        .min();
    text.split_at(end.unwrap_or(text.len()))
}

/// At most `most` bytes of a text, none of its characters cut.
pub(super) fn cut(text: &str, most: usize) -> &str {
    &text[..text.floor_char_boundary(most)]
}

fn lowercase(word: &str) -> String {
    cut(word, MOST_WORD).to_lowercase()
}

/// Whether a character belongs to a script without spaces: Chinese, Japanese, Korean, Thai and their neighbours.
fn is_unspaced(c: char) -> bool {
    matches!(c, '\u{0e00}'..='\u{0eff}' | '\u{1000}'..='\u{109f}' | '\u{1780}'..='\u{17ff}' | '\u{3040}'..='\u{30ff}'
        | '\u{3400}'..='\u{4dbf}' | '\u{4e00}'..='\u{9fff}' | '\u{ac00}'..='\u{d7af}' | '\u{f900}'..='\u{faff}'
        | '\u{20000}'..='\u{3ffff}')
}

/// A run of letters, cut where scripts with and without spaces meet.
struct Runs<'a>(&'a str);

impl<'a> Iterator for Runs<'a> {
    type Item = &'a str;

    fn next(&mut self) -> Option<&'a str> {
        let first = is_unspaced(self.0.chars().next()?);
        let end = self
            .0
            .find(|c| is_unspaced(c) != first)
            .unwrap_or(self.0.len());
        let (run, rest) = self.0.split_at(end);
        self.0 = rest;
        Some(run)
    }
}

/// Each two characters that stand beside each other, or the only one.
struct Pairs<'a>(&'a str);

impl<'a> Iterator for Pairs<'a> {
    type Item = &'a str;

    fn next(&mut self) -> Option<&'a str> {
        let mut ends = self.0.char_indices().map(|(at, c)| at + c.len_utf8());
        let first = ends.next()?;
        let second = ends.next();
        let third = ends.next();
        let pair = &self.0[..second.unwrap_or(first)];
        self.0 = if third.is_some() {
            &self.0[first..]
        } else {
            ""
        };
        Some(pair)
    }
}
