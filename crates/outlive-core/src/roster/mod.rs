//! What many servers offer, as one.
//!
//! # Theory
//!
//! A client of a router sees one server. What that one has to show is a [`Roster`]: the tools, prompts, resources and
//! templates of all servers behind it, each byte for byte as its server sent it but for the name it is called by. A
//! roster is made from what was learnt of each server (an [`Offer`]), the way names are made ([`Naming`]) and what the
//! client may see ([`View`]); it is never changed, and made anew when one of them is. So it can be asked anything while
//! servers come and go, and two made from the same parts are alike: nothing in it depends on who came first.
//!
//! A server of which nothing is known yet has its place, and its prefix, all the same.
//!
//! | file | what is there |
//! |---|---|
//! | `offer`, `encoding` | what one server offers; the same as bytes |
//! | `naming` | names of tools and prompts that are never alike |
//! | `view`, `glob` | what a client may see |
//! | `listed`, `page` | the lists of all servers, and pages of them |
//! | `resource`, `template` | whose a resource is |
//! | `capabilities`, `instructions` | what all servers declare and say |
//! | `tool_search` | two tools in place of all |
//! | `pin`, `difference` | definitions that were accepted, and what differs from them |

mod capabilities;
mod difference;
mod encoding;
mod glob;
mod instructions;
mod listed;
mod naming;
mod offer;
mod page;
mod pin;
mod resource;
mod template;
#[cfg(feature = "search")]
mod tool_search;
mod view;

use std::sync::Arc;

use bytes::Bytes;

pub use self::capabilities::Capabilities;
pub use self::difference::{Change, Difference};
pub use self::encoding::OfferError;
pub use self::naming::{Naming, Prefix};
pub use self::offer::{Item, MOST_BYTES, Offer, read_page};
pub use self::page::{BadCursor, Page};
pub use self::pin::{Pinned, pin};
pub use self::resource::ResourceError;
#[cfg(feature = "search")]
pub use self::tool_search::{AUTO, CALL, Expose, FIND};
pub use self::view::{Filter, ToolFilter, View};

use self::listed::Listed;
use self::naming::Prefixes;
use self::resource::{SCHEME, explicit};
use crate::gateway::TargetId;
use crate::protocol::List;

/// A server that a roster is made from.
#[derive(Clone, Debug)]
pub struct Entry {
    /// Where its sessions come from.
    pub target: TargetId,
    /// Its name, which no other server has.
    pub name: Box<str>,
    /// What its tools and prompts are prefixed with, if not its name.
    pub prefix: Option<Box<str>>,
    /// Which of its tools there are.
    pub filter: ToolFilter,
    /// It is started when a client comes, and not with the first message that needs it.
    pub eager: bool,
    /// What it offers; `None` if nothing is known of it yet.
    pub offer: Option<Arc<Offer>>,
}

/// A server of a roster.
#[derive(Clone, Debug)]
struct Server {
    target: TargetId,
    name: Box<str>,
    eager: bool,
    offer: Option<Arc<Offer>>,
}

impl Server {
    fn items(&self, list: List) -> &[Item] {
        let offer = self.offer.as_deref();
        offer
            .and_then(|offer| offer.list(list))
            .map_or(&[], |items| items)
    }

    fn item(&self, list: List, at: usize) -> Option<&Item> {
        self.items(list).get(at)
    }

    /// Whether it offers this list, as far as is known.
    fn may_offer(&self, list: List) -> bool {
        self.offer.as_deref().is_none_or(|offer| offer.offers(list))
    }
}

/// An entry that was looked up.
#[derive(Clone, Copy, Debug)]
pub struct Found<'a> {
    /// The server that has it.
    pub target: TargetId,
    /// The entry as the server sent it, with the name the server knows.
    pub item: &'a Item,
}

/// What many servers offer, as one. See the [module](self).
#[derive(Clone, Debug)]
pub struct Roster {
    servers: Vec<Server>,
    view: View,
    lists: [Listed; 4],
    capabilities: Capabilities,
    instructions: Option<Box<str>>,
    #[cfg(feature = "search")]
    search: Option<tool_search::ToolSearch>,
}

impl Roster {
    /// The roster of these servers, in the order of the file, for a client that sees this much.
    pub fn new(servers: &[Entry], naming: &Naming, view: &View) -> Roster {
        // All servers have their prefixes whether they are in the view or not: a prefix is the same in every view.
        let prefixes = Prefixes::new(
            naming,
            servers
                .iter()
                .map(|entry| (&*entry.name, entry.prefix.as_deref())),
        );
        let entries: Vec<(usize, &Entry)> = servers
            .iter()
            .enumerate()
            .filter(|(_, entry)| view.servers.admits(&entry.name))
            .collect();
        let seen: Vec<Server> = entries
            .iter()
            .map(|(_, entry)| Server {
                target: entry.target,
                name: entry.name.clone(),
                eager: entry.eager,
                offer: entry.offer.clone(),
            })
            .collect();
        let names: Vec<&str> = servers.iter().map(|entry| &*entry.name).collect();
        let lists = List::ALL.map(|list| match list {
            List::Tools | List::Prompts => {
                let listed = named(list, &entries, &seen, &names, &prefixes, view);
                Listed::new(list, &seen, listed.into_iter())
            }
            List::Resources | List::Templates => {
                Listed::new(list, &seen, addressed(list, &seen, view).into_iter())
            }
        });
        Roster {
            capabilities: Capabilities::of(seen.iter().map(|server| server.offer.as_deref())),
            instructions: instructions::merged(&seen),
            view: view.clone(),
            servers: seen,
            lists,
            #[cfg(feature = "search")]
            search: None,
        }
    }

    /// The tool that clients call by this name.
    pub fn tool(&self, exposed: &str) -> Option<Found<'_>> {
        self.find(List::Tools, exposed)
    }

    /// The prompt that clients call by this name.
    pub fn prompt(&self, exposed: &str) -> Option<Found<'_>> {
        self.find(List::Prompts, exposed)
    }

    /// The name by which clients call this tool of this server.
    pub fn exposed_tool(&self, target: TargetId, original: &str) -> Option<&str> {
        self.exposed(List::Tools, target, original)
    }

    /// The name by which clients call this prompt of this server.
    pub fn exposed_prompt(&self, target: TargetId, original: &str) -> Option<&str> {
        self.exposed(List::Prompts, target, original)
    }

    /// The key by which clients know an entry that is listed.
    pub fn exposed(&self, list: List, target: TargetId, original: &str) -> Option<&str> {
        let server = self.place(target)?;
        self.lists[list as usize].exposed_of(&self.servers, server, original)
    }

    /// The entry that clients know by this key, if it is listed.
    pub fn find(&self, list: List, exposed: &str) -> Option<Found<'_>> {
        let found = self.lists[list as usize].find(&self.servers, exposed)?;
        Some(self.found(found))
    }

    /// The entries of a list, as clients see them: those of the first server first, each server's in its own order.
    pub fn items(&self, list: List) -> &[Bytes] {
        #[cfg(feature = "search")]
        if let Some(search) = self.search.as_ref().filter(|_| list == List::Tools) {
            return &search.items;
        }
        self.lists[list as usize].items()
    }

    /// A number that is another one whenever what is listed is. It is the same in every build.
    pub fn digest(&self, list: List) -> u64 {
        #[cfg(feature = "search")]
        if let Some(search) = self.search.as_ref().filter(|_| list == List::Tools) {
            return search.digest;
        }
        self.lists[list as usize].digest
    }

    /// The servers in their order: their names, and whether anything is known of them.
    pub fn servers(&self) -> impl Iterator<Item = (TargetId, &str, bool)> {
        self.servers
            .iter()
            .map(|server| (server.target, &*server.name, server.offer.is_some()))
    }

    /// The servers of which nothing is known yet.
    pub fn unknown(&self) -> impl Iterator<Item = (TargetId, &str)> {
        self.servers()
            .filter(|(_, _, known)| !known)
            .map(|(target, name, _)| (target, name))
    }

    /// The servers of which something is known, but no tool although they have some to offer: they could not be read, or
    /// the server was still starting.
    pub fn incomplete(&self) -> impl Iterator<Item = TargetId> + '_ {
        let incomplete = self.servers.iter().filter(|server| {
            let offer = server.offer.as_deref();
            offer.is_some_and(|it| it.offers(List::Tools)) && server.items(List::Tools).is_empty()
        });
        incomplete.map(|server| server.target)
    }

    /// The servers that are started when a client comes.
    pub fn eager(&self) -> impl Iterator<Item = TargetId> + '_ {
        let eager = self.servers.iter().filter(|server| server.eager);
        eager.map(|server| server.target)
    }

    /// Whether a server is in the view.
    pub fn contains(&self, target: TargetId) -> bool {
        self.place(target).is_some()
    }

    /// The name of a server of the view.
    pub fn name(&self, target: TargetId) -> Option<&str> {
        Some(&self.servers[self.place(target)?].name)
    }

    /// What is known of a server of the view.
    pub fn offer(&self, target: TargetId) -> Option<&Arc<Offer>> {
        self.servers[self.place(target)?].offer.as_ref()
    }

    /// What the servers are able to do, all together.
    pub fn capabilities(&self) -> &Capabilities {
        &self.capabilities
    }

    /// What the servers say about how they are used, in at most 2,048 bytes.
    pub fn instructions(&self) -> Option<&str> {
        self.instructions.as_deref()
    }

    fn place(&self, target: TargetId) -> Option<usize> {
        self.servers
            .iter()
            .position(|server| server.target == target)
    }

    fn found<'a>(&'a self, (server, item): (usize, &'a Item)) -> Found<'a> {
        Found {
            target: self.servers[server].target,
            item,
        }
    }
}

/// What is listed: the place of the server, that of the entry in its list, and the key that clients see.
type Listing = Vec<(usize, usize, Box<str>)>;

/// Tools or prompts.
fn named(
    list: List,
    entries: &[(usize, &Entry)],
    seen: &[Server],
    names: &[&str],
    prefixes: &Prefixes,
    view: &View,
) -> Listing {
    let mut places = Vec::new();
    let mut originals = Vec::new();
    for (at, (configured, entry)) in entries.iter().enumerate() {
        for (item_at, item) in seen[at].items(list).iter().enumerate() {
            if list == List::Tools && !entry.filter.admits(item.key()) {
                continue;
            }
            places.push((at, item_at));
            originals.push((*configured, item.key()));
        }
    }
    let filter = match list {
        List::Tools => &view.tools,
        _ => &view.prompts,
    };
    // Names first, and then what the view leaves out: a name that it shows does not depend on what it hides.
    let exposed = prefixes.names(names, &originals);
    places
        .into_iter()
        .zip(originals)
        .zip(exposed)
        .filter(|((_, (_, original)), exposed)| filter.admits_any(&[original, exposed]))
        .map(|(((server, item), _), exposed)| (server, item, exposed))
        .collect()
}

/// Resources or templates: of two that are alike the first keeps its address.
fn addressed(list: List, seen: &[Server], view: &View) -> Listing {
    let mut taken = std::collections::HashSet::new();
    let mut listing = Vec::new();
    for (at, server) in seen.iter().enumerate() {
        for (item_at, item) in server.items(list).iter().enumerate() {
            let uri = item.key();
            let long = explicit(&server.name, uri);
            if !view.resources.admits_any(&[uri, &long]) {
                continue;
            }
            let plain = !uri.starts_with(SCHEME) && taken.insert(uri);
            let exposed = if plain { uri.into() } else { long.into() };
            listing.push((at, item_at, exposed));
        }
    }
    listing
}
