//! Secrets that are shown to nobody, by all who write something down.
//!
//! Servers come while outlive runs, and bring secrets of their own. What was a secret once stays one: what a server
//! said before it was changed may still be on its way.

use std::sync::{Arc, PoisonError, RwLock};

use outlive::Secrets;

/// Secrets that are shown to nobody. Clones are the same.
#[derive(Clone, Debug, Default)]
pub struct Masks(Arc<RwLock<Secrets>>);

impl From<Secrets> for Masks {
    fn from(secrets: Secrets) -> Masks {
        Masks(Arc::new(RwLock::new(secrets)))
    }
}

impl Masks {
    /// These are secrets, too.
    pub fn learn(&self, more: Secrets) {
        let mut known = self.0.write().unwrap_or_else(PoisonError::into_inner);
        *known = std::mem::take(&mut *known).and(more);
    }

    /// The text with each secret replaced.
    pub fn mask(&self, text: &str) -> String {
        let known = self.0.read().unwrap_or_else(PoisonError::into_inner);
        known.mask(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use outlive::Command;

    #[test]
    fn what_is_learnt_is_masked_everywhere_and_nothing_is_forgotten() {
        let secrets = |value: &str| {
            let command = Command::new("x", [""; 0]).env("API_TOKEN", value);
            Secrets::of(&command)
        };
        let masks = Masks::from(secrets("first-secret"));
        let other = masks.clone();
        masks.learn(secrets("second-secret"));
        assert_eq!(other.mask("first-secret second-secret"), "*** ***");
    }
}
