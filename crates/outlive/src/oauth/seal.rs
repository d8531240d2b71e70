//! A login that can be read only with its key (AES-256-GCM).

use std::fmt;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use ring::aead::{AES_256_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};

/// How long a key is.
pub(super) const KEY_LENGTH: usize = 32;

/// A key; never shown.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct Key(pub(super) [u8; KEY_LENGTH]);

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Key")
    }
}

impl Key {
    fn cipher(&self) -> LessSafeKey {
        let key = UnboundKey::new(&AES_256_GCM, &self.0).expect("the length is right");
        LessSafeKey::new(key)
    }

    /// Seals a text for this place: elsewhere it cannot be opened.
    pub(super) fn seal(&self, place: &str, text: &[u8]) -> Result<String, String> {
        let mut nonce = [0; NONCE_LEN];
        // Of 96 random bits no two are the same in as many refreshes as a login can have.
        getrandom::fill(&mut nonce).map_err(|error| format!("there is no randomness: {error}"))?;
        let mut sealed = nonce.to_vec();
        let mut rest = text.to_vec();
        let nonce = Nonce::assume_unique_for_key(nonce);
        let aad = Aad::from(place.as_bytes());
        let cipher = self.cipher();
        let done = cipher.seal_in_place_append_tag(nonce, aad, &mut rest);
        done.map_err(|_| "it is too long".to_owned())?;
        sealed.append(&mut rest);
        Ok(BASE64_STANDARD.encode(sealed))
    }

    /// Opens what was sealed for this place; none if it is anything else.
    pub(super) fn open(&self, place: &str, sealed: &str) -> Option<Vec<u8>> {
        let mut sealed = BASE64_STANDARD.decode(sealed).ok()?;
        let (nonce, rest) = sealed.split_at_mut_checked(NONCE_LEN)?;
        let nonce = Nonce::try_assume_unique_for_key(nonce).ok()?;
        let aad = Aad::from(place.as_bytes());
        let text = self.cipher().open_in_place(nonce, aad, rest).ok()?;
        Some(text.to_vec())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_sealed_opens_with_its_key_in_its_place_and_whole() {
        let (key, other) = (Key([1; KEY_LENGTH]), Key([2; KEY_LENGTH]));
        let sealed = key.seal("here", b"hunter42").unwrap();
        assert_ne!(sealed, key.seal("here", b"hunter42").unwrap());
        assert_eq!(key.open("here", &sealed).as_deref(), Some(&b"hunter42"[..]));
        assert_eq!(other.open("here", &sealed), None);
        assert_eq!(key.open("there", &sealed), None);
        for length in 0..sealed.len() {
            assert_eq!(key.open("here", &sealed[..length]), None, "{length}");
        }
        let bytes = BASE64_STANDARD.decode(&sealed).unwrap();
        for at in 0..bytes.len() {
            let mut changed = bytes.clone();
            changed[at] ^= 1;
            assert_eq!(
                key.open("here", &BASE64_STANDARD.encode(changed)),
                None,
                "{at}"
            );
        }
        assert!(!format!("{key:?}").contains('1'));
    }
}
