//! Definitions that were accepted once, and are kept to.
//!
//! What a tool is called and what its description says goes into the context of a model, so a server that changes a
//! description changes what the model does. Where definitions are pinned, clients see those that somebody has accepted:
//! what has changed since goes on as it was accepted, what is new is withheld, and what is gone is gone, because calls
//! of it would fail. `instructions` are pinned with the entries, for they go to the same place, and so are capabilities
//! that the specification does not name, for they may say anything.
//!
//! What a server offers [the first time](first_use) is accepted. That holds for each list by itself: one that could not
//! be read yet, or a list of tools that is still empty while its server starts, is accepted when it is first there.
//! A list that the server has not even declared has been seen, and was empty.

use std::collections::{HashMap, HashSet};

use bytes::Bytes;

use super::difference::{Change, Difference};
use super::offer::{Item, Offer};
use crate::message::value;
use crate::protocol::List;

/// Capabilities that the specification names. What stands in them is for programs and not for models.
const NAMED: [&str; 6] = [
    "tools",
    "prompts",
    "resources",
    "logging",
    "completions",
    "tasks",
];

/// What a server offers, kept to what was accepted.
#[derive(Clone, Debug, PartialEq, Eq)]
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
    let (known, now) = (unnamed(accepted), unnamed(live));
    if !same(&known, &now) {
        let told = |json: &Bytes| (json != "{}").then(|| json.clone());
        differences.push(Difference::new(
            None,
            "capabilities",
            told(&known),
            told(&now),
        ));
        offer.capabilities = capabilities(accepted, live);
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

impl Pinned {
    /// Shows nothing of a server of which nothing is known to be accepted, and tells what differs from this.
    pub fn nothing(accepted: Option<&Offer>, live: &Offer) -> Pinned {
        let nothing = nothing();
        let pinned = pin(&nothing, live);
        Pinned {
            differences: match accepted {
                Some(accepted) => pin(accepted, live).differences,
                None => pinned.differences,
            },
            offer: pinned.offer,
        }
    }

    /// Shows nothing of a server that has not told what it offers.
    pub fn unknown() -> Pinned {
        Pinned {
            offer: nothing(),
            differences: Vec::new(),
        }
    }
}

fn nothing() -> Offer {
    Offer::new("", b"{}", b"{}", None)
}

/// What is accepted by itself because nobody has seen anything of its kind before: all of an offer, or lists of it.
/// `None` if there is nothing of that sort, and what was accepted stays as it is.
pub fn first_use(accepted: Option<&Offer>, live: &Offer) -> Option<Offer> {
    let settled = |list: List| match live.list(list) {
        // Some servers list nothing while they start.
        Some(items) if list == List::Tools => !items.is_empty(),
        Some(_) => true,
        None => false,
    };
    let Some(accepted) = accepted else {
        let mut all = live.clone();
        for list in List::ALL.into_iter().filter(|list| !settled(*list)) {
            all.lists[list as usize] = None;
        }
        return Some(all);
    };
    let is_open = |list: &List| accepted.offers(*list) && accepted.list(*list).is_none();
    let first: Vec<List> = List::ALL
        .into_iter()
        .filter(|list| is_open(list) && settled(*list))
        .collect();
    let mut more = accepted.clone();
    for list in &first {
        more.lists[*list as usize] = live.list(*list).cloned();
    }
    (!first.is_empty()).then_some(more)
}

/// What is accepted when somebody accepts what a server offers now. A list that could not be read stays as it was.
pub fn accepting(accepted: Option<&Offer>, live: &Offer) -> Offer {
    let mut all = live.clone();
    for list in List::ALL {
        let unread = live.list(list).is_none() && live.offers(list);
        if let Some(known) = accepted.filter(|_| unread) {
            all.lists[list as usize] = known.list(list).cloned();
        }
    }
    all
}

/// The capabilities that the specification does not name, as an object.
fn unnamed(offer: &Offer) -> Bytes {
    object(&members(offer, |name| !NAMED.contains(&name)))
}

/// The capabilities that the specification names as the live server declares them, and the others as accepted.
fn capabilities(accepted: &Offer, live: &Offer) -> Bytes {
    let mut all = members(live, |name| NAMED.contains(&name));
    all.extend(members(accepted, |name| !NAMED.contains(&name)));
    object(&all)
}

/// Some capabilities of a server, each as a member of an object.
fn members(offer: &Offer, wanted: impl Fn(&str) -> bool) -> Vec<String> {
    let json = &offer.capabilities;
    let all = value::members(json).unwrap_or_default();
    let member = |(name, span): (String, std::ops::Range<usize>)| {
        let value = String::from_utf8_lossy(&json[span]);
        format!("{}:{value}", value::quoted(&name))
    };
    let wanted = all.into_iter().filter(|(name, _)| wanted(name));
    wanted.map(member).collect()
}

fn object(members: &[String]) -> Bytes {
    format!("{{{}}}", members.join(",")).into()
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
