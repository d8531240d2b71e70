//! The key of one login, as far as it is known: asked of the keyring once, and ours until somebody logs in again.
//!
//! A session goes on if its keyring is locked or leaves: the key is known by then. One that cannot be asked is not
//! asked again at once. A new login is sealed with what the keyring holds then: a key that was deleted meanwhile would
//! make it one that no other process can read.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::keyring::{self, Entry, Trouble, asked};
use super::seal::Key;

/// A keyring that was of no use is asked again after this long.
const PAUSE: Duration = Duration::from_secs(30);

/// The key of one login.
#[derive(Debug)]
pub(super) struct Vault {
    entry: Entry,
    or_plain: bool,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    key: Option<Key>,
    /// Why there is none, and since when that is known.
    trouble: Option<(Trouble, Instant)>,
}

impl Vault {
    pub(super) fn new(entry: Entry, or_plain: bool) -> Vault {
        let state = Mutex::default();
        Vault {
            entry,
            or_plain,
            state,
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether a login may be kept without it.
    pub(super) fn or_plain(&self) -> bool {
        self.or_plain
    }

    /// Whether the key is known.
    pub(super) fn is_open(&self) -> bool {
        self.state().key.is_some()
    }

    /// Whether the keyring was not of no use a moment ago.
    pub(super) fn may_be_asked(&self) -> bool {
        let state = self.state();
        let lately = |(_, since): &(Trouble, Instant)| since.elapsed() < PAUSE;
        !state.trouble.as_ref().is_some_and(lately)
    }

    /// Why there is no key, as far as it is known.
    pub(super) fn trouble(&self) -> Option<Trouble> {
        let state = self.state();
        state.trouble.as_ref().map(|(trouble, _)| trouble.clone())
    }

    /// Whether another key can be had.
    pub(super) fn may_be_filled(&self) -> bool {
        let gone = matches!(self.state().trouble, Some((Trouble::Gone, _)));
        gone || self.may_be_asked()
    }

    fn learn(&self, answer: Result<Option<Key>, Trouble>) -> Option<Trouble> {
        let mut state = self.state();
        let trouble = match answer {
            Ok(Some(key)) => {
                state.key = Some(key);
                state.trouble = None;
                return None;
            }
            Ok(None) => {
                state.key = None;
                Trouble::Gone
            }
            Err(trouble) => trouble,
        };
        state.trouble = Some((trouble.clone(), Instant::now()));
        Some(trouble)
    }

    /// Asks the keyring for the key of a login that is kept; why there is none, unless that was told a moment ago.
    pub(super) async fn find(self: &Arc<Self>) -> Option<Trouble> {
        if !self.may_be_asked() {
            return None;
        }
        let entry = self.entry.clone();
        self.learn(asked(move || keyring::find(&entry)).await)
    }

    /// Asks the keyring for the key of a login that is to be kept; why there is none, unless that was told.
    pub(super) async fn make(self: &Arc<Self>) -> Option<Trouble> {
        let entry = self.entry.clone();
        self.learn(asked(move || keyring::find_or_make(&entry).map(Some)).await)
    }

    /// The key that is known is not used any more.
    pub(super) fn close(&self) {
        self.state().key = None;
    }

    /// Begins to ask, for somebody who will need the key in a moment.
    pub(super) fn look_ahead(self: &Arc<Self>) {
        let vault = self.clone();
        let look = move || {
            let found = keyring::find(&vault.entry);
            // What goes wrong is told when the key is asked for.
            if let Ok(Some(key)) = found {
                vault.state().key.get_or_insert(key);
            }
        };
        let _ = std::thread::Builder::new()
            .name("keyring".into())
            .spawn(look);
    }

    /// Deletes the key. A keyring that cannot be reached keeps one that opens nothing any more.
    pub(super) async fn forget(&self) {
        self.close();
        let entry = self.entry.clone();
        let _ = asked(move || keyring::remove(&entry)).await;
    }

    /// Opens what is kept, if the key is known.
    pub(super) fn open(&self, place: &str, sealed: &str) -> Option<Vec<u8>> {
        let key = self.state().key.clone()?;
        key.open(place, sealed)
    }

    /// Seals what is to be kept, or why it cannot be.
    pub(super) fn seal(&self, place: &str, text: &[u8]) -> Result<String, Trouble> {
        let state = self.state();
        match (&state.key, &state.trouble) {
            (Some(key), _) => key.seal(place, text).map_err(Trouble::Broken),
            (None, Some((trouble, _))) => Err(trouble.clone()),
            (None, None) => Err(Trouble::Broken("it was not asked".into())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_that_is_gone_is_not_used_any_more() {
        let entry = Entry {
            name: "a".into(),
            server: "https://a.example/mcp".into(),
        };
        let vault = Vault::new(entry, false);
        assert_eq!(vault.learn(Ok(Some(Key([7; 32])))), None);
        assert_eq!(vault.learn(Err(Trouble::Locked)), Some(Trouble::Locked));
        assert!(vault.is_open(), "what is locked is as it was");
        assert_eq!(vault.learn(Ok(None)), Some(Trouble::Gone));
        assert_eq!(vault.seal("a", b"secret"), Err(Trouble::Gone));
    }
}
