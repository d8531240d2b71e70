//! What replicas know and nobody else does.
//!
//! It stands in a file, one secret in a line. The first one signs, all are accepted: so a new one is put behind the old
//! one everywhere, then in front of it, then the old one is taken out, and there is no moment at which two replicas do
//! not understand each other. The file is read again when it has changed; one that cannot be read, or holds none,
//! changes nothing.

use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock};

use outlive_core::server::StateKeys;
use ring::hmac;

/// A shorter one could be guessed.
const SHORTEST: usize = 16;

/// What the keys are for: a secret used for something else makes other keys.
const PURPOSE: &[u8] = b"outlive replica: forwarded requests, 1";
const STATES: &[u8] = b"outlive replica: states of requests, 1";

/// The secrets that are good at the moment. Clones are the same.
#[derive(Clone)]
pub(crate) struct ReplicaSecret {
    file: Option<PathBuf>,
    keys: Arc<RwLock<Vec<hmac::Key>>>,
    states: StateKeys,
}

impl ReplicaSecret {
    /// This one; a sentence if it is too short.
    pub(crate) fn word(word: &str) -> Result<ReplicaSecret, String> {
        let secret = ReplicaSecret {
            file: None,
            keys: Arc::default(),
            states: StateKeys::default(),
        };
        secret.replace(&[word.trim()])?;
        Ok(secret)
    }

    /// Those in this file, once it has been [read](ReplicaSecret::read).
    pub(crate) fn file(path: PathBuf) -> ReplicaSecret {
        ReplicaSecret {
            file: Some(path),
            keys: Arc::default(),
            states: StateKeys::default(),
        }
    }

    pub(crate) fn path(&self) -> Option<&Path> {
        self.file.as_deref()
    }

    /// Reads the file, if there is one; a sentence if that cannot be done.
    pub(crate) fn read(&self) -> Result<(), String> {
        let Some(path) = &self.file else {
            return Ok(());
        };
        let place = path.display();
        let text = fs::read_to_string(path)
            .map_err(|error| format!("cannot read the replica secret in {place}: {error}"))?;
        // Some editors begin a file with a byte order mark, which is no part of the first secret.
        let text = text.strip_prefix('\u{feff}').unwrap_or(&text);
        let lines = text.lines().map(str::trim);
        let lines: Vec<&str> = lines
            .filter(|it| !it.is_empty() && !it.starts_with('#'))
            .collect();
        if lines.is_empty() {
            return Err(format!(
                "there is no replica secret in {place}: one in a line is expected"
            ));
        }
        let replaced = self.replace(&lines);
        replaced.map_err(|why| format!("{why} (in {place})"))
    }

    fn replace(&self, words: &[&str]) -> Result<(), String> {
        if words.iter().any(|word| word.len() < SHORTEST) {
            return Err(format!(
                "a replica secret is shorter than {SHORTEST} characters, which could be guessed; make one with \
                 `openssl rand -hex 32`"
            ));
        }
        let derived = |word: &&str, purpose| {
            let secret = hmac::Key::new(hmac::HMAC_SHA256, word.as_bytes());
            hmac::sign(&secret, purpose)
        };
        let keys = words.iter().map(|word| {
            let key = derived(word, PURPOSE);
            hmac::Key::new(hmac::HMAC_SHA256, key.as_ref())
        });
        let states = words.iter().map(|word| {
            let mut key = [0; 16];
            let length = key.len();
            key.copy_from_slice(&derived(word, STATES).as_ref()[..length]);
            key
        });
        self.states.replace(states.collect());
        *self.keys.write().unwrap_or_else(PoisonError::into_inner) = keys.collect();
        Ok(())
    }

    /// What seals the states that clients carry between the rounds of a request.
    pub(crate) fn state_keys(&self) -> StateKeys {
        self.states.clone()
    }

    /// Signs with the first one.
    pub(crate) fn sign(&self, text: &[u8]) -> Option<hmac::Tag> {
        let keys = self.keys.read().unwrap_or_else(PoisonError::into_inner);
        keys.first().map(|key| hmac::sign(key, text))
    }

    /// Whether one of them has signed this. How much of a signature is right does not show in the time it takes.
    pub(crate) fn has_signed(&self, text: &[u8], tag: &[u8]) -> bool {
        let keys = self.keys.read().unwrap_or_else(PoisonError::into_inner);
        keys.iter().any(|key| hmac::verify(key, text, tag).is_ok())
    }
}

/// What it is is nobody's business.
impl fmt::Debug for ReplicaSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ReplicaSecret").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(lines: &str) -> ReplicaSecret {
        let secret = ReplicaSecret::word("0123456789abcdef").expect("a secret");
        secret
            .replace(&lines.split(' ').collect::<Vec<_>>())
            .expect("replaced");
        secret
    }

    #[test]
    fn the_first_one_signs_and_all_are_accepted() {
        let (old, new) = ("old-old-old-old-old", "new-new-new-new-new");
        let steps = [
            of(old),
            of(&format!("{old} {new}")),
            of(&format!("{new} {old}")),
            of(new),
        ];
        for pair in steps.windows(2) {
            for (from, to) in [(&pair[0], &pair[1]), (&pair[1], &pair[0])] {
                let tag = from.sign(b"text").expect("signed");
                assert!(to.has_signed(b"text", tag.as_ref()));
                assert!(!to.has_signed(b"other", tag.as_ref()));
            }
        }
        let tag = steps[0].sign(b"text").expect("signed");
        assert!(!steps[3].has_signed(b"text", tag.as_ref()));
    }

    #[test]
    fn a_file_is_read_again_and_a_bad_one_changes_nothing() {
        let path = std::env::temp_dir().join(format!("outlive-secret-{}", std::process::id()));
        let secret = ReplicaSecret::file(path.clone());
        assert!(secret.read().is_err_and(|why| why.contains("cannot read")));
        assert!(secret.sign(b"").is_none());
        fs::write(&path, "# ours\n one-one-one-one-one \n").expect("written");
        secret.read().expect("read");
        let tag = secret.sign(b"text").expect("signed");
        for (bad, word) in [
            ("# none\n", "no replica secret"),
            ("hunter2\n", "shorter than 16"),
        ] {
            fs::write(&path, bad).expect("written");
            let why = secret.read().expect_err("a bad file");
            assert!(why.contains(word) && !why.contains("hunter2"), "{why}");
            assert!(secret.has_signed(b"text", tag.as_ref()));
        }
        fs::remove_file(&path).expect("removed");
        assert!(!format!("{secret:?}").contains("one-one"));
    }
}
