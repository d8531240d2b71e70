//! Pages of a list, by cursors that outlive the servers it is made of.
//!
//! A cursor is how many entries were read, and a hash of the key of the last one. If the list has changed meanwhile,
//! reading goes on behind that entry wherever it stands now; what came in before it is told by `list_changed`. If it is
//! gone, nobody can say what the client has seen, and it is asked to begin again.

use std::fmt;

use bytes::Bytes;

use super::Roster;
use crate::fingerprint::fingerprint;
use crate::protocol::List;

/// A page of a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Page<'a> {
    /// The entries.
    pub items: &'a [Bytes],
    /// The cursor of the next page; `None` if this is the last one.
    pub next: Option<String>,
}

/// A cursor that leads nowhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BadCursor;

impl fmt::Display for BadCursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the list has changed; begin again without a cursor")
    }
}

impl std::error::Error for BadCursor {}

impl Roster {
    /// The page that begins at the cursor, or the first one: at most so many entries and bytes, and at least one entry
    /// if there is one.
    pub fn page(
        &self,
        list: List,
        cursor: Option<&str>,
        most_items: usize,
        most_bytes: usize,
    ) -> Result<Page<'_>, BadCursor> {
        let items = self.items(list);
        let start = match cursor {
            Some(cursor) => self.behind(list, cursor).ok_or(BadCursor)?,
            None => 0,
        };
        let mut bytes = 0_usize;
        let fits = |json: &&Bytes| {
            bytes = bytes.saturating_add(json.len() + 1);
            bytes <= most_bytes
        };
        let rest = &items[start..];
        let count = rest.iter().take(most_items).take_while(fits).count();
        let end = start + count.max(1).min(rest.len());
        let next = (end < items.len()).then(|| format!("{end}.{:016x}", self.print(list, end - 1)));
        Ok(Page {
            items: &items[start..end],
            next,
        })
    }

    /// The place behind the entry that the cursor names.
    fn behind(&self, list: List, cursor: &str) -> Option<usize> {
        let (offset, print) = cursor.split_once('.')?;
        let last = offset.parse::<usize>().ok()?.checked_sub(1)?;
        let print = u64::from_str_radix(print, 16).ok()?;
        let is_it = |at: &usize| self.print(list, *at) == print;
        let count = self.items(list).len();
        if last < count && is_it(&last) {
            return Some(last + 1);
        }
        (0..count).find(is_it).map(|at| at + 1)
    }

    fn print(&self, list: List, at: usize) -> u64 {
        #[cfg(feature = "search")]
        if self.is_searchable() && list == List::Tools {
            return at as u64;
        }
        let key = self.lists[list as usize].key(&self.servers, at);
        fingerprint(key.as_bytes())
    }
}
