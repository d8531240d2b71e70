//! What a server offers, and to whom.
//!
//! The tables are copied when they change, which is rare, and shared when they are read, which is
//! for every request. A handler at work keeps what it was found in.

use std::any::{Any, TypeId};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, Weak};

use bytes::Bytes;
use outlive_core::protocol::List;
use outlive_core::server::{Input, ServerPolicy};

use super::call::Call;
use super::connection::Connection;
use super::layer::{Callable, Layers};
use super::pending_changes::Change;
use super::resource::ResourceUri;
use super::task::Work;
use super::uri::Template;

/// Something that handles requests; `X` is what was found out about one on the way.
pub(crate) trait Handler<X = ()>: Send + Sync {
    /// The handler at work for this call. Nothing of the user's has run when this returns.
    fn work(&self, call: &Arc<Call>, found: X) -> Work;
}

/// Something that is offered.
pub(crate) struct Item<H> {
    /// What it is asked for by: a name or a URI.
    pub(crate) key: String,
    /// How it is listed, as JSON.
    pub(crate) definition: Bytes,
    pub(crate) handler: H,
}

/// Things of one kind, in the order they were first put there.
pub(crate) struct Items<H> {
    items: Vec<Arc<Item<H>>>,
    places: HashMap<String, usize>,
}

impl<H> Default for Items<H> {
    fn default() -> Items<H> {
        Items {
            items: Vec::new(),
            places: HashMap::new(),
        }
    }
}

impl<H> Clone for Items<H> {
    fn clone(&self) -> Items<H> {
        Items {
            items: self.items.clone(),
            places: self.places.clone(),
        }
    }
}

impl<H> Items<H> {
    pub(crate) fn get(&self, key: &str) -> Option<&Arc<Item<H>>> {
        self.places
            .get(key)
            .and_then(|place| self.items.get(*place))
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Arc<Item<H>>> {
        self.items.iter()
    }

    pub(crate) fn len(&self) -> usize {
        self.items.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    /// Puts an item there; one with the same key is replaced.
    pub(crate) fn put(&mut self, item: Item<H>) {
        match self.places.get(&item.key) {
            Some(place) => self.items[*place] = Arc::new(item),
            None => {
                self.places.insert(item.key.clone(), self.items.len());
                self.items.push(Arc::new(item));
            }
        }
    }

    /// Takes an item away; false if there was none.
    pub(crate) fn remove(&mut self, key: &str) -> bool {
        let Some(gone) = self.places.remove(key) else {
            return false;
        };
        self.items.remove(gone);
        for place in self.places.values_mut().filter(|place| **place > gone) {
            *place -= 1;
        }
        true
    }
}

/// A handler of requests without anything else to know.
pub(crate) type Plain = Arc<dyn Handler>;

/// A handler of reads.
pub(crate) type Reader = Arc<dyn Handler<ResourceUri>>;

/// All that is offered.
#[derive(Clone, Default)]
pub(crate) struct Tables {
    pub(crate) tools: Items<Arc<dyn Callable>>,
    pub(crate) resources: Items<Reader>,
    pub(crate) templates: Items<(Template, Reader)>,
    pub(crate) prompts: Items<Plain>,
    pub(crate) completion: Option<Plain>,
    /// Methods of the user's own.
    pub(crate) methods: HashMap<String, Plain>,
}

/// What the handlers of a server share: one value of each type.
#[derive(Clone, Default)]
pub(crate) struct States(HashMap<TypeId, Arc<dyn Any + Send + Sync>>);

impl States {
    /// False if there was one of this type before.
    pub(crate) fn put<T: Send + Sync + 'static>(&mut self, state: T) -> bool {
        self.0.insert(TypeId::of::<T>(), Arc::new(state)).is_none()
    }

    pub(crate) fn get<T: Send + Sync + 'static>(&self) -> Option<&T> {
        self.0.get(&TypeId::of::<T>())?.downcast_ref()
    }
}

/// A server: what it offers, how it behaves, who is connected.
pub(crate) struct Registry {
    tables: RwLock<Arc<Tables>>,
    /// Capabilities and methods are filled in for each connection.
    pub(crate) policy: ServerPolicy,
    /// Offered even while there is nothing in it.
    pub(crate) declared: Declared,
    /// Items on a page of a list; 0: all.
    pub(crate) page: usize,
    /// What clients say next may be looked for.
    pub(crate) spins: bool,
    /// What handlers share.
    pub(crate) states: States,
    /// What is done around calls of tools.
    pub(crate) layers: Layers,
    connected: Mutex<Connected>,
}

/// Who is connected.
#[derive(Default)]
struct Connected {
    each: Vec<Weak<Connection>>,
    /// The server was shut down: whoever connects from now on is turned away.
    shut_down: bool,
}

/// Kinds of things a server may come to offer.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Declared {
    pub(crate) tools: bool,
    pub(crate) resources: bool,
    pub(crate) prompts: bool,
}

impl Connected {
    fn alive(&mut self) -> Vec<Arc<Connection>> {
        self.each.retain(|connection| connection.strong_count() > 0);
        self.each.iter().filter_map(Weak::upgrade).collect()
    }
}

impl Registry {
    pub(crate) fn new(
        tables: Tables,
        policy: ServerPolicy,
        declared: Declared,
        page: usize,
    ) -> Registry {
        Registry {
            tables: RwLock::new(Arc::new(tables)),
            policy,
            declared,
            page,
            spins: true,
            states: States::default(),
            layers: Layers::default(),
            connected: Mutex::default(),
        }
    }

    /// What is offered now.
    pub(crate) fn tables(&self) -> Arc<Tables> {
        let tables = self.tables.read().unwrap_or_else(PoisonError::into_inner);
        tables.clone()
    }

    /// Changes what is offered and tells all clients, unless `change` says that nothing changed.
    pub(crate) fn change(&self, list: List, change: impl FnOnce(&mut Tables) -> bool) -> bool {
        let mut tables = self.tables.write().unwrap_or_else(PoisonError::into_inner);
        let mut next = Tables::clone(&tables);
        let changed = change(&mut next);
        if changed {
            *tables = Arc::new(next);
        }
        drop(tables);
        if changed {
            self.spread(&Change::List(list));
        }
        changed
    }

    /// Ends every connection, those that are there and those to come.
    pub(crate) fn shut_down(&self) {
        let connections = {
            let mut connected = self.lock();
            connected.shut_down = true;
            connected.alive()
        };
        for connection in connections {
            connection.feed(Input::Shutdown);
        }
    }

    /// Tells every client that wants to know.
    pub(crate) fn spread(&self, change: &Change) {
        for connection in self.connections() {
            connection.inform(change.clone());
        }
    }

    /// Everybody who is connected.
    pub(crate) fn connections(&self) -> Vec<Arc<Connection>> {
        self.lock().alive()
    }

    fn lock(&self) -> MutexGuard<'_, Connected> {
        self.connected
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes note of a connection. If the server was shut down before, it ends at once.
    pub(crate) fn join(&self, connection: &Arc<Connection>) {
        let late = {
            let mut connected = self.lock();
            connected.each.push(Arc::downgrade(connection));
            connected.shut_down
        };
        if late {
            connection.feed(Input::Shutdown);
        }
    }

    /// Takes note that a connection is over.
    pub(crate) fn leave(&self, connection: &Arc<Connection>) {
        let gone = |known: &Weak<Connection>| std::ptr::eq(known.as_ptr(), Arc::as_ptr(connection));
        self.lock().each.retain(|known| !gone(known));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn item(key: &str, handler: u8) -> Item<u8> {
        Item {
            key: key.to_owned(),
            definition: Bytes::new(),
            handler,
        }
    }

    fn keys(items: &Items<u8>) -> Vec<&str> {
        items.iter().map(|item| item.key.as_str()).collect()
    }

    #[test]
    fn a_shelf_keeps_its_order_through_changes() {
        let mut items = Items::default();
        for (n, key) in ["a", "b", "c", "d"].into_iter().enumerate() {
            items.put(item(key, n as u8));
        }
        items.put(item("b", 9));
        assert!(items.remove("a"));
        assert!(!items.remove("a"));
        items.put(item("e", 4));
        assert_eq!(keys(&items), ["b", "c", "d", "e"]);
        let found = |key| items.get(key).map(|item| item.handler);
        assert_eq!(
            ["a", "b", "c", "d", "e"].map(found),
            [None, Some(9), Some(2), Some(3), Some(4)]
        );
    }
}
