//! Definitions that were accepted once, and are kept to.
//!
//! What a tool is called and what its description says goes into the context of a model, so a server that changes a
//! description changes what the model does. Where definitions are pinned, clients see those that somebody has accepted:
//! what has changed since goes on as it was accepted, what is new is withheld, and what is gone is gone, because calls
//! of it would fail. `instructions` are pinned with the entries, for they go to the same place.

use std::collections::{HashMap, HashSet};

use bytes::Bytes;

use super::difference::{Change, Difference};
use super::offer::{Item, Offer};
use crate::message::value;
use crate::protocol::List;

/// What a server offers, kept to what was accepted.
#[derive(Clone, Debug)]
pub struct Pinned {
    /// What clients are shown: the live server, with the definitions that were accepted.
    pub offer: Offer,
    /// What differs, in the order of the lists: first what the live server has, then what it no longer has.
    pub differences: Vec<Difference>,
}

/// Keeps what a server offers now to what was accepted of it.
///
/// Two definitions are the same if they differ in white space, in the order of members or in how characters are
/// escaped, and in nothing else. A list that the server has declared but that was not learnt is passed over.
pub fn pin(accepted: &Offer, live: &Offer) -> Pinned {
    let mut offer = live.clone();
    let mut differences = Vec::new();
    for list in List::ALL {
        let known = accepted.list(list).map_or(&[][..], |items| items);
        let now = match live.list(list) {
            Some(items) => &items[..],
            None if live.offers(list) => continue,
            None => &[],
        };
        let by_key: HashMap<&str, &Item> = known.iter().map(|item| (item.key(), item)).collect();
        let mut kept = Vec::new();
        for item in now {
            let before = by_key.get(item.key()).copied();
            if let Some(before) = before {
                kept.push(before.clone());
            }
            match before {
                Some(before) if same(before.json(), item.json()) => continue,
                _ => differences.push(entry(list, before, Some(item))),
            }
        }
        let still: HashSet<&str> = now.iter().map(Item::key).collect();
        let gone = known.iter().filter(|item| !still.contains(item.key()));
        differences.extend(gone.map(|item| entry(list, Some(item), None)));
        if live.list(list).is_some() {
            offer.set_list(list, kept);
        }
    }
    if accepted.instructions != live.instructions {
        let text = |offer: &Offer| offer.instructions().map(|text| value::quoted(text).into());
        differences.push(Difference::new(
            None,
            "instructions",
            text(accepted),
            text(live),
        ));
        offer.instructions = accepted.instructions.clone();
    }
    Pinned { offer, differences }
}

fn entry(list: List, accepted: Option<&Item>, live: Option<&Item>) -> Difference {
    let key = live.or(accepted).map_or("", Item::key);
    let json = |item: Option<&Item>| item.map(|item| item.json().clone());
    Difference::new(Some(list), key, json(accepted), json(live))
}

fn same(one: &Bytes, other: &Bytes) -> bool {
    one == other || {
        let canonical = value::canonical(one);
        canonical.is_some() && canonical == value::canonical(other)
    }
}

impl Change {
    /// What has happened to a definition.
    pub(super) fn of(accepted: Option<&Bytes>, live: Option<&Bytes>) -> Change {
        match (accepted, live) {
            (None, _) => Change::New,
            (Some(_), Some(_)) => Change::Changed,
            (Some(_), None) => Change::Removed,
        }
    }
}
