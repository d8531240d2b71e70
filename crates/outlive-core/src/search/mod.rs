//! Search over the tools of many servers: which of them fit a task.
//!
//! # Theory
//!
//! With forty servers there are more tools than a host takes or a model reads. The gateway then lists none of them and
//! offers a search instead. What is searched is what servers say about their tools: names, titles, descriptions and the
//! properties of input schemas.
//!
//! - **Terms.** Text is cut into words and identifiers into their parts (`getUserById`, `get_user_by_id`,
//!   `server__tool`); words are lowercased and English words stemmed, so that "commits" finds `git_commit`.
//! - **Ranking.** BM25F: a term counts more the fewer tools have it, more in a name than in a description, more in the
//!   first sentence of a description than in the rest, least in a schema; the tenth occurrence adds almost nothing, and
//!   a long text does not win by its length. The sum counts in the proportion in which the query is answered.
//! - **Synonyms.** A task says "ticket" or "remove" where a tool says `issue` or `delete`. A short list of such words
//!   is applied to queries, at less weight than the word itself.
//! - **Names.** A query that is the name of a tool, with or without the name of its server, finds that tool first.
//! - **Order.** The same index and query give the same result; tools with the same score stay in the order in which
//!   they were given.
//!
//! Nothing a server or a client sends can make it expensive: texts are read up to the limits below, and a query is cut
//! to [`MOST_QUERY`] bytes and [`MOST_TERMS`] terms. The weights were chosen with the help of the tool lists of real
//! servers; `docs/search.md` has the figures.
//!
//! | file | what happens there |
//! |---|---|
//! | `term` | text becomes terms |
//! | `synonym` | words that mean the same in descriptions of tools |
//! | `schema` | the text in an input schema |
//! | `postings` | which entry has which term, and how much it counts there |

mod postings;
mod schema;
mod synonym;
mod term;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use postings::{Builder, Field, Postings};
use synonym::Synonyms;
use term::cut;

/// Entries beyond this number are not indexed.
pub const MOST_ENTRIES: usize = 100_000;
/// Bytes of a query that are read.
pub const MOST_QUERY: usize = 2 * 1024;
/// Different terms of a query that count.
pub const MOST_TERMS: usize = 48;
/// Bytes of a name that are indexed.
const MOST_NAME: usize = 512;
/// Bytes of a title and of a description that are indexed.
const MOST_DESCRIPTION: usize = 16 * 1024;
/// Bytes of the text in a schema that are indexed.
const MOST_SCHEMA: usize = 16 * 1024;
/// Bytes of all entries together; of those beyond it only names are indexed.
const MOST_TEXT: usize = 64 * 1024 * 1024;

/// What a synonym counts in comparison with the word that was asked for.
const SYNONYM: f32 = 0.5;
/// Added to the score of a tool whose name was asked for. No sum of [`MOST_TERMS`] terms reaches it: a term counts less
/// than the logarithm of [`MOST_ENTRIES`], which is 12.
const EXACT: f32 = 1000.0;

/// A tool, as its server describes it.
#[derive(Clone, Copy, Debug, Default)]
pub struct Entry<'a> {
    /// The name by which the tool is called. Before a double underscore may stand the name of its server.
    pub name: &'a str,
    /// The name that people read.
    pub title: Option<&'a str>,
    /// What the tool does.
    pub description: Option<&'a str>,
    /// The input schema as it was sent, in JSON; empty if there is none. What is not JSON is indexed up to there.
    pub schema: &'a [u8],
}

/// An entry that fits a query.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Found {
    /// Where the entry stood among those of the index, counted from 0.
    pub position: usize,
    /// How well it fits. It compares entries found by one query; across queries it means nothing.
    pub score: f32,
}

/// Entries by name, in the spelling of [`term::plain`].
type Names = BTreeMap<Box<str>, Vec<u32>>;

/// Entries that can be searched. See the [module](self).
#[derive(Debug)]
pub struct Index {
    postings: Postings,
    synonyms: Synonyms,
    /// Entries by their whole name.
    names: Names,
    /// Entries by the part of their name that stands behind that of the server.
    tool_names: Names,
}

impl Index {
    /// Indexes these entries, at most [`MOST_ENTRIES`].
    pub fn new<'a>(entries: impl IntoIterator<Item = Entry<'a>>) -> Index {
        let mut builder = Builder::default();
        let mut names = Names::new();
        let mut tool_names = Names::new();
        let mut text_left = MOST_TEXT;
        for (position, entry) in (0u32..).zip(entries.into_iter().take(MOST_ENTRIES)) {
            let name = cut(entry.name, MOST_NAME);
            note(&mut names, name, position);
            if let Some((_, tool)) = name.split_once("__") {
                note(&mut tool_names, tool, position);
            }
            builder.add(Field::Name, name);
            let size = entry.title.map_or(0, str::len)
                + entry.description.map_or(0, str::len)
                + entry.schema.len();
            if size <= text_left {
                text_left -= size;
                add_text(&mut builder, &entry);
            }
            builder.end_entry();
        }
        Index {
            postings: builder.build(),
            synonyms: Synonyms::new(),
            names,
            tool_names,
        }
    }

    /// Number of entries that are indexed.
    pub fn len(&self) -> usize {
        self.postings.entries()
    }

    /// Whether there is nothing to be found.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Finds at most `most` entries that fit a query, the best first. A query without a word finds nothing.
    pub fn find(&self, query: &str, most: usize) -> Vec<Found> {
        let query = cut(query, MOST_QUERY);
        let mut scores = self.postings.scores();
        for term in self.query_terms(query) {
            let own = self.postings.rarity(&term);
            scores.offer(&term, 1.0);
            for synonym in self.synonyms.of(&term) {
                // A rare synonym of a common word is worth no more than the word.
                let rarity = self.postings.rarity(synonym);
                let share = if own > 0.0 && rarity > own {
                    own / rarity
                } else {
                    1.0
                };
                scores.offer(synonym, SYNONYM * share);
            }
            scores.end_word();
        }
        let plain = term::plain(query);
        let named = [(&self.names, 2.0 * EXACT), (&self.tool_names, EXACT)];
        let bonus = named.into_iter().flat_map(|(names, bonus)| {
            let entries = names.get(&plain).into_iter().flatten();
            entries.map(move |entry| (*entry, bonus))
        });
        scores.best(most, bonus)
    }

    /// The terms of a query, each once. Words like "the" and "which" count only if there are no others.
    fn query_terms(&self, query: &str) -> Vec<String> {
        let mut terms = Vec::new();
        let mut fillers = Vec::new();
        for word in term::words(query) {
            let list = if term::is_filler(word) {
                &mut fillers
            } else {
                &mut terms
            };
            let whole = term::stem(word);
            // "GitHub" is one word if somebody writes it so, and two if not.
            if self.postings.has(&whole) {
                push_new(list, whole);
            } else {
                term::parts(word).for_each(|part| push_new(list, term::stem(part)));
            }
        }
        if terms.is_empty() { fillers } else { terms }
    }
}

/// Notes that an entry has this name. One without letters and digits is no word that anybody can ask for.
fn note(names: &mut Names, name: &str, entry: u32) {
    let plain = term::plain(name);
    if !plain.is_empty() {
        names.entry(plain).or_default().push(entry);
    }
}

/// Adds a term that is not there yet, if there is room for it.
fn push_new(terms: &mut Vec<String>, term: String) {
    if terms.len() < MOST_TERMS && !terms.contains(&term) {
        terms.push(term);
    }
}

/// Adds what an entry says beside its name.
fn add_text(builder: &mut Builder, entry: &Entry<'_>) {
    builder.add(
        Field::Summary,
        cut(entry.title.unwrap_or_default(), MOST_NAME),
    );
    let description = cut(entry.description.unwrap_or_default(), MOST_DESCRIPTION);
    let (summary, rest) = term::first_sentence(description);
    builder.add(Field::Summary, summary);
    builder.add(Field::Description, rest);
    let mut left = MOST_SCHEMA;
    schema::each_text(entry.schema, |text| {
        let text = cut(text, left);
        left -= text.len();
        builder.add(Field::Schema, text);
    });
}
