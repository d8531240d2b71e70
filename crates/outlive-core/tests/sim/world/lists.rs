//! The tools of each server: the same ones, others, none, in pages, or contradicting each other.

use outlive_core::{Generation, Message};

use super::{Todo, World};
use crate::schedule::Dice;

const SAFE: &str = r#"{"name":"safe","annotations":{"idempotentHint":true}}"#;
const PLAIN: &str = r#"{"name":"safe"}"#;
const UNSAFE: &str = r#"{"name":"unsafe"}"#;

/// A list, page by page.
type Pages = &'static [&'static [&'static str]];

/// The lists there are. The first one and the last alone say of the tool `safe` that it may be called twice.
const LISTS: [Pages; 9] = [
    &[&[SAFE, UNSAFE]],
    &[&[PLAIN, UNSAFE]],
    &[&[]],
    &[&[], &[UNSAFE]],
    &[&[SAFE, UNSAFE, PLAIN]],
    &[&[PLAIN, SAFE, UNSAFE]],
    &[&[SAFE], &[PLAIN, UNSAFE]],
    &[&[PLAIN], &[UNSAFE], &[SAFE]],
    &[&[UNSAFE], &[SAFE]],
];

fn which(lists: Option<u64>, generation: Generation) -> usize {
    let number = generation.number();
    match lists {
        None => (number / 2 % 2) as usize,
        Some(seed) => match Dice::new(seed ^ number).below(16) {
            n @ 0..=8 => n as usize,
            9..=13 => 0,
            _ => 8,
        },
    }
}

/// What makes the first two servers have these lists.
pub(super) fn seed_of(lists: [usize; 2]) -> u64 {
    let fits = |seed: &u64| {
        let (first, second) = (Generation::FIRST, Generation::FIRST.next());
        [first, second].map(|generation| which(Some(*seed), generation)) == lists
    };
    (0..).find(fits).expect("a seed")
}

/// Whether the server of this generation says of the tool `safe` that it may be called twice.
pub(super) fn declares(lists: Option<u64>, generation: Generation) -> bool {
    matches!(which(lists, generation), 0 | 8)
}

/// All its tools, in an order that does not matter.
pub(super) fn all(lists: Option<u64>, generation: Generation) -> Vec<&'static str> {
    let mut all = LISTS[which(lists, generation)].concat();
    all.sort_unstable();
    all
}

/// The page a request for a list asks for.
pub(super) fn page_of(request: &Message) -> usize {
    let params = String::from_utf8_lossy(request.params().unwrap_or_default()).into_owned();
    let cursor = params.split_once(r#""cursor":""#).map(|(_, rest)| rest);
    let page = |rest: &str| rest.split('"').next()?.parse().ok();
    cursor.and_then(page).unwrap_or_default()
}

impl World {
    /// A page of the tools of a server, as it writes it; none if it has no such page.
    pub(super) fn tools_page(&self, generation: Generation, page: usize) -> Option<String> {
        let pages = LISTS[which(self.lists, generation)];
        let tools = pages.get(page)?.join(",");
        Some(match page + 1 < pages.len() {
            true => format!(r#"{{"tools":[{tools}],"nextCursor":"{}"}}"#, page + 1),
            false => format!(r#"{{"tools":[{tools}]}}"#),
        })
    }

    /// The server in service has answered a request for a page.
    pub(super) fn note_listing(&mut self, todo: &Todo, ok: bool) {
        let lists = self.lists;
        let Some(server) = self.speaking().filter(|_| ok) else {
            return;
        };
        let last = LISTS[which(lists, server.generation)].len() - 1;
        match todo.asked {
            None => server.listed |= todo.page == last,
            Some(_) if todo.page == 0 => server.pages = 1,
            Some(_) if todo.page == server.pages => server.pages += 1,
            Some(_) => server.pages = 0,
        }
        server.told |= server.listed || server.pages == last + 1;
    }

    /// The host is given a page. One that does not go on from the last it was given is of no use to it.
    pub(super) fn host_reads_page(&mut self, cursor: Option<usize>, text: &str) {
        match cursor {
            None => self.reading.clear(),
            Some(_) if cursor != self.cursor => return,
            Some(_) => {}
        }
        let tools = text.split_once(r#""tools":["#).map_or("", |(_, rest)| rest);
        for tool in [SAFE, PLAIN, UNSAFE] {
            let times = tools.matches(tool).count();
            self.reading.extend(std::iter::repeat_n(tool, times));
        }
        let next = text.split_once(r#""nextCursor":""#);
        self.cursor = next.and_then(|(_, rest)| rest.split('"').next()?.parse().ok());
        if self.cursor.is_none() {
            let mut seen = std::mem::take(&mut self.reading);
            seen.sort_unstable();
            self.seen_tools = Some(seen);
            self.told_changed = false;
        }
    }
}
