//! One list of a roster: the entries of all its servers in their order, found by either of their keys.

use bytes::Bytes;

use super::Server;
use super::offer::{Item, digest};
use crate::fingerprint::fingerprint;
use crate::protocol::List;

/// An entry: whose it is, and under which key clients see it.
#[derive(Clone, Debug)]
struct Place {
    server: u32,
    item: u32,
    /// `None`: the key it has at its server.
    exposed: Option<Box<str>>,
}

/// A list.
#[derive(Clone, Debug)]
pub(super) struct Listed {
    list: List,
    places: Vec<Place>,
    items: Vec<Bytes>,
    /// Places by the key that clients see.
    by_exposed: Vec<u32>,
    /// Places by server and the key it has there.
    by_original: Vec<u32>,
    pub(super) digest: u64,
}

impl Listed {
    /// The entries to be listed, in their order: the place of the server, the place of the entry in its list, and the
    /// key that clients see. No two of those keys are alike.
    pub(super) fn new(
        list: List,
        servers: &[Server],
        entries: impl Iterator<Item = (usize, usize, Box<str>)>,
    ) -> Listed {
        let mut listed = Listed {
            list,
            places: Vec::new(),
            items: Vec::new(),
            by_exposed: Vec::new(),
            by_original: Vec::new(),
            digest: 0,
        };
        for (server, at, exposed) in entries {
            let Some(item) = servers[server].item(list, at) else {
                continue;
            };
            listed.items.push(item.json_with_key(&exposed));
            listed.places.push(Place {
                server: server as u32,
                item: at as u32,
                exposed: (*exposed != *item.key()).then_some(exposed),
            });
        }
        let all = 0..listed.places.len() as u32;
        let (mut by_exposed, mut by_original): (Vec<u32>, Vec<u32>) =
            (all.clone().collect(), all.collect());
        by_exposed.sort_by_key(|at| listed.exposed(servers, *at));
        by_original.sort_by_key(|at| listed.original(servers, *at));
        listed.by_exposed = by_exposed;
        listed.by_original = by_original;
        listed.digest = digest(listed.items.iter().map(|json| fingerprint(json)));
        listed
    }

    pub(super) fn items(&self) -> &[Bytes] {
        &self.items
    }

    /// The key of the entry at this place, as clients see it.
    pub(super) fn key<'a>(&'a self, servers: &'a [Server], at: usize) -> &'a str {
        self.exposed(servers, at as u32)
    }

    /// The entry that clients see under this key: the place of its server, and the entry.
    pub(super) fn find<'a>(
        &'a self,
        servers: &'a [Server],
        exposed: &str,
    ) -> Option<(usize, &'a Item)> {
        let at = self
            .by_exposed
            .binary_search_by_key(&exposed, |at| self.exposed(servers, *at));
        let place = &self.places[self.by_exposed[at.ok()?] as usize];
        let item = servers[place.server as usize].item(self.list, place.item as usize)?;
        Some((place.server as usize, item))
    }

    /// The key under which clients see what this server has under that key.
    pub(super) fn exposed_of<'a>(
        &'a self,
        servers: &'a [Server],
        server: usize,
        original: &str,
    ) -> Option<&'a str> {
        let wanted = (server as u32, original);
        let at = self
            .by_original
            .binary_search_by_key(&wanted, |at| self.original(servers, *at));
        Some(self.exposed(servers, self.by_original[at.ok()?]))
    }

    /// Every entry: the place of its server, and the entry.
    pub(super) fn all<'a>(
        &'a self,
        servers: &'a [Server],
    ) -> impl Iterator<Item = (usize, &'a Item)> {
        self.places.iter().filter_map(|place| {
            let server = place.server as usize;
            Some((
                server,
                servers[server].item(self.list, place.item as usize)?,
            ))
        })
    }

    fn exposed<'a>(&'a self, servers: &'a [Server], at: u32) -> &'a str {
        match &self.places[at as usize].exposed {
            Some(exposed) => exposed,
            None => self.original(servers, at).1,
        }
    }

    fn original<'a>(&self, servers: &'a [Server], at: u32) -> (u32, &'a str) {
        let place = &self.places[at as usize];
        let item = servers[place.server as usize].item(self.list, place.item as usize);
        (place.server, item.map_or("", Item::key))
    }
}
