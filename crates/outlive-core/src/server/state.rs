//! What clients carry for us between the rounds of a request (2026-07-28, `requestState`).
//!
//! A state names a handler that waits in this process, and nothing else: it is a number and a seal over it that nobody
//! can make without the key. Where several processes serve the same clients, they have their keys in common
//! ([`StateKeys`]), and a state says which of them has made it. So one that gets the state of another knows it for what
//! it is, and can say so. It cannot go on with the call, whose handler waits elsewhere.

use std::fmt;
use std::hash::Hasher;
#[expect(
    deprecated,
    reason = "it is the one keyed hash in the standard library"
)]
use std::hash::SipHasher;
use std::sync::{Arc, PoisonError, RwLock};

/// A secret that seals states.
pub(super) type StateKey = [u8; 16];

/// The keys that several processes have in common: the first one seals, all of them open. Clones are the same, so that
/// keys can be replaced while servers use them.
#[derive(Clone, Default)]
pub struct StateKeys(Arc<RwLock<Vec<StateKey>>>);

impl StateKeys {
    /// These keys, instead of those there were.
    pub fn replace(&self, keys: Vec<[u8; 16]>) {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = keys;
    }

    fn with<T>(&self, look: impl FnOnce(&[StateKey]) -> T) -> T {
        look(&self.0.read().unwrap_or_else(PoisonError::into_inner))
    }
}

/// What they are is nobody's business.
impl fmt::Debug for StateKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StateKeys").finish_non_exhaustive()
    }
}

/// Makes states: one for each number, which nobody can guess without the key.
#[derive(Clone, Debug)]
pub(super) struct States {
    key: StateKey,
    /// The keys of all processes, if there are several, and which of them we are.
    shared: Option<(StateKeys, u64)>,
    next: u64,
}

impl States {
    pub(super) fn new(key: StateKey) -> States {
        States {
            key,
            shared: None,
            next: 0,
        }
    }

    /// From now on states are sealed with the first of these keys, in the name of this process.
    pub(super) fn share(&mut self, keys: StateKeys, process: u64) {
        self.shared = Some((keys, process));
    }

    pub(super) fn draw(&mut self) -> String {
        let n = self.next;
        self.next += 1;
        let Some((keys, process)) = &self.shared else {
            return format!("{n:x}-{}", seal(&self.key, 0, n));
        };
        let seal = keys.with(|keys| seal(keys.first().unwrap_or(&self.key), *process, n));
        format!("{process:x}.{n:x}-{seal}")
    }

    /// Whether another process has made this state, that has a key in common with us.
    pub(super) fn is_anothers(&self, state: &str) -> bool {
        let Some((keys, own)) = &self.shared else {
            return false;
        };
        let number = |text| u64::from_str_radix(text, 16).ok();
        let made = state.split_once('-').and_then(|(name, sealed)| {
            let (process, n) = name.split_once('.')?;
            Some((number(process)?, number(n)?, sealed))
        });
        made.is_some_and(|(process, n, sealed)| {
            let fits = |key: &StateKey| seal(key, process, n) == sealed;
            process != *own && keys.with(|keys| keys.iter().any(fits))
        })
    }
}

/// Two halves, so that there are as many seals as keys.
fn seal(key: &StateKey, process: u64, n: u64) -> String {
    let half = |half| hash(key, process, n, half);
    format!("{:016x}{:016x}", half(0), half(1))
}

#[expect(deprecated, reason = "as above")]
fn hash(key: &StateKey, process: u64, n: u64, half: u8) -> u64 {
    let key = u128::from_le_bytes(*key);
    let mut hasher = SipHasher::new_with_keys(key as u64, (key >> 64) as u64);
    hasher.write_u64(process);
    hasher.write_u64(n);
    hasher.write_u8(half);
    hasher.finish()
}
