//! Legacy clients: who they are, and when they are forgotten.

use std::collections::HashMap;
use std::fs::File;
use std::io::{self, Read};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::Party;
use super::mouth::Mouth;

/// A full table gives up a session that was not used for this long rather than refuse a new one.
const STALE: Duration = Duration::from_secs(60);

/// One legacy client.
pub(crate) struct Session {
    pub(crate) id: String,
    pub(crate) mouth: Arc<Mouth>,
    pub(crate) party: Arc<dyn Party>,
    /// Exchanges that are going on.
    exchanges: AtomicUsize,
    used: Mutex<Instant>,
}

impl Session {
    pub(crate) fn new(mouth: Arc<Mouth>, party: Arc<dyn Party>) -> io::Result<Arc<Session>> {
        Ok(Arc::new(Session {
            id: fresh_id()?,
            mouth,
            party,
            exchanges: AtomicUsize::new(0),
            used: Mutex::new(Instant::now()),
        }))
    }

    fn used(&self) -> MutexGuard<'_, Instant> {
        self.used.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How long nobody has wanted anything of it. Work in flight and open streams are a use of it
    /// (FM-40).
    fn idle(&self) -> Duration {
        let in_use = self.exchanges.load(Ordering::Acquire) > 0
            || self.mouth.has_readers()
            || self.party.is_busy();
        let mut used = self.used();
        if in_use {
            *used = Instant::now();
        }
        used.elapsed()
    }
}

/// An exchange that goes on.
pub(crate) struct Use(Arc<Session>);

impl Use {
    pub(crate) fn of(session: &Arc<Session>) -> Use {
        session.exchanges.fetch_add(1, Ordering::AcqRel);
        Use(session.clone())
    }
}

impl Drop for Use {
    fn drop(&mut self) {
        *self.0.used() = Instant::now();
        self.0.exchanges.fetch_sub(1, Ordering::AcqRel);
    }
}

/// All legacy clients.
pub(crate) struct Sessions {
    by_id: Mutex<HashMap<String, Arc<Session>>>,
    most: usize,
    ttl: Duration,
}

impl Sessions {
    pub(crate) fn new(most: usize, ttl: Duration) -> Sessions {
        Sessions {
            by_id: Mutex::default(),
            most,
            ttl,
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, Arc<Session>>> {
        self.by_id.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn get(&self, id: &str) -> Option<Arc<Session>> {
        let session = self.lock().get(id).cloned();
        session.filter(|session| !session.mouth.is_sealed() && !session.mouth.is_overrun())
    }

    /// Makes room for one more; false if there is none.
    pub(crate) fn make_room(&self) -> bool {
        let stale = {
            let sessions = self.lock();
            if sessions.len() < self.most {
                return true;
            }
            let idle = sessions.values().map(|session| (session.idle(), session));
            let (idle, session) = match idle.max_by_key(|(idle, _)| *idle) {
                Some(oldest) => oldest,
                None => return false,
            };
            match idle >= STALE {
                true => session.id.clone(),
                false => return false,
            }
        };
        self.end(&stale);
        true
    }

    pub(crate) fn insert(&self, session: &Arc<Session>) {
        self.lock().insert(session.id.clone(), session.clone());
    }

    /// Ends a session; false if there is none of that id.
    pub(crate) fn end(&self, id: &str) -> bool {
        let session = self.lock().remove(id);
        if let Some(session) = &session {
            session.party.end();
        }
        session.is_some()
    }

    /// Ends the sessions nobody uses, and those whose one stream nobody reads.
    pub(crate) fn sweep(&self) {
        let unused: Vec<String> = {
            let mut sessions = self.lock();
            sessions.retain(|_, session| !session.mouth.is_sealed());
            let unused = sessions
                .values()
                .filter(|it| it.idle() > self.ttl || it.mouth.is_overrun());
            unused.map(|session| session.id.clone()).collect()
        };
        for id in unused {
            self.end(&id);
        }
    }

    /// How often to look for them.
    pub(crate) fn sweep_interval(&self) -> Duration {
        (self.ttl / 8).clamp(Duration::from_millis(50), Duration::from_secs(30))
    }

    pub(crate) fn count(&self) -> usize {
        self.lock().len()
    }

    pub(crate) fn all(&self) -> Vec<Arc<Session>> {
        self.lock().values().cloned().collect()
    }
}

/// An id nobody can guess: 128 bits from the operating system, in visible letters.
fn fresh_id() -> io::Result<String> {
    let mut random = [0; 16];
    File::open("/dev/urandom")?.read_exact(&mut random)?;
    Ok(random.iter().map(|byte| format!("{byte:02x}")).collect())
}
