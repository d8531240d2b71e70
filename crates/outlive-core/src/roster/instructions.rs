//! What many servers say about how they are used, as one text.
//!
//! Clients put it into the context of a model, so it is short: 2,048 bytes. Each server's text stands under a heading
//! with its name, in the order of the file. First every server gets its first sentence, then the whole text is given to
//! one after the other while there is room. What is cut ends with `…`, and what did not fit at all is counted.

use super::Server;

/// The bytes of all of it.
const LONGEST: usize = 2_048;
/// The bytes of a name in a heading.
const LONGEST_NAME: usize = 64;
/// The bytes of a first sentence.
const LONGEST_SENTENCE: usize = 240;
/// Kept for the line that counts what was left out.
const LAST_LINE: usize = 80;
/// What stands where something was cut.
const MARK: &str = " …";
/// What is cut to less than this says nothing.
const LEAST: usize = 24;

/// The text of all servers that have one.
pub(super) fn merged(servers: &[Server]) -> Option<Box<str>> {
    let texts: Vec<(&str, &str)> = servers
        .iter()
        .filter_map(|server| Some((&*server.name, server.offer.as_ref()?.instructions()?.trim())))
        .filter(|(_, text)| !text.is_empty())
        .collect();
    if texts.is_empty() {
        return None;
    }
    let heading = |name: &str| format!("## {}\n\n", shortened(name, LONGEST_NAME));
    let around = |name: &str| heading(name).len() + "\n\n".len();
    let mut room = LONGEST - LAST_LINE;
    // What each server is given, as bytes of its text; `None` if there is not even room for a sentence.
    let mut given: Vec<Option<usize>> = Vec::new();
    for (name, text) in &texts {
        let sentence = first_sentence(text).len().min(LONGEST_SENTENCE);
        let sentence = text.len().min(sentence + MARK.len());
        let size = around(name) + sentence;
        let fits = size <= room;
        room -= if fits { size } else { 0 };
        given.push(fits.then_some(sentence));
    }
    for ((_, text), given) in texts.iter().zip(&mut given) {
        let Some(given) = given else { continue };
        let more = (text.len() - *given).min(room);
        if *given + more == text.len() || more >= LEAST {
            room -= more;
            *given += more;
        }
    }
    let mut parts: Vec<String> = Vec::new();
    let mut left_out = 0;
    for ((name, text), given) in texts.iter().zip(given) {
        match given {
            Some(room) => parts.push(heading(name) + &shortened(text, room)),
            None => left_out += 1,
        }
    }
    match left_out {
        0 => {}
        1 => parts.push("(The instructions of 1 more server were left out.)".into()),
        n => parts.push(format!(
            "(The instructions of {n} more servers were left out.)"
        )),
    }
    Some(parts.join("\n\n").into())
}

/// The text up to the end of its first sentence or line.
fn first_sentence(text: &str) -> &str {
    let line = text.lines().next().unwrap_or_default();
    match sentence_ends(line).next() {
        Some(end) => &line[..end],
        None => line,
    }
}

/// Where sentences end in a text: behind a full stop or the like that white space follows.
fn sentence_ends(text: &str) -> impl Iterator<Item = usize> {
    text.char_indices().filter_map(|(at, c)| {
        let end = at + c.len_utf8();
        let ends = match c {
            '.' | '!' | '?' => text[end..].chars().next().is_none_or(char::is_whitespace),
            '。' | '！' | '？' | '\n' => true,
            _ => false,
        };
        ends.then_some(end)
    })
}

/// The text in at most so many bytes: cut behind a sentence, if that keeps half of it, else behind a word, and marked.
fn shortened(text: &str, longest: usize) -> String {
    if text.len() <= longest {
        return text.into();
    }
    let room = text.floor_char_boundary(longest.saturating_sub(MARK.len()));
    let cut = &text[..room];
    let sentence = sentence_ends(cut).last().filter(|end| *end >= room / 2);
    let word = || {
        cut.rfind(char::is_whitespace)
            .filter(|end| *end >= room / 2)
    };
    let end = sentence.or_else(word).unwrap_or(room);
    format!("{}{MARK}", cut[..end].trim_end())
}
