//! Words that mean the same where tools are described.

use std::collections::BTreeMap;

use super::term::stem;

/// Groups of words of which tasks use one and tools another. They are words of computing at large, not of any server:
/// what only one product calls so belongs into its descriptions.
#[rustfmt::skip]
const GROUPS: &[&[&str]] = &[
    // What is done.
    &["create", "add", "make", "new", "insert", "write"],
    &["delete", "remove", "drop", "erase", "uninstall"],
    &["update", "edit", "change", "modify", "patch", "set"],
    &["get", "read", "retrieve", "show", "view", "see", "look", "fetch"],
    &["list", "show", "enumerate", "browse"],
    &["find", "search", "look", "lookup", "query"],
    &["run", "execute", "invoke", "call"],
    &["start", "begin", "launch", "open", "run"],
    &["stop", "end", "cancel", "abort", "close"],
    &["send", "post", "publish"],
    &["reply", "answer", "respond"],
    &["rename", "move"],
    &["copy", "duplicate", "clone"],
    &["download", "export", "save"],
    &["upload", "attach", "attachment"],
    &["check", "verify", "validate", "assert"],
    // What it is done to.
    &["authentication", "auth", "login"],
    &["column", "field"],
    &["configuration", "config", "settings"],
    &["cost", "price"],
    &["database", "db"],
    &["directory", "folder"],
    &["documentation", "docs", "document"],
    &["environment", "env"],
    &["error", "failure", "fail"],
    &["history", "past"],
    &["image", "picture", "photo"],
    &["issue", "ticket", "bug"],
    &["javascript", "js"],
    &["kubernetes", "k8s", "kubectl"],
    &["label", "tag"],
    &["link", "url", "uri"],
    &["merge", "mr"],
    &["pull", "pr"],
    &["record", "row"],
    &["repository", "repo"],
    &["sheet", "worksheet", "spreadsheet", "workbook"],
    &["user", "person", "people", "member"],
    &["website", "site", "web"],
];

/// The groups by the term of each of their words.
#[derive(Debug)]
pub(super) struct Synonyms(BTreeMap<String, Vec<String>>);

impl Synonyms {
    pub(super) fn new() -> Synonyms {
        let mut others = BTreeMap::<String, Vec<String>>::new();
        for group in GROUPS {
            let terms: Vec<String> = group.iter().map(|word| stem(word)).collect();
            for term in &terms {
                let known = others.entry(term.clone()).or_default();
                known.extend(terms.iter().filter(|other| *other != term).cloned());
            }
        }
        Synonyms(others)
    }

    /// The terms that mean the same as this one.
    pub(super) fn of(&self, term: &str) -> impl Iterator<Item = &str> {
        self.0.get(term).into_iter().flatten().map(String::as_str)
    }
}
