//! The lists a server offers: what the host last saw, and what is true now.
//!
//! The host's view is kept as a fingerprint per item, so that after a restart the new server's
//! lists can be compared with it and `list_changed` is sent only for a reason (FM-15). The tools'
//! annotations of the *current* list decide what may be repeated (invariant 4).

mod encoding;

use std::collections::{BTreeMap, HashMap};

use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

use crate::event::Event;
use crate::fingerprint::fingerprint;
use crate::protocol::List;

/// Lists longer than this are not remembered; they are then never compared.
pub(crate) const MOST_ITEMS: usize = 100_000;

impl List {
    fn index(self) -> usize {
        self as usize
    }
}

/// One page of a list.
#[derive(Debug)]
pub(crate) struct Page {
    items: Vec<(String, u64)>,
    safe_tools: Vec<(String, bool)>,
    pub(crate) next_cursor: Option<String>,
}

#[derive(Deserialize)]
struct RawPage<'a> {
    #[serde(borrow)]
    tools: Option<Vec<&'a RawValue>>,
    #[serde(borrow)]
    prompts: Option<Vec<&'a RawValue>>,
    #[serde(borrow)]
    resources: Option<Vec<&'a RawValue>>,
    #[serde(borrow, rename = "resourceTemplates")]
    templates: Option<Vec<&'a RawValue>>,
    #[serde(rename = "nextCursor")]
    next_cursor: Option<String>,
}

impl Page {
    /// Reads the result of a list request; `None` if it is not one.
    pub(crate) fn read(list: List, result: &[u8]) -> Option<Page> {
        let raw: RawPage<'_> = serde_json::from_slice(result).ok()?;
        let items = match list {
            List::Tools => raw.tools,
            List::Prompts => raw.prompts,
            List::Resources => raw.resources,
            List::Templates => raw.templates,
        };
        let mut page = Page {
            items: Vec::new(),
            safe_tools: Vec::new(),
            next_cursor: raw.next_cursor.filter(|cursor| !cursor.is_empty()),
        };
        for item in items? {
            let Ok(value) = serde_json::from_str::<Value>(item.get()) else {
                continue;
            };
            let Some(name) = value[list.key()].as_str() else {
                continue;
            };
            let print = fingerprint(item.get().as_bytes());
            page.items.push((name.to_string(), print));
            if list == List::Tools {
                let hint = |name| value["annotations"][name] == Value::Bool(true);
                let safe = hint("readOnlyHint") || hint("idempotentHint");
                page.safe_tools.push((name.to_string(), safe));
            }
        }
        Some(page)
    }
}

/// A list as it is being read page by page.
#[derive(Clone, Debug, Default)]
struct Reading {
    /// Fingerprints by name; those of items of the same name are added up.
    items: BTreeMap<String, u64>,
    /// The cursor of the page that is to come.
    next: Option<String>,
    /// It is too long to be remembered.
    too_long: bool,
    /// The pages so far are not all of one server.
    torn: bool,
}

/// What a page was to a list that is being read.
#[derive(Debug)]
enum Taken {
    /// Not the page that was to come: it belongs to another reading.
    Stray,
    /// There are more.
    More,
    /// The last one.
    Last {
        /// The whole list, if it is not too long.
        items: Option<BTreeMap<String, u64>>,
        /// The pages were not all of one server.
        torn: bool,
    },
}

impl Reading {
    /// Takes the page that was asked for with this cursor; the first one is asked for without.
    fn take(&mut self, cursor: Option<&str>, page: &Page) -> Taken {
        match cursor {
            None => *self = Reading::default(),
            Some(_) if cursor != self.next.as_deref() => return Taken::Stray,
            Some(_) => {}
        }
        for (name, print) in &page.items {
            let sum = self.items.entry(name.clone()).or_default();
            *sum = sum.wrapping_add(*print);
        }
        if self.items.len() > MOST_ITEMS {
            self.too_long = true;
            self.items.clear();
        }
        self.next = page.next_cursor.clone();
        if self.next.is_some() {
            return Taken::More;
        }
        let whole = std::mem::take(self);
        Taken::Last {
            items: (!whole.too_long).then_some(whole.items),
            torn: whole.torn,
        }
    }
}

/// Who reads a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reader {
    Host,
    Session,
}

/// What a page of a list that we asked for tells.
#[derive(Debug)]
pub(crate) enum Seen {
    /// Nothing: the list was begun anew meanwhile.
    Nothing,
    /// That there are more pages, from this cursor on.
    More(String),
    /// The whole list; the difference to what the host has seen, if there is one.
    All(Option<Event>),
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Catalog {
    seen: [Option<BTreeMap<String, u64>>; 4],
    host_reading: [Reading; 4],
    our_reading: [Reading; 4],
    /// Whether a tool may be called twice, by the newest list there is, as far as it was read.
    safe_tools: HashMap<String, bool>,
    /// Who reads, or has read, that list.
    reader: Option<Reader>,
    /// That list is of the link in service, and was read to its end.
    fresh: bool,
}

impl Catalog {
    /// The host was given the page of a list that it had asked for with this cursor. True if that makes
    /// its list whole, but of pages of more than one server.
    pub(crate) fn host_saw(&mut self, list: List, cursor: Option<&str>, page: Page) -> bool {
        let taken = self.host_reading[list.index()].take(cursor, &page);
        if list == List::Tools {
            self.learn_tools(Reader::Host, cursor.is_none(), &taken, page.safe_tools);
        }
        match taken {
            Taken::Last { items, torn } => {
                if let Some(whole) = items {
                    self.seen[list.index()] = Some(whole);
                }
                torn
            }
            Taken::Stray | Taken::More => false,
        }
    }

    /// We were given the page of a list that we had asked for with this cursor. After the last one the
    /// list is compared with what the host has seen.
    pub(crate) fn we_saw(&mut self, list: List, cursor: Option<&str>, page: Page) -> Seen {
        let taken = self.our_reading[list.index()].take(cursor, &page);
        if list == List::Tools {
            self.learn_tools(Reader::Session, cursor.is_none(), &taken, page.safe_tools);
        }
        match taken {
            Taken::Stray => Seen::Nothing,
            Taken::More => Seen::More(page.next_cursor.unwrap_or_default()),
            Taken::Last { items, .. } => {
                Seen::All(items.and_then(|whole| self.difference(list, &whole)))
            }
        }
    }

    /// What a list is other than the host has seen.
    fn difference(&self, list: List, whole: &BTreeMap<String, u64>) -> Option<Event> {
        let seen = self.seen[list.index()].as_ref()?;
        let added: Vec<_> = whole
            .keys()
            .filter(|name| !seen.contains_key(*name))
            .cloned()
            .collect();
        let removed: Vec<_> = seen
            .keys()
            .filter(|name| !whole.contains_key(*name))
            .cloned()
            .collect();
        let changed: Vec<_> = whole
            .iter()
            .filter(|(name, print)| seen.get(*name).is_some_and(|old| old != *print))
            .map(|(name, _)| name.clone())
            .collect();
        if added.is_empty() && removed.is_empty() && changed.is_empty() {
            return None;
        }
        Some(Event::ListChanged {
            list,
            added,
            removed,
            changed,
        })
    }

    /// A link has died: what we were reading from it will not be finished, and what its tools
    /// allowed must be confirmed by the next server.
    pub(crate) fn link_lost(&mut self) {
        self.our_reading = Default::default();
        self.fresh = false;
        for reading in &mut self.host_reading {
            reading.torn = reading.next.is_some();
        }
    }

    /// A tool that is listed twice may be called twice only if both entries say so; one that is no longer
    /// listed may not, even if nothing else is.
    fn learn_tools(
        &mut self,
        reader: Reader,
        first: bool,
        taken: &Taken,
        tools: Vec<(String, bool)>,
    ) {
        if first {
            self.safe_tools.clear();
            self.reader = Some(reader);
            self.fresh = false;
        }
        let room = self.safe_tools.len() < MOST_ITEMS;
        for (name, safe) in tools {
            match self.safe_tools.get_mut(&name) {
                Some(known) => *known &= safe,
                None if room => drop(self.safe_tools.insert(name, safe)),
                None => {}
            }
        }
        // Somebody else may have begun another reading since.
        if matches!(taken, Taken::Last { torn: false, .. }) && self.reader == Some(reader) {
            self.fresh = true;
        }
    }

    /// Whether the tool may be called twice, as far as its server tells.
    pub(crate) fn is_safe(&self, tool: &str) -> bool {
        self.safe_tools.get(tool).copied().unwrap_or(false)
    }

    /// The cursor of the page that we read next.
    pub(crate) fn next_cursor(&self, list: List) -> Option<String> {
        self.our_reading[list.index()].next.clone()
    }

    /// Whether the link in service has said what all its tools are.
    pub(crate) fn is_fresh(&self) -> bool {
        self.fresh
    }

    /// The lists the host has read to their end.
    pub(crate) fn seen(&self) -> impl Iterator<Item = List> + '_ {
        List::ALL
            .into_iter()
            .filter(|list| self.seen[list.index()].is_some())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(json: &str) -> Page {
        Page::read(List::Tools, json.as_bytes()).expect("a page")
    }

    fn one(name: &str, more: &str) -> String {
        format!(r#"{{"tools":[{{"name":"{name}"{more}}}]}}"#)
    }

    /// The page is the first and only one.
    fn difference(catalog: &mut Catalog, json: &str) -> Option<Event> {
        match catalog.we_saw(List::Tools, None, page(json)) {
            Seen::All(difference) => difference,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_list_is_compared_with_what_the_host_saw() {
        let mut catalog = Catalog::default();
        let nothing = difference(&mut catalog, &one("a", ""));
        assert!(nothing.is_none(), "nothing seen yet");
        let both = r#"{"tools":[{"name":"a"},{"name":"b"}]}"#;
        assert!(!catalog.host_saw(List::Tools, None, page(both)));
        assert_eq!(catalog.seen().collect::<Vec<_>>(), [List::Tools]);
        let same = r#"{"tools":[{"name":"b"},{"name":"a"}]}"#;
        let order = difference(&mut catalog, same);
        assert!(order.is_none(), "order does not matter");
        let other = r#"{"tools":[{"name":"a","title":"A"},{"name":"c"}]}"#;
        let Some(Event::ListChanged {
            list,
            added,
            removed,
            changed,
        }) = difference(&mut catalog, other)
        else {
            panic!("a difference")
        };
        assert_eq!(
            (list, added, removed, changed),
            (
                List::Tools,
                vec!["c".to_string()],
                vec!["b".to_string()],
                vec!["a".to_string()],
            )
        );
    }

    #[test]
    fn items_of_one_name_are_all_compared() {
        let mut catalog = Catalog::default();
        let twice = r#"{"tools":[{"name":"a"},{"name":"a","title":"A"}]}"#;
        catalog.host_saw(List::Tools, None, page(twice));
        let turned = r#"{"tools":[{"name":"a","title":"A"},{"name":"a"}]}"#;
        assert!(difference(&mut catalog, turned).is_none());
        for once in [one("a", ""), one("a", r#","title":"A""#)] {
            assert!(difference(&mut catalog, &once).is_some(), "{once}");
        }
    }

    #[test]
    fn pages_are_put_together_and_those_of_two_servers_are_told_apart() {
        let mut catalog = Catalog::default();
        let first = || page(r#"{"tools":[{"name":"a"}],"nextCursor":"2"}"#);
        assert!(!catalog.host_saw(List::Tools, None, first()));
        assert_eq!(catalog.seen().count(), 0);
        assert!(!catalog.host_saw(List::Tools, Some("2"), page(&one("b", ""))));
        assert_eq!(catalog.seen().count(), 1);
        let more = catalog.we_saw(List::Tools, None, first());
        assert!(matches!(more, Seen::More(cursor) if cursor == "2"));
        let same = catalog.we_saw(List::Tools, Some("2"), page(&one("b", "")));
        assert!(matches!(same, Seen::All(None)));
        assert!(
            difference(&mut catalog, &one("a", "")).is_some(),
            "b is gone"
        );

        catalog.host_saw(List::Tools, None, first());
        catalog.link_lost();
        let torn = catalog.host_saw(List::Tools, Some("2"), page(&one("c", "")));
        assert!(torn, "the second page came from another server");
        let other = r#"{"tools":[{"name":"b"},{"name":"c"}]}"#;
        assert!(difference(&mut catalog, other).is_some());
        let by_chance = r#"{"tools":[{"name":"a"},{"name":"c"}]}"#;
        assert!(difference(&mut catalog, by_chance).is_none());
        catalog.host_saw(List::Tools, None, first());
        assert!(!catalog.host_saw(List::Tools, Some("2"), page(&one("b", ""))));
        catalog.link_lost();
        assert!(!catalog.host_saw(List::Tools, None, page(&one("a", ""))));
    }

    #[test]
    fn a_stray_page_is_no_part_of_a_list() {
        let mut catalog = Catalog::default();
        let first = || page(r#"{"tools":[{"name":"a"}],"nextCursor":"2"}"#);
        catalog.host_saw(List::Tools, None, page(&one("a", "")));
        catalog.host_saw(List::Tools, Some("2"), page(&one("b", "")));
        assert!(difference(&mut catalog, &one("a", "")).is_none());
        catalog.we_saw(List::Tools, None, first());
        let stray = catalog.we_saw(List::Tools, Some("3"), page(&one("b", "")));
        assert!(matches!(stray, Seen::Nothing));
    }

    #[test]
    fn only_tools_that_say_so_may_be_called_twice() {
        let mut catalog = Catalog::default();
        let tools = r#"{"tools":[
            {"name":"r","annotations":{"readOnlyHint":true}},
            {"name":"i","annotations":{"idempotentHint":true}},
            {"name":"n","annotations":{"readOnlyHint":false,"idempotentHint":"true"}},
            {"name":"x"}, 7, {"nameless":1}]}"#;
        catalog.host_saw(List::Tools, None, page(tools));
        let safe = |c: &Catalog| ["r", "i", "n", "x", "?"].map(|tool| c.is_safe(tool));
        assert_eq!(safe(&catalog), [true, true, false, false, false]);
        let prompts = Page::read(List::Prompts, br#"{"prompts":[]}"#).expect("a page");
        catalog.host_saw(List::Prompts, None, prompts);
        assert_eq!(safe(&catalog), [true, true, false, false, false]);
        catalog.we_saw(List::Tools, None, page(&one("r", "")));
        assert_eq!(safe(&catalog), [false; 5], "the newest list counts");
    }

    #[test]
    fn an_empty_list_or_page_takes_back_what_was_said() {
        for empty in [r#"{"tools":[]}"#, r#"{"tools":[],"nextCursor":"2"}"#] {
            let mut catalog = Catalog::default();
            let safe = one("r", r#","annotations":{"readOnlyHint":true}"#);
            catalog.host_saw(List::Tools, None, page(&safe));
            assert!(catalog.is_safe("r") && catalog.is_fresh());
            catalog.we_saw(List::Tools, None, page(empty));
            assert!(!catalog.is_safe("r"), "{empty}");
        }
    }

    #[test]
    fn of_two_entries_the_more_careful_one_counts() {
        let safe = r#"{"name":"t","annotations":{"readOnlyHint":true}}"#;
        let plain = r#"{"name":"t"}"#;
        for (one, other) in [(safe, plain), (plain, safe)] {
            let mut catalog = Catalog::default();
            let both = format!(r#"{{"tools":[{one},{other}]}}"#);
            catalog.host_saw(List::Tools, None, page(&both));
            assert!(!catalog.is_safe("t"), "{both}");
            let first = format!(r#"{{"tools":[{one}],"nextCursor":"2"}}"#);
            catalog.host_saw(List::Tools, None, page(&first));
            assert!(!catalog.is_fresh(), "there is more to come");
            catalog.host_saw(
                List::Tools,
                Some("2"),
                page(&format!(r#"{{"tools":[{other}]}}"#)),
            );
            assert!(!catalog.is_safe("t") && catalog.is_fresh(), "{first}");
        }
    }

    #[test]
    fn a_list_that_two_read_at_once_is_not_fresh_before_the_second_is_through() {
        let mut catalog = Catalog::default();
        let pages = ["2", "3"].map(|next| format!(r#"{{"tools":[],"nextCursor":"{next}"}}"#));
        let last = one("t", "");
        catalog.we_saw(List::Tools, None, page(&pages[0]));
        catalog.we_saw(List::Tools, Some("2"), page(&pages[1]));
        catalog.host_saw(List::Tools, None, page(&pages[0]));
        catalog.we_saw(List::Tools, Some("3"), page(&last));
        assert!(!catalog.is_fresh());
        catalog.host_saw(List::Tools, Some("2"), page(&pages[1]));
        catalog.host_saw(List::Tools, Some("3"), page(&last));
        assert!(catalog.is_fresh());
    }

    #[test]
    fn lists_have_their_own_keys() {
        let read = |list, json: &str| Page::read(list, json.as_bytes()).map(|p| p.items.len());
        assert_eq!(
            read(List::Prompts, r#"{"prompts":[{"name":"p"}]}"#),
            Some(1)
        );
        assert_eq!(
            read(
                List::Resources,
                r#"{"resources":[{"uri":"u"},{"name":"n"}]}"#
            ),
            Some(1)
        );
        assert_eq!(
            read(
                List::Templates,
                r#"{"resourceTemplates":[{"uriTemplate":"t"}]}"#
            ),
            Some(1)
        );
        assert_eq!(read(List::Prompts, r#"{"tools":[]}"#), None);
        assert_eq!(read(List::Tools, "[]"), None);
        for list in List::ALL {
            assert_eq!(List::of_method(list.method()), Some(list));
        }
        assert_eq!(List::of_method("tools/call"), None);
    }
}
