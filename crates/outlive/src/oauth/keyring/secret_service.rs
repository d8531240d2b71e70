//! Secret Service (freedesktop.org): GNOME Keyring, KWallet, KeePassXC.
//!
//! Keys go over the user's own bus in the clear (a session of the kind `plain`): whoever can listen there can ask the
//! keyring itself.
//!
//! An entry that is not found may be there all the same: GNOME Keyring finds what is locked, KeePassXC shows nothing of
//! a database that is locked. So a keyring that finds nothing is unlocked and asked again before an entry is missing.

use std::time::{Duration, Instant};

use super::bus::{Bus, Reply, Target};
use super::marshal::{Body, Reader};
use super::{Entry, Extent, Trouble};

const SERVICE: &str = "org.freedesktop.secrets";
const ROOT: &str = "/org/freedesktop/secrets";
const INTERFACE: &str = "org.freedesktop.Secret.Service";
const COLLECTION: &str = "org.freedesktop.Secret.Collection";
const ITEM: &str = "org.freedesktop.Secret.Item";
const PROMPT: &str = "org.freedesktop.Secret.Prompt";
const PROPERTIES: &str = "org.freedesktop.DBus.Properties";
/// No object: there is nothing, or nothing to ask.
const NOTHING: &str = "/";

/// So many collections are looked at.
const MOST_COLLECTIONS: usize = 32;
/// A keyring answers at once.
const ANSWER: Duration = Duration::from_secs(5);
/// A person has this long to unlock it.
const PERSON: Duration = Duration::from_secs(30);

pub(super) fn get(entry: &Entry, extent: Extent) -> Result<Option<Vec<u8>>, Trouble> {
    Keyring::open()?.get(entry, extent)
}

pub(super) fn set(entry: &Entry, secret: &[u8]) -> Result<(), Trouble> {
    Keyring::open()?.set(entry, secret)
}

pub(super) fn delete(entry: &Entry) -> Result<(), Trouble> {
    Keyring::open()?.delete(entry)
}

/// The keyring, and our session there.
struct Keyring {
    bus: Bus,
    session: String,
}

fn put_attributes(body: &mut Body, entry: &Entry) {
    let attributes = [("application", "outlive"), ("login", &entry.name)];
    body.array(8, |body| {
        for (name, value) in attributes {
            body.align(8);
            body.text(name);
            body.text(value);
        }
    });
}

impl Keyring {
    fn open() -> Result<Keyring, Trouble> {
        Keyring::at(Bus::open(Instant::now() + ANSWER)?)
    }

    fn at(bus: Bus) -> Result<Keyring, Trouble> {
        let session = String::new();
        let mut keyring = Keyring { bus, session };
        let mut body = Body::default();
        body.text("plain");
        body.variant(|body| body.text(""), "s");
        let reply = keyring.call(ROOT, INTERFACE, "OpenSession", "sv", &body)?;
        keyring.session = reply.read("vo", |it| {
            it.skip_text_variant()?;
            it.text()
        })?;
        Ok(keyring)
    }

    fn call(
        &mut self,
        path: &str,
        interface: &str,
        member: &str,
        signature: &str,
        body: &Body,
    ) -> Result<Reply, Trouble> {
        let service = SERVICE;
        let target = Target {
            service,
            path,
            interface,
            member,
        };
        self.bus.call(&target, signature, body)
    }

    fn get(&mut self, entry: &Entry, extent: Extent) -> Result<Option<Vec<u8>>, Trouble> {
        let Some(item) = self.find(entry, extent)? else {
            return Ok(None);
        };
        let mut body = Body::default();
        body.text(&self.session);
        let reply = self.call(&item, ITEM, "GetSecret", "o", &body)?;
        reply.read("(oayays)", |it| {
            it.align(8)?;
            it.text()?;
            it.bytes()?;
            Some(Some(it.bytes()?.to_vec()))
        })
    }

    fn set(&mut self, entry: &Entry, secret: &[u8]) -> Result<(), Trouble> {
        let collection = self.collection()?;
        self.unlock(std::slice::from_ref(&collection))?;
        let mut body = Body::default();
        body.array(8, |body| {
            body.align(8);
            body.text("org.freedesktop.Secret.Item.Label");
            body.variant(
                |body| body.text(&format!("outlive: login at {}", entry.server)),
                "s",
            );
            body.align(8);
            body.text("org.freedesktop.Secret.Item.Attributes");
            body.variant(|body| put_attributes(body, entry), "a{ss}");
        });
        body.align(8);
        body.text(&self.session);
        body.bytes(b"");
        body.bytes(secret);
        body.text("text/plain");
        body.flag(true);
        let reply = self.call(
            &collection,
            COLLECTION,
            "CreateItem",
            "a{sv}(oayays)b",
            &body,
        )?;
        let prompt = reply.read("oo", |it| {
            it.text()?;
            it.text()
        })?;
        self.ask(&prompt)
    }

    fn delete(&mut self, entry: &Entry) -> Result<(), Trouble> {
        // Nobody is asked to unlock something for that.
        let Some(item) = self.search(entry)? else {
            return Ok(());
        };
        let reply = self.call(&item, ITEM, "Delete", "", &Body::default())?;
        let prompt = reply.read("o", |it| it.text())?;
        self.ask(&prompt)
    }

    /// The entry, unlocked, if there is one. What is locked within this extent is unlocked before nothing is found.
    fn find(&mut self, entry: &Entry, extent: Extent) -> Result<Option<String>, Trouble> {
        if let Some(item) = self.search(entry)? {
            return Ok(Some(item));
        }
        let all = match extent {
            Extent::Everywhere => self.collections()?,
            Extent::ForNew => vec![self.collection()?],
        };
        let locked = self.locked(all)?;
        if locked.is_empty() {
            return Ok(None);
        }
        self.unlock(&locked)?;
        match self.search(entry)? {
            Some(item) => Ok(Some(item)),
            None if self.locked(locked)?.is_empty() => Ok(None),
            // Nobody can know.
            None => Err(Trouble::Locked),
        }
    }

    /// The entry, unlocked, if it is shown.
    fn search(&mut self, entry: &Entry) -> Result<Option<String>, Trouble> {
        let mut body = Body::default();
        put_attributes(&mut body, entry);
        let reply = self.call(ROOT, INTERFACE, "SearchItems", "a{ss}", &body)?;
        let (unlocked, locked) = reply.read("aoao", |it| Some((it.texts()?, it.texts()?)))?;
        match (unlocked.first(), locked.first()) {
            (Some(item), _) => Ok(Some(item.clone())),
            (None, Some(item)) => {
                self.unlock(std::slice::from_ref(item))?;
                Ok(Some(item.clone()))
            }
            (None, None) => Ok(None),
        }
    }

    /// A property of an object.
    fn property<T>(
        &mut self,
        path: &str,
        interface: &str,
        name: &str,
        read: impl FnOnce(&mut Reader<'_>) -> Option<T>,
    ) -> Result<T, Trouble> {
        let mut body = Body::default();
        body.text(interface);
        body.text(name);
        let reply = self.call(path, PROPERTIES, "Get", "ss", &body)?;
        reply.read("v", read)
    }

    /// All collections there are.
    fn collections(&mut self) -> Result<Vec<String>, Trouble> {
        self.property(ROOT, INTERFACE, "Collections", |it| {
            (it.signature()? == "ao").then(|| it.texts())?
        })
    }

    /// Those of these collections that are locked.
    fn locked(&mut self, mut collections: Vec<String>) -> Result<Vec<String>, Trouble> {
        let mut locked = Vec::new();
        collections.truncate(MOST_COLLECTIONS);
        for collection in collections {
            let is_locked = self.property(&collection, COLLECTION, "Locked", |it| {
                (it.signature()? == "b").then(|| it.flag())?
            })?;
            if is_locked {
                locked.push(collection);
            }
        }
        Ok(locked)
    }

    /// The collection that a user's entries go to.
    fn collection(&mut self) -> Result<String, Trouble> {
        for alias in ["default", "login"] {
            let mut body = Body::default();
            body.text(alias);
            let reply = self.call(ROOT, INTERFACE, "ReadAlias", "s", &body)?;
            let found = reply.read("o", |it| it.text())?;
            if found != NOTHING {
                return Ok(found);
            }
        }
        Err(Trouble::Absent("there is no collection in it yet".into()))
    }

    fn unlock(&mut self, objects: &[String]) -> Result<(), Trouble> {
        let mut body = Body::default();
        body.array(4, |body| objects.iter().for_each(|it| body.text(it)));
        let reply = self.call(ROOT, INTERFACE, "Unlock", "ao", &body)?;
        let (unlocked, prompt) = reply.read("aoo", |it| Some((it.texts()?, it.text()?)))?;
        match prompt.as_str() {
            NOTHING if objects.iter().all(|it| unlocked.contains(it)) => Ok(()),
            NOTHING => Err(Trouble::Locked),
            _ => self.ask(&prompt),
        }
    }

    /// Lets the keyring ask a person, if it wants to.
    fn ask(&mut self, prompt: &str) -> Result<(), Trouble> {
        if prompt == NOTHING {
            return Ok(());
        }
        let path = prompt.replace('\'', "");
        let rule = format!("type='signal',interface='{PROMPT}',member='Completed',path='{path}'");
        self.bus.listen(&rule)?;
        let mut body = Body::default();
        body.text("");
        self.call(prompt, PROMPT, "Prompt", "s", &body)?;
        let completed = self
            .bus
            .signal(prompt, "Completed", Instant::now() + PERSON);
        let completed = match completed {
            // Somebody who does not unlock it has it locked.
            Err(Trouble::Silent) => return Err(Trouble::Locked),
            completed => completed?,
        };
        self.bus.until(Instant::now() + ANSWER);
        match completed.read_first("b", |it| it.flag())? {
            true => Err(Trouble::Locked),
            false => Ok(()),
        }
    }
}

#[cfg(test)]
#[path = "secret_service_tests.rs"]
mod tests;
