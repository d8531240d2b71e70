//! What clients have to show.
//!
//! Tokens are given as words, or stand in a file, one in a line. With two in the file both are good,
//! so that a token can be replaced without a moment in which nobody has the right one. The file is
//! read again when it has changed; one that cannot be read, or holds none, changes nothing.

use std::fmt;
use std::fs;
use std::hint::black_box;
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock};

/// The tokens that are good at the moment. Clones are the same.
#[derive(Clone)]
pub(crate) struct Tokens {
    file: Option<PathBuf>,
    good: Arc<RwLock<Vec<String>>>,
}

impl Tokens {
    /// This one.
    pub(crate) fn word(token: String) -> Tokens {
        Tokens {
            file: None,
            good: Arc::new(RwLock::new(vec![token])),
        }
    }

    /// Those in this file, once it has been [read](Tokens::read).
    pub(crate) fn file(path: PathBuf) -> Tokens {
        Tokens {
            file: Some(path),
            good: Arc::default(),
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
        let text = fs::read_to_string(path)
            .map_err(|error| format!("cannot read the tokens in {}: {error}", path.display()))?;
        let tokens: Vec<String> = text
            .lines()
            .map(str::trim)
            .filter(|line| !line.is_empty() && !line.starts_with('#'))
            .map(Into::into)
            .collect();
        if tokens.is_empty() {
            let path = path.display();
            return Err(format!(
                "there is no token in {path}: one in a line is expected"
            ));
        }
        *self.good.write().unwrap_or_else(PoisonError::into_inner) = tokens;
        Ok(())
    }

    /// Whether this is one of them. Takes the same time whichever it is, and however much of it is
    /// right.
    pub(crate) fn is_good(&self, shown: &str) -> bool {
        let good = self.good.read().unwrap_or_else(PoisonError::into_inner);
        good.iter().fold(false, |found, token| {
            same(shown.as_bytes(), token.as_bytes()) | found
        })
    }
}

/// What they are is nobody's business.
impl fmt::Debug for Tokens {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tokens").finish_non_exhaustive()
    }
}

/// Compares in a time that tells nothing about where the difference is.
fn same(shown: &[u8], token: &[u8]) -> bool {
    let mut difference = shown.len() ^ token.len();
    for (n, byte) in token.iter().enumerate() {
        let other = shown.get(n).copied().unwrap_or(!byte);
        difference |= usize::from(black_box(byte ^ other));
    }
    black_box(difference) == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_compared_as_a_whole() {
        let tokens = Tokens::word("secret".into());
        assert!(tokens.is_good("secret"));
        for wrong in ["", "secre", "secret2", "Secret", "secres"] {
            assert!(!tokens.is_good(wrong), "{wrong}");
        }
        assert!(!format!("{tokens:?}").contains("secret"));
    }

    #[test]
    fn a_file_is_read_again_and_a_bad_one_changes_nothing() {
        let path = std::env::temp_dir().join(format!("outlive-tokens-{}", std::process::id()));
        let tokens = Tokens::file(path.clone());
        assert!(tokens.read().is_err_and(|why| why.contains("cannot read")));
        assert!(!tokens.is_good(""), "no token is not an empty one");
        fs::write(&path, "# ours\n one \n\ntwo\n").expect("written");
        tokens.read().expect("read");
        assert!(tokens.is_good("one") && tokens.is_good("two"));
        assert!(!tokens.is_good("# ours") && !tokens.is_good(""));
        fs::write(&path, "# none\n").expect("written");
        assert!(tokens.read().is_err_and(|why| why.contains("no token")));
        assert!(tokens.is_good("one"));
        fs::write(&path, "three").expect("written");
        tokens.read().expect("read");
        assert!(tokens.is_good("three") && !tokens.is_good("one"));
        fs::remove_file(&path).expect("removed");
    }
}
