//! The lists a server offers: what the host last saw, and what is true now.
//!
//! The host's view is kept as a fingerprint per item, so that after a restart the new server's
//! lists can be compared with it and `list_changed` is sent only for a reason (FM-15). The tools'
//! annotations of the *current* list decide what may be repeated (invariant 4).

use std::collections::{BTreeMap, HashMap};
use std::hash::{DefaultHasher, Hash, Hasher};

use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

use crate::event::{Event, List};

/// Lists longer than this are not remembered; they are then never compared.
const MOST_ITEMS: usize = 100_000;

impl List {
    pub(crate) fn method(self) -> &'static str {
        match self {
            List::Tools => "tools/list",
            List::Prompts => "prompts/list",
            List::Resources => "resources/list",
            List::Templates => "resources/templates/list",
        }
    }

    pub(crate) fn of_method(method: impl AsRef<[u8]>) -> Option<List> {
        let is_it = |list: &List| list.method().as_bytes() == method.as_ref();
        List::ALL.into_iter().find(is_it)
    }

    /// The notification that tells of a change in it.
    pub(crate) fn changed_method(self) -> &'static str {
        match self {
            List::Tools => "notifications/tools/list_changed",
            List::Prompts => "notifications/prompts/list_changed",
            List::Resources | List::Templates => "notifications/resources/list_changed",
        }
    }

    /// The field of a `subscriptions/listen` filter that asks for it (2026-07-28).
    pub(crate) fn filter_field(self) -> &'static str {
        match self {
            List::Tools => "toolsListChanged",
            List::Prompts => "promptsListChanged",
            List::Resources | List::Templates => "resourcesListChanged",
        }
    }

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
        let (items, key) = match list {
            List::Tools => (raw.tools, "name"),
            List::Prompts => (raw.prompts, "name"),
            List::Resources => (raw.resources, "uri"),
            List::Templates => (raw.templates, "uriTemplate"),
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
            let Some(name) = value[key].as_str() else {
                continue;
            };
            let mut hasher = DefaultHasher::new();
            item.get().hash(&mut hasher);
            page.items.push((name.to_string(), hasher.finish()));
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
    items: BTreeMap<String, u64>,
    /// Set once a page is missing: what follows cannot make the list whole.
    broken: bool,
}

impl Reading {
    /// Takes a page; returns the whole list after the last one.
    fn take(&mut self, first: bool, page: &Page) -> Option<BTreeMap<String, u64>> {
        if first {
            *self = Reading::default();
        }
        self.items.extend(page.items.iter().cloned());
        if self.items.len() > MOST_ITEMS {
            self.broken = true;
            self.items.clear();
        }
        if page.next_cursor.is_some() {
            return None;
        }
        let whole = !std::mem::replace(&mut self.broken, true);
        whole.then(|| std::mem::take(&mut self.items))
    }
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Catalog {
    seen: [Option<BTreeMap<String, u64>>; 4],
    host_reading: [Reading; 4],
    our_reading: [Reading; 4],
    /// Whether a tool may be called twice, by the newest list there is.
    safe_tools: HashMap<String, bool>,
    /// That list is of the link in service.
    fresh: bool,
}

impl Catalog {
    /// The host was given a page of a list; `first` if it had asked without a cursor.
    pub(crate) fn host_saw(&mut self, list: List, first: bool, page: Page) {
        if let Some(whole) = self.host_reading[list.index()].take(first, &page) {
            self.seen[list.index()] = Some(whole);
        }
        self.learn_tools(page, first);
    }

    /// We were given a page of a list. After the last one the list is compared with what the host
    /// has seen; the answer is the difference, if there is one.
    pub(crate) fn we_saw(&mut self, list: List, first: bool, page: Page) -> Option<Event> {
        let whole = self.our_reading[list.index()].take(first, &page);
        self.learn_tools(page, first);
        let (whole, seen) = (whole?, self.seen[list.index()].as_ref()?);
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
            reading.broken = true;
        }
    }

    fn learn_tools(&mut self, page: Page, first: bool) {
        if first && !page.safe_tools.is_empty() {
            self.safe_tools.clear();
            self.fresh = true;
        }
        if self.safe_tools.len() < MOST_ITEMS {
            self.safe_tools.extend(page.safe_tools);
        }
    }

    /// Whether the tool may be called twice, as far as its server tells.
    pub(crate) fn is_safe(&self, tool: &str) -> bool {
        self.safe_tools.get(tool).copied().unwrap_or(false)
    }

    /// Whether the link in service has said what its tools are.
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

    #[test]
    fn a_list_is_compared_with_what_the_host_saw() {
        let mut catalog = Catalog::default();
        assert!(
            catalog
                .we_saw(List::Tools, true, page(&one("a", "")))
                .is_none(),
            "nothing seen yet"
        );
        catalog.host_saw(
            List::Tools,
            true,
            page(r#"{"tools":[{"name":"a"},{"name":"b"}]}"#),
        );
        assert_eq!(catalog.seen().collect::<Vec<_>>(), [List::Tools]);
        let same = page(r#"{"tools":[{"name":"b"},{"name":"a"}]}"#);
        assert!(
            catalog.we_saw(List::Tools, true, same).is_none(),
            "order does not matter"
        );
        let other = page(r#"{"tools":[{"name":"a","title":"A"},{"name":"c"}]}"#);
        let Some(Event::ListChanged {
            list,
            added,
            removed,
            changed,
        }) = catalog.we_saw(List::Tools, true, other)
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
    fn pages_are_put_together_and_a_broken_off_list_does_not_count() {
        let mut catalog = Catalog::default();
        let first = || page(r#"{"tools":[{"name":"a"}],"nextCursor":"2"}"#);
        catalog.host_saw(List::Tools, true, first());
        assert_eq!(catalog.seen().count(), 0);
        catalog.link_lost();
        catalog.host_saw(List::Tools, false, page(&one("b", "")));
        assert_eq!(
            catalog.seen().count(),
            0,
            "the second page came from another server"
        );
        catalog.host_saw(List::Tools, true, first());
        catalog.host_saw(List::Tools, false, page(&one("b", "")));
        assert_eq!(catalog.seen().count(), 1);
        assert!(catalog.we_saw(List::Tools, true, first()).is_none());
        assert!(
            catalog
                .we_saw(List::Tools, false, page(&one("b", "")))
                .is_none()
        );
        assert!(
            catalog
                .we_saw(List::Tools, true, page(&one("a", "")))
                .is_some(),
            "b is gone"
        );
    }

    #[test]
    fn a_stray_last_page_is_not_a_list() {
        let mut catalog = Catalog::default();
        catalog.host_saw(List::Tools, true, page(&one("a", "")));
        catalog.host_saw(List::Tools, false, page(&one("b", "")));
        assert!(
            catalog
                .we_saw(List::Tools, true, page(&one("a", "")))
                .is_none()
        );
    }

    #[test]
    fn only_tools_that_say_so_may_be_called_twice() {
        let mut catalog = Catalog::default();
        let tools = r#"{"tools":[
            {"name":"r","annotations":{"readOnlyHint":true}},
            {"name":"i","annotations":{"idempotentHint":true}},
            {"name":"n","annotations":{"readOnlyHint":false,"idempotentHint":"true"}},
            {"name":"x"}, 7, {"nameless":1}]}"#;
        catalog.host_saw(List::Tools, true, page(tools));
        let safe = |c: &Catalog| ["r", "i", "n", "x", "?"].map(|tool| c.is_safe(tool));
        assert_eq!(safe(&catalog), [true, true, false, false, false]);
        catalog.we_saw(List::Tools, true, page(&one("r", "")));
        assert_eq!(safe(&catalog), [false; 5], "the newest list counts");
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
