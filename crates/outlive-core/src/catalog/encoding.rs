//! The catalogue in a snapshot: what the host has seen, and what it is reading.

use std::collections::BTreeMap;

use super::{Catalog, MOST_ITEMS, Reading};
use crate::snapshot::ResumeError;
use crate::snapshot::codec::{Read, Reader, Writer};

type Items = BTreeMap<String, u64>;

impl Catalog {
    /// Which link said what, and what the session itself was reading, ends with the link. A tool that may not be called
    /// twice is as good as one that is not known.
    pub(crate) fn write(&self, out: &mut Writer) {
        for seen in &self.seen {
            out.maybe(seen.as_ref(), write_items);
        }
        for reading in &self.host_reading {
            out.maybe(reading.next.as_ref(), |out, next| {
                out.text(next);
                out.flag(reading.too_long);
                write_items(out, &reading.items);
            });
        }
        let mut safe: Vec<&String> = self
            .safe_tools
            .iter()
            .filter(|(_, safe)| **safe)
            .map(|(name, _)| name)
            .collect();
        safe.sort_unstable();
        out.all(safe.into_iter(), |out, name| out.text(name));
    }

    pub(crate) fn read(from: &mut Reader) -> Read<Catalog> {
        let mut catalog = Catalog::default();
        for seen in &mut catalog.seen {
            *seen = from.maybe("a list", read_items)?;
        }
        for reading in &mut catalog.host_reading {
            let begun = from.maybe("a list that is being read", |from| {
                Ok(Reading {
                    next: Some(from.text("a cursor")?),
                    too_long: from.flag("a list that is being read")?,
                    items: read_items(from)?,
                    // The rest of it comes from another server.
                    torn: true,
                })
            })?;
            *reading = begun.unwrap_or_default();
        }
        let safe = from.all("a tool", |from| from.text("a tool"))?;
        if safe.len() > MOST_ITEMS {
            return Err(ResumeError::TooLarge("tools"));
        }
        catalog.safe_tools = safe.into_iter().map(|name| (name, true)).collect();
        Ok(catalog)
    }
}

fn write_items(out: &mut Writer, items: &Items) {
    out.all(items.iter(), |out, (name, print)| {
        out.text(name);
        out.word(*print);
    });
}

fn read_items(from: &mut Reader) -> Read<Items> {
    let items = from.all("a list", |from| {
        Ok((from.text("a name in a list")?, from.word("a fingerprint")?))
    })?;
    match items.len() > MOST_ITEMS {
        true => Err(ResumeError::TooLarge("items in a list")),
        false => Ok(items.into_iter().collect()),
    }
}
