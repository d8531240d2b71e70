//! What servers offer and nobody has accepted: only its names, for whoever asks for it all the same.
//!
//! A name that is withheld is the one it would have if everything were accepted. It takes part in no conflict: what is
//! shown is called the same whatever is withheld.

use std::collections::HashSet;

use super::naming::Prefixes;
use super::offer::Item;
use super::{Entry, Roster, Server, View};
use crate::protocol::List;

/// A tool or prompt that is withheld.
#[derive(Clone, Debug)]
pub(super) struct Withheld {
    list: List,
    exposed: Box<str>,
    /// The place of its server.
    server: usize,
}

/// The tools and prompts that are withheld, as far as the view contains them.
pub(super) fn named(
    entries: &[(usize, &Entry)],
    seen: &[Server],
    names: &[&str],
    prefixes: &Prefixes,
    view: &View,
) -> Vec<Withheld> {
    let mut all = Vec::new();
    for list in [List::Tools, List::Prompts] {
        if !seen.iter().any(|server| server.withholds(list)) {
            continue;
        }
        let live = |at: usize| seen[at].live_items(list);
        let shown: Vec<HashSet<&str>> = seen.iter().map(|it| it.keys(list)).collect();
        for (server, item, exposed) in super::named(list, entries, live, names, prefixes, view) {
            let key = seen[server].live_items(list)[item].key();
            if !shown[server].contains(key) {
                all.push(Withheld {
                    list,
                    exposed,
                    server,
                });
            }
        }
    }
    all
}

impl Server {
    fn live_items(&self, list: List) -> &[Item] {
        let live = self.live.as_deref().and_then(|live| live.list(list));
        live.map_or(&[], |items| items)
    }

    fn keys(&self, list: List) -> HashSet<&str> {
        self.items(list).iter().map(Item::key).collect()
    }

    fn withholds(&self, list: List) -> bool {
        self.is_pinned && {
            let shown = self.keys(list);
            let mut live = self.live_items(list).iter();
            live.any(|item| !shown.contains(item.key()))
        }
    }
}

impl Roster {
    /// The server that offers a tool or prompt of this name, which nobody has accepted.
    pub fn withheld(&self, list: List, exposed: &str) -> Option<&str> {
        let mut all = self.withheld.iter();
        let it = all.find(|it| it.list == list && *it.exposed == *exposed)?;
        // Somebody else may have been given the name.
        match self.find(list, exposed) {
            Some(_) => None,
            None => Some(&self.servers[it.server].name),
        }
    }
}
