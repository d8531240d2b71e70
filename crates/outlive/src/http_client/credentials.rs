//! Credentials that a program obtains when a server wants others.
//!
//! How one comes by a token (a browser and a person, a vault, a file) is the program's business. When it is needed, and
//! what is sent again with it, is decided by [`outlive_core::http_upstream`]. All links to a server share what was
//! obtained; of several links that want others one asks, and the others wait for what it gets.

use std::fmt;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use reqwest::header::HeaderValue;

/// Obtains credentials for a server. A closure that returns a future is one.
pub trait Credentials: Send + Sync + 'static {
    /// The value of `Authorization` from now on, as in `Bearer …`; `None` if there are no others to be had.
    fn obtain(&self, challenge: Challenge) -> impl Future<Output = Option<String>> + Send;
}

impl<F, Obtained> Credentials for F
where
    F: Fn(Challenge) -> Obtained + Send + Sync + 'static,
    Obtained: Future<Output = Option<String>> + Send,
{
    fn obtain(&self, challenge: Challenge) -> impl Future<Output = Option<String>> + Send {
        self(challenge)
    }
}

/// What a server says that wants other credentials.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Challenge {
    /// 401, or 403 if the credentials are known but not enough.
    pub status: u16,
    /// Its `WWW-Authenticate` header, if it sent one.
    pub authenticate: Option<String>,
}

type Obtained = Pin<Box<dyn Future<Output = Option<String>> + Send>>;
type Obtain = Arc<dyn Fn(Challenge) -> Obtained + Send + Sync>;

/// The credentials of a server that were obtained last; all links share them.
#[derive(Clone)]
pub(super) struct CredentialStore {
    obtain: Obtain,
    /// Held by whoever asks.
    asking: Arc<tokio::sync::Mutex<()>>,
    held: Arc<Mutex<Held>>,
}

#[derive(Clone, Default)]
struct Held {
    /// How often there were others.
    turn: u64,
    value: Option<HeaderValue>,
}

/// Shows that there is one; never what it holds.
impl fmt::Debug for CredentialStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("CredentialStore")
    }
}

impl CredentialStore {
    pub(super) fn new(credentials: impl Credentials) -> CredentialStore {
        let credentials = Arc::new(credentials);
        CredentialStore {
            obtain: Arc::new(move |challenge| {
                let credentials = credentials.clone();
                Box::pin(async move { credentials.obtain(challenge).await })
            }),
            asking: Arc::default(),
            held: Arc::default(),
        }
    }

    fn held(&self) -> MutexGuard<'_, Held> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The credentials as they are now, and which ones they are.
    pub(super) fn now(&self) -> (u64, Option<HeaderValue>) {
        let held = self.held();
        (held.turn, held.value.clone())
    }

    /// Obtains others than those of this turn, unless somebody else has; whether there are any.
    pub(super) async fn renew(&self, turn: u64, challenge: Challenge) -> bool {
        let _alone = self.asking.lock().await;
        if self.held().turn != turn {
            return true;
        }
        let obtained = (self.obtain)(challenge).await;
        let Some(mut value) = obtained.and_then(|value| HeaderValue::try_from(value).ok()) else {
            return false;
        };
        value.set_sensitive(true);
        let mut held = self.held();
        held.turn += 1;
        held.value = Some(value);
        true
    }

    /// A text without the credentials.
    pub(super) fn mask(&self, text: String) -> String {
        let held = self.held();
        let value = held.value.as_ref().and_then(|value| value.to_str().ok());
        match value.and_then(|value| value.split_whitespace().last()) {
            Some(secret) if text.contains(secret) => text.replace(secret, "***"),
            _ => text,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn what_is_held_is_not_shown() {
        let credential_store =
            CredentialStore::new(|_| async { Some("Bearer hunter55".to_string()) });
        let challenge = Challenge {
            status: 401,
            authenticate: None,
        };
        assert_eq!(credential_store.mask("hunter55".into()), "hunter55");
        assert!(credential_store.renew(0, challenge).await);
        assert_eq!(credential_store.mask("a hunter55 b".into()), "a *** b");
        assert!(!format!("{credential_store:?} {:?}", credential_store.now()).contains("hunter55"));
    }
}
