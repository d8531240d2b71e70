//! The keyring of the system, which holds the keys that logins are sealed with.
//!
//! A login is a file (`store`): it is replaced whole or not at all, all processes share it, and a refresh rewrites it
//! twice. A keyring does none of that well: its entries are small on some systems, every change may ask a person, and
//! it can be locked or gone in the middle of a session. So it holds what never changes, a random key for each login, and
//! the file can be read only by whoever gets that key (`seal`). Whoever deletes the entry has deleted the login.
//!
//! | system | keyring | file |
//! |---|---|---|
//! | Linux and other Unixes | Secret Service: GNOME Keyring, KWallet, KeePassXC | `secret_service`, over `bus`, in the writing of `marshal` |
//! | macOS | Keychain | `apple` |
//! | Windows | Credential Manager | `windows` |
//!
//! A keyring may ask a person to unlock it, wait for another program, or never answer. So it is asked on a thread of its
//! own, and that is waited for no longer than [`PATIENCE`].

#[cfg(all(feature = "keyring", unix, not(target_os = "macos")))]
mod bus;
#[cfg(all(feature = "keyring", unix, not(target_os = "macos")))]
mod marshal;
#[cfg(all(feature = "keyring", target_os = "macos"))]
#[path = "apple.rs"]
mod system;
#[cfg(all(feature = "keyring", unix, not(target_os = "macos")))]
#[path = "secret_service.rs"]
mod system;
#[cfg(all(feature = "keyring", windows))]
#[path = "windows.rs"]
mod system;
#[cfg(not(all(feature = "keyring", any(unix, windows))))]
#[path = "none.rs"]
mod system;

use std::fmt;
use std::time::Duration;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use tokio::sync::oneshot;
use tokio::time::timeout;

use super::seal::{KEY_LENGTH, Key};

/// A keyring is waited for no longer, also if it asks a person.
const PATIENCE: Duration = Duration::from_secs(45);

/// What an entry is called.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Entry {
    /// Names it among all entries of outlive.
    pub(super) name: String,
    /// The server of the login, for whoever looks into their keyring.
    pub(super) server: String,
}

/// Where an entry is looked for that may be locked away.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Extent {
    /// Wherever it may be: it was there once.
    Everywhere,
    /// Where new ones are put.
    ForNew,
}

/// Why a keyring is of no use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Trouble {
    /// There is none here, for this reason.
    Absent(String),
    /// It is locked, and nobody has unlocked it.
    #[allow(dead_code)] // Not every system has one that can be.
    Locked,
    /// It does not answer.
    Silent,
    /// It works, and has not what is asked for.
    Gone,
    /// It has failed, or says what cannot be understood.
    Broken(String),
}

impl fmt::Display for Trouble {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Trouble::Absent(why) => write!(f, "the system has no keyring here ({why})"),
            Trouble::Locked => f.write_str("the system's keyring is locked"),
            Trouble::Gone => f.write_str("its key is not in the system's keyring any more"),
            Trouble::Silent => f.write_str("the system's keyring does not answer"),
            Trouble::Broken(why) => write!(f, "the system's keyring fails ({why})"),
        }
    }
}

/// The key of a login, if there is one.
pub(super) fn find(entry: &Entry) -> Result<Option<Key>, Trouble> {
    find_in(entry, Extent::Everywhere)
}

fn find_in(entry: &Entry, extent: Extent) -> Result<Option<Key>, Trouble> {
    match system::get(entry, extent)? {
        None => Ok(None),
        Some(text) => decode(&text).map(Some),
    }
}

/// The key of a login; one is made if there is none.
pub(super) fn find_or_make(entry: &Entry) -> Result<Key, Trouble> {
    if let Some(key) = find_in(entry, Extent::ForNew)? {
        return Ok(key);
    }
    let mut bytes = [0; KEY_LENGTH];
    getrandom::fill(&mut bytes).map_err(|error| Trouble::Broken(error.to_string()))?;
    system::set(entry, BASE64_STANDARD.encode(bytes).as_bytes())?;
    // What cannot be read back would be a login that is lost with this process.
    match find_in(entry, Extent::ForNew)? {
        Some(key) if key == Key(bytes) => Ok(key),
        _ => Err(Trouble::Broken("it does not hold what it was given".into())),
    }
}

/// Deletes the key of a login.
pub(super) fn remove(entry: &Entry) -> Result<(), Trouble> {
    system::delete(entry)
}

fn decode(text: &[u8]) -> Result<Key, Trouble> {
    let bytes = BASE64_STANDARD.decode(text).unwrap_or_default();
    let bytes = <[u8; KEY_LENGTH]>::try_from(bytes);
    let foreign = || Trouble::Broken("what it holds under our name is no key".into());
    bytes.map(Key).map_err(|_| foreign())
}

/// Asks a keyring, on a thread of its own.
pub(super) async fn asked<T: Send + 'static>(
    ask: impl FnOnce() -> Result<T, Trouble> + Send + 'static,
) -> Result<T, Trouble> {
    let (answer, answered) = oneshot::channel();
    let begun = std::thread::Builder::new()
        .name("keyring".into())
        .spawn(move || {
            let _ = answer.send(ask());
        });
    begun.map_err(|error| Trouble::Broken(error.to_string()))?;
    match timeout(PATIENCE, answered).await {
        Ok(Ok(answer)) => answer,
        Ok(Err(_)) => Err(Trouble::Broken("it could not be asked".into())),
        Err(_) => Err(Trouble::Silent),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_key_is_not_taken_for_one() {
        let key = BASE64_STANDARD.encode([7; KEY_LENGTH]);
        assert_eq!(decode(key.as_bytes()), Ok(Key([7; KEY_LENGTH])));
        for bad in ["", "AAAA", "no base64 at all", &key[1..]] {
            assert!(
                matches!(decode(bad.as_bytes()), Err(Trouble::Broken(_))),
                "{bad}"
            );
        }
    }

    #[tokio::test]
    async fn whoever_asks_in_vain_learns_why() {
        let absent = || Err::<(), _>(Trouble::Absent("there is no bus".into()));
        let why = asked(absent).await.unwrap_err();
        assert!(why.to_string().contains("there is no bus"));
        let gone = asked::<()>(|| panic!("a keyring that ends the thread")).await;
        assert!(matches!(gone, Err(Trouble::Broken(_))), "{gone:?}");
    }
}
