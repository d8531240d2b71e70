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
//! Where definitions are [pinned](pin), a roster has what was accepted and nothing else. It only knows the names of
//! what is withheld, so that whoever asks for that is told why it is not there.
//!
//! | file | what is there |
//! |---|---|
//! | `offer`, `encoding` | what one server offers; the same as bytes |
//! | `naming` | names of tools and prompts that are never alike |
//! | `view`, `glob`, `spelling` | what a client may see |
//! | `listed`, `page` | the lists of all servers, and pages of them |
//! | `resource`, `template` | whose a resource is |
//! | `capabilities`, `instructions` | what all servers declare and say |
//! | `tool_search` | two tools in place of all |
//! | `withheld` | names of what was not accepted |
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
mod spelling;
mod template;
#[cfg(feature = "search")]
mod tool_search;
mod view;
mod withheld;

use std::sync::Arc;

use bytes::Bytes;

pub use self::capabilities::Capabilities;
pub use self::difference::{Change, Difference};
pub use self::encoding::OfferError;
pub use self::naming::{Naming, Prefix};
pub use self::offer::{Item, MOST_BYTES, Offer, read_page};
pub use self::page::{BadCursor, Page};
pub use self::pin::{Pinned, accepting, first_use, pin};
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
    /// The same, kept to what was accepted; `None` if its definitions are not pinned.
    pub pinned: Option<Arc<Pinned>>,
}

/// A server of a roster.
#[derive(Clone, Debug)]
struct Server {
    target: TargetId,
    name: Box<str>,
    eager: bool,
    /// What is shown of it.
    offer: Option<Arc<Offer>>,
    /// What it offers, whether that is shown or not.
    live: Option<Arc<Offer>>,
    is_pinned: bool,
    /// What is known of it was told by the server that had its name before.
    doubtful: bool,
}

impl Server {
    fn new(entry: &Entry) -> Server {
        let shown = |live: &Arc<Offer>| match &entry.pinned {
            Some(pinned) => Arc::new(pinned.offer.clone()),
            None => live.clone(),
        };
        Server {
            target: entry.target,
            name: entry.name.clone(),
            eager: entry.eager,
            offer: entry.offer.as_ref().map(shown),
            live: entry.offer.clone(),
            is_pinned: entry.pinned.is_some(),
            doubtful: false,
        }
    }

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
    /// Something of a server that is there is left out.
    is_partial: bool,
    lists: [Listed; 4],
    withheld: Vec<withheld::Withheld>,
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
            .map(|(_, entry)| Server::new(entry))
            .collect();
        let names: Vec<&str> = servers.iter().map(|entry| &*entry.name).collect();
        let lists = List::ALL.map(|list| match list {
            List::Tools | List::Prompts => {
                let items = |at: usize| seen[at].items(list);
                let listed = named(list, &entries, items, &names, &prefixes, view);
                Listed::new(list, &seen, listed.into_iter())
            }
            List::Resources | List::Templates => {
                Listed::new(list, &seen, addressed(list, &seen, view).into_iter())
            }
        });
        let withheld = withheld::named(&entries, &seen, &names, &prefixes, view);
        let all = Filter::default();
        let filters = [&view.tools, &view.prompts, &view.resources];
        let of_servers = entries.iter().map(|(_, entry)| &entry.filter);
        let is_partial = filters.into_iter().chain(of_servers).any(|it| *it != all);
        Roster {
            withheld,
            is_partial,
            capabilities: Capabilities::of(seen.iter().map(|server| server.offer.as_deref())),
            instructions: instructions::merged(&seen),
            view: view.clone(),
            servers: seen,
            lists,
            #[cfg(feature = "search")]
            search: None,
        }
    }

    /// Whether something of a server that is there is left out.
    pub fn is_partial(&self) -> bool {
        self.is_partial
    }

    /// The same, where what is known of some servers was told by those that had their names before: it is shown until
    /// they tell themselves, and they are asked soon.
    #[must_use]
    pub fn doubting(mut self, doubtful: impl Fn(TargetId) -> bool) -> Roster {
        for server in &mut self.servers {
            server.doubtful = doubtful(server.target);
        }
        self
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

    /// The servers of which something is known, but no tool although they have some to offer: they could not be read,
    /// or the server was still starting. And those of which what is known is [doubtful](Roster::doubting).
    pub fn incomplete(&self) -> impl Iterator<Item = TargetId> + '_ {
        let incomplete = self.servers.iter().filter(|server| {
            let live = server.live.as_deref().filter(|it| it.offers(List::Tools));
            let lacks_tools =
                live.is_some_and(|it| it.list(List::Tools).is_none_or(|items| items.is_empty()));
            lacks_tools || server.doubtful
        });
        incomplete.map(|server| server.target)
    }

    /// The servers that are started when a client comes.
    pub fn eager(&self) -> impl Iterator<Item = TargetId> + '_ {
        let eager = self.servers.iter().filter(|server| server.eager);
        eager.map(|server| server.target)
    }

    /// The servers of an earlier roster that have a successor here, and that: another target under the same name.
    pub fn successors(&self, before: &Roster) -> Vec<(TargetId, TargetId)> {
        let gone = before.servers.iter().filter(|it| !self.contains(it.target));
        let successor = |server: &Server| {
            let found = self.servers.iter().find(|it| it.name == server.name)?;
            Some((server.target, found.target))
        };
        gone.filter_map(successor).collect()
    }

    /// Whether a server is in the view.
    pub fn contains(&self, target: TargetId) -> bool {
        self.place(target).is_some()
    }

    /// The name of a server of the view.
    pub fn name(&self, target: TargetId) -> Option<&str> {
        Some(&self.servers[self.place(target)?].name)
    }

    /// What is known of a server of the view, whether it is shown or not.
    pub fn offer(&self, target: TargetId) -> Option<&Arc<Offer>> {
        self.servers[self.place(target)?].live.as_ref()
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
fn named<'s>(
    list: List,
    entries: &[(usize, &Entry)],
    items: impl Fn(usize) -> &'s [Item],
    names: &[&str],
    prefixes: &Prefixes,
    view: &View,
) -> Listing {
    let mut places = Vec::new();
    let mut originals = Vec::new();
    for (at, (configured, entry)) in entries.iter().enumerate() {
        for (item_at, item) in items(at).iter().enumerate() {
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
