//! Sessions in the memory of this process.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use bytes::Bytes;
use outlive_core::Time;
use outlive_core::tenure::{Admission, Claim, LeaseTable, Tenancy};

use super::{Answer, Claimed, NewSession, Owner, Part, Store, Tenure, Write};

/// Keeps sessions in memory: for tests, and for several listeners within one process, which then need
/// [leases](MemoryStore::with_lease).
#[derive(Debug)]
pub struct MemoryStore {
    lease: Option<Duration>,
    begun: Instant,
    inside: Mutex<Inside>,
}

#[derive(Debug, Default)]
struct Inside {
    leases: LeaseTable,
    /// Where the owners are that have told it.
    addresses: HashMap<Owner, String>,
    sessions: HashMap<String, Kept>,
}

#[derive(Debug)]
struct Kept {
    principal: String,
    tenancy: Tenancy,
    until: Time,
    parts: BTreeMap<Part, Bytes>,
}

impl Default for MemoryStore {
    fn default() -> MemoryStore {
        MemoryStore {
            lease: None,
            begun: Instant::now(),
            inside: Mutex::default(),
        }
    }
}

impl MemoryStore {
    /// A store that several listeners use at once: one that was not heard from for so long loses its sessions.
    pub fn with_lease(length: Duration) -> MemoryStore {
        MemoryStore {
            lease: Some(length),
            ..MemoryStore::default()
        }
    }

    /// How many sessions are kept.
    pub fn len(&self) -> usize {
        self.lock().sessions.len()
    }

    /// Whether none is.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn lock(&self) -> MutexGuard<'_, Inside> {
        self.inside.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn now(&self) -> Time {
        Time::after(self.begun.elapsed())
    }
}

/// It is there already.
fn at_once<'a, T: Send + 'a>(it: T) -> Answer<'a, T> {
    Box::pin(std::future::ready(Ok(it)))
}

impl Inside {
    /// The session, if this is its newest owner.
    fn owned(&mut self, id: &str, tenure: Tenure) -> Option<&mut Kept> {
        let kept = self.sessions.get_mut(id);
        kept.filter(|kept| kept.tenancy.admits(tenure))
    }
}

impl Store for MemoryStore {
    fn lease(&self) -> Option<Duration> {
        self.lease
    }

    fn renew<'a>(&'a self, owner: Owner, address: &'a str, begins: bool) -> Answer<'a, bool> {
        let (length, now) = (self.lease.unwrap_or(Duration::MAX), self.now());
        let inside = &mut *self.lock();
        let granted = inside.leases.renew(owner, begins, length, now);
        if granted && !address.is_empty() {
            inside.addresses.insert(owner, address.to_owned());
        }
        at_once(granted)
    }

    fn leave(&self, owner: Owner) -> Answer<'_, ()> {
        self.lock().leases.release(owner);
        at_once(())
    }

    fn begin(&self, session: NewSession) -> Answer<'_, Tenure> {
        let (tenancy, tenure) = Tenancy::begun(session.owner);
        let kept = Kept {
            principal: session.principal,
            tenancy,
            until: self.now() + session.ttl,
            parts: session.parts.into_iter().collect(),
        };
        self.lock().sessions.insert(session.id, kept);
        at_once(tenure)
    }

    fn claim(&self, id: &str, principal: &str, by: Owner) -> Answer<'_, Claimed> {
        let (now, exclusive) = (self.now(), self.lease.is_none());
        let inside = &mut *self.lock();
        let kept = inside.sessions.get_mut(id);
        let kept = kept.filter(|kept| kept.principal == principal && now < kept.until);
        let Some(kept) = kept else {
            return at_once(Claimed::Absent);
        };
        let lives = |owner| !exclusive && inside.leases.lives(owner, now);
        at_once(match kept.tenancy.claim(by, lives) {
            Claim::Held(owner) => Claimed::Held {
                owner,
                address: inside.addresses.get(&owner).cloned().unwrap_or_default(),
            },
            Claim::Granted(tenure) => {
                let parts = kept
                    .parts
                    .iter()
                    .map(|(part, bytes)| (*part, bytes.clone()));
                Claimed::Granted(tenure, parts.collect())
            }
        })
    }

    fn write(&self, id: &str, tenure: Tenure, number: u64, writes: Vec<Write>) -> Answer<'_, bool> {
        let mut inside = self.lock();
        let Some(kept) = inside.owned(id, tenure) else {
            return at_once(false);
        };
        if kept.tenancy.admit(tenure, number) == Admission::Known {
            return at_once(true);
        }
        for (part, bytes) in writes {
            match bytes {
                Some(bytes) => drop(kept.parts.insert(part, bytes)),
                None => drop(kept.parts.remove(&part)),
            }
        }
        at_once(true)
    }

    fn touch(&self, sessions: Vec<(String, Tenure)>, ttl: Duration) -> Answer<'_, ()> {
        let (now, mut inside) = (self.now(), self.lock());
        for (id, tenure) in sessions {
            if let Some(kept) = inside.owned(&id, tenure) {
                kept.until = now + ttl;
            }
        }
        inside.sessions.retain(|_, kept| now < kept.until);
        let Inside {
            leases, addresses, ..
        } = &mut *inside;
        leases.expire(now);
        addresses.retain(|owner, _| leases.lives(*owner, now));
        at_once(())
    }

    fn release(&self, id: &str, tenure: Tenure) -> Answer<'_, ()> {
        if let Some(kept) = self.lock().sessions.get_mut(id) {
            kept.tenancy.release(tenure);
        }
        at_once(())
    }

    fn end(&self, id: &str, tenure: Tenure) -> Answer<'_, ()> {
        let mut inside = self.lock();
        if inside.owned(id, tenure).is_some() {
            inside.sessions.remove(id);
        }
        at_once(())
    }
}
