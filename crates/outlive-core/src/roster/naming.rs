//! The names under which clients see the tools and prompts of many servers.
//!
//! # Theory
//!
//! A name is the server's prefix, the separator, and the name that the server has for the tool: `github__create_issue`.
//! Clients accept letters, digits, `_` and `-`, so any other character becomes `_`; a name that is too long is cut and
//! ends with a short hash of the server's name and the original name.
//!
//! Prefixes are given to all servers of the configuration before any of their tools is known, so that none followed by
//! the separator begins with another one followed by the separator. A server whose name has no letter or digit of ASCII
//! has a hash of its name for a prefix. Names of two servers then never agree, whatever
//! their tools are called; and no prefix is ever cut. What can agree are names of one server, after characters were
//! replaced. Then the tool whose name needed no change keeps it, else the first, and the others get the hash. So under
//! [`Prefix::Always`] the names of a server depend on the configuration and on its own list alone: they do not change
//! when another server comes, goes, or changes its tools.

use std::collections::{HashMap, HashSet};

use crate::fingerprint::fingerprint;

/// Letters of a hash: 30 bits. It tells apart the few names of one server that agree after a cut; should two hashes
/// agree as well, another one is taken.
const HASH: usize = 6;

/// The shortest bound for names that can be set.
const LEAST: usize = 24;

/// When names carry the prefix of their server.
///
/// Servers that a [view](super::View) does not contain are not counted among those that have a name; tools that it
/// hides are. So under `Always` a tool has the same name in every view, and under the others in every view with the
/// same servers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Prefix {
    /// Always. Names do not depend on other servers.
    #[default]
    Always,
    /// Where several servers have the same name, all of those. A name gets the prefix when another server with the same
    /// name becomes known, and loses it when that one drops it: clients are told by `list_changed`, but a name that a
    /// person has written down somewhere may be gone.
    Conflict,
    /// Where several servers have the same name, all but the first in the order of the file. A name can pass from one
    /// server to another: when the first one drops it, or an earlier server becomes known that has it too.
    Never,
}

/// How names are made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Naming {
    /// When names carry a prefix.
    pub prefix: Prefix,
    /// What stands between prefix and name: letters, digits, `_` and `-`, any other character becomes `_`. `_` if it is
    /// empty: without one `git` and `github` could not be told apart.
    pub separator: Box<str>,
    /// The most characters of a name; at least 24. Some clients accept 64, and put a prefix of their own before it.
    pub longest: usize,
}

impl Default for Naming {
    fn default() -> Naming {
        Naming {
            prefix: Prefix::Always,
            separator: "__".into(),
            longest: 50,
        }
    }
}

/// The prefixes of all servers, separators included.
#[derive(Clone, Debug)]
pub(super) struct Prefixes {
    prefixes: Vec<String>,
    longest: usize,
    when: Prefix,
}

/// A name that a server has, to be seen by clients: the place of the server and the name.
pub(super) type Original<'a> = (usize, &'a str);

impl Prefixes {
    /// Gives each server its prefix: the text that is wanted for it (reduced to what names may have), unless it cannot
    /// be told from an earlier one.
    pub(super) fn new<'a>(
        naming: &Naming,
        servers: impl Iterator<Item = (&'a str, Option<&'a str>)>,
    ) -> Prefixes {
        let longest = naming.longest.max(LEAST);
        let mut separator = reduced(&naming.separator);
        separator.truncate(longest / 6);
        if separator.is_empty() {
            separator.push('_');
        }
        // Leaves room for a hash and a few letters of the name.
        let room = longest / 2 - separator.len();
        let mut taken: Vec<String> = Vec::new();
        for (name, wanted) in servers {
            let text = reduced(wanted.unwrap_or(name));
            // A name in another script leaves nothing to tell it by.
            let is_blank = wanted.is_none() && !text.contains(|c: char| c.is_ascii_alphanumeric());
            let mut choice = match text.len() > room {
                _ if is_blank => hash(name, "", 0),
                true => cut(&text, room, &hash(name, "", 0)),
                false => text.clone(),
            };
            let clashes = |choice: &str, taken: &[String]| {
                let whole = format!("{choice}{separator}");
                let clash = |other: &String| other.starts_with(&whole) || whole.starts_with(other);
                taken.iter().any(clash)
            };
            let mut salt = 0;
            while clashes(&choice, &taken) {
                let mark = hash(name, "", salt);
                // The mark in front, if behind it makes no difference: `a` and `a__b`.
                choice = match salt % 2 {
                    0 => cut(&text, room, &mark),
                    _ => format!("{mark}_{text}").chars().take(room).collect(),
                };
                salt += 1;
            }
            taken.push(choice + &separator);
        }
        Prefixes {
            prefixes: taken,
            longest,
            when: naming.prefix,
        }
    }

    /// The names for these, in the same order; no two are alike. `servers` are their names.
    pub(super) fn names(&self, servers: &[&str], originals: &[Original<'_>]) -> Vec<Box<str>> {
        let plain: Vec<String> = originals.iter().map(|(_, name)| reduced(name)).collect();
        let mut owners: HashMap<&str, (usize, bool)> = HashMap::new();
        if self.when != Prefix::Always {
            for ((server, _), plain) in originals.iter().zip(&plain) {
                let owner = owners.entry(plain).or_insert((*server, false));
                owner.1 |= owner.0 != *server;
            }
        }
        let prefix = |server: usize, plain: &str| match (self.when, owners.get(plain)) {
            (Prefix::Conflict, Some((_, false))) => "",
            (Prefix::Never, Some((owner, _))) if *owner == server => "",
            _ => self.prefixes[server].as_str(),
        };
        let mut names = vec![Box::<str>::default(); originals.len()];
        let mut taken: HashSet<Box<str>> = HashSet::with_capacity(originals.len());
        // Names that need no change first: whoever reads the server's own documentation looks for them.
        for changed in [false, true] {
            for (at, (server, original)) in originals.iter().enumerate() {
                let plain = &plain[at];
                let whole = [prefix(*server, plain), plain].concat();
                let too_long = whole.len() > self.longest;
                if (*plain != *original || too_long) != changed {
                    continue;
                }
                let mut name = whole.clone();
                let mut salt = 0;
                while name.is_empty() || name.len() > self.longest || taken.contains(&*name) {
                    name = cut(
                        &whole,
                        self.longest,
                        &hash(servers[*server], original, salt),
                    );
                    salt += 1;
                }
                taken.insert(name.clone().into());
                names[at] = name.into();
            }
        }
        names
    }
}

/// The text with `_` for every character that names may not have.
fn reduced(text: &str) -> String {
    let allowed = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    text.chars()
        .map(|c| if allowed(c) { c } else { '_' })
        .collect()
}

/// The text (ASCII), as much of it as fits with this mark behind it.
fn cut(text: &str, longest: usize, mark: &str) -> String {
    let room = longest.saturating_sub(mark.len() + 1);
    format!("{}_{mark}", &text[..text.len().min(room)])
}

/// A short hash of a name of a server; another one for each salt.
fn hash(server: &str, name: &str, salt: u64) -> String {
    const LETTERS: &[u8; 32] = b"abcdefghijklmnopqrstuvwxyz234567";
    let text = format!("{}:{server}{name}:{salt}", server.len());
    let print = fingerprint(text.as_bytes());
    // Folded, as the authors of the algorithm advise where fewer bits are wanted.
    let bits = print ^ print >> 32;
    let letter = |at: usize| char::from(LETTERS[(bits >> (5 * at)) as usize % LETTERS.len()]);
    (0..HASH).map(letter).collect()
}
