//! Which entry has which term, and how much it counts there: BM25F.
//!
//! What a term counts in an entry does not depend on the query, so it is computed once: occurrences in each field,
//! divided by how long the field is in comparison with others, times the weight of the field; summed, and saturated.

use std::collections::BTreeMap;

use super::Found;
use super::term::{parts, stem, words};

/// Where in an entry a term stands.
#[derive(Clone, Copy)]
pub(super) enum Field {
    Name,
    /// The title, and the first sentence of the description.
    Summary,
    Description,
    Schema,
}

const FIELDS: usize = 4;
/// What an occurrence counts in each field.
const WEIGHTS: [f32; FIELDS] = [5.0, 1.5, 0.25, 0.25];
/// How much an occurrence in a long field is discounted: 0 not at all, 1 in proportion to the length.
const DISCOUNT: f32 = 0.5;
/// Occurrences in one field that count: a server must not be found first because it repeats itself.
const MOST_OCCURRENCES: u16 = 4;
/// How soon further occurrences stop to count.
const SATURATION: f32 = 1.2;

/// An entry that has a term.
#[derive(Clone, Copy, Debug)]
struct Posting {
    entry: u32,
    /// What the term counts there, between 0 and 1.
    weight: f32,
}

/// The postings of every term.
#[derive(Debug)]
pub(super) struct Postings {
    entries: usize,
    terms: BTreeMap<Box<str>, Box<[Posting]>>,
}

impl Postings {
    pub(super) fn entries(&self) -> usize {
        self.entries
    }

    pub(super) fn has(&self, term: &str) -> bool {
        self.terms.contains_key(term)
    }

    /// How much it says that an entry has this term: the more the fewer have it, nothing if none has.
    pub(super) fn rarity(&self, term: &str) -> f32 {
        self.terms
            .get(term)
            .map_or(0.0, |postings| self.rarity_of(postings))
    }

    fn rarity_of(&self, postings: &[Posting]) -> f32 {
        let (all, with) = (self.entries as f32, postings.len() as f32);
        (1.0 + (all - with + 0.5) / (with + 0.5)).ln()
    }

    /// Scores of all entries, nothing yet.
    pub(super) fn scores(&self) -> Scores<'_> {
        Scores {
            postings: self,
            entries: vec![Score::default(); self.entries],
            touched: Vec::new(),
            highest: 0.0,
            asked: 0.0,
        }
    }
}

/// What an entry has scored.
#[derive(Clone, Copy, Default)]
struct Score {
    total: f32,
    /// What the words of the query weigh that the entry answers.
    answered: f32,
    /// The best that the current word and its synonyms score: whoever has all of them has not answered more words.
    word: f32,
}

/// What each entry has scored so far.
pub(super) struct Scores<'p> {
    postings: &'p Postings,
    entries: Vec<Score>,
    /// The entries that have the current word or a synonym.
    touched: Vec<u32>,
    /// What the current word weighs.
    highest: f32,
    /// What all words weigh that any entry has.
    asked: f32,
}

impl Scores<'_> {
    /// Counts a word of the query, or a synonym of it, for the entries that have it.
    pub(super) fn offer(&mut self, term: &str, share: f32) {
        let Some(postings) = self.postings.terms.get(term) else {
            return;
        };
        let share = share * self.postings.rarity_of(postings);
        self.highest = self.highest.max(share);
        for posting in postings {
            let word = &mut self.entries[posting.entry as usize].word;
            if *word == 0.0 {
                self.touched.push(posting.entry);
            }
            *word = word.max(share * posting.weight);
        }
    }

    /// Ends the word that was offered last, with its synonyms.
    pub(super) fn end_word(&mut self) {
        let weight = std::mem::take(&mut self.highest);
        self.asked += weight;
        for entry in self.touched.drain(..) {
            let score = &mut self.entries[entry as usize];
            score.total += std::mem::take(&mut score.word);
            score.answered += weight;
        }
    }

    /// The best entries that have scored at all. An entry that answers half of the query keeps half of its score: one
    /// rare word is less than three that stand together. `bonus` is added for the entries it names.
    pub(super) fn best(
        mut self,
        most: usize,
        bonus: impl IntoIterator<Item = (u32, f32)>,
    ) -> Vec<Found> {
        for score in &mut self.entries {
            score.total *= if score.answered > 0.0 {
                score.answered / self.asked
            } else {
                0.0
            };
        }
        for (entry, bonus) in bonus {
            self.entries[entry as usize].total += bonus;
        }
        let mut found: Vec<Found> = (self.entries.into_iter().enumerate())
            .filter(|(_, score)| score.total > 0.0)
            .map(|(position, score)| Found {
                position,
                score: score.total,
            })
            .collect();
        let order = |a: &Found, b: &Found| {
            b.score
                .total_cmp(&a.score)
                .then(a.position.cmp(&b.position))
        };
        if most < found.len() {
            found.select_nth_unstable_by(most, order);
            found.truncate(most);
        }
        found.sort_unstable_by(order);
        found
    }
}

/// Collects the terms of entries.
#[derive(Default)]
pub(super) struct Builder {
    /// The terms of each word that was met: stemming takes longer than looking it up.
    words: BTreeMap<Box<str>, Box<[u32]>>,
    terms: BTreeMap<Box<str>, u32>,
    /// By term: the entries that have it, and how often in each field.
    counts: Vec<Vec<(u32, [u16; FIELDS])>>,
    /// By entry: the words in each field.
    lengths: Vec<[u32; FIELDS]>,
    current: [u32; FIELDS],
}

impl Builder {
    /// Adds text to the current entry.
    pub(super) fn add(&mut self, field: Field, text: &str) {
        let entry = self.lengths.len() as u32;
        for word in words(text) {
            self.current[field as usize] += 1;
            if !self.words.contains_key(word) {
                let terms = self.terms_of(word);
                self.words.insert(word.into(), terms);
            }
            for term in self.words.get(word).into_iter().flatten() {
                let counts = &mut self.counts[*term as usize];
                if counts.last().is_none_or(|(last, _)| *last != entry) {
                    counts.push((entry, [0; FIELDS]));
                }
                if let Some((_, counts)) = counts.last_mut() {
                    counts[field as usize] = counts[field as usize].saturating_add(1);
                }
            }
        }
    }

    /// A word's parts and, if there are several, itself: whoever looks for "javascript" means `JavaScript`.
    fn terms_of(&mut self, word: &str) -> Box<[u32]> {
        let mut all: Vec<String> = parts(word).map(stem).collect();
        if all.len() > 1 {
            all.push(stem(word));
        }
        all.into_iter().map(|term| self.number(term)).collect()
    }

    fn number(&mut self, term: String) -> u32 {
        let next = self.counts.len() as u32;
        let number = *self.terms.entry(term.into()).or_insert(next);
        if number == next {
            self.counts.push(Vec::new());
        }
        number
    }

    pub(super) fn end_entry(&mut self) {
        self.lengths.push(std::mem::take(&mut self.current));
    }

    pub(super) fn build(self) -> Postings {
        let entries = self.lengths.len();
        let mean = mean_lengths(&self.lengths);
        let weigh = |entry: u32, counts: [u16; FIELDS]| {
            let lengths = self.lengths[entry as usize];
            let sum: f32 = (0..FIELDS)
                .map(|field| {
                    let longer = lengths[field] as f32 / mean[field];
                    let discount = 1.0 - DISCOUNT + DISCOUNT * longer;
                    WEIGHTS[field] * f32::from(counts[field].min(MOST_OCCURRENCES)) / discount
                })
                .sum();
            Posting {
                entry,
                weight: sum / (SATURATION + sum),
            }
        };
        let terms = (self.terms.into_iter())
            .map(|(term, number)| {
                let counts = &self.counts[number as usize];
                (
                    term,
                    counts
                        .iter()
                        .map(|(entry, counts)| weigh(*entry, *counts))
                        .collect(),
                )
            })
            .collect();
        Postings { entries, terms }
    }
}

/// The mean length of each field, among the entries that have it; never 0.
fn mean_lengths(lengths: &[[u32; FIELDS]]) -> [f32; FIELDS] {
    std::array::from_fn(|field| {
        let (sum, number) = (lengths
            .iter()
            .map(|lengths| lengths[field])
            .filter(|length| *length > 0))
        .fold((0.0, 0.0), |(sum, number), length| {
            (sum + length as f32, number + 1.0)
        });
        if number > 0.0 { sum / number } else { 1.0 }
    })
}
